"""Which documents of a framework share a summary tree."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.indexing.grouping import describe_groups, may_share_chunk, tree_of

SOURCES = ("source", "file_path")
PDF = {"source": "/a/x.pdf", "producer": "p", "moddate": "1", "total_pages": 2}


def share_tree(first, second):
    trees = [tree_of(id_, one, SOURCES) for id_, one in (("1", first), ("2", second))]
    return trees[0].id == trees[1].id


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PDF | {"page": 0, "page_label": "i"}, PDF | {"page": 1, "page_label": "ii"}),
        (PDF | {"page": 0}, PDF | {"page": 1, "moddate": "2"}),  # the file was saved again
        ({"source": "x.csv", "row": 0}, {"source": "x.csv", "row": 1}),
        ({"source": "x.json", "seq_num": 1}, {"source": "x.json", "seq_num": 2}),
        ({"source": "x", "start_index": 0}, {"source": "x", "start_index": 9, "chunk": 2}),
        (
            {"file_path": "/x.pdf", "source": "1", "page_label": "1"},
            {"file_path": "/x.pdf", "source": "2", "page_label": "2"},
        ),
    ],
)
def test_positions_in_one_source_share_a_tree(first, second):
    keys = ("file_path", "source") if "file_path" in first else SOURCES
    assert tree_of("1", first, keys).id == tree_of("2", second, keys).id


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({"source": "x"}, {"source": "x"}),
        ({"file_name": "x.pdf", "page": 1}, {"file_name": "x.pdf", "page": 2}),
        ({"source": "x", "page": 1}, {"source": "y", "page": 2}),
        ({"source": "x", "page": 1}, {"source": "x"}),
        ({"source": "x", "page": 1, "tenant": "a"}, {"source": "x", "page": 2, "tenant": "b"}),
        ({"source": "x", "page": 1, "tenant": "a"}, {"source": "x", "page": 2}),
        ({"source": "x", "row": "north"}, {"source": "x", "row": "south"}),
        ({"source": "x", "page": True}, {"source": "x", "page": False}),
        ({"page": 1}, {"page": 2}),
    ],
)
def test_all_other_documents_stay_apart(first, second):
    assert not share_tree(first, second)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"page": 1}, {"page": 2}, True),
        ({"page": 1}, {"page": 1}, False),  # two versions of a page
        ({"page": 1, "by": "a"}, {"page": 2, "by": "b"}, False),
        ({"page": 1, "moddate": "1"}, {"page": 2, "moddate": "2"}, False),
        ({"row": 1}, {"row": 2}, False),
        ({"page": 1, "row": 1}, {"page": 2, "row": 2}, False),
        ({"seq_num": 1}, {"seq_num": 2}, False),
        ({}, {}, False),
    ],
)
def test_only_pages_of_one_text_share_a_chunk(first, second, expected):
    assert may_share_chunk(first | {"e2_doc_id": "1"}, second | {"e2_doc_id": "2"}) is expected


def test_pages_with_the_same_fields_share_a_chunk():
    def may_share(first, second):
        pages = ({"page": 1, "e2_fields": first}, {"page": 2, "e2_fields": second})
        return may_share_chunk(*pages)

    assert may_share({"hash": "a"}, {"hash": "b"})  # the hash of each document
    assert may_share({"excluded_embed": ["x"], "hash": "a"}, {"excluded_embed": ["x"]})
    assert not may_share({"excluded_embed": ["x"]}, {"excluded_embed": ["y"]})


def test_the_scope_is_in_the_id_of_a_tree():
    page = {"source": "a.pdf", "page": 1, "tenant": "x"}
    assert tree_of("1", page, SOURCES, ["tenant"]).id == 'a.pdf {"tenant":"x"}'


def test_groups_are_described_by_what_joined_them():
    records = [PDF | {"page": 0}, PDF | {"page": 1}, {"source": "x"}]
    trees = [tree_of(str(n), record, SOURCES) for n, record in enumerate(records)]
    assert describe_groups(trees).startswith(
        "2 documents share 1 summary tree(s), because they have the same 'source', a position in "
        "it ('page')"
    )
    assert describe_groups(trees[1:]) == ""
