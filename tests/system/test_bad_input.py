"""Bad input, case by case: a typed error or a sensible result, and a store unharmed.

Every test ends, in the fixture `guarded`, with `verify()` and with the older document's answer.
"""

from __future__ import annotations

import numpy as np
import pytest

from e2graphrag_integrations import (
    HashingEmbedder,
    HybridStrategy,
    Mention,
    PaperStrategy,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    E2GraphRAGError,
    EmbeddingError,
    ExtractionError,
    InvalidInputError,
    SummaryError,
)
from fakes import CountingLLM, LineCounter, NameExtractor, numbered

ASKED = "Did Anna meet Bert?"


class Embedder(HashingEmbedder):
    """The hashing embedder, until something is put in its place."""

    bad = None

    def embed(self, texts):
        return self.bad(super().embed(texts)) if self.bad else super().embed(texts)


class Extractor(NameExtractor):
    """The fake extractor, until something is put in its place."""

    bad = None

    def extract(self, texts):
        return self.bad(super().extract(texts)) if self.bad else super().extract(texts)


class Summarizer:
    fingerprint = "fake"
    bad = None

    def __init__(self):
        self.llm = CountingLLM()

    def summarize(self, texts, *, level, max_tokens):
        return self.bad(texts) if self.bad else self.llm(str(texts))


class Guarded:
    """An index that holds the story already; its parts can be broken now."""

    def __init__(self, rag, parts):
        self.rag = rag
        self.embedder, self.extractor, self.summarizer = parts
        self.calls = self.summarizer.llm.calls


@pytest.fixture
def guarded(tmp_path, open_index, story):
    parts = Embedder(), Extractor(), Summarizer()
    embedder, extractor, summarizer = parts
    rag = open_index(
        tmp_path / "i.e2g", embedder=embedder, extractor=extractor, summarizer=summarizer
    )
    rag.add(story)
    only = {"document_id": "story"}
    expected = rag.retrieve(ASKED, k=3, where=only).nodes
    exported = [line for line in rag.export() if '"story"' in line]
    yield Guarded(rag, parts)
    embedder.bad = extractor.bad = summarizer.bad = None
    assert rag.verify().problems == ()
    assert rag.retrieve(ASKED, k=3, where=only).nodes == expected
    assert [line for line in rag.export() if '"story"' in line] == exported


def refuse(guarded, error, match, document=None):
    """Expect an error on adding, and nothing left of the document."""
    with pytest.raises(error, match=match) as caught:
        guarded.rag.add(document or numbered(12))
    assert guarded.rag.document_ids == ["story"]
    return str(caught.value)


# Documents


@pytest.mark.parametrize("text", ["", " ", " \n\t\r\n\u00a0\u3000 "])
def test_an_empty_document_is_kept_without_chunks_and_reported(guarded, text):
    report = guarded.rag.add(SourceDocument("empty", text))
    assert report.empty == ("empty",)
    assert report.chunks == 0
    assert guarded.rag.document("empty").text == text
    assert guarded.rag.add(SourceDocument("empty", text)).skipped == ("empty",)
    assert guarded.rag.retrieve("x", where={"document_id": "empty"}).nodes == ()
    guarded.rag.delete("empty")


def test_one_word_is_one_chunk_without_summary(guarded):
    report = guarded.rag.add(SourceDocument("word", "Waldo"))
    assert (report.chunks, report.summaries, report.llm_calls) == (1, 0, 0)
    assert guarded.rag.retrieve("Waldo", k=1).nodes[0].text == "Waldo"


@pytest.mark.parametrize("text", ["...", "😀", "-", "\u0301", "\0", "\u200b"])
def test_a_document_without_letters_is_taken(guarded, text):
    report = guarded.rag.add(SourceDocument("odd", text))
    assert report.chunks == 1
    assert guarded.rag.retrieve("x", where={"document_id": "odd"}).nodes[0].text == text


