"""Cost estimates: which summaries of planned trees still need an LLM call."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder
from e2graphrag_integrations.reports import CostEstimate, LevelEstimate
from e2graphrag_integrations.text.tokens import count_tokens
from e2graphrag_integrations.tree import Tree, without_overlap
from e2graphrag_integrations.types import Node


@dataclass
class CostCounter:
    """Counts the summaries that planned trees still need, and upper bounds on their tokens.

    Cached and repeated summaries need no call.

    Attributes:
        summaries: Looks up cached summaries and renders prompts.
    """

    summaries: SummaryBuilder
    _documents: int = 0
    _chunks: int = 0
    _levels: dict[int, Counter[str]] = field(default_factory=dict)
    _counted: set[bytes] = field(default_factory=set)

    @property
    def calls(self) -> int:
        """Number of LLM calls needed by the trees added so far."""
        return sum(level["llm_calls"] for level in self._levels.values())

    def add(self, tree: Tree) -> None:
        """Add a tree to the counts. Cached or already counted summaries need no call."""
        self._documents += 1
        if not tree.levels:
            return
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
        return CostEstimate(
            documents=self._documents,
            chunks=self._chunks,
            summaries=sum(level.summaries for level in levels),
            llm_calls=self.calls,
            prompt_tokens=sum(level.prompt_tokens for level in levels),
            completion_tokens=sum(level.completion_tokens for level in levels),
            levels=levels,
        )


def _inputs(node: Node, children: list[Node], texts: dict[str, str | None]) -> list[str] | None:
    """Return the texts to summarize, or None if one of them does not exist yet."""
    if node.level == 1:
        return without_overlap(children)
    known = [text for child in children if (text := texts[child.id]) is not None]
    return known if len(known) == len(children) else None
