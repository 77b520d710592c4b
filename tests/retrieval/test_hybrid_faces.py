"""`HybridStrategy` on real vectors, and equal results in the core, LlamaIndex and LangChain."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from langchain_core.documents import Document as Page
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document, StorageContext
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    IndexSettings,
    Models,
    SourceDocument,
    TreeTraversalStrategy,
)
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.llama_index import E2GraphRAGIndex as LlamaIndex
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.hydrate import falling_relevance
from e2graphrag_integrations.retrieval.result import GAP
from fakes import STORY, NameExtractor
from llama_fakes import OTHER
from llama_stores import Distinct, new_store

HYBRID = HybridStrategy()
STRATEGIES = (
    HYBRID,
    HybridStrategy(rrf_k=60, use_path_chunks=True, include_summaries=False),
    HybridStrategy(dense_weight=0, gate=0),
    TreeTraversalStrategy(2),
)
PACKING = [(HYBRID, 12), (HYBRID, 40), (HYBRID, 1000)]
PACKING += [(HybridStrategy(budget_summaries="overview"), 60), (TreeTraversalStrategy(2), 60)]
QUESTIONS = (
    "What did Anna give Bert?",
    "Who took flour from Fay to Oslo?",
    "What happened at the mill?",
    "Emil and Hal",
    "how did it end at night",
)
OVERVIEW = "Summarize the whole story."
MODES = {"adaptive": "auto", "local": "local", "global": "global"}
TEXTS = {"story": ("A Map", STORY), "other": ("Hal", OTHER), "bare": ("Oslo", "It is cold there.")}
OPTIONS = {"chunk_size": 16, "chunk_overlap": 4, "group_size": 3}


class Windows(Distinct):
    """Has an input limit that splits chunks into windows, and distinct cosines."""

    def __init__(self):
        super().__init__()
        self.max_tokens = 16
        self.fingerprint = "fake:windows"


class Shortest:
    """Prefers short texts."""

    def rerank(self, question, texts):
        return [-len(text) for text in texts]


# Real vectors.

PARAGRAPHS = [
    "Sherlock Holmes sat in Baker Street with Doctor Watson. Holmes played the violin all evening.",
    "Irene Adler had a photograph that the King of Bohemia wanted. Holmes admired Irene Adler.",
    "The recipe asks for flour, butter and three eggs. Bake the cake for forty minutes.",
    "Whales are mammals and breathe air. A blue whale may weigh more than a hundred tonnes.",
    "Water freezes at zero degrees and boils at a hundred. Ice floats because it is less dense.",
]
SATELLITE = "A colony of penguins on the ice shelf was photographed from a satellite."


@pytest.fixture(scope="module")
def real(real_embedder, real_extractor):
    """Index five paragraphs, and one chunk with several windows."""
    filler = "The committee discussed the drainage of the northern car park at length. "
    with E2GraphRAG.open(
        ":memory:",
        embedder=real_embedder,
        models=Models(extractor=real_extractor),
        strategy=HYBRID,
        settings=IndexSettings(chunk_size=1200, chunk_overlap=0),
    ) as rag:
        rag.add(
            [
                *[SourceDocument(f"p{n}", text) for n, text in enumerate(PARAGRAPHS)],
                SourceDocument("long", f"{filler * 20}{SATELLITE} {filler * 20}"),
            ]
        )
        yield rag


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("giant sea creatures", "p3"),
        ("pastry oven", "p2"),
        ("temperature turning solid", "p4"),
        ("Antarctic birds spotted by spacecraft", "long"),
    ],
)
def test_real_vectors_find_the_answer_by_meaning_if_no_word_matches(real, question, document):
    assert real.retrieve(question, k=1).nodes[0].document_id == document


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["Irene Adler", "Adler", "Irene Adlar"])
def test_real_vectors_find_a_name_in_texts_and_titles(real_embedder, real_extractor, name):
    with E2GraphRAG.open(
        ":memory:", embedder=real_embedder, models=Models(extractor=real_extractor), strategy=HYBRID
    ) as rag:
        rag.add([SourceDocument(f"p{n}", text) for n, text in enumerate(PARAGRAPHS)])
        rag.add(SourceDocument("adler", "She was born in New Jersey.", title="Irene Adler"))
        result = rag.retrieve(f"Where was {name} born?", k=2)
        assert "irene adler" in [link.entity for link in result.trace.links]
        assert [node.document_id for node in result.nodes] == ["adler", "p1"]


def test_real_relevance_is_comparable_across_questions(real):
    """The best node of an answerable question is more relevant than that of any other question."""
    answered = [
        real.retrieve(question, k=1).nodes[0].relevance
        for question in ("How much does a blue whale weigh?", "How long do I bake the cake?")
    ]
    unanswered = [
        real.retrieve(question, k=1).nodes[0].relevance
        for question in ("Which bank raised its interest rate?", "How do I install the driver?")
    ]
    assert min(answered) > 0.3 > max(unanswered)


def test_a_token_budget_is_filled_with_the_relevant_windows_of_a_long_chunk(real):
    count = real._index.components.counter.count
    result = real.retrieve("birds of the Antarctic seen from space", token_budget=300)
    assert count(result.context()) <= 300
    best = result.nodes[0]
    assert best.document_id == "long"
    assert SATELLITE in best.text
    assert count(best.text) < 300 < count(real.document("long").text)
    for node in result.nodes:
        text = real.document(node.document_id).text
        assert node.text == GAP.join(text[start:end] for start, end in node.spans)


def test_small_and_large_token_budgets_are_filled(real):
    count = real._index.components.counter.count
    everything = real.retrieve("whales and ice", token_budget=10_000)
    assert {node.document_id for node in everything.nodes} == set(real.document_ids)
    for budget in (20, 60, 250):
        used = count(real.retrieve("whales and ice", token_budget=budget).context())
        assert budget / 3 < used <= budget


# LlamaIndex.


@pytest.fixture
def core(open_index):
    rag = open_index(embedder=Windows(), **OPTIONS)
    rag.add(
        [
            SourceDocument(id_, text, title, metadata={"title": title})
            for id_, (title, text) in TEXTS.items()
        ]
    )
    return rag


@pytest.fixture(params=["simple", "plain"])
def llama(request, tmp_path):
    """Index the same documents in LlamaIndex's own store and in one that only supports queries."""
    with ExitStack() as closing:
        store = new_store(request.param, tmp_path, closing)
        yield LlamaIndex.from_documents(
            [
                Document(id_=id_, text=text, metadata={"title": title})
                for id_, (title, text) in TEXTS.items()
            ],
            **grouped(
                {
                    "embed_model": Windows(),
                    "extractor": NameExtractor(),
                    "storage_context": StorageContext.from_defaults(vector_store=store),
                    **OPTIONS,
                }
            ),
        )


