"""The first hit for times, amounts and abbreviations in another notation, on real vectors."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument

TIMES = [f"The bus to the harbor leaves at {hour}:10 on weekdays." for hour in range(13, 20)]
AMOUNTS = [f"The offer for the roof came to ${n},610, paid on delivery." for n in range(2, 9)]
BODIES = [
    f"The {name} published a guide on winter safety."
    for name in (
        "European Space Agency",
        "Green Roof Council",
        "North Sea Pilot Board",
        "City Tree Office",
        "Regional Seed Bank",
    )
]


@pytest.mark.parametrize(
    ("texts", "question", "expected"),
    [
        (TIMES, "Which bus leaves at 4:10 pm?", "16:10"),
        (TIMES, "Which bus leaves at 18h10?", "18:10"),
        (AMOUNTS, "Which offer was 6610 dollars?", "$6,610"),
        (BODIES, "What did the NSPB publish?", "North Sea Pilot Board"),
        (BODIES, "What did ESA publish?", "European Space Agency"),
    ],
)
def test_another_notation_finds_the_text(texts, question, expected):
    with E2GraphRAG.open(":memory:") as rag:
        rag.add([SourceDocument(f"d{n}", text) for n, text in enumerate(texts)])
        assert expected in rag.retrieve(question, k=1).nodes[0].text
