"""Grapheme clusters, and cuts that do not divide them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from e2graphrag_integrations.text.chunking import chunk_spans, content_spans, truncate
from e2graphrag_integrations.text.letters import inner_offsets, simplified
from strategies import CharacterCounter, counters, quick, texts

FAMILY = "👩\u200d👩\u200d👧"


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301",
        "नी",
        "न्दी",  # a conjunct
        "ที่",
        "น้ำ",
        FAMILY,
        "👍🏽",
        "❤\ufe0f",
        "🇨🇳",
        "葛\U000e0100",
        "\u1112\u1161\u11ab",
        "か\u3099",
        "ﾊﾞ",
    ],
)
def test_a_cluster_is_not_divided(cluster):
    assert inner_offsets(f"a{cluster}b") == list(range(2, len(cluster) + 1))


def test_texts_without_clusters_can_be_cut_anywhere():
    assert inner_offsets("One, two. 我们 日本 한글") == []


@pytest.mark.parametrize("split", [chunk_spans, content_spans])
def test_chunks_keep_clusters_that_fit(split):
    text = f"{FAMILY}नी" * 20
    options = {"chunk_overlap": 0} if split is chunk_spans else {}
    spans = split(text, CharacterCounter(), chunk_size=8, **options)
    assert "".join(text[start:end] for start, end in spans) == text
    inner = set(inner_offsets(text))
    assert not inner & {offset for span in spans for offset in span}
    assert truncate(text, 11, CharacterCounter()) == (f"{FAMILY}नी", True)


def test_a_cluster_larger_than_a_chunk_is_divided():
    spans = chunk_spans(FAMILY, CharacterCounter(), chunk_size=2, chunk_overlap=0)
    assert [end - start for start, end in spans] == [2, 2, 1]


@quick
@given(counters(), texts(), st.integers(40, 60))
@example(CharacterCounter(), " \U0001f3fb", 40)
def test_no_chunk_begins_inside_a_small_cluster(counter, text, size):
    inner = set(inner_offsets(text))
    clusters = [one for one in range(1, len(text)) if one not in inner]
    small = {
        offset
        for start, end in zip([0, *clusters], [*clusters, len(text)], strict=True)
        for offset in range(start + 1, end)
        if counter.count(text[max(0, start - 1) : end + 1]) <= size // 2
        and not text[start].isspace()  # chunks have no white space around them, whatever follows it
    }
    for span in chunk_spans(text, counter, chunk_size=size, chunk_overlap=0):
        assert span.start not in small
        # A chunk ends with a token, and some tokenizers have none for the last mark of a cluster.
        assert span.end not in small or counter.count(text[span.end]) == 0


def test_traditional_characters_are_replaced():
    assert simplified("諸葛亮，字孔明。GDP") == "诸葛亮，字孔明。GDP"


@quick
@given(texts())
def test_offsets_stay_and_a_second_call_changes_nothing(text):
    once = simplified(text)
    assert len(once) == len(text)
    assert simplified(once) == once
