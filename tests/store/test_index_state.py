"""The state of an index, and the sentences that say it."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.store.index_state import IndexState, read_state
from e2graphrag_integrations.store.queue import set_queue_status
from fakes import NameExtractor


class Broken(NameExtractor):
    """Fails on texts with the word `broken`."""

    def extract(self, texts):
        if any("broken" in text for text in texts):
            raise ValueError("unreadable")
        return super().extract(texts)


def test_documents_are_counted_by_state(open_index, tmp_path):
    rag = open_index(tmp_path / "a.e2g", extractor=Broken())
    assert rag.state() == IndexState(0)
    rag.add([SourceDocument("done", "Anna met Bert."), SourceDocument("bad", "Emil is broken.")])
    rag.add([SourceDocument(f"new{n}", f"Anna {n}.") for n in range(3)], wait=False)
    rag.pending.put({"chain": [["a", "Dora left.", {}]]}, rag.pending.state())
    assert rag.state() == IndexState(1, pending=4, failed=1, stored=1)
    assert rag.state().unfinished == 5 == rag.freshness().pending
    assert rag.state().resumable == 4


def test_a_document_is_being_indexed_only_while_somebody_writes(open_index, tmp_path):
    rag = open_index(tmp_path / "a.e2g")
    rag.add([SourceDocument("a", "Anna met Bert.")], wait=False)
    set_queue_status(rag.store, {"a": ("processing", None)})
    assert (rag.state().pending, rag.state().processing) == (1, 0)  # its process died
    assert read_state(rag.store, is_writing=True).processing == 1
    with E2GraphRAG.open(tmp_path / "a.e2g") as other, other.write_lock(IndexingRun()):
        state = rag.state()
        assert state.processing == 1
        assert state.writer.startswith("process ")
    assert rag.state().writer is None


@pytest.mark.parametrize(
    ("state", "described", "lack", "note"),
    [
        (IndexState(0), "The index has no documents.", "", ""),
        (IndexState(1), "1 document is indexed.", "", ""),
        (
            IndexState(0, pending=7864),
            "No document is indexed yet: 7,864 are pending.",
            "Answers lack 7,864 documents that are not indexed yet.",
            (
                "Answers lack 7,864 documents that are not indexed yet. "
                "Run `e2graphrag documents resume` to index them."
            ),
        ),
        (
            IndexState(3, processing=1, pending=2, failed=1, writer="process 7 (x) on h since 9"),
            "3 documents are indexed, 1 is being indexed, 2 are pending and 1 failed.",
            "Answers lack 3 documents that are not indexed yet and 1 that failed.",
            (
                "Answers lack 3 documents that are not indexed yet and 1 that failed. "
                "The index is being written by process 7 (x) on h since 9. Ask again "
                "when it has finished."
            ),
        ),
        (
            IndexState(2, failed=1),
            "2 documents are indexed and 1 failed.",
            "Answers lack 1 document that failed.",
            "Answers lack 1 document that failed. Run `e2graphrag documents resume` to index it.",
        ),
        (
            IndexState(2, pending=2, stored=2),
            "2 documents are indexed and 2 are pending.",
            "Answers lack 2 documents that are not indexed yet.",
            (
                "Answers lack 2 documents that are not indexed yet. "
                "Run build() of the LangChain index that stored them to index them."
            ),
        ),
        (
            IndexState(2, writer="process 7"),
            "2 documents are indexed.",
            "",
            "The index is being written by process 7.",
        ),
    ],
)
def test_the_state_is_said_in_sentences(state, described, lack, note):
    assert (state.describe(), state.lack(), state.note()) == (described, lack, note)
