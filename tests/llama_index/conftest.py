"""What the tests of the LlamaIndex face share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import Document, Settings

from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from fakes import STORY, NameExtractor
from llama_fakes import OTHER


@pytest.fixture(autouse=True)
def _no_models_left_behind() -> Iterator[None]:
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
    """Build an index with the hashing embedder and the fake extractor, in small chunks."""

    def make(documents: list[Document], **options: Any) -> E2GraphRAGIndex:
        defaults: dict[str, Any] = {
            "embed_model": "hashing",
            "extractor": NameExtractor(),
            "chunk_size": 16,
            "chunk_overlap": 4,
            "group_size": 3,
        }
        return E2GraphRAGIndex.from_documents(documents, **(defaults | options))

    return make
