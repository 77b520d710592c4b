"""`E2GraphRAGIndex`: building, inserting, updating, deleting."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import threading
from functools import partial

import numpy as np
import pytest
from llama_index.core import Document, QueryBundle, Settings, StorageContext
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter, TokenTextSplitter
from llama_index.core.schema import (
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)
from pydantic import Field, PrivateAttr

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, PaperStrategy
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    EmbeddingError,
    IndexingError,
    InvalidInputError,
    LLMCallLimitError,
    SettingsMismatchError,
    StoreError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser
from e2graphrag_integrations.llama_index import index as index_module
from e2graphrag_integrations.llama_index.options import OpenOptions, VectorStoreIndexOptions
from e2graphrag_integrations.options import grouped
from fakes import STORY, NameExtractor
from llama_checks import SYNC_AND_ASYNC, call
from llama_fakes import OTHER, Digests
from llama_stores import new_store, stored_entries
from tree_oracle import level_sizes

QUESTIONS = ("What did Anna give Bert?", "Who built a mill?", "what is this about?")
SIZES = {"chunk_size": 16, "chunk_overlap": 4, "group_size": 3}
MODELS = {"embed_model": "hashing", "extractor": NameExtractor()}


def name(number, first="P"):
    return f"{first}{chr(97 + number // 26)}{chr(97 + number % 26)}"


SHORT = Document(id_="short", text="Kit met Lea.")
LONG = Document(id_="long", text=" ".join(f"{name(n)} met {name(n + 1)}." for n in range(60)))


class Model(Digests):
    """A model that fails after a given number of answers."""

    prompts: list[str] = Field(default_factory=list, exclude=True)  # excluded from the fingerprint
    _left: int = PrivateAttr(default=9999)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def fail_after(self, count):
        self._left = count
        return self

    def complete(self, prompt, formatted=False, **kwargs):
        with self._lock:
            if self._left <= 0:
                raise RuntimeError("the model tripped over asyncio.run()")
            self._left -= 1
        return super().complete(prompt, formatted, **kwargs)


class Waiting(Model):
    """A model that waits for permission to answer and reports the first call."""

    _called: threading.Event = PrivateAttr(default_factory=threading.Event)
    _may_answer: threading.Event = PrivateAttr(default_factory=threading.Event)

    async def acomplete(self, prompt, formatted=False, **kwargs):
        self._called.set()
        await asyncio.to_thread(self._may_answer.wait, 10)
        return self.complete(prompt, formatted, **kwargs)


class RecordingTransformation(TransformComponent):
    """Records the keyword arguments of each call."""

    calls: list = Field(default_factory=list, exclude=True)

    def __call__(self, nodes, **kwargs):
        self.calls.append(kwargs)
        return nodes


def results(index, questions=QUESTIONS):
    return [
        [(n.node_id, n.text, n.score) for n in index.as_retriever(mode).retrieve(question)]
        for question in questions
        for mode in ("adaptive", "local", "global")
    ]


def texts(index, question, mode="adaptive"):
    return [n.text for n in index.as_retriever(mode).retrieve(question)]


def assert_untouched(context):
    assert context.index_store.index_structs() == []
    assert context.docstore.docs == {}
    assert context.docstore.get_all_ref_doc_info() in (None, {})
    assert context.docstore.get_all_document_hashes() == {}
    assert stored_entries(context.vector_store) == {}


def chunks(index):
    return [node for node in index.docstore.docs.values() if not node.metadata["e2_level"]]


def contents(index):
    """Return the contents of an index, apart from what is pending."""
    return list(index.rag.export())


# Builds


def test_a_question_about_two_people_returns_the_chunks_they_share(index_of, documents):
    index = index_of(documents)
    question = "What did Anna give Bert?"
    shared = {
        node.node_id
        for node in index.docstore.docs.values()
        if node.metadata["e2_level"] == 0 and "Anna" in node.text and "Bert" in node.text
    }
    assert shared
    for mode in ("adaptive", "local"):
        best = index.as_retriever(mode, similarity_top_k=3).retrieve(question)[: len(shared)]
        assert {node.node_id for node in best} == shared
    by_paper = index.as_retriever(similarity_top_k=3, strategy=PaperStrategy())
    assert {node.node_id for node in by_paper.retrieve(question)} == shared


def test_nodes_of_the_tree_parser_keep_their_ids_and_summaries(index_of, documents, caplog):
    llm = Model()
    expected = index_of(documents, llm=Model())
    nodes = SummaryTreeNodeParser(llm=llm, **SIZES).get_nodes_from_documents(documents)
    calls = len(llm.prompts)
    for order in (nodes, nodes[::-1]):
        index = E2GraphRAGIndex(tuple(order), **grouped({"llm": llm, **MODELS, "group_size": 3}))
        assert len(llm.prompts) == calls
        assert set(index.docstore.docs) == {n.node_id for n in nodes}
        assert results(index) == results(expected)
    assert unused_summaries(caplog) == []


def unused_summaries(caplog):
    return [one for one in caplog.messages if "do not fit" in one]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("settings", [{"group_size": 2}, {"group_size": 3, "summary_tokens": 5}])
def test_summaries_that_do_not_fit_the_index_are_logged_and_written_anew(
    documents, settings, caplog
):
    llm = Model()
    nodes = SummaryTreeNodeParser(llm=llm, **SIZES).get_nodes_from_documents(documents)
    calls = len(llm.prompts)
    index = E2GraphRAGIndex(nodes, **grouped({"llm": llm, **MODELS, **settings}))
    assert len(llm.prompts) > calls
    assert {n.node_id for n in chunks(index)} == {
        n.node_id for n in nodes if not n.metadata["e2_level"]
    }
    [message] = unused_summaries(caplog)
    assert message.startswith(f"{calls} of {calls} summaries of SummaryTreeNodeParser do not fit")
    assert "group_size, grouping, summary_tokens and tree_per" in message
    index.insert_nodes(SummaryTreeNodeParser(llm=llm, **SIZES).get_nodes_from_documents([LONG]))
    assert len(unused_summaries(caplog)) == 1


def test_the_tree_parser_works_as_a_transformation(index_of, documents):
    parser = SummaryTreeNodeParser(llm=Model(), **SIZES)
    index = index_of(documents, transformations=[parser], llm=parser.llm)
    assert results(index) == results(index_of(documents, llm=Model()))
    assert index.refresh_ref_docs(documents) == [False, False]


def test_nodes_of_a_splitter_get_a_tree_and_keep_ids_and_offsets(documents):
    splitter = TokenTextSplitter(chunk_size=40, chunk_overlap=15)
    nodes = splitter.get_nodes_from_documents(documents)
    given = {n.node_id: n.model_copy(deep=True) for n in nodes}
    llm = Model()
    index = E2GraphRAGIndex(nodes, **grouped({"llm": llm, **MODELS, "group_size": 2}))
    sizes = [level_sizes(sum(n.ref_doc_id == d.id_ for n in nodes), 2) for d in documents]
    assert len(index.docstore.docs) == sum(map(sum, sizes))
    assert len(llm.prompts) == len(index.docstore.docs) - len(nodes)
    for node in index.docstore.get_nodes(list(given)):
        own = given[node.node_id]
        assert (node.text, node.hash == own.hash) == (own.text, False)  # it has tree metadata now
        assert (node.start_char_idx, node.end_char_idx) == (own.start_char_idx, own.end_char_idx)
        assert own.metadata.items() <= node.metadata.items()
        assert node.ref_doc_id == own.ref_doc_id
        assert node.parent_node is not None
    assert {n.node_id: n for n in nodes} == given  # the caller's nodes are unchanged
    assert set(index.ref_doc_info) == {"story", "other"}
    assert "Anna" in texts(index, "Anna and Bert?")[0]


def test_each_node_without_a_source_is_its_own_document():
    nodes = [TextNode(id_=f"n{i}", text=f"{name(i)} sang.", metadata={"i": i}) for i in range(3)]
    index = E2GraphRAGIndex(nodes, **grouped(MODELS))
    assert set(index.ref_doc_info) == {"n0", "n1", "n2"}
    assert texts(index, f"{name(1)}?", "local") == [f"{name(1)} sang."]
    index.delete_ref_doc("n1")
    assert f"{name(1)} sang." not in texts(index, f"{name(1)}?")
    assert set(index.docstore.docs) == {"n0", "n2"}


@pytest.mark.slow
def test_transformations_create_the_nodes_and_receive_no_index_options(documents):
    recorder = RecordingTransformation()
    chain = [SentenceSplitter(chunk_size=30, chunk_overlap=0), recorder]
    index = E2GraphRAGIndex.from_documents(
        documents, **grouped({"transformations": chain, **MODELS, "group_size": 2})
    )
    index.insert(Document(id_="new", text="Kit met Lea."), foo=1)
    assert len(recorder.calls) == 2
    assert not set().union(*recorder.calls) - {"show_progress"}
    plain = chain[0].get_nodes_from_documents(documents)
    found = {n.text for n in index.docstore.docs.values() if not n.metadata["e2_level"]}
    assert found == {n.text for n in plain} | {"Kit met Lea."}
    assert index.refresh_ref_docs(documents) == [False, False]
    documents[0] = Document(id_="story", text="Ned met Ola.")
    assert index.refresh_ref_docs(documents) == [True, False]
    assert texts(index, "Ned and Ola?", "local") == ["Ned met Ola."]


def test_an_index_node_leads_to_its_retriever():
    class InnerRetriever(BaseRetriever):
        def _retrieve(self, query_bundle):
            return [NodeWithScore(node=TextNode(text="inner"), score=0.5)]

    def node(person):
        return IndexNode(index_id=person, text=f"About {person}.", obj=InnerRetriever())

    index = E2GraphRAGIndex([node("Kit")], **grouped({"objects": [node("Lea")], **MODELS}))
    index.insert_nodes([node("Max")])
    for person in ("Kit", "Lea", "Max"):
        assert "inner" in texts(index, f"{person}?", "local")
    only = E2GraphRAGIndex(**grouped({"objects": [node("Ned")], **MODELS}))
    assert texts(only, "Ned?", "local") == ["inner"]


def test_two_hundred_short_documents_give_two_hundred_chunks():
    documents = [
        Document(id_=f"d{n:03}", text=f"{name(n, 'A')} met {name(n, 'B')}.") for n in range(200)
    ]
    index = E2GraphRAGIndex.from_documents(documents, **grouped(MODELS))
    assert len(index.docstore.docs) == len(index.ref_doc_info) == 200
    assert index.report.llm_calls == 0
    assert texts(index, f"{name(150, 'A')} and {name(150, 'B')}?", "local") == [documents[150].text]
    found = index.as_retriever("local").retrieve(f"{name(7, 'B')}?")
    assert [n.node.ref_doc_id for n in found] == ["d007"]


def test_empty_input_builds_an_empty_index():
    for index in (
        E2GraphRAGIndex([], **grouped(MODELS)),
        E2GraphRAGIndex.from_documents([], **grouped(MODELS)),
        E2GraphRAGIndex(**grouped({"objects": [], **MODELS})),
    ):
        assert results(index) == [[]] * 9
        assert index.ref_doc_info == {}
        assert index.storage_context.index_store.get_index_struct(index.index_id) is not None
    blank = [Document(id_=str(n), text=text) for n, text in enumerate(("", " \n\t", "\u3000"))]
    index = E2GraphRAGIndex.from_documents(
        [*blank, Document(id_="a", text="Kit.")], **grouped(MODELS)
    )
    assert set(index.ref_doc_info) == {"a"}  # as in LlamaIndex's own indexes
    assert index.refresh_ref_docs(blank) == [False] * 3
    assert index.report.skipped == ("0", "1", "2")
    index.delete_ref_doc("1")
    assert index.refresh_ref_docs(blank) == [False, True, False]
    assert index.refresh_ref_docs([Document(id_="2", text="Lea.")]) == [True]
    assert texts(index, "Lea?", "local") == ["Lea."]


# Invalid input


def test_unknown_options_raise_with_a_suggestion(documents):
    with pytest.raises(InvalidInputError, match=r"'chunksize': did you mean 'chunk_size'"):
        E2GraphRAGIndex([], chunksize=3)
    with pytest.raises(InvalidInputError, match=r"'embedmodel': did you mean 'embed_model'"):
        E2GraphRAGIndex.from_documents(documents, embedmodel="hashing")
    with pytest.raises(InvalidInputError, match=r"'zzz': the arguments are nodes, "):
        E2GraphRAGIndex([], zzz=3)


def test_the_listed_options_are_those_of_the_constructor():
    parameters = set(inspect.signature(E2GraphRAGIndex).parameters)
    ignored = set(VectorStoreIndexOptions.__annotations__)
    own = parameters - {"nodes", "index_struct", "storage_context", "path", "ignored"}
    assert set(OpenOptions.__annotations__) == own | ignored
    E2GraphRAGIndex.from_documents([], **grouped({**MODELS, **dict.fromkeys(ignored)}))


@pytest.mark.parametrize(
    "options",
    [
        {"llm": "gpt"},
        {"llm": Digests},
        {"chunk_size": 0},
        {"chunk_size": "many"},
        {"chunk_size": 9, "chunk_overlap": 9},
        {"group_size": 1},
        {"concurrency": 0},
        {"retry": 3},
        {"prompts": "Summarize."},
        {"path": 3},
        {"strategy": "best"},
        {"embed_model": 3},
        {"extractor": object()},
        {"token_counter": len},
    ],
)
def test_invalid_options_raise(documents, options):
    context = StorageContext.from_defaults()
    with pytest.raises(InvalidInputError):
        E2GraphRAGIndex.from_documents(documents, context, **grouped(MODELS | options))
    assert_untouched(context)


@pytest.mark.parametrize(
    "given", ["text", ["text"], [TextNode(text="a")], 3, None, Document(text="a"), [None]]
)
def test_anything_but_a_list_of_documents_raises(given):
    context = StorageContext.from_defaults()
    for transformations in (None, [SentenceSplitter()]):
        with pytest.raises(InvalidInputError):
            E2GraphRAGIndex.from_documents(
                given, context, **grouped({"transformations": transformations, **MODELS})
            )
        assert_untouched(context)
    index = E2GraphRAGIndex([], **grouped(MODELS))
    for method in (index.insert, index.update_ref_doc):
        with pytest.raises(InvalidInputError):
            method(given if not isinstance(given, Document) else "text")


def test_anything_but_a_node_raises():
    with pytest.raises(ValueError, match="not a BaseNode"):
        E2GraphRAGIndex(["text"], **grouped(MODELS))
    for given in (["text"], [TextNode(text="a"), None]):
        with pytest.raises(InvalidInputError, match="not a BaseNode"):
            E2GraphRAGIndex([], **grouped(MODELS)).insert_nodes(given)


def test_equal_duplicates_are_skipped_and_different_documents_with_one_id_raise(documents):
    same = Document(id_="story", text=STORY, metadata=dict(documents[0].metadata))
    index = E2GraphRAGIndex.from_documents([*documents, same], **grouped({**MODELS, **SIZES}))
    assert set(index.ref_doc_info) == {"story", "other"}
    index.insert(same)
    assert index.report.skipped == ("story",)
    context = StorageContext.from_defaults()
    other = Document(id_="story", text=OTHER)
    with pytest.raises(DuplicateDocumentError, match="'story' is given twice with different"):
        E2GraphRAGIndex.from_documents([*documents, other], context, **grouped(MODELS))
    assert_untouched(context)
    with pytest.raises(
        DuplicateDocumentError, match=r"'story' is already in the index.*update_ref_doc"
    ):
        index.insert(other)
    assert results(index) == results(
        E2GraphRAGIndex.from_documents(documents, **grouped({**MODELS, **SIZES}))
    )


@pytest.mark.parametrize("given", [lambda d: iter([d]), lambda d: [d, d.model_copy(deep=True)]])
def test_transformations_receive_each_document_once(given):
    document = Document(id_="a", text=STORY)
    chain = [SentenceSplitter(chunk_size=300)]
    index = E2GraphRAGIndex.from_documents(
        given(document), **grouped({"transformations": chain, **MODELS})
    )
    assert [len(info.node_ids) for info in index.ref_doc_info.values()] == [1]


def test_two_different_nodes_with_one_id_raise():
    nodes = [TextNode(id_="a", text="Kit."), TextNode(id_="a", text="Lea.")]
    with pytest.raises(DuplicateDocumentError):
        E2GraphRAGIndex(nodes, **grouped(MODELS))


@pytest.mark.parametrize(
    ("id_", "text"), [("a", "lone \ud800"), (" ", "Kit."), ("a\ud800", "Kit.")]
)
def test_documents_with_lone_surrogates_or_blank_ids_raise(id_, text):
    context = StorageContext.from_defaults()
    with pytest.raises(InvalidInputError):
        E2GraphRAGIndex.from_documents([Document(id_=id_, text=text)], context, **grouped(MODELS))
    assert_untouched(context)


@pytest.mark.parametrize("value", ["lone \ud800", {(1, 2): 3}, "cycle", float("nan")])
def test_metadata_that_is_not_json_raises(value):
    metadata = {"key": value}
    if value == "cycle":
        metadata["key"] = [metadata]
    document, node = Document(id_="a", text="Kit."), TextNode(id_="n", text="Lea.")
    document.metadata = node.metadata = metadata
    context = StorageContext.from_defaults()
    with pytest.raises(InvalidInputError, match="metadata of document 'a' is not plain JSON"):
        E2GraphRAGIndex.from_documents([document], context, **grouped(MODELS))
    with pytest.raises(InvalidInputError, match="metadata of node 'n' is not plain JSON"):
        E2GraphRAGIndex([node], **grouped({"storage_context": context, **MODELS}))
    assert_untouched(context)


# Metadata


def test_metadata_of_every_type_is_returned_with_the_nodes():
    metadata = {
        "title": "A Map",
        "tags": ["a", {"b": None}],
        "none": None,
        "when": dt.date(2020, 1, 2),
        "number": np.int64(3),
        "nested": {"when": dt.datetime(2020, 1, 2, tzinfo=dt.UTC)},
        "e2_level": 7,
    }
    document = Document(id_="a", text=STORY, metadata=dict(metadata))
    document.excluded_llm_metadata_keys = ["tags"]
    index = E2GraphRAGIndex.from_documents([document], **grouped({**MODELS, **SIZES}))
    for found in index.as_retriever("global").retrieve("what?"):
        own = found.node.metadata
        assert (own["tags"], own["none"], str(own["when"])) == (
            metadata["tags"],
            None,
            "2020-01-02",
        )
        assert own["e2_level"] != 7
        assert own["number"] == 3
        assert "tags" in found.node.excluded_llm_metadata_keys
    plain = index.ref_doc_info["a"].metadata
    assert plain["nested"] == {"when": "2020-01-02 00:00:00+00:00"}
    assert index.refresh_ref_docs([document.model_copy(deep=True)]) == [False]
    document.metadata["none"] = 1
    assert index.refresh_ref_docs([document]) == [True]
    assert index.ref_doc_info["a"].metadata["none"] == 1


def test_a_title_is_embedded_unless_it_is_excluded():
    shown = Document(id_="shown", text="Nothing else.", metadata={"title": "Zebra"})
    hidden = Document(id_="hidden", text="Nothing more.", metadata={"title": "Zebra"})
    hidden.excluded_embed_metadata_keys = ["title"]
    index = E2GraphRAGIndex.from_documents([hidden, shown], **grouped(MODELS))
    retriever = index.as_retriever("global")
    assert retriever.retrieve("zebra")[0].node.ref_doc_id == "shown"
    first, second = retriever.explain("zebra").lists["dense"]
    assert index.docstore.get_node(first.node_id).ref_doc_id == "shown"
    assert first.figures["cosine"] > second.figures["cosine"]
    by_vectors = index.as_retriever("global", strategy=PaperStrategy())
    first, second = by_vectors.retrieve("zebra")
    assert (first.node.ref_doc_id, first.score > second.score) == ("shown", True)


def test_ref_doc_info_lists_the_nodes_of_each_document(index_of, documents):
    index = index_of(documents)
    for document in documents:
        info = index.ref_doc_info[document.id_]
        assert info.metadata == document.metadata
        nodes = [n for n in index.docstore.docs.values() if n.ref_doc_id == document.id_]
        assert set(info.node_ids) == {n.node_id for n in nodes}
        assert set(index.docstore.get_ref_doc_info(document.id_).node_ids) == set(info.node_ids)


# Models


def test_an_llm_is_called_only_if_it_is_passed(index_of, documents):
    extractive = results(index_of(documents, llm="extractive"))
    assert results(index_of(documents)) == extractive
    Settings.llm = None  # LlamaIndex stores a MockLLM, which repeats its prompt
    assert isinstance(Settings.llm, MockLLM)
    assert results(index_of(documents, llm=Settings.llm)) == extractive
    llm = Settings.llm = Model()
    index = index_of(documents)
    assert results(index) == results(index_of(documents, llm="extractive")) == extractive
    index.insert(LONG)
    index.refresh_ref_docs([Document(id_="story", text=STORY + " The end.")])
    E2GraphRAGIndex(index_of(documents).docstore.docs.values(), **grouped({**MODELS, **SIZES}))
    assert not llm.prompts
    assert index_of(documents, llm=Settings.llm).report.llm_calls == len(llm.prompts) > 0


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("is_async", [False, True])
async def test_inserts_above_the_call_limit_are_refused(index_of, documents, is_async):
    llm, context = Model(), StorageContext.from_defaults()
    options = MODELS | SIZES | {"llm": llm, "max_llm_calls": 3}

    async def build():
        if is_async:
            return await E2GraphRAGIndex.afrom_documents([LONG], context, **grouped(options))
        return E2GraphRAGIndex.from_documents([LONG], context, **grouped(options))

    with pytest.raises(LLMCallLimitError, match=r"LLM call.* to .*max_llm_calls=3"):
        await build()
    assert (llm.prompts, context.docstore.docs) == ([], {})
    index = index_of([], llm=llm, max_llm_calls=9)
    index.refresh_ref_docs(documents)
    calls, before = len(llm.prompts), contents(index)
    with pytest.raises(LLMCallLimitError):
        await index.ainsert(LONG) if is_async else index.insert(LONG)
    assert (len(llm.prompts), contents(index)) == (calls, before)
    # Inserting a pipeline's nodes costs nothing, because they contain their summaries.
    nodes = SummaryTreeNodeParser(llm=Model(), **SIZES).get_nodes_from_documents([LONG])
    assert E2GraphRAGIndex(nodes, **grouped(options | {"max_llm_calls": 0})).report.llm_calls == 0
    assert len(llm.prompts) == calls


def test_progress_shows_the_llm_calls_before_the_first_one(index_of, documents, capsys):
    index = index_of(documents, llm=Model(), show_progress=True)
    calls = f"summaries: {index.report.llm_calls} LLM call(s) to "
    assert capsys.readouterr().err.count(calls) == 1


def test_only_the_llm_that_wrote_its_summaries_can_write_to_an_index(index_of, documents, tmp_path):
    index_of(documents).persist(tmp_path)
    other = E2GraphRAGIndex.from_persist_dir(
        tmp_path, models=Models(extractor=NameExtractor()), llm=Model()
    )
    with pytest.raises(SettingsMismatchError, match=r"summarizer extractive.*pass llm="):
        other.insert(LONG)
    index_of(documents, llm=Model()).persist(tmp_path)
    llm = Model()
    again = E2GraphRAGIndex.from_persist_dir(
        tmp_path, models=Models(extractor=NameExtractor()), llm=llm
    )
    again.insert(LONG)
    assert again.report.llm_calls == len(llm.prompts) > 0


def test_the_embedder_of_settings_is_the_default(index_of, documents):
    from llama_index.core.embeddings import MockEmbedding

    Settings.embed_model = MockEmbedding(embed_dim=8)
    assert index_of(documents, embed_model=None).rag.made_with["dimension"] == "8"
    assert index_of(documents).rag.made_with["dimension"] == "256"


def test_the_estimate_equals_the_actual_calls(index_of, documents):
    llm = Model()
    index = index_of([], llm=llm)
    for batch in (documents, [LONG], [LONG, *documents]):
        estimate, before = index.estimate(batch), len(llm.prompts)
        assert len(llm.prompts) == before
        index.refresh_ref_docs(batch)
        assert len(llm.prompts) - before == estimate.llm_calls == index.report.llm_calls
        report = index.report
        assert (report.documents, report.chunks, report.summaries) == (
            estimate.documents,
            estimate.chunks,
            estimate.summaries,
        )
        assert report.prompt_tokens <= estimate.prompt_tokens
    assert index.estimate([LONG, *documents]).llm_calls == 0


def test_progress_is_drawn_only_on_request(index_of, documents, capsys):
    index_of(documents)
    assert capsys.readouterr() == ("", "")
    index_of(documents, show_progress=True)
    out, err = capsys.readouterr()
    assert (out, "100%" in err) == ("", True)


def test_a_query_engine_works_without_an_llm_in_settings(index_of, documents):
    engine = index_of(documents).as_query_engine(llm=MockLLM(max_tokens=5), similarity_top_k=2)
    response = engine.query("What did Anna give Bert?")
    assert str(response)
    assert 1 <= len(response.source_nodes) <= 2


# Failures


@pytest.mark.slow
@SYNC_AND_ASYNC
async def test_a_failed_build_leaves_the_stores_empty_and_keeps_its_summaries_at_a_path(
    tmp_path, documents, is_async
):
    async def build(context, documents=(*documents, LONG), **options):
        build = E2GraphRAGIndex.afrom_documents if is_async else E2GraphRAGIndex.from_documents
        made = build([SHORT, *documents], context, **grouped({**MODELS, **SIZES, **options}))
        return await made if is_async else made

    complete = await build(None, llm=Model())
    calls = complete.report.llm_calls
    for store in (None, new_store("faiss-map", tmp_path, None)):
        context = StorageContext.from_defaults(vector_store=store)
        with pytest.raises(IndexingError, match=r"the model tripped over asyncio\.run"):
            await build(context, llm=Model().fail_after(3), concurrency=1)
        assert_untouched(context)
    path, context = tmp_path / "i.e2g", StorageContext.from_defaults()
    llm = Model().fail_after(3)
    with pytest.raises(IndexingError, match="tripped"):
        await build(context, llm=llm, concurrency=1, path=path)
    assert_untouched(context)
    assert len(llm.prompts) == 3
    with E2GraphRAGIndex.open(path, llm=llm, models=Models(extractor=NameExtractor())) as index:
        assert "short" in index.ref_doc_info
        llm.fail_after(9999)
        report = await index.abuild() if is_async else index.build()
        assert (report.llm_calls, len(llm.prompts)) == (calls - 3, calls)
        assert results(index) == results(complete)


@pytest.mark.slow
@SYNC_AND_ASYNC
async def test_a_failed_write_keeps_the_old_version_and_remains_pending(documents, is_async):
    llm = Model()
    index = E2GraphRAGIndex.from_documents(documents, **grouped({"llm": llm, **MODELS, **SIZES}))
    before = contents(index), results(index), contents(reopened(index))
    changed = Document(id_="story", text=LONG.text)
    nodes = [TextNode(id_=f"t{n}", text=f"{name(n)} sang.") for n in range(9)]
    for node in nodes:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="other")
    for method, argument in (
        ("insert_nodes", nodes),
        ("insert", LONG),
        ("update_ref_doc", changed),
        ("refresh_ref_docs", [LONG, changed]),
    ):
        llm.fail_after(2)
        with pytest.raises(IndexingError, match="tripped"):
            await call(is_async, index, method, argument)
        assert (contents(index), results(index), contents(reopened(index))) == before
    calls = len(llm.prompts)
    llm.fail_after(9999)
    again = reopened(index, llm=llm)  # what is pending is saved
    await call(is_async, again, "build")
    final = [changed, LONG]
    expected = E2GraphRAGIndex.from_documents(final, **grouped({"llm": Model(), **MODELS, **SIZES}))
    expected.insert(documents[1])
    expected.insert_nodes(nodes)
    assert contents(again) == contents(expected)
    assert results(again) == results(expected)
    summaries = sum(n.metadata["e2_level"] > 0 for n in again.docstore.docs.values())
    assert len(llm.prompts) - calls < summaries  # finished summaries are reused
    with pytest.raises(StoreError, match="another object has changed index"):
        await call(is_async, index, "refresh_ref_docs", [LONG, changed])


def reopened(index, **options):
    options = MODELS | {"llm": Model()} | options
    return E2GraphRAGIndex.from_storage(index.storage_context, index.index_id, **grouped(options))


def test_a_failing_embedder_leaves_nothing_behind(documents):
    class BrokenEmbedder:
        dimension, max_tokens, fingerprint = 4, None, "broken"

        def embed(self, texts):
            raise RuntimeError("out of memory")

        embed_query = embed

    context = StorageContext.from_defaults()
    with pytest.raises(EmbeddingError, match="out of memory"):
        E2GraphRAGIndex.from_documents(
            documents, context, **grouped(MODELS | {"embed_model": BrokenEmbedder()})
        )
    assert_untouched(context)
    with pytest.raises(EmbeddingError, match="out of memory"):
        E2GraphRAGIndex(
            [TextNode(text="a")],
            **grouped({"storage_context": context, **MODELS | {"embed_model": BrokenEmbedder()}}),
        )
    assert_untouched(context)


def test_an_insert_with_another_extractor_raises(index_of, documents):
    class OtherExtractor(NameExtractor):
        fingerprint = "fake:other"

    index = index_of(documents)
    before = contents(index)
    other = reopened(index, llm=None, extractor=OtherExtractor())
    with pytest.raises(SettingsMismatchError, match=r"extractor fake:names.*not fake:other"):
        other.insert(LONG)
    assert contents(other) == before


def test_a_context_shows_the_newest_handle_of_an_index(index_of, documents):
    index = index_of(documents)
    again = reopened(index, llm=None)
    again.delete_ref_doc("other")
    for context in (again.storage_context, index.storage_context):
        assert {n.ref_doc_id for n in context.docstore.docs.values()} == {"story"}
    first = index_of([LONG], storage_context=again.storage_context)
    second = reopened(again, llm=None)
    for context in (first.storage_context, second.storage_context):
        assert {n.ref_doc_id for n in context.docstore.docs.values()} == {"story", "long"}


# Async


async def test_a_new_index_is_opened_outside_the_event_loop(documents, monkeypatch):
    threads, opened = [], index_module.open_corpus

    def open_corpus(*arguments, **options):
        threads.append(threading.get_ident())
        return opened(*arguments, **options)

    monkeypatch.setattr(index_module, "open_corpus", open_corpus)
    (await E2GraphRAGIndex.afrom_documents(documents, **grouped(MODELS))).close()
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_async_methods_build_the_same_index_as_sync_methods(index_of, documents):
    options = MODELS | SIZES | {"llm": Model()}
    one = index_of([documents[0]], llm=Model())
    two = await E2GraphRAGIndex.afrom_documents([documents[0]], **grouped(options))
    assert contents(one) == contents(two)
    changed = Document(id_="story", text=f"{OTHER} {STORY}")
    nodes = [TextNode(id_=f"n{n}", text=f"Kit{n}.") for n in range(3)]
    steps = (
        ("insert", documents[1]),
        ("refresh_ref_docs", [changed, documents[1], LONG]),
        ("update_ref_doc", documents[0]),
        ("insert_nodes", nodes),
        ("delete_nodes", ["n1"]),
        ("delete_ref_doc", "other"),
    )
    for method, argument in steps:
        expected = getattr(one, method)(argument)
        assert await getattr(two, f"a{method}")(argument) == expected
        assert contents(one) == contents(two), method
    assert results(one) == results(two)


async def test_sync_methods_work_inside_a_running_event_loop(index_of, documents):
    index = index_of(documents, llm=Model())
    assert index.report.llm_calls
    index.insert(LONG)
    assert texts(index, f"{name(7)} and {name(8)}?")
    assert index.as_query_engine(llm=MockLLM(max_tokens=3)).query(f"{name(7)}?").source_nodes
    index.delete_ref_doc("long")


async def test_async_builds_call_the_llm_concurrently_in_the_callers_loop(documents):
    loops, running, max_running = set(), 0, 0

    class CountingModel(Model):
        async def acomplete(self, prompt, formatted=False, **kwargs):
            nonlocal running, max_running
            loops.add(asyncio.get_running_loop())
            running += 1
            max_running = max(max_running, running)
            await asyncio.sleep(0.01)
            running -= 1
            return self.complete(prompt, formatted, **kwargs)

    await E2GraphRAGIndex.afrom_documents(
        [LONG], **grouped({"llm": CountingModel(), "concurrency": 3, **MODELS, **SIZES})
    )
    assert loops == {asyncio.get_running_loop()}
    assert max_running == 3


async def test_a_canceled_build_leaves_nothing_behind(documents):
    llm, context = Waiting(), StorageContext.from_defaults()
    options = MODELS | SIZES | {"llm": llm}
    build = asyncio.create_task(
        E2GraphRAGIndex.afrom_documents([LONG], context, **grouped(options))
    )
    await asyncio.to_thread(llm._called.wait, 10)
    build.cancel()
    llm._may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await build
    assert_untouched(context)
    assert len(llm.prompts) <= 4


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("method", ["ainsert", "aupdate_ref_doc"])
async def test_a_canceled_insert_changes_nothing_and_a_retry_reuses_its_summaries(
    documents, method
):
    llm = Waiting()
    llm._may_answer.set()
    options = MODELS | SIZES | {"llm": llm}
    index = await E2GraphRAGIndex.afrom_documents(documents, **grouped(options))
    before, calls = contents(index), len(llm.prompts)
    llm._may_answer.clear()
    llm._called.clear()
    insert = asyncio.create_task(getattr(index, method)(LONG))
    await asyncio.to_thread(llm._called.wait, 10)
    insert.cancel()
    llm._may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await insert
    assert contents(index) == before
    finished = len(llm.prompts) - calls
    assert 0 < finished <= 4
    await getattr(index, method)(LONG)
    assert index.report.llm_calls == index.report.summaries - finished


async def test_an_insert_that_waits_for_another_writer_can_be_canceled(documents, tmp_path):
    path = tmp_path / "i.e2g"
    index = await E2GraphRAGIndex.afrom_documents(
        documents, **grouped({"path": path, **MODELS, **SIZES})
    )
    before = contents(index)
    with (
        E2GraphRAG.open(path, models=Models(extractor=NameExtractor())) as other,
        other.write_lock(),
    ):
        insert = asyncio.create_task(index.ainsert(LONG))
        await asyncio.sleep(0.1)
        insert.cancel()
        await asyncio.sleep(0.1)
    with pytest.raises(asyncio.CancelledError):
        await insert
    assert contents(index) == before


@pytest.mark.slow
async def test_queries_during_a_write_see_the_old_or_the_new_state(documents):
    index = E2GraphRAGIndex.from_documents(documents, **grouped({**MODELS, **SIZES}))
    states = [results(index)]
    index.insert(LONG)
    states.append(results(index))
    index.delete_ref_doc("long")
    assert results(index) == states[0]
    retriever = index.as_retriever("global")
    question = QueryBundle(QUESTIONS[0])
    observed = {tuple(n.node_id for n in await retriever.aretrieve(question))}
    write = asyncio.create_task(index.ainsert(LONG))
    while not write.done():
        observed.add(tuple(n.node_id for n in await retriever.aretrieve(question)))
        await asyncio.sleep(0)
    expected = {tuple(node_id for node_id, _, _ in state[2]) for state in states}
    assert observed <= expected


def test_nodes_of_an_ingestion_pipeline_can_be_inserted(documents):
    pipeline = IngestionPipeline(transformations=[SummaryTreeNodeParser(llm=Model(), **SIZES)])
    index = E2GraphRAGIndex([], **grouped({"llm": Model(), **MODELS, **SIZES}))
    index.insert_nodes(pipeline.run(documents=documents))
    assert index.report.llm_calls == 0
    expected = E2GraphRAGIndex.from_documents(
        documents, **grouped({"llm": Model(), **MODELS, **SIZES})
    )
    assert results(index) == results(expected)
    with pytest.raises(IndexingError, match="tripped"):
        E2GraphRAGIndex.from_documents(
            documents, **grouped({"llm": Model().fail_after(0), **MODELS, **SIZES})
        )


IMAGE = "R0lGODlhAQABAAAAACw="


def images_without_text():
    """Return an image of each kind and an index node, all without text."""
    link = {"relationships": {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="story")}}
    return (
        ImageNode(image=IMAGE, **link),
        Node(image_resource=MediaResource(data=IMAGE.encode()), **link),
        IndexNode(index_id="other index", text="", **link),
    )


def test_a_node_without_text_is_rejected_before_anything_is_written(index_of, documents):
    image = Document(id_="image", image_resource=MediaResource(data=IMAGE.encode()))
    index = index_of(documents)
    before = contents(index)
    for node in images_without_text():
        for insert in (
            lambda node: index.insert_nodes([TextNode(text="Kit met Lea."), node]),
            lambda node: asyncio.run(index.ainsert_nodes([node])),
            lambda node: E2GraphRAGIndex([node], embed_model="hashing"),
            lambda node: SummaryTreeNodeParser()([node]),
            lambda node: asyncio.run(SummaryTreeNodeParser().acall([node])),
        ):
            with pytest.raises(InvalidInputError, match=f"{node.node_id}' has no text to index"):
                insert(node)
    for insert in (
        lambda: index.insert(image),
        lambda: index.refresh_ref_docs([Document(id_="new", text="Kit met Lea."), image]),
        lambda: asyncio.run(index.arefresh_ref_docs([image])),
        lambda: index.update_ref_doc(image),
        lambda: index_of([image]),
    ):
        with pytest.raises(InvalidInputError, match="'image' has no text to index"):
            insert()
    assert contents(index) == before


def test_an_image_with_a_caption_is_indexed_and_returned_as_an_image(index_of, documents, tmp_path):
    index = index_of(documents)
    image = ImageNode(image=IMAGE, text="Kit paints a red barn.")
    index.insert_nodes([image])
    index.persist(tmp_path)
    index = E2GraphRAGIndex.from_persist_dir(tmp_path, models=Models(extractor=NameExtractor()))
    found = index.as_retriever("global", similarity_top_k=1).retrieve("a red barn")[0].node
    assert isinstance(found, ImageNode)
    assert (found.node_id, found.image) == (image.node_id, image.image)
    index.delete_nodes([image.node_id])
    assert image.node_id not in index.docstore.docs


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", [Document, ImageDocument])
def test_a_document_with_an_image_gives_image_nodes(index_of, documents, kind):
    def barn(image: str) -> Document:
        resource = MediaResource(data=image.encode(), mimetype="image/gif")
        text = "Kit paints a red barn. " * 20
        return kind(id_="barn", text=text, image_resource=resource)

    index = index_of([*documents, barn(IMAGE)])
    parsed = SummaryTreeNodeParser(chunk_size=60, chunk_overlap=0)([barn(IMAGE)])
    other = "R0lGODlhAQABAIAAAAAAAAAAACw="
    for image in (IMAGE, other):
        assert index.refresh_ref_docs([barn(image)]) == [image == other]
        own = [n for n in index.docstore.docs.values() if n.ref_doc_id == "barn"]
        assert len(own) > 1
        for node in [*own, *(parsed if image == IMAGE else ())]:
            if node.metadata["e2_level"]:
                assert type(node) is TextNode
            else:
                assert (node.image, node.image_mimetype) == (image, "image/gif")
    found = index.as_retriever("global", similarity_top_k=1).retrieve("a red barn")[0].node
    assert isinstance(found, ImageNode)
    [page] = index._corpus.pages(["barn"])
    assert index._corpus.format.to_document(page).image_resource == barn(other).image_resource


def test_a_node_of_several_media_keeps_them(index_of, documents):
    index = index_of(documents)
    media = {
        "image_resource": MediaResource(data=IMAGE.encode()),
        "audio_resource": MediaResource(url="https://example.com/kit.mp3"),
    }
    text = MediaResource(text="Kit paints a red barn.")
    index.insert_nodes([Node(id_="barn", text_resource=text, **media)])
    [found] = index.as_retriever(node_ids=["barn"]).retrieve("a red barn")
    assert {name: getattr(found.node, name) for name in media} == media


def test_a_transformation_may_describe_an_image(index_of):
    class Captions(TransformComponent):
        def __call__(self, nodes, **_options):
            return [
                TextNode(text="Kit paints a red barn.", metadata=node.metadata) for node in nodes
            ]

    image = Document(id_="image", image_resource=MediaResource(data=IMAGE.encode()))
    index = index_of([image], transformations=[Captions()])
    assert [node.get_content() for node in index.docstore.docs.values()] == [
        "Kit paints a red barn."
    ]


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("nodes", "text", "must be a list of BaseNode"),
        ("nodes", [5], r"nodes\[0\] is a int, not a BaseNode"),
        ("objects", [5], r"objects\[0\] is a int, not a IndexNode"),
        ("transformations", 5, "must be a list of TransformComponent"),
        ("storage_context", "folder", "from_persist_dir"),
        ("index_struct", {}, "from_storage"),
        ("callback_manager", 5, "not a CallbackManager"),
        ("embed_model", 5, "pass a LlamaIndex embedding, a model name"),
        ("embed_model", HashingEmbedder, "class HashingEmbedder"),
        ("extractor", 5, "it needs extract"),
        ("token_counter", 5, "it needs count, spans"),
    ],
)
def test_a_wrong_object_is_refused_by_the_constructor(name, wrong, message):
    arguments = {"embed_model": HashingEmbedder(16)} | {name: wrong}
    with pytest.raises(InvalidInputError, match=message):
        E2GraphRAGIndex(**grouped(arguments))


def test_wrong_objects_are_refused_by_the_loaders_and_writers(index_of):
    index = index_of([])
    for wrong in (None, "folder", 5):
        with pytest.raises(InvalidInputError, match=r"storage_context is .*from_persist_dir"):
            E2GraphRAGIndex.from_storage(wrong)
        with pytest.raises(InvalidInputError, match="must be a list of BaseNode"):
            index.insert_nodes(wrong)
    for wrong in (None, 5):
        with pytest.raises(InvalidInputError, match="must be a str or a Path"):
            E2GraphRAGIndex.from_persist_dir(wrong)
        with pytest.raises(InvalidInputError, match="ref_doc_id must be a string"):
            index.delete_ref_doc(wrong)


@pytest.fixture
def global_settings(monkeypatch):
    """Return LlamaIndex's settings without a parser, as in a new process."""
    monkeypatch.setattr(Settings, "_node_parser", None)
    monkeypatch.setattr(Settings, "_transformations", None)
    return Settings


