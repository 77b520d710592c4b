"""Content-defined chunks and groups: an edit of a long document writes few summaries."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.schema import NodeRelationship, TextNode

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from llama_fakes import Digests

CONTENT = {"chunking": "content", "grouping": "content", "chunk_overlap": None}
QUESTIONS = ("What did Anna tell Bert?", "Who came on day 33?", "what is this about?")


def long_text(count=70):
    names = ("Anna", "Bert", "Cleo", "Dora", "Emil")
    return " ".join(
        f"{names[day % 5]} told {names[day % 3]} of day {day} again." for day in range(count)
    )


TEXT = long_text()
EDITED = TEXT.replace("of day 40 again.", "of day 40 again. Zoe came with a telescope.")


def document(text=TEXT):
    return Document(id_="long", text=text, metadata={"title": "Days"})


def loaded(folder, **options):
    return E2GraphRAGIndex.from_persist_dir(
        folder, **grouped({"extractor": NameExtractor(), **options})
    )


def contents(index):
    docs = index.storage_context.docstore.docs
    return {id_: (n.text, n.start_char_idx, n.end_char_idx) for id_, n in docs.items()}


def results(index):
    return [
        [(n.node_id, n.text, pytest.approx(n.score)) for n in index.as_retriever().retrieve(q)]
        for q in QUESTIONS
    ]


def summaries(nodes):
    return {node.node_id: node.text for node in nodes if node.metadata["e2_level"]}


def parsed(count=70, **options):
    defaults = {"chunk_size": 16, "group_size": 3, "llm": Digests()} | CONTENT
    parser = SummaryTreeNodeParser(**(defaults | options))
    return parser.get_nodes_from_documents([document(long_text(count))])


@pytest.mark.slow
def test_an_edit_writes_few_summaries_and_equals_a_rebuild(index_of):
    index = index_of([document()], llm=Digests(), **CONTENT)
    build_calls = index.report.llm_calls
    index.update_ref_doc(document(EDITED))
    assert build_calls > 30
    assert 1 <= index.report.llm_calls <= build_calls / 4
    rebuilt = index_of([document(EDITED)], llm=Digests(), **CONTENT)
    assert contents(index) == contents(rebuilt)
    assert results(index) == results(rebuilt)


def test_the_settings_are_persisted_and_enforced(index_of, tmp_path):
    index_of([document()], llm=Digests(), **CONTENT).persist(tmp_path)
    again = loaded(tmp_path, llm=Digests())
    assert again.rag.made_with["chunking"] == again.rag.made_with["grouping"] == "content"
    again.update_ref_doc(document(EDITED))
    rebuilt = index_of([document(EDITED)], llm=Digests(), **CONTENT)
    assert contents(again) == contents(rebuilt)
    for name in ("chunking", "grouping"):
        with pytest.raises(SettingsMismatchError, match=f"{name}=content, not 'fixed'"):
            loaded(tmp_path, **{name: "fixed"})


def test_an_index_with_fixed_chunks_cannot_change_to_content_chunks(index_of, tmp_path):
    index_of([document()], llm="extractive").persist(tmp_path)
    assert loaded(tmp_path).rag.made_with["chunking"] == "fixed"
    with pytest.raises(SettingsMismatchError, match="chunking=fixed, not 'content'"):
        loaded(tmp_path, chunking="content")


def test_invalid_settings_raise(index_of):
    with pytest.raises(InvalidInputError, match="chunk_overlap=4"):
        index_of([document()], **(CONTENT | {"chunk_overlap": 4}))
    with pytest.raises(InvalidInputError, match="grouping='tree'"):
        index_of([document()], grouping="tree")


def test_an_edit_after_loading_writes_few_summaries(index_of, tmp_path):
    index = index_of([document()], llm=Digests(), **CONTENT)
    build_calls = index.report.llm_calls
    index.persist(tmp_path)
    again = loaded(tmp_path, llm=Digests())
    again.update_ref_doc(document(EDITED))
    assert 1 <= again.report.llm_calls <= build_calls / 4


def test_a_parser_and_an_index_create_the_same_nodes(index_of):
    index = index_of([document()], llm=Digests(), **CONTENT)
    assert {id_: text for id_, (text, *_) in contents(index).items()} == {
        node.node_id: node.text for node in parsed()
    }


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("grouping", ["content", "fixed"])
@pytest.mark.parametrize("index_grouping", ["content", "fixed"])
def test_parsed_nodes_keep_their_summaries_under_the_same_grouping(
    grouping, index_grouping, caplog
):
    nodes = parsed(grouping=grouping)
    llm = Digests()
    index = E2GraphRAGIndex(
        nodes,
        llm=llm,
        embed_model="hashing",
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(group_size=3, grouping=index_grouping),
    )
    is_same = grouping == index_grouping
    own = summaries(index.docstore.docs.values())
    assert (own == summaries(nodes)) == is_same
    assert index.report.llm_calls == len(llm.prompts)
    assert (llm.prompts == []) == is_same
    assert any("do not fit the trees" in message for message in caplog.messages) != is_same
    assert index.rag.verify().ok


@pytest.mark.slow
def test_an_index_with_content_chunks_survives_an_index_file(index_of, tmp_path):
    index = index_of([document()], llm=Digests(), **CONTENT)
    path = tmp_path / "days.e2g"
    index.rag.copy_to(path)
    with E2GraphRAG.open(path, models=Models(extractor=NameExtractor())) as rag:
        assert rag.settings.chunking == rag.settings.grouping == "content"
        assert rag.verify().ok
    again = E2GraphRAGIndex.open(path, models=Models(extractor=NameExtractor()), llm=Digests())
    assert again.rag.made_with["grouping"] == "content"
    assert contents(again) == contents(index)
    assert results(again) == results(index)
    again.update_ref_doc(document(EDITED))
    assert 1 <= again.report.llm_calls <= index.report.llm_calls / 4


def test_nodes_with_a_lone_surrogate_raise():
    source = TextNode(id_="source", text="").as_related_node_info()
    nodes = [TextNode(text="Anna \ud800."), TextNode(text="Bert.")]
    for node in nodes:
        node.relationships[NodeRelationship.SOURCE] = source
    with pytest.raises(InvalidInputError, match="lone surrogate"):
        E2GraphRAGIndex(
            nodes, **grouped({"embed_model": "hashing", "extractor": NameExtractor(), **CONTENT})
        )
