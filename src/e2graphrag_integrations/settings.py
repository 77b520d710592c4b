"""Index settings: they control chunks and summaries and are stored in the manifest."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from e2graphrag_integrations._utils.postgres_urls import is_postgres_url, parse_postgres_url
from e2graphrag_integrations._utils.validation import check_choice, check_int, short_repr
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SettingsMismatchError,
)
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.text.chunking import chunk_spans, content_spans
from e2graphrag_integrations.tree import ContentGroups, FixedGroups, Grouping
from e2graphrag_integrations.types import Span

Cut = Literal["fixed", "content"]
_CUTS: tuple[Cut, ...] = get_args(Cut)

_OVERLAP = 100
"""Default `chunk_overlap` with fixed chunking, in tokens; less for chunks below twice its size."""

_MINIMUMS = {"chunk_size": 1, "chunk_overlap": 0, "group_size": 2, "summary_tokens": 1}
"""Minimum value of each numeric setting. With one node per group, the tree would never end."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How documents are split and summarized: what an index records of `IndexSettings`.

    Raises:
        InvalidInputError: If a value is out of range.
    """

    chunk_size: int = 1200
    chunk_overlap: int | None = None
    group_size: int = 5
    summary_tokens: int = 300
    chunking: Cut = "fixed"
    grouping: Cut = "fixed"
    scope_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope_keys", as_scope_keys(self.scope_keys))
        for name in ("chunking", "grouping"):
            check_choice(name, getattr(self, name), _CUTS)
        size = check_int("chunk_size", self.chunk_size)
        if self.chunk_overlap is None:
            default = 0 if self.chunking == "content" else min(_OVERLAP, size // 2)
            object.__setattr__(self, "chunk_overlap", default)
        for name, minimum in _MINIMUMS.items():
            object.__setattr__(self, name, check_int(name, getattr(self, name), minimum))
        if self.chunking == "content" and self.overlap:
            raise InvalidInputError(
                f"chunk_overlap={self.overlap} does not work with chunking='content': "
                "content chunks cannot overlap; omit chunk_overlap"
            )
        if self.overlap >= self.chunk_size:
            raise InvalidInputError(
                f"chunk_overlap={self.overlap} must be less than chunk_size={self.chunk_size}"
            )

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, str], path: str) -> Settings:
        """Return the settings stored in a manifest; the defaults if it is empty.

        Raises:
            CorruptStoreError: If the manifest lacks settings, or contains invalid ones.
        """
        try:
            return cls(**_stored_values(manifest, path))
        except InvalidInputError as error:
            raise CorruptStoreError(
                f"{path} contains invalid settings ({error}): restore a backup or index again"
            ) from error

    @property
    def overlap(self) -> int:
        """Maximum number of tokens that neighboring chunks share."""
        return self.chunk_overlap or 0

    @property
    def groups(self) -> Grouping:
        """The rule that decides which nodes share a summary."""
        kind = ContentGroups if self.grouping == "content" else FixedGroups
        return kind(self.group_size)

    def spans(self, text: str, counter: TokenCounter) -> list[Span]:
        """Return the chunk spans of a text."""
        if self.chunking == "content":
            return content_spans(text, counter, chunk_size=self.chunk_size)
        return chunk_spans(text, counter, chunk_size=self.chunk_size, chunk_overlap=self.overlap)

    def to_manifest(self) -> dict[str, str]:
        """Return the settings as manifest entries."""
        entries = {name: str(value) for name, value in asdict(self).items()}
        entries["scope_keys"] = json.dumps(self.scope_keys, ensure_ascii=False)
        if not self.scope_keys:
            del entries["scope_keys"]
        return entries


SETTING_NAMES = tuple(one.name for one in fields(Settings))
"""The names of all settings."""


def resolve_settings(
    requested: Mapping[str, Any], manifest: Mapping[str, str], path: str
) -> Settings:
    """Combine the requested settings with those in a manifest, which is empty for a new index.

    `requested` maps field names of `Settings` to values. None means the stored value, or the
    default if none is stored.

    Raises:
        InvalidInputError: If a requested value is out of range.
        SettingsMismatchError: If the index was built with a different value.
        CorruptStoreError: If the manifest contains invalid settings.
    """
    stored = _stored_values(manifest, path)
    given = {name: value for name, value in requested.items() if value is not None}
    if "scope_keys" in given:
        given["scope_keys"] = as_scope_keys(given["scope_keys"])
    for name, value in given.items():
        if name in stored and stored[name] != value:
            raise SettingsMismatchError(
                f"{path} was built with {name}={stored[name]}, not {short_repr(value)}: omit "
                f"{name}, or use a new file"
            )
    Settings.from_manifest(manifest, path)  # reports a damaged file before invalid arguments
    return Settings(**{**given, **stored})


def as_scope_keys(value: Any) -> tuple[str, ...]:
    """Return metadata keys, sorted, without duplicates.

    Raises:
        InvalidInputError: If the value is not a list of metadata keys.
    """
    is_list = isinstance(value, list | tuple)
    if not is_list or not all(isinstance(key, str) and key.strip() for key in value):
        raise InvalidInputError(
            f"scope_keys={short_repr(value)} must be a list of metadata keys, such as ['tenant']"
        )
    if "document_id" in value:
        raise InvalidInputError(
            "scope_keys: 'document_id' is not a metadata key, and each document has a tree anyway"
        )
    return tuple(sorted(set(value)))


def checked_path(path: Any) -> str:
    """Return the path of an index file, or the URL of an index in Postgres, as a string.

    The index need not exist.

    Raises:
        InvalidInputError: If the path cannot be used.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(given, str) or not given.strip():
        raise InvalidInputError(f"path={short_repr(path)} must name a file: pass a str or a Path")
    if is_postgres_url(given):
        parse_postgres_url(given)  # raises if it is invalid
        return given
    scheme, is_url, _ = given.partition("://")  # the rest may contain a password
    if is_url:
        raise InvalidInputError(
            f"path= is a URL that begins with {short_repr(scheme + is_url)}: pass the path of a "
            "file, or the URL of an index in Postgres, such as postgresql://host/db?schema=novels"
        )
    try:
        Path(given).stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"path={short_repr(given)} cannot be used: {error}") from error
    return str(Path(given))


def _stored_values(manifest: Mapping[str, str], path: str) -> dict[str, Any]:
    """Return the parsed settings from a manifest, or an empty dict if the manifest is empty."""
    if not manifest:
        return {}
    entries = {"scope_keys": "[]", **manifest}  # without scopes, there is no entry
    missing = [name for name in SETTING_NAMES if name not in entries]
    if missing:
        raise CorruptStoreError(
            f"{path} lacks the settings {', '.join(missing)}: restore a backup or index again"
        )
    return {name: _parse(name, entries[name], path) for name in SETTING_NAMES}


def _parse(name: str, value: str, path: str) -> int | str | tuple[str, ...]:
    if value in _CUTS and name not in _MINIMUMS:
        return value
    try:
        return as_scope_keys(json.loads(value)) if name == "scope_keys" else int(value)
    except ValueError as error:  # also an InvalidInputError
        raise CorruptStoreError(
            f"{path} contains the invalid setting {name}={value!r}: restore a backup or index again"
        ) from error
