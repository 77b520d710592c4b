"""Pages: their order, and their place in the text of a source."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.corpus.page import (
    Page,
    is_chunk,
    join_pages,
    owners_of,
    page_owners,
    sort_pages,
    split_pages,
    stored_key,
)
from e2graphrag_integrations.types import Segment
from strategies import examples


def label(text, number=0, **fields):
    return Page(f"{text}-{number}", f"Page {text}.", {"source": "a", "page_label": text}, fields)


def order(pages):
    return [page.id for page in sort_pages(pages)]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "9", "1"], ["1", "9", "10"]),
        (["2", "iv", "1"], ["2", "iv", "1"]),  # Roman numerals: the order of the reader counts
        (["2", "1", "1"], ["2", "1", "1"]),  # the labels start again in an appendix
        (["A-2", "A-1"], ["A-2", "A-1"]),
    ],
)
def test_pages_are_sorted_by_label_only_if_all_labels_are_distinct_numbers(labels, expected):
    pages = [label(text, number) for number, text in enumerate(labels)]
    assert [page.metadata["page_label"] for page in sort_pages(pages)] == expected


def test_labels_of_one_file_do_not_change_the_order_of_another():
    roman = [label("ii"), label("1")]
    other = [
        page._replace(id=f"b{page.id}", metadata={**page.metadata, "source": "b"})
        for page in (label("10"), label("9"))
    ]
    assert order([*roman, *other]) == ["ii-0", "1-0", "b9-0", "b10-0"]


def test_a_number_counts_more_than_a_label():
    pages = [
        Page("one", "x", {"source": "a", "page": 2, "page_label": "1"}),
        Page("two", "x", {"source": "a", "page": 1, "page_label": "1"}),
    ]
    assert order(pages) == ["two", "one"]


def test_the_chunks_of_a_page_do_not_repeat_its_label():
    chunks = [label("2", number, chunk=True, source="p2", start=number * 9) for number in (1, 0)]
    assert order([*chunks, label("1", 0, chunk=True, source="p1", start=0)]) == [
        "1-0",
        "2-0",
        "2-1",
    ]


def test_chunks_over_several_pages_are_sorted_by_their_place_in_the_file():
    def chunk(start, *parts):
        fields = {"chunk": True, "source": "a", "start": start, "parts": list(parts)}
        text = "x" * (parts[-1][2] - start)
        return Page(f"c{start}", text, {"source": "a", "page_label": parts[0][0]}, fields)

    chunks = [
        chunk(20, ["2", 20, 30, {}]),
        chunk(0, ["1", 0, 8, {}]),
        chunk(8, ["1", 8, 12, {}], ["2", 14, 20, {}]),
    ]
    assert order(chunks) == ["c0", "c8", "c20"]
    document = join_pages("a", sort_pages(chunks))
    assert document.text == "x" * 30
    assert split_pages(document) == sort_pages(chunks)
    assert page_owners([Segment(*one) for one in document.segments])["c8"] == ("a", "1", "2")


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "hash": st.text(max_size=4),
        "excluded_embed": st.lists(st.sampled_from(["title", "x"]), max_size=2),
        "templates": st.dictionaries(st.just("text_template"), st.text(max_size=4)),
        "node": st.just(["IndexNode", {"index_id": "i"}]),
        "parts": st.just([["p", 0, 4, {"page": 1}]]),
        "chunk": st.sampled_from([True]),
        "source": st.sampled_from(["p", "q"]),
        "start": st.integers(0, 50),
    },
)
PAGES = st.lists(
    st.builds(
        Page,
        st.text("abc", min_size=1),
        st.text("uvw. ", max_size=9),
        st.dictionaries(st.sampled_from(["page", "title", "e2_doc_id", "x"]), st.integers(0, 3)),
        FIELDS,
    ),
    max_size=5,
    unique_by=lambda page: page.id,
)


@examples(100)
@given(PAGES, st.randoms(use_true_random=False))
def test_pages_with_fields_round_trip_through_a_document_and_json(pages, rng: random.Random):
    rng.shuffle(pages)
    ordered = sort_pages(pages)
    document = join_pages("s", ordered)
    if pages:
        assert split_pages(document) == ordered
    for page, segment in zip(ordered, document.segments, strict=True):
        assert is_chunk(Segment(*segment).metadata) or not page.is_chunk
        assert Page(*page.to_json()) == page


def test_a_page_names_its_source_and_the_documents_that_it_is_a_part_of():
    assert Page("a", "", {}).source == "a"
    fields = {"source": "file", "parts": [["p", 0, 2, {}], ["q", 4, 6, {}]]}
    assert Page("a", "", {}, fields).source == "file"
    assert owners_of(fields) == ("file", "p", "q")
    assert page_owners([Segment(0, 1, {"e2_doc_id": "a"})]) == {}


def test_a_hidden_title_is_not_embedded():
    assert Page("a", "", {"title": "T"}).title == "T"
    assert Page("a", "", {"title": "T"}, {"excluded_embed": ["title"]}).title is None
    assert Page("a", "", {"title": 3}).title is None


def test_reserved_keys_of_the_user_are_renamed():
    assert stored_key("year") == "year"
    assert stored_key("e2_fields") == "e2_user_e2_fields"
