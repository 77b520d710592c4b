"""The sizes and cutting rules of an index, stored in its manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

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
"""Default `chunk_overlap` of fixed chunks, in tokens."""

_MINIMUMS = {"chunk_size": 1, "chunk_overlap": 0, "group_size": 2, "summary_tokens": 1}
"""Smallest value of each number. With groups of one node, the tree would never end."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How documents are split and summarized.

    Args:
        chunk_size: Maximum tokens in a chunk.
        chunk_overlap: Maximum tokens that neighboring chunks share. None means 100 for `fixed`
            chunks and 0 for `content` chunks, which cannot overlap.
        group_size: Nodes under one summary; an average with `content` groups.
        summary_tokens: Maximum tokens in a summary. Longer summaries are cut after a sentence.
        chunking: `fixed` fills each chunk to `chunk_size`, as in the paper. `content` places
            boundaries by hashes of the text, so an edit changes only the chunks it touches.
        grouping: `fixed` or `content`, for the nodes under a summary.

    Raises:
        InvalidInputError: If a value is out of range.
    """

    chunk_size: int = 1200
    chunk_overlap: int | None = None
    group_size: int = 5
    summary_tokens: int = 300
    chunking: Cut = "fixed"
    grouping: Cut = "fixed"

    def __post_init__(self) -> None:
        for name in ("chunking", "grouping"):
            check_choice(name, getattr(self, name), _CUTS)
        if self.chunk_overlap is None:
            default = 0 if self.chunking == "content" else _OVERLAP
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
        """Return the settings in a manifest, with defaults for missing entries.

        Raises:
            CorruptStoreError: If the manifest contains invalid settings.
        """
        try:
            return cls(**_stored_values(manifest, path))
        except InvalidInputError as error:
            raise CorruptStoreError(
                f"{path} contains invalid settings ({error}): restore a backup or index again"
            ) from error

    @property
    def overlap(self) -> int:
        """Maximum tokens that neighboring chunks share."""
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
        return {name: str(value) for name, value in asdict(self).items()}


def resolve_settings(
    requested: Mapping[str, Any], manifest: Mapping[str, str], path: str
) -> Settings:
    """Combine the requested settings with those in a manifest, which is empty for a new index.

    `requested` has the fields of `Settings`; None means the stored value or the default.

    Raises:
        InvalidInputError: If a requested value is out of range.
        SettingsMismatchError: If the index was built with another value.
        CorruptStoreError: If the manifest contains invalid settings.
    """
    stored = _stored_values(manifest, path)
    given = {name: value for name, value in requested.items() if value is not None}
    for name, value in given.items():
        if name in stored and stored[name] != value:
            raise SettingsMismatchError(
                f"{path} was made with {name}={stored[name]}, not {short_repr(value)}: omit "
                f"{name}, or use a new file"
            )
    Settings.from_manifest(manifest, path)  # report a damaged file before invalid arguments
    return Settings(**{**given, **stored})


def checked_path(path: Any) -> str:
    """Return the path of an index file, which need not exist, as a string.

    Raises:
        InvalidInputError: If it is not a usable path.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(given, str) or not given.strip():
        raise InvalidInputError(f"path={short_repr(path)} must name a file: pass a str or a Path")
    try:
        Path(given).stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"path={short_repr(given)} cannot be used: {error}") from error
    return str(Path(given))


def _stored_values(manifest: Mapping[str, str], path: str) -> dict[str, Any]:
    """Return the settings in a manifest, parsed; empty for an empty manifest."""
    if not manifest:
        return {}
    # Schema version 1 had fixed cuts only and did not record them.
    entries = {"chunking": "fixed", "grouping": "fixed", **manifest}
    names = [field.name for field in fields(Settings)]
    return {name: _parse(name, entries[name], path) for name in names if name in entries}


def _parse(name: str, value: str, path: str) -> int | str:
    if value in _CUTS and name not in _MINIMUMS:
        return value
    try:
        return int(value)
    except ValueError as error:
        raise CorruptStoreError(
            f"{path} contains the invalid setting {name}={value!r}: restore a backup or index again"
        ) from error
