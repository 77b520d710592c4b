"""`E2GraphRAGIndex`: documents in and out, trees by source, files, models, metadata."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import random
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

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.errors import (
    ClosedError,
    InvalidInputError,
    NotAnIndexError,
    SettingsMismatchError,
)
from e2graphrag_integrations.langchain import E2GraphRAGIndex, E2GraphRAGRetriever
from fakes import STORY, NameExtractor, numbered
from langchain_fakes import MILL, Digests, paged, two_sources

QUESTIONS = ["How is Anna tied to Emil?", "Who built a mill?", "what is this about?"]
TESTS = Path(__file__).parents[1]


def exported(index):
    return list(index.corpus.rag.export())


def answers(index):
    retriever = index.as_retriever(k=4, include_scores=True)
    return [document.model_dump() for q in QUESTIONS for document in retriever.invoke(q)]


def sources(index):
    return index.corpus.rag.document_ids


# Filling


async def test_documents_and_texts_index_the_same_in_sync_and_async(lc_index_of, pages):
    options = {"embeddings": "hashing", "extractor": NameExtractor(), "chunk_size": 16}
    options |= {"chunk_overlap": 4, "group_size": 3}
    texts = [page.page_content for page in pages]
    rest = {"metadatas": [page.metadata for page in pages], "ids": [page.id for page in pages]}
    expected = exported(lc_index_of(pages))
    for index in (
        await E2GraphRAGIndex.afrom_documents(iter(pages), **options),
        E2GraphRAGIndex.from_texts(texts, **rest, **options),
        await E2GraphRAGIndex.afrom_texts(iter(texts), **rest, **options),
    ):
        assert exported(index) == expected
        index.close()


def test_without_an_llm_summaries_are_made_of_the_texts_own_sentences(lc_index_of, pages):
    index = lc_index_of(pages)
    assert index.corpus.report.summaries > 2
    assert index.corpus.report.llm_calls == 0
    summary = next(s.node for s in index.corpus.rag.store.all_nodes() if s.node.level)
    assert summary.text.split(".")[0] in STORY


def test_an_empty_index_is_valid_and_can_be_filled_later(lc_index_of, pages, tmp_path):
    index = lc_index_of([], path=tmp_path / "a.e2g")
    assert index.invoke("Who is Anna?") == []
    assert index.ids() == []
    assert index.corpus.rag.verify().ok
    assert index.add_documents(pages) == [page.id for page in pages]
    assert exported(index) == exported(lc_index_of(pages))


def test_texts_of_another_number_than_their_ids_are_refused():
    with pytest.raises(InvalidInputError, match="2 texts and 1 ids"):
        E2GraphRAGIndex.from_texts(["a", "b"], ids=["1"])
    with pytest.raises(InvalidInputError, match="1 texts and 2 metadatas"):
        E2GraphRAGIndex.from_texts(["a"], [{}, {}])


def test_documents_without_an_id_get_a_random_one_and_keep_it(lc_index_of):
    index = lc_index_of([])
    ids = index.add_documents([Document(page_content="Anna."), Document(page_content="Anna.")])
    assert len({uuid.UUID(id_) for id_ in ids}) == 2
    assert [document.id for document in index.get(ids)] == ids
    assert index.upsert([Document(id="own", page_content="Anna.")])["succeeded"] == ["own"]


def test_equal_texts_are_documents_of_their_own(lc_index_of):
    index = lc_index_of([Document(id=id_, page_content="Anna met Bert.") for id_ in "ab"])
    assert {d.metadata["e2_doc_id"] for d in index.invoke("Who met Bert?")} == {"a", "b"}


def test_a_document_without_text_is_kept_and_found_by_nobody(lc_index_of):
    empty = [Document(id="a", page_content=""), Document(id="b", page_content=" \n")]
    index = lc_index_of([*empty, Document(id="c", page_content="Anna.")])
    assert index.get(["a", "b"]) == empty
    assert [d.page_content for d in index.invoke("Anna?")] == ["Anna."]
    assert set(index.corpus.report.empty) == {"a", "b"}


def test_an_id_given_twice_is_what_it_was_last(lc_index_of):
    twice = [
        Document(id="1", page_content="Old.", metadata={"source": "a"}),
        Document(id="1", page_content="New.", metadata={"source": "b"}),
    ]
    index = lc_index_of(twice)
    assert index.get(["1"]) == [twice[1]]
    assert sources(index) == ["b"]
    assert index.ids() == ["1"]


@pytest.mark.parametrize("bad", ["text", None, {"page_content": "x"}, SourceDocument("a", "b")])
def test_what_is_no_document_is_refused(lc_index_of, bad):
    index = lc_index_of([])
    with pytest.raises(InvalidInputError, match="is no Document"):
        index.upsert([Document(page_content="fine"), bad])
    assert index.ids() == []


# Upsert, delete, get


async def test_upsert_get_and_delete_are_the_same_in_async(lc_index_of, pages):
    index, other = lc_index_of(pages), lc_index_of(pages)
    new = Document(id="map.pdf-2", page_content="Zoe met Yan.", metadata={"source": "map.pdf"})
    assert await index.aupsert([new]) == other.upsert([new])
    assert await index.aget(["map.pdf-2", "no", "mill.pdf-1"]) == [new, pages[3]]
    assert other.get(["map.pdf-2", "no", "mill.pdf-1"]) == [new, pages[3]]
    gone = ["mill.pdf-1", "no", "mill.pdf-1"]
    response = await index.adelete(gone)
    assert response == other.delete(gone)
    assert (response["num_deleted"], response["succeeded"]) == (1, ["mill.pdf-1"])
    await index.abuild()
    other.build()
    assert exported(index) == exported(other)


def test_delete_wants_to_be_told_what(lc_index_of):
    with pytest.raises(ValueError, match=r"delete\(index.ids\(\)\)"):
        lc_index_of([]).delete()


def test_what_was_deleted_leaves_no_trace(lc_index_of, pages):
    index = lc_index_of(pages[:3])
    index.add_documents(pages[3:])
    index.delete([page.id for page in pages[3:]])
    index.build()
    assert exported(index) == exported(lc_index_of(pages[:3]))
    index.delete(index.ids())
    assert index.invoke("Who is Anna?") == []
    assert exported(index) == exported(lc_index_of([]))


@pytest.mark.parametrize("target", ["new.pdf", "mill.pdf"])
def test_a_page_that_moves_to_another_source_leaves_the_first(lc_index_of, pages, target):
    index = lc_index_of(pages)
    moved = pages[0].model_copy(update={"metadata": {"source": target, "page": 0}})
    index.add_documents([moved])
    assert exported(index) == exported(lc_index_of([*pages[1:], moved]))


def test_get_gives_passages_too_by_the_ids_that_searches_give(lc_index_of, pages):
    index = lc_index_of(pages)
    hit = index.invoke("Who built a mill?")[0]
    passage, page = index.get([hit.id, pages[0].id])[::-1]
    assert (passage.id, passage.page_content) == (hit.id, hit.page_content)
    assert passage.metadata["e2_source_id"] == hit.metadata["e2_source_id"]
    assert page == pages[0]


def test_changing_what_was_given_or_got_changes_nothing(lc_index_of):
    index = lc_index_of([])
    document = Document(id="a", page_content="Anna.", metadata={"tags": ["x"]})
    index.upsert([document])
    for _ in range(2):  # pending, then built
        document.metadata["tags"].append("y")
        index.get(["a"])[0].metadata["tags"].append("z")
        index.invoke("Anna?")[0].metadata["tags"].append("z")
        assert index.get(["a"])[0].metadata == {"tags": ["x"]}
        index.build()


# Trees


def test_pages_of_a_source_share_a_tree(lc_index_of, pages):
    index = lc_index_of(pages)
    assert sources(index) == ["map.pdf", "mill.pdf"]
    text = index.corpus.rag.document("map.pdf").text
    summaries = [stored.node for stored in index.corpus.rag.store.all_nodes() if stored.node.level]
    assert any(
        node.document_id == "map.pdf" and pages[1].page_content in text[node.start : node.end]
        for node in summaries
    )
    hits = index.as_retriever(k=100).invoke("what is this about?")
    of_pages = {hit.metadata["page"] for hit in hits if hit.metadata["e2_level"] == 0}
    assert of_pages >= {1, 2}
    assert any(hit.metadata["page"] is None for hit in hits if hit.metadata["e2_level"])


@pytest.mark.parametrize("seed", range(4))
def test_pages_may_come_in_any_order_and_any_batches(lc_index_of, pages, seed):
    rng = random.Random(seed)  # noqa: S311
    mixed = rng.sample(pages, len(pages))
    index = lc_index_of(mixed[: rng.randint(0, 3)])
    for page in mixed[len(index.ids()) :]:
        (index.upsert if rng.random() < 0.5 else index.add_documents)([page])
    index.build()
    assert exported(index) == exported(lc_index_of(pages))


def test_without_numbers_pages_stay_as_they_came(lc_index_of):
    rows = [Document(id=i, page_content=f"Row {i}.", metadata={"source": "s"}) for i in "bca"]
    index = lc_index_of(rows)
    index.add_documents([Document(id="c", page_content="Row C.", metadata={"source": "s"})])
    assert index.corpus.rag.document("s").text == "Row b.\n\nRow C.\n\nRow a."


@pytest.mark.parametrize(
    ("scope", "trees"),
    [
        ("source", ["map.pdf", "mill.pdf"]),
        ("document", [f"map.pdf-{i}" for i in (1, 2, 3)] + ["mill.pdf-1", "mill.pdf-2"]),
        ("corpus", ["corpus"]),
        (lambda document: document.metadata["author"], ["Ann", "Bob"]),
    ],
)
def test_the_scope_says_what_shares_a_tree(lc_index_of, pages, scope, trees):
    index = lc_index_of(pages, tree_scope=scope)
    assert sources(index) == trees
    assert index.get([page.id for page in pages]) == pages


def test_one_tree_of_several_sources_keeps_each_together(lc_index_of, pages):
    mixed = [pages[i] for i in (0, 3, 4, 2, 1)]
    index = lc_index_of(mixed, tree_scope="corpus")
    assert index.corpus.rag.document("corpus").text.split() == f"{STORY} {MILL}".split()


@pytest.mark.parametrize("scope", ["chapter", None, 3])
def test_an_unknown_scope_is_refused(scope):
    with pytest.raises(InvalidInputError, match="source, document, corpus"):
        E2GraphRAGIndex.open(tree_scope=scope)


# Splitters


@pytest.mark.parametrize(
    "splitter",
    [
        RecursiveCharacterTextSplitter(chunk_size=60, chunk_overlap=0),
        RecursiveCharacterTextSplitter(chunk_size=60, chunk_overlap=25),
        lambda text: text.split("\n\n"),
    ],
)
def test_a_splitter_cuts_the_chunks(lc_index_of, pages, splitter):
    index = lc_index_of(pages, splitter=splitter)
    nodes = [s.node for s in index.corpus.rag.store.all_nodes() if s.node.level == 0]
    text = "\n\n".join(page.page_content for page in pages[:3])
    split = getattr(splitter, "split_text", splitter)
    assert [n.text for n in nodes if n.document_id == "map.pdf"] == list(split(text))
    assert index.corpus.rag.verify().ok


@pytest.mark.parametrize("overlap", [0, 7])
def test_texts_that_repeat_themselves_are_split(lc_index_of, overlap):
    rng = random.Random(overlap)  # noqa: S311
    texts = ["".join(rng.choices(["la ", "li ", "la. ", "\n\n"], k=40)) for _ in range(30)]
    splitter = RecursiveCharacterTextSplitter(chunk_size=14, chunk_overlap=overlap)
    documents = [Document(id=str(i), page_content=text) for i, text in enumerate(texts)]
    index = lc_index_of(documents, splitter=splitter)
    for number, text in enumerate(texts):
        chunks = [
            stored.node.text
            for stored in index.corpus.rag.store.all_nodes()
            if stored.node.document_id == str(number) and not stored.node.level
        ]
        assert chunks == splitter.split_text(text)


@pytest.mark.parametrize(
    ("splitter", "problem"),
    [
        (lambda text: [text.upper()], "does not stand in the text as it is"),
        (lambda text: [text[:20]], "omitted the end"),
        (CharacterTextSplitter(separator=".", chunk_size=20, chunk_overlap=0), "omit nothing"),
        (lambda text: text, "gave a str where a list"),
        (lambda text: [Document(page_content=text)], "gave a Document where a list"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: None, "TypeError"),
    ],
)
def test_a_splitter_that_does_not_cut_the_text_is_refused(lc_index_of, pages, splitter, problem):
    with pytest.raises(InvalidInputError, match=problem):
        lc_index_of(pages, splitter=splitter)


@pytest.mark.parametrize("splitter", [3, "sentences", RecursiveCharacterTextSplitter])
def test_what_is_no_splitter_is_refused(splitter):
    with pytest.raises(InvalidInputError, match="is no text splitter"):
        E2GraphRAGIndex.open(splitter=splitter)


# Files

ANSWER = """
import json, sys
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from fakes import NameExtractor
from test_lc_index import answers
index = E2GraphRAGIndex.load_local(sys.argv[1], extractor=NameExtractor())
print(json.dumps(answers(index)))
"""


def test_a_saved_index_answers_the_same_in_a_new_process(lc_index_of, pages, tmp_path):
    index = lc_index_of(pages)
    index.save_local(tmp_path / "a.e2g")
    done = subprocess.run(
        [sys.executable, "-c", ANSWER, tmp_path / "a.e2g"],
        env={"PYTHONPATH": f"{TESTS}:{TESTS / 'langchain'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(answers(index)))


def test_saving_builds_and_takes_the_place_of_an_older_file(lc_index_of, pages, tmp_path):
    lc_index_of(pages[3:]).save_local(str(tmp_path / "a.e2g"))
    index = lc_index_of(pages[:2])
    index.upsert(pages[2:3])
    index.save_local(tmp_path / "a.e2g")
    index.upsert(pages[3:])  # of this one, not of the copy
    loaded = E2GraphRAGIndex.load_local(tmp_path / "a.e2g", extractor=NameExtractor())
    assert exported(loaded) == exported(lc_index_of(pages[:3]))
    loaded.add_documents(pages[3:])
    assert exported(loaded) == exported(lc_index_of(pages))
    loaded.close()


def test_saving_to_its_own_file_builds_only(lc_index_of, pages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    index = lc_index_of([], path="a.e2g")
    index.upsert(pages)
    index.save_local(tmp_path / "a.e2g")
    assert not index.corpus.is_dirty
    index.save_local("b.e2g")
    for name in ("a.e2g", "b.e2g"):
        with E2GraphRAG.open(name, extractor=NameExtractor()) as rag:
            assert list(rag.export()) == exported(index)


def test_there_must_be_a_file_to_load(tmp_path):
    with pytest.raises(InvalidInputError, match="there is no index file"):
        E2GraphRAGIndex.load_local(tmp_path / "no.e2g", embeddings="hashing")
    assert not (tmp_path / "no.e2g").exists()
    with pytest.raises(InvalidInputError, match="there is no index file"):
        E2GraphRAGIndex.load_local(tmp_path)
    (tmp_path / "text").write_text("no index, but some text that is long enough" * 9)
    with pytest.raises(NotAnIndexError):
        E2GraphRAGIndex.load_local(tmp_path / "text")


def test_a_failed_beginning_lets_go_of_its_file(lc_index_of, pages, tmp_path):
    path, llm = tmp_path / "a.e2g", Digests(failing={1})
    with pytest.raises(Exception, match="call 1 failed"):
        lc_index_of(pages, path=path, llm=llm, retry=None, max_concurrency=1)
    assert [p.name for p in tmp_path.iterdir()] == ["a.e2g"]  # no log beside it


# An index of the core


def core_results(rag):
    return [
        [(n.node_id, n.score) for n in rag.retrieve(q, k=4, fill=True).nodes] for q in QUESTIONS
    ]


def face_results(retriever):
    return [
        [(d.id, d.metadata["e2_score"]) for d in retriever.invoke(question)]
        for question in QUESTIONS
    ]


def test_an_index_of_the_core_opens_with_the_same_results_and_grows(open_index, story, tmp_path):
    path = tmp_path / "core.e2g"
    rag = open_index(path)
    rag.add([story, SourceDocument("mill", MILL)])
    expected = core_results(rag)
    options = {"k": 4, "include_scores": True}
    assert face_results(E2GraphRAGRetriever(index=rag, **options)) == expected
    rag.close()
    index = E2GraphRAGIndex.open(path, extractor=NameExtractor())
    assert face_results(index.as_retriever(**options)) == expected
    assert index.get(["story"]) == [
        Document(id="story", page_content=STORY, metadata={"kind": "tale"})
    ]
    index.add_documents([Document(id="new", page_content="Zoe met Yan in Oslo.")])
    index.add_documents([Document(id="mill", page_content="Zoe met Yan again.")])
    assert sources(index) == ["mill", "new", "story"]
    assert "Fay" not in "".join(exported(index))
    index.delete(["story"])
    assert {d.metadata["e2_source_id"] for d in index.invoke("Zoe")} == {"mill", "new"}
    assert index.corpus.rag.verify().ok
    index.close()


def test_an_index_of_the_command_line_opens_with_the_same_results(tmp_path, capsys):
    for name, text in (("map", STORY), ("mill", MILL)):
        (tmp_path / f"{name}.txt").write_text(text)
    path, sizes = str(tmp_path / "cli.e2g"), ["--chunk-size", "16", "--chunk-overlap", "4"]
    command = ["index", str(tmp_path / "map.txt"), str(tmp_path / "mill.txt"), "--out", path]
    assert main([*command, "--embedder", "hashing", *sizes]) == 0
    assert main(["query", path, QUESTIONS[0], "-k", "4", "--json"]) == 0
    printed = capsys.readouterr().out
    index = E2GraphRAGIndex.open(path)
    hits = index.as_retriever(k=4).invoke(QUESTIONS[0])
    assert all(hit.id in printed for hit in hits[:1])
    assert len(index.ids()) == 2
    with E2GraphRAG.open(path) as rag:
        assert face_results(index.as_retriever(k=4, include_scores=True)) == core_results(rag)
    index.close()


# Builds


def test_many_upserts_are_one_build(lc_index_of, pages, caplog):
    llm = Digests()
    index = lc_index_of([], llm=llm)
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


def test_a_small_change_costs_what_was_estimated_and_less(lc_index_of):
    llm = Digests()
    documents = [Document(id=n, page_content=numbered(40, n).text) for n in ("a", "b")]
    index = lc_index_of(documents, llm=llm)
    first = llm.calls
    index.upsert([Document(id="a", page_content=numbered(41, "a").text)])
    estimated = index.estimate().llm_calls
    index.build()
    assert llm.calls - first == estimated < first / 2


async def test_a_batch_of_questions_on_a_dirty_index_runs_one_build(lc_index_of, pages):
    alone = Digests()
    lc_index_of(pages, llm=alone)
    for is_async in (False, True):
        llm = Digests(seconds=0.02)
        index = lc_index_of([], llm=llm)
        index.upsert(pages)
        retriever = index.as_retriever(k=3)
        questions = QUESTIONS * 3
        batch = await retriever.abatch(questions) if is_async else retriever.batch(questions)
        assert [len(found) for found in batch] == [3] * 9
        assert llm.calls == alone.calls
        assert (llm.async_calls > 0) == is_async


class InAThread(Digests):
    """A model without async calls of its own: LangChain runs it in the loop's threads."""

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return await asyncio.to_thread(self._generate, messages, stop)


