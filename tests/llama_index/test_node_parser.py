"""`SummaryTreeNodeParser` alone and in LlamaIndex's pipelines."""

from __future__ import annotations

import asyncio
import uuid
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from llama_index.core import Document, Settings, VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionCache, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import (
    MarkdownNodeParser,
    get_deeper_nodes,
    get_leaf_nodes,
    get_root_nodes,
)
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import MetadataMode, NodeRelationship
from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from e2graphrag_integrations.errors import InvalidInputError, LLMCallLimitError, SummaryError
from e2graphrag_integrations.llama_index import SummaryTreeNodeParser
from tree_oracle import level_sizes

SENTENCES = [f"Person {i} met person {i + 1} in the town of Number {i % 7}." for i in range(120)]
TEXT = " ".join(SENTENCES)


class ChecksumLLM(MockLLM):
    """Answers with the prompt's checksum and first words, and records each prompt in CALLS."""

    def complete(self, prompt, formatted=False, **kwargs):
        CALLS.append(prompt)
        return super().complete(
            f"{zlib.crc32(prompt.encode()):x} {' '.join(prompt.split()[:12])}", formatted, **kwargs
        )


CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _reset():
    CALLS.clear()
    yield
    Settings._llm = None


@pytest.fixture
def parser() -> SummaryTreeNodeParser:
    return SummaryTreeNodeParser(chunk_size=60, chunk_overlap=15, group_size=3, llm=ChecksumLLM())


@pytest.fixture
def document() -> Document:
    return Document(
        id_="doc",
        text=TEXT,
        metadata={"page": 3, "secret": "x"},
        excluded_llm_metadata_keys=["page"],
    )


def by_level(nodes):
    levels: dict[int, list] = {}
    for node in nodes:
        levels.setdefault(node.metadata["e2_level"], []).append(node)
    return [levels[level] for level in sorted(levels)]


def test_the_levels_follow_the_paper_and_each_summary_is_one_call(parser, document):
    nodes = parser.get_nodes_from_documents([document])
    levels = by_level(nodes)
    assert [len(level) for level in levels] == level_sizes(len(levels[0]), 3)
    assert len(levels) > 2
    assert len(CALLS) == sum(len(level) for level in levels[1:])
    assert all(node.text for node in nodes)


def test_every_node_has_consistent_relationships(parser, document):
    nodes = parser.get_nodes_from_documents([document])
    by_id = {node.node_id: node for node in nodes}
    for level in by_level(nodes):
        for before, after in pairwise(level):
            assert before.next_node.node_id == after.node_id
            assert after.prev_node.node_id == before.node_id
        assert level[0].prev_node is None
        assert level[-1].next_node is None
    for node in nodes:
        assert node.ref_doc_id == "doc"
        if node.parent_node:
            parent = by_id[node.parent_node.node_id]
            assert node.node_id in [child.node_id for child in parent.child_nodes]
            assert parent.metadata["e2_level"] == node.metadata["e2_level"] + 1
        assert not node.relationships[NodeRelationship.SOURCE].metadata


@pytest.mark.slow
async def test_links_to_neighbors_can_be_left_out(document):
    sizes = {"chunk_size": 60, "chunk_overlap": 15, "group_size": 3}
    parser = SummaryTreeNodeParser(**sizes, include_prev_next_rel=False, id_func=None)
    linked = SummaryTreeNodeParser(**sizes).get_nodes_from_documents([document])
    assert any(node.next_node for node in linked)
    for nodes in (parser([document]), await parser.acall([document])):
        assert [node.node_id for node in nodes] == [node.node_id for node in linked]
        assert not any(node.next_node or node.prev_node for node in nodes)
        assert any(node.parent_node for node in nodes)


def test_chunks_have_document_offsets_and_uuids(parser, document):
    nodes = parser.get_nodes_from_documents([document])
    for node in nodes:
        uuid.UUID(node.node_id)
        if node.metadata["e2_kind"] == "chunk":
            assert TEXT[node.start_char_idx : node.end_char_idx] == node.text
    assert len({node.node_id for node in nodes}) == len(nodes)
    again = parser.get_nodes_from_documents([document])
    assert [node.node_id for node in again] == [node.node_id for node in nodes]


def test_metadata_is_flat_and_hidden_from_embeddings_and_prompts(parser, document):
    for node in parser.get_nodes_from_documents([document]):
        assert node.metadata["page"] == 3
        assert all(isinstance(value, str | int | float | None) for value in node.metadata.values())
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            assert "e2_" not in node.get_content(mode)
        assert "page" not in node.get_content(MetadataMode.LLM)
    assert not any("secret" in prompt for prompt in CALLS)


async def test_the_async_method_gives_the_same_nodes_as_the_sync_method(parser, document):
    expected = [(n.node_id, n.text) for n in parser.get_nodes_from_documents([document])]
    nodes = await parser.aget_nodes_from_documents([document])
    assert [(n.node_id, n.text) for n in nodes] == expected


