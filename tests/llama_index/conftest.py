"""Fixtures for the tests of the LlamaIndex integration."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import Document, Settings
from llama_index.core.node_parser import SentenceSplitter

from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from fakes import STORY, NameExtractor
from llama_fakes import OTHER


@pytest.fixture(scope="session", autouse=True)
def _first_splitter() -> None:
    """Create a splitter: in llama-index-core 0.13, only the first looks for NLTK data online."""
    with contextlib.suppress(LookupError):
        SentenceSplitter().split_text("One. Two.")


@pytest.fixture(autouse=True)
def _reset_settings() -> Iterator[None]:
    yield
    Settings._llm = None
    Settings._embed_model = None


@pytest.fixture
def documents() -> list[Document]:
    return [
        Document(id_="story", text=STORY, metadata={"title": "A Map", "year": 1890}),
        Document(id_="other", text=OTHER, metadata={"title": "A Mill", "year": 1901}),
    ]


@pytest.fixture
def index_of() -> Callable[..., E2GraphRAGIndex]:
    """Return a function that builds an index with small chunks and without real models."""

    def build(documents: list[Document], **options: Any) -> E2GraphRAGIndex:
        defaults: dict[str, Any] = {
            "embed_model": "hashing",
            "extractor": NameExtractor(),
            "chunk_size": 16,
            "chunk_overlap": 4,
            "group_size": 3,
        }
        return E2GraphRAGIndex.from_documents(documents, **grouped(defaults | options))

    return build


@pytest.fixture
def index_with_rare_names(
    index_of: Callable[..., E2GraphRAGIndex], documents: list[Document]
) -> E2GraphRAGIndex:
    """An index in which Anna and Bert occur in two of about fifty chunks, so they are specific."""
    calm = " ".join(f"The sea was calm for {days} days." for days in range(100))
    index = index_of([*documents, Document(id_="calm", text=calm)], llm="extractive")
    for name in ("anna", "bert"):
        assert len(index.rag.graph.chunks(index.rag.graph.index[name])[0]) == 2
    assert index.report.chunks > 45
    return index
