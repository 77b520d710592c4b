"""What the tests of the LangChain face share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from fakes import NameExtractor

if find_spec("langchain_core") is None:
    collect_ignore_glob = ["test_*.py"]

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex


@pytest.fixture(scope="session", autouse=True)
def _no_tracing() -> Iterator[None]:
    """LangSmith would be called where a developer has its variables set."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGCHAIN_TRACING"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def pages() -> list[Document]:
    """Three pages of one source by Ann and two of another by Bob."""
    from langchain_fakes import two_sources

    return two_sources()


@pytest.fixture
def lc_index_of() -> Iterator[Callable[..., E2GraphRAGIndex]]:
    """Index documents with the hashing embedder and the fake extractor, in small chunks."""
    from e2graphrag_integrations.langchain import E2GraphRAGIndex

    made: list[E2GraphRAGIndex] = []

    def make(documents: list[Document], **options: Any) -> E2GraphRAGIndex:
        defaults: dict[str, Any] = {
            "embeddings": "hashing",
            "extractor": NameExtractor(),
            "chunk_size": 16,
            "chunk_overlap": 4,
            "group_size": 3,
        }
        made.append(E2GraphRAGIndex.from_documents(documents, **(defaults | options)))
        return made[-1]

    yield make
    for index in made:
        index.close()
