"""The numbers an index is made with; kept in its manifest, so that it opens as it was made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from e2graphrag_integrations.checks import shown, whole_number
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SettingsMismatchError,
)

_LEAST = {"chunk_size": 1, "chunk_overlap": 0, "group_size": 2, "summary_tokens": 1}
"""A group of one would never end."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How documents are cut and summarised.

    Args:
        chunk_size: Most tokens in a chunk.
        chunk_overlap: Most tokens that neighbouring chunks share.
        group_size: Nodes under one summary.
        summary_tokens: Most tokens in a summary; longer ones are cut at a sentence.
    """

    chunk_size: int = 1200
    chunk_overlap: int = 100
    group_size: int = 5
    summary_tokens: int = 300

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        if self.chunk_overlap >= self.chunk_size:
            raise InvalidInputError(
                f"chunk_overlap={self.chunk_overlap} must be less than chunk_size={self.chunk_size}"
            )

    def to_manifest(self) -> dict[str, str]:
        """Return the settings as manifest entries."""
        return {name: str(value) for name, value in asdict(self).items()}


def resolve_settings(given: Mapping[str, Any], manifest: Mapping[str, str], path: str) -> Settings:
    """Merge what a user asked for with what an index was made with.

    Raises:
        InvalidInputError: For an unknown setting or a value out of range.
        SettingsMismatchError: If the index was made with another value.
        CorruptStoreError: If its own are no numbers.
    """
    names = [field.name for field in fields(Settings)]
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InvalidInputError(f"unknown setting {unknown[0]!r}; there are {', '.join(names)}")
    asked = {name: value for name, value in given.items() if value is not None}
    made = {name: _stored(name, manifest[name], path) for name in names if name in manifest}
    for name, value in asked.items():
        if name in made and made[name] != value:
            raise SettingsMismatchError(
                f"{path} was made with {name}={made[name]}, not {shown(value)}: leave {name} out, "
                "or index into a new file"
            )
    return Settings(**{**asked, **made})


def checked_path(path: Any) -> str:
    """Return the path of an index file, which need not exist.

    Raises:
        InvalidInputError: If the system cannot even look there.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(given, str) or not given.strip():
        raise InvalidInputError(f"path={shown(path)} must name a file: pass a str or a Path")
    try:
        Path(given).stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"path={shown(given)} cannot be used: {error}") from error
    return str(Path(given))


def _stored(name: str, value: str, path: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise CorruptStoreError(
            f"{path} says {name}={value!r}, which is no number: restore a backup or index again"
        ) from error
