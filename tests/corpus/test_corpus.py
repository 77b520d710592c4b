"""The documents of a framework in an index: stored, estimated, built and deleted."""

from __future__ import annotations

import pytest
from llama_index.core import Document

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.corpus.batch import WriteBatch
from e2graphrag_integrations.corpus.corpus import Corpus
from e2graphrag_integrations.errors import IndexingError, InvalidInputError
from e2graphrag_integrations.llama_index.documents import LlamaIndexDocuments
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from llama_pages import page

SIZES = {"chunk_size": 30, "chunk_overlap": 6, "group_size": 3}
PATH = "/docs/a.pdf"


class CountingSummarizer:
    """A summarizer that counts its calls, and fails on demand."""

    fingerprint = "fake:counting"
    calls = 0
    fails = False

    def summarize(self, texts, *, level, max_tokens):
        if self.fails:
            raise ValueError("out of words")
        self.calls += 1
        return f"{len(texts)} texts of level {level}: {texts[0][:30]}"


@pytest.fixture
def summarizer():
    return CountingSummarizer()


@pytest.fixture
def corpus(summarizer):
    with E2GraphRAG.open(
        ":memory:",
        **grouped(
            {"embedder": "hashing", "extractor": NameExtractor(), "summarizer": summarizer, **SIZES}
        ),
    ) as rag:
        yield Corpus(rag, LlamaIndexDocuments())


def texts(corpus):
    return " ".join(node.node.text for node in corpus.rag.store.all_nodes())


def test_documents_are_given_back_as_they_were_added(corpus):
    documents = [page(2), page(1), Document(id_="plain", text="Kit met Lea.")]
    assert corpus.upsert(documents) == [one.node_id for one in documents]
    assert corpus.get(["plain", "unknown", page(1).node_id]) == [documents[2], documents[1]]
    assert set(corpus.rag.document_ids) == {PATH, "plain"}
    assert set(corpus.ids()) == {one.node_id for one in documents}
    assert corpus.unknown_ids(["plain", "x"]) == ["x"]


def test_the_estimate_with_documents_equals_the_calls(corpus, summarizer):
    corpus.upsert([page(1), page(2)])
    for batch in ([page(3)], [page(1, 2), page(4)], [page(1, 2)]):
        before = summarizer.calls
        estimate = corpus.estimate(batch)
        assert summarizer.calls == before
        assert not corpus.is_dirty
        corpus.upsert(batch)
        assert summarizer.calls - before == estimate.llm_calls


def test_the_estimate_contains_what_is_pending(corpus, summarizer):
    corpus.store([page(1), page(2)])
    alone, together = corpus.estimate(), corpus.estimate([page(3)])
    assert 0 < alone.llm_calls < together.llm_calls
    corpus.store([page(3)])
    corpus.build()
    assert summarizer.calls == together.llm_calls


def test_documents_are_removed_in_the_same_step_in_which_others_are_stored(corpus):
    corpus.upsert([page(n) for n in range(1, 5)])
    gone = page(2).node_id
    assert corpus.store([page(5), page(1, 3)], removed=[gone, "unknown"]) == [
        page(5).node_id,
        page(1).node_id,
    ]
    assert corpus.unknown_ids([gone]) == [gone]
    corpus.build()
    found = texts(corpus)
    assert "port 2-" not in found
    assert "port 5-" in found
    assert "port 1-3-" in found
    assert "port 1-0-" not in found
    assert corpus.rag.verify().ok


def test_a_document_that_is_stored_and_removed_is_stored(corpus):
    corpus.upsert([page(1), page(2)])
    corpus.store([page(2, 1)], removed=[page(2).node_id])
    corpus.build()
    assert corpus.get([page(2).node_id]) == [page(2, 1)]


def test_parts_are_found_by_document_and_by_tree(corpus):
    nodes = [page(1), page(2), Document(id_="plain", text="Kit.")]
    corpus.upsert(nodes)
    assert corpus.parts_of([PATH]) == [page(1).node_id, page(2).node_id]
    assert corpus.parts_of([page(1).node_id, "plain"]) == [page(1).node_id, "plain"]
    assert corpus.trees_of([page(1).node_id, "plain", "unknown"]) == {PATH, "plain"}


def test_deleted_text_is_gone_even_if_the_rebuild_fails(corpus, summarizer):
    corpus.upsert([page(n) for n in range(1, 5)])
    summarizer.fails = True
    with pytest.raises(IndexingError, match="out of words"):
        corpus.delete([page(2).node_id])
    assert "port 2-" not in texts(corpus)
    assert corpus.is_dirty
    summarizer.fails = False
    corpus.build()
    assert not corpus.is_dirty
    assert "port 3-" in texts(corpus)
    assert corpus.delete([PATH, page(2).node_id]) == []  # unknown ids


