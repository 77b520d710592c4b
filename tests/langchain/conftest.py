"""Fixtures of the LangChain tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from e2graphrag_integrations.options import grouped

if find_spec("langchain_core") is None:
    collect_ignore_glob = ["test_*.py"]

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex


@pytest.fixture(scope="session", autouse=True)
def _no_tracing() -> Iterator[None]:
    """Prevent calls to LangSmith if a developer's environment enables tracing."""
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
    """Index documents in small chunks with offline models."""
    from e2graphrag_integrations.langchain import E2GraphRAGIndex
    from langchain_fakes import SMALL

    indexes: list[E2GraphRAGIndex] = []

    def make(documents: list[Document], **options: Any) -> E2GraphRAGIndex:
        indexes.append(E2GraphRAGIndex.from_documents(documents, **grouped(SMALL | options)))
        return indexes[-1]

    yield make
    for index in indexes:
        index.close()
