"""Eight threads ask while one writes: no error, and every answer is of one state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from e2graphrag_integrations import E2GraphRAG, PaperStrategy, SourceDocument
from e2graphrag_integrations.snapshot.files import load_or_build_snapshot
from fakes import CountingLLM, numbered

THREADS = 8


def hammer(ask, write):
    """Run `write` once while eight threads `ask` without a break; raise what any of them raises."""
    stop = threading.Event()
    started = threading.Barrier(THREADS + 1, timeout=30)

    def loop():
        started.wait()
        asked = 0
        while not stop.is_set() or asked < 3:
            ask()
            asked += 1
        return asked

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(loop) for _ in range(THREADS)]
        started.wait()
        try:
            write()
        finally:
            stop.set()
        return [future.result() for future in futures]


def checked(rag, texts):
    """Ask, and hold the answer to the texts that the documents had at some time."""
    result = rag.retrieve("Did Anna meet Bert near Item 2?", k=6, token_budget=60)
    for node in result.nodes:
        if node.level == 0:
            [(start, end)] = node.spans
            assert texts[node.document_id][start:end] == node.text
    assert len({node.node_id for node in result.nodes}) == len(result.nodes)
    assert result.context()
    return result


@pytest.mark.parametrize("on_disk", [True, False])
def test_queries_go_on_while_documents_come_and_go(tmp_path, open_index, story, on_disk):
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

    counts = hammer(lambda: checked(rag, texts), write)
    assert all(count >= 3 for count in counts)
    assert rag.document_ids == ["story"]
    assert rag.verify().ok


def test_a_reader_of_its_own_sees_whole_documents_only(tmp_path, open_index):
    """Other instances, as other processes would be: a document is there with all its chunks."""
    path = tmp_path / "i.e2g"
    writer = open_index(path, chunk_size=4, chunk_overlap=0)
    writer.add(numbered(3, "always"))
    readers = threading.local()
    opened = []

    def ask():
        if not hasattr(readers, "rag"):
            readers.rag = open_index(path, chunk_size=4, chunk_overlap=0)
            opened.append(readers.rag)
        found = readers.rag.retrieve("Item", k=99, mode="global").nodes
        sizes = {"always": 3, "comes": 9}
        for document_id in {node.document_id for node in found}:
            chunks = [n for n in found if n.document_id == document_id and n.level == 0]
            assert len(chunks) == sizes[document_id]

    def write():
        for _ in range(6):
            writer.add(numbered(9, "comes", first=50))
            writer.delete("comes")

    hammer(ask, write)
    assert len(opened) == THREADS


class Disturbed(PaperStrategy):
    """The paper's ranking; after each, a writer comes before the texts are read."""

    def rank(self, query, snapshot):
        ranked = PaperStrategy().rank(query, snapshot)
        if WRITERS:
            WRITERS.pop()()
        return ranked


WRITERS: list[Callable[[], None]] = []


def test_a_question_asked_on_a_node_just_deleted_starts_over(open_index, story):
    rag = open_index(strategy=Disturbed())
    rag.add([story, numbered(3)])
    WRITERS[:] = [lambda: rag.delete("numbered")]
    result = rag.retrieve("Item", k=50, mode="global")
    assert not WRITERS
    assert {node.document_id for node in result.nodes} == {"story"}


def test_an_answer_never_mixes_two_versions_of_a_document(open_index, story):
    rag = open_index(strategy=Disturbed())
    rag.add(SourceDocument("story", story.text, metadata={"version": 1}))
    newer = SourceDocument("story", f"Once. {story.text}", metadata={"version": 2})
    WRITERS[:] = [lambda: rag.update(newer)]
    for node in rag.retrieve("Where did Anna meet Bert?", k=50).nodes:
        assert node.metadata == {"version": 2}
        assert newer.text[node.start : node.end] == node.text or node.level


def test_a_writer_that_never_rests_does_not_keep_a_reader_from_an_answer(
    open_index, story, tmp_path
):
    path = tmp_path / "i.e2g"
    rag, writer = open_index(path, strategy=Disturbed()), open_index(path)
    rag.add([story, *(numbered(3, f"d{n}") for n in range(9))])
    WRITERS[:] = [partial(writer.delete, f"d{n}") for n in range(9)]
    result = rag.retrieve("Item", k=99, mode="global")
    assert len(WRITERS) == 3  # five attempts were disturbed, and the last one held its state
    assert {n.document_id for n in result.nodes} == {"story", *(f"d{n}" for n in range(4))}
    WRITERS.clear()


def test_two_threads_adding_take_turns(open_index):
    rag = open_index(summarizer=CountingLLM())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: rag.add(numbered(12, f"d{n}", first=9 * n)), range(8)))
    assert len(rag.document_ids) == 8
    assert rag.verify().ok
    alone = open_index(summarizer=CountingLLM())
    alone.add([numbered(12, f"d{n}", first=9 * n) for n in range(8)])
    assert list(rag.export()) == list(alone.export())


def test_several_indexes_of_one_process_do_not_mix(tmp_path, open_index):
    rags = [open_index(tmp_path / f"{n}.e2g") for n in range(4)]

    def fill(n):
        rags[n].add(SourceDocument(f"own{n}", f"Anna met Bert at {n}. Cleo ran off."))
        return {node.document_id for node in rags[n].retrieve("Anna Bert").nodes}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fill, range(4))) == [{f"own{n}"} for n in range(4)]


def test_the_real_models_take_eight_threads(tmp_path, story, real_embedder, real_extractor):
    with E2GraphRAG.open(
        tmp_path / "i.e2g",
        embedder=real_embedder,
        extractor=real_extractor,
        chunk_size=24,
        chunk_overlap=4,
    ) as rag:
        rag.add(story)
        questions = ["Did Anna meet Bert in Oslo?", "Who sold it?", "Emil", "maps and harbours"]
        expected = {q: rag.retrieve(q, k=3, where={"kind": "tale"}).nodes for q in questions}
        turn = iter(range(10**9))

        def ask():
            question = questions[next(turn) % 4]
            found = rag.retrieve(question, k=3, where={"kind": "tale"}).nodes
            assert [n.node_id for n in found] == [n.node_id for n in expected[question]]

        def write():
            rag.add(SourceDocument("new", "Greta met Hans in Bonn. They spoke of Emil."))
            rag.delete("new")

        hammer(ask, write)
        assert rag.verify().ok


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_reader_that_holds_the_file_does_not_wait_for_one_that_indexes_its_words(
    tmp_path, open_index, story, on_disk
):
    rag = open_index(tmp_path / "i.e2g" if on_disk else ":memory:")
    rag.add(story)
    entered, go = threading.Event(), threading.Event()
    snapshot = rag._session.snapshot()
    make = snapshot.bm25_factory

    def slowly(of):
        entered.set()
        assert go.wait(10)
        return make(of)

    object.__setattr__(snapshot, "bm25_factory", slowly)
    with ThreadPoolExecutor(2) as pool:
        indexing = pool.submit(rag.retrieve, "Where did Anna meet Bert?")
        assert entered.wait(10)
        with rag.store.read_transaction():  # as the last attempt of an answer does
            go.set()
            other = load_or_build_snapshot(rag.store)
            assert other.bm25.vocabulary
        assert indexing.result(10).nodes
