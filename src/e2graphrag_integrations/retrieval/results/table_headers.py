"""The header of a table, for a passage that begins further down in the table.

Without it, nobody knows what the numbers of a row mean. The header is a span of its own before the
passage, so texts and spans remain exact, and a gap shows that they are not adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.result import GAP, RetrievedNode
from e2graphrag_integrations.text.lines import RowBlock, may_continue, row_blocks
from e2graphrag_integrations.types import Span

_REACH = 64
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
        inside = next((one for one in blocks if one.start <= at < one.end), None)
        if inside is not None and (inside.header is not None or inside.start):
            header = inside.header
            has_it = header is None or at < header.end
            return None if has_it or header is None else _node(passage, text, passage.start, header)
        # Too few rows to be recognized may continue the table of an earlier chunk.
        is_first_line = "\n" not in text[:at].strip()
        return self._in_earlier_chunks(passage) if inside is not None or is_first_line else None

    def _in_earlier_chunks(self, passage: RetrievedNode) -> RetrievedNode | None:
        text = self._reader.texts[passage.node_id]
        for start, earlier, block in self._earlier(passage):
            if not may_continue(text, block):
                break
            if block.header is not None:
                return _node(passage, earlier, start, block.header)
            if block.start:
                break
        return None

    def _earlier(self, passage: RetrievedNode) -> Iterator[tuple[int, str, RowBlock]]:
        """Yield the tables that may reach the passage, with the places and texts of their chunks.

        These are the one in the first chunk, because most tables are a document, and those at the
        ends of the chunks before the passage.
        """
        row = self._reader.candidates[passage.node_id].row
        first = row - passage.position
        [node] = self._reader.read([first])
        blocks = row_blocks(node.text)
        text = self._reader.texts[passage.node_id]
        if blocks and not node.text[blocks[-1].end :].strip() and may_continue(text, blocks[-1]):
            yield node.start, node.text, blocks[-1]
        for place in range(row - 1, max(first, row - 1 - _REACH) - 1, -1):
            [node] = self._reader.read([place])
            blocks = row_blocks(node.text)
            if not blocks or node.text[blocks[-1].end :].strip():
                return
            yield node.start, node.text, blocks[-1]


def _node(passage: RetrievedNode, text: str, offset: int, header: Span) -> RetrievedNode:
    span = Span(offset + header.start, offset + header.end)
    return replace(passage, text=text[header.start : header.end], spans=(span,))
