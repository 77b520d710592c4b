"""Fixtures of the tests of results."""

import pytest

from e2graphrag_integrations import PaperStrategy, SourceDocument
from fakes import CountingLLM, LineCounter


@pytest.fixture
def twelve(open_index):
    """An index of twelve one-line chunks with three summaries over 5, 5 and 2 of them."""
    rag = open_index(
        token_counter=LineCounter(),
        summarizer=CountingLLM(),
        strategy=PaperStrategy(),
        chunk_size=1,
        chunk_overlap=0,
    )
    rag.add(SourceDocument("d", "\n".join(f"Row {number} is here." for number in range(12))))
    return rag
