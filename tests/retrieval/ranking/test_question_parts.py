"""Questions about one row of a list, in which all words of the question are in many rows."""

from __future__ import annotations

import json
import random

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.entities.matching.linking import Link
from e2graphrag_integrations.retrieval.ranking.question_parts import (
    QuestionParts,
    parts_of,
    weights_of,
    without_headers,
)
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.strategy import Query

RANDOM = random.Random(5)  # noqa: S311 - no secret
FIRST = "Ann Bob Cid Dee Eve Fay Gus Hal Ida Jon Kim Leo Mia Ned Oda Pia".split()
LAST = "Torr Fane Lund Marsh Sand Holt Reed Moss Beck Voss".split()
PEOPLE = [f"{FIRST[n % 16]} {LAST[(n * 3 + n // 16) % 10]}" for n in range(60)]
STAFF = [
    (person, RANDOM.choice(["Sales", "Legal"]), RANDOM.choice(PEOPLE[:8]), f"555-{1000 + 37 * n}")
    for n, person in enumerate(PEOPLE)
]
CSV = "Name,Department,Manager,Phone\n" + "\n".join(map(",".join, STAFF))
MARKDOWN = "| Name | Department | Manager | Phone |\n|---|---|---|---|\n" + "\n".join(
    f"| {' | '.join(row)} |" for row in STAFF
)
PROSE = " ".join(
    f"{name} works in {department}. The manager of {name} is {manager}. Call {name} at {phone}."
    for name, department, manager, phone in STAFF
)
BLOCKS = "\n\n".join(
    f"Name: {name}\nDepartment: {department}\nPhone: {phone}"
    for name, department, _, phone in STAFF
)
PRICES = [
    (size, color, item, str(1000 + 7 * number))
    for number, (size, color, item) in enumerate(
        RANDOM.sample(
            [
                (size, color, item)
                for size in ("small", "medium", "large")
                for color in ("blue", "red", "green", "black", "gray")
                for item in ("shirt", "jacket", "scarf", "coat", "belt")
            ],
            60,
        )
    )
]
DEBTS = [(PEOPLE[n], PEOPLE[(n * 7 + 5) % 60], str(300 + 11 * n)) for n in range(60)]


def answered(text: str, asked: list[tuple[str, str]], budget: int) -> float:
    """Return the share of the questions whose answer is in a context of some tokens."""
    with E2GraphRAG.open(":memory:") as rag:
        rag.add(SourceDocument("list", text))
        contexts = [rag.retrieve(question, token_budget=budget).context() for question, _ in asked]
    return sum(a in found for found, (_, a) in zip(contexts, asked, strict=True)) / len(asked)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("budget", [120, 300])
@pytest.mark.parametrize("text", [CSV, MARKDOWN, PROSE, BLOCKS], ids=["csv", "md", "prose", "form"])
def test_the_row_of_a_full_name_is_in_a_small_context(text, budget):
    asked = [(f"What is the phone number of {name}?", phone) for name, *_, phone in STAFF[10:60:5]]
    assert answered(text, asked, budget) >= 0.9


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "line",
    ["{0},{1},{2},{3}", "The {0} {1} {2} costs {3} crowns.", "- {0} {1} {2}: {3}"],
    ids=["csv", "prose", "items"],
)
def test_the_row_with_all_words_of_the_question_is_in_a_small_context(line):
    text = "# Price list\n\n" + "\n".join(line.format(*row) for row in PRICES)
    asked = [(f"How much is the {s} {c} {i}?", price) for s, c, i, price in PRICES[::6]]
    assert answered(text, asked, 120) >= 0.8


@pytest.mark.slow
def test_the_sentence_with_both_names_is_in_a_small_context():
    text = "\n".join(f"{one} owes {other} {crowns} crowns." for one, other, crowns in DEBTS)
    asked = [(f"How much does {one} owe {other}?", crowns) for one, other, crowns in DEBTS[::6]]
    assert answered(text, asked, 120) >= 0.8