async def test_questions_that_wait_leave_threads_to_the_model(lc_index_of, pages):
    index = lc_index_of([], llm=InAThread())
    index.upsert(pages)
    found = await asyncio.wait_for(index.abatch(QUESTIONS * 30), 30)
    assert len(found) == 90


def test_without_auto_build_a_dirty_index_refuses_to_search(lc_index_of, pages):
    index = lc_index_of(pages[:3], auto_build=False)
    assert index.invoke("Anna?")
    index.upsert(pages[3:])
    with pytest.raises(InvalidInputError, match=r"1 source\(s\) wait .* call build\(\)"):
        index.invoke("Anna?")
    with pytest.raises(InvalidInputError, match="auto_build is off"):
        asyncio.run(index.ainvoke("Anna?"))
    index.build()
    assert index.invoke("Anna?")


async def test_configs_reach_the_llm(lc_index_of, pages):
    first, second, third = (UsageMetadataCallbackHandler() for _ in range(3))
    index = lc_index_of(pages[:3], llm=Digests(), config={"callbacks": [first]})
    calls = index.corpus.report.llm_calls
    assert first.usage_metadata["fake"]["total_tokens"] == 12 * calls > 0
    index.upsert(pages[3:4])
    calls = index.build({"callbacks": [second]}).llm_calls
    assert second.usage_metadata["fake"]["total_tokens"] == 12 * calls > 0
    index.upsert(pages[4:])
    calls = (await index.abuild({"callbacks": [third]})).llm_calls
    assert third.usage_metadata["fake"]["total_tokens"] == 12 * calls > 0


