"""The summary tree's shape: a function of the chunks alone, known before any summary is made."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.types import Node, Span

_NAMESPACE = uuid.UUID("8d4f4f0e-6c1d-5b0a-9d52-0d1f6f0c8a3e")
"""Fixed for ever: node ids derive from it."""


def level_sizes(chunks: int, group_size: int = 5) -> list[int]:
    """Return how many nodes each level has, chunks first.

    Level h+1 has one summary for every `group_size` nodes of level h; levels are added while the
    last has more than `group_size` nodes, and once for any document of more than one chunk.

    >>> level_sizes(151)
    [151, 31, 7, 2]
    >>> level_sizes(3)
    [3, 1]
    """
    if group_size < 2:  # noqa: PLR2004 - a group of one would never end
        raise InvalidInputError(f"group_size={group_size}: a group needs at least two nodes")
    if chunks <= 0:
        return []
    sizes = [chunks]
    while sizes[-1] > group_size or (len(sizes) == 1 and chunks > 1):
        sizes.append(-(-sizes[-1] // group_size))
    return sizes


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes of one document, level by level; `levels[0]` are the chunks."""

    document_id: str
    levels: tuple[tuple[Node, ...], ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, chunks first."""
        return tuple(node for level in self.levels for node in level)


def plan_tree(document_id: str, text: str, spans: Sequence[Span], group_size: int = 5) -> Tree:
    """Build the tree over the chunks at `spans`, its summaries still without text.

    Ids derive from the document's id and the leaf texts only (design: an edit renames only what it
    touches): chunk = uuid5(document, "chunk", sha256(text), n), n counting equal chunks before it;
    summary = uuid5(document, level, child ids).
    """
    return tree_over(document_id, _chunks(document_id, text, spans), group_size)


def tree_over(document_id: str, chunks: Sequence[Node], group_size: int = 5) -> Tree:
    """Build the tree over given chunks, whatever their ids, its summaries still without text."""
    levels: list[tuple[Node, ...]] = [tuple(chunks)] if chunks else []
    for level in range(1, len(level_sizes(len(chunks), group_size))):
        children, parents = _parents(document_id, level, levels[-1], group_size)
        levels[-1] = children
        levels.append(parents)
    return Tree(document_id, tuple(levels))


def _chunks(document_id: str, text: str, spans: Sequence[Span]) -> tuple[Node, ...]:
    seen: Counter[str] = Counter()
    chunks = []
    for position, (start, end) in enumerate(spans):
        piece = text[start:end]
        digest = hashlib.sha256(piece.encode()).hexdigest()
        node_id = _node_id(document_id, "chunk", digest, str(seen[digest]))
        seen[digest] += 1
        chunks.append(Node(node_id, document_id, 0, position, start, end, piece))
    return tuple(chunks)


def _parents(
    document_id: str, level: int, below: tuple[Node, ...], group_size: int
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    children: list[Node] = []
    parents: list[Node] = []
    for first in range(0, len(below), group_size):
        group = below[first : first + group_size]
        ids = tuple(node.id for node in group)
        parent_id = _node_id(document_id, str(level), *ids)
        parents.append(
            Node(
                parent_id,
                document_id,
                level,
                len(parents),
                group[0].start,
                group[-1].end,
                "",
                child_ids=ids,
            )
        )
        children.extend(replace(node, parent_id=parent_id) for node in group)
    return tuple(children), tuple(parents)


def _node_id(*parts: str) -> str:
    # The length prefix keeps ("a", "bc") apart from ("ab", "c").
    return str(uuid.uuid5(_NAMESPACE, "".join(f"{len(part)}:{part}" for part in parts)))


def children_of(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes with the `child_ids` that their parents' ids imply."""
    children: dict[str, list[str]] = {}
    for node in nodes:
        if node.parent_id is not None:
            children.setdefault(node.parent_id, []).append(node.id)
    return [replace(node, child_ids=tuple(children.get(node.id, ()))) for node in nodes]


def without_overlap(children: Sequence[Node]) -> list[str]:
    """Return the texts of consecutive nodes, each without what the one before it already said.

    Only chunks overlap; summaries come back as they are.
    """
    texts = [children[0].text]
    for before, node in pairwise(children):
        shared = max(0, before.end - node.start) if node.level == 0 else 0
        texts.append(node.text[shared:].lstrip() if shared else node.text)
    return texts
