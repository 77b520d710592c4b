"""Where an index is: a file, in memory, or in a schema of a Postgres database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from e2graphrag_integrations._utils.postgres_urls import (
    is_postgres_url,
    is_schema_name,
    parse_postgres_url,
)
from e2graphrag_integrations._utils.validation import check_seconds, check_text
from e2graphrag_integrations.errors import InvalidInputError, MissingDependencyError
from e2graphrag_integrations.store.database import Database
from e2graphrag_integrations.store.sqlite import SQLiteDatabase

if TYPE_CHECKING:
    from e2graphrag_integrations.store.postgres.database import PostgresDatabase


SHARDS_ENDING = ".shards.json"
"""Ending of the name of a file that lists the shards of an index."""


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index in a database.

    Attributes:
        schema: Name of its schema.
        url: Its URL, without a password.
        documents: Number of documents; None if the user may not read them.
        bytes: Size of the tables.
    """

    schema: str
    url: str
    documents: int | None
    bytes: int


def shown_path(path: str) -> str:
    """Return a path or a URL without a password, for messages.

    Raises:
        InvalidInputError: If it is an invalid URL.
    """
    return parse_postgres_url(path).shown if is_postgres_url(path) else path


def open_database(
    path: str | Path, timeout: float, before_creation: Callable[[], object] = lambda: None
) -> Database:
    """Open the database of an index, or create it.

    Args:
        path: The index file, `":memory:"`, or a URL such as `postgresql://host/db?schema=novels`.
        timeout: Seconds to wait for a lock that another process holds.
        before_creation: Called before an index is created. If it raises an error, none is created.

    Raises:
        StoreError: If the index cannot be opened.
        InvalidInputError: If the path or the URL is invalid, or the path names a list of shards.
        MissingDependencyError: If the path is a URL, and psycopg is not installed.
    """
    if not is_postgres_url(str(path)):
        if str(path).endswith(SHARDS_ENDING):
            raise InvalidInputError(
                f"{path} names a list of shards, not one index: `e2graphrag indexes add-to-shards` "
                "adds and replaces documents, open_shards() opens all shards in Python, and each "
                "shard is an index of its own"
            )
        if not Path(path).exists():
            before_creation()
        return SQLiteDatabase(path, timeout=timeout)
    url = parse_postgres_url(str(path))
    return _postgres()(url, timeout=timeout, before_creation=before_creation)


def index_exists(path: str) -> bool:
    """Return whether there is something at a path, or an index at a URL.

    Raises:
        StoreError: If the database cannot be read.
        InvalidInputError: If the URL is invalid.
        MissingDependencyError: If the path is a URL, and psycopg is not installed.
    """
    if not is_postgres_url(path):
        return Path(path).exists()
    url = parse_postgres_url(path)
    return _postgres().exists(url)


def check_is_index(path: str) -> None:
    """Check that there is a file at a path, or an index at a URL, so that none is created.

    Raises:
        InvalidInputError: If there is none, or the URL is invalid.
        StoreError: If the database cannot be read.
        MissingDependencyError: If the path is a URL, and psycopg is not installed.
    """
    if not is_postgres_url(path) and Path(path).is_dir():
        raise InvalidInputError(
            f"{path} is a folder: pass the path of an index file. load_local() of LangChain and "
            "from_persist_dir() of LlamaIndex open what an index has saved in a folder"
        )
    if not (index_exists(path) if is_postgres_url(path) else Path(path).is_file()):
        raise InvalidInputError(f"{shown_path(path)} is not a file or a database with an index")


def list_indexes(url: str) -> Sequence[IndexInfo]:
    """Return the indexes in a Postgres database, sorted by schema.

    Args:
        url: A URL such as `postgresql://host/db`.

    Raises:
        StoreError: If the database cannot be read.
        InvalidInputError: If the URL is invalid.
        MissingDependencyError: If psycopg is not installed.
    """
    if not is_postgres_url(check_text("url", url)):
        raise InvalidInputError(f"{url} is not the URL of a database: pass postgresql://host/db")
    parsed = parse_postgres_url(url)
    return [
        IndexInfo(schema, parsed.with_schema(schema).shown, documents, size)
        for schema, documents, size in _postgres().list(parsed)
        if is_schema_name(schema)  # others were not created by this package
    ]


def drop_index(url: str, *, lock_timeout: float = 30.0) -> None:
    """Delete the index in a schema of a Postgres database, and the search index in the cache.

    The schema is deleted if nothing else is in it.

    Args:
        url: A URL such as `postgresql://host/db?schema=novels`.
        lock_timeout: Seconds to wait for a process that is writing to the index.

    Raises:
        InvalidInputError: If an argument is invalid, the URL names no schema, or there is no such
            index.
        StoreLockedError: If another process is writing to the index.
        StoreError: If the index cannot be deleted.
        MissingDependencyError: If psycopg is not installed.
    """
    if not is_postgres_url(check_text("url", url)):
        raise InvalidInputError(f"{url} is not the URL of an index in a database: delete the file")
    lock_timeout = check_seconds("lock_timeout", lock_timeout)
    if "schema=" not in url:
        raise InvalidInputError("the URL must name the index to delete: add ?schema=NAME")
    if not index_exists(url):
        raise InvalidInputError(f"{shown_path(url)} does not exist: see `e2graphrag indexes list`")
    with closing(_postgres()(parse_postgres_url(url), timeout=lock_timeout)) as database:
        database.drop()


def _postgres() -> type[PostgresDatabase]:
    try:
        from e2graphrag_integrations.store.postgres.database import PostgresDatabase
    except ImportError as error:  # without psycopg, or psycopg without libpq
        raise MissingDependencyError(
            f"an index in Postgres needs psycopg ({error}): pip install "
            "'e2graphrag-integrations[postgres]'"
        ) from error
    return PostgresDatabase
