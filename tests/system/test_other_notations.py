"""The first hit for questions in another notation than the text, on real vectors."""

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
        "World Health Organization",
        "World Trade Organization",
    )
]
TOWNS = [
    f"Our branch in {name} opened in spring and sells tools."
    for name in ("Tromsø", "Bodø", "Łódź", "Zürich", "Muenster", "Malmo", "Türi", "Aalborg")
]
OWNERS = [
    f"Herr {name} opened the shop in spring and sells tools."
    for name in ("Müller", "Köhler", "Krüger", "Jäger", "Baek", "Groesse", "Schröder")
]
DISHES = [
    f"The {name} was approved by the board in spring."
    for name in ("rømmegrøt", "żurek", "crème brûlée", "jalapeno sauce", "Gemüse", "pâté")
]

OFFICES = [
    f"The {name} office answered the letter in March and sent forms."
    for name in ("U.A.E.", "U.N.", "B.B.C.", "NATO", "EU", "CIA", "FBI")
]
SIGNERS = [
    f"Mr. {name} signed the letter to the bank in May."
    for name in ("O'Brien", "O'Shea", "McLeod", "McBride", "Harlow", "Marlin", "Stanton")
]
DOUGHS = [f"Add {amount} cup of milk and stir the dough." for amount in "½⅓¼¾⅔⅛"]
TYPES = [f"Patients with type {n} of the fever slept for a day." for n in ("II", "III", "IV", "VI")]
BUDGETS = [
    f"{name}的预算是{n}万元。"
    for name, n in zip("桥港路塔馆院站", (32, 302, 320, 23, 203, 230, 332), strict=True)
]
OPENINGS = [
    f"{name}在下午{hour}点开门。"
    for name, hour in zip("桥港路塔馆院站", "一二三四五六七", strict=True)
]
STARTS = [
    f"{name}于九月{day}日开工。"
    for name, day in zip("桥港路塔馆院站", "一二三四五六七", strict=True)
]


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("texts", "question", "expected"),
    [
        (TIMES, "Which bus leaves at 4:10 pm?", "16:10"),
        (TIMES, "Which bus leaves at 18h10?", "18:10"),
        (AMOUNTS, "Which offer was 6610 dollars?", "$6,610"),
        (BODIES, "What did the NSPB publish?", "North Sea Pilot Board"),
        (BODIES, "What did ESA publish?", "European Space Agency"),
        (BODIES, "What did the WHO publish?", "World Health Organization"),
        (TOWNS, "When did the branch in Bodo open?", "Bodø"),
        (OWNERS, "When did Herr Krueger open the shop?", "Krüger"),
        (OWNERS, "When did Herr Bäk open the shop?", "Baek"),
        (TOWNS, "When did the branch in Malmö open?", "Malmo"),
        (DISHES, "Who approved the rommegrot?", "rømmegrøt"),
        (DISHES, "Who approved the jalapeño sauce?", "jalapeno"),
        (DISHES, "Who approved the pate?", "pâté"),
        (SIGNERS, "What did Mr. OBrien sign?", "O'Brien"),
        (SIGNERS, "What did Mr. Mc Leod sign?", "McLeod"),
        (SIGNERS, "What did Mr. Halrow sign?", "Harlow"),
        (DOUGHS, "Which dough needs 1/2 cup of milk?", "½"),
        (OFFICES, "When did the UAE office answer the letter?", "U.A.E."),
        (OFFICES, "When did the N.A.T.O. office answer the letter?", "NATO"),
        (TYPES, "How long did patients with type 4 sleep?", "IV"),
        (BUDGETS, "什么的预算是三百二十万元?", "320"),
        (OPENINGS, "什么在16点开门?", "四点"),
        (STARTS, "9月6日什么开工?", "六日"),
    ],
)
def test_another_notation_finds_the_text(texts, question, expected):
    with E2GraphRAG.open(":memory:") as rag:
        rag.add([SourceDocument(f"d{n}", text) for n, text in enumerate(texts)])
        assert expected in rag.retrieve(question, k=1).nodes[0].text
