"""`E2GraphRAGIndex`: documents, trees, splitters, files, builds, searches, metadata."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
import random
import re
import subprocess
import sys
import uuid
from pathlib import Path, PurePosixPath

import pytest
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.stores import InMemoryByteStore
from langchain_text_splitters import CharacterTextSplitter, RecursiveCharacterTextSplitter

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
    WriteOptions,
)
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.errors import (
    ClosedError,
    InvalidInputError,
    LLMCallLimitError,
    NotAnIndexError,
    SettingsMismatchError,
)
from e2graphrag_integrations.langchain import E2GraphRAGIndex, E2GraphRAGRetriever
from e2graphrag_integrations.langchain.options import OpenOptions, RetrieverOptions
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.results.duplicates import Duplicates
from fakes import STORY, NameExtractor, numbered
from langchain_fakes import (
    MILL,
    SMALL,
    DigestChatModel,
    exported,
    split_into_pages,
    tree_text,
    two_sources,
)

QUERIES = ["How is Anna tied to Emil?", "Who built a mill?", "what is this about?"]
TESTS = Path(__file__).parents[1]


def retrieved(index):
    retriever = index.as_retriever(k=4, include_scores=True)
    return [document.model_dump() for query in QUERIES for document in retriever.invoke(query)]


def sources(index):
    """Return the ids of the trees without the marks that tell trees of one source apart."""
    return [id_.split(" #")[0] for id_ in index.rag.document_ids]


# Creating


async def test_all_constructors_build_the_same_index(lc_index_of, pages):
    texts = [page.page_content for page in pages]
    rest = {"metadatas": [page.metadata for page in pages], "ids": [page.id for page in pages]}
    expected = exported(lc_index_of(pages))
    for index in (
        await E2GraphRAGIndex.afrom_documents(iter(pages), **grouped(SMALL)),
        E2GraphRAGIndex.from_texts(texts, **grouped({**rest, **SMALL})),
        await E2GraphRAGIndex.afrom_texts(iter(texts), **grouped({**rest, **SMALL})),
    ):
        assert exported(index) == expected
        index.close()


def test_without_an_llm_summaries_are_extracted_sentences(lc_index_of, pages):
    index = lc_index_of(pages)
    assert index.report.summaries > 2
    assert index.report.llm_calls == 0
    summary = next(s.node for s in index.rag.store.all_nodes() if s.node.level)
    assert summary.text.split(".")[0] in STORY


def test_documents_can_be_added_to_an_empty_index(lc_index_of, pages, tmp_path):
    index = lc_index_of([], path=tmp_path / "a.e2g")
    assert index.invoke("Who is Anna?") == []
    assert index.ids() == []
    assert index.rag.verify().ok
    assert index.add_documents(pages) == [page.id for page in pages]
    assert exported(index) == exported(lc_index_of(pages))


def test_ids_and_metadatas_must_match_the_number_of_texts():
    with pytest.raises(InvalidInputError, match="texts has 2 items, but ids has 1"):
        E2GraphRAGIndex.from_texts(["a", "b"], ids=["1"])
    with pytest.raises(InvalidInputError, match="texts has 1 items, but metadatas has 2"):
        E2GraphRAGIndex.from_texts(["a"], metadatas=[{}, {}])


def test_wrong_texts_and_a_single_document_are_named():
    for texts, metadatas, message in (
        ([1], None, r"texts\[0\] is a int, not a str"),
        (["a"], ["x"], r"metadatas\[0\] is a str, not a Mapping"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            E2GraphRAGIndex.from_texts(texts, "hashing", metadatas)
    with pytest.raises(InvalidInputError, match=r"single Document: pass a list, \[document\]"):
        E2GraphRAGIndex.from_documents(Document("Anna."), "hashing")
    with pytest.raises(InvalidInputError, match="embeddings is a int: pass LangChain embeddings"):
        E2GraphRAGIndex.open(embeddings=3)


@pytest.mark.parametrize("arguments", [(), ("novel.e2g",)])
def test_the_constructor_names_the_methods_that_create_an_index(arguments):
    for fields in ({}, {"embedding": 1}):
        with pytest.raises(InvalidInputError, match=r"is created by E2GraphRAGIndex\.from_doc"):
            E2GraphRAGIndex(*arguments, **fields)


def test_the_repr_names_the_file(lc_index_of, tmp_path):
    for path in (":memory:", str(tmp_path / "a.e2g")):
        index = lc_index_of([], path=path)
        assert repr(index) == str(index) == f"E2GraphRAGIndex({path!r})"


def test_a_document_without_an_id_gets_a_permanent_random_id(lc_index_of):
    index = lc_index_of([])
    ids = index.add_documents([Document(page_content="Anna."), Document(page_content="Anna.")])
    assert len({uuid.UUID(id_) for id_ in ids}) == 2
    assert [document.id for document in index.get(ids)] == ids
    assert index.upsert([Document(id="own", page_content="Anna.")])["succeeded"] == ["own"]


def test_documents_with_equal_texts_stay_separate(lc_index_of):
    index = lc_index_of([Document(id=id_, page_content="Anna met Bert.") for id_ in "ab"])
    assert [d.metadata["e2_doc_id"] for d in index.invoke("Who met Bert?")] == ["a"]  # shown once
    assert len(index.get(["a", "b"])) == 2


def test_a_document_without_text_is_stored_but_not_retrieved(lc_index_of):
    blank = [Document(id="a", page_content=""), Document(id="b", page_content=" \n")]
    index = lc_index_of([*blank, Document(id="c", page_content="Anna.")])
    assert index.get(["a", "b"]) == blank
    assert [d.page_content for d in index.invoke("Anna?")] == ["Anna."]
    assert set(index.report.empty) == {"a", "b"}


def test_the_last_document_with_a_repeated_id_wins(lc_index_of):
    repeated = [
        Document(id="1", page_content="Old.", metadata={"source": "a"}),
        Document(id="1", page_content="New.", metadata={"source": "b"}),
    ]
    index = lc_index_of(repeated)
    assert index.get(["1"]) == [repeated[1]]
    assert sources(index) == ["b"]
    assert index.ids() == ["1"]


@pytest.mark.parametrize("ids", [["", "b"], [" ", "b"], [["a"], "b"]])
def test_invalid_ids_are_refused_before_anything_is_stored(lc_index_of, ids):
    index = lc_index_of([])
    texts = ["Anna left.", "Bert stayed."]
    with pytest.raises(InvalidInputError, match="id"):
        index.add_documents([Document(text) for text in texts], ids=ids)
    with pytest.raises(InvalidInputError, match="id"):
        index.add_texts(texts, ids=ids)
    assert index.ids() == []


def test_numbers_as_ids_become_strings_as_in_a_document(lc_index_of):
    index = lc_index_of([])
    assert index.add_documents([Document("Anna left.")], ids=[1]) == ["1"]
    assert index.delete(["1"])["num_deleted"] == 1


@pytest.mark.parametrize("value", ["text", None, {"page_content": "x"}, SourceDocument("a", "b")])
def test_only_documents_are_accepted(lc_index_of, value):
    index = lc_index_of([])
    with pytest.raises(InvalidInputError, match="is not a Document"):
        index.upsert([Document(page_content="fine"), value])
    assert index.ids() == []


# Upsert, delete, get


async def test_async_upsert_get_and_delete_equal_sync(lc_index_of, pages):
    index, other = lc_index_of(pages), lc_index_of(pages)
    new = Document(id="map.pdf-2", page_content="Zoe met Yan.", metadata={"source": "map.pdf"})
    assert await index.aupsert([new]) == other.upsert([new])
    assert await index.aget(["map.pdf-2", "no", "mill.pdf-1"]) == [new, pages[3]]
    assert other.get(["map.pdf-2", "no", "mill.pdf-1"]) == [new, pages[3]]
    ids = ["mill.pdf-1", "no", "mill.pdf-1"]
    response = await index.adelete(ids)
    assert response == other.delete(ids)
    assert (response["num_deleted"], response["succeeded"]) == (1, ["mill.pdf-1"])
    await index.abuild()
    other.build()
    assert exported(index) == exported(other)


def test_delete_requires_ids(lc_index_of):
    with pytest.raises(InvalidInputError, match=r"delete\(index.ids\(\)\)"):
        lc_index_of([]).delete()


def test_deleted_documents_leave_no_trace(lc_index_of, pages):
    index = lc_index_of(pages[:3])
    index.add_documents(pages[3:])
    index.delete([page.id for page in pages[3:]])
    index.build()
    assert exported(index) == exported(lc_index_of(pages[:3]))
    index.delete(index.ids())
    assert index.invoke("Who is Anna?") == []
    assert exported(index) == exported(lc_index_of([]))


@pytest.mark.parametrize("target", ["new.pdf", "mill.pdf"])
def test_a_page_can_move_to_another_source(lc_index_of, pages, target):
    index = lc_index_of(pages)
    moved = pages[0].model_copy(update={"metadata": {"source": target, "page": 0}})
    index.add_documents([moved])
    assert exported(index) == exported(lc_index_of([*pages[1:], moved]))


def test_get_returns_passages_by_their_retrieved_ids(lc_index_of, pages):
    index = lc_index_of(pages)
    hit = index.invoke("Who built a mill?")[0]
    passage, page = index.get([hit.id, pages[0].id])[::-1]
    assert (passage.id, passage.page_content) == (hit.id, hit.page_content)
    assert passage.metadata["e2_source_id"] == hit.metadata["e2_source_id"]
    assert page == pages[0]


def test_mutating_an_input_or_output_document_does_not_change_the_index(lc_index_of):
    index = lc_index_of([])
    document = Document(id="a", page_content="Anna.", metadata={"tags": ["x"]})
    index.upsert([document])
    for _ in range(2):
        document.metadata["tags"].append("y")
        index.get(["a"])[0].metadata["tags"].append("z")
        index.invoke("Anna?")[0].metadata["tags"].append("z")
        assert index.get(["a"])[0].metadata == {"tags": ["x"]}
        index.build()


# Trees


@pytest.fixture
def every_summary(monkeypatch):
    """Results also contain the summaries that repeat their chunks, in this process."""
    monkeypatch.setattr(Duplicates, "add_repeats", lambda *_: False)


@pytest.mark.usefixtures("every_summary")
def test_pages_of_a_source_share_a_tree(lc_index_of, pages):
    index = lc_index_of(pages)
    assert sources(index) == ["map.pdf", "mill.pdf"]
    text = tree_text(index, "map.pdf")
    summaries = [stored.node for stored in index.rag.store.all_nodes() if stored.node.level]
    assert any(
        node.document_id.startswith("map.pdf #")
        and pages[1].page_content in text[node.start : node.end]
        for node in summaries
    )
    hits = index.as_retriever(k=100).invoke("what is this about?")
    chunk_pages = {hit.metadata["page"] for hit in hits if hit.metadata["e2_level"] == 0}
    assert chunk_pages >= {1, 2}
    assert any(len(hit.metadata["pages"]) > 1 for hit in hits if hit.metadata["e2_level"])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("seed", range(4))
def test_the_order_and_batches_of_pages_do_not_matter(lc_index_of, pages, seed):
    rng = random.Random(seed)  # noqa: S311 - not for cryptography
    shuffled = rng.sample(pages, len(pages))
    index = lc_index_of(shuffled[: rng.randint(0, 3)], auto_build=False)
    for page in shuffled[len(index.ids()) :]:
        (index.upsert if rng.random() < 0.5 else index.add_documents)([page])
    index.build()
    assert exported(index) == exported(lc_index_of(pages))


def test_pages_without_numbers_keep_their_insertion_order(lc_index_of):
    def row(id_, text):
        return Document(id=id_, page_content=text, metadata={"source": "s", "page": "none"})

    index = lc_index_of([row(id_, f"Row {id_}.") for id_ in "bca"])
    index.add_documents([row("c", "Row C.")])
    assert index.rag.document("s").text == "Row b.\n\nRow C.\n\nRow a."


@pytest.mark.parametrize(
    ("tree_per", "trees"),
    [
        ("source", ["map.pdf", "mill.pdf"]),
        ("document", [f"map.pdf-{i}" for i in (1, 2, 3)] + ["mill.pdf-1", "mill.pdf-2"]),
        ("corpus", ["corpus"]),
        (lambda document: document.metadata["author"], ["Ann", "Bob"]),
    ],
)
def test_tree_per_determines_which_documents_share_a_tree(lc_index_of, pages, tree_per, trees):
    index = lc_index_of(pages, tree_per=tree_per)
    assert sources(index) == trees
    assert index.get([page.id for page in pages]) == pages


def test_a_corpus_tree_keeps_the_pages_of_a_source_together(lc_index_of, pages):
    mixed = [pages[i] for i in (0, 3, 4, 2, 1)]
    index = lc_index_of(mixed, tree_per="corpus")
    assert index.rag.document("corpus").text.split() == f"{STORY} {MILL}".split()


@pytest.mark.parametrize("tree_per", ["chapter", 3])
def test_an_unknown_tree_per_is_rejected(tree_per):
    with pytest.raises(InvalidInputError, match="source, document, corpus"):
        E2GraphRAGIndex.open(settings=IndexSettings(tree_per=tree_per))


# Splitters


@pytest.mark.parametrize(
    "splitter",
    [
        RecursiveCharacterTextSplitter(chunk_size=60, chunk_overlap=0),
        RecursiveCharacterTextSplitter(chunk_size=60, chunk_overlap=25),
        lambda text: text.split("\n\n"),
    ],
)
def test_the_splitter_determines_the_chunks(lc_index_of, pages, splitter):
    index = lc_index_of(pages, splitter=splitter)
    nodes = [s.node for s in index.rag.store.all_nodes() if s.node.level == 0]
    text = "\n\n".join(page.page_content for page in pages[:3])
    split = getattr(splitter, "split_text", splitter)
    assert [n.text for n in nodes if n.document_id.startswith("map.pdf #")] == list(split(text))
    assert index.rag.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0, 7])
def test_a_splitter_works_on_repetitive_text(lc_index_of, overlap):
    rng = random.Random(overlap)  # noqa: S311 - not for cryptography
    texts = ["".join(rng.choices(["la ", "li ", "la. ", "\n\n"], k=40)) for _ in range(30)]
    splitter = RecursiveCharacterTextSplitter(chunk_size=14, chunk_overlap=overlap)
    documents = [Document(id=str(i), page_content=text) for i, text in enumerate(texts)]
    index = lc_index_of(documents, splitter=splitter)
    for number, text in enumerate(texts):
        chunks = [
            stored.node.text
            for stored in index.rag.store.all_nodes()
            if stored.node.document_id == str(number) and not stored.node.level
        ]
        assert chunks == splitter.split_text(text)


@pytest.mark.parametrize(
    ("splitter", "problem"),
    [
        (lambda text: [text.upper()], "does not occur in the text"),
        (lambda text: [text[:20]], "omitted the end"),
        (CharacterTextSplitter(separator=".", chunk_size=20, chunk_overlap=0), "omit nothing"),
        (lambda text: text, "list of strings, but returned a str"),
        (lambda text: [Document(page_content=text)], "list of strings, but returned a Document"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: None, "TypeError"),
    ],
)
def test_an_invalid_splitter_result_is_rejected(lc_index_of, pages, splitter, problem):
    with pytest.raises(InvalidInputError, match=problem):
        lc_index_of(pages, splitter=splitter)


@pytest.mark.parametrize("splitter", [3, "sentences", RecursiveCharacterTextSplitter])
def test_only_splitters_are_accepted(splitter):
    with pytest.raises(InvalidInputError, match="is not a text splitter"):
        E2GraphRAGIndex.open(settings=IndexSettings(splitter=splitter))


# Files

RETRIEVE = """
import json, sys
from e2graphrag_integrations import Models
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from fakes import NameExtractor
from test_lc_index import retrieved
index = E2GraphRAGIndex.load_local(sys.argv[1], models=Models(extractor=NameExtractor()))
print(json.dumps(retrieved(index)))
"""


@pytest.mark.slow
def test_a_saved_index_returns_the_same_results_in_a_new_process(lc_index_of, pages, tmp_path):
    index = lc_index_of(pages)
    index.save_local(tmp_path / "a.e2g")
    process = subprocess.run(
        [sys.executable, "-c", RETRIEVE, tmp_path / "a.e2g"],
        env={"PYTHONPATH": f"{TESTS}:{TESTS / 'langchain'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(process.stdout) == json.loads(json.dumps(retrieved(index)))


def test_save_local_builds_the_index_and_replaces_an_older_file(lc_index_of, pages, tmp_path):
    lc_index_of(pages[3:]).save_local(str(tmp_path / "a.e2g"))
    index = lc_index_of(pages[:2], auto_build=False)
    index.upsert(pages[2:3])
    index.save_local(tmp_path / "a.e2g")
    index.upsert(pages[3:])  # not part of the copy
    loaded = E2GraphRAGIndex.load_local(
        tmp_path / "a.e2g", models=Models(extractor=NameExtractor())
    )
    assert exported(loaded) == exported(lc_index_of(pages[:3]))
    loaded.add_documents(pages[3:])
    assert exported(loaded) == exported(lc_index_of(pages))
    loaded.close()


def test_save_local_to_the_index_file_only_builds(lc_index_of, pages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    index = lc_index_of([], path="a.e2g", auto_build=False)
    index.upsert(pages)
    index.save_local(tmp_path / "a.e2g")
    assert not index.corpus.is_dirty
    index.save_local("b.e2g")
    for name in ("a.e2g", "b.e2g"):
        with E2GraphRAG.open(name, models=Models(extractor=NameExtractor())) as rag:
            assert list(rag.export()) == exported(index)


def test_load_local_requires_an_index_file(tmp_path):
    with pytest.raises(InvalidInputError, match=r"index file .* does not exist"):
        E2GraphRAGIndex.load_local(tmp_path / "no.e2g", embeddings="hashing")
    assert not (tmp_path / "no.e2g").exists()
    with pytest.raises(InvalidInputError, match=r"index file .* does not exist"):
        E2GraphRAGIndex.load_local(tmp_path)
    (tmp_path / "text").write_text("This text is not an index file. " * 9)
    with pytest.raises(NotAnIndexError):
        E2GraphRAGIndex.load_local(tmp_path / "text")


def test_a_failed_from_documents_closes_its_file(lc_index_of, pages, tmp_path):
    path, llm = tmp_path / "a.e2g", DigestChatModel(failing={1})
    with pytest.raises(Exception, match="call 1 failed"):
        lc_index_of(pages, path=path, llm=llm, retry=None, concurrency=1)
    assert [p.name for p in tmp_path.iterdir()] == ["a.e2g"]  # without an SQLite log file


# Files of the engine and the command line


def engine_results(rag):
    return [
        [(n.node_id, n.score) for n in rag.retrieve(query, k=4, fill=True).nodes]
        for query in QUERIES
    ]


def langchain_results(retriever):
    return [[(d.id, d.metadata["e2_score"]) for d in retriever.invoke(query)] for query in QUERIES]


def test_a_file_of_the_engine_gives_the_same_results_and_accepts_documents(
    open_index, story, tmp_path
):
    path = tmp_path / "engine.e2g"
    rag = open_index(path)
    rag.add([story, SourceDocument("mill", MILL)])
    expected = engine_results(rag)
    options = {"k": 4, "include_scores": True}
    assert langchain_results(E2GraphRAGRetriever(index=rag, **options)) == expected
    rag.close()
    index = E2GraphRAGIndex.open(path, models=Models(extractor=NameExtractor()))
    assert langchain_results(index.as_retriever(**options)) == expected
    assert index.get(["story"]) == [
        Document(id="story", page_content=STORY, metadata={"kind": "tale"})
    ]
    index.add_documents([Document(id="new", page_content="Zoe met Yan in Oslo.")])
    index.add_documents([Document(id="mill", page_content="Zoe met Yan again.")])
    assert sources(index) == ["mill", "new", "story"]
    assert "Fay" not in "".join(exported(index))
    index.delete(["story"])
    assert {d.metadata["e2_source_id"] for d in index.invoke("Zoe")} == {"mill", "new"}
    assert index.rag.verify().ok
    index.close()


def test_a_file_of_the_command_line_gives_the_same_results(tmp_path, capsys):
    for name, text in (("map", STORY), ("mill", MILL)):
        (tmp_path / f"{name}.txt").write_text(text)
    path, sizes = str(tmp_path / "cli.e2g"), ["--chunk-size", "16", "--chunk-overlap", "4"]
    command = ["index", str(tmp_path / "map.txt"), str(tmp_path / "mill.txt"), "--out", path]
    assert main([*command, "--embedder", "hashing", *sizes]) == 0
    assert main(["query", path, QUERIES[0], "-k", "4", "--json"]) == 0
    output = capsys.readouterr().out
    index = E2GraphRAGIndex.open(path)
    hits = index.as_retriever(k=4).invoke(QUERIES[0])
    assert all(hit.id in output for hit in hits[:1])
    assert len(index.ids()) == 2
    with E2GraphRAG.open(path) as rag:
        assert langchain_results(index.as_retriever(k=4, include_scores=True)) == engine_results(
            rag
        )
    index.close()


# Builds


def test_one_build_indexes_many_upserts(lc_index_of, pages, caplog):
    llm = DigestChatModel()
    index = lc_index_of([], llm=llm, auto_build=False)
    for page in pages:
        index.upsert([page])
        index.delete([page.id])
        index.upsert([page])
    assert llm.calls == 0
    estimate = index.estimate()
    report = index.build()
    assert llm.calls == estimate.llm_calls == report.llm_calls > 2
    assert index.build().documents == 0
    assert index.estimate().llm_calls == 0
    assert exported(index) == exported(lc_index_of(pages, llm=llm))


def test_an_edit_costs_the_estimate_and_less_than_a_rebuild(lc_index_of):
    llm = DigestChatModel()
    documents = [Document(id=n, page_content=numbered(40, n).text) for n in ("a", "b")]
    index = lc_index_of(documents, llm=llm, auto_build=False)
    first_calls = llm.calls
    index.upsert([Document(id="a", page_content=numbered(41, "a").text)])
    estimated_calls = index.estimate().llm_calls
    index.build()
    assert llm.calls - first_calls == estimated_calls < first_calls / 2


def test_without_auto_build_upserts_are_only_stored(lc_index_of, pages):
    index = lc_index_of(pages[:3], auto_build=False)
    found = index.invoke("Anna?")
    index.upsert(pages[3:])
    assert index.invoke("Anna?") == asyncio.run(index.ainvoke("Anna?")) == found
    assert index.rag.freshness().pending == 1
    index.build()
    assert index.rag.freshness().pending == 0
    assert any("Fay" in hit.page_content for hit in index.invoke("Who built a mill?"))


async def test_the_config_of_the_index_or_the_build_reaches_the_llm(lc_index_of, pages):
    first, second, third = (UsageMetadataCallbackHandler() for _ in range(3))
    index = lc_index_of(
        pages[:3], llm=DigestChatModel().with_config(callbacks=[first]), auto_build=False
    )
    calls = index.report.llm_calls
    assert first.usage_metadata["fake"]["total_tokens"] == 12 * calls > 0
    index.upsert(pages[3:4])
    calls = index.build({"callbacks": [second]}).llm_calls
    assert second.usage_metadata["fake"]["total_tokens"] == 12 * calls > 0
    index.upsert(pages[4:])
    calls = (await index.abuild({"callbacks": [third]})).llm_calls
    assert third.usage_metadata["fake"]["total_tokens"] == 12 * calls > 0


def test_show_progress_draws_a_bar(lc_index_of, pages, capsys):
    lc_index_of(pages)
    assert capsys.readouterr().err == ""
    lc_index_of(pages, show_progress=True)
    assert "100%" in capsys.readouterr().err


# Searching


def test_similarity_search_with_score_returns_the_retrievers_documents(lc_index_of, pages):
    index = lc_index_of(pages, k=5)
    for options in ({}, {"mode": "global"}, {"filter": {"source": "mill.pdf"}}):
        found = index.similarity_search_with_score(QUERIES[0], k=3, **options)
        assert [d for d, _ in found] == index.as_retriever(k=3, **options).invoke(QUERIES[0])
        assert all(type(score) is float for _, score in found)
    assert len(index.similarity_search_with_score(QUERIES[0])) == 5


def test_search_returns_the_trace_of_the_retriever(lc_index_of, pages):
    index = lc_index_of(pages)
    result = index.as_retriever(k=3, max_hops=2).search(QUERIES[0])
    assert result.route == "local"
    assert {link.entity for link in result.trace.links} == {"anna", "emil"}
    assert [n.node_id for n in result.nodes] == [
        d.id for d in index.as_retriever(k=3, max_hops=2).invoke(QUERIES[0])
    ]


# Embeddings


def test_embeddings_need_not_be_normalized(lc_index_of, pages):
    index = lc_index_of(pages, embeddings=DeterministicFakeEmbedding(size=24))
    found = index.similarity_search_with_score(QUERIES[2], k=5, mode="global")
    assert all(0 <= score <= 1 for _, score in found)
    assert index.rag.verify().ok


def test_cached_embeddings_give_the_same_results(lc_index_of, pages):
    plain = DeterministicFakeEmbedding(size=24)
    cached = CacheBackedEmbeddings.from_bytes_store(
        plain, InMemoryByteStore(), namespace="fake", key_encoder="sha256"
    )
    indexes = [lc_index_of(pages, embeddings=embeddings) for embeddings in (plain, cached)]
    assert retrieved(indexes[0]) == retrieved(indexes[1])


@pytest.mark.usefixtures("every_summary")
def test_loading_rejects_embeddings_of_another_dimension(lc_index_of, pages, tmp_path):
    lc_index_of(pages, embeddings=DeterministicFakeEmbedding(size=24)).save_local(tmp_path / "a")
    options = {"extractor": NameExtractor()}
    with pytest.raises(SettingsMismatchError, match=r"dimension 24, .* returns dimension 23"):
        E2GraphRAGIndex.load_local(
            tmp_path / "a",
            **grouped({"embeddings": DeterministicFakeEmbedding(size=23), **options}),
        )
    with pytest.raises(SettingsMismatchError):
        E2GraphRAGIndex.load_local(
            tmp_path / "a", **grouped({"embeddings": HashingEmbedder(), **options})
        )
    same = DeterministicFakeEmbedding(size=24)
    index = E2GraphRAGIndex.load_local(tmp_path / "a", **grouped({"embeddings": same, **options}))
    assert len(index.invoke(QUERIES[2])) == 10
    index.close()


# Metadata


def test_metadata_is_returned_as_json(lc_index_of):
    metadata = {
        "when": dt.datetime(2026, 7, 1, 12, 30),  # noqa: DTZ001 - some loaders return naive datetimes
        "day": dt.date(2026, 7, 1),
        "path": PurePosixPath("a/b.txt"),
        "id": uuid.UUID(int=7),
        "box": (1, (2.5, None)),
        "plain": {"a": [True, "ü"]},
    }
    index = lc_index_of([Document(id="a", page_content="Anna.", metadata=metadata)])
    expected = {
        "when": "2026-07-01 12:30:00",
        "day": "2026-07-01",
        "path": "a/b.txt",
        "id": "00000000-0000-0000-0000-000000000007",
        "box": [1, [2.5, None]],
        "plain": {"a": [True, "ü"]},
    }
    assert index.get(["a"])[0].metadata == expected
    assert index.invoke("Anna?")[0].metadata.items() >= expected.items()


def deeply_nested():
    inner: dict = {}
    for _ in range(5000):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"x": float("nan")}, "not JSON compliant"),
        ({"x": [float("inf")]}, "not JSON compliant"),
        ({"x": b"bytes"}, "bytes is not a JSON type"),
        ({"x": {1, 2}}, "set is not a JSON type"),
        ({"x": object()}, "object is not a JSON type"),
        ({("a", "b"): 1}, "keys must be"),
        ({"x": "\ud800"}, "surrogates not allowed"),
        (deeply_nested(), "recursion|too deep"),
    ],
)
def test_metadata_that_is_not_json_is_rejected(lc_index_of, metadata, problem):
    index = lc_index_of([Document(id="a", page_content="Anna.")])
    invalid = Document(id="b", page_content="Bert is bad.", metadata=metadata)
    with pytest.raises(InvalidInputError, match=problem) as caught:
        index.upsert([Document(id="a", page_content="Changed."), invalid])
    assert "'Bert is bad.'" in str(caught.value) or "'b'" in str(caught.value)
    assert index.get(["a"])[0].page_content == "Anna."
    assert not index.corpus.is_dirty


def test_metadata_may_use_reserved_keys(lc_index_of):
    metadata = {"document_id": 7, "title": ["A"], "page": "ii", "e2_doc_id": "x", "id": "y"}
    documents = [
        Document(id=id_, page_content=f"{name}.", metadata=metadata | {"document_id": number})
        for number, (id_, name) in enumerate([("a", "Anna"), ("b", "Bert")])
    ]
    index = lc_index_of(documents)
    assert index.get(["a", "b"]) == documents
    found = index.as_retriever(filter={"document_id": 1}).invoke("Who?")
    assert [(d.page_content, d.metadata["document_id"]) for d in found] == [("Bert.", 1)]
    assert found[0].metadata["e2_doc_id"] == "b"


def test_every_method_of_a_closed_index_raises(lc_index_of, pages, tmp_path):
    for path in (":memory:", tmp_path / "a.e2g"):
        index = lc_index_of(pages, path=path)
        index.upsert(pages[:1])
        index.close()
        index.close()
        for call in (
            lambda: index.upsert(two_sources()),  # noqa: B023
            lambda: index.delete(["map.pdf-1"]),  # noqa: B023
            lambda: index.get(["map.pdf-1"]),  # noqa: B023
            index.ids,
            index.build,
            index.estimate,
            lambda: index.invoke("Who?"),  # noqa: B023
            lambda: index.save_local(tmp_path / "b.e2g"),  # noqa: B023
        ):
            with pytest.raises(ClosedError, match="is closed"):
                call()


@pytest.mark.slow
def test_upsert_and_delete_scale_to_thousands_of_pages(lc_index_of):
    documents = split_into_pages(" ".join(f"Item {i} ends." for i in range(4000)), "long", 1)
    documents += [Document(id=f"d{i}", page_content=f"Item {i}.") for i in range(4000)]
    index = lc_index_of([])
    index.upsert(documents)
    assert len(index.get(index.ids())) == 8000
    index.delete(index.ids()[::2])
    assert len(index.ids()) == 4000


def test_split_pages_gives_every_chunk_the_metadata_of_its_page(lc_index_of, pages):
    index = lc_index_of(pages, split_segments=True, chunk_size=1000)
    chunks = [d for d in index.invoke("Anna?", k=100) if d.metadata["e2_level"] == 0]
    assert sorted(d.page_content for d in chunks) == sorted(p.page_content for p in pages)
    for page in pages:
        where = {"page": page.metadata["page"], "source": page.metadata["source"]}
        found = index.as_retriever(k=10, filter=where).invoke("Anna?")
        own = [d.page_content for d in found if d.metadata["e2_level"] == 0]
        assert own == [page.page_content]
    summaries = [d for d in index.invoke("Anna?", k=100) if d.metadata["e2_level"]]
    for summary in summaries:
        child_ids = summary.metadata["e2_children"].split(", ")
        child_pages = [d.metadata["e2_doc_id"] for d in chunks if d.id in child_ids]
        assert (
            summary.metadata["e2_doc_ids"] == sorted(child_pages)
            or summary.metadata["e2_level"] > 1
        )
        assert summary.metadata["page"] == 1
        assert len(summary.metadata["pages"]) > 1


def test_the_context_manager_closes_the_index(pages, tmp_path):
    with E2GraphRAGIndex.open(tmp_path / "a.e2g", embeddings="hashing") as index:
        index.add_documents(pages)
        assert index.report.documents == index.rag.stats().documents == 2
    with pytest.raises(ClosedError):
        index.invoke("Anna?")


# Options


def test_the_listed_options_are_those_of_open():
    parameters = set(inspect.signature(E2GraphRAGIndex.open).parameters)
    assert set(OpenOptions.__annotations__) == parameters - {"path", "embedding", "unknown"}


def test_the_listed_search_options_are_fields_of_the_retriever():
    fields = set(E2GraphRAGRetriever.model_fields)
    assert set(RetrieverOptions.__annotations__) == fields - {"index"}


def test_unknown_options_raise_with_a_suggestion(pages, tmp_path):
    for call in (
        lambda: E2GraphRAGIndex.from_documents(pages, embeding="hashing"),
        lambda: E2GraphRAGIndex.from_texts(["Anna."], embeding="hashing"),
        lambda: E2GraphRAGIndex.open(embeding="hashing"),
    ):
        with pytest.raises(InvalidInputError, match="'embeding': did you mean 'embeddings'"):
            call()
    with E2GraphRAGIndex.open(**grouped(SMALL)) as index:
        with pytest.raises(InvalidInputError, match="'id': did you mean 'ids'"):
            index.delete(id=["a"])
        for call in (lambda: index.upsert(pages, batch=1), lambda: index.get(["a"], batch=1)):
            with pytest.raises(InvalidInputError, match="unknown argument 'batch'"):
                call()
        index.save_local(tmp_path / "a.e2g")
    with pytest.raises(InvalidInputError, match="'chunksize': did you mean 'chunk_size'"):
        E2GraphRAGIndex.load_local(tmp_path / "a.e2g", chunksize=3)
    for name, where in (
        ("extractor", "models=Models(extractor=...)"),
        ("chunk_overlp", "settings=IndexSettings(chunk_overlap=...)"),
        ("lock_timeout", "writes=WriteOptions(lock_timeout=...)"),
    ):
        with pytest.raises(InvalidInputError, match=re.escape(f"did you mean {where}?")):
            E2GraphRAGIndex.open(**{name: 3})


def test_a_string_is_not_a_list_of_ids_or_texts(lc_index_of):
    index = lc_index_of([Document(id=id_, page_content="Anna.") for id_ in "ab"])
    assert index.delete("ab")["num_deleted"] == 0
    assert sorted(index.ids()) == ["a", "b"]
    for call in (
        lambda: E2GraphRAGIndex.from_texts("abc"),
        lambda: E2GraphRAGIndex.from_texts(["a"], ids="x"),
        lambda: index.add_documents("abc"),
        lambda: index.upsert(None),
        lambda: index.delete(5),
        lambda: index.get([[]]),
    ):
        with pytest.raises(InvalidInputError):
            call()


def test_error_messages_do_not_contain_secrets(tmp_path):
    for options in (
        {"llm": {"api_key": "sk-secret"}},
        {"embeddings": {"api_key": "sk-secret"}},
        {"vector_store": "postgresql://me:sk-secret@host/db"},
    ):
        with pytest.raises(InvalidInputError) as error:
            E2GraphRAGIndex.open(tmp_path / "a.e2g", **grouped(options))
        assert "sk-secret" not in str(error.value)
    with pytest.raises(InvalidInputError):
        E2GraphRAGIndex.open(tmp_path / "a.e2g", k=0)
    assert list(tmp_path.iterdir()) == []


# The limit on LLM calls


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_build_above_the_call_limit_is_refused_and_stays_pending(pages, tmp_path, is_async):
    llm, path = DigestChatModel(), tmp_path / "limited.e2g"
    with E2GraphRAGIndex.open(
        path, **grouped({"llm": llm, "max_llm_calls": 1, "auto_build": False, **SMALL})
    ) as index:
        index.upsert(pages)
        needed = index.estimate().llm_calls
        with pytest.raises(LLMCallLimitError, match=rf"need {needed} LLM call.* max_llm_calls=1"):
            await index.abuild() if is_async else index.build()
        assert index.as_retriever().invoke("Who built a mill?") == []
        assert (llm.calls, index.corpus.is_dirty) == (0, True)
    with E2GraphRAGIndex.open(
        path, **grouped({"llm": llm, "max_llm_calls": needed, **SMALL})
    ) as index:
        assert index.build().llm_calls == llm.calls == needed


def test_an_invalid_call_limit_is_rejected_before_a_file_is_created(tmp_path):
    with pytest.raises(InvalidInputError, match="max_llm_calls="):
        E2GraphRAGIndex.open(tmp_path / "new.e2g", writes=WriteOptions(max_llm_calls=-1))
    assert not list(tmp_path.iterdir())


def test_the_announcement_names_the_model(pages, caplog):
    caplog.set_level("INFO", "e2graphrag_integrations")
    E2GraphRAGIndex.from_documents(
        pages, **grouped({"llm": DigestChatModel().with_retry(), **SMALL})
    ).close()
    assert "LLM call(s) to DigestChatModel," in caplog.text
