"""Tables of contents do not come before the sections that they name."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, IndexSettings, SourceDocument

SECTIONS = {
    "Cleaning the filter": "Rinse it under cold water every month and let it dry for a day.",
    "Changing the battery": "Open the lid with a coin and insert a new cell of type C.",
    "Storing the device": "Keep it in a dry cupboard, away from frost, without the hose.",
    "Error lamps": "A red lamp means that the tank is empty, a yellow one that the pump is hot.",
    "Warranty": "The maker repairs faults for three years if you keep the receipt.",
    "Descaling": "Fill the tank with citric acid and run the long program once.",
}
ENTRIES = "\n".join(f"{n}. {title} ........ {3 * n + 1}" for n, title in enumerate(SECTIONS, 1))
MANUAL = f"Contents\n{ENTRIES}\n\n" + "\n\n".join(
    f"{n}. {title}\n\n{text} The lamp near the stairs was replaced twice this year. A cat slept on "
    "the warm stones beside the gate. Visitors leave their bags at the desk. The bread was sold "
    "out before noon on most days."
    for n, (title, text) in enumerate(SECTIONS.items(), 1)
)


@pytest.fixture(scope="module")
def manual():
    settings = IndexSettings(chunk_overlap=0)
    with E2GraphRAG.open(":memory:", chunk_size=96, settings=settings) as rag:
        rag.add(SourceDocument("manual", MANUAL))
        yield rag


def first_text(rag: E2GraphRAG, question: str, **options) -> str:
    return rag.retrieve(question, **options).nodes[0].text


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How do I clean the filter?", "Rinse it"),
        ("How should the device be stored?", "cupboard"),
        ("How long is the warranty?", "three years"),
        ("What does chapter 6 say about descaling?", "citric acid"),
    ],
)
def test_a_section_comes_before_the_table(manual, question, expected):
    assert expected in first_text(manual, question, k=1)
    assert "Contents" not in first_text(manual, question, token_budget=100)


@pytest.mark.parametrize("question", ["Which chapters are there?", "Show the table of contents."])
def test_the_table_comes_first_if_the_question_asks_for_it(manual, question):
    assert first_text(manual, question, k=1).startswith("Contents")


@pytest.mark.slow
def test_the_table_is_still_found(manual):
    found = manual.retrieve("Which pages are about the battery and the warranty?", k=8)
    assert any(node.text.startswith("Contents") for node in found.nodes)
