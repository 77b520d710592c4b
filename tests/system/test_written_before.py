"""Files and folders written before the package was laid out in folders open and answer as then.

The fixtures were written at commit 792d2b6: an index file and a persisted LlamaIndex storage
context of the same three documents, both with the hashing embedder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG, OpenAISummarizer, PaperStrategy
from e2graphrag_integrations.indexing.summaries import summary_key
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.summarizers import prompts
from fakes import CountingLLM, NameExtractor, numbered

FIXTURES = Path(__file__).parents[1] / "data" / "before_layout"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture
def rag(tmp_path):
    path = tmp_path / "index.e2g"
    shutil.copy(FIXTURES / "index.e2g", path)
    with E2GraphRAG.open(path) as opened:
        yield opened


def test_index_file_verifies(rag):
    assert rag.verify().problems == ()


def test_index_file_exports_the_same_bytes(rag):
    # Since edge weights are exact sums, their last digits differ from the first exports.
    exported = hashlib.sha256("\n".join(rag.export()).encode()).hexdigest()
    assert exported == EXPECTED["export_sha256"]


@pytest.mark.parametrize("question", EXPECTED["questions"])
@pytest.mark.parametrize(("name", "strategy"), [("hybrid", None), ("paper", PaperStrategy())])
def test_index_file_gives_the_same_answers(rag, question, name, strategy):
    nodes = rag.retrieve(question, k=4, strategy=strategy).nodes
    expected = EXPECTED["questions"][question][name]
    assert [node.node_id for node in nodes] == [id_ for id_, _ in expected]
    if name == "paper":  # the weights of the hybrid strategy have changed since
        assert [node.score for node in nodes] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("question", EXPECTED["llama_index"])
def test_llama_index_folder_gives_the_same_answers(question):
    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    index = E2GraphRAGIndex.from_persist_dir(FIXTURES / "llama_index")
    nodes = index.answer(Query(question, k=4), index.strategy)[0].nodes
    found = index.as_retriever(similarity_top_k=4).retrieve(question)
    assert [node.node.node_id for node in found] == [node.node_id for node in nodes]
    expected = EXPECTED["llama_index"][question]
    assert [node.node_id for node in nodes] == [id_ for id_, _ in expected]


def test_version_1_of_the_extractor_gives_the_same_mentions(rag, real_extractor):
    extractor = real_extractor.with_rules(1)
    assert extractor.fingerprint == rag.stats().settings["extractor"]
    chunks = [line for line in map(json.loads, rag.export()) if "mentions" in line]
    found = extractor.extract([chunk["text"] for chunk in chunks])
    assert [[[list(m) for m in s] for s in one] for one in found] == [
        chunk["mentions"] for chunk in chunks
    ]


def test_reindexed_file_equals_a_new_one(rag):
    assert rag.is_outdated
    assert rag.reindex().documents == 3
    assert rag.verify().problems == ()
    options = {"embedder": "hashing", **asdict(rag.settings)}
    with E2GraphRAG.open(":memory:", **options) as fresh:
        fresh.add([rag.document(id_) for id_ in rag.document_ids])
        assert list(rag.export()) == list(fresh.export())


def test_reindexed_llama_index_folder_equals_a_reindexed_file(rag, tmp_path):
    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    index = E2GraphRAGIndex.from_persist_dir(FIXTURES / "llama_index")
    assert index.is_outdated
    assert index.reindex().documents == 3
    index.persist(tmp_path / "folder")
    E2GraphRAGIndex.from_persist_dir(tmp_path / "folder").to_e2g(tmp_path / "copy.e2g")
    rag.reindex()
    with E2GraphRAG.open(tmp_path / "copy.e2g") as copy:
        assert copy.verify().problems == ()
        assert not copy.is_outdated
        assert copy.graph.names == rag.graph.names
        assert (copy.graph.edges != rag.graph.edges).nnz == 0


def test_llama_index_folder_converts_to_a_file_that_verifies(tmp_path):
    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    path = tmp_path / "index.e2g"
    E2GraphRAGIndex.from_persist_dir(FIXTURES / "llama_index").to_e2g(path)
    with E2GraphRAG.open(path) as rag:
        assert rag.verify().problems == ()


def test_summaries_paid_for_before_prompts_had_markers_are_reused(tmp_path, monkeypatch):
    options = {
        "summarizer_id": "model",
        "embedder": "hashing",
        "extractor": NameExtractor(),
        "chunk_size": 4,
        "chunk_overlap": 0,
    }
    before, after = CountingLLM(), CountingLLM()
    with monkeypatch.context() as patch:
        patch.setattr(prompts, "_enclosed", lambda material: material)  # as at that commit
        with E2GraphRAG.open(tmp_path / "i.e2g", summarizer=before, **options) as rag:
            rag.add(numbered(25))
    assert not any("<material" in prompt for prompt in before.prompts)
    with E2GraphRAG.open(tmp_path / "i.e2g", summarizer=after, **options) as rag:
        longer = replace(numbered(26), id="numbered")
        assert rag.estimate(update=longer).llm_calls == 3
        rag.update(longer)
    assert len(after.prompts) == 3  # the new group, and the two summaries above
    assert all("<material" in prompt for prompt in after.prompts)


def test_cache_keys_of_summaries_stay_the_same():
    # Computed at that commit. Other keys would make every update pay for all summaries again.
    fingerprint = OpenAISummarizer("m", api_key="x").fingerprint
    assert fingerprint == "openai:m:plain:1a59e2b19fa906f5"
    assert summary_key(fingerprint, 300, ["a", "b"], 1).hex() == (
        "00d0252add15c9e48593c9e8936a627beadcd22ef953597d003ef96a189277ec"
    )
