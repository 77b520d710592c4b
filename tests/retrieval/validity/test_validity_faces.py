"""`as_of` through LlamaIndex, LangChain, the command line, the API and the tools of agents."""

from __future__ import annotations

import asyncio
import json
import pickle

import pytest
from langchain_core.documents import Document as Page
from langchain_core.runnables import ConfigurableField
from llama_index.core import Document
from llama_index.core.llms import MockLLM

from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument, Validity
from e2graphrag_integrations.agents.tools import IndexTools
from e2graphrag_integrations.agents.toolset import agent_tools
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.errors import EvaluationError, InvalidInputError
from e2graphrag_integrations.evaluation.settings import Setting, parse_settings
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.langchain import E2GraphRAGRetriever, create_e2graphrag_tool
from e2graphrag_integrations.llama_index import E2GraphRAGIndex as LlamaIndex
from e2graphrag_integrations.views.answer import Settings, ask

QUESTION = "Who pays the rent of the hall?"
TEXTS = {
    "v1": "Anna pays the rent of the hall in May.",
    "v2": "Bert now pays rent for the hall.",
    "fair": "The fair pays the rent of the hall.",
}
METADATA = {
    "v1": {"date": "2019"},
    "v2": {"date": "2022", "supersedes": "v1"},
    "fair": {"valid_from": "2020-05", "valid_to": "2020-06"},
}
CASES = {
    "2018": [],
    "2019-12-31": ["v1"],
    "2020-05-15": ["fair", "v1"],
    "2023": ["v2", "v1"],
}


@pytest.fixture(scope="module")
def core(names):
    with E2GraphRAG.open(":memory:", embedder="hashing", models=Models(extractor=names)) as rag:
        rag.add([SourceDocument(i, text, metadata=METADATA[i]) for i, text in TEXTS.items()])
        yield rag


@pytest.fixture(scope="module")
def llama(names):
    pages = [Document(id_=i, text=text, metadata=METADATA[i]) for i, text in TEXTS.items()]
    return LlamaIndex.from_documents(pages, embed_model="hashing", models=Models(extractor=names))


@pytest.fixture(scope="module")
def chain(names):
    pages = [Page(text, id=i, metadata=METADATA[i]) for i, text in TEXTS.items()]
    with LangChainIndex.from_documents(pages, "hashing", models=Models(extractor=names)) as index:
        yield index


def found(hits, key="e2_doc_id"):
    return [hit.metadata[key] for hit in hits]


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(("as_of", "expected"), CASES.items())
def test_all_faces_find_what_held(core, llama, chain, as_of, expected):
    result = core.retrieve(QUESTION, as_of=as_of)
    assert sorted(node.document_id for node in result.nodes) == sorted(expected)
    order = [node.document_id for node in result.nodes]
    for given in (as_of, Validity(as_of), {"at": as_of}):
        retriever = llama.as_retriever(similarity_top_k=10, as_of=given)
        assert [hit.node.ref_doc_id for hit in retriever.retrieve(QUESTION)] == order
        assert found(chain.as_retriever(k=10, as_of=given).invoke(QUESTION)) == order
    marks = {node.document_id: node.superseded_by for node in result.nodes}
    assert marks.get("v1") == ("v2" if "v2" in expected else None)
    answer, _ = Settings({"as_of": as_of}).ask(core, QUESTION)
    assert answer.nodes == result.nodes


def test_llama_index_marks_older_versions_outside_of_prompts(llama):
    hits = llama.as_retriever(as_of="2023").retrieve(QUESTION)
    newest, older = (hit.node for hit in hits)
    assert "e2_superseded_by" not in newest.metadata
    assert older.metadata["e2_superseded_by"] == "v2"
    assert {"e2_superseded_by"} <= set(older.excluded_llm_metadata_keys)
    assert {"e2_superseded_by"} <= set(older.excluded_embed_metadata_keys)
    engine = llama.as_query_engine(llm=MockLLM(), as_of="2019-12-31")
    assert [hit.node.ref_doc_id for hit in engine.query(QUESTION).source_nodes] == ["v1"]
    [hit] = asyncio.run(llama.as_retriever(as_of="2019").aretrieve(QUESTION))
    assert hit.node.ref_doc_id == "v1"
    with pytest.raises(InvalidInputError, match="as_of='soon' must be a date"):
        llama.as_retriever(as_of="soon")


