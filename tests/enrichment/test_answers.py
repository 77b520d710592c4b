"""What a language model says about a chunk is read whatever it wraps it in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.enrichment.answers import ChunkAnswer, read_answer
from strategies import examples

EXPECTED = ChunkAnswer(
    "The letter is about the lease of the mill.",
    ("rent", "tenancy agreement"),
    ("Who leases the mill?", "What does it cost?"),
)


FORMS = {
    "as asked": """Context: The letter is about the lease of the mill.
Keywords: rent; tenancy agreement
Question: Who leases the mill?
Question: What does it cost?""",
    "markdown": """**Context:** The letter is about the lease of the mill.

**Keywords:** rent, tenancy agreement

**Questions:**
1. Who leases the mill?
2. What does it cost?
""",
    "lists": """- Context: The letter is about
  the lease of the mill.
Keywords:
- rent
- tenancy agreement
Question 1: Who leases the mill?
Question 2: What does it cost?""",
    "chatty": """Here you go!
Keywords: rent; rent; tenancy agreement
Context: The letter is about the lease of the mill.
Questions: Who leases the mill?
What does it cost?
Hope this helps.""",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_the_lines_are_found_in_the_forms_that_models_write(text):
    assert read_answer(text) == EXPECTED


def test_labels_may_be_in_chinese():
    answer = read_answer("背景：信中谈到磨坊的租约。\n关键词：租金；租约、房租\n问题：谁租了磨坊？")
    assert answer == ChunkAnswer(
        "信中谈到磨坊的租约。", ("租金", "租约", "房租"), ("谁租了磨坊？",)
    )


def test_an_answer_without_the_lines_adds_nothing():
    answer = read_answer("I cannot help with that.")
    assert (answer.sentences, answer.words) == ((), "")


def test_words_and_sentences_contain_all_parts():
    assert EXPECTED.sentences == (EXPECTED.context, *EXPECTED.questions)
    assert EXPECTED.words.split("\n") == [*EXPECTED.sentences, *EXPECTED.keywords]


@examples(1)
@given(st.text())
def test_any_text_can_be_read(text):
    answer = read_answer(text)
    assert all(one.strip() for one in (*answer.sentences, *answer.keywords))


def test_a_long_run_of_spaces_takes_linear_time():
    """With cubic time this would take hours, so no time is asserted."""
    assert read_answer("Context" + " " * 20_000 + "x").context == ""
    assert read_answer("**Context 1**: A lease.").context == "A lease."
