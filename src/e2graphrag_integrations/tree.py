"""The shape of the summary tree, which depends only on the chunks.

A `Grouping` decides which nodes share a summary. `FixedGroups` groups a fixed number of consecutive
nodes, as in the paper. `ContentGroups` derives group boundaries from the texts, so that an edit
does not move the boundaries of later groups.
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
from e2graphrag_integrations.text.chunking import content_boundaries, text_hash
from e2graphrag_integrations.types import Node, Span

_HASHED_PREFIX = 64
"""Number of leading characters of a chunk that are hashed to place group boundaries."""

_NAMESPACE = uuid.UUID("8d4f4f0e-6c1d-5b0a-9d52-0d1f6f0c8a3e")
"""Namespace of all node ids. Changing it would change every id."""


class Grouping(Protocol):
    """Decides which nodes on a level share a summary. Implementations are stateless."""

    @property
    def size(self) -> int:
        """Target number of nodes per summary. A level of at most this size is the highest."""

    def starts(self, leaves: Sequence[Node]) -> Sequence[int]:
        """Return the positions at which groups begin, ascending from 0.

        Args:
            leaves: The first chunk below each node on the level.
        """


@dataclass(frozen=True, slots=True)
class FixedGroups:
    """Groups of `size` nodes (E2GraphRAG, section 3.1). An insertion shifts all later groups.

    Raises:
        InvalidInputError: If `size` is less than two.
    """

    size: int = 5

    def __post_init__(self) -> None:
        _check_size(self.size)

    def starts(self, leaves: Sequence[Node]) -> Sequence[int]:
        """Return every `size`-th position."""
        return range(0, len(leaves), self.size)


@dataclass(frozen=True, slots=True)
class ContentGroups:
    """Groups of about `size` nodes, with boundaries at local minima of text hashes.

    A group has between (size + 1) // 2 and 2 * size nodes. It begins at a node whose first chunk
    has the smallest hash nearby. An edit inside a group moves no boundary; an edit in the first
    chunk of a group moves only adjacent boundaries.

    Raises:
        InvalidInputError: If `size` is less than two.
    """

    size: int = 5

    def __post_init__(self) -> None:
        _check_size(self.size)

    def starts(self, leaves: Sequence[Node]) -> Sequence[int]:
        """Return the positions of the nodes that begin a group."""
        hashes = [text_hash(leaf.text[:_HASHED_PREFIX]) for leaf in leaves]
        smallest = max(2, (self.size + 1) // 2)
        positions = range(len(leaves))
        starts: list[int] = content_boundaries(
            hashes, positions, len(leaves), smallest, 2 * self.size
        ).tolist()
        return starts


def _check_size(size: int) -> None:
    if size < 2:  # noqa: PLR2004 - a tree of groups of one would never end
        raise InvalidInputError(f"group_size={size}: a group needs at least two nodes")


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes of one document by level. `levels[0]` contains the chunks."""

    document_id: str
    levels: tuple[tuple[Node, ...], ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in level order, starting with the chunks."""
        return tuple(node for level in self.levels for node in level)


def plan_tree(
    document_id: str, text: str, spans: Sequence[Span], grouping: Grouping = FixedGroups()
) -> Tree:
    """Build a tree over the chunks at `spans`. The summaries have no text yet.

    Node ids depend only on the document id and the chunk texts, so an edit changes only the ids of
    the nodes that it affects. The id of a chunk is uuid5(document id, "chunk", sha256(text), number
    of earlier chunks with the same text); that of a summary is uuid5(document id, level, child
    ids).
    """
    return tree_from_chunks(document_id, _chunks(document_id, text, spans), grouping)


def tree_from_chunks(
    document_id: str, chunks: Sequence[Node], grouping: Grouping = FixedGroups()
) -> Tree:
    """Build a tree over existing chunks, which keep their ids. The summaries have no text yet.

    Levels are added while the highest has more than `grouping.size` nodes. A document of two or
    more chunks has at least one summary.
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
    occurrences: Counter[str] = Counter()
    chunks = []
    for position, (start, end) in enumerate(spans):
        piece = text[start:end]
        digest = hashlib.sha256(piece.encode()).hexdigest()
        node_id = _node_id(document_id, "chunk", digest, str(occurrences[digest]))
        occurrences[digest] += 1
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
    # The length prefixes distinguish ("a", "bc") from ("ab", "c").
    return str(uuid.uuid5(_NAMESPACE, "".join(f"{len(part)}:{part}" for part in parts)))


def without_overlap(children: Sequence[Node]) -> list[str]:
    """Return the texts of consecutive nodes, without the part that overlaps the previous node.

    Only chunks overlap; the texts of summaries are returned unchanged.
    """
    texts = [children[0].text]
    for before, node in pairwise(children):
        shared = max(0, before.end - node.start) if node.level == 0 else 0
        texts.append(node.text[shared:].lstrip() if shared else node.text)
    return texts