def test_langchain_overrides_and_configures_the_date(chain):
    retriever = E2GraphRAGRetriever(index=chain, k=5, as_of="2023")
    assert found(retriever.invoke(QUESTION)) == ["v2", "v1"]
    assert found(retriever.invoke(QUESTION), "e2_superseded_by") == ["", "v2"]
    assert found(retriever.invoke(QUESTION, as_of="2019")) == ["v1"]
    assert found(asyncio.run(retriever.ainvoke(QUESTION, as_of="2019"))) == ["v1"]
    assert found(chain.similarity_search(QUESTION, k=5, as_of="2019")) == ["v1"]
    configurable = retriever.configurable_fields(as_of=ConfigurableField(id="as_of"))
    assert found(configurable.invoke(QUESTION, {"configurable": {"as_of": "2019"}})) == ["v1"]
    assert found(chain.as_retriever(search_kwargs={"as_of": "2019"}).invoke(QUESTION)) == ["v1"]
    passages = create_e2graphrag_tool(retriever).invoke({"query": QUESTION})
    assert passages.count("superseded by v2") == 1
    result = asyncio.run(chain.rag.aretrieve(QUESTION, as_of="2019"))
    assert [node.superseded_by for node in result.nodes] == [None]
    assert pickle.loads(pickle.dumps(retriever.as_of)) == Validity("2023")  # noqa: S301 - our own
    with pytest.raises(InvalidInputError, match="as_of='soon' must be a date"):
        E2GraphRAGRetriever(index=chain, as_of="soon")


def test_versions_of_pages_are_those_of_their_documents(names):
    pages = [
        Page(f"Page {page} of {year}: Anna pays rent.", id=f"{year}-{page}", metadata=metadata)
        for year in (2020, 2021)
        for page in (1, 2)
        for metadata in [{"source": f"{year}.pdf", "page": page, "url": "x", "date": str(year)}]
    ]
    with LangChainIndex.from_documents(pages, "hashing", models=Models(extractor=names)) as index:
        by_source = Validity(source="url")
        hits = index.as_retriever(k=9, as_of=by_source).invoke("Who pays rent?")
        marks = {hit.metadata["e2_doc_id"]: hit.metadata["e2_superseded_by"] for hit in hits}
    assert all(bool(newest) == id_.startswith("2020") for id_, newest in marks.items() if id_)


def test_the_tools_of_agents_take_a_date_and_mark_versions(core):
    tools = IndexTools(core)
    answer = tools.search(QUESTION, as_of="2023")
    assert [(hit.document_id, hit.superseded_by) for hit in answer.hits] == [
        ("v2", None),
        ("v1", "v2"),
    ]
    [hit] = tools.search(QUESTION, as_of="2019", exact=True).hits
    assert hit.document_id == "v1"
    with pytest.raises(InvalidInputError, match="as_of='soon'"):
        tools.search(QUESTION, as_of="soon")


def test_views_and_settings_have_the_date(core):
    view = ask(core, QUESTION, Settings({"as_of": {"at": "2023", "source": "url"}}))
    assert [node.superseded_by for node in view.nodes] == [None, "v2"]
    assert view.cuts["as_of"] == 1
    assert view.reason.text.startswith("as of 2023, 1 node(s) left out; ")
    assert (view.reason.code, view.reason.values["date"]) == ("left_out", "2023")
    assert [one.code for one in view.nodes[1].reasons][-1] == "superseded_then"
    setting = parse_settings(["may as_of=2024-05-01 k=3"])["may"]
    assert setting.as_of == Validity("2024-05-01")
    assert "2024-05-01" in str(setting.describe()["as_of"])
    for as_of in ("soon", {"zzz": 1}):
        with pytest.raises(EvaluationError, match="as_of"):
            parse_settings([f"bad as_of={json.dumps(as_of)}"])
    with pytest.raises(InvalidInputError):
        Setting(as_of="soon")


def test_the_command_line_takes_a_date_with_keys(tmp_path, capsys):
    texts = {"old.txt": ("Anna pays the rent.", "2019"), "new.txt": ("Bert pays rent.", "2022")}
    index = str(tmp_path / "hall.e2g")
    for name, (text, start) in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        metadata = ["--metadata", f"start={start}"]
        command = ["index", str(tmp_path / name), "--out", index, "--embedder", "hashing"]
        assert main([*command, *metadata]) == 0
    capsys.readouterr()

    def query(*arguments):
        code = main(["query", index, QUESTION, *arguments, "--json"])
        out, err = capsys.readouterr()
        return code, [one["document_id"] for one in json.loads(out)["nodes"]] if out else err

    assert query("--as-of", "2020") == (0, ["old.txt", "new.txt"])
    assert query("--as-of", '{"at": "2020", "valid_from": "start"}') == (0, ["old.txt"])
    assert main(["query", index, QUESTION, "--as-of", "soon"]) != 0
    assert "must be a date" in capsys.readouterr().err
    assert main(["query", index, QUESTION, "--as-of", "{"]) != 0
    assert "--as-of" in capsys.readouterr().err


def test_the_tool_of_an_agent_passes_the_date_on(core):
    [search, *_] = agent_tools(IndexTools(core))
    answer = search.function(QUESTION, as_of="2019")
    assert [hit.document_id for hit in answer.hits] == ["v1"]
    assert search.arguments()(question=QUESTION, as_of="2019").as_of == "2019"
