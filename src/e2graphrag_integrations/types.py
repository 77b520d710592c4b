"""Immutable data types: documents, nodes and mentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from e2graphrag_integrations._utils.validation import (
    check_int,
    check_text,
    plain_json,
    short_repr,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.languages.language import checked_code

NOUN = "NOUN"
"""Label of common nouns. All labels except this one and `SUBJECT_LABELS` denote named entities."""

SUPERSEDES = "supersedes"
"""Default metadata key of the document that a version replaces."""

HEADING = "subject:heading"
"""Label of a heading. The mention names what the text below it is about."""

DEFINITION = "subject:definition"
"""Label of a name that the first sentence of a text defines, as in "Rush is a band"."""

SECTION_LABELS = tuple(f"subject:h{level}" for level in range(1, 7))
"""Labels of the headings of sections, by level. A heading also holds for the chunks that follow, up
to the next heading of its level or above."""

SUBJECT_LABELS = frozenset({HEADING, DEFINITION, *SECTION_LABELS})
"""Labels of mentions that name the subject of a text. They are not part of the entity graph.

No extractor uses them: pipelines have labels without colons, such as "HEADING".
"""


HEADINGS = "headings"
"""Metadata key of a segment for the list of the headings above it, highest first.

The loaders and Docling write it. `split_segments` does not split where only this key differs.
"""


class Span(NamedTuple):
    """A half-open character range `[start, end)` in a document's text."""

    start: int
    end: int


class Segment(NamedTuple):
    """A span of a document that has its own metadata, for example a page or a message."""

    start: int
    end: int
    metadata: Mapping[str, Any]


_MAX_ID_BYTES = 1000
"""Maximum size of an id: an index of Postgres accepts no keys above about 2,700 bytes."""


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document to index.

    Args:
        id: Non-empty id of at most 1,000 bytes in UTF-8, unique within the index.
        text: The full text, to which all spans in results refer.
        title: Title, which is prefixed to each window for embedding and BM25 and is not part of any
            span.
        metadata: JSON values, which `where` filters match and results include. The mapping is
            copied.
        segments: `(start, end, metadata)` triples, ordered by start and by end. Within a segment's
            span, its metadata overrides that of the document. Where segments overlap, the later one
            applies, except that a chunk with the span of a segment has the metadata of that one.
        language: Code of the language, such as "en", "zh" or "pt-BR", of which the first part is
            kept. None detects it when the document is indexed. Documents that differ only in their
            language are equal.

    Raises:
        InvalidInputError: If a field cannot be stored unchanged.
    """

    id: str
    text: str
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    segments: Sequence[Segment | tuple[int, int, Mapping[str, Any]]] = ()
    language: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip():
            raise InvalidInputError(
                f"document id must be a non-empty string, not {short_repr(self.id)}"
            )
        for name, value in (("id", self.id), ("text", self.text), ("title", self.title)):
            if value is not None or name != "title":
                checked = check_text(f"{name} of document {self.id!r}", value)
                object.__setattr__(self, name, checked)
        if (size := len(self.id.encode())) > _MAX_ID_BYTES:
            raise InvalidInputError(
                f"the id of a document has {size:,} bytes in UTF-8, but at most {_MAX_ID_BYTES:,} "
                f"are allowed: use a shorter one, such as a hash of it, for {short_repr(self.id)}"
            )
        # Copy, so that later changes by the caller cannot bypass validation.
        object.__setattr__(self, "metadata", _plain(self.metadata, f"document {self.id!r}"))
        try:
            triples = [Segment(*segment) for segment in self.segments]
        except TypeError as error:
            raise InvalidInputError(
                f"segments of document {self.id!r} must be (start, end, metadata) triples: {error}"
            ) from error
        object.__setattr__(self, "segments", self._checked_segments(triples))
        if self.language is not None:
            code = checked_code(self.language, f"language of document {self.id!r}")
            object.__setattr__(self, "language", code)

    def _checked_segments(self, triples: Sequence[Segment]) -> tuple[Segment, ...]:
        previous, size = Span(0, 0), len(self.text)
        checked = []
        for number, (start, end, metadata) in enumerate(triples):
            where = f"segment {number} of document {self.id!r}"
            try:
                first = check_int("start", start, previous.start, size)
                last = check_int("end", end, max(first, previous.end), size)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"{where} spans {short_repr(start)}-{short_repr(end)}: segments must be in "
                    f"order of start and end, and must lie within the text's {size} characters"
                ) from error
            checked.append(Segment(first, last, _plain(metadata, where)))
            previous = Span(first, last)
        return tuple(checked)


def _plain(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a copy that went through JSON, so that it equals the metadata read from the store."""
    try:
        is_valid = isinstance(metadata, Mapping) and _keys_are_strings(metadata)
    except RecursionError as error:
        raise InvalidInputError(f"metadata of {where} is not plain JSON: too deep") from error
    if not is_valid:
        raise InvalidInputError(f"metadata of {where} must map strings to JSON values")
    copy = plain_json(metadata, where)
    if "document_id" in copy:
        raise InvalidInputError(
            f"metadata of {where} has the key 'document_id', which is reserved for the "
            "document's id in filters: rename the key"
        )
    return copy


def _keys_are_strings(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and _keys_are_strings(v) for k, v in value.items())
    return not isinstance(value, list | tuple) or all(_keys_are_strings(v) for v in value)


@dataclass(frozen=True, slots=True)
class Node:
    """A chunk (level 0) or a summary (level 1 and above) of one document.

    Attributes:
        start: Start of the span that the node covers in the document. A chunk's text is
            `document.text[start:end]`; a summary covers all chunks below it.
        end: End of the span.
        position: Position among the document's nodes on this level, from 0.
        text: The text; empty for a summary that has not been generated yet.
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
    """An occurrence of an entity in a sentence.

    Attributes:
        entity: The surface form of a name, or the lemma of a common noun. The index stores the
            normal form.
        start: Start of the span in the text passed to the extractor.
        end: End of the span.
        label: `NOUN` for a common noun; otherwise, the type of the name (`PERSON`, `NAME`, ...).
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
"""The mentions of one text, grouped by sentence."""
