"""Titles, headings and file names in the metadata that common loaders and splitters write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges
from e2graphrag_integrations.graph.sections import Section
from e2graphrag_integrations.text.headings import MAX_LEVEL
from e2graphrag_integrations.text.title_rules import is_junk_title, name_of_file

TITLE_KEYS = ("title", "Title", "document_title", "doc_title", "page_title", "dc:title")
"""Metadata keys of a title, in order of preference."""

HEADER_PATH = "header_path"
"""Metadata key of the headings above a chunk, as LlamaIndex's `MarkdownNodeParser` writes them."""

HEADING_LISTS = ("headings",)
"""Metadata keys of a list of the headings above a chunk, as Docling writes them."""

HEADER_KEYS = tuple(
    f"{prefix}{level}"
    for prefix in ("Header ", "Header_", "h")
    for level in range(1, MAX_LEVEL + 1)
)
"""Metadata keys of a heading, as LangChain's header splitters usually name them."""

FILE_KEYS = ("file_name", "filename", "file_path", "source")
"""Metadata keys of a file, in order of preference. The id of the document comes last."""

_KEYS = frozenset((*TITLE_KEYS, HEADER_PATH, *HEADING_LISTS, *HEADER_KEYS, *FILE_KEYS))


@dataclass(frozen=True, eq=False)
class NamesInMetadata:
    """Names in the metadata of documents and chunks.

    Attributes:
        titles: The title of each document in its metadata.
        files: The name of each document's file, if it reads as a name.
        sections: The chunks that have one heading in their metadata.
    """

    titles: Sequence[str | None]
    files: Sequence[str | None]
    sections: Sequence[Section] = ()


def names_in_metadata(
    documents: Sequence[str],
    chunk_documents: IntArray,
    records: Sequence[Mapping[str, Any]],
    records_of_chunks: tuple[IntArray, IntArray, IntArray],
) -> NamesInMetadata:
    """Return the names in the metadata.

    A document has the title or file that all its records share. Where they differ, as in a tree of
    several pages, each title is a heading of its own chunks.

    Args:
        documents: The id of each document.
        chunk_documents: The document of each chunk, ascending.
        records: The metadata records.
        records_of_chunks: The starts and ends of each chunk's records, and the rows of the records.
    """
    relevant = {row: one for row, one in enumerate(records) if not _KEYS.isdisjoint(one)}
    titles: list[dict[str, None]] = [{} for _ in documents]
    files: list[dict[str, None]] = [{} for _ in documents]
    pairs: list[tuple[int, int]] = []  # chunk and record
    owners = chunk_documents.tolist()
    if relevant:
        starts, ends, rows = records_of_chunks
        chunks = np.repeat(np.arange(len(starts)), ends - starts)
        used = rows[concatenated_ranges(starts, ends - starts)]
        pairs = list(zip(chunks.tolist(), used.tolist(), strict=True))
    title_of = {row: _title(one) for row, one in relevant.items()}
    file_of = {row: next(_texts(one, FILE_KEYS), None) for row, one in relevant.items()}
    for chunk, row in pairs:
        for values, found in ((title_of, titles), (file_of, files)):
            value = values.get(row)
            if value is not None:
                found[owners[chunk]][value] = None
    shared = [next(iter(own)) if len(own) == 1 else None for own in titles]
    names = [name_of_file(next(iter(own))) if len(own) == 1 else None for own in files]
    names = [
        name or (name_of_file(id_) if "." in id_ else None)
        for name, id_ in zip(names, documents, strict=True)
    ]
    headings: dict[int, list[str]] = {}
    for chunk, row in pairs:
        own = _headings(relevant[row]) if row in relevant else []
        if title_of.get(row) is not None and shared[owners[chunk]] is None:
            own.append(str(title_of[row]))
        if own:
            headings.setdefault(chunk, []).extend(own)
    return NamesInMetadata(shared, names, list(_runs(headings, owners)))


def _texts(record: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    """Yield the values that are texts, in the order of the keys."""
    values = (record.get(key) for key in keys)
    return (" ".join(value.split()) for value in values if isinstance(value, str) and value.strip())


def _title(record: Mapping[str, Any]) -> str | None:
    return next((title for title in _texts(record, TITLE_KEYS) if not is_junk_title(title)), None)


def _headings(record: Mapping[str, Any]) -> list[str]:
    path = record.get(HEADER_PATH)
    found: list[Any] = path.split("/") if isinstance(path, str) else []
    for key in HEADING_LISTS:
        value = record.get(key)
        found += value if isinstance(value, list) else []
    listed = [" ".join(one.split()) for one in found if isinstance(one, str) and one.strip()]
    return [*listed, *_texts(record, HEADER_KEYS)]


def _runs(headings: Mapping[int, Sequence[str]], owners: Sequence[int]) -> Iterator[Section]:
    """Yield the runs of adjacent chunks of a document that share a heading."""
    is_open: dict[str, int] = {}
    previous = -1
    for chunk, names in headings.items():
        goes_on = chunk == previous + 1 and previous >= 0 and owners[chunk] == owners[previous]
        for name in [*is_open] if goes_on else ():
            if name not in names:
                yield Section(name, is_open.pop(name), chunk)
        if not goes_on:
            yield from (Section(name, first, previous + 1) for name, first in is_open.items())
            is_open.clear()
        for name in names:
            is_open.setdefault(name, chunk)
        previous = chunk
    yield from (Section(name, first, previous + 1) for name, first in is_open.items())
