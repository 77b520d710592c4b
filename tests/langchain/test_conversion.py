"""LangChain documents become the core's and come back as they were."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain.conversion import (
    PAGE_ID,
    Page,
    to_langchain,
    split_pages,
    sort_pages,
    page_ids,
    to_page,
    source_name,
    join_pages,
    user_filter,
    user_metadata,
)
from strategies import examples, texts

quick = examples(150)
WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
OURS = ["document_id", "title", "page", "source", PAGE_ID, "e2_user_document_id", "e2_user_", "e2"]
KEYS = st.one_of(WORDS, st.sampled_from(OURS))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
METADATA = st.dictionaries(KEYS, PLAIN, max_size=4)
IDS = WORDS.filter(bool)
PAGES = st.lists(st.builds(Page, IDS, texts(6), METADATA), max_size=5, unique_by=lambda p: p.id)
NUMBERS = st.dictionaries(
    st.sampled_from(["page", "page_number", "start_index", "source"]),
    st.sampled_from([0, 1, 2, 2.5, True, "1", None]),
)


@quick
@given(PAGES)
def test_pages_come_back_from_a_source_as_they_were(pages):
    document = join_pages("a source", pages)
    if pages:
        assert split_pages(document) == pages
        assert page_ids(document.id, document.segments) == [page.id for page in pages]
    for page, segment in zip(pages, document.segments, strict=True):
        assert document.text[segment.start : segment.end] == page.text
        assert user_metadata(segment.metadata) == page.metadata


@quick
@given(IDS, texts(6), METADATA)
def test_a_document_is_a_page_and_back(id_, text, metadata):
    document = Document(id=id_, page_content=text, metadata=metadata)
    page = to_page(document)
    assert to_langchain(page) == document
    assert to_page(to_langchain(page)) == page


@quick
@given(st.lists(NUMBERS, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_pages_is_stable_and_the_same_in_any_batches(kinds, rng: random.Random):
    pages = [Page(str(number), "", kind) for number, kind in enumerate(kinds)]
    ordered = sort_pages(pages)
    assert sorted(ordered) == sorted(pages)
    assert sort_pages(ordered) == ordered
    for one, other in itertools.pairwise(ordered):
        if repr(one.metadata) == repr(other.metadata):  # True is no page, but equals 1
            assert pages.index(one) < pages.index(other)
    batched: list[Page] = []
    rest = list(pages)
    while rest:
        size = rng.randint(1, len(rest))
        batched, rest = sort_pages([*batched, *rest[:size]]), rest[size:]
    assert batched == ordered


def test_pages_are_ordered_by_source_then_number_then_start():
    given_ = [
        {"source": "b", "page": 10},
        {"source": "a", "page": 2, "start_index": 5},
        {"source": "b", "page": 9},
        {"source": "a", "page": 2, "start_index": 4},
        {"source": "a"},
        {"source": "a", "page_number": 1},
    ]
    ordered = sort_pages([Page(str(number), "", kind) for number, kind in enumerate(given_)])
    assert [page.id for page in ordered] == ["2", "0", "5", "3", "1", "4"]


def test_a_document_of_the_core_is_one_page():
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
def test_a_title_that_all_pages_have_is_the_title_of_the_source(titles, title):
    pages = [Page(str(i), "x", {"title": each}) for i, each in enumerate(titles)]
    assert join_pages("s", pages).title == title


@pytest.mark.parametrize(
    ("scope", "metadata", "source"),
    [
        ("source", {"source": "a"}, "a"),
        ("source", {"source": 7}, "7"),
        ("source", {"source": ""}, "id"),
        ("source", {}, "id"),
        ("document", {"source": "a"}, "id"),
        ("corpus", {"source": "a"}, "corpus"),
        (lambda document: document.metadata["author"], {"author": "Ann"}, "Ann"),
    ],
)
def test_the_scope_names_the_source_of_a_document(scope, metadata, source):
    document = Document(id="id", page_content="x", metadata=metadata)
    assert source_name(document, to_page(document), scope) == source


@pytest.mark.parametrize("bad", [None, "", 3])
def test_a_scope_that_gives_no_name_is_refused(bad):
    document = Document(id="id", page_content="x")
    with pytest.raises(InvalidInputError, match=r"tree_scope returned .* for document 'id'"):
        source_name(document, to_page(document), lambda _: bad)


def test_filters_reach_the_users_own_keys():
    stored = join_pages("s", [Page("p", "x", {"document_id": 1, "page": 2})]).segments[0].metadata
    record = {**stored, "document_id": "s"}
    assert user_filter({"document_id": 1, "page": 2})(record)
    assert not user_filter({"document_id": "s"})(record)
    assert user_filter({PAGE_ID: "p", "e2_source_id": "s"})(record)
    shown = {"document_id": 1, "page": 2, PAGE_ID: "p", "e2_source_id": "s"}
    assert user_filter(lambda metadata: metadata == shown)(record)
    assert user_filter({"document_id": "s"})({"document_id": "s", "kind": "tale"})
