from itertools import pairwise

import pytest
from hypothesis import given

from e2graphrag_integrations.text.sentences import sentence_spans, sentence_starts
from strategies import quick, texts


def sentences(text):
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("He said: “Go.” She went.", ["He said: “Go.”", "She went."]),
        ("Mr. Darcy met Dr. Jones. They spoke.", ["Mr. Darcy met Dr. Jones.", "They spoke."]),
        ("H. G. Wells wrote it. Yes.", ["H. G. Wells wrote it.", "Yes."]),
        ("The U.S. Army came. It left.", ["The U.S. Army came.", "It left."]),
        ("Some fruit, e.g. apples, is red. So.", ["Some fruit, e.g. apples, is red.", "So."]),
        ("It cost 3.14 dollars. Cheap.", ["It cost 3.14 dollars.", "Cheap."]),
        ("He stopped. and went on.", ["He stopped. and went on."]),  # a lowercase letter follows
        ("A title\n\nThe text", ["A title", "The text"]),
        ("A title\r\n \r\nThe text", ["A title", "The text"]),
        ("Signed, Mr.\n\nThe end", ["Signed, Mr.", "The end"]),
        ("我来了。你走了！好", ["我来了。", "你走了！", "好"]),
        ("「来了。」他说。", ["「来了。」", "他说。"]),
        ("Wait... what? Yes.", ["Wait...", "what?", "Yes."]),
        ("  \r\n ", []),
        ("", []),
    ],
)
def test_sentences_end_at_full_stops_but_not_after_abbreviations(text, expected):
    assert sentences(text) == expected


@quick
@given(texts())
def test_starts_ascend_from_zero_within_the_text(text):
    starts = sentence_starts(text)
    assert starts[0] == 0
    assert all(a < b for a, b in pairwise(starts))
    assert all(start < len(text) for start in starts[1:])


@quick
@given(texts())
def test_spans_cover_every_character_except_white_space(text):
    position = 0
    for start, end in sentence_spans(text):
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip() != ""
        position = end
    assert not text[position:].strip()


def test_long_run_of_dots_takes_linear_time():
    """With quadratic time this would take hours, so no time is asserted."""
    dots = "." * 500_000
    assert sentence_starts(f"Contents{dots}12. Next") == [0, len(dots) + 12]
