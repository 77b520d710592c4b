"""The best nodes, or the best windows of nodes, that fit a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.result import GAP, RetrievedNode, format_groups, header
from e2graphrag_integrations.text.chunking import truncate
from e2graphrag_integrations.text.lines import (
    RowBlock,
    last_row_block,
    may_begin_in_rows,
    may_continue,
    row_block_at,
)
from e2graphrag_integrations.text.sentences import ends_sentence
from e2graphrag_integrations.text.tokens import count_tokens, token_spans
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

    def added_to(self, nodes: Sequence[RetrievedNode]) -> list[RetrievedNode]:
        """Return nodes with the header of the table in which each begins before its text."""
        # One query of the store is faster than one for each node.
        self._reader.read(sorted(set(chain.from_iterable(map(self._looked_up, nodes)))))
        return [self._with_header(node) for node in nodes]

    def _looked_up(self, node: RetrievedNode) -> Iterator[int]:
        """Yield the rows of the chunks that `of` reads first, if it reads any."""
        if not node.level and may_begin_in_rows(self._reader.texts.get(node.node_id, "")):
            row, first = self._rows(node)
            yield from {first, max(first, row - 1)}

    def _rows(self, passage: RetrievedNode) -> tuple[int, int]:
        """Return the rows of the chunk of a passage and of the first chunk of its document."""
        row = self._reader.candidates[passage.node_id].row
        documents = self._reader.snapshot.nodes.document  # ascending
        return row, int(np.searchsorted(documents, documents[row]))

    def _with_header(self, node: RetrievedNode) -> RetrievedNode:
        header = self.of(node)
        if header is None:
            return node
        return replace(node, text=header.text + GAP + node.text, spans=(*header.spans, *node.spans))

    def _find(self, passage: RetrievedNode, at: int) -> RetrievedNode | None:
        text = self._reader.texts[passage.node_id]
        inside = row_block_at(text, at)
        if inside is not None and (inside.header is not None or inside.start):
            header = inside.header
            has_it = header is None or at < header.end
            return None if has_it or header is None else _node(passage, text, passage.start, header)
        # Too few rows to be recognized may continue the table of an earlier chunk.
        is_first_line = "\n" not in text[:at].strip()
        return self._in_earlier_chunks(passage) if inside is not None or is_first_line else None

    def _in_earlier_chunks(self, passage: RetrievedNode) -> RetrievedNode | None:
        text = self._reader.texts[passage.node_id]
        if not may_begin_in_rows(text):
            return None
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
        row, first = self._rows(passage)
        [node] = self._reader.read([first])
        block = last_row_block(node.text)
        if block is not None and may_continue(self._reader.texts[passage.node_id], block):
            yield node.start, node.text, block
        for place in range(row - 1, max(first, row - 1 - _REACH) - 1, -1):
            [node] = self._reader.read([place])
            block = last_row_block(node.text)
            if block is None:
                return
            yield node.start, node.text, block


def _node(passage: RetrievedNode, text: str, offset: int, header: Span) -> RetrievedNode:
    span = Span(offset + header.start, offset + header.end)
    return replace(passage, text=text[header.start : header.end], spans=(span,))


_SEPARATOR_TOKENS = 2
"""Tokens reserved for the line breaks between passages, which some tokenizers count."""


def pack_nodes(
    nodes: Iterable[RetrievedNode], budget: int, counter: TokenCounter
) -> list[RetrievedNode]:
    """Return the best nodes whose context fits the budget.

    Headers count toward the budget. The first node that does not fit is cut after its last sentence
    that fits; if the result would otherwise be empty, it is cut between tokens. All nodes after it
    are dropped.

    Args:
        nodes: Nodes, best first.
        budget: Maximum number of tokens.
        counter: Counts the tokens.
    """
    return _pack(nodes, budget, counter, lambda node, _: [node], list)[0]


def pack_windows(
    windows: Iterable[RetrievedNode],
    budget: int,
    counter: TokenCounter,
    texts: Mapping[str, str],
    table_header: Callable[[RetrievedNode], RetrievedNode | None] = lambda _: None,
    *,
    best_start: Callable[[str, int], int] = lambda *_: 0,
) -> tuple[list[RetrievedNode], int]:
    """Return the nodes whose best windows fit the budget, and the number of windows that fit.

    Text that an earlier window covers, such as the overlap of two chunks, is not repeated. Windows
    of a chunk that are separated only by white space are joined. A node is ranked by its best
    window. The first window that does not fit is cut as in `pack_nodes`; if no other fits, its best
    part is kept.

    Args:
        windows: Nodes reduced to one window each, best first; a node may appear several times.
        budget: Maximum number of tokens, including headers.
        counter: Counts the tokens.
        texts: Complete texts by node id. Read after `windows` is consumed, so it may be filled
            by an iterator.
        table_header: Returns the header of the table in which a window begins, as a node with one
            span; a node contains it once, and its tokens count.
        best_start: Returns the offset of the best part of a text of a number of tokens.
    """

    def with_header(
        window: RetrievedNode, packed: Sequence[RetrievedNode]
    ) -> Sequence[RetrievedNode]:
        pieces = _uncovered(window, packed)
        header = table_header(pieces[0]) if pieces else None
        own = (one.spans for one in packed if one.node_id == window.node_id)
        if header is None or header.spans in own:
            return pieces
        return [header, *pieces]

    def join(pieces: Sequence[RetrievedNode]) -> list[RetrievedNode]:
        return _join_pieces(pieces, texts)

    def best_part(window: RetrievedNode, tokens: int) -> RetrievedNode:
        return _from(window, best_start(window.text, tokens), texts[window.node_id])

    return _pack(windows, budget, counter, with_header, join, best_part=best_part)


def _pack(
    nodes: Iterable[RetrievedNode],
    budget: int,
    counter: TokenCounter,
    split: Callable[[RetrievedNode, Sequence[RetrievedNode]], Sequence[RetrievedNode]],
    join: Callable[[Sequence[RetrievedNode]], list[RetrievedNode]],
    *,
    best_part: Callable[[RetrievedNode, int], RetrievedNode] = lambda node, _: node,
) -> tuple[list[RetrievedNode], int]:
    """Pack pieces of nodes until one does not fit; return the nodes and how many fit completely.

    Args:
        nodes: Nodes, best first.
        budget: Maximum number of tokens.
        counter: Counts the tokens.
        split: Returns the pieces of a node that the packed pieces do not cover.
        join: Combines the packed pieces into nodes.
        best_part: Returns the text to cut to a number of tokens in the place of the only piece.
    """
    pieces: list[RetrievedNode] = []
    headed: set[tuple[str, ...]] = set()
    remaining, n_packed = budget, 0
    for node in nodes:
        fits = True
        for piece in split(node, pieces):
            overhead = _SEPARATOR_TOKENS
            if piece.entities not in headed:
                overhead += count_tokens(counter, header(piece.entities))
            cost = overhead + count_tokens(counter, piece.text)
            fits = cost <= remaining
            is_header = not n_packed and piece.spans != node.spans
            if is_header and not fits:
                continue  # a row says something without it
            if not fits:
                tokens = remaining - overhead
                # Before it, there may be only the header of its table.
                is_alone = not n_packed and not piece.level
                part = best_part(piece, tokens) if is_alone else piece
                cut = _shorten(part, tokens, counter, last_resort=not n_packed)
                pieces.extend([cut] if cut else [])
                break
            headed.add(piece.entities)
            pieces.append(piece)
            remaining -= cost
        if not fits:
            break
        n_packed += 1
    packed = join(pieces)
    # A tokenizer may count more tokens in a text than in its parts.
    while packed and count_tokens(counter, "\n\n".join(format_groups(packed))) > budget:
        # Count spans, not tokens: if several tokens encode a character, only one has a span.
        size = len(token_spans(counter, pieces[-1].text))
        cut = _shorten(pieces[-1], size - 1, counter, last_resort=len(pieces) == 1)
        pieces[-1:] = [cut] if cut else []
        packed = join(pieces)
    return packed, n_packed


def _uncovered(window: RetrievedNode, packed: Sequence[RetrievedNode]) -> Sequence[RetrievedNode]:
    """Return the pieces of a chunk's window outside all packed windows; keep summaries whole."""
    if window.level:
        return [] if any(one.node_id == window.node_id for one in packed) else [window]
    [complete] = window.spans
    free = [complete]
    others = (one for one in packed if one.document_id == window.document_id and not one.level)
    for covered in (span for one in others for span in one.spans):
        free = [
            Span(start, end)
            for span in free
            for start, end in (
                (span.start, min(span.end, covered.start)),
                (max(span.start, covered.end), span.end),
            )
            if start < end
        ]
    pieces = []
    for span in free:
        text = window.text[span.start - complete.start : span.end - complete.start]
        # Keep surrounding white space, so that adjacent pieces can be joined.
        if text.strip():
            pieces.append(replace(window, text=text, spans=(span,)))
    return pieces