async def test_the_sync_method_works_inside_a_running_event_loop(parser, document):
    assert parser.get_nodes_from_documents([document])


async def test_the_async_method_does_not_block_the_event_loop(document):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(tick())
    await SummaryTreeNodeParser(chunk_size=60, chunk_overlap=5).aget_nodes_from_documents(
        [document]
    )
    task.cancel()
    assert ticks > 5


def test_without_an_llm_summaries_are_extractive(document):
    parser = SummaryTreeNodeParser(chunk_size=60, chunk_overlap=15, summary_tokens=40)
    summaries = [n for n in parser.get_nodes_from_documents([document]) if n.metadata["e2_level"]]
    assert summaries
    for node in summaries:
        for sentence in node.text.split(". "):
            assert sentence.rstrip(".") in TEXT


def test_the_llm_of_settings_is_called_only_if_it_is_passed(document):
    Settings.llm = ChecksumLLM()
    sizes = {"chunk_size": 60, "chunk_overlap": 15}
    SummaryTreeNodeParser(**sizes).get_nodes_from_documents([document])
    assert not CALLS
    SummaryTreeNodeParser(**sizes, llm=Settings.llm).get_nodes_from_documents([document])
    assert CALLS


async def test_parsing_above_the_call_limit_is_refused(parser, document, caplog):
    caplog.set_level("INFO", "e2graphrag_integrations")
    nodes = parser.get_nodes_from_documents([document])
    calls = sum(node.metadata["e2_level"] > 0 for node in nodes)
    assert caplog.messages[0].startswith(f"summaries: {calls} LLM call(s) to ")
    CALLS.clear()
    parser.max_llm_calls = calls - 1
    with pytest.raises(LLMCallLimitError):
        parser.get_nodes_from_documents([document])
    with pytest.raises(LLMCallLimitError):
        await parser.aget_nodes_from_documents([document])
    assert not CALLS


def test_a_pipeline_runs_the_parser_sync_async_and_cached(parser, document):
    pipeline = IngestionPipeline(transformations=[parser, MockEmbedding(8)])
    nodes = pipeline.run(documents=[document])
    assert {n.metadata["e2_kind"] for n in nodes} == {"chunk", "summary"}
    assert all(len(node.embedding) == 8 for node in nodes)
    calls = len(CALLS)
    assert [n.node_id for n in pipeline.run(documents=[document])] == [n.node_id for n in nodes]
    assert len(CALLS) == calls
    fresh = IngestionPipeline(transformations=[parser])
    assert [n.node_id for n in asyncio.run(fresh.arun(documents=[document]))] == [
        n.node_id for n in nodes
    ]


def test_an_upsert_replaces_only_the_changed_document(parser):
    vectors = SimpleVectorStore()
    pipeline = IngestionPipeline(
        transformations=[parser, MockEmbedding(8)],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
        vector_store=vectors,
    )
    one, two = Document(id_="one", text=TEXT), Document(id_="two", text=TEXT[:2000])
    first = pipeline.run(documents=[one, two])
    assert {n.ref_doc_id for n in first} == {"one", "two"}
    changed = Document(id_="two", text=TEXT[:1500])
    second = pipeline.run(documents=[one, changed])
    assert {n.ref_doc_id for n in second} == {"two"}
    left = {n.node_id for n in first if n.ref_doc_id == "one"} | {n.node_id for n in second}
    assert set(vectors.data.embedding_dict) == left


@pytest.mark.slow
def test_two_workers_give_the_same_nodes_as_one_worker(document):
    parser = SummaryTreeNodeParser(chunk_size=60, chunk_overlap=15, group_size=3)
    other = Document(id_="other", text=TEXT[:1500])
    pipeline = IngestionPipeline(transformations=[parser], disable_cache=True)
    one = pipeline.run(documents=[document, other])
    two = pipeline.run(documents=[document, other], num_workers=2)
    assert sorted(n.node_id for n in two) == sorted(n.node_id for n in one)


def test_the_node_parser_helpers_and_auto_merging_work_on_the_tree(parser, document):
    nodes = parser.get_nodes_from_documents([document])
    levels = by_level(nodes)
    assert len(get_leaf_nodes(nodes)) == len(levels[0])
    assert len(get_root_nodes(nodes)) == len(levels[-1])
    assert get_deeper_nodes(nodes, depth=1)
    context = StorageContext.from_defaults()
    context.docstore.add_documents(nodes)
    index = VectorStoreIndex(
        get_leaf_nodes(nodes), storage_context=context, embed_model=MockEmbedding(8)
    )
    base = index.as_retriever(similarity_top_k=len(levels[0]))
    merged = AutoMergingRetriever(base, context).retrieve("who met whom?")
    assert any(hit.node.metadata["e2_level"] > 0 for hit in merged)