def test_a_bar_is_drawn_on_request(lc_index_of, pages, capsys):
    lc_index_of(pages)
    assert capsys.readouterr().err == ""
    lc_index_of(pages, show_progress=True)
    assert "step" in capsys.readouterr().err


# Searching


def test_scores_come_with_the_documents_that_the_retriever_finds(lc_index_of, pages):
    index = lc_index_of(pages, k=5)
    for options in ({}, {"mode": "global"}, {"filter": {"source": "mill.pdf"}}):
        found = index.similarity_search_with_score(QUESTIONS[0], k=3, **options)
        assert [d for d, _ in found] == index.as_retriever(k=3, **options).invoke(QUESTIONS[0])
        assert all(type(score) is float for _, score in found)
    assert len(index.similarity_search_with_score(QUESTIONS[0])) == 5


def test_a_search_tells_what_the_retriever_did(lc_index_of, pages):
    index = lc_index_of(pages)
    result = index.search(QUESTIONS[0], k=3, max_hops=2)
    assert result.route == "local"
    assert {link.entity for link in result.trace.links} == {"anna", "emil"}
    assert [n.node_id for n in result.nodes] == [
        d.id for d in index.as_retriever(k=3, max_hops=2).invoke(QUESTIONS[0])
    ]


# Embeddings


