"""LangChain's standard test suites for retrievers, indexes and vector stores, unmodified."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.integration_tests.indexer import (
    AsyncDocumentIndexTestSuite,
    DocumentIndexerTestSuite,
)

from e2graphrag_integrations import Models
from e2graphrag_integrations.langchain import E2GraphRAGIndex, E2GraphRAGRetriever
from fakes import NameExtractor


class _RetrieverSuite(RetrieversIntegrationTests):
    index: Any

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return E2GraphRAGRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.index}

    @property
    def retriever_query_example(self) -> str:
        return "How is Anna tied to Emil?"


class TestRetrieverOnEngine(_RetrieverSuite):
    @pytest.fixture(autouse=True)
    def _create_index(self, open_index, story):
        self.index = open_index()
        self.index.add([story])


class TestRetrieverOnIndex(_RetrieverSuite):
    @pytest.fixture(autouse=True)
    def _create_index(self, lc_index_of, pages):
        self.index = lc_index_of(pages)


class TestIndexAsRetriever(_RetrieverSuite):
    @pytest.fixture(autouse=True)
    def _create_index(self, lc_index_of, pages):
        self.index = lc_index_of(pages)

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return E2GraphRAGIndex

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"corpus": self.index.corpus}


def _empty_index() -> E2GraphRAGIndex:
    return E2GraphRAGIndex.open(embeddings="hashing", models=Models(extractor=NameExtractor()))


class TestDocumentIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self):
        index = _empty_index()
        yield index
        index.close()


class TestAsyncDocumentIndex(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    async def index(self):
        index = _empty_index()
        yield index
        index.close()


class _WithoutOwnKeys(E2GraphRAGIndex):
    """An index whose searches leave out the `e2_` keys.

    The suite compares the documents that it finds with those that it added, and ours have offsets,
    ids and more in their metadata. Apart from that, the suite runs as it is.
    """

    def search(self, query: str, *args: Any, **options: Any) -> list[Document]:
        return [_without_own_keys(one) for one in super().search(query, *args, **options)]

    async def asearch(self, query: str, *args: Any, **options: Any) -> list[Document]:
        return [_without_own_keys(one) for one in await super().asearch(query, *args, **options)]


def _without_own_keys(document: Document) -> Document:
    metadata = {key: value for key, value in document.metadata.items() if not key.startswith("e2_")}
    return Document(id=document.id, page_content=document.page_content, metadata=metadata)


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        index = _WithoutOwnKeys.open(
            embeddings=self.get_embeddings(), models=Models(extractor=NameExtractor())
        )
        yield index
        index.close()
