"""A vector index in the Postgres database of an index, with the extension pgvector.

The tables are in the schema of the index: `vectors` contains the vectors at numbered places,
`vector_documents` the places of each document, and `vector_index` the embedder and the token.
Searches use an HNSW index of inner products. Each batch of an update is one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from psycopg.pq import TransactionStatus

from e2graphrag_integrations.errors import StoreError, VectorIndexError
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.vector_index import (
    AllowedPlaces,
    Hits,
    IndexContents,
    IndexedDocument,
)
from e2graphrag_integrations.store.postgres.connection import Connection
from e2graphrag_integrations.store.postgres.database import PostgresDatabase
from e2graphrag_integrations.store.postgres.schema import VECTOR_TABLES
from e2graphrag_integrations.vectors.writer import NewDocument, Target, new_token

_M, _EF_CONSTRUCTION = 32, 128
"""Size and quality of the HNSW graph; see docs/constants.md."""

_EF_FACTOR = 2
_MAX_EF = 1000
"""Number of candidates of a search, as a multiple of the number of results; pgvector allows at most
1,000."""

_SCAN_FACTOR = 8
_MAX_SCAN = 200_000
"""Number of vectors to look at under a filter: a multiple of the number that is needed if the
allowed vectors are as near as the others."""

_OLDEST = (0, 5)
"""Oldest version of pgvector: that with HNSW."""

_HALF_PRECISION = (0, 7)
"""First version with `halfvec`, which needs half of the memory at the same recall."""

_ITERATIVE = (0, 8)
"""First version with iterative scans, which continue until enough vectors pass the filter."""

_REBUILT_SHARE = 0.5
"""Share of new vectors from which on building the HNSW graph again is faster than extending it."""

_MAX_GAPS = 8
"""The vectors are numbered again once the places are more than this multiple of the vectors."""

_DROP_MILLISECONDS = 2000
"""How long an update waits for questions and backups that read what it drops."""

_BUILD_MEMORY = (64 << 10, 2 << 20)
"""Minimum and maximum memory for building the HNSW graph, in KiB."""

_GRAPH_BYTES = 512
"""Memory of a vector in the graph, besides its values."""

_CREATE: LiteralString = """
CREATE TABLE vectors (place BIGINT PRIMARY KEY, vector {type}({dimension}) NOT NULL);
ALTER TABLE vectors ALTER vector SET STORAGE PLAIN;
CREATE TABLE vector_documents (
    id TEXT COLLATE "C" PRIMARY KEY, stamp TEXT NOT NULL, digest TEXT NOT NULL,
    first BIGINT NOT NULL, windows BIGINT NOT NULL
);
CREATE TABLE vector_index (key TEXT PRIMARY KEY, value TEXT NOT NULL)
"""

_GRAPH = "vectors_by_similarity"


@dataclass(frozen=True, slots=True)
class _Extension:
    """The extension in a database.

    Attributes:
        version: Its version, such as (0, 8).
        schema: The schema of its types.
    """

    version: tuple[int, ...]
    schema: str

    @property
    def type_name(self) -> str:
        """The type of the vectors."""
        return "halfvec" if self.version >= _HALF_PRECISION else "vector"

    @property
    def max_dimension(self) -> int:
        """The highest dimension that HNSW indexes."""
        return 4000 if self.version >= _HALF_PRECISION else 2000


class PgVectorIndex:
    """A vector index in the tables beside an index in Postgres.

    Args:
        database: The database of the index.

    Raises:
        VectorIndexError: If the extension is missing or too old.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._extension = database.read_with(self._find_extension)

    @property
    def name(self) -> str:
        """Name in traces and messages."""
        return "pgvector"

    def _find_extension(self, connection: Connection) -> _Extension:
        row = connection.execute(
            "SELECT e.extversion, n.nspname FROM pg_extension e "
            "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
        ).fetchone()
        if row is None:
            raise VectorIndexError(
                f"{self._database.path}: the database does not have the extension pgvector: let a "
                "superuser, or a role that may create extensions, run CREATE EXTENSION vector "
                "(the index itself does not need it)"
            )
        version = tuple(int(part) for part in re.findall(r"\d+", row[0])[:2])
        if version < _OLDEST:
            raise VectorIndexError(
                f"{self._database.path}: pgvector {row[0]} has no HNSW: install 0.5 or newer, and "
                "run ALTER EXTENSION vector UPDATE"
            )
        return _Extension(version, row[1])

    # Reading

    def contents(self) -> IndexContents | None:
        """Return the contents; None if there are none."""
        return self._database.read_with(_read_contents)

    def token(self) -> str:
        """Return the token; empty if there is none, or it is being built."""
        return self._database.read_with(_read_token)

    def search(self, query: FloatArray, count: int, allowed: AllowedPlaces | None) -> Hits:
        """Return about `count` of the nearest vectors."""

        def ask(connection: Connection) -> Hits:
            try:
                return self._search(connection, query, count, allowed)
            except psycopg.errors.UndefinedTable:
                if connection.info.transaction_status == TransactionStatus.INERROR:
                    connection.execute("ROLLBACK")
                return Hits(np.empty(0, dtype=np.int64), "")

        return self._database.read_with(ask)

    def _search(
        self, connection: Connection, query: FloatArray, count: int, allowed: AllowedPlaces | None
    ) -> Hits:
        settings = self._settings(count, 1.0 if allowed is None else allowed.share)
        set_all = ", ".join("set_config(%s, %s, true)" for _ in settings)
        condition, parameters = sql.SQL(""), list[Any]()
        if allowed is not None:
            bits, end = _bitmap(allowed.places)
            # Places beyond the bitmap are those of newer documents; get_bit would fail on them.
            condition = sql.SQL(
                "WHERE CASE WHEN place < %s THEN get_bit(%s, place::int) = 1 ELSE false END "
            )
            parameters += [end, bits]
        select = sql.SQL(
            "SELECT place FROM vectors {condition}"
            "ORDER BY vector OPERATOR({schema}.<#>) %s::{schema}.{type} LIMIT %s"
        ).format(
            condition=condition,
            schema=sql.Identifier(self._extension.schema),
            type=sql.Identifier(self._extension.type_name),
        )
        parameters += ["[" + ",".join(map(repr, query.tolist())) + "]", count]
        with connection.pipeline():  # one round trip
            connection.execute("BEGIN READ ONLY")
            connection.execute(
                f"SELECT {set_all}",
                [value for setting in settings.items() for value in setting],
            )
            found = connection.execute(select, parameters, binary=True)
            token = connection.execute(_READ_TOKEN)
            connection.execute("COMMIT")
        places = np.asarray([place for (place,) in found.fetchall()], dtype=np.int64)
        return Hits(places, _token_of(token.fetchone()))

    def _settings(self, count: int, share: float) -> dict[str, str]:
        """Return the settings of a search. Only the HNSW graph may be used, without JIT."""
        settings = {
            "hnsw.ef_search": str(max(1, min(_EF_FACTOR * count, _MAX_EF))),
            "enable_seqscan": "off",
            "jit": "off",
        }
        if self._extension.version >= _ITERATIVE:
            most = min(int(_SCAN_FACTOR * count / max(share, 1e-6)), _MAX_SCAN)
            settings["hnsw.iterative_scan"] = "relaxed_order"
            settings["hnsw.max_scan_tuples"] = str(max(most, _MAX_EF))
        return settings

    # Writing

    def prepare(self, target: Target, *, replace: bool) -> IndexContents:
        """Create the tables if they are missing or do not suit; see `WritableVectorIndex`."""
        del replace  # the tables belong to the index in this schema
        if target.dimension > self._extension.max_dimension:
            raise VectorIndexError(
                f"{self._database.path}: pgvector searches vectors of up to "
                f"{self._extension.max_dimension} dimensions, but the embedder has "
                f"{target.dimension}: use another embedder, or Qdrant"
            )
        with self._database.own_connection() as connection, connection.transaction():
            _lock(connection)
            contents = _read_contents(connection)
            # Whoever waits to drop something lets all new questions wait behind the open ones.
            connection.execute(f"SET LOCAL lock_timeout = {_DROP_MILLISECONDS}")
            if contents is not None and not self._suits(connection, contents, target):
                for table in VECTOR_TABLES:
                    connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)))
                contents = None
            if contents is None:
                self._create(connection, target)
                contents = _read_contents(connection)
            elif target.windows - _total(contents) > _REBUILT_SHARE * _total(contents):
                connection.execute(f"DROP INDEX IF EXISTS {_GRAPH}")
                contents = _read_contents(connection)
        if contents is None:
            raise StoreError(f"{self._database.path}: the tables of the vectors were dropped")
        return contents

    def _suits(self, connection: Connection, contents: IndexContents, target: Target) -> bool:
        """Return whether the tables can be updated instead of being created again."""
        is_dense = _end(connection) <= _MAX_GAPS * max(_total(contents), target.windows, 1)
        same = (contents.embedder, contents.dimension) == (target.embedder, target.dimension)
        return same and is_dense

    def _create(self, connection: Connection, target: Target) -> None:
        type_ = sql.Identifier(self._extension.schema, self._extension.type_name)
        statements = sql.SQL(_CREATE).format(type=type_, dimension=sql.Literal(target.dimension))
        connection.execute(statements)
        rows = {
            "embedder": target.embedder,
            "dimension": str(target.dimension),
            "token": new_token(),
        }
        connection.cursor().executemany("INSERT INTO vector_index VALUES (%s, %s)", [*rows.items()])

    def count(self) -> int:
        """Return the number of vectors."""
        [(count,)] = self._database.read("SELECT count(*) FROM vectors")
        return int(count)

    def places(self) -> NDArray[np.int64]:
        """Return the places of all vectors."""
        rows = self._database.read("SELECT place FROM vectors")
        return np.asarray([place for (place,) in rows], dtype=np.int64)

    def delete_places(self, places: NDArray[np.int64]) -> None:
        """Delete vectors."""
        with self._database.own_connection() as connection:
            connection.execute("DELETE FROM vectors WHERE place = ANY(%s)", (places.tolist(),))

    def put(self, documents: Sequence[NewDocument]) -> None:
        """Write documents, and delete their old versions, in one transaction."""
        with self._database.own_connection() as connection, connection.transaction():
            _lock(connection)
            ids = [one.id for one in documents]
            current = _documents(connection, ids)
            new = [one for one in documents if one.vectors is not None]
            _delete(connection, [current[one.id] for one in new if one.id in current])
            end = _end(connection)
            rows = []
            with self._copying(connection) as write:
                for one in documents:
                    if one.vectors is not None:
                        write(end, one.vectors)
                        rows.append((one.id, one.stamp, one.digest, end, len(one.vectors)))
                        end += len(one.vectors)
                    elif one.id in current:  # only its stamp changed
                        old = current[one.id]
                        rows.append((one.id, one.stamp, one.digest, old.first, old.windows))
            connection.cursor().executemany(
                "INSERT INTO vector_documents VALUES (%s, %s, %s, %s, %s) ON CONFLICT (id) "
                "DO UPDATE SET stamp = excluded.stamp, digest = excluded.digest, "
                "first = excluded.first, windows = excluded.windows",
                rows,
            )

    @contextmanager
    def _copying(self, connection: Connection) -> Iterator[Callable[[int, FloatArray], None]]:
        """Yield a function that writes vectors from a place on, in the format of pgvector."""
        dtype = ">f2" if self._extension.type_name == "halfvec" else ">f4"
        with connection.cursor().copy("COPY vectors FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int8", "bytea"])

            def write(first: int, vectors: FloatArray) -> None:
                header = np.asarray([vectors.shape[1], 0], dtype=">i2").tobytes()
                for place, vector in enumerate(vectors.astype(dtype), first):
                    copy.write_row((place, header + vector.tobytes()))

            yield write

    def remove(self, documents: Mapping[str, IndexedDocument]) -> None:
        """Delete documents."""
        with self._database.own_connection() as connection, connection.transaction():
            _lock(connection)
            current = _documents(connection, list(documents))
            _delete(connection, list(current.values()))
            connection.execute("DELETE FROM vector_documents WHERE id = ANY(%s)", (list(current),))

    def finish(self) -> None:
        """Build the HNSW graph if there is none, and change the token."""
        with self._database.own_connection() as connection, connection.transaction():
            _lock(connection)
            contents = _read_contents(connection)
            if contents is None:
                return
            if not contents.is_ready:
                size = contents.dimension * 4 + _GRAPH_BYTES
                least, most = _BUILD_MEMORY
                memory = min(max(least, _total(contents) * size * 3 // 2 >> 10), most)
                connection.execute(f"SET LOCAL maintenance_work_mem = {memory}")
                operators = f"{self._extension.type_name}_ip_ops"
                create = sql.SQL(
                    "CREATE INDEX {} ON vectors USING hnsw (vector {}) WITH (m = {}, "
                    "ef_construction = {})"
                ).format(
                    sql.Identifier(_GRAPH),
                    sql.Identifier(self._extension.schema, operators),
                    sql.Literal(_M),
                    sql.Literal(_EF_CONSTRUCTION),
                )
                connection.execute(create)
            connection.execute(
                "UPDATE vector_index SET value = %s WHERE key = 'token'",
                (new_token(contents.token),),
            )


def _lock(connection: Connection) -> None:
    """Exclude other updates in this transaction. Searches continue."""
    connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('e2graphrag vectors ' "
        "|| current_schema(), 0))"
    )


_READ_TOKEN: LiteralString = (
    "SELECT value FROM vector_index "  # noqa: S105 - no password
    "WHERE key = 'token' AND to_regclass('vectors_by_similarity') IS NOT NULL"
)


def _token_of(row: Any) -> str:
    return "" if row is None else str(row[0])


def _read_token(connection: Connection) -> str:
    try:
        return _token_of(connection.execute(_READ_TOKEN).fetchone())
    except psycopg.errors.UndefinedTable:
        return ""


def _read_contents(connection: Connection) -> IndexContents | None:
    tables = connection.execute(
        f"SELECT to_regclass('vector_documents') IS NOT NULL AND to_regclass('vector_index') "
        f"IS NOT NULL AND to_regclass('vectors') IS NOT NULL, to_regclass('{_GRAPH}') IS NOT NULL"
    ).fetchone()
    if tables is None or not tables[0]:
        return None
    values: dict[str, str] = dict(connection.execute("SELECT * FROM vector_index").fetchall())
    try:
        return IndexContents(
            values["token"],
            values["embedder"],
            int(values["dimension"]),
            _documents(connection),
            is_ready=tables[1],
        )
    except (KeyError, ValueError):  # somebody has changed the rows
        return None


def _documents(
    connection: Connection, ids: Sequence[str] | None = None
) -> dict[str, IndexedDocument]:
    query: LiteralString = "SELECT id, stamp, first, windows, digest FROM vector_documents"
    parameters: tuple[Any, ...] = ()
    if ids is not None:
        query, parameters = f"{query} WHERE id = ANY(%s)", (list(ids),)
    rows = connection.execute(query, parameters, binary=True).fetchall()
    return {id_: IndexedDocument(*fields) for id_, *fields in rows}


def _end(connection: Connection) -> int:
    """Return the first place after those of all documents."""
    query = "SELECT coalesce(max(first + windows), 0) FROM vector_documents"
    row = connection.execute(query).fetchone()
    return 0 if row is None else int(row[0])


def _delete(connection: Connection, documents: Sequence[IndexedDocument]) -> None:
    connection.cursor().executemany(
        "DELETE FROM vectors WHERE place >= %s AND place < %s",
        [(one.first, one.first + one.windows) for one in documents],
    )


def _total(contents: IndexContents) -> int:
    return sum(one.windows for one in contents.documents.values())


def _bitmap(places: NDArray[np.int64]) -> tuple[bytes, int]:
    """Return a bitmap of places, as `get_bit` reads it, and its length."""
    is_allowed = np.zeros(int(places.max(initial=-1)) + 1, dtype=np.bool_)
    is_allowed[places] = True
    return np.packbits(is_allowed, bitorder="little").tobytes(), len(is_allowed)
