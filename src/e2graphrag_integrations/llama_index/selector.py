"""`GraphProximitySelector`: the index's routing as a selector for LlamaIndex's routers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import ToolMetadata

from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index.retriever import Answering, E2GraphRAGRetriever
from e2graphrag_integrations.retrieval.trace import Trace


class GraphProximitySelector(BaseSelector):
    """Chooses between two engines or retrievers as the index would between its own sides.

    A question that the index answers locally, by the entities it names, goes to the choice for
    local questions, any other to the one for global questions. No LLM is asked.

    Args:
        index: Whose graph decides.
        local_index: Place of the choice for local questions.
        global_index: Place of the choice for global questions.
        **options: Those of `E2GraphRAGRetriever`, such as `strategy` or `filters`.

    Raises:
        InvalidInputError: For an option that makes no sense.
    """

    def __init__(
        self,
        index: Answering,
        *,
        local_index: int = 0,
        global_index: int = 1,
        **options: Any,
    ) -> None:
        self._retriever = E2GraphRAGRetriever(index, **options)
        self._local = check_int("local_index", local_index, 0)
        self._global = check_int("global_index", global_index, 0)

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        """Take no prompt: there is none."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        return self._chosen(choices, self._retriever.explain(query))

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        return self._chosen(choices, await self._retriever.aexplain(query))

    def _chosen(self, choices: Sequence[ToolMetadata], trace: Trace) -> SelectorResult:
        for name, place in (("local_index", self._local), ("global_index", self._global)):
            if place >= len(choices):
                raise InvalidInputError(
                    f"{name}={place}, but the router has {len(choices)} choices, counted from 0"
                )
        chosen = self._local if trace.route == "local" else self._global
        reason = f"{trace.route}: {trace.reason}"
        return SelectorResult(selections=[SingleSelection(index=chosen, reason=reason)])
