"""Small collections as people have them: the answer is the first hit."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument

NOVEL = Path(__file__).parents[2] / "examples" / "data" / "the_time_machine.txt"

NOTES = [
    "The cat had three kittens in the wardrobe.",
    "Our boiler broke down on Sunday night.",
    "The ferry to Aran was cancelled because of the storm.",
    "Grandpa sold his tractor to a neighbor.",
    "Tom learned to swim when he was seven.",
    "Maria is allergic to nuts.",
    "The bakery on the corner opens at six.",
    "Lena was promoted to head of the department.",
    "A tree fell onto the garage roof during the night.",
    "The bus driver found a wallet under the seat.",
]
PRODUCTS = ("Kestrel", "Merlin", "Osprey", "Harrier")


@pytest.fixture(scope="module")
def open_with(real_embedder, real_extractor):
    opened = []

    def make(documents):
        models = Models(extractor=real_extractor)
        rag = E2GraphRAG.open(":memory:", embedder=real_embedder, models=models)
        opened.append(rag)
        rag.add(documents)
        return rag

    yield make
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def notes(open_with):
    return open_with([SourceDocument(f"n{n}", text) for n, text in enumerate(NOTES)])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where was the purse when it was discovered?", "wallet"),
        ("When was the ship service called off?", "ferry"),
        ("When was the heating defective?", "boiler"),
        ("What was it that damaged the building for the car?", "garage"),
    ],
)
def test_function_words_do_not_beat_a_paraphrase(notes, question, answer):
    assert answer in notes.retrieve(question, k=3).nodes[0].text


@pytest.fixture(scope="module")
def pages(open_with):
    return open_with(
        [
            page
            for n, name in enumerate(PRODUCTS)
            for page in (
                SourceDocument(
                    name,
                    f"The {name} is a heat pump for houses with {n + 2} floors."
                    " It was designed in Graz.",
                    name,
                ),
                SourceDocument(
                    f"{name}/s",
                    f"Weight {n + 30} kg, width {n + 50} cm.",
                    f"{name} / Specifications",
                ),
                SourceDocument(
                    f"{name}/w", f"Free repairs for {n + 2} years.", f"{name} / Warranty"
                ),
            )
        ]
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_page_below_a_page_is_about_the_same_thing(pages, name):
    assert pages.retrieve(f"How heavy is the {name}?", k=3).nodes[0].document_id == f"{name}/s"
    assert pages.retrieve(f"How long is the {name} guaranteed?").nodes[0].document_id == f"{name}/w"


def test_a_first_name_alone_does_not_hide_the_full_name(open_with):
    rag = open_with(
        [
            SourceDocument("staff", "Tobias Krag keeps the accounts and lives in Elm Street."),
            SourceDocument("party", "Tobias and Lotte danced until four."),
            SourceDocument("berth", "Guest berths cost 18 euros per night."),
            SourceDocument("crane", "The crane lifts three tons."),
        ]
    )
    assert rag.retrieve("Where does Tobias live?").nodes[0].document_id == "staff"


def test_a_fact_of_one_sentence_is_found_in_a_long_text(open_with):
    fact = "The spare key of the archive hangs behind the barometer."
    paragraphs = NOVEL.read_text(encoding="utf-8").split("\n\n")[:120]
    paragraphs.insert(60, fact)
    rag = open_with(SourceDocument("novel", "\n\n".join(paragraphs)))
    question = "Where is the spare key of the archive?"
    assert fact in rag.retrieve(question, k=3).nodes[0].text
    assert fact in rag.retrieve(question, token_budget=600).context()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("month", ["january", "june", "august"])
def test_a_file_is_found_by_its_name(open_with, month):
    months = ("january", "february", "march", "april", "june", "july", "august")
    text = "Present: Anna, Ben and Rita. We talked about the garden and the roof, and agreed. " * 3
    rag = open_with([SourceDocument(f"minutes/minutes_{one}.txt", text) for one in months])
    file = f"minutes_{month}.txt"
    assert rag.retrieve(f"What is in {file}?").nodes[0].document_id == f"minutes/{file}"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("markup", [("", ""), ("# ", "## ")], ids=["plain", "markdown"])
def test_a_section_is_found_by_the_name_of_the_chapter_above_it(open_with, markup):
    chapter, section = markup
    filler = "Please read this page before you begin, and keep it where you find it again. " * 6
    hours = {"ASTER 200": "nine", "BOREA 310": "thirty", "CORVIN 42": "five", "DELMAR 7": "twelve"}
    manual = "\n\n".join(
        f"{chapter}{name}\n\n{filler}\n\n{section}Cleaning\n\n{filler}Rinse the tank.\n\n"
        f"{section}Battery\n\n{filler}It lasts {number} hours. {filler}"
        for name, number in hours.items()
    )
    rag = open_with(SourceDocument("manual", manual))
    for name, number in hours.items():
        question = f"How long does the battery of the {name.title()} last?"
        assert f"It lasts {number} hours" in rag.retrieve(question, token_budget=300).context()