def test_a_line_of_ten_megabytes_is_indexed(open_index):
    piece = "Anna met Bert at the old harbour and went on " + "walking " * 100
    line = piece * (10_000_000 // len(piece))
    llm = CountingLLM()
    rag = open_index(chunk_size=8000, chunk_overlap=0, summarizer=llm)
    document = SourceDocument("line", line.strip())
    assert len(document.text) > 9_900_000
    report = rag.add(document)
    assert report.chunks > 150
    assert 0 < report.llm_calls == llm.calls <= report.summaries  # equal groups share a call
    node = rag.retrieve("Anna Bert", k=1).nodes[0]
    assert document.text[node.start : node.end] == node.text
    assert rag.verify().ok


def test_a_word_of_a_megabyte_is_indexed(open_index):
    rag = open_index(chunk_size=8000, chunk_overlap=100, summarizer=CountingLLM())
    report = rag.add(SourceDocument("word", "x" * 1_000_000))
    assert report.chunks == pytest.approx(1_000_000 / 7 / 7900, rel=0.1)
    assert rag.verify().ok


def test_a_line_of_a_megabyte_goes_through_the_real_pipeline(open_index, real_extractor):
    line = "the old man walked on and on over the hill with Sherlock Holmes " * 15_600
    rag = open_index(extractor=real_extractor, chunk_size=1200, chunk_overlap=100)
    document = SourceDocument("line", line[:1_000_000])
    rag.add(document)
    assert "sherlock holmes" in rag.graph.names
    assert rag.verify().ok


def test_an_id_given_twice_is_refused_before_anything_is_written(guarded):
    with pytest.raises(DuplicateDocumentError, match="'twin' is given twice"):
        guarded.rag.add([SourceDocument("twin", "One."), SourceDocument("twin", "One.")])
    assert guarded.rag.document_ids == ["story"]


def test_the_same_text_under_two_ids_is_two_documents(guarded, story):
    guarded.rag.add(SourceDocument("copy", story.text, title=story.title))
    found = guarded.rag.retrieve(ASKED, k=20).nodes
    assert {node.document_id for node in found} == {"story", "copy"}
    assert len({node.node_id for node in found}) == len(found)
    guarded.rag.delete("copy")


def test_a_text_that_repeats_itself_keeps_every_chunk_apart(guarded):
    guarded.rag.add(SourceDocument("echo", "Anna met Bert in Oslo. " * 40))
    found = guarded.rag.retrieve("x", k=500, where={"document_id": "echo"}).nodes
    assert len({node.node_id for node in found}) == len(found) > 10


@pytest.mark.parametrize(
    "options",
    [
        {"id": ""},
        {"id": "  "},
        {"id": None},
        {"id": 7},
        {"id": "a\ud800"},
        {"text": "lone \udfff surrogate"},
        {"text": None},
        {"text": b"bytes"},
        {"title": "lone \ud83d"},
        {"title": 5},
    ],
)
def test_an_id_text_or_title_that_cannot_be_stored_is_refused(guarded, options):
    with pytest.raises(InvalidInputError, match=r"id|text|title"):
        SourceDocument(**({"id": "d", "text": "Text."} | options))


@pytest.mark.parametrize(
    "metadata",
    [
        {"when": object()},
        {"when": {1, 2}},
        {"x": float("nan")},
        {"x": float("inf")},
        {1: "number as key"},
        {"x": {1: 2, "b": 3}},
        {"x": b"bytes"},
        {"x": "\ud800"},
        {"\ud800": "x"},
        {"document_id": "reserved"},
        "a string",
        None,
    ],
)
def test_metadata_that_is_no_json_is_refused(guarded, metadata):
    with pytest.raises(InvalidInputError, match="metadata"):
        SourceDocument("d", "Text.", metadata=metadata)
    with pytest.raises(InvalidInputError, match="metadata"):
        SourceDocument("d", "Text.", segments=[(0, 2, metadata)])


def test_metadata_nested_beyond_all_measure_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInputError, match="metadata"):
        SourceDocument("d", "Text.", metadata={"deep": deep})


def test_strange_but_plain_metadata_is_kept_and_filtered_by(guarded):
    metadata = {"": "empty key", "ключ": [1, {"a": None}], "$": 1, "n": 1.0, "big": 10**30}
    guarded.rag.add(SourceDocument("d", "Text.", metadata=metadata))
    assert guarded.rag.document("d").metadata == metadata
    for key in ("", "ключ", "n", "big"):
        found = guarded.rag.retrieve("x", where={key: metadata[key]}).nodes
        assert [node.document_id for node in found] == ["d"]


