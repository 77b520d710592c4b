"""The indexing pipeline: caching, overlapping stages, failures, progress and report."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
import time
from collections import Counter

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    Prompts,
    RetryPolicy,
    SourceDocument,
)
from e2graphrag_integrations.errors import IndexingError, SummaryError
from e2graphrag_integrations.indexing import planning
from e2graphrag_integrations.indexing.stages import embedding, extraction
from fakes import CountingEmbedder, CountingExtractor, CountingLLM, Failing, NameExtractor, numbered

QUICK = RetryPolicy(attempts=3, first_wait=0.001, longest_wait=0.002)
FOUR = {"chunk_size": 4, "chunk_overlap": 0}


# Caching


def test_an_unchanged_document_is_skipped_without_calling_a_model(open_index):
    llm, extractor, embedder = CountingLLM(), CountingExtractor(), CountingEmbedder()
    rag = open_index(summarizer=llm, extractor=extractor, embedder=embedder, **FOUR)
    rag.add(numbered(9))
    paid = llm.calls, len(extractor.texts), len(embedder.texts)
    report = rag.add(numbered(9))
    assert report.skipped == ("numbered",)
    assert report.documents == report.llm_calls == 0
    assert (llm.calls, len(extractor.texts), len(embedder.texts)) == paid


def test_after_a_failure_only_unfinished_summaries_are_created(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    failing = Failing(ValueError("no"), at=5)
    with open_index(path, summarizer=failing, concurrency=1, **FOUR) as rag:
        with pytest.raises(SummaryError):
            rag.add(numbered(40))  # 8 summaries of chunks, 2 above
        assert rag.document_ids == []
    assert failing.llm.calls == 5
    with open_index(path, summarizer=failing, **FOUR) as rag:
        assert rag.estimate(numbered(40)).llm_calls == 5
        assert rag.add(numbered(40)).llm_calls == 5
    assert failing.llm.calls == 10


def test_extractions_and_vectors_survive_a_failure(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    failing, before = Failing(ValueError("no"), at=3), CountingExtractor()
    with (
        open_index(path, summarizer=failing, extractor=before, **FOUR) as rag,
        pytest.raises(SummaryError),
    ):
        rag.add(numbered(40))
    extractor, embedder = CountingExtractor(), CountingEmbedder()
    with open_index(
        path, summarizer=failing, extractor=extractor, embedder=embedder, **FOUR
    ) as rag:
        rag.add(numbered(40))
    # The failure may stop the extraction, which runs in parallel.
    assert len({*before.texts, *extractor.texts}) == len(before.texts) + len(extractor.texts) == 40
    assert len(embedder.texts) == 10  # only the summaries


def test_equal_texts_in_a_batch_share_one_call(open_index):
    llm, extractor, embedder = CountingLLM(), CountingExtractor(), CountingEmbedder()
    rag = open_index(summarizer=llm, extractor=extractor, embedder=embedder, **FOUR)
    text = numbered(12).text
    report = rag.add([SourceDocument(name, text) for name in ("one", "two", "three")])
    assert report.summaries == 9
    assert report.llm_calls == llm.calls == 3
    assert Counter(extractor.texts).most_common(1)[0][1] == 1
    assert Counter(embedder.texts).most_common(1)[0][1] == 1


def test_text_shared_with_an_indexed_document_is_not_processed_again(open_index):
    llm = CountingLLM()
    rag = open_index(summarizer=llm, **FOUR)
    rag.add(numbered(10))
    assert llm.calls == 2
    rag.add(numbered(15, "longer"))  # its first ten chunks are the same: two groups of five
    assert llm.calls == 3


def test_a_function_with_an_id_reuses_its_summaries_in_later_runs(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    first, second, third = CountingLLM(), CountingLLM(), CountingLLM()
    with open_index(path, summarizer=first, llm_id="fake-1", **FOUR) as rag:
        rag.add(numbered(10))
    with open_index(path, summarizer=second, llm_id="fake-1", **FOUR) as rag:
        rag.add(numbered(10, "again"))
    assert (first.calls, second.calls) == (2, 0)
    with open_index(tmp_path / "j.e2g", summarizer=third, **FOUR) as rag:
        rag.add(numbered(10))
        rag.add(numbered(10, "again"))
    assert third.calls == 2  # without an id, only within one process


# Levels and prompts


def test_upper_summaries_are_created_from_texts_not_node_names(open_index):
    """From 151 chunks on, the official code summarizes node names (peers.md, B.1, 1)."""
    llm = CountingLLM()
    rag = open_index(summarizer=llm, summary_tokens=100, **FOUR)
    report = rag.add(numbered(151))
    assert report.summaries == llm.calls == 31 + 7 + 2
    upper = [p for p in llm.prompts if "Digest" in p.split("---")[0]]
    assert len(upper) == 7 + 2
    made = {llm(prompt) for prompt in list(llm.prompts)}
    for prompt in upper:
        [material] = re.findall(r"<material \w+>\n(.*)\n</material", prompt, re.DOTALL)
        parts = material.split("\n\n")
        assert set(parts) <= made
        assert 1 <= len(parts) <= 5
    assert rag.verify().ok


def test_overlap_is_removed_before_summarizing(open_index):
    llm = CountingLLM()
    rag = open_index(summarizer=llm, chunk_size=8, chunk_overlap=4)
    rag.add(numbered(5))
    [prompt] = llm.prompts
    assert [prompt.count(f"Item {n} ends.") for n in range(5)] == [1] * 5


def test_custom_prompts_are_used_by_level(open_index):
    llm = CountingLLM()
    prompts = Prompts(chunks="LOW {text} in {words}", summaries="HIGH {text}")
    rag = open_index(summarizer=llm, prompts=prompts, summary_tokens=100, **FOUR)
    rag.add(numbered(26))
    kinds = Counter(prompt.split()[0] for prompt in llm.prompts)
    assert kinds == {"LOW": 6, "HIGH": 2}
    assert all(p.endswith("in 60") for p in llm.prompts if p.startswith("LOW"))


# Overlapping stages


def test_extraction_embedding_and_summarizing_overlap(open_index):
    """Each stage waits for the other two, so sequential stages would deadlock."""
    meeting = threading.Barrier(3, timeout=30)
    met = threading.local()

    def meet():
        if not getattr(met, "done", False):
            met.done = True
            meeting.wait()

    class Extractor(NameExtractor):
        def extract(self, texts):
            meet()
            return super().extract(texts)

    class Embedder(HashingEmbedder):
        def embed(self, texts):
            meet()
            return super().embed(texts)

    llm = CountingLLM()

    def summarize(prompt):
        meet()
        return llm(prompt)

    rag = open_index(
        extractor=Extractor(), embedder=Embedder(), summarizer=summarize, concurrency=1, **FOUR
    )
    assert rag.add(numbered(5)).summaries == 1


@pytest.mark.parametrize("concurrency", [1, 3])
def test_concurrency_is_reached_and_never_exceeded(open_index, concurrency):
    together = threading.Barrier(concurrency, timeout=30)
    lock = threading.Lock()
    flying, most = 0, 0
    llm = CountingLLM()

    def summarize(prompt):
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
        together.wait()  # concurrency divides 9, so no group is incomplete
        answer = llm(prompt)
        with lock:
            flying -= 1
        return answer

    rag = open_index(summarizer=summarize, concurrency=concurrency, group_size=10, **FOUR)
    rag.add(numbered(90))
    assert llm.calls == 9
    assert most == concurrency


def test_several_batches_give_the_same_index_as_one(open_index, monkeypatch):
    documents = [numbered(n, f"d{n}", first=n) for n in range(9)]
    whole = open_index(summarizer=CountingLLM(), **FOUR)
    whole.add(documents)
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", 4)
    monkeypatch.setattr(extraction, "_SLICE_SIZE", 3)
    monkeypatch.setattr(embedding, "_SLICE_SIZE", 3)
    parts = open_index(summarizer=CountingLLM(), **FOUR)
    parts.add(documents)
    assert list(parts.export()) == list(whole.export())


# Async summarizers


async def _slow_words(prompt):
    await asyncio.sleep(0)
    return f"Words {len(prompt)} {prompt[:20]!r}."


def test_an_async_summarizer_works_in_add(open_index):
    rag = open_index(summarizer=_slow_words, **FOUR)
    assert rag.add(numbered(30)).llm_calls == 8
    rag.add(numbered(3, "later"))  # in the same event loop
    assert rag.verify().ok


def test_add_runs_all_coroutines_in_one_event_loop(open_index):
    loops = set()

    async def summarize(prompt):
        loops.add(asyncio.get_running_loop())
        return await _slow_words(prompt)

    rag = open_index(summarizer=summarize, **FOUR)
    rag.add(numbered(30))
    rag.add(numbered(12, "more"))
    assert len(loops) == 1


async def test_aadd_runs_an_async_summarizer_in_the_callers_loop(open_index):
    """A semaphore of the caller's loop fails in any other loop."""
    gate = asyncio.Semaphore(1)
    here = asyncio.get_running_loop()
    loops, threads = set(), set()

    async def summarize(prompt):
        async with gate:
            await asyncio.sleep(0.001)  # other calls wait for the semaphore
            loops.add(asyncio.get_running_loop())
            threads.add(threading.get_ident())
            return await _slow_words(prompt)

    rag = open_index(summarizer=summarize, **FOUR)
    report = await rag.aadd(numbered(30))
    assert report.llm_calls == 8
    assert loops == {here}
    assert threads == {threading.get_ident()}


