"""The group `indexes`: statistics, damage, space, export and import."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest


def test_stats_prints_the_counts_of_an_index(book_index, call):
    stats = call("indexes", "stats", book_index, "--json").json()
    assert stats["documents"] == 1
    assert stats["chunks"] > stats["summaries"] > 0
    assert stats["entities"] > 5
    code, out, _ = call("indexes", "stats", book_index)
    assert code == 0
    assert f"chunks: {stats['chunks']}\n" in out
    assert stats["subjects"] == {"none": 1}
    assert "subjects: none 1\n" in out
    assert "trusted_sources: -\n" in out


def test_verify_distinguishes_intact_from_damaged_files(book_index, call):
    code, out, _ = call("indexes", "verify", book_index)
    assert (code, out.startswith(f"{book_index}: sound (")) == (0, True)
    with closing(sqlite3.connect(book_index)) as db, db:
        db.execute("UPDATE nodes SET text = 'changed' WHERE level = 0 AND position = 1")
    report = call("indexes", "verify", book_index, "--json").json(2)
    assert report["problems"]
    code, out, _ = call("indexes", "verify", book_index)
    assert (code, out.startswith(f"{book_index}: damaged (")) == (2, True)


def test_compact_reports_the_size_before_and_after(index, call):
    assert call("documents", "delete", index, "alice.txt", "queen.md").code == 0
    size = index.stat().st_size
    report = call("indexes", "compact", index, "--json").json()
    assert report["bytes_before"] == size
    assert report["bytes_after"] == index.stat().st_size <= size
    assert report["dropped"] == 0
    code, out, _ = call("indexes", "compact", index)
    size = index.stat().st_size
    assert (code, out) == (0, f"{index}: {size} to {size} bytes, 0 cached results dropped\n")
    assert call("indexes", "verify", index).code == 0


def test_imported_export_equals_the_index(index, tmp_path, call):
    exported, copy = tmp_path / "out", tmp_path / "b.e2g"
    assert call("export", "folder", index, exported) == (0, f"wrote {exported}\n", "")
    folder = str(tmp_path / "o2")
    assert call("export", "folder", index, folder, "--json").json() == {"folder": folder}
    assert call("indexes", "import", exported, "--out", copy) == (0, f"wrote {copy}\n", "")
    other = str(tmp_path / "c.e2g")
    assert call("indexes", "import", exported, "--out", other, "--json").json() == {"file": other}
    question = ["Who gave Alice a cup?", "--json"]
    assert call("query", index, *question) == call("query", copy, *question)
    assert call("indexes", "verify", copy).code == 0


@pytest.mark.slow
def test_reembed_estimates_and_replaces_the_embedding_model(index, call):
    estimate = call("indexes", "reembed", index, "all-MiniLM-L6-v2", "--estimate", "--json").json()
    assert estimate["windows"] > 0
    code, out, _ = call("indexes", "reembed", index, "all-MiniLM-L6-v2", "--estimate")
    assert (code, f"{estimate['tokens']:,} tokens; no LLM calls" in out) == (0, True)
    code, out, _ = call("indexes", "reembed", index, "all-MiniLM-L6-v2")
    assert (code, "embedded again" in out) == (0, True)
    assert call("indexes", "stats", index, "--json").json()["dimension"] == 384
    code, out, _ = call("indexes", "reembed", index, "all-MiniLM-L6-v2")
    assert (code, "nothing to do" in out) == (0, True)
    assert call("indexes", "verify", index).code == 0