def test_parts_are_sentences_rows_and_items_and_together_the_text():
    text = "Two men sat. One left.\n- first thing\n- second thing\n\na,b\n1,2\n3,4\n5,6\n"
    parts = parts_of(text)
    assert "".join(part.text for part in parts) == text
    assert [part.text.strip() for part in parts] == [
        *("Two men sat.", "One left.", "- first thing", "- second thing"),
        *("a,b", "1,2", "3,4", "5,6"),
    ]
    assert [part.text.strip() for part in parts if part.is_header] == ["a,b"]


def test_a_full_name_counts_besides_its_words():
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add(SourceDocument("list", "Leo Marsh met Ann Reed. Leo Reed met Ann Marsh."))
        bm25 = rag._session.snapshot().bm25
    terms = QuestionTerms(Query("Who is Leo Marsh?"), bm25, idf_power=0.0)
    question = QuestionParts(terms, [Link("Leo Marsh", "leo marsh", "exact", 1.0)])
    found = [question.found(part) for part in parts_of("Leo Marsh sat. Leo met Ann Marsh.")]
    assert found == [{"leo", "marsh", " leo marsh "}, {"leo", "marsh"}]
    weights = weights_of(found)
    assert weights[" leo marsh "] > weights["leo"]


def test_only_the_rarest_words_of_a_very_long_question_are_looked_for():
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add(SourceDocument("list", " ".join(f"word{n}" for n in range(500))))
        bm25 = rag._session.snapshot().bm25
    asked = Query(" ".join(f"word{n}" for n in range(500)))
    question = QuestionParts(QuestionTerms(asked, bm25, idf_power=0.0), [])
    assert question.most_words(asked.question) == 64


@pytest.mark.slow
def test_the_names_of_columns_do_not_draw_the_answer_to_the_first_rows():
    rows = [{"name": name, "phone": phone} for name, *_, phone in STAFF]
    text = "name;phone\n" + "\n".join(f"{row['name']};{row['phone']}" for row in rows)
    asked = [(f"phone {row['name']}", row["phone"]) for row in rows[20::8]]
    assert answered(text, asked, 100) >= 0.8
    assert answered("\n".join(map(json.dumps, rows)), asked, 100) >= 0.8


def test_a_header_has_no_words_of_the_question():
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add(SourceDocument("list", CSV))
        bm25 = rag._session.snapshot().bm25
    asked = Query("Which department, manager and phone has Leo Marsh?")
    question = QuestionParts(QuestionTerms(asked, bm25, idf_power=0.0), [])
    assert question.most_words(CSV) == 3
    rows = without_headers(CSV)
    assert rows == CSV.removeprefix("Name,Department,Manager,Phone")
    assert question.most_words(rows) == 2


def test_a_part_need_not_repeat_what_its_text_is_about():
    text = "# Leo Marsh\n\nIn the office.\n\nHe sold a blue bicycle to a friend."
    with E2GraphRAG.open(":memory:", embedder="hashing", chunk_size=8) as rag:
        rag.add(SourceDocument("list", text))
        snapshot = rag._session.snapshot()
        nodes, bm25 = rag.store.nodes_at(snapshot.generation, snapshot.nodes.ids), snapshot.bm25
    texts = [nodes[id_].text for id_ in snapshot.nodes.ids]
    window = next(n for n, text in enumerate(texts) if "bicycle" in text)
    terms = QuestionTerms(Query("What did Leo Marsh sell?"), bm25, idf_power=0.0)
    question = QuestionParts(terms, [Link("Leo Marsh", "leo marsh", "exact", 1.0)])
    [about] = question.about([texts[window]], [window])
    assert about == {"leo", "marsh"}
    [part, *_] = parts_of(texts[window])
    assert question.found(part, about) >= {"leo", "marsh", " leo marsh "}
    assert question.about([""], [window]) == [frozenset()]
