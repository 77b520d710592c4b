"""The LLM calls of a run: estimated, limited and announced before the first call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from e2graphrag_integrations.errors import IndexingError, InvalidInputError, LLMCallLimitError
from e2graphrag_integrations.indexing.cost import CostCounter
from e2graphrag_integrations.indexing.progress import StageTimer
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder
from e2graphrag_integrations.reports import CostEstimate
from e2graphrag_integrations.tree import Tree

logger = logging.getLogger(__name__)

T = TypeVar("T")


def plan_llm_calls(
    documents: Iterable[T],
    planner: Callable[[T], Tree],
    summaries: SummaryBuilder,
    limit: int | None,
) -> CostEstimate | None:
    """Estimate the LLM calls of a run, and compare them with its limit.

    Args:
        documents: The documents of the run.
        planner: Returns the tree of a document. Documents for which it fails are not counted; the
            run reports them.
        summaries: Creates the summaries.
        limit: Maximum number of calls, without retries; None means no limit.

    Returns:
        The estimate, or None if the summarizer needs no LLM.

    Raises:
        LLMCallLimitError: If the run needs more calls.
    """
    if not summaries.uses_llm:
        return None
    counter = CostCounter(summaries)
    for document in documents:
        try:
            counter.add(planner(document))
        except (InvalidInputError, IndexingError):
            continue
    cost = counter.estimate()
    check_calls(cost, summaries, limit, "summaries")
    return cost


_FEWER = {
    "summaries": "index fewer documents at once. No model was called and nothing was indexed",
    "reports": "list fewer communities (top=). No model was called",
}
"""How to need fewer calls, for the error message."""


def check_calls(
    cost: CostEstimate,
    summaries: SummaryBuilder,
    limit: int | None,
    what: Literal["summaries", "reports"],
) -> None:
    """Compare the LLM calls of a run with its limit.

    Raises:
        LLMCallLimitError: If the run needs more calls.
    """
    if limit is not None and cost.llm_calls > limit:
        raise LLMCallLimitError(
            f"the {what} need {_describe(cost, summaries)}, but max_llm_calls={limit}: raise the "
            f"limit, or {_FEWER[what]}",
            cost.llm_calls,
            limit,
        )


def announce_llm_calls(
    cost: CostEstimate | None,
    summaries: SummaryBuilder,
    timer: StageTimer | None = None,
    *,
    what: str = "summaries",
) -> None:
    """Log one line about the calls of a run before the first one, and send it to progress bars.

    Only an LLM that the user passed is called, so the line has the level INFO, not WARNING.
    """
    if cost is None or not cost.llm_calls:
        return
    line = f"{what}: {_describe(cost, summaries)}"
    logger.info("%s", line)
    if timer is not None:
        timer.announce("summarize", line)


def _describe(cost: CostEstimate, summaries: SummaryBuilder) -> str:
    return (
        f"{cost.llm_calls:,} LLM call(s) to {summaries.model}, with at most "
        f"{cost.prompt_tokens:,} prompt tokens and {cost.completion_tokens:,} completion tokens"
    )