def test_vectors_of_any_length_are_taken(lc_index_of, pages):
    index = lc_index_of(pages, embeddings=DeterministicFakeEmbedding(size=24))
    found = index.similarity_search_with_score(QUESTIONS[2], k=5, mode="global")
    assert all(-1.001 <= score <= 1.001 for _, score in found)
    assert index.corpus.rag.verify().ok


def test_embeddings_with_a_cache_answer_the_same(lc_index_of, pages):
    plain = DeterministicFakeEmbedding(size=24)
    cached = CacheBackedEmbeddings.from_bytes_store(
        plain, InMemoryByteStore(), namespace="fake", key_encoder="sha256"
    )
    one, other = lc_index_of(pages, embeddings=plain), lc_index_of(pages, embeddings=cached)
    assert answers(one) == answers(other)


def test_embeddings_of_another_dimension_are_refused_when_loading(lc_index_of, pages, tmp_path):
    lc_index_of(pages, embeddings=DeterministicFakeEmbedding(size=24)).save_local(tmp_path / "a")
    options = {"extractor": NameExtractor()}
    with pytest.raises(SettingsMismatchError, match=r"dimension 24, .* returns dimension 23"):
        E2GraphRAGIndex.load_local(
            tmp_path / "a", embeddings=DeterministicFakeEmbedding(size=23), **options
        )
    with pytest.raises(SettingsMismatchError):
        E2GraphRAGIndex.load_local(tmp_path / "a", embeddings=HashingEmbedder(), **options)
    same = DeterministicFakeEmbedding(size=24)
    index = E2GraphRAGIndex.load_local(tmp_path / "a", embeddings=same, **options)
    assert len(index.invoke(QUESTIONS[2])) == 10
    index.close()


