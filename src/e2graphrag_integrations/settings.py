"""The numbers an index is made with; kept in its manifest, so that it opens as it was made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from e2graphrag_integrations._utils.validation import check_int, short_repr
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

_LEAST = {"chunk_size": 1, "chunk_overlap": 0, "group_size": 2, "summary_tokens": 1}
"""A group of one would never end."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How documents are cut and summarized.

    Args:
        chunk_size: Most tokens in a chunk.
        chunk_overlap: Most tokens that neighboring chunks share; None is 100, and 0 for `content`
            chunks, which share none.
        group_size: Nodes under one summary; about so many with `content` groups.
        summary_tokens: Most tokens in a summary; longer ones are cut at a sentence.
        chunking: `fixed` fills chunks one after the other, as the paper does; `content` cuts where
            the text itself says, so that an edit moves no chunk but those it touches.
        grouping: `fixed` or `content`, the same for the nodes under a summary.
    """

    chunk_size: int = 1200
    chunk_overlap: int | None = None
    group_size: int = 5
    summary_tokens: int = 300
    chunking: Cut = "fixed"
    grouping: Cut = "fixed"

    def __post_init__(self) -> None:
        for name in ("chunking", "grouping"):
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in _CUTS:
                raise InvalidInputError(
                    f"{name}={short_repr(getattr(self, name))}: choose one of {', '.join(_CUTS)}"
                )
        if self.chunk_overlap is None:
            overlap = 0 if self.chunking == "content" else _OVERLAP
            object.__setattr__(self, "chunk_overlap", overlap)
        for name, least in _LEAST.items():
            object.__setattr__(self, name, check_int(name, getattr(self, name), least))
        if self.chunking == "content" and self.overlap:
            raise InvalidInputError(
                f"chunk_overlap={self.overlap}: chunks cut by content share nothing; leave it out"
            )
        if self.overlap >= self.chunk_size:
            raise InvalidInputError(
                f"chunk_overlap={self.overlap} must be less than chunk_size={self.chunk_size}"
            )

    @property
    def overlap(self) -> int:
        """Tokens that neighboring chunks share."""
        return self.chunk_overlap or 0

    @property
    def groups(self) -> Grouping:
        """Which nodes share a summary."""
        kind = ContentGroups if self.grouping == "content" else FixedGroups
        return kind(self.group_size)

    def spans(self, text: str, counter: TokenCounter) -> list[Span]:
        """Return where a text is cut into chunks."""
        if self.chunking == "content":
            return content_spans(text, counter, chunk_size=self.chunk_size)
        return chunk_spans(text, counter, chunk_size=self.chunk_size, chunk_overlap=self.overlap)

    def to_manifest(self) -> dict[str, str]:
        """Return the settings as manifest entries."""
        return {name: str(value) for name, value in asdict(self).items()}


def resolve_settings(given: Mapping[str, Any], manifest: Mapping[str, str], path: str) -> Settings:
    """Merge what a user asked for with what an index was made with.

    Raises:
        InvalidInputError: For an unknown setting or a value out of range.
        SettingsMismatchError: If the index was made with another value.
        CorruptStoreError: If its own make no sense.
    """
    names = [field.name for field in fields(Settings)]
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InvalidInputError(f"unknown setting {unknown[0]!r}; there are {', '.join(names)}")
    asked = {name: value for name, value in given.items() if value is not None}
    # Files of schema version 1 say nothing of how they were cut: there was but one way.
    told = {"chunking": "fixed", "grouping": "fixed", **manifest} if manifest else {}
    made: dict[str, Any] = {name: _stored(name, told[name], path) for name in names if name in told}
    for name, value in asked.items():
        if name in made and made[name] != value:
            raise SettingsMismatchError(
                f"{path} was made with {name}={made[name]}, not {short_repr(value)}: leave {name} out, "
                "or index into a new file"
            )
    try:
        Settings(**made)
    except InvalidInputError as error:
        raise CorruptStoreError(
            f"{path} says {error}, which cannot be: restore a backup or index again"
        ) from error
    return Settings(**{**asked, **made})


def checked_path(path: Any) -> str:
    """Return the path of an index file, which need not exist.

    Raises:
        InvalidInputError: If the system cannot even look there.
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


def _stored(name: str, value: str, path: str) -> int | str:
    if value in _CUTS and name not in _LEAST:
        return value
    try:
        return int(value)
    except ValueError as error:
        raise CorruptStoreError(
            f"{path} says {name}={value!r}, which it cannot be: restore a backup or index again"
        ) from error
