"""Checking a file against its own invariants."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence

from e2graphrag_integrations.entities.normalize import count_words
from e2graphrag_integrations.errors import (
    ClosedError,
    CorruptStoreError,
    E2GraphRAGError,
    StoreLockedError,
)
from e2graphrag_integrations.reports import VerifyReport
from e2graphrag_integrations.settings import resolve_settings
from e2graphrag_integrations.snapshot.files import stale_parts
from e2graphrag_integrations.store.pending_documents import read_pending
from e2graphrag_integrations.store.queue import read_queue
from e2graphrag_integrations.store.records import StoredNode, decode_sentences
from e2graphrag_integrations.store.schema import checksum
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.tree import Grouping, plan_tree
from e2graphrag_integrations.types import Node, Span

_MOST_PROBLEMS = 100
"""Problems after which a file is bad enough to stop."""


def verify_store(store: Store) -> VerifyReport:
    """Check every stored row, how the rows hang together, and what was derived from them.

    SQLite's own structure, every checksum, foreign keys, settings that make sense, parents and
    children, spans against the text, one extraction a chunk, at least one vector a node, all of one
    length; documents that wait; and, where a snapshot is on disk, its graph, postings, vectors and
    words against the sum of what the rows contribute.
    """
    with store.consistent():
        return _verify(store)


def _verify(store: Store) -> VerifyReport:
    checked: Counter[str] = Counter()
    problems: list[str] = []
    for check in (_structure, _manifest, _content, _windows, _trees, _waiting, _snapshot):
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
    resolve_settings({}, store.manifest(), store.path)
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
    grouping = resolve_settings({}, store.manifest(), store.path).groups
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
        for stored in nodes:
            yield from _node(stored, text)
        yield from _shape(document_id, text, nodes, grouping)
        if text.strip() and not nodes:
            yield f"document {document_id!r} has text and no chunk"
    for head in store.heads():
        nodes = by_document[head.id]
        windows = sum(len(stored.windows) for stored in nodes)
        if (len(nodes), windows) != (head.nodes, head.windows):
            yield (
                f"document {head.id!r} has {len(nodes)} of {head.nodes} nodes and {windows} of "
                f"{head.windows} vectors"
            )


def _waiting(store: Store, checked: Counter[str]) -> Iterator[str]:
    waiting = [*read_queue(store), *read_pending(store)]
    if waiting:
        checked["waiting documents"] += len(waiting)
    yield from ()


def _snapshot(store: Store, checked: Counter[str]) -> Iterator[str]:  # noqa: ARG001 - as the others
    for part in stale_parts(store):
        yield f"{part} of the snapshot are not what the rows give: delete {store.path}.snapshot"


def _shape(
    document_id: str, text: str, nodes: Sequence[StoredNode], grouping: Grouping
) -> Iterator[str]:
    """Compare a document's nodes with the tree that its chunks should have."""
    chunks = [Span(s.node.start, s.node.end) for s in nodes if s.node.level == 0]
    planned = {n.id: n for n in plan_tree(document_id, text, chunks, grouping).nodes}
    for stored in nodes:
        node = stored.node
        if _place(node) != _place(planned.pop(node.id, None)):
            yield f"node {node.id} of document {document_id!r} is not where its chunks put it"
    for missing in planned.values():
        yield f"level {missing.level} of document {document_id!r} misses node {missing.position}"


def _place(node: Node | None) -> tuple[object, ...] | None:
    if node is None:
        return None
    return node.level, node.position, node.start, node.end, node.parent_id


def _node(stored: StoredNode, text: str) -> Iterator[str]:
    node = stored.node
    place = f"node {node.id} (level {node.level}, position {node.position})"
    if node.level == 0 and text[node.start : node.end] != node.text:
        yield f"{place}: its span does not slice back to its text"
    if stored.words != count_words(node.text):
        yield f"{place}: its words are miscounted"
    if not stored.windows:
        yield f"{place}: has no vector"
