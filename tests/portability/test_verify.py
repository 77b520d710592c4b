"""`verify` passes valid files and reports damage, missing rows and stale snapshots."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from e2graphrag_integrations import HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError, E2GraphRAGError
from e2graphrag_integrations.snapshot.array_files import load_arrays, save_arrays
from e2graphrag_integrations.store.queue import enqueue
from e2graphrag_integrations.store.rows import checksum
from fakes import CountingLLM, damage_file, numbered


def test_a_valid_index_passes_with_the_number_of_checked_items(open_index):
    rag = open_index(summarizer=CountingLLM(), chunk_size=4, chunk_overlap=0)
    rag.add([numbered(12), SourceDocument("empty", " \n ")])
    report = rag.verify()
    assert report.ok
    assert report.problems == ()
    assert report.checked["documents"] == 2
    assert report.checked["nodes"] == 12 + 3
    assert report.checked["windows"] == 15
    assert report.checked["vector"] == 15
    assert report.checked["extraction"] == 12
    assert report.checked["summary"] == 3


def test_an_empty_index_passes(open_index):
    assert open_index().verify().ok


def test_verify_stops_after_a_hundred_problems(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path, chunk_size=4, chunk_overlap=0) as rag:
        rag.add(numbered(200))
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE content SET checksum = checksum + 1")
        db.commit()
    problems = open_index(path, chunk_size=4, chunk_overlap=0).verify().problems
    assert len(problems) == 101
    assert problems[-1] == "and more"


def test_vectors_of_different_lengths_are_reported(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(numbered(9))
    with closing(sqlite3.connect(path)) as db:
        key, value = db.execute("SELECT key, value FROM content WHERE kind = 'vector'").fetchone()
        db.execute(
            "UPDATE content SET value = ?, checksum = ? WHERE key = ?",
            (value[:-4], checksum(key, "vector", value[:-4]), key),
        )
        db.commit()
    [problem] = open_index(path).verify().problems
    assert problem == "vectors have different lengths, in bytes: [1020, 1024]"


def test_all_damaged_documents_are_reported(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add([numbered(2, "one"), numbered(3, "two")])
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE documents SET title = 'x'")
        db.commit()
    problems = open_index(path).verify().problems
    assert [name for name in ("one", "two") if any(repr(name) in p for p in problems)] == [
        "one",
        "two",
    ]


# Snapshots on disk


@pytest.fixture
def path(tmp_path, open_index, story):
    """Create an index with a snapshot and a BM25 index on disk, and close it."""
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add([story, numbered(6)])
        rag.retrieve("Where did Anna meet Bert?")
        assert rag.verify().ok
    return path


def snapshot_of(path):
    [folder] = Path(f"{path}.snapshot").iterdir()
    return folder


def tamper(folder, name, change):
    """Change an array or a value of the metadata, with correct checksums."""
    arrays, meta = load_arrays(folder)
    if name in meta:
        meta[name] = change(meta[name])
    else:
        changed = change(arrays[name].copy())
        assert not np.array_equal(changed, arrays[name])
        arrays[name] = changed
    other = folder.with_name("other")
    save_arrays(other, arrays, meta)
    for file in other.iterdir():  # keeps the subfolders of the original
        file.replace(folder / file.name)
    other.rmdir()


def swapped(values):
    values[[0, -1]] = values[[-1, 0]]
    return values


def one_more(values):
    values[-1] += 1
    return values


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("edges_data", one_more),
        ("edges_data", lambda values: -values),
        ("edges_indices", lambda values: values[::-1]),
        ("postings_data", one_more),
        ("postings_indices", lambda values: (values + 1) % (values.max() + 1)),
        ("vectors", swapped),
        ("vectors", lambda values: np.nextafter(values, np.float32(2))),
        ("window_spans", one_more),
        ("named", lambda values: ~values),
        ("words", one_more),
        ("node_start", one_more),
        ("node_first_leaf", one_more),
        ("record_of_node", lambda values: values * 0),
        ("ids", lambda ids: np.roll(ids, 1)),
        ("names", lambda names: names[::-1]),
        ("mention_entities", swapped),
        ("titles", lambda _: ["Another", None]),
        ("made_with", lambda made_with: made_with | {"chunk_size": "17"}),
        ("records", lambda records: [{**record, "kind": "lie"} for record in records]),
    ],
)
def test_a_snapshot_that_differs_from_the_rows_is_reported(path, open_index, name, change):
    tamper(snapshot_of(path), name, change)
    problems = open_index(path).verify().problems
    assert f"{name!r} in the snapshot does not match the rows: delete {path}.snapshot" in problems


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("part", "name", "change"),
    [
        (".", "window_nodes", swapped),
        (".", "ids_bounds", one_more),
        (".", "names_bounds", swapped),
        ("words", "bounds", lambda bounds: np.maximum(bounds, 1)),
    ],
)
def test_a_snapshot_that_cannot_be_read_is_rebuilt(path, open_index, part, name, change):
    question = "Where did Anna meet Bert?"
    expected = open_index(path).retrieve(question).nodes
    tamper(snapshot_of(path) / part, name, change)
    rag = open_index(path)
    assert rag.verify().ok
    assert rag.retrieve(question).nodes == expected


def test_deleting_a_stale_snapshot_removes_its_problems(path, open_index):
    tamper(snapshot_of(path), "edges_data", one_more)
    with open_index(path) as rag:
        assert not rag.verify().ok
    shutil.rmtree(f"{path}.snapshot")
    with open_index(path) as rag:
        assert rag.verify().ok
        assert rag.retrieve("Where did Anna meet Bert?").nodes
        assert rag.verify().ok


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("data", lambda values: values + 1),
        ("indices", lambda values: values[::-1]),
        ("words", lambda words: np.frombuffer(words.tobytes().replace(b"anna", b"olga"), "u1")),
    ],
)
def test_a_bm25_index_that_differs_from_the_texts_is_reported(path, open_index, part, change):
    tamper(snapshot_of(path) / "words", part, change)
    [problem] = open_index(path).verify().problems
    assert problem.startswith("'words' in the snapshot does not match the rows")


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "name", ["vectors.npy", "ids.npy", "meta.json", "words/data.npy", "words/meta.json"]
)
@pytest.mark.parametrize("damage", ["gone", "empty", "short", "flipped"])
def test_a_damaged_or_missing_snapshot_is_not_a_problem(path, open_index, name, damage):
    file = snapshot_of(path) / name
    damage_file(file, damage)
    rag = open_index(path)
    assert rag.verify().problems == ()
    assert rag.retrieve("Where did Anna meet Bert?").nodes


def test_a_snapshot_of_another_generation_is_not_a_problem(path, open_index):
    folder = snapshot_of(path)
    folder.rename(folder.with_name("0" * 32))
    assert open_index(path).verify().ok


def test_waiting_documents_are_checked_and_counted(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(numbered(3))
        assert "waiting documents" not in rag.verify().checked
        enqueue(rag.store, [numbered(3, "late"), numbered(4, "later")], {})
        report = rag.verify()
        assert (report.ok, report.checked["waiting documents"]) == (True, 2)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE queue SET document = replace(document, 'Item 0', 'Item 9')")
        db.commit()
    [problem] = open_index(path).verify().problems
    assert "waiting document 'late' does not match its checksum" in problem


# Flipped bits


@pytest.mark.parametrize(
    "statement",
    ["UPDATE nodes SET words = 9e999", "UPDATE windows SET start = -9e999"],
)
def test_an_infinite_number_is_a_damaged_row(tmp_path, open_index, statement):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(numbered(6))
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
    rag = open_index(path)
    assert not rag.verify().ok
    with pytest.raises(CorruptStoreError):
        rag.retrieve("Item 1")


@pytest.mark.parametrize("name", [b"nodes_by_place", b"REFERENCES"])
def test_a_flipped_bit_in_the_schema_raises_a_typed_error(tmp_path, open_index, name):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(numbered(6))
    original = bytearray(path.read_bytes())
    original[original.index(name) + 3] ^= 0x80
    path.write_bytes(original)
    with pytest.raises(E2GraphRAGError):
        open_index(path)


@pytest.mark.slow
def test_a_flipped_bit_is_detected_or_harmless(tmp_path, open_index):
    """Opening raises a typed error, or `verify` fails, or all contents are unchanged."""
    path = tmp_path / "i.e2g"
    options = {"embedder": HashingEmbedder(8), "chunk_size": 8, "chunk_overlap": 0}

    def state():
        with open_index(path, **options) as rag:
            if not rag.verify().ok:
                return "damaged"
            export = tuple(rag.export())
            tables = ("manifest", "documents", "queue", "nodes", "windows", "content")
            queries = [f"SELECT * FROM {table} ORDER BY 1, 2" for table in tables]  # noqa: S608 - names of tables
            return export, tuple(tuple(rag.store.read(query)) for query in queries)

    with open_index(path, **options) as rag:
        rag.add([SourceDocument("d", "Anna met Bert in Oslo. Cleo left.", "T"), numbered(5)])
        enqueue(rag.store, [numbered(2, "late")], {})
        rag.compact()
    original = path.read_bytes()
    expected = state()
    random_numbers, outcomes = random.Random(3), []  # noqa: S311 - the same flips each time
    for number in range(250):
        flipped = bytearray(original)
        flipped[random_numbers.randrange(len(original))] ^= 1 << random_numbers.randrange(8)
        if number % 10 == 0:  # cut short instead
            flipped = bytearray(original[: random_numbers.randrange(len(original))])
        shutil.rmtree(f"{path}.snapshot", ignore_errors=True)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        path.write_bytes(flipped)
        try:
            found = state()
        except E2GraphRAGError:
            found = "error"
        assert found in ("damaged", "error", expected)
        outcomes.append(found)
    assert {"damaged", expected} <= set(outcomes)
