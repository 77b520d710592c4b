"""Calls that users of LangChain's vector stores know."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass, replace

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import ConfigurableField

from e2graphrag_integrations import HybridStrategy, Models, PaperStrategy
from e2graphrag_integrations.corpus import corpus
from e2graphrag_integrations.errors import IndexingError, InvalidInputError
from e2graphrag_integrations.langchain import E2GraphRAGIndex, E2GraphRAGRetriever
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from langchain_fakes import MILL, SMALL, DigestChatModel, exported

QUERY = "Who gave Anna the map?"
EMBEDDING = DeterministicFakeEmbedding(size=32)
OFFLINE = {key: value for key, value in SMALL.items() if key != "embeddings"}


@dataclass(frozen=True)
class Diverse(PaperStrategy):
    """A strategy with a diversity, but without a pool."""

    diversity: float = 0.0


def mmr(**search_kwargs):
    return {"search_type": "mmr", "search_kwargs": search_kwargs}


def ids(documents):
    return [document.id for document in documents]


@pytest.fixture
def index(lc_index_of, pages):
    return lc_index_of(pages)


def test_search_kwargs_are_options_of_the_retriever(index):
    where = {"author": "Bob"}
    expected = index.as_retriever(k=3, filter=where).invoke(QUERY)
    retriever = index.as_retriever(
        search_type="similarity", search_kwargs={"k": 3, "filter": where}
    )
    assert retriever.invoke(QUERY) == asyncio.run(retriever.ainvoke(QUERY)) == expected
    assert len(expected) == 3
    assert len(retriever.invoke(QUERY, k=1)) == 1
    same = E2GraphRAGRetriever(index=index, search_kwargs={"k": 3, "filter": where})
    assert same.invoke(QUERY) == expected


def test_a_score_threshold_keeps_documents_with_that_relevance(index):
    everything = index.similarity_search_with_relevance_scores(QUERY, k=20)
    relevances = [relevance for _, relevance in everything]
    assert all(0 <= relevance <= 1 for relevance in relevances)
    threshold = sorted(relevances)[len(relevances) // 2]
    expected = [document.id for document, relevance in everything if relevance >= threshold]
    assert 0 < len(expected) < len(everything)
    retriever = index.as_retriever(
        search_type="similarity_score_threshold",
        search_kwargs={"score_threshold": threshold, "k": 20},
    )
    assert ids(retriever.invoke(QUERY)) == ids(asyncio.run(retriever.ainvoke(QUERY))) == expected
    for found in (retriever.search(QUERY), asyncio.run(retriever.asearch(QUERY))):
        assert len(found.nodes) == len(expected)
    assert ids(index.as_retriever(k=20, score_threshold=threshold).invoke(QUERY)) == expected
    assert ids(index.invoke(QUERY, k=20, score_threshold=threshold)) == expected
    above = index.similarity_search_with_relevance_scores(QUERY, 20, score_threshold=threshold)
    assert ids(document for document, _ in above) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search_type": "nearest"}, "search_type='nearest'"),
        ({"search_kwargs": {"lambda_mult": 0.5}}, "lambda_mult=0.5 needs search_type='mmr'"),
        ({"search_kwargs": {"fetch_k": 20}}, "fetch_k=20 needs search_type='mmr'"),
        ({"search_kwargs": {"top_k": 2}}, "unknown search_kwargs key 'top_k'"),
        ({"search_kwargs": {"score_threshold": 2}}, "score_threshold=2 must be"),
        (mmr(lambda_mult=1.5), "lambda_mult=1.5 must be a number from 0"),
        (mmr(lambda_mult=float("nan")), "lambda_mult=nan must be a number from 0"),
        (mmr(lambda_mult="x"), "lambda_mult='x' must be a number from 0"),
        (mmr(fetch_k=0), "fetch_k=0 must be a whole number from 1"),
        (mmr(strategy=PaperStrategy()), "needs a strategy with the setting 'diversity'"),
        (mmr(max_hops=2), "which PaperStrategy lacks: pass strategy=HybridStrategy"),
        (mmr(strategy=Diverse(), fetch_k=5), "fetch_k=5 needs .* 'diversity_pool', which Diverse"),
        ({"search_kwargs": {"k": 2}, "k": 3}, "k= is also in search_kwargs"),
    ],
)
def test_unsupported_search_options_are_rejected(index, options, message):
    with pytest.raises(InvalidInputError, match=message):
        index.as_retriever(**options)


def test_a_threshold_search_needs_a_threshold(index):
    with pytest.raises(InvalidInputError, match="needs"):
        index.as_retriever(search_type="similarity_score_threshold")


def test_mmr_sets_the_diversity_of_the_strategy(index):
    strategy = HybridStrategy(diversity=0.75, diversity_pool=7)
    expected = index.as_retriever(k=3, strategy=strategy).invoke(QUERY)
    retriever = index.as_retriever(
        search_type="mmr", search_kwargs={"k": 3, "lambda_mult": 0.25, "fetch_k": 7}
    )
    assert retriever.retrieve_arguments()["strategy"] == strategy
    assert retriever.invoke(QUERY) == asyncio.run(retriever.ainvoke(QUERY)) == expected
    by_call = index.as_retriever(search_type="mmr").invoke(QUERY, k=3, lambda_mult=0.25, fetch_k=7)
    assert by_call == expected
    options = {"k": 3, "lambda_mult": 0.25, "fetch_k": 7}
    assert index.max_marginal_relevance_search(QUERY, **options) == expected
    assert asyncio.run(index.amax_marginal_relevance_search(QUERY, **options)) == expected
    found = [
        node.node_id
        for node in index.as_retriever(search_type="mmr", **options).search(QUERY).nodes
    ]
    again = asyncio.run(index.as_retriever(search_type="mmr", **options).asearch(QUERY))
    assert found == [node.node_id for node in again.nodes] == ids(expected)


def test_mmr_keeps_the_other_settings_of_the_strategy(index, lc_index_of, pages):
    def strategy(index, **options):
        return index.as_retriever(search_type="mmr", **options).retrieve_arguments()["strategy"]

    assert strategy(index) == HybridStrategy(diversity=0.5)  # LangChain's default
    given = HybridStrategy(rrf_k=7, diversity_pool=9)
    assert strategy(index, strategy=given, lambda_mult=0) == replace(given, diversity=1)
    assert strategy(lc_index_of(pages, strategy=given)) == replace(given, diversity=0.5)
    core = E2GraphRAGRetriever(index=index.corpus.rag, search_type="mmr", lambda_mult=1)
    assert core.retrieve_arguments()["strategy"] == HybridStrategy(diversity=0)
    assert strategy(index, strategy=Diverse(), lambda_mult=0.25) == Diverse(diversity=0.75)


def test_mmr_without_diversity_ranks_like_a_strategy_without_it(index):
    expected = index.similarity_search(QUERY, k=5, strategy=HybridStrategy(diversity=0))
    assert index.max_marginal_relevance_search(QUERY, k=5, lambda_mult=1) == expected


def test_a_mmr_call_is_checked(index):
    retriever = index.as_retriever(search_type="mmr")
    with pytest.raises(InvalidInputError, match="lambda_mult=-1 must be"):
        retriever.invoke(QUERY, lambda_mult=-1)
    with pytest.raises(InvalidInputError, match="PaperStrategy lacks"):
        retriever.invoke(QUERY, strategy=PaperStrategy())
    with pytest.raises(InvalidInputError, match="lambda_mult=1 needs search_type='mmr'"):
        index.as_retriever().invoke(QUERY, lambda_mult=1)
    with pytest.raises(InvalidInputError, match="lambda_mult=2 must be a number from 0 to 1"):
        index.max_marginal_relevance_search(QUERY, lambda_mult=2)
    with pytest.raises(InvalidInputError, match="search_type='nearest'"):
        index.search(QUERY, "nearest")


def test_search_honors_a_score_threshold(index):
    everything = index.as_retriever(k=20).search(QUERY).nodes
    threshold = sorted(node.relevance for node in everything)[len(everything) // 2]
    expected = [node for node in everything if node.relevance >= threshold]
    options = {"k": 20, "score_threshold": threshold}
    found = (
        index.as_retriever(search_type="similarity_score_threshold", **options).search(QUERY).nodes
    )
    again = asyncio.run(
        index.as_retriever(search_type="similarity_score_threshold", **options).asearch(QUERY)
    )
    assert list(found) == list(again.nodes) == expected


def test_fields_of_a_retriever_are_configurable(index):
    retriever = index.as_retriever().configurable_fields(
        k=ConfigurableField(id="k"), search_kwargs=ConfigurableField(id="search_kwargs")
    )
    assert len(retriever.invoke(QUERY, config={"configurable": {"k": 2}})) == 2
    config = {"configurable": {"search_kwargs": {"k": 1}}}
    assert len(retriever.invoke(QUERY, config=config)) == 1


def test_similarity_searches_agree_with_their_async_twins(index):
    documents = index.similarity_search(QUERY, k=4)
    scored = index.similarity_search_with_score(QUERY, k=4)
    relevant = index.similarity_search_with_relevance_scores(QUERY, k=4)
    assert ids(documents) == ids(d for d, _ in scored)
    assert scored == relevant
    assert all(0 <= relevance <= 1 for _, relevance in scored)
    assert all("e2_score" not in document.metadata for document in documents)

    async def twins():
        return [
            await index.asimilarity_search(QUERY, k=4),
            await index.asimilarity_search_with_score(QUERY, k=4),
            await index.asimilarity_search_with_relevance_scores(QUERY, k=4),
        ]

    assert asyncio.run(twins()) == [documents, scored, relevant]


def test_the_embedding_model_is_the_second_argument(pages):
    texts = [page.page_content for page in pages]
    metadatas = [page.metadata for page in pages]
    given = [page.id for page in pages]
    built = [
        E2GraphRAGIndex.from_documents(pages, EMBEDDING, **grouped(OFFLINE)),
        E2GraphRAGIndex.from_documents(pages, **grouped({"embedding": EMBEDDING, **OFFLINE})),
        E2GraphRAGIndex.from_documents(pages, **grouped({"embeddings": EMBEDDING, **OFFLINE})),
        E2GraphRAGIndex.from_texts(
            texts, EMBEDDING, metadatas, **grouped({"ids": given, **OFFLINE})
        ),
        asyncio.run(E2GraphRAGIndex.afrom_documents(pages, EMBEDDING, **grouped(OFFLINE))),
        asyncio.run(
            E2GraphRAGIndex.afrom_texts(
                texts, EMBEDDING, metadatas, **grouped({"ids": given, **OFFLINE})
            )
        ),
    ]
    for index in built[1:]:
        assert exported(index) == exported(built[0])
    with pytest.raises(InvalidInputError, match="are the same argument"):
        E2GraphRAGIndex.from_documents(pages, EMBEDDING, embeddings=EMBEDDING)
    with pytest.raises(InvalidInputError, match="metadatas="):
        E2GraphRAGIndex.from_texts(texts, metadatas)


def test_add_texts_and_ids_of_add_documents(lc_index_of, pages):
    expected = lc_index_of(pages)
    texts = [page.page_content for page in pages]
    metadatas = [page.metadata for page in pages]
    given = [page.id for page in pages]
    by_text, by_text_async, by_id = (lc_index_of([]) for _ in range(3))
    assert by_text.add_texts(texts, metadatas, ids=given) == given
    assert asyncio.run(by_text_async.aadd_texts(texts, metadatas, ids=given)) == given
    anonymous = [page.model_copy(update={"id": None}) for page in pages]
    assert by_id.add_documents(anonymous, ids=given) == given
    for index in (by_text, by_text_async, by_id):
        assert exported(index) == exported(expected)
    with pytest.raises(InvalidInputError, match="ids has 1"):
        by_id.add_documents(pages, ids=["a"])


def test_an_index_is_saved_to_a_folder(index, tmp_path):
    folder = tmp_path / "saved" / "index"
    index.save_local(folder)
    assert [path.name for path in folder.iterdir()] == ["index.e2g"]
    index.save_local(str(folder))
    with E2GraphRAGIndex.load_local(
        folder, "hashing", models=Models(extractor=NameExtractor())
    ) as loaded:
        assert exported(loaded) == exported(index)
    with pytest.raises(InvalidInputError, match="does not exist"):
        E2GraphRAGIndex.load_local(tmp_path / "missing")


# Iterators


def many(sources=4, pages=3):
    for source in range(sources):
        for page in range(pages):
            yield Document(
                f"{MILL} Source {source}, page {page}.",
                metadata={"source": f"s{source}", "page": page},
                id=f"{source}-{page}",
            )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("is_async", [False, True])
def test_an_iterator_is_indexed_in_batches_like_a_list(lc_index_of, monkeypatch, is_async):
    monkeypatch.setattr(corpus, "_BATCH_CHARACTERS", 1)
    expected = lc_index_of([*many()])
    alive = peak = 0

    def forget():
        nonlocal alive
        alive -= 1

    def watched():
        nonlocal alive, peak
        for document in many():
            weakref.finalize(document, forget)
            alive += 1
            peak = max(peak, alive)
            yield document

    index = lc_index_of([])
    if is_async:
        given = asyncio.run(index.aadd_documents(watched()))
    else:
        given = index.add_documents(watched())
    assert given == [document.id for document in many()]
    assert exported(index) == exported(expected)
    assert peak <= 8  # of 12


def test_batches_end_where_the_source_changes(lc_index_of, monkeypatch):
    monkeypatch.setattr(corpus, "_BATCH_CHARACTERS", 1)
    llm, llm_for_list = DigestChatModel(), DigestChatModel()
    index = lc_index_of(many(), llm=llm)
    lc_index_of([*many()], llm=llm_for_list)
    assert llm.calls == llm_for_list.calls
    assert len(index.ids()) == 12


def test_a_failed_batch_leaves_the_rest_pending(lc_index_of, monkeypatch):
    monkeypatch.setattr(corpus, "_BATCH_CHARACTERS", 1)
    index = lc_index_of([], llm=DigestChatModel(failing={4}))
    with pytest.raises(IndexingError, match="call 4 failed"):
        index.add_documents(many())
    assert len(index.ids()) == 12
    index.build()
    assert exported(index) == exported(lc_index_of([*many()], llm=DigestChatModel()))
