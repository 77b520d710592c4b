"""Joining the chunks of a text splitter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.joined_chunks import join_chunks, overlap
from strategies import examples

TEXT = "Anna met Bert in Oslo.  Bert gave Anna a map.\n\nLater Cleo followed Bert to Rome."


@examples(100)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 12)), min_size=1, max_size=6))
def test_chunks_with_offsets_keep_their_spans_in_the_source(steps):
    chunks, starts, end = [], [], 0
    for size, shared in steps:
        start = max(end - shared, starts[-1] + 1 if starts else 0)
        chunk = TEXT[start : end + size]
        if len(chunk) > max(0, end - start) or not starts:
            chunks.append(chunk)
            starts.append(start)
            end = start + len(chunk)
    joined = join_chunks(chunks, starts)
    assert joined.is_exact
    assert joined.text == TEXT[:end]
    assert [joined.text[start:stop] for start, stop in joined.spans] == chunks
    assert [span.start for span in joined.spans] == starts


def test_text_between_chunks_becomes_spaces():
    joined = join_chunks(["Anna", "Bert"], [2, 9])
    assert joined.text == "  Anna   Bert"
    assert joined.is_exact


@pytest.mark.parametrize(
    "starts",
    [[0, None], [0, 3], [0, 0], [5, 0], [-1, 20], [0, 2_000_000]],
    ids=["unknown", "contradiction", "same", "order", "negative", "far"],
)
def test_unusable_offsets_are_ignored(starts):
    joined = join_chunks(["Anna met Bert.", "Cleo left."], starts)
    assert joined == ("Anna met Bert.\n\nCleo left.", [(0, 14), (16, 26)], False)


def test_an_overlap_without_offsets_occurs_once():
    chunks = [TEXT[:30], TEXT[12:60], TEXT[60:]]
    joined = join_chunks(chunks, [None] * 3)
    assert joined.text == TEXT[:60] + "\n\n" + TEXT[60:]
    assert [joined.text[start:end] for start, end in joined.spans] == chunks


@pytest.mark.parametrize(
    ("previous", "chunk", "length"),
    [
        ("Anna met Bert in Oslo.", "Bert in Oslo. Cleo left.", 13),
        ("Anna met Bert.", "Bert. Cleo left.", 0),  # too short to be an overlap
        ("ab" * 20, "ab" * 30, 38),
        ("Anna met Bert.", "Anna met Bert.", 0),  # two equal chunks are not one
        ("Anna met Bert in Oslo.", "Bert in Oslo.", 13),
        ("", "Anna met Bert.", 0),
    ],
)
def test_the_overlap_is_the_longest_end_that_starts_the_next_chunk(previous, chunk, length):
    assert overlap(previous, chunk) == length
