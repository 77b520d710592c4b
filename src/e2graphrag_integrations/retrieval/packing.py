"""From ranked candidates to the nodes of a result: expansion, texts, and the token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.retrieval.result import GAP, RetrievedNode, format_groups, header
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.chunking import truncate
from e2graphrag_integrations.text.tokens import count_tokens, token_spans
from e2graphrag_integrations.types import Node, Span

Expand = Literal["none", "children", "leaves"]
EXPANSIONS: tuple[Expand, ...] = ("none", "children", "leaves")

_JOIN_TOKENS = 2
"""Tokens that the line breaks between passages may cost with a tokenizer that counts them."""


def expand(candidates: Iterable[Candidate], snapshot: Snapshot, how: Expand) -> list[Candidate]:
    """Put a summary's children or leaves in its place, dropping what came before already."""
    seen: set[int] = set()
    expanded: list[Candidate] = []
    for candidate in candidates:
        for row in _below(candidate.row, snapshot, how):
            if row in seen:
                continue
            seen.add(row)
            if row == candidate.row:
                expanded.append(candidate)
            else:
                why = f"under summary {snapshot.nodes.ids[candidate.row]}"
                reasons = (why, *candidate.reasons)
                expanded.append(replace(candidate, row=row, reasons=reasons, best=None))
    return expanded


def fill_to_k(
    kept: Sequence[Candidate], query: Query, snapshot: Snapshot, how: Expand
) -> list[Candidate]:
    """Add the nodes nearest to the question until there are k; none scores above those before."""
    if not len(snapshot.dense.nodes):
        return list(kept)
    complete = list(kept)
    seen = {candidate.row for candidate in kept}
    for row, cosine in snapshot.dense.search(
        query.vector,
        query.k + len(kept) if how == "none" else len(snapshot.nodes.ids),
        query.allowed,
    ):
        score = min(1 / (len(complete) + 1), complete[-1].score if complete else 1.0)
        near = Candidate(row, score, "global", (f"filled up to k: cosine {cosine:.4f}",))
        for candidate in expand([near], snapshot, how):
            if candidate.row not in seen and len(complete) < query.k:
                seen.add(candidate.row)
                complete.append(candidate)
        if len(complete) >= query.k:
            break
    return complete


def _below(row: int, snapshot: Snapshot, how: Expand) -> Iterator[int]:
    nodes = snapshot.nodes
    if how == "none" or nodes.level[row] == 0:
        yield row
    elif how == "leaves":
        leaves: IntArray = snapshot.chunk_nodes[nodes.first_leaf[row] : nodes.end_leaf[row]]
        yield from (int(leaf) for leaf in leaves)
    else:
        yield from _children(row, snapshot)


def _children(row: int, snapshot: Snapshot) -> range:
    """Return the rows of the nodes that a summary was made of: they lie side by side."""
    nodes = snapshot.nodes
    first, end = np.searchsorted(nodes.document, [nodes.document[row], nodes.document[row] + 1])
    below = nodes.level[row] - 1
    level = first + np.searchsorted(nodes.level[first:end], [below, below + 1])
    leaves = nodes.first_leaf[level[0] : level[1]]
    inside = np.searchsorted(leaves, [nodes.first_leaf[row], nodes.end_leaf[row]])
    return range(int(level[0] + inside[0]), int(level[0] + inside[1]))


def to_retrieved_nodes(
    candidates: Sequence[Candidate],
    snapshot: Snapshot,
    stored: Mapping[str, Node],
    entities: Sequence[int],
) -> list[RetrievedNode]:
    """Return the candidates as result nodes, with text, source and the entities they hold."""
    rows = [one.row for one in candidates]
    held = _held(snapshot, rows, entities)
    return [
        _to_node(one, snapshot, stored[snapshot.nodes.ids[row]], names)
        for one, row, names in zip(candidates, rows, held, strict=True)
    ]


