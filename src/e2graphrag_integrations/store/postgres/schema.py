"""The tables of an index in a schema of a Postgres database.

The tables are those of an index file; see `store/rows.py`. The table `e2graphrag` contains the
version of the schema, and identifies the schema as an index.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from e2graphrag_integrations._utils.decoding import check_format_version
from e2graphrag_integrations._utils.postgres_urls import PostgresURL
from e2graphrag_integrations.errors import NotAnIndexError
from e2graphrag_integrations.store.postgres.connection import Connection, Statements
from e2graphrag_integrations.store.rows import new_generation
from e2graphrag_integrations.store.schema import TABLES

POSTGRES_VERSION = 3
"""Version of the tables in a Postgres database, in the table `e2graphrag`. Other versions are
refused."""

MARKER = "e2graphrag"
"""The table that identifies a schema as an index."""

OWN_TABLES = (
    *("windows", "nodes", "content", "documents", "leases", "queue", "entity_edits", "pending"),
    *("mirrored", "manifest", "e2graphrag"),
)
"""All tables, each before those that it references."""

VECTOR_TABLES = ("vectors", "vector_documents", "vector_index")
"""The tables of a vector index, which exist only if there is one; see `vectors/pgvector.py`."""

_LEASES = """
CREATE TABLE leases (
    id TEXT COLLATE "C" PRIMARY KEY REFERENCES queue (id) ON DELETE CASCADE,
    number BIGINT NOT NULL, token TEXT NOT NULL, worker TEXT NOT NULL,
    since TIMESTAMPTZ NOT NULL, expires TIMESTAMPTZ NOT NULL, attempts BIGINT NOT NULL
);
CREATE INDEX queue_by_number ON queue (number, id)
"""
"""The leases of workers. One applies only to the version of the document with its number."""


def _translated(tables: str) -> str:
    """Return the definitions of tables for Postgres.

    Rows are sorted by code points, as in SQLite and in Python, whatever the collation of the
    database is: exports depend on the order.
    """
    translations = {
        " WITHOUT ROWID": "",
        " TEXT": ' TEXT COLLATE "C"',
        " INTEGER": " BIGINT",
        " BLOB": " BYTEA",
    }
    for old, new in translations.items():
        tables = tables.replace(old, new)
    return tables


def relations(connection: Connection, schema: str) -> set[str] | None:
    """Return the names of the tables and views in a schema, or None if it does not exist."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_namespace n LEFT JOIN pg_class c "
        "ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f') "
        "WHERE n.nspname = %s",
        (schema,),
    ).fetchall()
    return {name for (name,) in rows if name is not None} if rows else None


def is_prepared(connection: Connection, url: PostgresURL) -> bool:
    """Return whether a schema contains the tables of an index.

    Raises:
        NotAnIndexError: If the schema contains other tables.
        SchemaVersionError: If the index has another schema version.
    """
    found = relations(connection, url.schema)
    if not found:
        return False
    if MARKER not in found:
        raise NotAnIndexError(
            f"{url.shown}: the schema {url.schema} contains tables but no e2graphrag index: choose "
            "another schema"
        )
    check_version(connection, url)
    return True


def check_version(connection: Connection, url: PostgresURL) -> None:
    """Check the version of the tables in a schema.

    Raises:
        SchemaVersionError: If it is not the current one.
    """
    query = sql.SQL("SELECT value FROM {} WHERE key = 'version'")
    row = connection.execute(query.format(sql.Identifier(url.schema, MARKER))).fetchone()
    check_format_version(url.shown, 0 if row is None else int(row[0]), POSTGRES_VERSION)


def prepare(connection: Connection, url: PostgresURL) -> None:
    """Create the tables, in a transaction that excludes all other writers."""
    if is_prepared(connection, url):
        return  # another process was first
    statements = Statements(connection)
    if relations(connection, url.schema) is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(url.schema)))
    for statement in f"{_translated(TABLES)};{_LEASES}".split(";"):
        if statement.strip():
            statements.execute(statement)
    statements.execute("CREATE TABLE e2graphrag (key TEXT PRIMARY KEY, value BIGINT NOT NULL)")
    statements.execute("INSERT INTO e2graphrag VALUES ('version', ?)", (POSTGRES_VERSION,))
    new_generation(statements)


def drop_tables(connection: Connection, schema: str) -> None:
    """Delete the tables of an index, and the schema if nothing else is in it."""
    # In one statement, because policies of one table may depend on another.
    names = [sql.Identifier(schema, table) for table in (*OWN_TABLES, *VECTOR_TABLES)]
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.SQL(", ").join(names)))
    if not relations(connection, schema) and schema != "public":
        try:
            with connection.transaction():
                connection.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(schema)))
        except (
            psycopg.errors.DependentObjectsStillExist,
            psycopg.errors.InsufficientPrivilege,
        ):
            pass  # it contains something else, or belongs to someone else


def list_schemas(connection: Connection) -> list[tuple[str, int | None, int]]:
    """Return the schema, the number of documents and the size of each index in a database.

    The number is None if the user may not read the documents.
    """
    rows = connection.execute(
        "SELECT n.nspname, has_schema_privilege(n.oid, 'USAGE') AND "
        "has_table_privilege(d.oid, 'SELECT'), "
        "(SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
        "WHERE c.relnamespace = n.oid AND c.relkind = 'r') "
        "FROM pg_namespace n "
        "JOIN pg_class m ON m.relnamespace = n.oid AND m.relname = %s AND m.relkind = 'r' "
        "JOIN pg_class d ON d.relnamespace = n.oid AND d.relname = 'documents' "
        'ORDER BY n.nspname COLLATE "C"',
        (MARKER,),
    ).fetchall()
    found = []
    for schema, is_readable, size in rows:
        count = None
        if is_readable:
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, "documents"))
            row = connection.execute(query).fetchone()
            count = None if row is None else int(row[0])
        found.append((schema, count, int(size)))
    return found
