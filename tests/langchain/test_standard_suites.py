"""LangChain's standard test suites for retrievers and document indexes, unmodified."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_tests.integration_tests.indexer import (
    AsyncDocumentIndexTestSuite,
    DocumentIndexerTestSuite,
)

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
    return E2GraphRAGIndex.open(embeddings="hashing", extractor=NameExtractor())


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