async def test_aadd_does_not_block_the_event_loop(open_index):
    """Other tasks run in the event loop during `aadd`."""
    rag = open_index(summarizer=_slow_words, **FOUR)
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await rag.aadd(numbered(20))
    ticking.cancel()
    assert ticks > 3


async def test_aadd_runs_a_sync_summarizer_outside_the_event_loop(open_index):
    threads = set()
    llm = CountingLLM()

    def summarize(prompt):
        threads.add(threading.get_ident())
        return llm(prompt)

    rag = open_index(summarizer=summarize, **FOUR)
    await rag.aadd(numbered(10))
    assert threading.get_ident() not in threads


async def test_an_error_of_an_async_summarizer_is_a_summary_error(open_index):
    async def summarize(prompt):
        raise ValueError("not today")

    rag = open_index(summarizer=summarize, **FOUR)
    with pytest.raises(SummaryError, match="not today"):
        await rag.aadd(numbered(10))
    assert rag.verify().ok


# Failures


def test_transient_errors_are_retried_and_counted(open_index):
    failing = Failing(ConnectionError("reset"), times=2)
    rag = open_index(summarizer=failing, retry=QUICK, **FOUR)
    report = rag.add(numbered(10))
    assert report.retries == 2
    assert report.llm_calls == failing.tries == 4
    assert rag.verify().ok