def test_a_failed_document_remains_pending_and_the_others_are_indexed(corpus, summarizer):
    summarizer.fails = True
    single = Document(id_="single", text="Kit met Lea.")  # needs no summary
    with pytest.raises(IndexingError, match=r"1 of 2 source\(s\) failed"):
        corpus.upsert([single, *(page(n) for n in range(1, 5))])
    assert corpus.rag.document_ids == ["single"]
    assert corpus.has_unbuilt()
    summarizer.fails = False
    assert corpus.build().documents == 1
    assert set(corpus.rag.document_ids) == {"single", PATH}


def test_an_invalid_document_stores_nothing(corpus):
    with pytest.raises(InvalidInputError):
        corpus.store([page(1), "text"])
    assert corpus.ids() == []


def test_a_batch_is_one_build(corpus, summarizer):
    with WriteBatch(corpus):
        corpus.upsert([page(1)])
        corpus.upsert([page(2)])
        corpus.delete([page(1).node_id])
        assert summarizer.calls == 0
        assert corpus.rag.document_ids == []
    assert "port 2-" in texts(corpus)
    assert "port 1-" not in texts(corpus)


def test_another_handle_sees_what_is_pending(tmp_path):
    options = {"embedder": "hashing", "extractor": NameExtractor(), **SIZES}
    with (
        E2GraphRAG.open(tmp_path / "i.e2g", **grouped(options)) as first,
        E2GraphRAG.open(tmp_path / "i.e2g", **grouped(options)) as second,
    ):
        one, other = (Corpus(rag, LlamaIndexDocuments()) for rag in (first, second))
        one.store([page(1)])
        assert other.is_dirty
        assert other.get([page(1).node_id]) == [page(1)]
        other.build()
        assert not one.is_dirty
        assert one.build().documents == 0


# Queues for workers


def test_a_deletion_reaches_a_tree_that_is_in_the_queue_for_workers(corpus):
    corpus.upsert([page(1), page(2)])
    corpus.store([page(3)])
    corpus.enqueue()
    corpus.delete([page(1).node_id])
    assert page(1).text not in texts(corpus)
    corpus.rag.resume()
    corpus.drop_indexed()
    assert not corpus.is_dirty
    assert page(1).text not in texts(corpus)
    assert set(corpus.ids()) == {page(2).node_id, page(3).node_id}


def test_an_unbuilt_deletion_reaches_the_queue_for_workers(corpus):
    corpus.auto_build = False
    corpus.store([page(1), page(2)])
    corpus.enqueue()
    corpus.delete([page(1).node_id])
    corpus.rag.resume()
    assert page(1).text not in texts(corpus)


def test_a_document_that_moves_through_the_queue_leaves_its_old_tree(corpus):
    corpus.upsert([page(1)])
    moved = page(1)
    moved.metadata["shelf"] = "upper"
    corpus.store([moved])
    corpus.enqueue()
    assert len(corpus.rag.document_ids) == 1  # found in the old tree until the new one is built
    corpus.rag.resume()
    corpus.enqueue()  # as with the next document
    assert not corpus.is_dirty
    assert len(corpus.rag.document_ids) == 1


def test_an_outdated_row_of_the_queue_does_not_remove_what_is_indexed(corpus):
    corpus.auto_build = False
    corpus.upsert([page(1)])
    corpus.build()
    corpus.store([page(2)])
    corpus.enqueue()
    corpus.delete([page(2).node_id])
    assert page(1).text in texts(corpus)
    corpus.rag.resume()
    assert page(2).text not in texts(corpus)


def test_a_failed_row_of_the_queue_does_not_bring_a_deleted_document_back(corpus, summarizer):
    corpus.auto_build = False
    corpus.store([page(number) for number in range(1, 6)])
    corpus.enqueue()
    summarizer.fails = True
    with pytest.raises(IndexingError):
        corpus.rag.resume()
    corpus.delete([page(1).node_id])
    summarizer.fails = False
    corpus.rag.resume()
    assert page(1).text not in texts(corpus)


# Documents that move


def test_a_document_that_moves_to_a_failing_tree_is_still_found(corpus, summarizer):
    corpus.upsert([page(number) for number in range(1, 6)])
    moved = [page(number) for number in range(1, 6)]
    for one in moved:
        one.metadata["shelf"] = "upper"
        one.set_content(f"Later. {one.text}")
    summarizer.fails = True
    with pytest.raises(IndexingError):
        corpus.upsert([*moved, Document(id_="short", text="Kit met Lea.")])
    assert {"short", PATH} == set(corpus.rag.document_ids)
    with pytest.raises(IndexingError):
        corpus.delete(["short"])
    assert {PATH} == set(corpus.rag.document_ids)
    summarizer.fails = False
    corpus.build()
    assert PATH not in corpus.rag.document_ids
    assert len(corpus.ids()) == 5


def test_what_a_deletion_leaves_is_sorted_like_a_new_index(corpus):
    labels = ["2", "1", "i"]
    documents = [
        Document(id_=label, text=f"Page {label}.", metadata={"file_path": "a", "page_label": label})
        for label in labels
    ]
    corpus.upsert(documents)
    corpus.delete(["i"])
    assert corpus.rag.document("a").text == "Page 1.\n\nPage 2."