def _join_pieces(pieces: Sequence[RetrievedNode], texts: Mapping[str, str]) -> list[RetrievedNode]:
    """Return each node once, with its pieces in document order."""
    by_node: dict[str, list[RetrievedNode]] = {}
    for piece in pieces:
        by_node.setdefault(piece.node_id, []).append(piece)
    return [_join_node(of_node, texts) for of_node in by_node.values()]


def _join_node(pieces: Sequence[RetrievedNode], texts: Mapping[str, str]) -> RetrievedNode:
    """Return a node with all its pieces, merging those that only white space separates."""
    node = pieces[0]
    if node.level or len(pieces) == 1:
        return node
    text = texts[node.node_id]
    spans: list[Span] = []
    # The header of a table may be in an earlier chunk.
    before = {one.spans[0]: one.text for one in pieces if one.spans[0].start < node.start}
    for span in sorted({piece.spans[0] for piece in pieces} - {*before}):
        if spans and not text[spans[-1].end - node.start : span.start - node.start].strip():
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, span.end))
        else:
            spans.append(span)
    parts = [*before.values(), *(text[a - node.start : b - node.start] for a, b in spans)]
    return replace(node, text=GAP.join(parts), spans=(*before, *spans))


def _from(window: RetrievedNode, start: int, text: str) -> RetrievedNode:
    """Return the text of a chunk from an offset in one of its windows on.

    An answer that begins in the window may continue after its end.
    """
    if not start:
        return window
    [span] = window.spans
    start += span.start
    spans = (Span(start, window.start + len(text)),)
    return replace(window, text=text[start - window.start :], spans=spans)


def _shorten(
    node: RetrievedNode, tokens: int, counter: TokenCounter, *, last_resort: bool
) -> RetrievedNode | None:
    """Cut a node to `tokens` tokens; if no sentence fits, return None unless `last_resort`."""
    if tokens < 1:
        return None
    text, _ = truncate(node.text, tokens, counter)
    if not text or not (ends_sentence(text) or last_resort):
        return None
    start = node.spans[0].start
    spans = (Span(start, start + len(text)),) if node.level == 0 else node.spans
    return replace(node, text=text, spans=spans)
