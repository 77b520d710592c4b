"""URLs of indexes in a Postgres database, such as `postgresql://user@host/db?schema=novels`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlencode

from e2graphrag_integrations._utils.validation import check_text
from e2graphrag_integrations.errors import InvalidInputError

DEFAULT_SCHEMA = "e2graphrag"
"""The schema of a URL without `schema=`."""

_SCHEME = re.compile(r"postgres(?:ql)?(?P<driver>\+\w*)?://", re.IGNORECASE)
_HOSTS = re.compile(
    r"(?:(?:[\w.~%-]*|\[[\w:.%]+\])(?::\d{0,5})?)(?:,(?:[\w.~%-]*|\[[\w:.%]+\])(?::\d{0,5})?)*"
)
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SECRET = frozenset({"password", "sslpassword", "oauth_client_secret"})
"""Parameters of libpq that contain a secret."""

_HINT = "pass postgresql://user@host:5432/database?schema=name"


@dataclass(frozen=True)
class PostgresURL:
    """The URL of an index.

    Attributes:
        conninfo: The URL for libpq, which may contain a password.
        schema: The schema of the index.
        shown: The URL without secrets, for messages. It names the same index.
    """

    conninfo: str = field(repr=False)
    schema: str
    shown: str

    @property
    def complete(self) -> str:
        """The URL with the password, which opens the index again."""
        separator = "&" if "?" in self.conninfo else "?"
        return f"{self.conninfo}{separator}schema={self.schema}"

    def with_schema(self, schema: str) -> PostgresURL:
        """Return the URL of another index in the same database."""
        base, _, _ = self.shown.rpartition("schema=")
        return PostgresURL(self.conninfo, check_schema_name(schema), f"{base}schema={schema}")


def is_postgres_url(path: str) -> bool:
    """Return whether a path is the URL of a Postgres database rather than a file."""
    return _SCHEME.match(path) is not None


def parse_postgres_url(url: str) -> PostgresURL:
    """Parse a URL. No error message contains a password.

    Raises:
        InvalidInputError: If the URL is invalid.
    """
    scheme = _SCHEME.match(check_text("the URL", url))
    if scheme is None or scheme["driver"]:
        raise InvalidInputError(f"the URL of an index starts with postgresql://: {_HINT}")
    rest, _, fragment = url[scheme.end() :].partition("#")
    address, _, query = rest.partition("?")
    authority, _, database = address.partition("/")
    login, _, hosts = authority.rpartition("@")
    if fragment or "@" in database or "/" in database or not _HOSTS.fullmatch(hosts):
        # The message must not repeat the URL: it is unknown which part is the password.
        raise InvalidInputError(
            f"the URL of the index is invalid: {_HINT}; in a password, write @, :, /, ?, #, % as "
            "%40, %3A, %2F, %3F, %23, %25"
        )
    user, _, _ = login.partition(":")
    # As libpq does: a plus sign is no space.
    parts = (part.partition("=") for part in query.split("&") if part)
    parameters = [(unquote(name), unquote(value)) for name, _, value in parts]
    schemas = [value for name, value in parameters if name == "schema"]
    if len(schemas) > 1:
        raise InvalidInputError(f"the URL of the index names several schemas: {_HINT}")
    schema = check_schema_name(schemas[0] if schemas else DEFAULT_SCHEMA)
    others = [(name, value) for name, value in parameters if name != "schema"]
    public = [(name, value) for name, value in others if name not in _SECRET]
    base = f"{user}@{hosts}" if user else hosts
    return PostgresURL(
        _join(f"{login}@{hosts}" if login else hosts, database, others),
        schema,
        _join(base, database, [*public, ("schema", schema)]),
    )


def check_schema_name(name: str) -> str:
    """Check the name of a schema, and return it.

    Raises:
        InvalidInputError: If the name is not one that needs no quotes in SQL.
    """
    if not is_schema_name(name):
        raise InvalidInputError(
            f"schema={name[:80]!r} is not allowed: use up to 63 lowercase letters, digits and _, "
            "starting with a letter, and not with pg_"
        )
    return name


def is_schema_name(name: str) -> bool:
    """Return whether a schema with this name can contain an index."""
    is_reserved = name.startswith("pg_") or name == "information_schema"
    return _SCHEMA.fullmatch(name) is not None and not is_reserved


def _join(authority: str, database: str, parameters: list[tuple[str, str]]) -> str:
    query = urlencode(parameters, quote_via=quote)
    path = f"/{database}" if database or query else ""
    return f"postgresql://{authority}{path}{'?' if query else ''}{query}"