@pytest.mark.parametrize(
    "segments",
    [
        [(0, 3, {}), (2, 4, {})],
        [(3, 4, {}), (0, 2, {})],
        [(0, 99, {})],
        [(-1, 2, {})],
        [(3, 2, {})],
        [(0.0, 2.0, {})],
        [(0, 2)],
        [7],
        [("a", "b", {})],
    ],
)
def test_segments_that_overlap_or_lie_outside_are_refused(guarded, segments):
    with pytest.raises(InvalidInputError, match="segment"):
        SourceDocument("d", "Text.", segments=segments)


@pytest.mark.parametrize("given", [None, 5, object(), "text", [None]])
def test_what_is_no_document_or_id_is_refused_by_every_call(guarded, given):
    rag = guarded.rag
    for call in (rag.add, rag.update, rag.estimate):
        with pytest.raises(InvalidInputError, match="SourceDocument"):
            call(given)
    if given != "text":
        for call in (rag.delete, rag.document):
            with pytest.raises(InvalidInputError, match="id"):
                call(given)


def test_a_listener_that_is_no_function_is_refused_before_any_work(guarded):
    with pytest.raises(InvalidInputError, match="progress=5"):
        guarded.rag.add(numbered(12), progress=5)
    assert guarded.summarizer.llm.calls == guarded.calls


@pytest.mark.parametrize(
    ("spans", "count"),
    [(lambda _: None, len), (lambda _: [], len), (str, len), (None, lambda _: None)],
)
def test_a_token_counter_that_counts_nothing_is_refused_before_anything_is_written(
    open_index, story, spans, count
):
    class Counter(LineCounter):
        def spans(self, text):
            return spans(text) if spans else super().spans(text)

        def count(self, text):
            return count(text)

    summarizer = CountingLLM()
    rag = open_index(token_counter=Counter(), summarizer=summarizer, chunk_size=1, chunk_overlap=0)
    document = SourceDocument("lines", story.text.replace(". ", ".\n"))
    for call in (rag.estimate, rag.add):
        with pytest.raises(E2GraphRAGError, match=r"Counter\.(spans|count)\(\)"):
            call(document)
    assert rag.document_ids == []
    assert rag.verify().ok


# Summarizers


def test_a_summarizer_that_raises_is_named_with_its_place(guarded):
    def bad(texts):
        raise ZeroDivisionError("oops")

    guarded.summarizer.bad = bad
    message = refuse(guarded, SummaryError, "ZeroDivisionError: oops")
    assert "document 'numbered'" in message


@pytest.mark.parametrize("answer", ["", "  \n\t"])
def test_a_summarizer_that_returns_nothing_is_refused(guarded, answer):
    guarded.summarizer.bad = lambda _: answer
    refuse(guarded, SummaryError, "empty summary")


@pytest.mark.parametrize("answer", [None, 7, b"bytes", ["a list"]])
def test_a_summarizer_that_returns_no_text_is_refused(guarded, answer):
    guarded.summarizer.bad = lambda _: answer
    refuse(guarded, SummaryError, rf"returned {type(answer).__name__}, not str")


def test_a_summary_a_hundred_times_too_long_is_cut_at_a_sentence(guarded):
    guarded.summarizer.bad = lambda _: "The tale goes on and on. " * 5000  # 35,000 of 300 tokens
    report = guarded.rag.add(numbered(12))
    assert report.cut_summaries == report.llm_calls > 0
    where = {"document_id": "numbered"}
    tops = [n for n in guarded.rag.retrieve("x", k=99, where=where).nodes if n.level]
    # 7 tokens a sentence: 42 of them in 300
    assert {node.text.count("tale") for node in tops} == {42}
    assert all(node.text.endswith("on.") for node in tops)


def test_a_summary_without_a_sentence_is_cut_between_tokens(guarded):
    guarded.summarizer.bad = lambda _: "word " * 50_000
    guarded.rag.add(numbered(12))
    where = {"document_id": "numbered"}
    [top] = [n for n in guarded.rag.retrieve("x", k=99, where=where).nodes if n.level][:1]
    assert top.text == " ".join(["word"] * 300)


