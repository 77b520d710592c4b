"""What indexing would cost, counted from the tree's shape before any call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from e2graphrag_integrations.indexing.planning import Planner, plan_document
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.reports import CostEstimate, LevelEstimate
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.text.tokens import count_tokens
from e2graphrag_integrations.tree import Tree, without_overlap
from e2graphrag_integrations.types import Node, SourceDocument


def estimate_cost(
    documents: Iterable[SourceDocument],
    settings: Settings,
    counter: TokenCounter,
    maker: SummaryBuilder,
    planner: Planner = plan_document,
) -> CostEstimate:
    """Return the exact number of summaries to make and bounds of their tokens.

    A summary already in the cache, or equal to one counted before, costs nothing.
    """
    run = CostCounter(settings, counter, maker)
    for document in documents:
        run.add(planner(document, settings, counter))
    return run.finish()


@dataclass
class _Level:
    summaries: int = 0
    calls: int = 0
    prompt_tokens: int = 0


@dataclass
class CostCounter:
    """Counts the summaries to be made of trees, given one after the other."""

    settings: Settings
    counter: TokenCounter
    maker: SummaryBuilder
    documents: int = 0
    chunks: int = 0
    levels: dict[int, _Level] = field(default_factory=dict)
    counted: set[bytes] = field(default_factory=set)

    @property
    def calls(self) -> int:
        """Summaries to be made of the trees so far."""
        return sum(level.calls for level in self.levels.values())

    def add(self, tree: Tree) -> None:
        """Count a tree: what is in the cache now, or counted before, costs nothing."""
        self.documents += 1
        if not tree.levels:
            return
        self.chunks += len(tree.levels[0])
        by_id = {node.id: node for node in tree.nodes}
        # Each node's text where it is known, and a name that is equal for equal content.
        known: dict[str, str | None] = {n.id: n.text for n in tree.levels[0]}
        symbols = {n.id: n.text.encode() for n in tree.levels[0]}
        for nodes in tree.levels[1:]:
            for node in nodes:
                self._summary(node, [by_id[c] for c in node.child_ids], known, symbols)

    def _summary(
        self,
        node: Node,
        children: list[Node],
        known: dict[str, str | None],
        symbols: dict[str, bytes],
    ) -> None:
        level = self.levels.setdefault(node.level, _Level())
        level.summaries += 1
        texts = self._texts(node, children, known)
        if texts is None:
            key = hashlib.sha256(b"\0".join(symbols[c.id] for c in children)).digest()
        else:
            key = self.maker.key(texts, node.level)
        symbols[node.id] = key
        known[node.id] = self._cached(key) if texts is not None else None
        if known[node.id] is None and key not in self.counted:
            self.counted.add(key)
            level.calls += 1
            level.prompt_tokens += self._prompt_tokens(texts, node)

    def _texts(
        self, node: Node, children: list[Node], known: dict[str, str | None]
    ) -> list[str] | None:
        if node.level == 1:
            return without_overlap(children)
        texts = [text for c in children if (text := known[c.id]) is not None]
        return texts if len(texts) == len(children) else None

    def _cached(self, key: bytes) -> str | None:
        found = self.maker.store.cached([key])
        return found[key].decode() if key in found else None

    def _prompt_tokens(self, texts: list[str] | None, node: Node) -> int:
        if texts is not None:
            return count_tokens(self.counter, self.maker.prompt(texts, node.level))
        frame = count_tokens(self.counter, self.maker.prompt([""], node.level))
        return frame + len(node.child_ids) * self.settings.summary_tokens

    def finish(self) -> CostEstimate:
        """Return the counts."""
        levels = tuple(
            LevelEstimate(
                level=number,
                summaries=level.summaries,
                llm_calls=level.calls,
                prompt_tokens=level.prompt_tokens,
                completion_tokens=level.calls * self.settings.summary_tokens,
            )
            for number, level in sorted(self.levels.items())
        )
        return CostEstimate(
            documents=self.documents,
            chunks=self.chunks,
            summaries=sum(level.summaries for level in levels),
            llm_calls=sum(level.llm_calls for level in levels),
            prompt_tokens=sum(level.prompt_tokens for level in levels),
            completion_tokens=sum(level.completion_tokens for level in levels),
            levels=levels,
        )
