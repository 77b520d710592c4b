"""The index file: atomic writes, exact deletes, rejected files and detected damage."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument, copy_index
from e2graphrag_integrations.errors import (
    ClosedError,
    CorruptStoreError,
    IndexGoneError,
    InvalidInputError,
    NotAnIndexError,
    SchemaVersionError,
    StoreError,
    StoreLockedError,
    UnknownDocumentError,
)
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.portability.copying import copy_store
from e2graphrag_integrations.portability.verify import verify_store
from e2graphrag_integrations.store import connection
from e2graphrag_integrations.store import rows as rows_module
from e2graphrag_integrations.store import store as store_module
from e2graphrag_integrations.store.records import StaleSnapshotError
from e2graphrag_integrations.store.schema import SCHEMA_VERSION
from e2graphrag_integrations.store.store import Store
from fakes import CountingLLM, NameExtractor, numbered, run_without_override


def execute(path, statement, *parameters):
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement, parameters)
        db.commit()


def query(path, statement):
    with closing(sqlite3.connect(path)) as db:
        return db.execute(statement).fetchall()


@pytest.fixture
def index_file(tmp_path, open_index, story):
    """Create an index of two documents without a snapshot, and close it."""
    path = tmp_path / "index.e2g"
    with open_index(path) as rag:
        rag.add([story, numbered(4)])
    return path


def test_a_failure_midway_through_a_document_writes_nothing(
    tmp_path, open_index, story, monkeypatch
):
    path = tmp_path / "i.e2g"
    rag = open_index(path)
    rag.add(story)
    before = list(rag.export())
    real, inserted = rows_module._node_fields, []

    def failing(stored):
        if len(inserted) == 2:
            raise OSError("disk full")
        inserted.append(stored)
        return real(stored)

    monkeypatch.setattr(rows_module, "_node_fields", failing)
    with pytest.raises(OSError, match="disk full"):
        rag.add(numbered(9))
    monkeypatch.undo()
    assert list(rag.export()) == before
    assert rag.document_ids == ["story"]
    assert rag.verify().ok
    rag.close()
    assert query(path, "SELECT count(*) FROM nodes WHERE document_id = 'numbered'") == [(0,)]


def test_an_sqlite_error_rolls_back_and_is_translated(open_index, story, monkeypatch):
    rag = open_index()
    rag.add(story)
    before = list(rag.export())

    def failing(db, document, nodes):
        db.execute("INSERT INTO nowhere VALUES (1)")

    monkeypatch.setattr(store_module, "insert_document", failing)
    with pytest.raises(StoreError, match="nowhere"):
        rag.add(numbered(3))
    monkeypatch.undo()
    assert list(rag.export()) == before


def test_delete_is_atomic(open_index, story):
    rag = open_index()
    rag.add([story, numbered(3)])
    before = list(rag.export())
    with pytest.raises(UnknownDocumentError, match="'ghost'"):
        rag.delete(["story", "ghost", "numbered"])
    assert list(rag.export()) == before


def test_deleting_a_document_keeps_content_shared_with_another(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    text = numbered(7).text
    rag = open_index(path)
    rag.add([SourceDocument("one", text), SourceDocument("two", text)])
    rag.delete("one")
    assert rag.verify().ok
    assert {node.document_id for node in rag.retrieve("Item 3").nodes} == {"two"}
    alone = open_index()
    alone.add(SourceDocument("two", text))
    assert list(rag.export()) == list(alone.export())


def test_deleting_a_document_deletes_its_unused_content(tmp_path, open_index, story):
    path = tmp_path / "i.e2g"
    kinds = "SELECT kind, count(*) FROM content GROUP BY kind ORDER BY kind"
    with open_index(path) as rag:
        rag.add(story)
        before = query(path, kinds)
        assert [kind for kind, _ in before] == ["extraction", "summary", "vector"]
        rag.add(numbered(9))
        rag.delete("numbered")
        assert query(path, kinds) == before
        rag.delete("story")
        assert query(path, kinds) == []


@pytest.mark.parametrize("version", [1, SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
@pytest.mark.parametrize("is_read_only", [False, True])
def test_a_file_of_another_format_version_is_refused_unchanged(
    index_file, version, is_read_only, monkeypatch
):
    execute(index_file, f"PRAGMA user_version = {version}")
    before = index_file.read_bytes()
    if is_read_only:
        monkeypatch.setattr(connection.os, "access", lambda *_: False)  # root may write anything
    expected = f"format version {version}, .* only version {SCHEMA_VERSION}: index the documents"
    with pytest.raises(SchemaVersionError, match=expected):
        Store(index_file)
    assert index_file.read_bytes() == before


@pytest.mark.parametrize("content", [b"Call me Ishmael. " * 90, b"\x89PNG\r\n" + bytes(4000)])
def test_a_file_of_another_type_is_rejected_unchanged(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(NotAnIndexError, match=r"notes\.txt"):
        Store(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_another_sqlite_file_is_rejected_unchanged(tmp_path):
    path = tmp_path / "other.db"
    execute(path, "CREATE TABLE songs (title TEXT)")
    before = path.read_bytes()
    with pytest.raises(NotAnIndexError, match="not an e2graphrag index"):
        Store(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_and_a_missing_folder_are_rejected(tmp_path):
    with pytest.raises(InvalidInputError, match="is a folder"):
        Store(tmp_path)
    with pytest.raises(InvalidInputError, match="does not exist"):
        Store(tmp_path / "nowhere" / "i.e2g")


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE nodes SET text = text || '!' WHERE level = 0",
        "UPDATE nodes SET words = words + 1 WHERE level = 0",
        "UPDATE nodes SET start = start + 1 WHERE position = 1",
        "UPDATE documents SET metadata = '{\"kind\":\"lie\"}' WHERE id = 'story'",
        "UPDATE documents SET metadata = '{' WHERE id = 'story'",
        "UPDATE documents SET title = 'Another' WHERE id = 'story'",
        "UPDATE windows SET content_key = (SELECT max(content_key) FROM windows)",
        'UPDATE windows SET "end" = 3',
        "UPDATE content SET value = zeroblob(length(value)) WHERE kind = 'vector'",
        "UPDATE content SET value = x'00' WHERE kind = 'extraction'",
        "DELETE FROM content WHERE kind = 'vector'",
        "DELETE FROM content WHERE kind = 'extraction'",
    ],
)
def test_retrieval_rejects_a_damaged_row_and_verify_reports_it(index_file, open_index, damage):
    execute(index_file, damage)
    rag = open_index(index_file)
    with pytest.raises(CorruptStoreError):
        rag.retrieve("Did Anna meet Bert?")
    report = rag.verify()
    assert not report.ok


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("DELETE FROM windows WHERE node_id = (SELECT min(id) FROM nodes)", "has no vector"),
        ("DELETE FROM nodes WHERE level = 0 AND position = 1", "is in the wrong place of the tree"),
        (
            (
                "DELETE FROM nodes WHERE document_id = 'story' AND level = 0 AND position = "
                "(SELECT max(position) FROM nodes WHERE document_id = 'story' AND level = 0)"
            ),
            "nodes and",
        ),
        ("DELETE FROM nodes WHERE document_id = 'story'", "has text but no chunks"),
        ("UPDATE content SET value = x'00' WHERE kind = 'summary'", "summary"),
    ],
)
def test_verify_reports_missing_rows_and_damaged_rows_that_nothing_reads(
    index_file, open_index, damage, problem
):
    execute(index_file, damage)
    problems = open_index(index_file).verify().problems
    assert any(problem in line for line in problems), problems


def test_a_row_damaged_after_the_snapshot_was_built_is_rejected(index_file, open_index):
    with open_index(index_file) as rag:
        rag.retrieve("Anna")
    execute(index_file, "UPDATE nodes SET text = 'Anna owes me money.' WHERE level = 0")
    with pytest.raises(CorruptStoreError, match="checksum"):
        open_index(index_file).retrieve("Anna")


def test_a_node_of_the_snapshot_missing_from_the_file_raises_corrupt_store_error(
    index_file, open_index
):
    with open_index(index_file) as rag:
        rag.retrieve("Anna")
    execute(index_file, "DELETE FROM nodes")
    with pytest.raises(CorruptStoreError, match="missing from the file"):
        open_index(index_file).retrieve("Anna")


def test_nodes_of_another_generation_are_rejected(index_file, open_index):
    rag, other = open_index(index_file), open_index(index_file)
    store = rag.store
    generation, ids = store.generation, [stored.node.id for stored in store.all_nodes()]
    assert len(store.nodes_at(generation, ids)) == len(ids)
    other.add(SourceDocument("new", "Walter met Anna."))
    with pytest.raises(StaleSnapshotError, match="newer than the snapshot"):
        store.nodes_at(generation, ids)


@pytest.mark.slow
def test_a_flipped_byte_gives_the_right_answer_or_a_typed_error(index_file, open_index):
    """A damaged file never causes an untyped error or another answer."""
    original = index_file.read_bytes()
    with open_index(index_file) as rag:
        expected = [node.text for node in rag.retrieve("Did Anna meet Bert?", k=3).nodes]
    outcomes = set()
    for at in range(200, len(original), max(1, len(original) // 120)):
        folder = index_file.parent / str(at)
        folder.mkdir()
        copy = folder / "copy.e2g"
        copy.write_bytes(original[:at] + bytes([original[at] ^ 0x5A]) + original[at + 1 :])
        try:
            with open_index(copy) as rag:
                found = [node.text for node in rag.retrieve("Did Anna meet Bert?", k=3).nodes]
                assert found == expected or not rag.verify().ok
                outcomes.add("answer")
        except StoreError:
            outcomes.add("error")
    assert outcomes == {"answer", "error"}


def test_a_transaction_of_another_process_raises_store_locked_error(index_file, open_index):
    rag = open_index(index_file, lock_timeout=0.05)
    with closing(sqlite3.connect(index_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLockedError, match="another process"):
            rag.add(numbered(2, "more"))
        assert rag.retrieve("Anna").nodes  # readers do not wait
        other.execute("ROLLBACK")
    rag.add(numbered(2, "more"))
    assert "more" in rag.document_ids


def test_a_closed_index_is_a_single_file(tmp_path, open_index, story):
    path = tmp_path / "i.e2g"
    rag = open_index(path)
    rag.add(story)
    expected = rag.retrieve("Anna and Bert").nodes
    rag.close()
    rag.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["i.e2g", "i.e2g.snapshot"]
    moved = tmp_path / "elsewhere.e2g"
    moved.write_bytes(path.read_bytes())
    assert open_index(moved).retrieve("Anna and Bert").nodes == expected


def test_a_closed_index_raises_closed_error(open_index, story):
    rag = open_index()
    rag.add(story)
    rag.retrieve("Anna")
    rag.close()
    for use in (
        lambda: rag.retrieve("Anna"),
        lambda: rag.add(numbered(2)),
        lambda: rag.delete("story"),
        rag.stats,
        rag.verify,
        lambda: rag.estimate(story),
    ):
        with pytest.raises(ClosedError, match="closed"):
            use()


def test_indexes_in_memory_are_independent_and_write_no_file(
    tmp_path, open_index, story, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    one, other = open_index(":memory:"), open_index(":memory:")
    one.add(story)
    assert one.retrieve("Anna").nodes
    assert other.document_ids == []
    assert list(tmp_path.iterdir()) == []


def test_a_stored_document_equals_the_original(open_index):
    given = SourceDocument(
        "odd / id \n 文",
        "First\0line.\r\nSecond 😀 line.",
        title="T\0",
        metadata={"list": [1, None, True, 2.5], "map": {"é": "ö"}},
        segments=[(0, 5, {"page": 1}), (5, 9, {})],
    )
    rag = open_index()
    rag.add(given)
    assert rag.document("odd / id \n 文") == given
    with pytest.raises(UnknownDocumentError, match="'none'"):
        rag.document("none")


@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="needs root on Linux, to drop its rights"
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_an_index_in_a_read_only_folder_can_be_read(tmp_path, story):
    parts = {"embedder": HashingEmbedder(), "extractor": NameExtractor(), "chunk_size": 16}
    path = tmp_path / "folder" / "i.e2g"
    path.parent.mkdir()
    with E2GraphRAG.open(path, **grouped({"chunk_overlap": 4, **parts})) as rag:
        rag.add(story)
        expected = rag.retrieve("Anna and Bert").context()
    for file in Path(f"{path}.snapshot").rglob("*.*"):
        if file.is_file():
            file.unlink()
    path.chmod(0o444)
    path.parent.chmod(0o555)

    def read() -> str:
        with E2GraphRAG.open(path, **grouped({"chunk_overlap": 4, **parts})) as rag:
            return rag.retrieve("Anna and Bert").context()

    def write() -> str:
        with E2GraphRAG.open(path, **grouped({"chunk_overlap": 4, **parts})) as rag:
            rag.add(numbered(2))
        return "written"

    assert run_without_override(read) == expected
    message = run_without_override(write)
    assert message.startswith("StoreError")
    assert "read-only" in message


def test_two_instances_of_one_file_see_each_others_changes(index_file, open_index):
    one, other = open_index(index_file, max_staleness=0), open_index(index_file)
    one.retrieve("Anna")
    other.add(SourceDocument("new", "Anna met Greta in Bonn."))
    assert "new" in one.document_ids
    assert one.retrieve("Greta", k=1).nodes[0].document_id == "new"
    other.delete("story")
    assert {node.document_id for node in one.retrieve("Anna", k=20).nodes} <= {"new", "numbered"}


def test_summaries_of_a_failed_build_stay_cached(tmp_path, open_index, monkeypatch):
    path = tmp_path / "i.e2g"
    rag = open_index(path, summarizer=CountingLLM(), llm_id="fake")

    def full(*_args, **_options):
        raise OSError("full")

    monkeypatch.setattr(Store, "write_document", full)
    with pytest.raises(OSError, match="full"):
        rag.add(numbered(9))
    assert query(path, "SELECT count(*) FROM content WHERE kind = 'summary'")[0][0] > 0
    assert query(path, "SELECT count(*) FROM documents") == [(0,)]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE manifest SET value = replace(value, '16', '17') WHERE key = 'made_with'",
        "UPDATE manifest SET value = 'cafe' WHERE key = 'generation'",
        "DELETE FROM manifest WHERE key = 'made_with'",
        "DELETE FROM manifest WHERE key = 'generation'",
        "UPDATE manifest SET checksum = checksum + 1",
    ],
)
def test_a_damaged_manifest_is_detected(tmp_path, open_index, story, damage):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(story)
    execute(path, damage)
    with pytest.raises(CorruptStoreError), open_index(path) as rag:
        rag.retrieve("Anna")
    with closing(Store(path)) as store:
        assert not verify_store(store).ok


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM windows WHERE rowid_ = 1",
        "DELETE FROM nodes WHERE level = 0 AND position = 1",
        "DELETE FROM nodes WHERE level = 1",
        "DELETE FROM windows",
    ],
)
def test_missing_rows_are_detected(tmp_path, open_index, story, damage):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(story)
    first = "node_id = (SELECT id FROM nodes WHERE level = 0 AND position = 0)"
    execute(path, damage.replace("rowid_ = 1", first))
    rag = open_index(path)
    with pytest.raises(CorruptStoreError, match=r"of \d+ (nodes|vectors)"):
        rag.retrieve("Anna")
    assert not rag.verify().ok


def test_a_file_without_its_tables_is_not_an_empty_index(tmp_path, open_index, story):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(story)
    with closing(sqlite3.connect(path)) as db:
        tables = "windows nodes documents queue content entity_edits pending mirrored manifest"
        for table in tables.split():
            db.execute(f"DROP TABLE {table}")
        db.commit()
    with pytest.raises(CorruptStoreError, match="are missing"):
        open_index(path)


@pytest.mark.parametrize("happening", ["replaced", "deleted", "folder deleted"])
def test_a_replaced_or_deleted_file_is_neither_read_nor_written_nor_created(
    tmp_path, open_index, story, happening
):
    folder = tmp_path / "folder"
    folder.mkdir()
    path, other = folder / "i.e2g", tmp_path / "o.e2g"
    rag = open_index(path)
    rag.add(story)
    rag.retrieve("Anna")
    with open_index(path) as another, open_index(other) as one:
        another.add(numbered(2))
        one.add(numbered(3))
    replacement = other.read_bytes()
    if happening == "folder deleted":
        shutil.rmtree(folder)
    elif happening == "deleted":
        path.unlink()
    else:
        other.replace(path)
    for work in (
        lambda: rag.retrieve("Anna"),
        lambda: rag.add(numbered(9)),
        lambda: rag.retrieve("Anna"),
        lambda: rag.delete("story"),
        rag.store.reopen,
    ):
        with pytest.raises(IndexGoneError, match=happening.split()[-1]):
            work()
    rag.close()  # waits for the background
    assert path.exists() == (happening == "replaced")
    assert folder.exists() == (happening != "folder deleted")
    if happening == "replaced":
        assert path.read_bytes() == replacement


def test_an_emptied_file_is_not_made_an_index_again(tmp_path, open_index, story):
    path = tmp_path / "i.e2g"
    rag = open_index(path)
    rag.add(story)
    rag.store.database.vacuum()  # leaves no log that could restore it
    path.write_bytes(b"")
    with pytest.raises(StoreError):
        rag.store.reopen()
    assert path.read_bytes() == b""


def test_a_file_shorter_than_a_header_is_not_overwritten(tmp_path, open_index):
    path = tmp_path / "one.txt"
    path.write_text("A")
    with pytest.raises(NotAnIndexError):
        open_index(path)
    assert path.read_text() == "A"


def test_verify_and_export_see_one_state_while_another_thread_writes(open_index, story):
    rag = open_index()
    rag.add(story)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            rag.add(SourceDocument("w", "Walter met Anna. Anna left."))
            rag.delete("w")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        problems = {rag.verify().problems for _ in range(15)}
        exports = {tuple(rag.export()) for _ in range(15)}
    finally:
        stop.set()
        thread.join()
    assert problems == {()}
    assert len(exports) <= 2


def test_the_texts_of_documents_are_never_in_memory_together(open_index, monkeypatch):
    rag, counts = open_index(), []
    rag.add([SourceDocument(id_, f"{id_} met Anna.", metadata={"of": id_}) for id_ in "cabed"])
    expected, read = rag.store.document_headers(), rag.store.database.read

    def count(query, parameters=()):
        rows = read(query, parameters)
        if "* FROM documents" in query:
            counts.append(len(rows))
        return rows

    monkeypatch.setattr("e2graphrag_integrations.store.store._TEXT_ROWS", 2)
    monkeypatch.setattr(rag.store.database, "read", count)
    assert rag.store.document_headers() == expected
    assert [header.id for header in expected] == list("abcde")
    assert counts == [2, 2, 1]
    assert rag.store.document_headers(["d", "a", "d", "no"]) == [expected[0], expected[3]]


def test_a_delete_counts_the_chunks_and_summaries_of_all_its_documents(open_index):
    rag = open_index(group_size=2)
    added = rag.add([numbered(12, "a"), numbered(9, "b", 100)])
    deleted = rag.delete(["a", "b"])
    assert added.summaries > 2
    assert (deleted.chunks, deleted.summaries) == (added.chunks, added.summaries)


def test_a_changed_working_directory_does_not_matter(tmp_path, story, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rag = E2GraphRAG.open("i.e2g", embedder="hashing")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    rag.add(story)
    assert rag.retrieve("Anna").nodes
    assert rag.path == "i.e2g"
    with pickle.loads(pickle.dumps(rag)) as again:  # noqa: S301
        assert again.document_ids == ["story"]
    rag.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["i.e2g", "i.e2g.snapshot", "sub"]


@pytest.mark.parametrize("name", ["file:i.e2g", f"{'x' * 243}.e2g"])
def test_odd_names_of_files_work(tmp_path, open_index, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with open_index(name) as rag:
        rag.add(numbered(2))
        for _ in range(2):
            rag.copy_to(f"{name[:-4]}.c")
        rag.export_to(f"{name[:-4]}-e")
    E2GraphRAG.import_from(f"{name[:-4]}-e", f"{name[:-4]}.i")
    for made in (name, f"{name[:-4]}.c", f"{name[:-4]}.i"):
        assert Path(made).is_file()
        with open_index(made) as again:
            assert len(again.document_ids) == 1


def test_a_name_that_leaves_no_room_for_a_journal_is_refused(tmp_path, open_index):
    with pytest.raises(InvalidInputError, match="too long"):
        open_index(tmp_path / f"{'x' * 246}.e2g")
    with open_index() as rag, pytest.raises(InvalidInputError, match="too long"):
        rag.copy_to(tmp_path / f"{'x' * 246}.e2g")


def test_a_reader_who_may_not_write_sees_what_others_write(index_file, open_index, monkeypatch):
    with monkeypatch.context() as reading:
        reading.setattr(os, "access", lambda *_: False)
        reader = open_index(index_file)
    known = reader.document_ids
    with open_index(index_file) as owner:
        owner.add(numbered(2, "while open"))
        assert reader.document_ids == [*known, "while open"]
    assert reader.document_ids == [*known, "while open"]


def test_a_link_in_a_read_only_folder_finds_the_log_of_its_index(tmp_path, open_index, monkeypatch):
    link = tmp_path / "links" / "i.e2g"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "i.e2g")
    owner = open_index(tmp_path / "i.e2g")
    owner.add(numbered(2))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert open_index(link).document_ids == owner.document_ids


@pytest.mark.parametrize("write", ["copy_to", "copy_index", "import_from"])
def test_a_file_that_is_open_is_not_replaced(tmp_path, open_index, index_file, write):
    """Its log would be taken for that of the new file."""
    target = tmp_path / "target.e2g"
    holder = open_index(target)
    holder.add(numbered(3))
    with open_index(index_file) as rag:
        rag.export_to(tmp_path / "exported")
        if write == "copy_to":
            with pytest.raises(StoreError, match=r"it is open"):
                rag.copy_to(index_file)
            work = partial(rag.copy_to, target)
        else:
            target.unlink()
            work = {
                "copy_index": partial(copy_index, index_file, target),
                "import_from": partial(E2GraphRAG.import_from, tmp_path / "exported", target),
            }[write]
        with pytest.raises(StoreError, match=r"it is open.*target\.e2g-wal"):
            work()
        if write == "copy_to":
            assert holder.document_ids
        holder.close()
        (tmp_path / "target.e2g-wal").unlink(missing_ok=True)  # of the deleted file
        work()
        assert open_index(target).document_ids == rag.document_ids


@pytest.mark.parametrize("through_rows", [False, True])
def test_a_file_that_is_opened_during_a_copy_is_not_replaced(
    tmp_path, open_index, index_file, monkeypatch, through_rows
):
    target = tmp_path / "target.e2g"
    open_index(target).close()
    holders = []

    def open_target(_):
        holders.append(open_index(target))
        holders[0].add(numbered(3))

    monkeypatch.setattr("e2graphrag_integrations._utils.new_path.sync_file", open_target)
    with open_index(index_file) as rag:
        copy = partial(copy_store, rag.store, replace=True) if through_rows else rag.copy_to
        with pytest.raises(StoreError, match="it is open"):
            copy(str(target))
    assert holders[0].document_ids == [numbered(3).id]
    assert holders[0].verify().ok
    assert not list(tmp_path.glob("*.new-*"))


def test_closing_a_replaced_index_loses_nothing_of_the_new_one(tmp_path, open_index, story):
    path, other = tmp_path / "i.e2g", tmp_path / "o.e2g"
    rag = open_index(path)
    with open_index(other) as one:
        one.add(numbered(3))
    rag.store.database.vacuum()  # leaves an empty log
    other.replace(path)
    new = open_index(path)
    new.add(story)
    rag.close()
    assert "story" in new.document_ids
    new.close()
    assert "story" in open_index(path).document_ids


def test_an_interrupt_at_the_begin_of_a_read_transaction_ends_it(index_file, open_index):
    rag = open_index(index_file)
    database = rag.store.database
    connection = database._reader()

    class Interrupted:
        in_transaction = property(lambda _: connection.in_transaction)

        def execute(self, statement):
            connection.execute(statement)
            if statement == "BEGIN":
                raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_reader", Interrupted)
        with pytest.raises(KeyboardInterrupt), rag.read_transaction():
            pass
    assert not connection.in_transaction


def test_an_index_behind_a_broken_link_says_why_it_cannot_be_opened(tmp_path):
    (tmp_path / "i.e2g").symlink_to(tmp_path / "nowhere" / "i.e2g")
    with pytest.raises(StoreError, match="a link leads nowhere"):
        E2GraphRAG.open(tmp_path / "i.e2g", embedder="hashing")