# Metadata


def test_metadata_come_back_as_json_has_them(lc_index_of):
    metadata = {
        "when": dt.datetime(2026, 7, 1, 12, 30),  # noqa: DTZ001 - loaders give such
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


def deep():
    inner: dict = {}
    for _ in range(5000):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"x": float("nan")}, "not JSON compliant"),
        ({"x": [float("inf")]}, "not JSON compliant"),
        ({"x": b"bytes"}, "bytes is no JSON type"),
        ({"x": {1, 2}}, "set is no JSON type"),
        ({"x": object()}, "object is no JSON type"),
        ({("a", "b"): 1}, "keys must be"),
        ({"x": "\ud800"}, "surrogates not allowed"),
        (deep(), "recursion"),
    ],
)
def test_metadata_that_are_no_json_are_refused_by_name(lc_index_of, metadata, problem):
    index = lc_index_of([Document(id="a", page_content="Anna.")])
    bad = Document(id="b", page_content="Bert is bad.", metadata=metadata)
    with pytest.raises(InvalidInputError, match=problem) as caught:
        index.upsert([Document(id="a", page_content="Changed."), bad])
    assert "'Bert is bad.'" in str(caught.value) or "'b'" in str(caught.value)
    assert index.get(["a"])[0].page_content == "Anna."
    assert not index.corpus.is_dirty


