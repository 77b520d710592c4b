"""`verify`: sound files pass, with the counts of what was looked at."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.store.schema import checksum
from fakes import CountingLLM, numbered


def test_a_sound_index_passes_and_says_what_was_checked(open_index):
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


def test_a_file_with_very_many_problems_stops_early(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path, chunk_size=4, chunk_overlap=0) as rag:
        rag.add(numbered(200))
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE content SET checksum = checksum + 1")
        db.commit()
    problems = open_index(path, chunk_size=4, chunk_overlap=0).verify().problems
    assert len(problems) == 101
    assert problems[-1] == "and more"


def test_vectors_of_different_lengths_are_found(tmp_path, open_index):
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
    assert problem == "vectors of different lengths, in bytes: [1020, 1024]"


def test_one_bad_document_does_not_hide_another(tmp_path, open_index):
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
