"""The words of a question in one row of a table."""

from __future__ import annotations

import random

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument

COLORS = "blue red green black white gray brown pink".split()
SIZES = "small medium large huge".split()
ITEMS = "shirt jacket scarf coat hat belt glove".split()
ROWS = [(color, size, item) for color in COLORS for size in SIZES for item in ITEMS]
random.Random(8).shuffle(ROWS)  # noqa: S311 - no secret
STOCK = "color,size,item,price\n" + "\n".join(
    f"{','.join(row)},{10 + number}" for number, row in enumerate(ROWS)
)
NAMES = [f"{first} {last}" for first in "Anna Bert Cleo Dora Emil Finn Gina Hugo".split()
         for last in "Holm Lund Voss Marsh Reed Pohl Dahl Kemp".split()]  # fmt: skip
random.Random(3).shuffle(NAMES)  # noqa: S311 - no secret
PHONES = "\n".join(f"{name}\t555-{2000 + 37 * n}\tLund" for n, name in enumerate(NAMES))


def found_in_budget(text: str, questions: dict[str, str]) -> int:
    """Return for how many questions a budget of 400 tokens contains the row."""
    with E2GraphRAG.open(":memory:") as rag:
        rag.add(SourceDocument("table", text))
        return sum(
            any(row in node.text for node in rag.retrieve(question, token_budget=400).nodes)
            for question, row in questions.items()
        )


def test_the_row_with_all_words_of_the_question_is_found():
    asked = ROWS[::12]
    questions = {f"What does the {s} {c} {i} cost?": f"{c},{s},{i}," for c, s, i in asked}
    assert found_in_budget(STOCK, questions) >= len(asked) / 2


@pytest.mark.slow
def test_the_row_with_a_full_name_is_found_among_others_with_its_parts():
    asked = NAMES[::3]
    questions = {f"What is the phone number of {name}?": f"{name}\t" for name in asked}
    assert found_in_budget(PHONES, questions) >= 0.9 * len(asked)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("question", ["scarf, pink, huge", "huge pink scarf"])
def test_the_order_of_the_words_does_not_matter(question):
    with E2GraphRAG.open(":memory:") as rag:
        rag.add(SourceDocument("table", STOCK))
        assert "pink,huge,scarf," in rag.retrieve(question, k=1).nodes[0].text
