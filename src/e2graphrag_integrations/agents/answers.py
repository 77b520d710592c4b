"""The answers of the tools, which agents get as JSON.

Where an answer is `truncated`, its text is only the start of the range; `read` returns the rest.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hit:
    """A passage that answers a question.

    `spans` are the character ranges of the text in the document, `[start, end)`. A summary, whose
    `level` is 1 or above, is not a quotation of its range; `outline` lists its parts by `node_id`.
    Documents in `also_in`, at most 20, have the same text. `superseded_by` is the newest version.
    """

    document_id: str
    spans: list[list[int]]
    text: str
    relevance: float
    level: int = 0
    node_id: str | None = None
    title: str | None = None
    pages: str | None = None
    also_in: list[str] | None = None
    superseded_by: str | None = None
    truncated: bool = False


@dataclass(frozen=True)
class SearchAnswer:
    """Passages, best first. To see more, call again with `offset` = `next_offset`.

    `note` says what the answer lacks, because documents are not indexed yet or have failed.
    """

    hits: list[Hit]
    next_offset: int | None
    note: str | None = None


@dataclass(frozen=True)
class ReadAnswer:
    """A part of a document. `next_start` is the start of the rest, or null at the end."""

    document_id: str
    title: str | None
    start: int
    end: int
    text: str
    next_start: int | None


@dataclass(frozen=True)
class Entry:
    """A document, or a node of a document's tree.

    `children` is the number of nodes under it. A document has no `node_id` and no text.
    """

    document_id: str
    start: int
    end: int
    children: int
    title: str | None = None
    node_id: str | None = None
    level: int | None = None
    text: str | None = None
    truncated: bool = False


@dataclass(frozen=True)
class OutlineAnswer:
    """Documents or nodes, in order. `total` is the number of all of them.

    `metadata` has the keys of the documents' metadata, each with some of its values. `note` says
    which documents are not listed, because they are not indexed yet or have failed.
    """

    entries: list[Entry]
    total: int
    next_offset: int | None
    metadata: dict[str, list[str | int | float | bool]] | None = None
    note: str | None = None


@dataclass(frozen=True)
class MentionEntry:
    """A sentence that mentions an entity, with its character range in the document."""

    document_id: str
    start: int
    end: int
    text: str
    truncated: bool = False


@dataclass(frozen=True)
class EntityAnswer:
    """An entity. `neighbors` share the most sentences with it."""

    name: str
    type: str
    aliases: list[str]
    mention_count: int
    document_count: int
    neighbors: list[str]
    subject_of: list[str]
    mentions: list[MentionEntry]
    next_offset: int | None


@dataclass(frozen=True)
class HopEntry:
    """Two entities and a sentence that mentions both, with its character range."""

    source: str
    target: str
    document_id: str
    start: int
    end: int
    text: str
    truncated: bool = False


@dataclass(frozen=True)
class PathEntry:
    """A chain of entities, each hop with its evidence."""

    entities: list[str]
    hops: list[HopEntry]


@dataclass(frozen=True)
class PathAnswer:
    """Chains of entities from one name to the other, best first."""

    paths: list[PathEntry]
    next_offset: int | None