def test_a_persistent_transient_error_fails_after_the_last_attempt(open_index):
    failing = Failing(TimeoutError("slow"), times=99)
    rag = open_index(summarizer=failing, retry=QUICK, concurrency=1, **FOUR)
    with pytest.raises(SummaryError, match="TimeoutError: slow"):
        rag.add(numbered(5))
    assert failing.tries == 3


def test_a_permanent_error_is_not_retried_and_names_the_summary(open_index):
    failing = Failing(ValueError("model is gone"), at=6)
    rag = open_index(summarizer=failing, concurrency=1, retry=QUICK, **FOUR)
    with pytest.raises(SummaryError) as caught:
        rag.add(numbered(30, "my/book.txt"))
    message = str(caught.value)
    assert "of level 2 of document" in message  # either one: both are created at the same time
    assert "'my/book.txt'" in message
    assert "ValueError: model is gone" in message
    assert isinstance(caught.value, IndexingError)
    assert failing.tries == 7


def test_an_aborted_run_starts_no_further_documents(open_index, monkeypatch):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", 1)
    failing = Failing(ValueError("no"), times=99)
    rag = open_index(summarizer=failing, concurrency=1, **FOUR)
    with pytest.raises(SummaryError, match="'d0'"):
        rag.add([numbered(10, f"d{n}", first=20 * n) for n in range(9)])
    assert failing.tries == 3  # three failures before any success
    assert rag.document_ids == []


@pytest.mark.parametrize("batch", [1, 1000])
def test_a_failed_document_does_not_affect_the_others(open_index, monkeypatch, batch):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", batch)
    failing = Failing(ValueError("no"), at=2)
    rag = open_index(summarizer=failing, concurrency=1, **FOUR)
    documents = [numbered(10, f"d{n}", first=20 * n) for n in range(3)]
    report = rag.add(documents)
    [failed] = report.failed
    assert "ValueError: no" in report.failed[failed]
    others = sorted({"d0", "d1", "d2"} - {failed})
    assert rag.document_ids == others
    assert report.documents == 2
    assert rag.verify().ok
    assert rag.add(documents).skipped == tuple(others)
    assert rag.document_ids == ["d0", "d1", "d2"]


