"""The header of a table, for a passage that begins further down in the table.

Without it, nobody knows what the numbers of a row mean. The header is a span of its own before the
passage, so texts and spans remain exact, and a gap shows that they are not adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.result import GAP, RetrievedNode
from e2graphrag_integrations.text.rows import RowBlock, may_continue, row_blocks
from e2graphrag_integrations.types import Span

_REACH = 8
"""Number of earlier chunks in which the header is looked up, besides the first of the document."""


class TableHeaders:
    """Finds the headers of the tables in which passages begin, for one retrieval.

    Args:
        reader: The texts and the snapshot.
    """

    def __init__(self, reader: NodeReader) -> None:
        self._reader = reader
        self._found: dict[tuple[str, int], RetrievedNode | None] = {}

    def of(self, passage: RetrievedNode) -> RetrievedNode | None:
        """Return a node with the header of the table in which a passage begins, or None.

        None if the passage is a summary, begins outside a table or with the header, or if the table
        has none.
        """
        if passage.level or passage.node_id not in self._reader.texts:
            return None
        at = passage.spans[0].start - passage.start
        key = (passage.node_id, at)
        if key not in self._found:
            self._found[key] = self._find(passage, at)
        return self._found[key]

    def added_to(self, node: RetrievedNode) -> RetrievedNode:
        """Return a node with the header of the table in which it begins before its text."""
        header = self.of(node)
        if header is None:
            return node
        return replace(node, text=header.text + GAP + node.text, spans=(*header.spans, *node.spans))

    def _find(self, passage: RetrievedNode, at: int) -> RetrievedNode | None:
        text = self._reader.texts[passage.node_id]
        blocks = row_blocks(text)
        inside = [one for one in blocks if one.start <= at < one.end]
        if inside and (inside[0].header is not None or inside[0].start):
            header = inside[0].header
            if header is None or at < header.end:
                return None
            return _node(passage, text, passage.start, header)
        begins = blocks[0].end if blocks and not blocks[0].start else text.find("\n") % len(text)
        if not inside and at > begins:
            return None
        for start, earlier, block in self._earlier(passage):
            if not may_continue(text, block):
                return None
            if block.header is not None:
                return _node(passage, earlier, start, block.header)
            if block.start:
                return None
        return None

    def _earlier(self, passage: RetrievedNode) -> Iterator[tuple[int, str, RowBlock]]:
        """Yield the table at the start of the document, if it may reach the passage, and then those
        at the ends of the chunks before the passage, with the texts of the chunks and their places.
        """
        row = self._reader.candidates[passage.node_id].row
        first = row - passage.position
        [node] = self._reader.read([first])
        blocks = row_blocks(node.text)
        text = self._reader.texts[passage.node_id]
        if blocks and not blocks[0].start and may_continue(text, blocks[0]):
            yield node.start, node.text, blocks[0]
        for place in range(row - 1, max(first, row - 1 - _REACH) - 1, -1):
            [node] = self._reader.read([place])
            blocks = row_blocks(node.text)
            if not blocks or node.text[blocks[-1].end :].strip():
                return
            yield node.start, node.text, blocks[-1]


def _node(passage: RetrievedNode, text: str, offset: int, header: Span) -> RetrievedNode:
    span = Span(offset + header.start, offset + header.end)
    return replace(passage, text=text[header.start : header.end], spans=(span,))
