"""`GraphProximitySelector`: the routing of an index as a selector for LlamaIndex's routers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, Unpack

from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import ToolMetadata

from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.engine.searchable import Searchable
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index.options import RetrieverOptions
from e2graphrag_integrations.llama_index.retriever import E2GraphRAGRetriever
from e2graphrag_integrations.retrieval.trace import Trace


class GraphProximitySelector(BaseSelector):
    """Choose between two engines or retrievers by the route of the query; no LLM is called.

    Queries with the route `local` go to one choice, and queries with the route `global` go to the
    other. A selector of a path opens the index: use it as a context manager, or call `close`.

    Args:
        index: The index whose graph determines the route, as for `E2GraphRAGRetriever`.
        local_index: Zero-based position of the choice for local queries.
        global_index: Zero-based position of the choice for global queries.
        **options: Options of `E2GraphRAGRetriever`, such as `strategy` or `filters`.

    Raises:
        InvalidInputError: If an option is unknown or out of range.
    """

    def __init__(
        self,
        index: Searchable,
        *,
        local_index: int = 0,
        global_index: int = 1,
        **options: Unpack[RetrieverOptions],
    ) -> None:
        self._local_index = check_int("local_index", local_index, 0)
        self._global_index = check_int("global_index", global_index, 0)
        self._retriever = E2GraphRAGRetriever(index, **options)  # last, as it may open the index

    def close(self) -> None:
        """Close the index if the selector opened it from a path or a URL; idempotent."""
        self._retriever.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        """Do nothing: the selector has no prompts."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        return self._selection(choices, self._retriever.explain(query))

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        return self._selection(choices, await self._retriever.aexplain(query))

    def _selection(self, choices: Sequence[ToolMetadata], trace: Trace) -> SelectorResult:
        positions = {"local_index": self._local_index, "global_index": self._global_index}
        for name, position in positions.items():
            if position >= len(choices):
                raise InvalidInputError(
                    f"{name}={position} must be less than the router's {len(choices)} choices"
                )
        index = self._local_index if trace.route == "local" else self._global_index
        reason = f"{trace.route}: {trace.reason}"
        return SelectorResult(selections=[SingleSelection(index=index, reason=reason)])
