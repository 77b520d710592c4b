"""Views of the summary trees: the nodes at the top of a document, and those under a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource
from e2graphrag_integrations.retrieval.outline import child_rows, root_rows
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.snapshot.snapshot import Snapshot

MAX_NODES = 200
"""Maximum number of nodes in one list."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A chunk or a summary.

    Attributes:
        node_id: Its id.
        document_id: Id of its document.
        level: 0 for a chunk, 1 and higher for a summary.
        start, end: The range of the document that it covers, `[start, end)`.
        text: The chunk, or the summary.
        children: Number of the nodes under a summary.
    """

    node_id: str
    document_id: str
    level: int
    start: int
    end: int
    text: str
    children: int


@dataclass(frozen=True, slots=True)
class TreeNodes:
    """A part of the nodes at one place of a tree, in the order of the text.

    Attributes:
        nodes: The nodes.
        total: Number of all nodes at this place.
    """

    nodes: tuple[TreeNode, ...]
    total: int


def document_tree(
    reader: IndexReader, document_id: str, offset: int = 0, limit: int = 50
) -> TreeNodes:
    """Return the highest nodes of a document's tree.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
        UnknownDocumentError: If the document is not in the index.
    """
    return _part(reader, lambda snapshot: root_rows(snapshot, document_id), offset, limit)


def node_children(reader: IndexReader, node_id: str, offset: int = 0, limit: int = 50) -> TreeNodes:
    """Return the nodes under a summary; none for a chunk.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
        UnknownNodeError: If the node is not in the index.
    """
    return _part(reader, lambda snapshot: child_rows(snapshot, node_id), offset, limit)


def _part(
    reader: IndexReader,
    rows_in: Callable[[Snapshot], Sequence[int]],
    offset: int,
    limit: int,
) -> TreeNodes:
    first = check_int("offset", offset, 0)
    stop = first + check_int("limit", limit, 1, MAX_NODES)

    def nodes(snapshot: Snapshot, source: NodeSource) -> TreeNodes:
        rows = rows_in(snapshot)
        part = rows[first:stop]
        read = NodeReader(snapshot, source).read(part)
        counts = snapshot.nodes.children[1][part].tolist()
        found = (
            TreeNode(
                node.id, node.document_id, node.level, node.start, node.end, node.text, children
            )
            for node, children in zip(read, counts, strict=True)
        )
        return TreeNodes(tuple(found), len(rows))

    return reader.read_snapshot(nodes)
