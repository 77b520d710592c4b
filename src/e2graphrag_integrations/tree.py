"""The summary tree's shape: a function of the chunks alone, known before any summary is made.

Which nodes share a summary is for a `Grouping` to say: every so many (`FixedGroups`, as in the
paper), or what their texts say (`ContentGroups`), so that an edit leaves the groups around it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.text.content_defined import content_boundaries, text_hash
from e2graphrag_integrations.types import Node, Span

_BEGINNING = 64
"""Characters of a chunk that tell where groups begin: an edit behind them moves no group."""

_NAMESPACE = uuid.UUID("8d4f4f0e-6c1d-5b0a-9d52-0d1f6f0c8a3e")
"""Fixed for ever: node ids derive from it."""


def level_sizes(chunks: int, group_size: int = 5) -> list[int]:
    """Return how many nodes each level has with fixed groups, chunks first.

    Level h+1 has one summary for every `group_size` nodes of level h; levels are added while the
    last has more than `group_size` nodes, and once for any document of more than one chunk.

    >>> level_sizes(151)
    [151, 31, 7, 2]
    >>> level_sizes(3)
    [3, 1]
    """
    _check_size(group_size)
    if chunks <= 0:
        return []
    sizes = [chunks]
    while sizes[-1] > group_size or (len(sizes) == 1 and chunks > 1):
        sizes.append(-(-sizes[-1] // group_size))
    return sizes


class Grouping(Protocol):
    """Decides which nodes of a level share a summary; a value, without state."""

    @property
    def size(self) -> int:
        """Nodes under a summary; a level of at most so many gets none above it."""
        ...

    def starts(self, leaves: Sequence[Node]) -> Sequence[int]:
        """Return at which nodes of a level groups begin, 0 first.

        Args:
            leaves: The first chunk under each node of the level.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedGroups:
    """Every `size` nodes (E2GraphRAG, section 3.1): an insertion moves all groups after it.

    Raises:
        InvalidInputError: For a size below two.
    """

    size: int = 5

    def __post_init__(self) -> None:
        _check_size(self.size)

    def starts(self, leaves: Sequence[Node]) -> Sequence[int]:
        """Return every `size`-th number."""
        return range(0, len(leaves), self.size)


@dataclass(frozen=True, slots=True)
class ContentGroups:
    """About `size` nodes, from (size + 1) // 2 to twice `size`, cut by hashes of leaf texts.

    A group begins with a node whose first chunk's beginning has the smallest hash around: an edit
    within a group leaves all groups, one at its beginning moves no more than those beside it.

    Raises:
        InvalidInputError: For a size below two.
    """

    size: int = 5

    def __post_init__(self) -> None:
        _check_size(self.size)

    def starts(self, leaves: Sequence[Node]) -> Sequence[int]:
        """Return the numbers of nodes that begin a group."""
        hashes = [text_hash(leaf.text[:_BEGINNING]) for leaf in leaves]
        least = max(2, (self.size + 1) // 2)
        places = range(len(leaves))
        cuts: list[int] = content_boundaries(
            hashes, places, len(leaves), least, 2 * self.size
        ).tolist()
        return cuts


def _check_size(size: int) -> None:
    if size < 2:  # noqa: PLR2004 - a group of one would never end
        raise InvalidInputError(f"group_size={size}: a group needs at least two nodes")


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes of one document, level by level; `levels[0]` are the chunks."""

    document_id: str
    levels: tuple[tuple[Node, ...], ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, chunks first."""
        return tuple(node for level in self.levels for node in level)


def plan_tree(
    document_id: str, text: str, spans: Sequence[Span], grouping: Grouping = FixedGroups()
) -> Tree:
    """Build the tree over the chunks at `spans`, its summaries still without text.

    Ids derive from the document's id and the leaf texts only (design: an edit renames only what it
    touches): chunk = uuid5(document, "chunk", sha256(text), n), n counting equal chunks before it;
    summary = uuid5(document, level, child ids).
    """
    return tree_from_chunks(document_id, _chunks(document_id, text, spans), grouping)


def tree_from_chunks(
    document_id: str, chunks: Sequence[Node], grouping: Grouping = FixedGroups()
) -> Tree:
    """Build the tree over given chunks, whatever their ids, its summaries still without text.

    Levels are added while the last has more than `grouping.size` nodes, and once for any document
    of more than one chunk.
    """
    if not chunks:
        return Tree(document_id, ())
    levels: list[tuple[Node, ...]] = [tuple(chunks)]
    leaves = list(chunks)
    while len(leaves) > grouping.size or (len(levels) == 1 and len(leaves) > 1):
        starts = grouping.starts(leaves)
        children, parents = _parents(document_id, len(levels), levels[-1], starts)
        levels[-1] = children
        levels.append(parents)
        leaves = [leaves[start] for start in starts]
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
    document_id: str, level: int, below: tuple[Node, ...], starts: Sequence[int]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    children: list[Node] = []
    parents: list[Node] = []
    for first, end in pairwise([*starts, len(below)]):
        group = below[first:end]
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


def with_child_ids(nodes: Sequence[Node]) -> list[Node]:
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