def _to_node(
    candidate: Candidate, snapshot: Snapshot, node: Node, entities: tuple[str, ...]
) -> RetrievedNode:
    row = candidate.row
    records = _records_of(snapshot, row)
    best = None
    if candidate.best is not None and not node.level:
        best = Span(node.start + candidate.best.start, node.start + candidate.best.end)
    part = best if candidate.part else None
    return RetrievedNode(
        node_id=node.id,
        text=node.text
        if part is None
        else node.text[part.start - node.start : part.end - node.start],
        level=node.level,
        document_id=node.document_id,
        start=node.start,
        end=node.end,
        spans=(part or Span(node.start, node.end),),
        score=float(candidate.score),
        route=candidate.route,
        reasons=candidate.reasons,
        entities=entities,
        title=snapshot.titles[int(snapshot.nodes.document[row])],
        metadata=_agreed(records, snapshot.records.id_key),
        parts=_parts(records, snapshot.records.id_key),
        position=int(snapshot.nodes.position[row]),
        parent_id=node.parent_id,
        child_ids=tuple(
            snapshot.nodes.ids[child] for child in (_children(row, snapshot) if node.level else ())
        ),
        best=best,
    )


def _held(
    snapshot: Snapshot, rows: Sequence[int], entities: Sequence[int]
) -> list[tuple[str, ...]]:
    """Return for each node the names of those of some entities that it holds."""
    leaves = np.stack([snapshot.nodes.first_leaf[rows], snapshot.nodes.end_leaf[rows]])
    held: list[list[str]] = [[] for _ in rows]
    for entity in entities:
        first, end = snapshot.graph.chunks(entity)[0].searchsorted(leaves)
        name = snapshot.graph.names[entity]
        for at in np.flatnonzero(first < end).tolist():
            held[at].append(name)
    return [tuple(names) for names in held]


def common_metadata(snapshot: Snapshot, row: int) -> dict[str, Any]:
    """Return the metadata that all segments under the node agree on."""
    return _agreed(_records_of(snapshot, row), snapshot.records.id_key)


def _agreed(records: Sequence[Mapping[str, Any]], id_key: str) -> dict[str, Any]:
    first, *others = records
    return {
        key: value
        for key, value in first.items()
        if key != id_key and all(key in r and r[key] == value for r in others)
    }


def _parts(records: Sequence[Mapping[str, Any]], id_key: str) -> tuple[Mapping[str, Any], ...]:
    if len(records) == 1:
        return ()
    return tuple({k: v for k, v in r.items() if k != id_key} for r in records)


def _records_of(snapshot: Snapshot, row: int) -> list[Mapping[str, Any]]:
    records = snapshot.records
    span = slice(int(records.first[row]), int(records.last[row]))
    return [records.values[i] for i in records.of_node[span].tolist()]


def pack_nodes(
    nodes: Sequence[RetrievedNode], budget: int, counter: TokenCounter
) -> tuple[list[RetrievedNode], int]:
    """Return the nodes, best first, whose context fits `budget` tokens, and how many fell out.

    Headers count. The first node that does not fit is cut after the last sentence that does, or
    between tokens if nothing would be left otherwise; what comes after it is dropped.
    """
    packed, _ = _packed(nodes, budget, counter, lambda node, _: [node], list)
    return packed, len(nodes) - len(packed)


def pack_parts(
    parts: Sequence[RetrievedNode],
    budget: int,
    counter: TokenCounter,
    texts: Mapping[str, str],
) -> tuple[list[RetrievedNode], int]:
    """Return the nodes whose best parts fit `budget` tokens, and how many parts fell out.

    Parts come best first. What of one has been packed already, as the overlap of two chunks, is
    left out; parts of a chunk with nothing but white space between them are joined. A node stands
    where its best part did. The first part that does not fit is cut, as by `pack_nodes`.

    Args:
        parts: Nodes, each of one part; the same node may come several times.
        budget: In tokens, headers counted.
        counter: Counts them.
        texts: Of the whole nodes, by id.
    """
    packed, taken = _packed(
        parts, budget, counter, _uncovered, lambda pieces: _joined(pieces, texts)
    )
    return packed, len(parts) - taken