def of_core(nodes):
    return [(node.text, pytest.approx(node.score, abs=1e-5)) for node in nodes]


def llama_nodes_of_core(nodes):
    scores = falling_relevance(nodes)
    return [
        (node.text, pytest.approx(score, abs=1e-5))
        for node, score in zip(nodes, scores, strict=True)
    ]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=["default", "paths", "bm25", "tree"])
def test_llama_index_returns_the_nodes_of_the_core(core, llama, strategy):
    for question in QUESTIONS:
        for mode, mode_of_core in MODES.items():
            options = {"strategy": strategy, "similarity_top_k": 6}
            found = llama.as_retriever(mode, **options).retrieve(question)
            expected = core.retrieve(question, k=6, mode=mode_of_core, strategy=strategy)
            content = [(n.node.get_content(), n.score) for n in found]
            assert content == llama_nodes_of_core(expected.nodes)


@pytest.mark.fast_cases(1)
def test_llama_index_returns_the_nodes_of_the_core_under_a_filter(core, llama):
    filters = MetadataFilters(filters=[MetadataFilter(key="title", value="Hal")])
    for question in QUESTIONS:
        retriever = llama.as_retriever(strategy=HYBRID, filters=filters, similarity_top_k=6)
        expected = core.retrieve(question, k=6, strategy=HYBRID, where={"title": "Hal"})
        found = retriever.retrieve(question)
        content = [(n.node.get_content(), n.score) for n in found]
        assert content == llama_nodes_of_core(expected.nodes)
        assert {n.node.ref_doc_id for n in found} <= {"other"}


@pytest.mark.fast_cases(1)
def test_llama_index_packs_the_windows_of_the_core(core, llama):
    for question in (*QUESTIONS, OVERVIEW):
        for strategy, budget in PACKING:
            result = llama.as_retriever(strategy=strategy, token_budget=budget).search(question)
            expected = core.retrieve(question, strategy=strategy, token_budget=budget)
            assert [(n.text, n.score) for n in result.nodes] == of_core(expected.nodes)
            assert result.context() == expected.context()


@pytest.mark.fast_cases(1)
def test_llama_index_returns_the_nodes_of_the_core_after_reranking(core, llama):
    strategy = HybridStrategy(reranker=Shortest(), rerank_top_n=3)
    for question in QUESTIONS:
        found = llama.as_retriever(strategy=strategy, similarity_top_k=5).retrieve(question)
        expected = core.retrieve(question, k=5, strategy=strategy)
        content = [(n.node.get_content(), n.score) for n in found]
        assert content == llama_nodes_of_core(expected.nodes)


# LangChain.


@pytest.fixture(params=[None, "memory"])
def pages_index(request):
    """Index the same documents, searched by FAISS and by a LangChain vector store."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=256)) if request.param else None
    index = LangChainIndex.from_documents(
        [
            Page(id=id_, page_content=text, metadata={"source": id_, "title": title})
            for id_, (title, text) in TEXTS.items()
        ],
        **grouped(
            {
                "embeddings": Windows(),
                "extractor": NameExtractor(),
                "vector_store": store,
                **OPTIONS,
            }
        ),
    )
    yield index
    index.close()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=["default", "paths", "bm25", "tree"])
def test_langchain_returns_the_nodes_of_the_core(core, pages_index, strategy):
    for question in QUESTIONS:
        for mode in MODES.values():
            found = pages_index.rag.retrieve(question, k=6, mode=mode, strategy=strategy)
            expected = core.retrieve(question, k=6, mode=mode, strategy=strategy)
            assert [(n.text, n.score) for n in found.nodes] == of_core(expected.nodes)
            retriever = pages_index.as_retriever(
                k=6, mode=mode, strategy=strategy, include_scores=True
            )
            filled = core.retrieve(question, k=6, mode=mode, strategy=strategy, fill=True)
            assert [
                (d.page_content, d.metadata["e2_score"]) for d in retriever.invoke(question)
            ] == of_core(filled.nodes)


@pytest.mark.fast_cases(1)
def test_langchain_packs_the_windows_of_the_core(core, pages_index):
    for question in (*QUESTIONS, OVERVIEW):
        for strategy, budget in PACKING:
            options = {"strategy": strategy, "token_budget": budget}
            found = pages_index.rag.retrieve(question, **options)
            expected = core.retrieve(question, **options)
            assert [(n.text, n.score) for n in found.nodes] == of_core(expected.nodes)
            assert found.context() == expected.context()
