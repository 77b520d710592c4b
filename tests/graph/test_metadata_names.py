"""Names in the metadata that common loaders and splitters write."""

from __future__ import annotations

import numpy as np
import pytest

from e2graphrag_integrations.graph.metadata_names import names_in_metadata
from e2graphrag_integrations.graph.titles import Section


def names_in(*documents, ids=None):
    """Return the names, given the metadata of each chunk of each document."""
    chunks = [one for own in documents for one in own]
    owners = np.repeat(np.arange(len(documents)), [len(own) for own in documents])
    rows = np.arange(len(chunks))
    ids = ids or [f"d{number}" for number in range(len(documents))]
    return names_in_metadata(ids, owners, chunks, (rows, rows + 1, rows))


@pytest.mark.parametrize("key", ["title", "Title", "document_title", "doc_title", "dc:title"])
def test_title_keys_of_common_loaders_are_read(key):
    assert names_in([{key: " The  Palace "}], [{"other": "x"}]).titles == ["The Palace", None]


def test_title_keys_have_an_order():
    record = {"Title": "second", "title": "first", "page_title": "third"}
    assert names_in([record]).titles == ["first"]
    assert names_in([record | {"title": ""}]).titles == ["second"]
    assert names_in([record | {"title": 3}]).titles == ["second"]


def test_titles_that_differ_between_pages_are_those_of_their_chunks():
    names = names_in([{"title": "Weena"}, {"title": "Weena"}, {"title": "Eloi"}])
    assert names.titles == [None]
    assert names.titled == [Section("Weena", 0, 2), Section("Eloi", 2, 3)]
    assert names.sections == []


def test_headings_of_the_markdown_splitters_are_sections():
    path = {"header_path": "/Palaces/Weena/"}
    headers = {"Header 1": "Palaces", "Header 2": "Eloi"}
    names = names_in([{"header_path": "/"}, path, path], [headers, {"headings": ["Palaces"]}])
    assert sorted(names.sections) == [
        Section("Eloi", 3, 4),
        Section("Palaces", 1, 3),
        Section("Palaces", 3, 5),
        Section("Weena", 1, 3),
    ]


def test_a_section_begins_a_chunk_only_if_the_chunk_begins_below_its_heading():
    first, second = {"headings": ["Palaces", "Weena"]}, {"headings": ["Palaces", "Eloi"]}
    records_of_chunks = (np.array([0, 1]), np.array([1, 3]), np.array([0, 0, 1]))
    names = names_in_metadata(
        ["a"], np.zeros(2, dtype=np.int64), [first, second], records_of_chunks
    )
    assert sorted(names.sections) == [
        Section("Eloi", 1, 2, begins_chunk=False),
        Section("Palaces", 0, 2),
        Section("Weena", 0, 2),
    ]


def test_file_names_come_from_the_metadata_or_the_id():
    names = names_in(
        [{"file_name": "Weena.txt", "source": "Eloi.txt"}],
        [{"source": "/data/Eloi.pdf"}, {"source": "/data/Eloi.pdf"}],
        [{"source": "A.pdf"}, {"source": "B.pdf"}],
        [{}],
        [{}],
        ids=["1", "2", "3", "books/Palace.md", "Palace"],
    )
    assert names.files == ["Weena", "Eloi", None, "Palace", None]


def test_metadata_without_names_gives_none():
    names = names_in([{"page": 1}], [{}])
    assert (names.titles, names.files, names.sections) == ([None] * 2, [None] * 2, [])