def test_a_lone_surrogate_in_a_summary_is_replaced(guarded):
    guarded.summarizer.bad = lambda _: "half \ud83d an emoji"
    guarded.rag.add(numbered(12))
    where = {"document_id": "numbered"}
    tops = [n for n in guarded.rag.retrieve("x", k=99, where=where).nodes if n.level]
    assert {node.text for node in tops} == {"half ? an emoji"}


# Embedders


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (lambda v: v * np.nan, "NaN"),
        (lambda v: v / 0.0, "NaN or infinity"),
        (np.zeros_like, "zero vector"),
        (lambda v: v[:, :-1], r"shape \(\d+, 255\)"),
        (lambda v: v[:-1], r"shape"),
        (lambda v: np.vstack([v, v]), r"shape"),
        (lambda v: v.ravel(), r"shape"),
        (lambda _: None, r"shape|array"),
        (lambda _: "vectors", "array of numbers"),
        (lambda v: [row[: 200 + n] for n, row in enumerate(v)], "array of numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
def test_an_embedder_that_returns_no_vectors_is_refused(guarded, bad, match):
    guarded.embedder.bad = bad
    refuse(guarded, EmbeddingError, match)


def test_one_bad_vector_among_good_ones_names_its_text(guarded):
    def bad(vectors):
        vectors[-1] = np.nan
        return vectors

    guarded.embedder.bad = bad
    refuse(guarded, EmbeddingError, "for the text 'Item|for the text 'Digest")


def test_an_embedder_that_fails_on_a_question_gives_a_typed_error(guarded):
    guarded.embedder.bad = lambda v: v * np.nan
    with pytest.raises(EmbeddingError, match="NaN"):
        guarded.rag.retrieve("no names here")


def test_vectors_of_any_length_are_normalized(guarded):
    guarded.embedder.bad = lambda v: v * 1e-20
    guarded.rag.add(numbered(12))
    scores = [n.score for n in guarded.rag.retrieve("Item 7 ends", mode="global", k=3).nodes]
    assert scores == sorted(scores, reverse=True)
    found = guarded.rag.retrieve("Item 7 ends", mode="global", k=3).trace.lists["dense"]
    assert 0.5 < found[0].figures["cosine"] <= 1.0001


@pytest.mark.parametrize("call", ["embed", "extract"])
@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, StopIteration, MemoryError])
def test_a_part_that_raises_is_named_on_adding_and_on_asking(guarded, call, error):
    def bad(_):
        raise error("oops")

    part, kind = {
        "embed": (guarded.embedder, EmbeddingError),
        "extract": (guarded.extractor, ExtractionError),
    }[call]
    part.bad = bad
    refuse(guarded, kind, rf"{call}\(\) failed.*{error.__name__}: '?oops")
    with pytest.raises(kind, match=rf"failed.*{error.__name__}: '?oops"):
        guarded.rag.retrieve("no names here")


# Extractors


def test_an_extractor_that_finds_nothing_leaves_global_answers(guarded, open_index, story):
    guarded.extractor.bad = lambda found: [[] for _ in found]
    guarded.rag.add(numbered(12))
    alone = open_index(extractor=guarded.extractor)
    report = alone.add(story)
    assert (report.entities, report.edges) == (0, 0)
    result = alone.retrieve(ASKED, k=3)
    assert result.route == "global"
    assert len(result.nodes) == 3
    assert alone.retrieve(ASKED, mode="local").nodes == ()


@pytest.mark.parametrize(
    "mention",
    [
        Mention("Item", 0, 5000),
        Mention("Item", -1, 3),
        Mention("Item", 3, 1),
        Mention(None, 0, 1),
        ("Item", 0),
        ("Item", "a", "b", "PERSON"),
        "Item",
        None,
    ],
)
def test_mentions_outside_their_text_are_refused_naming_the_chunk(guarded, mention):
    guarded.extractor.bad = lambda found: [[[mention]] for _ in found]
    message = refuse(guarded, ExtractionError, "returned")
    assert "chunk 0 of document 'numbered'" in message


