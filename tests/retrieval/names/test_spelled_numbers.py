"""A number in a question finds the text that writes it in another way, before other numbers."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument

KINDS = {
    "money": (
        "The council granted the {} {} for repairs.",
        "Who was granted {}?",
        [
            ("library", "$3.2M", "3.2 million dollars"),
            ("museum", "$3.4 million", "$3,400,000"),
            ("theater", "3,600,000 dollars", "$3.6 million"),
            ("harbor", "$250K", "250,000 dollars"),
            ("school", "260 thousand dollars", "$260,000"),
            ("archive", "£40,000", "forty thousand pounds"),
        ],
    ),
    "times": (
        "The {} meeting begins at {}.",
        "Which meeting begins at {}?",
        [
            ("budget", "2:30 pm", "14:30"),
            ("sales", "10:00", "10 am"),
            ("design", "noon", "12:00"),
            ("travel", "half past eight", "8:30"),
        ],
    ),
    "quarters": (
        "Revenue of the {} division fell in {}.",
        "Whose revenue fell in {}?",
        [
            ("toys", "Q3 2024", "the third quarter of 2024"),
            ("tools", "the second quarter of 2024", "Q2 2024"),
            ("glass", "Q4/2023", "the fourth quarter of 2023"),
            ("wine", "1Q24", "Q1 2024"),
            ("soap", "H1 2024", "the first half of 2024"),
        ],
    ),
    "ordinals": (
        "The {} is on the {} floor.",
        "What is on the {} floor?",
        [
            ("bakery", "3rd", "third"),
            ("dentist", "fourth", "4th"),
            ("gym", "21st", "twenty-first"),
            ("notary", "twenty-second", "22nd"),
        ],
    ),
    "percentages": (
        "The {} shares rose by {} in May.",
        "Which shares rose by {}?",
        [
            ("Alkor", "12%", "12 percent"),
            ("Coveno", "fourteen percent", "14%"),
            ("Deltis", "15 %", "fifteen percent"),
            ("Endra", "16 per cent", "16%"),
        ],
    ),
    "lengths": (
        "The {} is {} long.",
        "What is {} long?",
        [
            ("ferry", "5 km", "5 kilometers"),
            ("cable", "6 kilometers", "6 km"),
            ("beam", "4 m", "4 meters"),
            ("rail", "3.5 meters", "3.5 m"),
        ],
    ),
    "days": (
        "The {} fair is on {}.",
        "Which fair is on {}?",
        [
            ("food", "Mar. 4th", "March 4"),
            ("horse", "the 5th of March", "March 5"),
            ("toy", "6 Sept", "September 6"),
            ("boat", "October 2nd", "2 October"),
            ("art", "2 November", "Nov. 2"),
        ],
    ),
    "addresses": (
        "{} lives at {}.",
        "Who lives at {}?",
        [
            ("Ann", "5 Elm St", "5 Elm Street"),
            ("Bob", "7 Elm Street", "7 Elm St."),
            ("Cid", "12 Oak Avenue", "12 Oak Ave"),
            ("Dee", "14 Oak Ave.", "14 Oak Avenue"),
        ],
    ),
    "counts": (
        "The {} has {} seats.",
        "What has {} seats?",
        [
            ("bus", "forty-two", "42"),
            ("hall", "310", "three hundred and ten"),
            ("plane", "two hundred", "200"),
            ("arena", "twelve thousand", "12,000"),
            ("van", "nine", "9"),
        ],
    ),
}


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("kind", KINDS)
def test_the_text_with_the_number_comes_first(kind):
    text, question, cases = KINDS[kind]
    with E2GraphRAG.open(":memory:") as rag:
        rag.add([SourceDocument(one, text.format(one, number)) for one, number, _ in cases])
        first = {
            one: rag.retrieve(question.format(asked), k=1).nodes[0].document_id
            for one, _, asked in cases
        }
    assert first == {one: one for one, *_ in cases}


def test_the_trace_gives_the_number_as_written():
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add([SourceDocument("a", "It cost $3.2M."), SourceDocument("b", "It cost nothing.")])
        result = rag.retrieve("What cost 3.2 Million dollars?")
    assert result.trace.codes == ("3.2 Million dollars",)
    assert result.nodes[0].document_id == "a"
