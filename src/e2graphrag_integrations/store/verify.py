"""Checking a file against its own invariants."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from e2graphrag_integrations.errors import (
    ClosedError,
    CorruptStoreError,
    E2GraphRAGError,
    StoreLockedError,
)
from e2graphrag_integrations.reports import VerifyReport
from e2graphrag_integrations.store.records import StoredNode, decode_sentences
from e2graphrag_integrations.store.schema import checksum
from e2graphrag_integrations.store.sqlite import Store

_MOST_PROBLEMS = 100
"""Problems after which a file is bad enough to stop."""


def verify_store(store: Store) -> VerifyReport:
    """Check every stored row and how the rows hang together.

    SQLite's own structure, every checksum, foreign keys, parents and children, spans against the
    text, one extraction a chunk, at least one vector a node, all of one length.
    """
    with store.consistent():
        return _verify(store)


def _verify(store: Store) -> VerifyReport:
    checked: Counter[str] = Counter()
    problems: list[str] = []
    for check in (_structure, _manifest, _content, _windows, _trees):
        try:
            for problem in check(store, checked):
                problems.append(problem)
                if len(problems) >= _MOST_PROBLEMS:
                    return VerifyReport(dict(checked), (*problems, "and more"))
        except (ClosedError, StoreLockedError):
            raise  # says nothing about the file
        except (E2GraphRAGError, sqlite3.Error, ValueError, KeyError) as error:
            problems.append(f"{type(error).__name__}: {error}")
    return VerifyReport(dict(checked), tuple(problems))


def _structure(store: Store, checked: Counter[str]) -> Iterator[str]:
    for (line,) in store.read("PRAGMA integrity_check"):
        checked["integrity lines"] += 1
        if line != "ok":
            yield f"SQLite: {line}"
    for table, row, parent, _ in store.read("PRAGMA foreign_key_check"):
        yield f"row {row} of {table} points to a row of {parent} that is not there"


def _manifest(store: Store, checked: Counter[str]) -> Iterator[str]:
    for *fields, crc in store.read("SELECT * FROM manifest"):
        checked["manifest rows"] += 1
        if checksum(*fields) != crc:
            yield f"{fields[0]} in the manifest does not match its checksum"
    store.manifest()
    store.generation  # noqa: B018 - raises if it is gone


def _content(store: Store, checked: Counter[str]) -> Iterator[str]:
    for (key,) in store.read("SELECT key FROM content"):
        (kind, value, crc) = store.read(
            "SELECT kind, value, checksum FROM content WHERE key = ?", (key,)
        )[0]
        checked[kind] += 1
        if checksum(key, kind, value) != crc:
            yield f"{kind} {key.hex()[:16]} does not match its checksum"
        elif kind == "extraction":
            decode_sentences(value)


def _windows(store: Store, checked: Counter[str]) -> Iterator[str]:
    for *fields, crc in store.read("SELECT * FROM windows"):
        checked["windows"] += 1
        if checksum(*fields) != crc:
            yield f"window {fields[1]} of node {fields[0]} does not match its checksum"
    # Only those in use: the cache may hold another model's, of a build that failed.
    lengths = store.read(
        "SELECT DISTINCT length(value) FROM content "
        "WHERE key IN (SELECT content_key FROM windows) ORDER BY 1"
    )
    if len(lengths) > 1:
        yield f"vectors of different lengths, in bytes: {[length for (length,) in lengths]}"


def _trees(store: Store, checked: Counter[str]) -> Iterator[str]:
    by_document: dict[str, list[StoredNode]] = {id_: [] for id_ in store.content_hashes()}
    for stored in store.all_nodes():
        checked["nodes"] += 1
        by_document[stored.node.document_id].append(stored)
    for document_id, nodes in by_document.items():
        checked["documents"] += 1
        try:
            text = store.document(document_id).text
        except CorruptStoreError as error:
            yield str(error)
            continue
        by_id = {stored.node.id: stored for stored in nodes}
        parents = {stored.node.parent_id for stored in nodes}
        for stored in nodes:
            yield from _node(stored, by_id, text)
            if stored.node.level and stored.node.id not in parents:
                yield f"summary {stored.node.id} of document {document_id!r} has no children"
        if text.strip() and not nodes:
            yield f"document {document_id!r} has text and no chunk"
        yield from _gaps(document_id, nodes)
    for head in store.heads():
        nodes = by_document[head.id]
        windows = sum(len(stored.windows) for stored in nodes)
        if (len(nodes), windows) != (head.nodes, head.windows):
            yield (
                f"document {head.id!r} has {len(nodes)} of {head.nodes} nodes and {windows} of "
                f"{head.windows} vectors"
            )


def _gaps(document_id: str, nodes: Sequence[StoredNode]) -> Iterator[str]:
    """Find levels with nodes missing, and parents whose first or last child is."""
    levels: dict[int, list[int]] = {}
    under: dict[str, list[StoredNode]] = {}
    for stored in nodes:
        levels.setdefault(stored.node.level, []).append(stored.node.position)
        if stored.node.parent_id is not None:
            under.setdefault(stored.node.parent_id, []).append(stored)
    for level, positions in levels.items():
        if positions != list(range(len(positions))):
            yield f"level {level} of document {document_id!r} misses nodes"
    for stored in nodes:
        ends = [end for c in under.get(stored.node.id, ()) for end in (c.node.start, c.node.end)]
        if ends and (min(ends), max(ends)) != (stored.node.start, stored.node.end):
            yield f"summary {stored.node.id} of document {document_id!r} misses children"


def _node(stored: StoredNode, by_id: Mapping[str, StoredNode], text: str) -> Iterator[str]:
    node = stored.node
    place = f"node {node.id} (level {node.level}, position {node.position})"
    if node.level == 0 and text[node.start : node.end] != node.text:
        yield f"{place}: its span does not slice back to its text"
    if not stored.windows:
        yield f"{place}: has no vector"
    if node.parent_id is not None:
        parent = by_id.get(node.parent_id)
        if parent is None or parent.node.level != node.level + 1:
            yield f"{place}: its parent is not on the level above"
        elif not parent.node.start <= node.start <= node.end <= parent.node.end:
            yield f"{place}: lies outside its parent's span"