@pytest.mark.parametrize("bad", [lambda found: found[:-1], lambda found: [*found, []]])
def test_the_wrong_number_of_results_is_refused(guarded, bad):
    guarded.extractor.bad = bad
    refuse(guarded, ExtractionError, r"returned \d+ results for \d+ texts")


@pytest.mark.parametrize("answer", [None, 7, [None], [[None]]])
def test_an_extractor_that_returns_no_lists_is_refused(guarded, answer):
    guarded.extractor.bad = lambda found: answer if answer in (None, 7) else answer * len(found)
    refuse(guarded, ExtractionError, "Extractor")


def test_mentions_without_a_word_are_dropped(guarded):
    guarded.extractor.bad = lambda found: [[[Mention(" - ", 0, 1), Mention("", 0, 0)]]] * len(found)
    report = guarded.rag.add(numbered(12))
    assert report.entities == 0
    guarded.rag.delete("numbered")


# Questions


@pytest.mark.parametrize("question", ["", " \n"])
def test_an_empty_question_is_refused(guarded, question):
    with pytest.raises(InvalidInputError, match="empty"):
        guarded.rag.retrieve(question)


def test_a_question_of_100_kilobytes_is_answered(guarded):
    question = "Did Anna meet Bert in Oslo, or was it Cleo in Rome? " * 2000
    assert len(question) > 100_000
    for strategy in (HybridStrategy(), PaperStrategy()):
        result = guarded.rag.retrieve(question, k=3, strategy=strategy)
        links = [link.entity for link in result.trace.links]
        assert links == ["anna", "bert", "oslo", "cleo", "rome"]
        assert result.nodes
    assert len(guarded.rag.retrieve("no name at all " * 7000, k=3).nodes) == 3


def test_a_question_of_100_kilobytes_goes_through_the_real_models(
    open_index, story, real_extractor, real_embedder
):
    class Capped:
        """The real model with its windows, but few of them: 100 kB would take many seconds."""

        fingerprint = "capped"
        dimension = real_embedder.dimension
        max_tokens = real_embedder.max_tokens
        tokens = real_embedder.tokens
        asked = 0

        def embed(self, texts):
            return real_embedder.embed(texts)

        def embed_query(self, text):
            self.asked += 1
            assert self.tokens.count(text) <= self.max_tokens
            return real_embedder.embed_query(text) if self.asked < 4 else np.ones(self.dimension)

    embedder = Capped()
    rag = open_index(extractor=real_extractor, embedder=embedder)
    rag.add(story)
    result = rag.retrieve("Who sailed away at night, and why did nobody ever ask? " * 1900, k=2)
    assert len(result.nodes) == 2
    assert embedder.asked > 50


@pytest.mark.parametrize(
    "question",
    [
        "安娜在奥斯陆遇见了谁？",
        "من قابلت آنا؟",
        "Кого встретила Анна?",
        "😀😀",
        "?!",
        "\0",
        "x" * 5000,
    ],
)
def test_a_question_in_another_script_or_none_is_answered_globally(guarded, question):
    result = guarded.rag.retrieve(question, k=3)
    assert result.route == "global"
    assert len(result.nodes) == 3


@pytest.mark.parametrize("question", ["安娜在奥斯陆遇见了谁？", "من قابلت آنا؟", "😀 \ud83d", "\0"])
def test_the_real_pipeline_reads_any_script(open_index, story, real_extractor, question):
    rag = open_index(extractor=real_extractor)
    rag.add(story)
    assert len(rag.retrieve(question, k=2).nodes) == 2


def test_a_lone_surrogate_in_a_question_is_read_over(guarded):
    result = guarded.rag.retrieve("Did Anna \ud83d meet Bert?", k=2)
    assert [link.entity for link in result.trace.links] == ["anna", "bert"]
    assert result.question == "Did Anna \ud83d meet Bert?"


def test_a_pipeline_that_is_not_installed_gives_the_command(open_index, story):
    from e2graphrag_integrations.errors import MissingDependencyError

    rag = open_index(extractor=SpacyEntityExtractor("xx_nowhere_lg"))
    with pytest.raises(MissingDependencyError, match="python -m spacy download xx_nowhere_lg"):
        rag.add(story)
    assert rag.document_ids == []
