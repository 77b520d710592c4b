"""Titles, headings and file names in the metadata that common loaders and splitters write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, filterfalse
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges
from e2graphrag_integrations.graph.titles import Section
from e2graphrag_integrations.text.headings import (
    MAX_LEVEL,
    is_junk_title,
    name_of_file,
    words_of_file,
)
from e2graphrag_integrations.types import HEADINGS

TITLE_KEYS = ("title", "Title", "document_title", "doc_title", "page_title", "dc:title")
"""Metadata keys of a title, in order of preference."""

HEADER_PATH = "header_path"
"""Metadata key of the headings above a chunk, as LlamaIndex's `MarkdownNodeParser` writes them."""

HEADER_KEYS = tuple(
    f"{prefix}{level}"
    for prefix in ("Header ", "Header_", "h")
    for level in range(1, MAX_LEVEL + 1)
)
"""Metadata keys of a heading, as LangChain's header splitters usually name them."""

FILE_KEYS = ("file_name", "filename", "file_path", "source")
"""Metadata keys of a file, in order of preference. The id of the document comes last."""

_HEADING_KEYS = frozenset((HEADER_PATH, HEADINGS, *HEADER_KEYS))
_KEYS = _HEADING_KEYS.union(TITLE_KEYS, FILE_KEYS)


@dataclass(frozen=True, eq=False)
class NamesInMetadata:
    """Names in the metadata of documents and chunks.

    Attributes:
        titles: The title of each document in its metadata.
        files: The name of each document's file, if it reads as a name.
        sections: The chunks that have one heading in their metadata.
        titled: The chunks that have one title, in documents with several titles.
    """

    titles: Sequence[str | None]
    files: Sequence[str | None]
    sections: Sequence[Section] = ()
    titled: Sequence[Section] = ()


def names_in_metadata(
    documents: Sequence[str],
    chunk_documents: IntArray,
    records: Sequence[Mapping[str, Any]],
    records_of_chunks: tuple[IntArray, IntArray, IntArray],
) -> NamesInMetadata:
    """Return the names in the metadata.

    A document has the title or file that all its records share. Where they differ, as in a tree of
    several pages, each title is that of its own chunks.

    Args:
        documents: The id of each document.
        chunk_documents: The document of each chunk, ascending.
        records: The metadata records.
        records_of_chunks: The starts and ends of each chunk's records, and the rows of the records.
    """
    keys = _KEYS.intersection(key for record in records for key in record)
    starts, ends, rows = records_of_chunks
    sizes = ends - starts
    chunks = np.repeat(np.arange(len(starts)), sizes)
    used = rows[concatenated_ranges(starts, sizes)]
    owners = chunk_documents[chunks]
    title_of = _by_record(records, [key for key in TITLE_KEYS if key in keys], is_junk_title)
    file_of = _by_record(records, [key for key in FILE_KEYS if key in keys])
    titles = _shared(title_of, used, owners, len(documents))
    files = _shared(file_of, used, owners, len(documents))
    file_names = [
        (name_of_file(file) if file else None) or (name_of_file(id_) if "." in id_ else None)
        for file, id_ in zip(files, documents, strict=True)
    ]
    headings: dict[int, list[list[str]]] = {}
    own_titles: dict[int, list[list[str]]] = {}
    differs = {row for row in range(len(documents)) if titles[row] is None}
    has_headings = not keys.isdisjoint(_HEADING_KEYS)
    if has_headings or (title_of and differs):
        columns = (column.tolist() for column in (chunks, used, owners))
        for chunk, row, owner in zip(*columns, strict=True):
            if has_headings:
                headings.setdefault(chunk, []).append(headings_of(records[row]))
            if row in title_of and owner in differs:
                own_titles.setdefault(chunk, []).append([title_of[row]])
    document_of = chunk_documents.tolist()
    return NamesInMetadata(
        titles, file_names, list(_runs(headings, document_of)), list(_runs(own_titles, document_of))
    )


def _by_record(
    records: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    is_excluded: Callable[[str], bool] = lambda _: False,
) -> dict[int, str]:
    """Return the first text of each record that has one, by row."""
    if not keys:
        return {}
    is_junk = cache(is_excluded)  # most records of a document have the same title
    firsts = (next(filterfalse(is_junk, _texts(record, keys)), "") for record in records)
    return {row: text for row, text in enumerate(firsts) if text}


def _shared(
    values: Mapping[int, str], used: IntArray, owners: IntArray, documents: int
) -> list[str | None]:
    """Return the value that all records of each document share, if they do.

    `used` are the records of all chunks, and `owners` the documents of these chunks.
    """
    shared: list[str | None] = [None] * documents
    differing: set[int] = set()
    rows, first = np.unique(used, return_index=True)
    for row, owner in zip(rows.tolist(), owners[first].tolist(), strict=True) if values else ():
        value = values.get(row)
        if value is not None and shared[owner] not in (None, value):
            differing.add(owner)
        shared[owner] = shared[owner] or value
    return [None if row in differing else value for row, value in enumerate(shared)]


def _texts(record: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    """Yield the values that are texts, in the order of the keys."""
    values = (record.get(key) for key in keys)
    return (" ".join(value.split()) for value in values if isinstance(value, str) and value.strip())


def source_of(record: Mapping[str, Any], document_id: str) -> str:
    """Return the title in a metadata record, or else the words of the file's path, or "".

    Args:
        record: The metadata.
        document_id: Id of the document, which may be the path of its file.
    """
    titles = (title for title in _texts(record, TITLE_KEYS) if not is_junk_title(title))
    files = map(words_of_file, [*_texts(record, FILE_KEYS), document_id])
    return next(filter(None, chain(titles, files)), "")


def headings_of(record: Mapping[str, Any]) -> list[str]:
    """Return the headings in a metadata record, as common loaders and splitters write them."""
    if _HEADING_KEYS.isdisjoint(record):
        return []
    path = record.get(HEADER_PATH)
    found: list[Any] = path.split("/") if isinstance(path, str) else []
    listed = record.get(HEADINGS)
    found += listed if isinstance(listed, list) else []
    names = [" ".join(one.split()) for one in found if isinstance(one, str) and one.strip()]
    return [*names, *_texts(record, HEADER_KEYS)]


def _runs(
    names_of_records: Mapping[int, Sequence[Sequence[str]]], owners: Sequence[int]
) -> Iterator[Section]:
    """Yield the runs of adjacent chunks of a document that share a heading in their records."""
    is_open: dict[str, Section] = {}
    previous = -1
    for chunk, records in names_of_records.items():
        names = dict.fromkeys(chain.from_iterable(records))
        goes_on = chunk == previous + 1 and previous >= 0 and owners[chunk] == owners[previous]
        for name in [*is_open] if goes_on else ():
            if name not in names:
                yield is_open.pop(name)._replace(end=chunk)
        if not goes_on:
            yield from (one._replace(end=previous + 1) for one in is_open.values())
            is_open.clear()
        begins_chunk = frozenset(records[0])
        for name in names:
            is_open.setdefault(name, Section(name, chunk, chunk + 1, name in begins_chunk))
        previous = chunk
    yield from (one._replace(end=previous + 1) for one in is_open.values())
