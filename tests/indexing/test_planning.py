"""Custom splitters, segments, and worker threads that keep the context."""

from __future__ import annotations

import contextvars
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.concurrency import ContextThreads
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.planning import checked_spans
from e2graphrag_integrations.types import SourceDocument, Span


def sentences(text: str) -> list[tuple[int, int]]:
    return [m.span() for m in re.finditer(r"[^. ][^.]*\.?", text)]


def test_a_custom_splitter_determines_chunks_and_estimate(open_index, story):
    rag = open_index(splitter=sentences)
    estimate = rag.estimate(story)
    report = rag.add(story)
    assert report.chunks == estimate.chunks == len(sentences(story.text))
    assert report.summaries == estimate.summaries
    assert rag.verify().ok
    found = rag.retrieve("Cleo and Bert?", k=20, mode="global").nodes
    chunks = {(n.start, n.end) for n in found if n.level == 0}
    assert chunks <= set(sentences(story.text))


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 3), (0, 4)], "in order"),
        ([(0, 99)], "in order"),
        ([(2, 4)], "nothing but white space"),
        ([(0, 2)], "omitted the end"),
        ([(0, 0)], "in order"),
        ([("a", 2)], "failed"),
        (5, "failed"),
    ],
)
def test_a_splitter_that_loses_text_is_rejected_before_anything_is_written(
    open_index, spans, message
):
    rag = open_index(splitter=lambda _: spans)
    with pytest.raises(InvalidInputError, match=message):
        rag.add(SourceDocument("d", "abcd"))
    assert rag.document_ids == []


def test_a_splitter_that_is_not_callable_is_rejected(open_index):
    with pytest.raises(InvalidInputError, match="splitter"):
        open_index(splitter="sentences")


@given(st.text(alphabet="ab. ", max_size=40), st.integers(1, 7))
def test_fixed_windows_over_any_text_are_valid_spans(text, width):
    spans = [(i, min(len(text), i + width)) for i in range(0, len(text), width)]
    document = SourceDocument("d", text)
    assert checked_spans(lambda _: spans, document) == [Span(*span) for span in spans]


def test_threads_run_in_the_context_of_the_submitter():
    seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")
    with ContextThreads(1) as threads:
        threads.submit(lambda: None).result()
        seen.set("the caller's")
        assert threads.submit(seen.get).result() == "the caller's"


def test_split_segments_keeps_chunks_within_segments(open_index, story):
    borders = [(0, 31, {"page": 1}), (31, 90, {"page": 2}), (95, len(story.text), {"page": 3})]
    paged = SourceDocument("paged", story.text, segments=borders)
    whole, split = open_index(), open_index(split_segments=True)
    for rag in (whole, split):
        rag.add(paged)
        assert rag.verify().ok
    crossing = [
        [
            n
            for n in rag.retrieve("x", k=50, mode="global").nodes
            if not n.level and len(n.segments) > 1
        ]
        for rag in (whole, split)
    ]
    assert crossing[0]
    assert not crossing[1]
    chunks = [n for n in split.retrieve("x", k=50, mode="global").nodes if not n.level]
    assert {n.metadata.get("page") for n in chunks} == {1, 2, 3, None}  # None: between 90 and 95
    by_sentence = open_index(split_segments=True, splitter=sentences)
    by_sentence.add(paged)
    assert by_sentence.verify().ok


def test_a_split_function_gets_copies_and_its_errors_name_the_document(open_index):
    def split(first, second):
        first["pages"].clear()
        return second.pop("url") == first.pop("url")

    text = "Anna met Bert. Cleo met Dora."
    segments = [(0, 14, {"url": "a", "pages": [1]}), (15, 29, {"url": "b", "pages": [2]})]
    rag = open_index(split_segments=split)
    rag.add(SourceDocument("a", text, segments=segments))
    assert rag.add(SourceDocument("a", text, segments=segments)).skipped == ("a",)
    failing = open_index(split_segments=lambda first, _: first["chapter"] == 1)
    with pytest.raises(InvalidInputError, match=r"split_segments failed on 'a': KeyError"):
        failing.add(SourceDocument("a", text, segments=segments))


def test_split_segments_does_not_split_at_headings(open_index, story):
    def spans(*segments):
        rag = open_index(split_segments=True, chunk_size=1000)
        rag.add(SourceDocument("a", story.text, segments=segments))
        nodes = rag.retrieve("x", k=50, mode="global").nodes
        return sorted((node.start, node.end) for node in nodes if not node.level)

    end = len(story.text)
    page, headings = {"page": 1}, {"headings": ["Alice"]}
    one = spans((0, end, page))
    assert spans((0, 31, page), (31, end, page | headings)) == one
    assert spans((31, 90, headings), (90, end, {"headings": ["Bob"]})) == one
    pages = spans((0, 90, page), (90, end, {"page": 2}))
    assert len(pages) > len(one)
    parts = (0, 31, page), (31, 90, page | headings), (90, end, {"page": 2} | headings)
    assert spans(*parts) == pages
    assert spans((0, 31, headings), (31, end, headings)) != one  # segments of their own


@pytest.mark.usefixtures("all_summaries")
def test_a_node_over_several_segments_has_the_metadata_of_each(open_index, story):
    half = story.text.index(" Later")
    pages = [(0, half, {"page": 1}), (half, len(story.text), {"page": 2})]
    rag = open_index(group_size=50)
    rag.add(SourceDocument("paged", story.text, segments=pages))
    [root] = [n for n in rag.retrieve("x", k=50, mode="global").nodes if n.level]
    assert root.segments == ((0, half, {"page": 1}), (half, len(story.text), {"page": 2}))
    assert root.metadata == {"page": 1, "pages": [1, 2]}
