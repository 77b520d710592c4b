"""Files of schema version 1 are migrated completely or left unchanged."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations._utils.string_array import StringArray
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    SchemaVersionError,
    SettingsMismatchError,
)
from e2graphrag_integrations.snapshot import array_files
from e2graphrag_integrations.snapshot.array_files import load_arrays, save_arrays
from e2graphrag_integrations.store import connection, migrations
from e2graphrag_integrations.store.pending_documents import read_pending
from e2graphrag_integrations.store.queue import enqueue
from e2graphrag_integrations.store.schema import SCHEMA_VERSION, TABLES, checksum
from e2graphrag_integrations.store.store import Store
from fakes import STORY, CountingLLM, NameExtractor, numbered, without_markers

VERSION_1 = Path(__file__).parent / "data" / "schema_v1.e2g"
"""Written by the last version of the package with schema version 1."""

DOCUMENTS = [
    SourceDocument("story", STORY, "Harbour", {"kind": "tale", "year": 1895}),
    numbered(12),
    SourceDocument(
        "pages", "Anna sat. Bert sat.", segments=[(0, 9, {"page": 1}), (10, 19, {"page": 2})]
    ),
    SourceDocument("empty", ""),
]
CUT = {"chunk_size": 9, "chunk_overlap": 3, "group_size": 3}
QUESTIONS = ("Where did Anna meet Bert?", "Who sailed at night?", "Item 7")


class OldPromptsLLM(CountingLLM):
    """Gives the same answers as when the prompts had no markers yet."""

    def __call__(self, prompt):
        return super().__call__(without_markers(prompt))


def parts(llm=None):
    return {
        "embedder": HashingEmbedder(16),
        "extractor": NameExtractor(),
        "summarizer": llm or OldPromptsLLM(),
        "summarizer_id": "counting",
    }


@pytest.fixture
def old(tmp_path):
    """Copy the file of schema version 1."""
    path = tmp_path / "old.e2g"
    shutil.copy(VERSION_1, path)
    return path


@pytest.fixture
def open_old(open_index):
    """Return a function that opens a file with its own settings."""

    def make(path, llm=None):
        return open_index(path, **parts(llm), chunk_size=None, chunk_overlap=None)

    return make


@pytest.fixture
def fresh(open_index):
    """Index the same documents with the current version."""
    rag = open_index(**parts(), **CUT)
    rag.add(DOCUMENTS)
    return rag


def query(path, statement):
    with closing(sqlite3.connect(path)) as db:
        return db.execute(statement).fetchall()


def execute(path, statement):
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(statement).rowcount
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def rows_of(path, *tables):
    return {table: query(path, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}  # noqa: S608 - names of tables


def answers(rag, **options):
    return [rag.retrieve(question, k=9, **options).nodes for question in QUESTIONS]


def test_the_fixture_has_schema_version_1():
    """The other tests depend on it. The file is read as bytes, because SQLite may change it."""
    assert int.from_bytes(VERSION_1.read_bytes()[60:64], "big") == 1 < SCHEMA_VERSION


def test_a_migrated_file_equals_a_new_one(old, fresh, open_old):
    unchanged = ("nodes", "windows", "content")
    before = rows_of(old, *unchanged)
    with open_old(old) as rag:
        assert rag.verify().ok
        assert [rag.document(document.id) for document in DOCUMENTS] == DOCUMENTS
        assert {state.status for state in rag.status()} == {"done"}
    assert query(old, "PRAGMA user_version") == [(SCHEMA_VERSION,)]
    assert rows_of(old, *unchanged) == before  # including unused content
    schema = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        expected = db.execute(schema).fetchall()
    plain = [(name, " ".join(sql.replace('"', "").split())) for name, sql in query(old, schema)]
    assert plain == [(name, " ".join(sql.replace('"', "").split())) for name, sql in expected]
    assert query(old, "PRAGMA foreign_key_check") == []
    with open_old(old) as rag:
        rag.reindex()
        assert list(rag.export()) == list(fresh.export())
        assert answers(rag) == answers(fresh)
        where = {"page": 2}
        assert answers(rag, where=where) == answers(fresh, where=where)


def test_an_old_file_is_migrated_once(old, open_old):
    with open_old(old) as rag:
        rag.retrieve("Anna")
    before = rows_of(old, "documents", "manifest")
    with open_old(old) as rag:
        assert rag.verify().ok
    assert rows_of(old, "documents", "manifest") == before


def test_updates_and_deletes_after_a_migration_cost_the_same(old, fresh, open_old):
    llm = OldPromptsLLM()
    rag = open_old(old, llm)
    rag.reindex()
    assert rag.add(DOCUMENTS).skipped == tuple(document.id for document in DOCUMENTS)
    assert llm.calls == 0
    changed = SourceDocument("numbered", numbered(12).text + " Zoe came.")
    assert rag.estimate(update=changed).llm_calls == fresh.estimate(update=changed).llm_calls
    assert rag.update(changed).llm_calls == fresh.update(changed).llm_calls
    for index in (rag, fresh):
        index.delete(["story", "empty"])
        index.add(SourceDocument("new", "Walter met Anna. Anna left for Rome. Walter stayed."))
        assert index.verify().ok
    assert list(rag.export()) == list(fresh.export())
    assert answers(rag) == answers(fresh)
    assert rag.compact().dropped == 1  # the unused content of the fixture
    assert rag.verify().ok


@pytest.mark.parametrize(
    "other",
    [
        {"chunking": "content"},
        {"grouping": "content"},
        {"chunking": "content", "grouping": "content"},
        {"chunk_size": 10},
        {"group_size": 4},
    ],
)
def test_a_migrated_file_rejects_other_settings(old, other):
    first = next(iter(other))
    with pytest.raises(SettingsMismatchError, match=f"was built with {first}="):
        E2GraphRAG.open(old, **parts(), **other)
    with E2GraphRAG.open(old, **parts(), **CUT, chunking="fixed", grouping="fixed") as rag:
        assert (rag.settings.chunking, rag.settings.grouping) == ("fixed", "fixed")


def test_pending_documents_survive_a_migration(old, open_old):
    value = json.dumps([["page", "Text.", {}]], separators=(",", ":"))
    with closing(sqlite3.connect(old)) as db:
        db.execute(
            "CREATE TABLE pending (id TEXT PRIMARY KEY, value TEXT NOT NULL, "
            "checksum INTEGER NOT NULL) WITHOUT ROWID"
        )
        row = ("source", value)
        db.execute("INSERT INTO pending VALUES (?, ?, ?)", (*row, checksum(*row)))
        db.commit()
    rag = open_old(old)
    assert read_pending(rag.store) == {"source": [["page", "Text.", {}]]}
    assert rag.verify().ok


# Failures


def test_a_migration_that_fails_midway_changes_nothing(old, open_old, monkeypatch):
    before = rows_of(old, "documents", "manifest", "nodes", "windows", "content", "sqlite_master")
    real, hashed = migrations.content_hash, []

    def failing(document):
        hashed.append(document.id)
        if len(hashed) == 3:
            raise MemoryError("in the middle")
        return real(document)

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "content_hash", failing)
        with pytest.raises(MemoryError, match="in the middle"):
            Store(old)
    assert len(hashed) == 3
    assert query(old, "PRAGMA user_version") == [(1,)]
    assert (
        rows_of(old, "documents", "manifest", "nodes", "windows", "content", "sqlite_master")
        == before
    )
    rag = open_old(old)
    assert rag.verify().ok
    assert rag.document_ids == ["empty", "numbered", "pages", "story"]


def test_a_migration_that_fails_at_its_end_changes_nothing(old, open_old, monkeypatch):
    def step(db, path):
        migrations._migrate_from_1(db, path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "_MIGRATIONS", {1: step})
        with pytest.raises(KeyboardInterrupt):
            Store(old)
    assert query(old, "PRAGMA user_version") == [(1,)]
    assert query(old, "SELECT count(*) FROM sqlite_master WHERE name = 'queue'") == [(0,)]
    assert open_old(old).verify().ok


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE documents SET title = 'Port' WHERE id = 'story'",
        "UPDATE documents SET metadata = '{' WHERE id = 'story'",
        "UPDATE documents SET segments = '[]' WHERE id = 'pages'",
        "UPDATE documents SET text = text || '.' WHERE id = 'empty'",
        "UPDATE documents SET status = 'odd' WHERE id = 'numbered'",
        "UPDATE documents SET checksum = checksum + 1 WHERE id = 'numbered'",
        "UPDATE manifest SET value = '{}' WHERE key = 'made_with'",
    ],
)
def test_a_damaged_row_stops_the_migration_and_changes_nothing(old, damage):
    execute(old, damage)
    before = old.read_bytes()
    with pytest.raises(CorruptStoreError, match="does not match its checksum"):
        Store(old)
    assert old.read_bytes() == before
    assert query(old, "PRAGMA user_version") == [(1,)]


def test_a_read_only_old_file_gives_a_clear_error(old, monkeypatch):
    before = old.read_bytes()
    monkeypatch.setattr(connection.os, "access", lambda *_: False)  # root may write anything
    with pytest.raises(
        SchemaVersionError, match=r"schema version 1 and is read-only.*version 5: copy it to"
    ):
        Store(old)
    assert old.read_bytes() == before
    assert [file.name for file in old.parent.iterdir()] == ["old.e2g"]
    monkeypatch.undo()
    with closing(Store(old)) as store:
        assert len(store.content_hashes()) == 4


# Schema version 3, which lacks only the languages of the documents, and version 2, which lacks also
# the table of entity edits


def remove_languages(db):
    """Give the table of documents the columns of schema version 3."""
    for *fields, _, _ in db.execute("SELECT * FROM documents").fetchall():
        crc = checksum(*fields)
        db.execute("UPDATE documents SET checksum = ? WHERE id = ?", (crc, fields[0]))
    db.execute("DROP INDEX documents_by_stamp")
    db.execute("ALTER TABLE documents DROP COLUMN language")


@pytest.fixture
def version_3(tmp_path, open_index, story):
    path = tmp_path / "three.e2g"
    with open_index(path) as rag:
        rag.add([story, SourceDocument("dream", "曹雪芹著有《红楼梦》。")])
    with closing(sqlite3.connect(path)) as db:
        remove_languages(db)
        db.execute("PRAGMA user_version = 3")
        db.commit()
    return path


def test_documents_of_version_3_are_english_unless_their_script_is_another(version_3, open_index):
    with open_index(version_3) as rag:
        assert rag.verify().ok
        assert rag.store.languages() == {"story": "en", "dream": "zh"}
        assert not rag.is_outdated
        nodes = rag.retrieve("Where did Anna meet Bert?", k=9).nodes
        assert {node.document_id: node.language for node in nodes} == rag.store.languages()
    languages = query(version_3, "SELECT id, language FROM documents ORDER BY id")
    assert languages == [("dream", "zh"), ("story", None)]
    with open_index(version_3) as rag:
        assert rag.add(rag.document("dream")).skipped == ("dream",)


def test_a_snapshot_of_version_3_gets_the_languages(tmp_path, open_index, story):
    path = tmp_path / "three.e2g"
    with open_index(path) as rag:
        rag.add([story, SourceDocument("dream", "曹雪芹著有《红楼梦》。", language="en")])
        assert rag.retrieve("Where is Anna?").nodes
    with closing(sqlite3.connect(path)) as db:
        remove_languages(db)
        db.execute("PRAGMA user_version = 3")
        db.commit()
    with open_index(path) as rag:
        nodes = rag.retrieve("Where did Anna meet Bert?", k=9).nodes
        assert {node.language for node in nodes} == {"en", "zh"}
        assert rag.verify().problems == ()


def test_a_read_only_file_of_version_3_is_read_as_it_is(version_3, open_index, monkeypatch):
    before = version_3.read_bytes()
    monkeypatch.setattr(connection.os, "access", lambda *_: False)  # root may write anything
    with open_index(version_3) as rag:
        assert rag.retrieve("Where is Anna?").nodes
        assert rag.stats().languages == {"en": 2}
        assert rag.document("dream").language is None
    assert version_3.read_bytes() == before


@pytest.fixture
def version_2(tmp_path, open_index, story):
    path = tmp_path / "two.e2g"
    with open_index(path) as rag:
        rag.add(story)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE entity_edits")
        remove_languages(db)
        db.execute("PRAGMA user_version = 2")
        db.commit()
    return path


def test_a_file_of_version_2_gets_the_table_of_entity_edits(version_2, open_index):
    with open_index(version_2) as rag:
        assert rag.verify().ok
        rag.edit_entities(alias={"Bobby": "Bert"})
    assert query(version_2, "PRAGMA user_version") == [(SCHEMA_VERSION,)]
    assert query(version_2, "SELECT edit FROM entity_edits") == [('["alias","Bobby","Bert"]',)]


def test_a_read_only_file_of_version_2_is_read_as_it_is(version_2, open_index, monkeypatch):
    before = version_2.read_bytes()
    monkeypatch.setattr(connection.os, "access", lambda *_: False)  # root may write anything
    with open_index(version_2) as rag:
        assert len(rag.edits()) == 0
        assert rag.retrieve("Where is Anna?").nodes
    assert version_2.read_bytes() == before


# Concurrent migrations


def test_two_threads_can_open_an_old_file_at_once(old, open_old):
    gate, outcome = threading.Barrier(2, timeout=20), []

    def open_it():
        gate.wait()
        with E2GraphRAG.open(old, **parts()) as rag:
            outcome.append((rag.verify().ok, list(rag.export())))

    threads = [threading.Thread(target=open_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert outcome == [(True, list(open_old(old).export()))] * 2


OPEN = """
import sys
from e2graphrag_integrations.store.store import Store