def test_an_interrupt_in_a_summarizer_propagates_and_changes_nothing(open_index):
    failing = Failing(KeyboardInterrupt(), at=3)
    rag = open_index(summarizer=failing, concurrency=1, **FOUR)
    rag.add(numbered(2, "old"))
    before = list(rag.export())
    with pytest.raises(KeyboardInterrupt):
        rag.add(numbered(40))
    assert list(rag.export()) == before
    assert rag.verify().ok
    assert failing.tries == 4  # no call follows the failing one


@pytest.mark.usefixtures("control_c")
def test_control_c_stops_after_the_calls_in_flight(open_index):
    llm = CountingLLM()

    def summarize(prompt):
        if not llm.calls:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.05)
        return llm(prompt)

    rag = open_index(summarizer=summarize, concurrency=1, **FOUR)
    with pytest.raises(KeyboardInterrupt):
        rag.add(numbered(300))
    assert 0 < llm.calls < 30  # of 75
    assert rag.document_ids == []
    assert rag.verify().ok


@pytest.mark.parametrize("part", ["extractor", "embedder"])
def test_an_error_of_a_users_model_is_wrapped(open_index, part):
    class BadExtractor(NameExtractor):
        def extract(self, texts):
            raise RuntimeError("out of memory")

    class BadEmbedder(HashingEmbedder):
        def embed(self, texts):
            raise RuntimeError("out of memory")

    bad = {"extractor": BadExtractor(), "embedder": BadEmbedder()}[part]
    rag = open_index(**{part: bad}, **FOUR)
    with pytest.raises(IndexingError, match="RuntimeError: out of memory"):
        rag.add(numbered(5))
    assert rag.document_ids == []
    assert rag.verify().ok


# Progress and report


def test_the_report_counts_the_written_documents(open_index):
    rag = open_index(summarizer=CountingLLM(), **FOUR)
    old = SourceDocument("old", "Anna met Bert.")
    rag.add(old)
    text = "Anna met Bert. Bert met Cleo. Dora sat down."
    report = rag.add([old, SourceDocument("new", text), SourceDocument("blank", " \n")])
    assert report.documents == 2
    assert report.skipped == ("old",)
    assert report.empty == ("blank",)
    assert (report.chunks, report.summaries) == (3, 1)
    assert (report.entities, report.edges) == (4, 2)
    assert (report.llm_calls, report.retries, report.cut_summaries) == (1, 0, 0)
    other = open_index(summarizer=CountingLLM(), **FOUR)  # nothing cached
    assert report.prompt_tokens == other.estimate(SourceDocument("new", text)).prompt_tokens
    assert report.completion_tokens > 0
    assert report.tokens == report.prompt_tokens + report.completion_tokens
    stages = {"chunk", "extract", "embed", "summarize", "write", "total"}
    assert set(report.seconds) == stages
    assert report.to_dict()["tokens"] == report.tokens
    stats = rag.stats()
    assert (stats.documents, stats.chunks, stats.summaries) == (3, 4, 1)


@pytest.mark.usefixtures("all_summaries")
def test_the_extractive_default_calls_no_llm(open_index, story):
    rag = open_index()
    report = rag.add(story)
    assert report.summaries > 0
    assert (report.llm_calls, report.tokens) == (0, 0)
    summary = rag.retrieve("map", k=20, mode="global")
    tops = [node for node in summary.nodes if node.level]
    assert tops
    assert all(any(s in story.text for s in node.text.split(". ")) for node in tops)


def test_a_function_without_a_name_is_warned_about_once(tmp_path, caplog):
    calls = []

    def summarize(prompt):
        calls.append(prompt)
        return f"Summary {len(calls)}."

    settings = IndexSettings(chunk_size=4, chunk_overlap=0)
    for path, llm_id, warnings in (
        (":memory:", None, 0),
        (tmp_path / "named.e2g", "m", 0),
        (tmp_path / "unnamed.e2g", None, 1),
    ):
        caplog.clear()
        models = Models(extractor=NameExtractor(), llm_id=llm_id)
        with E2GraphRAG.open(
            path, embedder="hashing", summarizer=summarize, models=models, settings=settings
        ) as rag:
            rag.add(numbered(2))
            rag.add(SourceDocument("more", "Cleo left. Dora sang. Eric slept. Fay read."))
        found = [one for one in caplog.messages if "models=Models(llm_id=...)" in one]
        assert len(found) == warnings
    assert calls