def test_users_may_use_our_names_in_metadata(lc_index_of):
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


def test_a_closed_index_says_so(lc_index_of, pages, tmp_path):
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


def test_pages_of_many_sources_are_taken_in_good_time(lc_index_of):
    documents = paged(" ".join(f"Item {i} ends." for i in range(4000)), "long", 1)
    documents += [Document(id=f"d{i}", page_content=f"Item {i}.") for i in range(4000)]
    index = lc_index_of([])
    index.upsert(documents)
    assert len(index.get(index.ids())) == 8000
    index.delete(index.ids()[::2])
    assert len(index.ids()) == 4000


def test_with_split_pages_every_chunk_has_its_page_and_is_found_by_it(lc_index_of, pages):
    index = lc_index_of(pages, split_pages=True, chunk_size=1000)
    chunks = [d for d in index.invoke("Anna?", k=100) if d.metadata["e2_level"] == 0]
    assert sorted(d.page_content for d in chunks) == sorted(p.page_content for p in pages)
    for page in pages:
        where = {"page": page.metadata["page"], "source": page.metadata["source"]}
        found = index.as_retriever(k=10, filter=where).invoke("Anna?")
        assert [d.page_content for d in found] == [page.page_content]
    summaries = [d for d in index.invoke("Anna?", k=100) if d.metadata["e2_level"]]
    for summary in summaries:
        below = [d.metadata["e2_doc_id"] for d in chunks if d.id in summary.metadata["e2_children"]]
        assert summary.metadata["e2_doc_ids"] == sorted(below) or summary.metadata["e2_level"] > 1
        assert summary.metadata["page"] is None


def test_an_index_tells_what_it_did_and_holds_and_closes_itself(pages, tmp_path):
    with E2GraphRAGIndex.open(tmp_path / "a.e2g", embeddings="hashing") as index:
        index.add_documents(pages)
        assert index.report.documents == index.stats().documents == 2
    with pytest.raises(ClosedError):
        index.invoke("Anna?")
