"""The tools of an index in LangChain and LlamaIndex: the same names, schemas and answers."""

from __future__ import annotations

import asyncio
import json

import pytest
from llama_index.core import Document
from llama_index.core.tools import FunctionTool

from e2graphrag_integrations import SourceDocument, langchain, llama_index
from e2graphrag_integrations.agents.tools import IndexTools
from e2graphrag_integrations.agents.toolset import Allowance, agent_tools
from e2graphrag_integrations.errors import InvalidInputError
from fakes import STORY

NAMES = {"search", "read", "outline", "entity", "path"}
FACTORIES = {
    "langchain": langchain.create_e2graphrag_tools,
    "llama_index": llama_index.create_e2graphrag_tools,
}


@pytest.fixture
def rag(open_index):
    index = open_index()
    index.add(
        [
            SourceDocument("story", STORY, title="A Map", metadata={"tenant": "a"}),
            SourceDocument(
                "code", "The part KX-2041 belongs to the pump.", metadata={"tenant": "b"}
            ),
        ]
    )
    return index


@pytest.fixture(params=FACTORIES)
def factory(request):
    return FACTORIES[request.param]


def call(tool, **arguments):
    if isinstance(tool, FunctionTool):
        return str(tool.call(**arguments).raw_output)
    return tool.invoke(arguments)


async def acall(tool, **arguments):
    if isinstance(tool, FunctionTool):
        return str((await tool.acall(**arguments)).raw_output)
    return await tool.ainvoke(arguments)


def name_of(tool):
    return tool.metadata.name if isinstance(tool, FunctionTool) else tool.name


def by_name(tools):
    return {name_of(tool): tool for tool in tools}


@pytest.mark.fast_cases(1)
async def test_every_tool_answers_with_spans_sync_and_async(rag, factory):
    tools = by_name(factory(rag))
    assert set(tools) == NAMES
    hit = json.loads(call(tools["search"], question="Who gave Anna a map?"))["hits"][0]
    assert hit["document_id"] == "story"
    start, end = hit["spans"][0]
    part = json.loads(call(tools["read"], document_id="story", start=start, end=end))
    assert STORY[part["start"] : part["end"]] == part["text"]
    assert json.loads(call(tools["outline"]))["total"] == 2
    assert json.loads(call(tools["entity"], name="Anna"))["mentions"]
    assert "paths" in json.loads(call(tools["path"], source="Anna", target="Emil"))
    expected = call(tools["search"], question="Who gave Anna a map?")
    assert await acall(tools["search"], question="Who gave Anna a map?") == expected


def test_an_exact_search_embeds_nothing(rag, factory, monkeypatch):
    def fail(*_):
        raise AssertionError("the question was embedded")

    monkeypatch.setattr(type(rag.embedder), "embed_query", fail)
    found = json.loads(call(by_name(factory(rag))["search"], question="KX-2041", exact=True))
    assert [hit["document_id"] for hit in found["hits"]] == ["code"]


def test_problems_are_sentences_for_the_model(rag, factory):
    tools = by_name(factory(rag))
    assert "no document 'x'" in call(tools["read"], document_id="x")
    assert "`search` finds names" in call(tools["entity"], name="Zebulon")
    assert "max_tokens" in call(tools["search"], question="Anna", max_tokens=7)
    assert "top_k" in call(tools["search"], question="Anna", top_k=7)


def test_a_scope_hides_other_documents(rag, factory):
    tools = by_name(factory(rag.scoped({"tenant": "b"})))
    assert json.loads(call(tools["outline"]))["total"] == 1
    assert "no document 'story'" in call(tools["read"], document_id="story")


def test_indexes_of_the_frameworks_and_their_scopes_have_the_tools():
    documents = [("story", "Anna met Bert.", "Ann"), ("other", "Cleo left Oslo.", "Bob")]
    lc = langchain.E2GraphRAGIndex.from_texts(
        [text for _, text, _ in documents], "hashing", [{"author": by} for _, _, by in documents]
    )
    li = llama_index.E2GraphRAGIndex.from_documents(
        [Document(id_=id_, text=text, metadata={"author": by}) for id_, text, by in documents],
        embed_model="hashing",
    )
    for index, create in ((lc, FACTORIES["langchain"]), (li, FACTORIES["llama_index"])):
        with index:
            for reader, total in ((index, 2), (index.scoped({"author": "Ann"}), 1)):
                outline = by_name(create(reader))["outline"]
                assert json.loads(call(outline))["total"] == total


@pytest.mark.parametrize("index", [None, 5, "a.e2g"])
def test_something_else_than_an_index_is_refused(index, factory):
    with pytest.raises(InvalidInputError, match="is not an index"):
        factory(index)


@pytest.mark.parametrize(
    "options", [{"max_tokens": 10}, {"conversation_tokens": 10}, {"max_tokens": "many"}]
)
def test_invalid_limits_are_refused(rag, factory, options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        factory(rag, **options)


def test_a_conversation_has_an_allowance_and_others_have_their_own(rag):
    [search, *_] = langchain.create_e2graphrag_tools(rag, conversation_tokens=200)

    def ask(thread):
        config = {"configurable": {"thread_id": thread}}
        return search.invoke({"question": "Who gave Anna a map?"}, config)

    assert "hits" in ask("one")
    for _ in range(5):
        last = ask("one")
    assert "are used" in last
    assert "hits" in ask("two")


def test_an_allowance_is_never_exceeded_by_more_than_the_answers_in_flight(rag):
    tools = agent_tools(IndexTools(rag, 300))
    [search] = [tool for tool in tools if tool.name == "search"]
    allowance = Allowance(600)

    async def ask():
        return await asyncio.to_thread(
            allowance.answer, lambda: search.function("Who gave Anna a map?")
        )

    async def ask_all():
        return await asyncio.gather(*(ask() for _ in range(20)))

    answers = asyncio.run(ask_all())
    assert any("are used" in answer for answer in answers)


def test_schemas_are_those_of_the_mcp_server(rag):
    tools = by_name(langchain.create_e2graphrag_tools(rag))
    for tool in agent_tools(IndexTools(rag)):
        assert set(tools[tool.name].args) == set(tool.arguments().model_fields)
        assert tools[tool.name].description == tool.description


def test_llama_index_tools_take_positional_arguments(rag):
    tools = by_name(llama_index.create_e2graphrag_tools(rag))
    expected = tools["path"].call(source="Anna", target="Bert").content
    assert tools["path"]("Anna", "Bert").content == expected
    assert tools["path"].call("Anna", target="Bert").content == expected
    assert asyncio.run(tools["path"].acall("Anna", "Bert")).content == expected