def notices(caplog):
    found = [one.getMessage() for one in caplog.records if "not used" in one.getMessage()]
    caplog.clear()
    return found


def test_a_chunk_size_of_the_settings_that_is_not_used_is_logged_once(global_settings, caplog):
    documents, model = [Document(text=STORY)], HashingEmbedder(16)
    build = partial(E2GraphRAGIndex.from_documents, documents, embed_model=model)
    assert global_settings.chunk_size == 1024  # another index created the default parser
    assert global_settings.transformations
    build()
    assert notices(caplog) == []
    global_settings.chunk_size = 256
    index = build()
    (notice,) = notices(caplog)
    assert notice.startswith(
        "Settings.chunk_size=256 is not used: E2GraphRAGIndex makes chunks of "
    )
    assert "1,200 tokens" in notice
    index.insert(Document(text="Gus ran."))
    index.as_retriever().retrieve("Who ran?")
    E2GraphRAGIndex.from_storage(index.storage_context, embed_model=model)
    build(chunk_size=300)
    assert notices(caplog) == []
    global_settings.transformations = [SentenceSplitter(), RecordingTransformation()]
    assert "Settings.transformations is not used" in "".join(build() and notices(caplog))


def test_the_repr_names_the_file(tmp_path):
    for path in (":memory:", str(tmp_path / "a.e2g")):
        index = E2GraphRAGIndex.from_documents([], path=path, **grouped(MODELS))
        assert repr(index) == f"E2GraphRAGIndex({path!r})"
        index.close()
