"""Eight threads query while one writes: no errors, and each result reflects a single state."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models, PaperStrategy, SourceDocument
from e2graphrag_integrations.snapshot.files import load_or_build_snapshot
from fakes import CountingLLM, numbered

THREADS = 8


def query_during(write, query):
    """Run `write` once while eight threads call `query` in a loop; re-raise their exceptions."""
    stop = threading.Event()
    started = threading.Barrier(THREADS + 1, timeout=30)

    def loop():
        started.wait()
        queries = 0
        while not stop.is_set() or queries < 3:
            query()
            queries += 1
        return queries

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(loop) for _ in range(THREADS)]
        started.wait()
        try:
            write()
        finally:
            stop.set()
        return [future.result() for future in futures]


def checked_result(rag, texts):
    """Query, and compare the chunks in the result with the documents' texts."""
    result = rag.retrieve("Did Anna meet Bert near Item 2?", k=6, token_budget=60)
    for node in result.nodes:
        if node.level == 0:
            [(start, end)] = node.spans
            assert texts[node.document_id][start:end] == node.text
    assert len({node.node_id for node in result.nodes}) == len(result.nodes)
    assert result.context()
    return result


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [True, False])
def test_queries_succeed_during_adds_and_deletes(tmp_path, open_index, story, on_disk):
    rag = open_index(tmp_path / "i.e2g" if on_disk else ":memory:", summarizer=CountingLLM())
    rag.add(story)
    texts = {"story": story.text}
    for n in range(6):
        texts[f"d{n}"] = f"Anna met Bert at {n}. Item {n} ends. Bert saw Cleo. " * 3

    def write():
        for _ in range(3):
            for n in range(6):
                rag.add(SourceDocument(f"d{n}", texts[f"d{n}"]))
            for n in range(6):
                rag.delete(f"d{n}")

    counts = query_during(write, lambda: checked_result(rag, texts))
    assert all(count >= 3 for count in counts)
    assert rag.document_ids == ["story"]
    assert rag.verify().ok


@pytest.mark.slow
def test_other_instances_see_only_complete_documents(tmp_path, open_index):
    """Other instances behave like other processes: they see all chunks of a document or none."""
    path = tmp_path / "i.e2g"
    writer = open_index(path, chunk_size=4, chunk_overlap=0)
    writer.add(numbered(3, "permanent"))
    readers = threading.local()
    opened = []

    def query():
        if not hasattr(readers, "rag"):
            readers.rag = open_index(path, chunk_size=4, chunk_overlap=0)
            opened.append(readers.rag)
        found = readers.rag.retrieve("Item", k=99, mode="global").nodes
        sizes = {"permanent": 3, "temporary": 9}
        for document_id in {node.document_id for node in found}:
            chunks = [n for n in found if n.document_id == document_id and n.level == 0]
            assert len(chunks) == sizes[document_id]

    def write():
        for _ in range(6):
            writer.add(numbered(9, "temporary", first=50))
            writer.delete("temporary")

    query_during(write, query)
    assert len(opened) == THREADS


class InterruptedStrategy(PaperStrategy):
    """The paper's ranking; a write happens after each ranking, before the texts are read."""

    def rank(self, query, snapshot):
        ranked = PaperStrategy().rank(query, snapshot)
        if PENDING_WRITES:
            PENDING_WRITES.pop()()
        return ranked


PENDING_WRITES: list[Callable[[], None]] = []


def test_query_restarts_when_a_ranked_node_is_deleted(open_index, story):
    rag = open_index(strategy=InterruptedStrategy())
    rag.add([story, numbered(3)])
    PENDING_WRITES[:] = [lambda: rag.delete("numbered")]
    result = rag.retrieve("Item", k=50, mode="global")
    assert not PENDING_WRITES
    assert {node.document_id for node in result.nodes} == {"story"}


