"""Bad input gives a typed error or a sensible result, and never damages the store.

The fixture `guarded` ends every test with `verify()` and compares the earlier document's results.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
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
from e2graphrag_integrations.options import grouped
from fakes import STORY, CountingLLM, LineCounter, NameExtractor, numbered

QUERY = "Did Anna meet Bert?"


class Embedder(HashingEmbedder):
    """The hashing embedder; `bad` replaces its results."""

    bad = None

    def embed(self, texts):
        return self.bad(super().embed(texts)) if self.bad else super().embed(texts)


class Extractor(NameExtractor):
    """The fake extractor; `bad` replaces its results."""

    bad = None

    def extract(self, texts):
        return self.bad(super().extract(texts)) if self.bad else super().extract(texts)


class Summarizer:
    """Digests; `bad` replaces them."""

    fingerprint = "fake"
    bad = None

    def __init__(self):
        self.llm = CountingLLM()

    def summarize(self, texts, *, level, max_tokens):
        return self.bad(texts) if self.bad else self.llm(str(texts))


class Guarded:
    """An index with one document, and its components, which tests then break."""

    def __init__(self, rag, components):
        self.rag = rag
        self.embedder, self.extractor, self.summarizer = components
        self.calls = self.summarizer.llm.calls


def _found(rag, where):
    """Return the hits in any order: their scores depend on the words of all documents."""
    nodes = rag.retrieve(QUERY, k=99, where=where).nodes
    return {(node.node_id, node.text, node.spans) for node in nodes}


def _of_story(rag):
    """Return the hits and the exported lines of the document `story`."""
    exported = [line for line in rag.export() if '"story"' in line]
    return _found(rag, {"document_id": "story"}), exported


def _parts(components):
    return dict(zip(("embedder", "extractor", "summarizer"), components, strict=True))


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """The folder of an index with one document, and what belongs to the document."""
    folder = tmp_path_factory.mktemp("guarded")
    parts = _parts((Embedder(), Extractor(), Summarizer()))
    options = grouped(parts | {"chunk_size": 16, "chunk_overlap": 4})
    with E2GraphRAG.open(folder / "i.e2g", **options) as rag:
        rag.add(SourceDocument("story", STORY, title="A Map", metadata={"kind": "tale"}))
        return folder, _of_story(rag)


@pytest.fixture
def guarded(made_once, tmp_path, open_index):
    folder, expected = made_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    components = embedder, extractor, summarizer = Embedder(), Extractor(), Summarizer()
    rag = open_index(tmp_path / "i.e2g", **_parts(components))
    yield Guarded(rag, components)
    embedder.bad = extractor.bad = summarizer.bad = None
    assert rag.verify().problems == ()
    assert _of_story(rag) == expected


def expect_rejection(guarded, error, match, document=None):
    """Expect an error from `add()` and no trace of the document."""
    with pytest.raises(error, match=match) as caught:
        guarded.rag.add(document or numbered(12))
    assert guarded.rag.document_ids == ["story"]
    return str(caught.value)


# Documents


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("text", ["", " ", " \n\t\r\n\u00a0\u3000 "])
def test_empty_document_is_stored_without_chunks_and_reported(guarded, text):
    report = guarded.rag.add(SourceDocument("empty", text))
    assert report.empty == ("empty",)
    assert report.chunks == 0
    assert guarded.rag.document("empty").text == text
    assert guarded.rag.add(SourceDocument("empty", text)).skipped == ("empty",)
    assert guarded.rag.retrieve("x", where={"document_id": "empty"}).nodes == ()
    guarded.rag.delete("empty")


def test_one_word_document_is_one_chunk_without_summary(guarded):
    report = guarded.rag.add(SourceDocument("word", "Waldo"))
    assert (report.chunks, report.summaries, report.llm_calls) == (1, 0, 0)
    assert guarded.rag.retrieve("Waldo", k=1).nodes[0].text == "Waldo"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("text", ["...", "😀", "-", "\u0301", "\0", "\u200b"])
def test_document_without_letters_is_indexed(guarded, text):
    report = guarded.rag.add(SourceDocument("odd", text))
    assert report.chunks == 1
    assert guarded.rag.retrieve("x", where={"document_id": "odd"}).nodes[0].text == text


@pytest.mark.slow
def test_two_megabyte_line_is_indexed(open_index):
    piece = "Anna met Bert at the old harbour and went on " + "walking " * 100
    line = piece * (2_000_000 // len(piece))
    llm = CountingLLM()
    rag = open_index(chunk_size=8000, chunk_overlap=0, summarizer=llm)
    document = SourceDocument("line", line.strip())
    assert len(document.text) > 1_900_000
    report = rag.add(document)
    assert report.chunks > 30
    assert 0 < report.llm_calls == llm.calls <= report.summaries  # equal groups share one call
    node = rag.retrieve("Anna Bert", k=1).nodes[0]
    assert document.text[node.start : node.end] == node.text
    assert rag.verify().ok


@pytest.mark.slow
def test_one_megabyte_word_is_indexed(open_index):
    rag = open_index(chunk_size=8000, chunk_overlap=100, summarizer=CountingLLM())
    report = rag.add(SourceDocument("word", "x" * 1_000_000))
    assert report.chunks == pytest.approx(1_000_000 / 7 / 7900, rel=0.1)
    assert rag.verify().ok


@pytest.mark.slow
def test_one_megabyte_line_passes_the_real_pipeline(open_index, real_extractor):
    line = "the old man walked on and on over the hill with Sherlock Holmes " * 15_600
    rag = open_index(extractor=real_extractor, chunk_size=1200, chunk_overlap=100)
    document = SourceDocument("line", line[:1_000_000])
    rag.add(document)
    assert "sherlock holmes" in rag.graph.names
    assert rag.verify().ok


def test_duplicate_id_in_one_call_is_rejected_before_any_write(guarded):
    with pytest.raises(DuplicateDocumentError, match="'twin' is given twice"):
        guarded.rag.add([SourceDocument("twin", "One."), SourceDocument("twin", "One.")])
    assert guarded.rag.document_ids == ["story"]


def test_same_text_under_two_ids_is_two_documents(guarded, story):
    guarded.rag.add(SourceDocument("copy", story.text, title=story.title))
    found = guarded.rag.retrieve(QUERY, k=20).nodes
    assert all({node.document_id, *node.also_in} == {"story", "copy"} for node in found)
    assert len({node.node_id for node in found}) == len(found) > 0
    guarded.rag.delete("copy")


def test_identical_chunks_of_one_document_have_distinct_ids(guarded):
    guarded.rag.add(SourceDocument("echo", "Anna met Bert in Oslo. " * 40))
    found = guarded.rag.retrieve("x", k=500, where={"document_id": "echo"}).nodes
    assert len({node.node_id for node in found}) == len(found) > 10


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    "fields",
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
def test_id_text_or_title_that_cannot_be_stored_is_rejected(guarded, fields):
    with pytest.raises(InvalidInputError, match=r"id|text|title"):
        SourceDocument(**({"id": "d", "text": "Text."} | fields))


@pytest.mark.fast_cases(1)
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
def test_metadata_that_is_not_json_is_rejected(guarded, metadata):
    with pytest.raises(InvalidInputError, match="metadata"):
        SourceDocument("d", "Text.", metadata=metadata)
    with pytest.raises(InvalidInputError, match="metadata"):
        SourceDocument("d", "Text.", segments=[(0, 2, metadata)])


def test_very_deeply_nested_metadata_is_rejected():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInputError, match="metadata"):
        SourceDocument("d", "Text.", metadata={"deep": deep})


def test_unusual_json_metadata_is_stored_and_can_be_filtered(guarded):
    metadata = {"": "empty key", "ключ": [1, {"a": None}], "$": 1, "n": 1.0, "big": 10**30}
    guarded.rag.add(SourceDocument("d", "Text.", metadata=metadata))
    assert guarded.rag.document("d").metadata == metadata
    for key in ("", "ключ", "n", "big"):
        found = guarded.rag.retrieve("x", where={key: metadata[key]}).nodes
        assert [node.document_id for node in found] == ["d"]


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    "segments",
    [
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
def test_segments_out_of_order_or_outside_the_text_are_rejected(guarded, segments):
    with pytest.raises(InvalidInputError, match="segment"):
        SourceDocument("d", "Text.", segments=segments)


@pytest.mark.parametrize("argument", [None, 5, object(), "text", [None]])
def test_every_call_rejects_arguments_that_are_not_documents_or_ids(guarded, argument):
    rag = guarded.rag
    for call in (rag.add, rag.update, rag.estimate):
        with pytest.raises(InvalidInputError, match="SourceDocument"):
            call(argument)
    if argument != "text":
        for call in (rag.delete, rag.document):
            with pytest.raises(InvalidInputError, match="id"):
                call(argument)


def test_progress_that_is_not_callable_is_rejected_before_any_work(guarded):
    with pytest.raises(InvalidInputError, match="progress=5"):
        guarded.rag.add(numbered(12), progress=5)
    assert guarded.summarizer.llm.calls == guarded.calls


@pytest.mark.parametrize(
    ("spans", "count"),
    [(lambda _: None, len), (lambda _: [], len), (str, len), (None, lambda _: None)],
)
def test_token_counter_with_invalid_results_is_rejected_before_any_write(
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


def test_summarizer_exception_names_the_document(guarded):
    def bad(texts):
        raise ZeroDivisionError("oops")

    guarded.summarizer.bad = bad
    message = expect_rejection(guarded, SummaryError, "ZeroDivisionError: oops")
    assert "document 'numbered'" in message


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("answer", ["", "  \n\t"])
def test_empty_summary_is_rejected(guarded, answer):
    guarded.summarizer.bad = lambda _: answer
    expect_rejection(guarded, SummaryError, "empty summary")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("answer", [None, 7, b"bytes", ["a list"]])
def test_summary_that_is_not_a_string_is_rejected(guarded, answer):
    guarded.summarizer.bad = lambda _: answer
    expect_rejection(
        guarded, SummaryError, rf"returned {type(answer).__name__}, not a text or a message"
    )


def test_summary_far_over_the_limit_is_cut_at_a_sentence(guarded):
    guarded.summarizer.bad = lambda _: (
        "The tale goes on and on. " * 5000
    )  # 35,000 tokens; the limit is 300
    report = guarded.rag.add(numbered(12))
    assert report.cut_summaries == report.llm_calls > 0
    where = {"document_id": "numbered"}
    summaries = [n for n in guarded.rag.retrieve("x", k=99, where=where).nodes if n.level]
    # a sentence has 7 tokens, so 42 fit in 300
    assert {node.text.count("tale") for node in summaries} == {42}
    assert all(node.text.endswith("on.") for node in summaries)


def test_summary_without_sentences_is_cut_between_tokens(guarded):
    guarded.summarizer.bad = lambda _: "word " * 50_000
    guarded.rag.add(numbered(12))
    where = {"document_id": "numbered"}
    summary = next(n for n in guarded.rag.retrieve("x", k=99, where=where).nodes if n.level)
    assert summary.text == " ".join(["word"] * 300)


def test_lone_surrogate_in_a_summary_is_replaced(guarded):
    guarded.summarizer.bad = lambda _: "half \ud83d an emoji"
    guarded.rag.add(numbered(12))
    where = {"document_id": "numbered"}
    summaries = [n for n in guarded.rag.retrieve("x", k=99, where=where).nodes if n.level]
    assert {node.text for node in summaries} == {"half ? an emoji"}


# Embedders


@pytest.mark.fast_cases(1)
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
def test_embedder_with_invalid_vectors_is_rejected(guarded, bad, match):
    guarded.embedder.bad = bad
    expect_rejection(guarded, EmbeddingError, match)


def test_error_for_one_invalid_vector_quotes_its_text(guarded):
    def bad(vectors):
        vectors[-1] = np.nan
        return vectors

    guarded.embedder.bad = bad
    expect_rejection(guarded, EmbeddingError, "for the text 'Item|for the text 'Digest")


def test_invalid_query_vector_is_an_embedding_error(guarded):
    guarded.embedder.bad = lambda v: v * np.nan
    with pytest.raises(EmbeddingError, match="NaN"):
        guarded.rag.retrieve("no names here")


def test_vectors_of_any_norm_are_normalized(guarded):
    guarded.embedder.bad = lambda v: v * 1e-20
    guarded.rag.add(numbered(12))
    scores = [n.score for n in guarded.rag.retrieve("Item 7 ends", mode="global", k=3).nodes]
    assert scores == sorted(scores, reverse=True)
    found = guarded.rag.retrieve("Item 7 ends", mode="global", k=3).trace.lists["dense"]
    assert 0.5 < found[0].figures["cosine"] <= 1.0001


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("call", ["embed", "extract"])
@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, StopIteration, MemoryError])
def test_component_exception_is_wrapped_on_add_and_on_retrieve(guarded, call, error):
    def bad(_):
        raise error("oops")

    component, kind = {
        "embed": (guarded.embedder, EmbeddingError),
        "extract": (guarded.extractor, ExtractionError),
    }[call]
    component.bad = bad
    expect_rejection(guarded, kind, rf"{call}\(\) failed.*{error.__name__}: '?oops")
    with pytest.raises(kind, match=rf"failed.*{error.__name__}: '?oops"):
        guarded.rag.retrieve("no names here")


# Extractors


def test_extractor_that_finds_nothing_leaves_global_retrieval(guarded, open_index, story):
    guarded.extractor.bad = lambda found: [[] for _ in found]
    guarded.rag.add(numbered(12))
    without_names = open_index(extractor=guarded.extractor)
    report = without_names.add(story)
    assert (report.entities, report.edges) == (0, 0)
    result = without_names.retrieve(QUERY, k=3)
    assert result.route == "global"
    assert len(result.nodes) == 3
    assert without_names.retrieve(QUERY, mode="local").nodes == ()


@pytest.mark.fast_cases(1)
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
def test_invalid_mention_is_rejected_and_names_the_chunk(guarded, mention):
    guarded.extractor.bad = lambda found: [[[mention]] for _ in found]
    message = expect_rejection(guarded, ExtractionError, "returned")
    assert "chunk 0 of document 'numbered'" in message


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bad", [lambda found: found[:-1], lambda found: [*found, []]])
def test_wrong_number_of_extraction_results_is_rejected(guarded, bad):
    guarded.extractor.bad = bad
    expect_rejection(guarded, ExtractionError, r"returned \d+ results for \d+ texts")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("answer", [None, 7, [None], [[None]]])
def test_extraction_results_that_are_not_lists_are_rejected(guarded, answer):
    guarded.extractor.bad = lambda found: answer if answer in (None, 7) else answer * len(found)
    expect_rejection(guarded, ExtractionError, "Extractor")


def test_mentions_without_a_word_are_dropped(guarded):
    guarded.extractor.bad = lambda found: [[[Mention(" - ", 0, 1), Mention("", 0, 0)]]] * len(found)
    report = guarded.rag.add(numbered(12))
    assert report.entities == 0
    guarded.rag.delete("numbered")


# Queries


@pytest.mark.parametrize("query", ["", " \n"])
def test_empty_query_is_rejected(guarded, query):
    with pytest.raises(InvalidInputError, match="empty"):
        guarded.rag.retrieve(query)


@pytest.mark.slow
def test_query_of_30_kilobytes_is_answered(guarded):
    query = "Did Anna meet Bert in Oslo, or was it Cleo in Rome? " * 600
    assert len(query) > 30_000
    for strategy in (HybridStrategy(), PaperStrategy()):
        result = guarded.rag.retrieve(query, k=3, strategy=strategy)
        links = [link.entity for link in result.trace.links]
        assert links == ["anna", "bert", "oslo", "cleo", "rome"]
        assert result.nodes
    assert len(guarded.rag.retrieve("no name at all " * 2000, k=3).nodes) == 3


@pytest.mark.slow
def test_query_of_30_kilobytes_passes_the_real_models(
    open_index, story, real_extractor, real_embedder
):
    class MostlyFakeEmbedder:
        """Real windows, but real vectors only for the first two queries, which saves seconds."""

        fingerprint = "capped"
        dimension = real_embedder.dimension
        max_tokens = real_embedder.max_tokens
        tokens = real_embedder.tokens
        calls = 0

        def embed(self, texts):
            return real_embedder.embed(texts)

        def embed_query(self, text):
            self.calls += 1
            assert self.tokens.count(text) <= self.max_tokens
            return real_embedder.embed_query(text) if self.calls < 3 else np.ones(self.dimension)

    embedder = MostlyFakeEmbedder()
    rag = open_index(extractor=real_extractor, embedder=embedder)
    rag.add(story)
    result = rag.retrieve("Who sailed away at night, and why did nobody ever ask? " * 560, k=2)
    assert len(result.nodes) == 2
    assert embedder.calls > 20


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    "query",
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
def test_query_in_another_script_or_without_letters_is_answered_globally(guarded, query):
    result = guarded.rag.retrieve(query, k=3)
    assert result.route == "global"
    assert len(result.nodes) == 3


@pytest.mark.parametrize("query", ["安娜在奥斯陆遇见了谁？", "من قابلت آنا؟", "😀 \ud83d", "\0"])
def test_real_pipeline_accepts_queries_in_any_script(open_index, story, real_extractor, query):
    rag = open_index(extractor=real_extractor)
    rag.add(story)
    assert len(rag.retrieve(query, k=2).nodes) == 2


def test_lone_surrogate_in_a_query_is_ignored(guarded):
    result = guarded.rag.retrieve("Did Anna \ud83d meet Bert?", k=2)
    assert [link.entity for link in result.trace.links] == ["anna", "bert"]
    assert result.question == "Did Anna \ud83d meet Bert?"


def test_missing_pipeline_error_gives_the_download_command(open_index, story):
    from e2graphrag_integrations.errors import MissingDependencyError

    rag = open_index(extractor=SpacyEntityExtractor("xx_nowhere_lg"))
    with pytest.raises(MissingDependencyError, match="python -m spacy download xx_nowhere_lg"):
        rag.add(story)
    assert rag.document_ids == []
