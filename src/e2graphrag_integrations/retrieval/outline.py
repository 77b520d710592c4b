"""The contents of an index: its documents, and the nodes of their trees from the top."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from e2graphrag_integrations._utils.validation import check_text
from e2graphrag_integrations.errors import UnknownDocumentError, UnknownNodeError
from e2graphrag_integrations.retrieval.results.selection import children
from e2graphrag_integrations.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document and its size.

    Attributes:
        id: Id of the document.
        title: Its title.
        chunks: Number of chunks.
        end: End of the last chunk in the text.
    """

    id: str
    title: str | None
    chunks: int
    end: int


def list_documents(snapshot: Snapshot, start: int, stop: int) -> tuple[list[DocumentInfo], int]:
    """Return a part of the documents, ordered by id, and the number of all documents."""
    chunks = snapshot.chunk_nodes
    rows = range(start, min(stop, len(snapshot.documents)))
    bounds = np.searchsorted(snapshot.chunk_documents, range(start, stop + 1)).tolist()
    infos = []
    for row, (first, last) in zip(rows, pairwise(bounds), strict=False):
        end = int(snapshot.nodes.end[chunks[last - 1]]) if last > first else 0
        title = snapshot.titles[row]
        infos.append(DocumentInfo(snapshot.documents[row], title, last - first, end))
    return infos, len(snapshot.documents)


def document_row(snapshot: Snapshot, document_id: str) -> int:
    """Return the row of a document.

    Raises:
        UnknownDocumentError: If the document is not in the snapshot.
    """
    row = find_document(snapshot, check_text("document id", document_id))
    if row is None:
        raise UnknownDocumentError(f"no document {document_id!r} in the index", document_id)
    return row


def find_document(snapshot: Snapshot, document_id: str) -> int | None:
    """Return the row of a document; None if it is not in the snapshot."""
    row = bisect_left(snapshot.documents, document_id)  # they are sorted
    is_known = row < len(snapshot.documents) and snapshot.documents[row] == document_id
    return row if is_known else None


def root_rows(snapshot: Snapshot, document_id: str) -> list[int]:
    """Return the rows of the highest nodes of a document's tree, in order.

    Raises:
        UnknownDocumentError: If the document is not in the snapshot.
    """
    row = document_row(snapshot, document_id)
    roots = snapshot.nodes.roots  # in the order of documents
    first, last = np.searchsorted(snapshot.nodes.document[roots], [row, row + 1])
    return [int(root) for root in roots[first:last]]


def child_rows(snapshot: Snapshot, node_id: str) -> list[int]:
    """Return the rows of the nodes under a summary, in order; none for a chunk.

    Raises:
        UnknownNodeError: If the node is not in the snapshot.
    """
    row = snapshot.nodes.row_of.get(check_text("node id", node_id))
    if row is None:
        raise UnknownNodeError(f"no node {node_id!r} in the index")
    return list(children(row, snapshot)) if snapshot.nodes.level[row] else []
