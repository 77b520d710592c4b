"""The file that lists the shards of an index and what they have in common."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.decoding import check_format_version
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.files import delete_if_unused
from e2graphrag_integrations._utils.new_path import check_new, move_to_new
from e2graphrag_integrations._utils.postgres_urls import is_postgres_url, parse_postgres_url
from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL
from e2graphrag_integrations.errors import InvalidInputError, NotAnIndexError, StoreError
from e2graphrag_integrations.options import IndexSettings
from e2graphrag_integrations.settings import checked_path, resolve_settings
from e2graphrag_integrations.store.location import (
    SHARDS_ENDING,
    drop_index,
    index_exists,
    shown_path,
)
from e2graphrag_integrations.store.store import Store

FORMAT_VERSION = 1
"""Version of the format of the file."""

MAX_SHARDS = 1000
"""Maximum number of shards."""


@dataclass(frozen=True)
class ShardsFile:
    """The content of a file such as `novels.shards.json`.

    Attributes:
        shards: The location of each shard: a file, relative to the folder of this file, or a URL.
            Their order decides which documents they contain.
        embedder: Name of the embedder of all shards; empty if it must be passed.
        settings: The settings of all shards, by name.
    """

    shards: tuple[str, ...]
    embedder: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ShardsFile:
        """Read a file.

        Raises:
            InvalidInputError: If there is none.
            NotAnIndexError: If it does not list shards.
            SchemaVersionError: If it has another format version.
        """
        where = Path(checked_path(path))
        try:
            content = json.loads(where.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InvalidInputError(
                f"{where} does not exist: create_shards() creates it"
            ) from error
        except (OSError, ValueError) as error:
            raise NotAnIndexError(f"{where} does not list shards ({error})") from error
        if not isinstance(content, dict) or "format" not in content:
            raise NotAnIndexError(f"{where} does not list shards: it has no format version")
        version = content.pop("format")
        check_format_version(str(where), version, FORMAT_VERSION, "create the shards again")
        try:
            found = cls(tuple(content["shards"]), content["embedder"], dict(content["settings"]))
        except (KeyError, TypeError, ValueError) as error:
            raise NotAnIndexError(f"{where} does not list shards: {error!r}") from error
        if not found.shards or not all(isinstance(one, str) for one in found.shards):
            raise NotAnIndexError(f"{where} does not list shards: shards must be locations")
        return found

    def write(self, path: str | os.PathLike[str]) -> None:
        """Create the file, which must not exist, in one step.

        Raises:
            InvalidInputError: If it exists.
            StoreError: If it cannot be written.
        """
        where = Path(checked_path(path))
        temporary = where.with_name(f"{where.name}.new-{uuid.uuid4().hex}")
        try:
            text = json.dumps({"format": FORMAT_VERSION, **asdict(self)}, indent=2)
            temporary.touch(mode=0o600)  # a URL may contain a password
            temporary.write_text(f"{text}\n", encoding="utf-8")
            move_to_new(temporary, where)
        except OSError as error:
            raise StoreError(f"{where} could not be written: {error}") from error
        finally:
            temporary.unlink(missing_ok=True)

    def locations(self, path: str | os.PathLike[str]) -> list[str]:
        """Return the absolute location of each shard, given the path of this file."""
        folder = Path(checked_path(path)).absolute().parent
        return [one if is_postgres_url(one) else str(folder / one) for one in self.shards]

    def new_locations(self, path: str | os.PathLike[str]) -> list[str]:
        """Return the location of each shard, none of which exists.

        Raises:
            InvalidInputError: If one exists.
        """
        locations = self.locations(path)
        for one in locations:
            if index_exists(one):
                raise InvalidInputError(
                    f"{shown_path(one)} already exists: delete it, or choose another name"
                )
        return locations


def create_shards(
    path: str | os.PathLike[str],
    shards: int | Sequence[str],
    *,
    embedder: str = DEFAULT_MODEL,
    settings: IndexSettings | None = None,
) -> ShardsFile:
    """Create a new index in shards, and the file that lists them; `open_shards` opens it.

    The number of shards is fixed; `rebalance` copies an index to another number.

    Args:
        path: The file to create, such as `novels.shards.json`.
        shards: The number of shards, which become the files `novels.0.e2g`, `novels.1.e2g` and so
            on beside it, or their locations: files relative to its folder, or URLs of schemas.
        embedder: Name of the embedder, as in `E2GraphRAG.open`. Documents in one language must not
            decide it, because each shard has only some of them. `""` if it has no name: then pass
            it to `open_shards`.
        settings: How documents become trees. A splitter is not recorded.

    Raises:
        InvalidInputError: If the file or a shard exists, or an argument is invalid.
        StoreError: If a file or schema cannot be written.
    """
    planned = planned_shards(path, shards, embedder, settings or IndexSettings())
    with new_shards() as create:
        for one in planned.new_locations(path):
            create(one).close()
        planned.write(path)
    return planned


@contextlib.contextmanager
def new_shards(*, timeout: float = 30.0) -> Iterator[Callable[[str], Store]]:
    """Yield a function that creates a shard; after an error in the block, none of them is left.

    It raises an `InvalidInputError` if there is an index at the location, and a `StoreError` if a
    file or schema cannot be written. The block closes what it opened.
    """
    created: list[str] = []

    def create(location: str) -> Store:
        if index_exists(location):  # such as another name of the same server
            raise InvalidInputError(
                f"{shown_path(location)} is the same place as an earlier shard: give each shard a "
                "file or schema of its own"
            )
        created.append(location)
        return Store(location, timeout=timeout)

    with on_error(lambda _: _remove(created)):
        yield create


def _remove(locations: Sequence[str]) -> None:
    """Remove new shards after an error, but none that another process has open."""
    for one in locations:
        if is_postgres_url(one):
            with contextlib.suppress(StoreError, InvalidInputError):
                drop_index(parse_postgres_url(one).complete, lock_timeout=0)
        else:
            for name in (one, f"{one}-wal", f"{one}-shm", f"{one}.lock"):
                delete_if_unused(Path(name))


def planned_shards(
    path: str | os.PathLike[str],
    shards: int | Sequence[str],
    embedder: str,
    settings: IndexSettings,
) -> ShardsFile:
    """Return the content of a new file, without writing it; see `create_shards`."""
    where = Path(checked_path(path))
    if not where.name.endswith(SHARDS_ENDING):
        raise InvalidInputError(
            f"{where} must end in {SHARDS_ENDING}, by which the command line knows such a file"
        )
    check_new(where)
    name = where.name.removesuffix(SHARDS_ENDING)
    if isinstance(shards, int):
        count = check_int("shards", shards, 1, MAX_SHARDS)
        locations = [f"{name}.{number}.e2g" for number in range(count)]
    else:
        locations = [checked_path(one) for one in shards]
    if not locations or len(set(locations)) < len(locations):
        raise InvalidInputError("shards must be a number, or different locations")
    recorded = {key: value for key, value in settings.recorded().items() if value is not None}
    resolve_settings(recorded, {}, str(where))
    return ShardsFile(tuple(locations), embedder, recorded)
