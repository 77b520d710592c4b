"""Verification that an index file satisfies its invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter

from e2graphrag_integrations.errors import (
    ClosedError,
    CorruptStoreError,
    E2GraphRAGError,
    StoreLockedError,
)
from e2graphrag_integrations.reports import VerifyReport
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.snapshot.files import find_stale_parts
from e2graphrag_integrations.store.queue import read_queue
from e2graphrag_integrations.store.records import StoredNode, decode_sentences
from e2graphrag_integrations.store.rows import checksum
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.entity_edits import read_edits
from e2graphrag_integrations.store.tables.pending_documents import read_pending
from e2graphrag_integrations.text.words import count_words
from e2graphrag_integrations.tree import Grouping, plan_tree
from e2graphrag_integrations.types import Span

_place = attrgetter("level", "position", "start", "end", "parent_id")

_INVALID = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError)
"""Errors that rows with valid checksums and invalid values cause."""

_MAX_PROBLEMS = 100
"""Number of problems after which verification stops."""


def verify_store(store: Store) -> VerifyReport:
    """Check every row in an index file, and the snapshot on disk.

    The checks cover:

    - the database's own integrity, and foreign keys;
    - the checksum of every row;
    - the validity of the settings;
    - the tree of each document and the spans of its nodes;
    - one extraction per chunk, and at least one vector per node, all of the same length;
    - the documents waiting to be indexed;
    - the entity edits;
    - the graph, vectors and BM25 index of the snapshot, compared with a fresh build.
    """
    checked: Counter[str] = Counter()
    problems: list[str] = []
    checks = (
        _check_structure,
        _check_manifest,
        _check_content,
        _check_windows,
        _check_documents,
        _check_waiting_documents,
        _check_edits,
        _check_snapshot,
    )
    with store.read_transaction():
        for check in checks:
            try:
                for problem in check(store, checked):
                    problems.append(problem)
                    if len(problems) >= _MAX_PROBLEMS:
                        return VerifyReport(dict(checked), (*problems, "and more"))
            except (ClosedError, StoreLockedError):
                raise  # not a problem in the file
            except (E2GraphRAGError, *_INVALID) as error:
                problems.append(f"{type(error).__name__}: {error}")
    return VerifyReport(dict(checked), tuple(problems))


def _check_structure(store: Store, checked: Counter[str]) -> Iterator[str]:
    checks, problems = store.database.check_structure()
    checked["integrity lines"] += checks
    yield from problems


def _check_manifest(store: Store, checked: Counter[str]) -> Iterator[str]:
    for *fields, crc in store.read("SELECT * FROM manifest"):
        checked["manifest rows"] += 1
        if checksum(*fields) != crc:
            yield f"{fields[0]} in the manifest does not match its checksum"
    Settings.from_manifest(store.manifest(), store.path)
    store.tag_set()
    store.generation  # noqa: B018 - raises if the row is missing


def _check_content(store: Store, checked: Counter[str]) -> Iterator[str]:
    for (key,) in store.read("SELECT key FROM content"):
        (kind, value, crc) = store.read(
            "SELECT kind, value, checksum FROM content WHERE key = ?", (key,)
        )[0]
        checked[kind] += 1
        if checksum(key, kind, value) != crc:
            yield f"{kind} {key.hex()[:16]} does not match its checksum"
        elif kind == "extraction":
            decode_sentences(value)


def _check_windows(store: Store, checked: Counter[str]) -> Iterator[str]:
    for *fields, crc in store.read("SELECT * FROM windows"):
        checked["windows"] += 1
        if checksum(*fields) != crc:
            yield f"window {fields[1]} of node {fields[0]} does not match its checksum"
    # Check only vectors in use: a failed build may have cached vectors from a different model.
    lengths = store.read(
        "SELECT DISTINCT length(value) FROM content "
        "WHERE key IN (SELECT content_key FROM windows WHERE number >= 0) ORDER BY 1"
    )
    if len(lengths) > 1:
        yield f"vectors have different lengths, in bytes: {[length for (length,) in lengths]}"


def _check_documents(store: Store, checked: Counter[str]) -> Iterator[str]:
    grouping = Settings.from_manifest(store.manifest(), store.path).groups
    nodes_of: dict[str, list[StoredNode]] = {id_: [] for id_ in store.content_hashes()}
    for stored in store.all_nodes():
        checked["nodes"] += 1
        nodes_of[stored.node.document_id].append(stored)
    for document_id, nodes in nodes_of.items():
        checked["documents"] += 1
        try:
            text = store.document(document_id).text
        except CorruptStoreError as error:
            yield str(error)
            continue
        for stored in nodes:
            yield from _check_node(stored, text)
        yield from _check_tree(document_id, text, nodes, grouping)
        if text.strip() and not nodes:
            yield f"document {document_id!r} has text but no chunks"
    for header in store.document_headers():
        nodes = nodes_of[header.id]
        windows = sum(len(stored.windows) for stored in nodes)
        if (len(nodes), windows) != (header.nodes, header.windows):
            yield (
                f"document {header.id!r} has {len(nodes)} of {header.nodes} nodes and {windows} of "
                f"{header.windows} vectors"
            )


def _check_node(stored: StoredNode, text: str) -> Iterator[str]:
    node = stored.node
    name = f"node {node.id} (level {node.level}, position {node.position})"
    if node.level == 0 and text[node.start : node.end] != node.text:
        yield f"{name}: its text differs from its span in the document"
    if stored.words != count_words(node.text):
        yield f"{name}: its word count is wrong"
    if not stored.windows:
        yield f"{name}: it has no vector"


def _check_tree(
    document_id: str, text: str, nodes: Sequence[StoredNode], grouping: Grouping
) -> Iterator[str]:
    """Compare a document's nodes with the tree that its chunks determine."""
    chunks = [Span(s.node.start, s.node.end) for s in nodes if s.node.level == 0]
    planned = {n.id: n for n in plan_tree(document_id, text, chunks, grouping).nodes}
    for stored in nodes:
        node = stored.node
        plan = planned.pop(node.id, None)
        if plan is None or _place(plan) != _place(node):
            yield f"node {node.id} of document {document_id!r} is in the wrong place of the tree"
    for missing in planned.values():
        yield (
            f"level {missing.level} of document {document_id!r} lacks the node at position "
            f"{missing.position}"
        )


def _check_waiting_documents(store: Store, checked: Counter[str]) -> Iterator[str]:
    waiting = sum(1 for _ in read_queue(store)) + len(read_pending(store))
    if waiting:
        checked["waiting documents"] += waiting
    yield from ()


def _check_edits(store: Store, checked: Counter[str]) -> Iterator[str]:
    edits = read_edits(store)
    if edits:
        checked["entity edits"] += len(edits)
    yield from ()


def _check_snapshot(store: Store, checked: Counter[str]) -> Iterator[str]:  # noqa: ARG001 - all checks have one signature
    for part in find_stale_parts(store):
        yield f"{part!r} in the snapshot does not match the rows: delete {store.snapshot_folder}"