def test_result_never_mixes_two_versions_of_a_document(open_index, story):
    rag = open_index(strategy=InterruptedStrategy())
    rag.add(SourceDocument("story", story.text, metadata={"version": 1}))
    newer = SourceDocument("story", f"Once. {story.text}", metadata={"version": 2})
    PENDING_WRITES[:] = [lambda: rag.update(newer)]
    for node in rag.retrieve("Where did Anna meet Bert?", k=50).nodes:
        assert node.metadata == {"version": 2}
        assert newer.text[node.start : node.end] == node.text or node.level


def test_constant_writes_do_not_starve_a_query(open_index, story, tmp_path):
    path = tmp_path / "i.e2g"
    rag, writer = open_index(path, strategy=InterruptedStrategy()), open_index(path)
    rag.add([story, *(numbered(3, f"d{n}", first=9 * n) for n in range(9))])
    PENDING_WRITES[:] = [partial(writer.delete, f"d{n}") for n in range(9)]
    result = rag.retrieve("Item", k=99, mode="global")
    assert len(PENDING_WRITES) == 3  # five attempts failed; the last used one read transaction
    assert {n.document_id for n in result.nodes} == {"story", *(f"d{n}" for n in range(4))}
    PENDING_WRITES.clear()


def test_concurrent_adds_equal_sequential_adds(open_index):
    rag = open_index(summarizer=CountingLLM())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: rag.add(numbered(12, f"d{n}", first=9 * n)), range(8)))
    assert len(rag.document_ids) == 8
    assert rag.verify().ok
    sequential = open_index(summarizer=CountingLLM())
    sequential.add([numbered(12, f"d{n}", first=9 * n) for n in range(8)])
    assert list(rag.export()) == list(sequential.export())


def test_indexes_in_one_process_are_independent(tmp_path, open_index):
    rags = [open_index(tmp_path / f"{n}.e2g") for n in range(4)]

    def fill(n):
        rags[n].add(SourceDocument(f"doc{n}", f"Anna met Bert at {n}. Cleo ran off."))
        return {node.document_id for node in rags[n].retrieve("Anna Bert").nodes}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fill, range(4))) == [{f"doc{n}"} for n in range(4)]


@pytest.mark.slow
def test_real_models_serve_eight_threads(tmp_path, story, real_embedder, real_extractor):
    with E2GraphRAG.open(
        tmp_path / "i.e2g",
        embedder=real_embedder,
        models=Models(extractor=real_extractor),
        settings=IndexSettings(chunk_size=24, chunk_overlap=4),
    ) as rag:
        rag.add(story)
        questions = ["Did Anna meet Bert in Oslo?", "Who sold it?", "Emil", "maps and harbours"]
        expected = {q: rag.retrieve(q, k=3, where={"kind": "tale"}).nodes for q in questions}
        query_numbers = itertools.count()

        def query():
            question = questions[next(query_numbers) % 4]
            found = rag.retrieve(question, k=3, where={"kind": "tale"}).nodes
            assert [n.node_id for n in found] == [n.node_id for n in expected[question]]

        def write():
            rag.add(SourceDocument("new", "Greta met Hans in Bonn. They spoke of Emil."))
            rag.delete("new")

        query_during(write, query)
        assert rag.verify().ok


@pytest.mark.parametrize("on_disk", [True, False])
def test_read_transaction_does_not_wait_for_a_thread_that_builds_bm25(
    tmp_path, open_index, story, on_disk
):
    rag = open_index(tmp_path / "i.e2g" if on_disk else ":memory:")
    rag.add(story)
    entered, proceed = threading.Event(), threading.Event()
    snapshot = rag._session.snapshot()
    build_bm25 = snapshot.bm25_factory

    def build_slowly(nodes):
        entered.set()
        assert proceed.wait(10)
        return build_bm25(nodes)

    object.__setattr__(snapshot, "bm25_factory", build_slowly)
    with ThreadPoolExecutor(2) as pool:
        indexing = pool.submit(rag.retrieve, "Where did Anna meet Bert?")
        assert entered.wait(10)
        with rag.store.read_transaction():  # as the last attempt of a query does
            proceed.set()
            other = load_or_build_snapshot(rag.store)
            assert other.bm25.postings.vocabulary
        assert indexing.result(10).nodes
