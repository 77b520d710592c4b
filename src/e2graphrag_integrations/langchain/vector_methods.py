"""`VectorMethods`: the methods of a LangChain vector store, by an index's own retrieval."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from e2graphrag_integrations._utils.validation import check_fraction, check_int
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain.options import DiversityOptions, SearchOptions, SearchType
from e2graphrag_integrations.langchain.retriever import (
    E2GraphRAGRetriever,
    above_threshold,
    check_threshold,
    to_documents,
)
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategies.by_vector import VectorStrategy

_BY_VECTOR = "search by vector"
"""The question in the trace of a search by vector."""


class VectorMethods(VectorStore):
    """Searches as LangChain's vector stores do, with the ranking of a retriever.

    The documents are those that a retriever of the index would return, without scores in the
    metadata. A search by vector compares vectors only.
    """

    k: int | None

    @property
    @abstractmethod
    def embeddings(self) -> Embeddings:
        """The embedding model of the index."""

    @abstractmethod
    def as_retriever(self, **options: Any) -> E2GraphRAGRetriever:
        """Return a retriever with the given fields."""

    @abstractmethod
    def get(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents and passages by id."""

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents and passages by id; unknown ids are ignored."""
        return self.get(ids)

    def search(
        self,
        query: str,
        search_type: SearchType = "similarity",
        *,
        k: int | None = None,
        score_threshold: float | None = None,
        **options: Unpack[DiversityOptions],
    ) -> list[Document]:
        """Return the documents that a retriever would find, best first.

        `as_retriever(...).search(query)` also returns the scores, the reasons and the trace.

        Args:
            query: The question.
            search_type: `similarity`, `similarity_score_threshold` or `mmr`.
            k: Number of documents. None uses the `k` of the index.
            score_threshold: Omits documents with a lower relevance.
            **options: See `E2GraphRAGRetriever`.

        Raises:
            InvalidInputError: If an option is unknown or invalid, or `mmr` needs another strategy.
        """
        retriever = self._retriever_for(search_type, k, score_threshold, **options)
        return to_documents(retriever.search(query), include_scores=False)

    async def asearch(
        self,
        query: str,
        search_type: SearchType = "similarity",
        *,
        k: int | None = None,
        score_threshold: float | None = None,
        **options: Unpack[DiversityOptions],
    ) -> list[Document]:
        """Run `search` in a thread."""
        retriever = self._retriever_for(search_type, k, score_threshold, **options)
        return to_documents(await retriever.asearch(query), include_scores=False)

    def _retriever_for(
        self,
        search_type: SearchType = "similarity",
        k: int | None = None,
        score_threshold: float | None = None,
        **options: Unpack[DiversityOptions],
    ) -> E2GraphRAGRetriever:
        return self.as_retriever(
            search_type=search_type,
            k=self.k if k is None else k,
            score_threshold=score_threshold,
            **options,
        )

    def similarity_search(
        self, query: str, k: int | None = None, **options: Unpack[SearchOptions]
    ) -> list[Document]:
        """Return the `k` documents that a retriever would find, best first.

        Args:
            query: The question.
            k: Number of documents; that of the index by default.
            **options: `filter`, `mode`, `strategy` and other fields of the retriever.
        """
        return self.search(query, k=k, **options)

    async def asimilarity_search(
        self, query: str, k: int | None = None, **options: Unpack[SearchOptions]
    ) -> list[Document]:
        """Run `similarity_search` in a thread."""
        return await self.asearch(query, k=k, **options)

    def similarity_search_with_score(
        self, query: str, k: int | None = None, **options: Unpack[SearchOptions]
    ) -> list[tuple[Document, float]]:
        """Return the documents that a retriever would find with their relevance, best first.

        The relevance is in [0, 1] and comparable across queries. It need not fall from document to
        document, because the ranking also uses the entity graph.
        """
        return _with_relevance(self._retriever_for(k=k, **options).search(query), None)

    def similarity_search_with_relevance_scores(
        self,
        query: str,
        k: int | None = None,
        *,
        score_threshold: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[tuple[Document, float]]:
        """Return the documents that a retriever would find with their relevance, best first.

        Args:
            query: The question.
            k: Number of documents. None uses the `k` of the index.
            score_threshold: Omits documents with a lower relevance.
            **options: See `E2GraphRAGRetriever`.
        """
        check_threshold(score_threshold)
        result = self._retriever_for(k=k, **options).search(query)
        return _with_relevance(result, score_threshold)

    async def asimilarity_search_with_relevance_scores(
        self,
        query: str,
        k: int | None = None,
        *,
        score_threshold: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[tuple[Document, float]]:
        """Run `similarity_search_with_relevance_scores` in a thread."""
        check_threshold(score_threshold)
        result = await self._retriever_for(k=k, **options).asearch(query)
        return _with_relevance(result, score_threshold)

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int | None = None,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchOptions],
    ) -> list[Document]:
        """Return relevant documents that repeat each other little, best first.

        Args:
            query: The question.
            k: Number of documents. None uses the `k` of the index.
            fetch_k: Number of the best documents from which these are selected.
            lambda_mult: 1 ranks by relevance alone, 0 by diversity alone.
            **options: See `E2GraphRAGRetriever`.

        Raises:
            InvalidInputError: If the strategy has no `diversity` setting, or a number is out of
                range.
        """
        return self.search(query, "mmr", k=k, fetch_k=fetch_k, lambda_mult=lambda_mult, **options)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int | None = None,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchOptions],
    ) -> list[Document]:
        """Run `max_marginal_relevance_search` in a thread."""
        return await self.asearch(
            query, "mmr", k=k, fetch_k=fetch_k, lambda_mult=lambda_mult, **options
        )

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **options: Unpack[SearchOptions]
    ) -> list[Document]:
        """Return the `k` chunks that are nearest to a vector, best first.

        Only vectors are compared: there is no question whose words or names could count.

        Args:
            embedding: A vector of the index's embedding model.
            k: Number of documents.
            **options: `filter` and other fields of the retriever, except `strategy`.

        Raises:
            InvalidInputError: If the vector has another dimension, or an option is invalid or is
                `strategy`.
        """
        k = check_int("k", k)
        if "strategy" in options:
            raise InvalidInputError("a search by vector has no strategy: leave it out")
        retriever = self.as_retriever(k=k, strategy=VectorStrategy(embedding), **options)
        return to_documents(retriever.search(_BY_VECTOR), include_scores=False)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchOptions],
    ) -> list[Document]:
        """Return chunks that are near to a vector and repeat each other little, best first.

        The texts of the `fetch_k` nearest chunks are embedded to compare them.

        Args:
            embedding: A vector of the index's embedding model.
            k: Number of documents.
            fetch_k: Number of the nearest chunks from which these are selected.
            lambda_mult: 1 selects by similarity alone, 0 by diversity alone.
            **options: `filter` and other fields of the retriever, except `strategy`.

        Raises:
            InvalidInputError: If the vector has another dimension, or a number is out of range.
        """
        check_fraction("lambda_mult", lambda_mult)
        count = max(check_int("fetch_k", fetch_k), check_int("k", k))
        near = self.similarity_search_by_vector(embedding, count, **options)
        vectors = self.embeddings.embed_documents([one.page_content for one in near])
        chosen = maximal_marginal_relevance(
            np.asarray(embedding, dtype=np.float32), vectors, lambda_mult=lambda_mult, k=k
        )
        return [near[place] for place in chosen]


def _with_relevance(
    result: RetrievalResult, threshold: float | None
) -> list[tuple[Document, float]]:
    result = above_threshold(result, threshold)
    documents = to_documents(result, include_scores=False)
    return list(zip(documents, [float(node.relevance) for node in result.nodes], strict=True))
