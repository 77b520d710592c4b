"""Conversion between LangChain documents, pages and documents of the engine."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.documents import Document

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.corpus.page import (
    Page,
    _location,
    join_pages,
    page_ids,
    sort_pages,
    split_pages,
)
from e2graphrag_integrations.corpus.trees import page_tree
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain.conversion import LangChainDocuments, user_filter
from e2graphrag_integrations.pages import PAGE_ID, user_metadata
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from strategies import examples, texts

quick = examples(150)
WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
RESERVED = [
    "document_id",
    "title",
    "page",
    "source",
    PAGE_ID,
    "e2_user_document_id",
    "e2_user_",
    "e2",
]
KEYS = st.one_of(WORDS, st.sampled_from(RESERVED))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
METADATA = st.dictionaries(KEYS, JSON_VALUES, max_size=4)
IDS = WORDS.filter(bool)
FIELDS = st.just({}) | st.fixed_dictionaries({"excluded_embed": st.lists(WORDS, max_size=2)})
PAGES = st.lists(
    st.builds(Page, IDS, texts(6), METADATA, FIELDS), max_size=5, unique_by=lambda p: p.id
)
NUMBERS = st.dictionaries(
    st.sampled_from(["page", "page_number", "start_index", "source"]),
    st.sampled_from([0, 1, 2, 2.5, True, "1", None]),
)

FORMAT = LangChainDocuments()


@pytest.mark.slow
@quick
@given(PAGES)
def test_joined_pages_can_be_split_again(pages):
    document = join_pages("a source", pages)
    if pages:
        assert split_pages(document) == pages
        assert page_ids(document.id, document.segments) == [page.id for page in pages]
    for page, segment in zip(pages, document.segments, strict=True):
        assert document.text[segment.start : segment.end] == page.text
        assert user_metadata(segment.metadata) == page.metadata


@quick
@given(IDS.filter(str.strip), texts(6), METADATA)
def test_a_document_round_trips_through_a_page(id_, text, metadata):
    document = Document(id=id_, page_content=text, metadata=metadata)
    page = FORMAT.to_page(document)
    assert FORMAT.to_document(page) == document
    assert FORMAT.to_page(FORMAT.to_document(page)) == page


@quick
@given(st.lists(NUMBERS, max_size=8), st.randoms(use_true_random=False))
def test_sorting_pages_is_stable_and_independent_of_batches(records, rng: random.Random):
    pages = [Page(str(number), "", record) for number, record in enumerate(records)]
    ordered = sort_pages(pages)
    assert sorted(ordered) == sorted(pages)
    assert sort_pages(ordered) == ordered
    for one, other in itertools.pairwise(ordered):
        if repr(one.metadata) == repr(other.metadata):  # True equals 1, but is not a number here
            assert pages.index(one) < pages.index(other)
    texts: dict[tuple[str, float], set[str]] = {}
    for page in pages:
        if page.start is not None:
            texts.setdefault(_location(page), set()).add(repr(page.parent_metadata))
    # Whether chunks with different metadata come from one text, only all of them can show.
    assume(all(len(parents) == 1 for parents in texts.values()))
    batched: list[Page] = []
    remaining = list(pages)
    while remaining:
        size = rng.randint(1, len(remaining))
        batched, remaining = sort_pages([*batched, *remaining[:size]]), remaining[size:]
    assert batched == ordered


def test_pages_are_sorted_by_source_page_and_start_index():
    records = [
        {"source": "b", "page": 10},
        {"source": "a", "page": 2, "start_index": 5},
        {"source": "b", "page": 9},
        {"source": "a", "page": 2, "start_index": 4},
        {"source": "a"},
        {"source": "a", "page_number": 1},
    ]
    ordered = sort_pages([Page(str(number), "", record) for number, record in enumerate(records)])
    assert [page.id for page in ordered] == ["2", "0", "5", "3", "1", "4"]


def test_a_document_without_page_segments_is_one_page():
    document = SourceDocument("a", "text", "Title", {"kind": "x"}, [(0, 2, {"page": 1})])
    assert split_pages(document) == [Page("a", "text", {"kind": "x"})]
    assert page_ids("a", document.segments) == ["a"]


@pytest.mark.parametrize(
    ("titles", "title"),
    [
        (["A", "A"], "A"),
        (["A", "B"], None),
        (["A", None], None),
        ([["A"], ["A"]], None),
        ([{}], None),
        ([3], None),
        ([], None),
    ],
)
def test_the_title_of_a_source_is_the_title_that_all_pages_share(titles, title):
    pages = [Page(str(i), "x", {"title": page_title}) for i, page_title in enumerate(titles)]
    assert join_pages("s", pages).title == title


@pytest.mark.parametrize(
    ("tree_per", "metadata", "source"),
    [
        ("source", {"source": "a", "page": 1}, "a"),
        ("source", {"source": 7, "page_label": "iv"}, "7"),
        ("source", {"source": "a"}, "a #a56145270c"),  # the mark of the id
        ("source", {"source": "id"}, "id"),
        ("source", {"source": "", "page": 1}, "id"),
        ("source", {}, "id"),
        ("document", {"source": "a"}, "id"),
        ("corpus", {"source": "a"}, "corpus"),
        (lambda document: document.metadata["author"], {"author": "Ann"}, "Ann"),
    ],
)
def test_tree_per_determines_the_source_of_a_document(tree_per, metadata, source):
    document = Document(id="id", page_content="x", metadata=metadata)
    assert page_tree(FORMAT, document, FORMAT.to_page(document), tree_per).id == source


@pytest.mark.parametrize("value", [None, "", 3])
def test_a_tree_per_function_must_return_a_name(value):
    document = Document(id="id", page_content="x")
    with pytest.raises(InvalidInputError, match=r"tree_per returned .* for document 'id'"):
        page_tree(FORMAT, document, FORMAT.to_page(document), lambda _: value)


def test_filters_see_the_users_keys():
    stored = join_pages("s", [Page("p", "x", {"document_id": 1, "page": 2})]).segments[0].metadata
    record = {**stored, "document_id": "s"}
    assert user_filter({"document_id": 1, "page": 2})(record)
    assert not user_filter({"document_id": "s"})(record)
    assert user_filter({PAGE_ID: "p", "e2_source_id": "s"})(record)
    visible = {"document_id": 1, "page": 2, PAGE_ID: "p", "e2_source_id": "s"}
    assert user_filter(lambda metadata: metadata == visible)(record)
    assert user_filter({"document_id": "s"})({"document_id": "s", "kind": "tale"})


@pytest.mark.parametrize("key", ["source", "document_id", PAGE_ID, "e2_source_id", "kind"])
@pytest.mark.parametrize("condition", ["a", "p", {"$ne": "a"}, {"$exists": False}, {"$in": ["x"]}])
def test_a_filter_of_all_records_equals_that_of_each(key, condition):
    values = [
        {"document_id": "a"},
        {"document_id": "b", "source": "x", "kind": "x"},
        {"document_id": "s", PAGE_ID: "p"},
        {"document_id": "s", PAGE_ID: "a", "source": "a", "e2_user_document_id": "a"},
    ]
    rows = np.arange(len(values))
    records = MetadataRecords(values, rows, rows + 1, rows)
    for where in ({key: condition}, {"$not": {key: condition, "kind": "x"}}):
        each = user_filter(where)
        expected = [each(record) for record in values]
        assert each.for_records(records).mask(records).tolist() == expected
