"""`WriteBatch`: several writes, and then one build."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from e2graphrag_integrations.corpus.corpus import CollectedWrites, Corpus


class WriteBatch:
    """Collects the writes to an index in a `with` or `async with` block into one build at its end.

    Inside the block, writes only store their changes, and questions are answered from what is
    built. If the block raises, nothing is built; the changes remain pending until the next build,
    and what was deleted is found no more. Writes of other threads and tasks build as usual, except
    those of tasks that the block has started.

    Args:
        corpus: The documents of the index.
        config: The framework's configuration of the calls to the summarizer.
    """

    def __init__(self, corpus: Corpus[Any], config: Any = None) -> None:
        self._corpus = corpus
        self._config = config
        self._entered: list[CollectedWrites] = []

    def __enter__(self) -> Self:
        """Start to collect writes."""
        self._entered.append(self._corpus.collect_writes())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Build the index, unless an outer block still collects writes."""
        if not self._corpus.stop_collecting(self._entered.pop()):
            return
        if kind is None:
            self._corpus.build(self._config)
        else:
            self._corpus.drop_deleted()

    async def __aenter__(self) -> Self:
        """Start to collect writes."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Build the index like `__exit__`; the `llm` runs in the caller's event loop."""
        if not self._corpus.stop_collecting(self._entered.pop()):
            return
        if kind is None:
            await self._corpus.abuild(self._config)
        else:
            await asyncio.to_thread(self._corpus.drop_deleted)