print("ready", flush=True)
sys.stdin.readline()
store = Store(sys.argv[1])
print(sorted(store.content_hashes()), store.read("PRAGMA user_version"), flush=True)
sys.stdin.readline()
store.close()
"""


def test_two_processes_can_open_an_old_file_at_once(old, open_old):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, old],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for wanted in ("ready\n", "['empty', 'numbered', 'pages', 'story'] [(5,)]\n"):
            assert [process.stdout.readline() for process in processes] == [wanted] * 2
            for process in processes:
                process.stdin.write("\n")
                process.stdin.flush()
        assert [process.wait(20) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert open_old(old).verify().ok


def test_an_open_instance_sees_documents_that_another_enqueues(old, open_old):
    one, other = open_old(old), open_old(old)
    enqueue(other.store, [numbered(3, "late")], {})
    assert [state.id for state in one.status() if state.status == "pending"] == ["late"]
    assert one.resume().documents == 1
    assert "late" in other.document_ids


# Snapshots of an old file


@pytest.fixture(params=["zipped", "folder"])
def with_snapshot(tmp_path, open_old, request):
    """Create a file of schema version 1 with a snapshot.

    The snapshot either has the layout of that version, or differs from a current one only in its
    format number.
    """
    migrated, old = tmp_path / "migrated.e2g", tmp_path / "with.e2g"
    shutil.copy(VERSION_1, migrated)
    with open_old(migrated) as rag:
        rag.retrieve("Anna")
    [folder] = Path(f"{migrated}.snapshot").iterdir()
    arrays, meta = load_arrays(folder)
    for later in ("chunking", "grouping"):
        del meta["made_with"][later]
    shutil.copy(VERSION_1, old)
    [(meta["generation"],)] = query(old, "SELECT value FROM manifest WHERE key = 'generation'")
    if request.param == "zipped":
        shutil.rmtree(folder)
        folder.mkdir()
        meta["nodes"] = list(StringArray(arrays.pop("ids"), arrays.pop("ids_bounds")))
        meta["entities"] = list(StringArray(arrays.pop("names"), arrays.pop("names_bounds")))
        np.savez(folder / "arrays.npz", **arrays)
        meta["checksum"] = zlib.crc32((folder / "arrays.npz").read_bytes())
        text = json.dumps(meta, ensure_ascii=False)
        wrapped = {"format": 2, "checksum": zlib.crc32(text.encode()), "meta": text}
        (folder / "meta.json").write_text(json.dumps(wrapped))
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(array_files, "FORMAT", 2)
            save_arrays(folder, arrays, meta)
    Path(f"{old}.snapshot").mkdir()
    shutil.move(folder, f"{old}.snapshot/{meta['generation']}")
    return old


def test_an_old_snapshot_does_not_change_answers(with_snapshot, old, open_old):
    rag, without = open_old(with_snapshot), open_old(old)
    assert answers(rag) == answers(without)
    assert rag.stats().settings == without.stats().settings


def test_an_old_file_with_a_snapshot_passes_verify(with_snapshot, open_old):
    """The migration changes the manifest but not the generation, so the snapshot is stale."""
    with open_old(with_snapshot) as rag:
        assert rag.verify().problems == ()
        rag.retrieve("Anna")
        assert rag.verify().problems == ()
