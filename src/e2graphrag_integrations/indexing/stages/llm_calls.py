"""The LLM calls of a run: estimated, limited and announced before the first call."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Self

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations.errors import IndexingError, InvalidInputError, LLMCallLimitError
from e2graphrag_integrations.indexing.run import ChunkCost, ChunkStage, StageTimer
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder
from e2graphrag_integrations.reports import CostEstimate, LevelEstimate
from e2graphrag_integrations.text.tokens import count_tokens
from e2graphrag_integrations.tree import Tree, without_overlap
from e2graphrag_integrations.types import Node, SourceDocument


@dataclass
class CostCounter:
    """Counts the summaries that planned trees still need, and upper bounds on their tokens.

    Cached and repeated summaries need no call.

    Attributes:
        summaries: Looks up cached summaries and renders prompts.
        chunk_cost: Counts the calls of a further stage for chunks; None if there is none.
    """

    summaries: SummaryBuilder
    chunk_cost: ChunkCost | None = None
    _documents: int = 0
    _chunks: int = 0
    _levels: dict[int, Counter[str]] = field(default_factory=dict)
    _counted: set[bytes] = field(default_factory=set)

    @classmethod
    def of(cls, summaries: SummaryBuilder, stage: ChunkStage | None) -> Self:
        """Return a counter for summaries and a further stage for chunks."""
        return cls(summaries, None if stage is None else stage.cost())

    @property
    def paid_calls(self) -> int:
        """Number of calls of a language model needed by the documents added so far."""
        of_trees = sum(level["llm_calls"] for level in self._levels.values())
        of_chunks = 0 if self.chunk_cost is None else self.chunk_cost.total().llm_calls
        # Without another stage, an estimate says what summaries by a model would cost.
        return of_chunks + (of_trees if self.summaries.uses_llm or self.chunk_cost is None else 0)

    def add(self, document: SourceDocument, tree: Tree) -> None:
        """Add a document to the counts. Cached or already counted summaries need no call."""
        self._documents += 1
        if not tree.levels:
            return
        if self.chunk_cost is not None:
            self.chunk_cost.add(document, tree)
        self._chunks += len(tree.levels[0])
        by_id = {node.id: node for node in tree.nodes}
        # Each node has a text, if known, and a symbol that is equal for equal content.
        texts: dict[str, str | None] = {n.id: n.text for n in tree.levels[0]}
        symbols = {n.id: n.text.encode() for n in tree.levels[0]}
        for node in tree.nodes[len(tree.levels[0]) :]:
            children = [by_id[child] for child in node.child_ids]
            level = self._levels.setdefault(node.level, Counter())
            level["summaries"] += 1
            inputs = _inputs(node, children, texts)
            if inputs is None:
                symbol = hashlib.sha256(b"\0".join(symbols[c.id] for c in children)).digest()
            else:
                symbol = self.summaries.key(inputs, node.level)
            symbols[node.id] = symbol
            texts[node.id] = self.summaries.cached(symbol) if inputs is not None else None
            if texts[node.id] is None and symbol not in self._counted:
                self._counted.add(symbol)
                level["llm_calls"] += 1
                level["prompt_tokens"] += self._prompt_tokens(inputs, node)

    def _prompt_tokens(self, inputs: list[str] | None, node: Node) -> int:
        summaries = self.summaries
        if inputs is not None:
            return count_tokens(summaries.counter, summaries.prompt(inputs, node.level))
        empty_prompt = count_tokens(summaries.counter, summaries.prompt([""], node.level))
        return empty_prompt + len(node.child_ids) * summaries.max_tokens

    def estimate(self) -> CostEstimate:
        """Return the counts as an estimate."""
        levels = tuple(
            LevelEstimate(
                number,
                level["summaries"],
                level["llm_calls"],
                level["prompt_tokens"],
                level["llm_calls"] * self.summaries.max_tokens,
            )
            for number, level in sorted(self._levels.items())
        )
        of_chunks = None if self.chunk_cost is None else self.chunk_cost.total()
        # Next to paid calls, summaries without a language model cost nothing.
        counted = levels if of_chunks is None or self.summaries.uses_llm else ()
        paid = (*counted, *(() if of_chunks is None else (of_chunks,)))
        return CostEstimate(
            documents=self._documents,
            chunks=self._chunks,
            summaries=sum(level.summaries for level in levels),
            llm_calls=self.paid_calls,
            prompt_tokens=sum(level.prompt_tokens for level in paid),
            completion_tokens=sum(level.completion_tokens for level in paid),
            levels=levels,
            chunk_calls=of_chunks,
        )


def _inputs(node: Node, children: list[Node], texts: dict[str, str | None]) -> list[str] | None:
    """Return the texts to summarize, or None if one of them does not exist yet."""
    if node.level == 1:
        return without_overlap(children)
    known = [text for child in children if (text := texts[child.id]) is not None]
    return known if len(known) == len(children) else None


logger = logging.getLogger(__name__)


def plan_llm_calls(
    documents: Iterable[SourceDocument],
    planner: Callable[[SourceDocument], Tree],
    summaries: SummaryBuilder,
    limit: int | None,
    stage: ChunkStage | None = None,
) -> CostEstimate | None:
    """Estimate the LLM calls of a run, and compare them with its limit.

    Args:
        documents: The documents of the run.
        planner: Returns the tree of a document. Documents for which it fails are not counted; the
            run reports them.
        summaries: Creates the summaries.
        limit: Maximum number of calls, without retries; None means no limit.
        stage: A further stage for chunks.

    Returns:
        The estimate, or None if the run needs no LLM.

    Raises:
        LLMCallLimitError: If the run needs more calls.
    """
    if not summaries.uses_llm and stage is None:
        return None
    counter = CostCounter.of(summaries, stage)
    for document in documents:
        try:
            counter.add(document, planner(document))
        except (InvalidInputError, IndexingError):
            continue
    cost = counter.estimate()
    check_calls(cost, models_of(summaries, stage), limit, "summaries")
    return cost


def models_of(summaries: SummaryBuilder, stage: ChunkStage | None = None) -> str:
    """Return the names of the language models that a run calls."""
    own = [summaries.model] if summaries.uses_llm or stage is None else []
    return " and ".join(dict.fromkeys([*own, *([] if stage is None else [stage.model])]))


_FEWER = {
    "summaries": "index fewer documents at once. No model was called, and nothing written",
    "reports": "list fewer communities (top=). No model was called",
    "answers": "leave the chunks as they are. No model was called",
}
"""How to need fewer calls, for the error message."""


def check_calls(
    cost: CostEstimate,
    models: str,
    limit: int | None,
    what: Literal["summaries", "reports", "answers"],
) -> None:
    """Compare the LLM calls of a run with its limit.

    Raises:
        LLMCallLimitError: If the run needs more calls.
    """
    if limit is not None and cost.llm_calls > limit:
        text = CodedText(
            "llm_call_limit",
            "the {what} need {calls}, but max_llm_calls={limit}: raise the limit, or {fewer}",
            what=what,
            calls=_describe(cost, models),
            limit=limit,
            fewer=_FEWER[what],
        )
        raise LLMCallLimitError(text, cost.llm_calls, limit)


def announce_llm_calls(
    cost: CostEstimate | None,
    models: str,
    timer: StageTimer | None = None,
    *,
    what: str = "summaries",
) -> None:
    """Log one line about the calls of a run before the first one, and send it to progress bars.

    Only an LLM that the user passed is called, so the line has the level INFO, not WARNING.
    """
    if cost is None or not cost.llm_calls:
        return
    line = f"{what}: {_describe(cost, models)}"
    logger.info("%s", line)
    if timer is not None:
        timer.announce("summarize", line)


def _describe(cost: CostEstimate, models: str) -> str:
    return (
        f"{cost.llm_calls:,} LLM call(s) to {models}, with at most "
        f"{cost.prompt_tokens:,} prompt tokens and {cost.completion_tokens:,} completion tokens"
    )