def test_the_summary_cache_keeps_finished_summaries(tmp_path: Path, document):
    options = {"chunk_size": 60, "chunk_overlap": 15, "group_size": 3}
    cache = str(tmp_path / "summaries.e2g")

    class Failing(ChecksumLLM):
        def complete(self, prompt, formatted=False, **kwargs):
            if len(CALLS) == 4:
                raise RuntimeError("the model failed")
            return super().complete(prompt, formatted, **kwargs)

    failing = SummaryTreeNodeParser(**options, llm=Failing(), summary_cache=cache, num_workers=1)
    with pytest.raises(SummaryError, match="the model failed"):
        failing.get_nodes_from_documents([document])
    assert len(CALLS) == 4
    Failing.complete = ChecksumLLM.complete
    nodes = failing.get_nodes_from_documents([document])
    assert len(CALLS) == sum(n.metadata["e2_level"] > 0 for n in nodes)


def test_the_token_counting_handler_counts_every_call(document):
    handler = TokenCountingHandler(tokenizer=str.split)
    llm = MockLLM(max_tokens=20, callback_manager=CallbackManager([handler]))
    parser = SummaryTreeNodeParser(chunk_size=60, chunk_overlap=15, llm=llm)
    nodes = parser.get_nodes_from_documents([document])
    assert len(handler.llm_token_counts) == sum(n.metadata["e2_level"] > 0 for n in nodes)


def test_empty_documents_give_no_nodes_and_one_chunk_no_summary(parser):
    empty = [Document(text=""), Document(text=" \n")]
    assert parser.get_nodes_from_documents(empty) == []
    [node] = parser.get_nodes_from_documents([Document(text="One chunk.")])
    assert (node.text, node.metadata["e2_kind"]) == ("One chunk.", "chunk")
    assert CALLS == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chunk_size": 60, "chunk_overlap": 60}, "^chunk_overlap=60"),
        ({"chunk_size": 0}, "^chunk_size=0 must be"),
        ({"chunk_size": "a"}, "^chunk_size='a': input should be a valid integer"),
        ({"chunking": "x"}, "^chunking='x': input should be 'fixed' or 'content'$"),
        ({"tree_per": "x"}, "^tree_per='x' must be one of"),
        ({"llm": "x"}, "^llm='x': input should be"),
        ({"id_func": lambda number, _: str(number)}, "^id_func has no effect"),
        ({"include_metadata": False}, "^include_metadata=False has no effect"),
    ],
)
def test_an_invalid_field_raises_at_once(fields, message):
    with pytest.raises(InvalidInputError, match=message):
        SummaryTreeNodeParser(**fields)


def test_an_unknown_field_raises_and_the_message_suggests_the_right_name():
    with pytest.raises(InvalidInputError, match="'chunksize': did you mean 'chunk_size'"):
        SummaryTreeNodeParser(chunksize=3)


def test_the_fields_of_a_parser_survive_serialization():
    fields = SummaryTreeNodeParser(chunk_size=77).to_dict()
    del fields["id_func"]  # LlamaIndex cannot load its own output for this field
    assert SummaryTreeNodeParser.from_dict(fields).chunk_size == 77
    assert SummaryTreeNodeParser.model_validate(fields).chunk_size == 77


def test_arguments_of_other_transformations_are_ignored(parser, document):
    assert parser([document], llm=None, embed_model=None, foo=1)


def test_the_nodes_of_another_parser_keep_their_document():
    parsers = [MarkdownNodeParser(), SummaryTreeNodeParser()]
    pipeline = IngestionPipeline(
        transformations=parsers,
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
        vector_store=(store := SimpleVectorStore()),
    )
    pipeline.transformations.append(MockEmbedding(4))
    for name in ("Anna", "Zora"):
        text = f"# One\n\n{name} met Bert.\n\n# Two\n\nCleo left."
        nodes = pipeline.run(documents=[Document(id_="story", text=text)])
        assert {node.ref_doc_id for node in nodes} == {"story"}
        assert {node.source_node.hash for node in nodes} == {Document(id_="story", text=text).hash}
        for node in get_leaf_nodes(nodes):
            assert text[node.start_char_idx : node.end_char_idx] == node.text
    assert len(store.data.embedding_dict) == len(nodes)


def test_caches_tell_functions_of_trees_apart():
    cache = IngestionCache()
    documents = [Document(id_=id_, text="Anna left.", metadata={"a": id_, "b": 0}) for id_ in "xy"]

    def trees(tree_per):
        parser = SummaryTreeNodeParser(tree_per=tree_per)
        nodes = IngestionPipeline(transformations=[parser], cache=cache).run(documents=documents)
        return {node.metadata["e2_tree"] for node in nodes}

    assert trees(lambda one: f"a {one.metadata['a']}") == {"a x", "a y"}
    assert trees(lambda one: f"b {one.metadata['b']}") == {"b 0"}