def _packed(
    nodes: Sequence[RetrievedNode],
    budget: int,
    counter: TokenCounter,
    pieces_of: Callable[[RetrievedNode, Sequence[RetrievedNode]], Sequence[RetrievedNode]],
    joined: Callable[[Sequence[RetrievedNode]], list[RetrievedNode]],
) -> tuple[list[RetrievedNode], int]:
    """Take the pieces of nodes while they fit; return them joined, and how many nodes they are of.

    Args:
        nodes: Best first.
        budget: In tokens.
        counter: Counts them.
        pieces_of: Returns what of a node is new after the pieces taken so far.
        joined: Returns the nodes that pieces make up.
    """
    taken: list[RetrievedNode] = []
    headed: set[tuple[str, ...]] = set()
    left, whole = budget, 0
    for node in nodes:
        fits = True
        for piece in pieces_of(node, taken):
            frame = _JOIN_TOKENS
            if piece.entities not in headed:
                frame += count_tokens(counter, header(piece.entities))
            cost = frame + count_tokens(counter, piece.text)
            fits = cost <= left
            if not fits:
                cut = _shorten(piece, left - frame, counter, last_resort=not taken)
                taken.extend([cut] if cut else [])
                break
            headed.add(piece.entities)
            taken.append(piece)
            left -= cost
        if not fits:
            break
        whole += 1
    found = joined(taken)
    # Tokenizers may count a whole above the sum of its parts: make sure.
    while found and count_tokens(counter, "\n\n".join(format_groups(found))) > budget:
        # By spans: of the several tokens of one character only one has a span of its own.
        size = len(token_spans(counter, taken[-1].text))
        cut = _shorten(taken[-1], size - 1, counter, last_resort=len(taken) == 1)
        taken[-1:] = [cut] if cut else []
        found = joined(taken)
    return found, whole


def _uncovered(part: RetrievedNode, taken: Sequence[RetrievedNode]) -> Sequence[RetrievedNode]:
    """Return what of a chunk's part lies in none of the chunks' parts taken; a summary as it is."""
    if part.level:
        return [part]
    [whole] = part.spans
    free = [whole]
    others = (one for one in taken if one.document_id == part.document_id and not one.level)
    for span in (span for one in others for span in one.spans):
        free = [
            Span(start, end)
            for one in free
            for start, end in (
                (one.start, min(one.end, span.start)),
                (max(one.start, span.end), one.end),
            )
            if start < end
        ]
    pieces = []
    for span in free:
        text = part.text[span.start - whole.start : span.end - whole.start]
        # Whatever lies beside it is packed already: white space between stays, to join them.
        if text.strip():
            pieces.append(replace(part, text=text, spans=(span,)))
    return pieces


def _joined(pieces: Sequence[RetrievedNode], texts: Mapping[str, str]) -> list[RetrievedNode]:
    """Return each node once, its parts in order; those that touch are one."""
    of_node: dict[str, list[RetrievedNode]] = {}
    for piece in pieces:
        of_node.setdefault(piece.node_id, []).append(piece)
    return [_one_node(parts, texts) for parts in of_node.values()]


def _one_node(parts: Sequence[RetrievedNode], texts: Mapping[str, str]) -> RetrievedNode:
    first = parts[0]
    if first.level or len(parts) == 1:
        return first
    text = texts[first.node_id]
    spans: list[Span] = []
    for part in sorted(parts, key=lambda one: one.spans[0]):
        [span] = part.spans
        gap = text[spans[-1].end - first.start : span.start - first.start] if spans else "x"
        if gap.strip():
            spans.append(span)
        else:
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, span.end))
    own = GAP.join(text[start - first.start : end - first.start] for start, end in spans)
    return replace(first, text=own, spans=tuple(spans))


def _shorten(
    node: RetrievedNode, tokens: int, counter: TokenCounter, *, last_resort: bool
) -> RetrievedNode | None:
    if tokens < 1:
        return None
    text, _ = truncate(node.text, tokens, counter)
    whole_sentence = text.rstrip().endswith((".", "!", "?", "…", "。", "！", "？", '"', "”", "’"))
    if not text or not (whole_sentence or last_resort):
        return None
    start = node.spans[0].start
    spans = (Span(start, start + len(text)),) if node.level == 0 else node.spans
    return replace(node, text=text, spans=spans)
