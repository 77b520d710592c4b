"""The data that flows through the package: documents, nodes and mentions, all frozen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from e2graphrag_integrations._utils.validation import check_int, check_text, short_repr
from e2graphrag_integrations.errors import InvalidInputError

NOUN = "NOUN"
"""Label of a mention that is a common noun; every other label marks a named entity."""


class Span(NamedTuple):
    """Half-open character range `[start, end)` of a document's text."""

    start: int
    end: int


class Segment(NamedTuple):
    """A span of a document with metadata of its own: a page, a message, a section."""

    start: int
    end: int
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A text to index.

    Args:
        id: Unique, non-empty name of the document in the index.
        text: The whole text. Every span in every result refers to it.
        title: Prefixed to each chunk for embedding, never part of a span.
        metadata: JSON-plain values, used by `where` filters and returned with results; copied.
        segments: `(start, end, metadata)` triples in order, not overlapping; a segment's metadata
            is laid over the document's for the text it covers.

    Raises:
        InvalidInputError: If a field cannot be stored as it is.
    """

    id: str
    text: str
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    segments: Sequence[Segment | tuple[int, int, Mapping[str, Any]]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip():
            raise InvalidInputError(
                f"document id must be a non-empty string, not {short_repr(self.id)}"
            )
        for name, value in (
            ("id", self.id),
            ("text", self.text),
            ("title", "" if self.title is None else self.title),
        ):
            check_text(f"{name} of document {self.id!r}", value)
        # Copies: what the caller changes later must not change what was checked.
        object.__setattr__(self, "metadata", _plain(self.metadata, f"document {self.id!r}"))
        try:
            triples = [Segment(*segment) for segment in self.segments]
        except TypeError as error:
            raise InvalidInputError(
                f"segments of document {self.id!r} must be (start, end, metadata) triples: {error}"
            ) from error
        object.__setattr__(self, "segments", self._checked_segments(triples))

    def _checked_segments(self, triples: Sequence[Segment]) -> tuple[Segment, ...]:
        previous, size = 0, len(self.text)
        checked = []
        for number, (start, end, metadata) in enumerate(triples):
            where = f"segment {number} of document {self.id!r}"
            try:
                first = check_int("start", start, previous, size)
                last = check_int("end", end, first, size)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"{where} spans {short_repr(start)}-{short_repr(end)}: segments must be in order, must "
                    f"not overlap and must lie within the text's {size} characters"
                ) from error
            checked.append(Segment(first, last, _plain(metadata, where)))
            previous = last
        return tuple(checked)


def _plain(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a copy as JSON gives it back, so that it is what the store would give back."""
    try:
        fits = isinstance(metadata, Mapping) and _keys_are_strings(metadata)
        plain = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False) if fits else "{}"
        plain.encode("utf-8")
        copy: dict[str, Any] = json.loads(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"metadata of {where} is not plain JSON ({error}); "
            "use str, int, float, bool, None, lists and dicts"
        ) from error
    if not fits:
        raise InvalidInputError(f"metadata of {where} must map strings to JSON values")
    if "document_id" in copy:
        raise InvalidInputError(
            f"metadata of {where} has the key 'document_id', which filters reserve for the "
            "document's id; rename it"
        )
    return copy


def _keys_are_strings(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and _keys_are_strings(v) for k, v in value.items())
    return not isinstance(value, list | tuple) or all(_keys_are_strings(v) for v in value)


@dataclass(frozen=True, slots=True)
class Node:
    """A chunk (level 0) or a summary (level 1 and up) of one document.

    `start` and `end` are the span in the document that the node covers: `text[start:end]` is a
    chunk's own text, and the stretch from first to last chunk under it for a summary. `position`
    counts from 0 within document and level. A summary's text is empty until it is made.
    """

    id: str
    document_id: str
    level: int
    position: int
    start: int
    end: int
    text: str
    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()


class Mention(NamedTuple):
    """An entity in a sentence: its name, its span in the text searched, and its label.

    `entity` is the surface form of a name or the lemma of a common noun; the index stores its
    normal form. `label` is `NOUN` for a common noun, else the kind of name (`PERSON`, `NAME`, ...).
    """

    entity: str
    start: int
    end: int
    label: str = NOUN

    @property
    def named(self) -> bool:
        """Whether the mention is a name rather than a common noun."""
        return self.label != NOUN


Sentences = Sequence[Sequence[Mention]]
"""What an extractor finds in one text: per sentence, its mentions."""
