"""Which documents of a framework share a summary tree: the pages, rows and chunks of one source.

Loaders return a file as one document, or as one for each page, row or chunk. Documents are parts of
one text only if their metadata say so: they name the same source, each has a *position* in it (a
page, row, number, offset or heading), and nothing else in their metadata differs. All other
documents have trees of their own, because a tree mixes texts: in chunks, and in summaries.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2graphrag_integrations.graph.metadata_names import HEADER_KEYS
from e2graphrag_integrations.indexing.scope_keys import scoped_tree_name
from e2graphrag_integrations.pages import NODE_FIELDS, PAGE_ID, PAGE_KEYS
from e2graphrag_integrations.store.records import canonical_json

START = "start_index"
"""Metadata key of a chunk's offset, which text splitters with `add_start_index=True` add."""

_PAGES = (*PAGE_KEYS, "page_index", "slide", "slide_number")
"""Keys of pages. Text continues from one page to the next, so pages may share a chunk."""

_ROWS = ("row", "row_number", "row_index", "line", "line_number", "seq_num", "sequence_number")
"""Keys of records, such as the rows of a table. A record is a text of its own."""

_CHUNKS = (
    START,
    "start_char_idx",
    "chunk",
    "chunk_index",
    "chunk_number",
    "chunk_id",
    "part",
    "part_number",
    "sequence",
    "seq",
    "index",
)
"""Keys that number the chunks of a text."""

_FILE_FACTS = (
    *("file_name", "file_type", "file_size", "total_pages", "format", "producer", "creator"),
    *("creation_date", "last_modified_date", "last_accessed_date"),
    *("creationdate", "moddate", "creationDate", "modDate", "trapped"),
)
"""Keys in which readers describe a file. They follow from the source, so they separate no trees,
but texts with different values share no chunk."""

_DIGEST_LENGTH = 10
"""Hexadecimal digits that tell the trees of one source apart."""

_MARKED = re.compile(rf"(.+) #[0-9a-f]{{{_DIGEST_LENGTH}}}", re.DOTALL)
"""The id of a tree with a mark."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The summary tree of a document.

    Attributes:
        id: Id of the tree. It depends on the document alone, so that other documents, which some
            readers must not know about, do not change it.
        reasons: The metadata keys that say that the document is a part of a source; empty for a
            document with a tree of its own.
    """

    id: str
    reasons: tuple[str, ...] = ()


def tree_of(
    document_id: str,
    metadata: Mapping[str, Any],
    source_keys: Sequence[str],
    scope_keys: Sequence[str] = (),
) -> Tree:
    """Return the tree of a document.

    Args:
        document_id: Id of the document.
        metadata: Its metadata, as JSON values.
        source_keys: Keys that name the source of a document by its full path or address, in order
            of preference. The name of a file without its folder is none, because files in
            different folders have the same.
        scope_keys: Keys that the id of the tree contains, because trees must not span their values.

    >>> tree_of("1", {"source": "a.pdf", "page": 1}, ["source"]).id
    'a.pdf'
    >>> tree_of("1", {"source": "a.pdf", "page": 1, "by": "Ann"}, ["source"]).id
    'a.pdf #97645b5245'
    >>> tree_of("1", {"source": "a.pdf"}, ["source"]).id
    '1'
    """
    own = next((key for key in source_keys if metadata.get(key) not in (None, "")), None)
    positions = position_keys(metadata)
    if own is None or not positions:
        return Tree(document_id)
    values = [str(metadata[key]) for key in (*positions, own)]
    rest = {
        key: value
        for key, value in metadata.items()
        if key not in (*positions, *_FILE_FACTS, *scope_keys)
        # Some readers of PDF files store the label of the page as `source`, beside the path.
        and not (key in source_keys and str(value) in values)
    }
    named = scoped_tree_name(str(metadata[own]), metadata, scope_keys)
    return Tree(marked(named, canonical_json(rest)) if rest else named, (own, *positions))


def marked(name: str, distinction: str) -> str:
    """Return a name with a mark that differs for different distinctions."""
    digest = hashlib.sha256(distinction.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name} #{digest[:_DIGEST_LENGTH]}"


def tree_names(tree_id: str, document_ids: Collection[str]) -> tuple[str, ...]:
    """Return the names under which a tree is found: its id, and the source before a mark in it.

    Args:
        tree_id: The id of the tree.
        document_ids: Ids of a document in it. If the id of the tree is one of them, it has no mark.

    >>> tree_names("a.pdf #97645b5245", ["1"])
    ('a.pdf #97645b5245', 'a.pdf')
    """
    marked_source = None if tree_id in document_ids else _MARKED.fullmatch(tree_id)
    return (tree_id,) if marked_source is None else (tree_id, marked_source[1])


def position_keys(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the metadata keys that say where in its source a document is."""
    pages = (key for key in _PAGES if _is_label(metadata.get(key)))
    numbers = (key for key in (*_ROWS, *_CHUNKS) if _number(metadata.get(key)) is not None)
    headings = (key for key in HEADER_KEYS if isinstance(metadata.get(key), str))
    return (*pages, *numbers, *headings)


def page_number(metadata: Mapping[str, Any]) -> float:
    """Return the number of a page, by which pages are ordered; infinity if there is none."""
    return _first_number(metadata, _PAGES)


def row_number(metadata: Mapping[str, Any]) -> float:
    """Return the number of a record, by which records are ordered; infinity if there is none."""
    return _first_number(metadata, _ROWS)


def chunk_number(metadata: Mapping[str, Any]) -> float:
    """Return the number of a chunk in its text; infinity if there is none."""
    return _first_number(metadata, [key for key in _CHUNKS if key != START])


def may_share_chunk(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether a chunk may contain text of two adjacent documents of one tree.

    Only different pages of one text may share a chunk: nothing but the page differs.

    Args:
        first: Metadata of a document, as stored in its segment.
        second: That of the next document.
    """
    positions = {*position_keys(first), *position_keys(second)}
    if not positions or not positions <= {*_PAGES}:
        return False
    is_same_page = all(first.get(key) == second.get(key) for key in positions)
    return not is_same_page and _without(first, positions) == _without(second, positions)


def describe_groups(trees: Sequence[Tree]) -> str:
    """Return one line about the documents that share trees; empty if there are none.

    Args:
        trees: The tree of each document.
    """
    counts = Counter(tree.id for tree in trees if tree.reasons)
    shared = [tree for tree in trees if counts[tree.id] > 1]
    if not shared:
        return ""
    source, *positions = shared[0].reasons
    return (
        f"{len(shared)} documents share {len({tree.id for tree in shared})} summary tree(s), "
        f"because they have the same {source!r}, a position in it "
        f"({', '.join(map(repr, positions))}), and otherwise equal metadata; "
        "IndexSettings(tree_per='document') gives each a tree of its own"
    )


def _without(metadata: Mapping[str, Any], keys: set[str]) -> dict[str, Any]:
    fields = {key: value for key, value in metadata.get(NODE_FIELDS, {}).items() if key != "hash"}
    own = {key: value for key, value in metadata.items() if key not in keys and key != PAGE_ID}
    return own | {NODE_FIELDS: fields}


def _first_number(metadata: Mapping[str, Any], keys: Sequence[str]) -> float:
    numbers = (_number(metadata.get(key)) for key in keys)
    return next((number for number in numbers if number is not None), math.inf)


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() else None


def _is_label(value: object) -> bool:
    return bool(value) if isinstance(value, str) else _number(value) is not None
