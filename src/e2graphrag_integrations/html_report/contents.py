"""The contents of a report: bounded parts of an index, as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from e2graphrag_integrations.errors import (
    InvalidInputError,
    UnknownDocumentError,
    UnknownEntityError,
)
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource
from e2graphrag_integrations.retrieval.outline import (
    DocumentInfo,
    document_row,
    list_documents,
)
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.views.answer import AnswerView
from e2graphrag_integrations.views.documents import Readable
from e2graphrag_integrations.views.graph import (
    Neighborhood,
    edge_sentences,
    entity_details,
    list_entities,
    neighborhoods,
)
from e2graphrag_integrations.views.json_values import to_json

TOP_ENTITIES = 50
"""Number of the most mentioned entities in a report."""

MAX_ENTITIES = 150
"""Maximum number of entities in a report, with those of its answers."""

NEIGHBORS = 30
"""Maximum number of entities in a neighborhood."""

MENTIONS = 10
"""Maximum number of mentions of an entity."""

EDGES = 5
SENTENCES = 3
"""Number of edges of each entity, the heaviest, with their sentences, and how many of each."""

MAX_LISTED = 20_000
"""Maximum number of documents that a report lists."""

COUNTS = "documents", "chunks", "summaries", "levels", "entities", "edges", "mentions", "windows"
"""The statistics of an index that a report has."""

PIECE = 2_000
"""Number of characters in a piece of a text, so that the script can find a range in it."""


def documents(reader: Readable) -> tuple[list[tuple[DocumentInfo, str]], int]:
    """Return the documents in a report with their languages, and the number of all documents."""

    def listed(snapshot: Snapshot, _: object) -> tuple[list[tuple[DocumentInfo, str]], int]:
        infos, total = list_documents(snapshot, 0, MAX_LISTED)
        return list(zip(infos, snapshot.languages, strict=False)), total

    return reader.read_snapshot(listed)


def graph(reader: Readable, found: Sequence[AnswerView]) -> dict[str, Any]:
    """Return the most mentioned entities and those of answers, with their neighborhoods."""
    named = list_entities(reader, limit=TOP_ENTITIES, names_only=True)
    top = list_entities(reader, limit=TOP_ENTITIES)
    names = dict.fromkeys(info.name for info in named.items)
    names |= dict.fromkeys(_names_in(found))
    names |= dict.fromkeys(info.name for info in top.items)
    details, known = [], []
    for name in list(names)[:MAX_ENTITIES]:
        try:
            one = entity_details(reader, name, MENTIONS)
        except UnknownEntityError:  # a writer has removed it in the meantime
            continue
        known.append(name)
        details.append(to_json(one) | {"neighbors": []})
    around = neighborhoods(reader, known, NEIGHBORS, names_only=bool(named.total))
    items = [
        one["info"] | {"label": near.nodes[0].label, "is_name": near.nodes[0].is_name}
        for one, near in zip(details, around, strict=True)
    ]
    return {
        "items": sorted(items, key=lambda one: -one["mentions"]),
        "total": top.total,
        "details": details,
        "neighborhoods": [_compact(one) for one in around],
        "sentences": list(_sentences(reader, around)),
        "paths": [to_json(path) for answer in found for path in answer.paths or ()],
    }


def _names_in(found: Sequence[AnswerView]) -> Iterator[str]:
    """Yield the entities of answers: those of the question, of the paths, and of the nodes."""
    for answer in found:
        yield from (link.entity for link in answer.links)
        for path in answer.paths or ():
            yield from path.entities
    for answer in found:
        for node in answer.nodes:
            yield from node.entities


def _compact(found: Neighborhood) -> dict[str, Any]:
    """Return a neighborhood whose nodes are lists, and whose edges name them by their places."""
    places = {node.name: place for place, node in enumerate(found.nodes)}
    return {
        "nodes": [list(astuple(one)) for one in found.nodes],
        "nouns": found.nouns,
        "edges": [[places[edge.source], places[edge.target], edge.weight] for edge in found.edges],
    }


def _sentences(reader: Readable, around: Iterable[Neighborhood]) -> Iterator[dict[str, Any]]:
    """Yield the sentences of the heaviest edges of each entity, each edge once."""
    read = set()
    for one in around:
        for neighbor in one.nodes[1 : EDGES + 1]:
            edge = frozenset((one.center, neighbor.name))
            if edge in read:
                continue
            read.add(edge)
            try:
                found = edge_sentences(reader, one.center, neighbor.name, SENTENCES)
            except (UnknownEntityError, InvalidInputError):  # removed or joined in the meantime
                continue
            yield {"source": one.center, "target": neighbor.name} | to_json(found)


def document(reader: Readable, document_id: str) -> dict[str, Any] | None:
    """Return the text and the tree of a document, or None if it has been deleted.

    The tree names its nodes by their places: the children of a node have adjacent places. If the
    whole text cannot be read, the nodes contain their own texts.
    """

    def read(snapshot: Snapshot, source: NodeSource) -> dict[str, Any]:
        table, row = snapshot.nodes, document_row(snapshot, document_id)
        bounds = np.searchsorted(table.document, [row, row + 1]).tolist()
        rows = range(*bounds)
        first, counts = (column[slice(*bounds)] for column in table.children)
        nodes = NodeReader(snapshot, source).read(rows)
        text = _text(reader, document_id)
        if text is not None and any(
            node.level == 0 and text[node.start : node.end] != node.text for node in nodes
        ):
            text = None  # a writer has changed it in the meantime
        own = {
            place: node.text for place, node in enumerate(nodes) if node.level > 0 or text is None
        }
        return {
            "pieces": None
            if text is None
            else [text[begin : begin + PIECE] for begin in range(0, len(text), PIECE)],
            "nodes": {
                "level": [node.level for node in nodes],
                "start": [node.start for node in nodes],
                "end": [node.end for node in nodes],
                "first": np.where(counts, first - bounds[0], 0).tolist(),
                "count": counts.tolist(),
                "roots": np.flatnonzero(table.parents[slice(*bounds)] < 0).tolist(),
                "texts": own,
            },
        }

    try:
        return reader.read_snapshot(read)
    except UnknownDocumentError:
        return None


def _text(reader: Readable, document_id: str) -> str | None:
    try:
        return reader.document(document_id).text
    except UnknownDocumentError:  # only a part of it is visible
        return None


def statistics(reader: Readable) -> dict[str, Any]:
    """Return the counts of an index by name, and the documents in each language."""
    found = reader.stats()
    return {name: getattr(found, name) for name in COUNTS} | {"languages": dict(found.languages)}
