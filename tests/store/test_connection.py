"""Errors of SQLite as errors of this package."""

from __future__ import annotations

import contextlib
import gc
import sqlite3
from pathlib import PurePosixPath, PureWindowsPath

import pytest

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    NotAnIndexError,
    StoreError,
    StoreLockedError,
)
from e2graphrag_integrations.store.connection import connect, file_uri, translate_error


@pytest.mark.parametrize(
    ("message", "kind", "advice"),
    [
        ("database is locked", StoreLockedError, "wait for it"),
        ("database table is busy", StoreLockedError, "wait for it"),
        ("file is not a database", NotAnIndexError, "pass a different path"),
        ("database disk image is malformed", CorruptStoreError, "restore a backup"),
        ("no such table: nodes", CorruptStoreError, "restore a backup"),
        ("attempt to write a readonly database", StoreError, "copy it to a writable folder"),
        ("database or disk is full", StoreError, "free some space"),
        ("disk I/O error", StoreError, "i.e2g: disk I/O error"),
    ],
)
def test_an_error_of_sqlite_becomes_a_typed_error_with_advice(message, kind, advice):
    error = translate_error(sqlite3.OperationalError(message), "i.e2g")
    assert type(error) is kind
    assert advice in str(error)


@pytest.mark.slow
def test_a_connection_that_cannot_be_opened_raises_nothing_when_it_is_dropped(tmp_path):
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(str(tmp_path / "deleted.e2g"), timeout=1)
    gc.collect()  # the tests turn what `__del__` raises into an error


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PureWindowsPath(r"\\server\share\a b.e2g"), "file:////server/share/a%20b.e2g"),
        (PureWindowsPath(r"C:\a.e2g"), "file:///C:/a.e2g"),
        (PurePosixPath("/a?b.e2g"), "file:///a%3Fb.e2g"),
    ],
)
def test_the_uri_of_a_file_never_names_a_host(path, uri):
    assert file_uri(path) == uri


def test_sqlite_opens_a_path_after_an_empty_host(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as db:
        db.execute("CREATE TABLE a (b)")
    uri = (tmp_path / "a.db").as_uri().replace("file:///", "file:////")
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
        assert db.execute("SELECT count(*) FROM a").fetchone() == (0,)
