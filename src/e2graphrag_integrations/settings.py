"""The numbers an index is made with; kept in its manifest, so that it opens as it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError


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
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidInputError(f"{field.name}={value!r} must be a whole number")
        if not 0 <= self.chunk_overlap < self.chunk_size:
            raise InvalidInputError(
                f"chunk_overlap={self.chunk_overlap} must be at least 0 and less than "
                f"chunk_size={self.chunk_size}"
            )
        if self.group_size < 2:  # noqa: PLR2004 - a group of one would never end
            raise InvalidInputError(f"group_size={self.group_size} must be at least 2")
        if self.summary_tokens < 1:
            raise InvalidInputError(f"summary_tokens={self.summary_tokens} must be at least 1")

    def to_manifest(self) -> dict[str, str]:
        """Return the settings as manifest entries."""
        return {name: str(value) for name, value in asdict(self).items()}


def resolve_settings(given: Mapping[str, Any], manifest: Mapping[str, str], path: str) -> Settings:
    """Merge what a user asked for with what an index was made with.

    Raises:
        InvalidInputError: For an unknown setting or a value out of range.
        SettingsMismatchError: If the index was made with another value.
    """
    names = [field.name for field in fields(Settings)]
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InvalidInputError(f"unknown setting {unknown[0]!r}; there are {', '.join(names)}")
    asked = {name: value for name, value in given.items() if value is not None}
    made = {name: int(manifest[name]) for name in names if name in manifest}
    for name, value in asked.items():
        if name in made and made[name] != value:
            raise SettingsMismatchError(
                f"{path} was made with {name}={made[name]}, not {value}: leave {name} out, "
                "or index into a new file"
            )
    return Settings(**{**asked, **made})
