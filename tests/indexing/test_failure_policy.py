"""Failed documents: the others are indexed, errors are reported, hopeless runs are aborted."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from e2graphrag_integrations import HashingEmbedder, Mention, SourceDocument
from e2graphrag_integrations.errors import (
    EmbeddingError,
    ExtractionError,
    IndexingError,
    InvalidInputError,
    StoreError,
    SummaryError,
)
from e2graphrag_integrations.indexing import pipeline, planning
from e2graphrag_integrations.indexing.run import FailurePolicy
from e2graphrag_integrations.indexing.stages import embedding, extraction
from fakes import CountingLLM, NameExtractor, numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0, "concurrency": 1}
BAD = "Zzz"
KINDS = {
    "summary": (SummaryError, "ValueError: no words for it"),
    "extractor raises": (ExtractionError, "RuntimeError: cannot read it"),
    "extractor leaves the text": (ExtractionError, "the span must lie within the text's"),
    "embedder raises": (EmbeddingError, "RuntimeError: cannot embed it"),
    "embedder returns NaN": (EmbeddingError, "NaN or infinity"),
    "embedder fails on the summary": (EmbeddingError, "RuntimeError: cannot embed it"),
    "splitter raises": (InvalidInputError, "RuntimeError: cannot cut it"),
    "splitter leaves text out": (InvalidInputError, "omitted the end of document"),
}


class MarkedExtractor(NameExtractor):
    def __init__(self, kind):
        self.kind = kind

    def extract(self, texts):
        if self.kind == "extractor raises" and any(BAD in text for text in texts):
            raise RuntimeError("cannot read it")
        found = super().extract(texts)
        for text, sentences in zip(texts, found, strict=True):
            if self.kind == "extractor leaves the text" and BAD in text:
                sentences.append([Mention(BAD, 0, len(text) + 1, "PERSON")])
        return found


class MarkedEmbedder(HashingEmbedder):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def embed(self, texts):
        word = "Digest of Zzz" if self.kind == "embedder fails on the summary" else BAD
        marked = [word in text for text in texts]
        if self.kind in ("embedder raises", "embedder fails on the summary") and any(marked):
            raise RuntimeError("cannot embed it")
        vectors = super().embed(texts)
        if self.kind == "embedder returns NaN":
            vectors[marked] = np.nan
        return vectors


def parts(kind):
    """Return options with which a document that contains `BAD` fails in one stage."""
    llm = CountingLLM()

    def summarize(prompt):
        if kind == "summary" and BAD in prompt:
            raise ValueError("no words for it")
        return ("Digest of Zzz. " if BAD in prompt else "") + llm(prompt)

    def split(text):
        if kind == "splitter raises" and BAD in text:
            raise RuntimeError("cannot cut it")
        spans = [match.span() for match in re.finditer(r"[^ .][^.]*\.", text)]
        return spans[:-1] if kind == "splitter leaves text out" and BAD in text else spans

    return {
        "summarizer": summarize,
        "llm_id": "marked",
        "extractor": MarkedExtractor(kind),
        "embedder": MarkedEmbedder(kind),
        "splitter": split,
        **FOUR,
    }


def marked(document_id="bad", first=0):
    """Return a failing document; all its chunks but one are those of `numbered`."""
    before, after = numbered(5, "any", first).text, numbered(5, "any", first + 5).text
    return SourceDocument(document_id, f"{before} Zzz came in. {after}")


def states(rag):
    return {state.id: state.status for state in rag.status()}


# Policies


def test_fail_fast_raises_and_records_nothing():
    policy, error = FailurePolicy(), SummaryError("no")
    policy.record_success(SummaryError)
    with pytest.raises(SummaryError) as caught:
        policy.record_failure(["a", "b"], error)
    assert caught.value is error
    assert policy.failed == {}


def test_skip_failed_skips_a_single_document_and_no_group():
    failed = []
    policy = FailurePolicy(lambda id_, error: failed.append((id_, str(error))))
    assert policy.record_failure(["a", "b"], IndexingError("whose?")) is False
    assert failed == []
    assert policy.failed == {}
    first = SummaryError("first")
    assert policy.record_failure(["a"], first) is True
    assert policy.record_failure(["a"], IndexingError("again")) is True
    assert failed == [("a", "first")]
    assert policy.failed == {"a": first}


def test_skip_failed_aborts_after_three_failures_before_any_success():
    policy = FailurePolicy(lambda *_: None)
    policy.record_success(EmbeddingError)  # of another type, which does not count
    errors = [SummaryError("one"), SummaryError("two"), SummaryError("three")]
    assert policy.record_failure(["other"], EmbeddingError("of this document"))
    assert policy.record_failure(["a"], errors[0])
    assert policy.record_failure(["b"], errors[1])
    with pytest.raises(SummaryError) as caught:
        policy.record_failure(["c"], errors[2])
    assert caught.value is errors[0]
    assert list(policy.failed) == ["other", "a", "b", "c"]
    with pytest.raises(SummaryError, match="one"):  # and every later one
        policy.record_failure(["d"], errors[2])


def test_skip_failed_aborts_after_thirty_consecutive_failures():
    policy = FailurePolicy(lambda *_: None)
    policy.record_success(IndexingError)
    for n in range(100):
        assert policy.record_failure([str(n)], IndexingError("no"))
        if n % 20 == 19:
            policy.record_success(IndexingError)
    for n in range(100, 129):
        assert policy.record_failure([str(n)], IndexingError("no"))
    with pytest.raises(IndexingError):
        policy.record_failure(["129"], IndexingError("no"))
    assert len(policy.failed) == 130


def test_skip_failed_raises_the_error_of_its_callback():
    def on_failure(document_id, error):
        raise StoreError("disk full")

    policy = FailurePolicy(on_failure)
    for id_ in "abc":
        with pytest.raises(StoreError, match="disk full"):
            policy.record_failure([id_], SummaryError(id_))
    with pytest.raises(SummaryError, match="a"):  # they count as failures
        policy.record_failure(["c"], SummaryError("c"))


def test_skip_failed_counts_correctly_from_many_threads():
    failed = []
    policy = FailurePolicy(lambda id_, _: failed.append(id_))
    policy.record_success(IndexingError)
    ids = [str(n % 25) for n in range(800)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda id_: policy.record_failure([id_], IndexingError(id_)), ids))
    assert sorted(failed) == sorted(set(ids))
    assert {id_: str(error) for id_, error in policy.failed.items()} == {i: i for i in ids}


def test_skip_failed_skips_exactly_two_documents_from_many_threads():
    policy = FailurePolicy(lambda *_: None)

    def outcome(number):
        try:
            return policy.record_failure([str(number)], IndexingError(str(number)))
        except IndexingError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(outcome, range(100)))
    assert outcomes.count(True) == 2
    first = next(iter(policy.failed))
    assert set(outcomes) == {True, first}


# With an index


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize(("batch", "slice_"), [(1, 64), (1000, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_index_equals_one_without_the_failed_document(
    open_index, monkeypatch, kind, batch, slice_, place
):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", batch)
    monkeypatch.setattr(extraction, "_SLICE_SIZE", slice_)
    monkeypatch.setattr(embedding, "_SLICE_SIZE", slice_)
    good = [
        numbered(12, "a"),  # shares its first ten chunks with the bad one
        SourceDocument("b", "Anna met Bert. Item 0 ends. Cleo saw Dora.", title="Harbour"),
        SourceDocument("empty", " \n"),
    ]
    alone = open_index(**parts("none"))
    alone.add(good)
    rag = open_index(**parts(kind))
    report = rag.add([*good[:place], marked(), *good[place:]])
    assert list(rag.export()) == list(alone.export())
    assert rag.verify().ok
    error, reason = KINDS[kind]
    assert list(report.failed) == ["bad"]
    assert reason in report.failed["bad"]
    assert (report.documents, report.chunks, report.saved_calls) == (3, 15, 0)
    assert states(rag) == {"a": "done", "b": "done", "bad": "failed", "empty": "done"}
    [state] = [state for state in rag.status() if state.status == "failed"]
    assert (state.reason, state.indexed) == (report.failed["bad"], False)
    with pytest.raises(error):  # fails again
        rag.resume()


def test_a_failing_text_fails_only_the_documents_that_contain_it(open_index):
    rag = open_index(**parts("embedder returns NaN"))
    both = [SourceDocument(name, f"Zzz came in. {name} met Dora.") for name in ("Anna", "Bert")]
    report = rag.add([both[0], numbered(4), both[1]])
    assert list(report.failed) == ["Anna", "Bert"]
    assert rag.document_ids == ["numbered"]
    assert rag.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_if_all_documents_fail_the_first_error_is_raised(open_index, kind):
    rag = open_index(**parts(kind))
    error, reason = KINDS[kind]
    with pytest.raises(error, match=re.escape(reason)) as caught:
        rag.add([marked("x"), marked("y", 30)])
    assert type(caught.value) is error
    assert rag.document_ids == []
    assert states(rag) == {"x": "failed", "y": "failed"}
    assert next(state.reason for state in rag.status()) == str(caught.value)
    assert rag.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_update_keeps_the_old_version_and_updates_the_rest(open_index, kind):
    rag = open_index(**parts(kind))
    rag.add([numbered(11, "bad"), numbered(6, "a")])
    expected = open_index(**parts("none"))
    expected.add([numbered(11, "bad"), numbered(7, "a")])
    report = rag.update([marked(), numbered(7, "a")])
    assert list(report.failed) == ["bad"]
    assert list(rag.export()) == list(expected.export())
    assert rag.verify().ok


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "summary" not in kind])
def test_three_failures_at_the_start_abort_the_run(open_index, monkeypatch, kind):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", 1)
    options = parts(kind)
    prompts = []
    options["summarizer"] = lambda p, ask=options["summarizer"]: prompts.append(p) or ask(p)
    rag = open_index(**options)
    bad = [marked(f"bad{n}", 100 * n) for n in range(3)]
    later = [numbered(6, f"good{n}", 1000 + 100 * n) for n in range(5)]
    error, reason = KINDS[kind]
    with pytest.raises(error, match=re.escape(reason)):
        rag.add([*bad, *later])
    assert rag.document_ids == []
    found = states(rag)
    assert [found[d.id] for d in bad] == ["failed"] * 3
    assert [found[d.id] for d in later[1:]] == ["pending"] * 4
    assert not any("Item 11" in prompt for prompt in prompts)  # of `later[1:]`
    assert rag.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_success_many_documents_can_fail(open_index, monkeypatch, kind):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", 1)
    rag = open_index(**parts(kind))
    bad = [marked(f"bad{n}", 100 * n) for n in range(6)]
    report = rag.add([numbered(6, "first"), *bad, numbered(6, "last", 900)])
    assert list(report.failed) == [document.id for document in bad]
    assert rag.document_ids == ["first", "last"]
    assert rag.verify().ok


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", ["summary", "extractor raises", "splitter raises"])
def test_three_bad_documents_do_not_block_the_others_forever(open_index, kind):
    rag = open_index(**parts(kind))
    documents = [numbered(2, f"d{n:02}", 10 * n) for n in range(40)]
    documents[20:23] = [marked(f"d{n}", 10 * n) for n in (20, 21, 22)]
    for work in (lambda: rag.add(documents), rag.resume):
        try:
            work()
        except (IndexingError, InvalidInputError):
            continue
    assert len(rag.document_ids) == 37


async def test_aadd_skips_failed_documents_like_add(open_index):
    rag, other = open_index(**parts("summary")), open_index(**parts("summary"))
    documents = [numbered(12, "a"), marked(), numbered(3, "b", 40)]
    report = await rag.aadd(documents)
    assert report.failed == other.add(documents).failed
    assert list(report.failed) == ["bad"]
    assert list(rag.export()) == list(other.export())
    with pytest.raises(SummaryError, match="no words for it"):
        await rag.aadd(marked("worse", 50))


async def test_an_async_summarizer_can_fail_for_one_document(open_index):
    made = parts("summary")
    ask = made["summarizer"]

    async def summarize(prompt):
        return ask(prompt)

    rag = open_index(**{**made, "summarizer": summarize})
    assert list((await rag.aadd([marked(), numbered(12, "a")])).failed) == ["bad"]
    assert rag.document_ids == ["a"]


def test_a_broken_extractor_is_called_only_four_times(open_index):
    class Gone(NameExtractor):
        calls = 0

        def extract(self, texts):
            self.calls += 1
            raise RuntimeError("gone")

    extractor = Gone()
    rag = open_index(extractor=extractor, **FOUR)
    with pytest.raises(ExtractionError, match="gone"):
        rag.add([numbered(2, f"d{n}", 10 * n) for n in range(30)])
    assert extractor.calls == 1 + 3  # the slice, then three single documents


# Failures that no document caused


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("room", [0, 1, 3, 8, 20])
def test_a_full_disk_aborts_the_run_and_leaves_a_valid_file(tmp_path, open_index, room):
    rag = open_index(tmp_path / "i.e2g", **parts("none"))
    rag.add(numbered(6, "old"))
    before = list(rag.export())
    db = rag.store.database._connection
    [pages] = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages + room}")
    documents = [numbered(30, f"d{n}", 100 * n) for n in range(3)]
    with pytest.raises(StoreError, match="the disk is full") as caught:
        rag.add(documents)
    assert type(caught.value) is StoreError
    assert not any(state.status == "failed" for state in rag.status())
    assert rag.verify().ok
    assert rag.retrieve("Item 3").nodes
    db.execute("PRAGMA max_page_count = 1000000")
    there = rag.document_ids
    assert [*rag.export()] == before or len(there) > 1
    rag.add(documents, on_duplicate="replace")
    whole = open_index(**parts("none"))
    whole.add([numbered(6, "old"), *documents])
    assert list(rag.export()) == list(whole.export())


def test_a_failure_that_cannot_be_recorded_aborts_the_run(open_index, monkeypatch):
    def set_queue_status(store, wanted):
        if any(status == "failed" for status, _ in wanted.values()):
            raise StoreError("cannot write")

    rag = open_index(**parts("summary"))
    monkeypatch.setattr(pipeline, "set_queue_status", set_queue_status)
    with pytest.raises(StoreError, match="cannot write"):
        rag.add([marked(), numbered(12, "a")])
    assert rag.verify().ok


def test_an_error_of_the_progress_listener_propagates_and_fails_no_document(open_index):
    def listen(step):
        raise LookupError("theirs")

    rag = open_index(**parts("none"))
    with pytest.raises(LookupError, match="theirs"):
        rag.add([numbered(6, "a"), numbered(7, "b", 30)], progress=listen)
    assert "failed" not in states(rag).values()


@pytest.mark.parametrize("stage", ["extract", "embed"])
def test_an_error_of_the_progress_listener_inside_a_stage_propagates(open_index, stage):
    def listen(step):
        if step.stage == stage and step.done:
            raise LookupError("theirs")

    rag = open_index(**parts("none"))
    with pytest.raises(LookupError, match="theirs"):
        rag.add([numbered(6, "a"), numbered(7, "b", 30)], progress=listen)


class PromptFails:
    """A summarizer whose prompt method fails for one document."""

    fingerprint = "fake:prompt"

    def prompt(self, texts, *, level, max_tokens):
        if any(BAD in text for text in texts):
            raise RuntimeError("no prompt for it")
        return " ".join(texts)

    def summarize(self, texts, *, level, max_tokens):
        return f"Summary of {self.prompt(texts, level=level, max_tokens=max_tokens)[:40]}"


def test_a_failing_prompt_fails_only_its_document(open_index):
    rag = open_index(summarizer=PromptFails(), **FOUR)
    assert list(rag.add([numbered(6, "a"), marked(), numbered(7, "c", 30)]).failed) == ["bad"]
    assert rag.document_ids == ["a", "c"]


class CannotCount:
    """A tokenizer that fails for one document."""

    def count(self, text):
        return len(self.spans(text))

    def spans(self, text):
        if BAD in text:
            raise RuntimeError("cannot count it")
        return [match.span() for match in re.finditer(r"\S+", text)]


class TokenizerFails(HashingEmbedder):
    max_tokens = 100
    tokens = CannotCount()


def test_a_failing_tokenizer_of_the_embedder_fails_only_its_document(open_index):
    rag = open_index(embedder=TokenizerFails(), **FOUR)
    assert list(rag.add([numbered(6, "a"), marked(), numbered(7, "c", 30)]).failed) == ["bad"]
    assert rag.document_ids == ["a", "c"]
