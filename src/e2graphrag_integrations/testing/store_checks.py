"""The conformance check of stores: an index behaves alike in a file and in a database."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import ClosedError, StoreLockedError
from e2graphrag_integrations.options import IndexSettings, Models
from e2graphrag_integrations.store.queue import (
    dequeue,
    enqueue,
    queue_states,
    set_queue_status,
)
from e2graphrag_integrations.store.rows import checksum
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.pending_documents import (
    drop_pending,
    file_state,
    put_pending,
    read_pending,
)
from e2graphrag_integrations.testing.fakes import CapitalizedWordExtractor
from e2graphrag_integrations.text.tags import TagSet
from e2graphrag_integrations.types import SourceDocument

_HARD = "NUL \0, SOH \1, \1\2, % ? %s ', \u00e9, \U0001f600, \n"
"""Characters that a database may reject, change or interpret."""

_UNSORTED = (
    "b",
    "B",
    "a",
    "\u00e4",
    "Z",
    "\U0001f600",
    "\uffee",
    "a b",
    "_",
    "a\0",
    "a\1",
    '{",\\',
)
"""Names that collations of languages sort differently than code points."""

_NOTICE_SECONDS = 10.0
"""How long a notice may take; without notices, a change is noticed later."""


class _UndoError(Exception):
    pass


def check_store(location: str) -> None:
    """Check that an index at a new location behaves as the engine requires.

    The check covers transactions, isolation, notices, order, hard characters, locks, the queue,
    pending documents, and that the same history gives the same export as in memory.

    Args:
        location: An index file or URL that does not exist yet. The check leaves an index there.

    Raises:
        AssertionError: If a rule is violated; the message names it.
    """
    with contextlib.closing(Store(location, timeout=0.2)) as store:
        for check in (
            _check_values,
            _check_order,
            _check_transactions,
            _check_references,
            _check_isolation,
            _check_notices,
            _check_lock,
            _check_queue,
            _check_pending,
            _check_size,
        ):
            check(store)
    _check_closed(store)
    _check_reopening(location)
    _check_history(location)


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise AssertionError(f"the store violates a rule: {rule}")


def _raises(error: type[Exception], work: Callable[[], Any]) -> bool:
    try:
        work()
    except error:
        return True
    return False


def _check_values(store: Store) -> None:
    value = bytes(range(256)) * 9
    store.put_cached(_HARD, {b"\0key": value, b"empty": b""})
    [(kind, stored, crc)] = store.read(
        "SELECT kind, value, checksum FROM content WHERE key = ?", (b"\0key",)
    )
    _require((kind, stored) == (_HARD, value), "texts and bytes are returned as they were stored")
    _require(type(stored) is bytes and type(kind) is str, "values keep their types")
    _require(crc == checksum(b"\0key", _HARD, value), "32-bit integers are stored")
    store.put_cached("other", {b"\0key": b"changed"})
    cached = store.cached([b"\0key", b"missing", b"empty"])
    _require(cached == {b"\0key": value, b"empty": b""}, "content is never replaced")
    many = {b"%d" % number: b"x" for number in range(1200)}
    store.put_cached("many", many)
    _require(store.cached(many) == many, "any number of keys can be read")
    with store.transaction() as db:
        db.execute("DELETE FROM content")


def _check_order(store: Store) -> None:
    with store.transaction() as db:
        db.executemany(
            "INSERT INTO entity_edits VALUES (?, ?, ?)", [(name, "", 0) for name in _UNSORTED]
        )
    names = [name for (name,) in store.read("SELECT id FROM entity_edits ORDER BY id")]
    found = {
        id_ for (id_,) in store.database.read_keys("SELECT id FROM entity_edits {}", "id", names)
    }
    with store.transaction() as db:
        deleted = db.execute("DELETE FROM entity_edits").rowcount
    _require(names == sorted(_UNSORTED), "texts are sorted by code points")
    _require(found == set(names), "rows are found by any text")
    _require(deleted == len(_UNSORTED), "the number of deleted rows is known")


def _check_transactions(store: Store) -> None:
    generation = store.generation

    def fail() -> None:
        with store.transaction() as db:
            db.execute("DELETE FROM manifest")
            raise _UndoError

    _require(_raises(_UndoError, fail), "an exception in a transaction is raised")
    _require(store.generation == generation, "an exception undoes the whole transaction")


def _check_references(store: Store) -> None:
    def insert() -> None:
        with store.transaction() as db:
            row = ("node", 0, 0, 1, b"missing", 0)
            try:
                db.execute("INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?)", row)
            except store.database.reference_error as error:
                raise _UndoError from error

    _require(_raises(_UndoError, insert), "rows reference only rows that exist")
    _, problems = store.database.check_structure()
    _require(not problems, "the database checks its own references")


def _check_isolation(store: Store) -> None:
    with contextlib.closing(store.reopen()) as other:
        with store.read_transaction():
            before = store.generation
            _change_generation(other)
            _require(store.generation == before, "a read transaction sees one state")
            with store.read_transaction():
                _require(store.generation == before, "a nested read transaction joins the outer")
        _require(store.generation == other.generation != before, "then the new state is read")
        with store.transaction() as db:
            db.execute("DELETE FROM manifest WHERE key = ?", ("tags",))
            inside = other.generation
        _require(inside == other.generation, "reads do not wait for a write transaction")


def _change_generation(store: Store) -> None:
    store.put_tag_set(TagSet())


def _check_notices(store: Store) -> None:
    if store.database.newest is None:
        return  # the database is asked each time
    noticed = threading.Event()
    store.listen(noticed.set)
    _require(noticed.wait(_NOTICE_SECONDS), "a listener reads the newest generation")
    noticed.clear()
    with contextlib.closing(store.reopen()) as other:
        _change_generation(other)
        _require(noticed.wait(_NOTICE_SECONDS), "a change is announced to other handles")
        known = store.database.newest.known.name
        _require(known == other.generation, "a listener learns the newest generation")
        with store.read_transaction():
            _require(store.database.newest is None, "a read transaction proves nothing new")


def _check_lock(store: Store) -> None:
    with contextlib.closing(Store(store.database.location, timeout=0.1)) as other:
        with store.index_lock.acquire(), store.index_lock.acquire():
            seen, own = other.index_lock.holder(), store.index_lock.own()
            _require(seen is not None and seen == own, "others see who holds the lock")
            _require(store.index_lock.holder() is None, "the holder is not someone else")
            locked = _raises(StoreLockedError, lambda: other.index_lock.acquire().__enter__())
            _require(locked, "two handles never hold the lock")
        _require(other.index_lock.holder() is None, "the lock is released")
        _require(store.index_lock.own() is None, "who has released the lock does not hold it")
        with other.index_lock.acquire():
            pass
        with store.transaction():
            locked = _raises(StoreLockedError, lambda: other.transaction().__enter__())
        _require(locked, "write transactions exclude each other")

    def write(number: int) -> None:
        for _ in range(5):
            store.put_cached("thread", {b"thread %d" % number: b""})
            _ = store.generation

    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(write, number) for number in range(4)]
    errors = [error for future in futures if (error := future.exception()) is not None]
    _require(not errors, f"threads share a store ({errors[:1]})")


def _check_queue(store: Store) -> None:
    documents = [SourceDocument(name, _HARD) for name in ("two", "one", "a\0")]
    enqueue(store, documents, {"key": _HARD})
    set_queue_status(store, {"one": ("failed", _HARD), "missing": ("failed", None)})
    expected = {"two": ("pending", None), "one": ("failed", _HARD), "a\0": ("pending", None)}
    _require(queue_states(store) == expected, "the queue keeps its order and its states")
    _require(store.queue_manifest() == {"key": _HARD}, "the queue keeps its settings")
    dequeue(store, list(expected))
    _require(not queue_states(store), "documents leave the queue")


def _check_pending(store: Store) -> None:
    before = file_state(store)
    after = put_pending(store, {"one": {"text": _HARD}}, before)
    _require(after is not None and after == file_state(store), "pending documents are stored")
    _require(put_pending(store, {"two": 2}, before) is None, "an old state is noticed")
    _require(read_pending(store) == {"one": {"text": _HARD}}, "pending documents are read")
    drop_pending(store, {"one": "another value"})
    _require(list(read_pending(store)) == ["one"], "a changed pending document is kept")
    drop_pending(store, {"one": {"text": _HARD}})
    _require(not read_pending(store), "pending documents are deleted")


def _check_size(store: Store) -> None:
    _require(store.database.size() > 0, "the size is known")
    report = store.compact()
    _require(report.dropped > 0, "unused content is dropped")


def _check_closed(store: Store) -> None:
    store.close()
    _require(_raises(ClosedError, lambda: store.generation), "a closed store raises ClosedError")
    _require(_raises(ClosedError, lambda: store.transaction().__enter__()), "it cannot be written")


def _check_reopening(location: str) -> None:
    with contextlib.closing(Store(location)) as store:
        generation = store.generation
    with contextlib.closing(Store(location)) as store:
        _require(store.generation == generation, "an index that is opened again is unchanged")


def _check_history(location: str) -> None:
    exports = []
    for path in (location, ":memory:"):
        with E2GraphRAG.open(
            path,
            embedder=HashingEmbedder(),
            models=Models(extractor=CapitalizedWordExtractor()),
            settings=IndexSettings(chunk_size=16, chunk_overlap=4),
        ) as rag:
            rag.add([_document(f"{name}.txt", number) for number, name in enumerate(_UNSORTED)])
            rag.update(_document("a.txt", 50))
            rag.delete(["B.txt"])
            found = rag.retrieve("Where did Ada meet Bob 7?")
            _require(rag.verify().ok, "the index is sound after changes")
            exports.append((list(rag.export()), [node.text for node in found.nodes]))
    _require(exports[0] == exports[1], "the same history gives the same export and answers")


def _document(name: str, number: int) -> SourceDocument:
    sentences = [
        f"Ada met Bob {number + place} in Paris{_HARD if place == 1 else ''}. "
        f"Then Carol {place} wrote to Ada about the Tower of Dan."
        for place in range(6)
    ]
    return SourceDocument(name, " ".join(sentences), title=f"Letter {number}")
