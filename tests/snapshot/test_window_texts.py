"""What BM25 reads for each window: what the window is about, and its text."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, IndexSettings, SourceDocument
from e2graphrag_integrations.snapshot.window_texts import window_texts
from e2graphrag_integrations.types import Segment

MANUAL = """# Machines

## Corvin 42

### Cleaning

Rinse the tank with salt.

### Battery

It lasts nine hours.

## Delmar 7

### Cleaning

Rinse the tank with vinegar.
"""


def texts_of(rag):
    snapshot = rag._session.snapshot()
    nodes = rag.store.nodes_at(snapshot.generation, snapshot.nodes.ids)
    return list(window_texts(snapshot, (nodes[id_].text for id_ in snapshot.nodes.ids)))


def indexed(*documents, chunk_size=8):
    settings = IndexSettings(chunk_size=chunk_size, chunk_overlap=0)
    rag = E2GraphRAG.open(":memory:", embedder="hashing", settings=settings)
    rag.add(documents)
    return rag


def window_with(texts, words):
    return next(text for text in texts if words in text)


def test_a_window_has_the_headings_above_it_in_lines_of_their_own():
    with indexed(SourceDocument("manual", MANUAL)) as rag:
        texts = texts_of(rag)
    found = window_with(texts, "vinegar").split("\n")
    assert [found.count(name) for name in ("Machines", "Delmar 7", "Corvin 42")] == [1, 1, 0]
    hours = window_with(texts, "nine hours")
    assert "Corvin 42" in hours
    assert "Cleaning" not in hours


def test_a_plain_text_needs_no_markup_for_its_headings():
    plain = MANUAL.replace("### ", "").replace("## Corvin 42", "CORVIN 42")
    plain = plain.replace("# Machines", "MACHINES").replace("## Delmar 7", "DELMAR 7")
    with indexed(SourceDocument("manual", plain)) as rag:
        texts = texts_of(rag)
    found = window_with(texts, "vinegar").split("\n")
    assert [found.count(name) for name in ("DELMAR 7", "CORVIN 42")] == [1, 0]
    assert "CORVIN 42" in window_with(texts, "nine hours")


def test_headings_in_the_metadata_of_a_section_come_before_those_in_the_text():
    text = "Rinse the tank.\n\nIt lasts nine hours."
    segments = [
        Segment(0, 17, {"headings": ["Machines", "Corvin 42"]}),
        Segment(17, len(text), {"headings": ["Machines", "Delmar 7"]}),
    ]
    with indexed(SourceDocument("manual", text, segments=segments), chunk_size=200) as rag:
        [both] = texts_of(rag)
    assert both.startswith("Machines\nCorvin 42\n")
    with indexed(SourceDocument("manual", text, segments=segments), chunk_size=5) as rag:
        assert "Machines\nDelmar 7\n" in window_with(texts_of(rag), "nine hours")


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (SourceDocument("a/annual_report_2021.pdf", "Sales rose."), "a annual report 2021"),
        (
            SourceDocument("7", "Sales rose.", metadata={"source": "x/report-2021.txt"}),
            "x report-2021",
        ),
        (SourceDocument("7", "Sales rose.", metadata={"title": "Year 2021"}), "Year 2021"),
        (SourceDocument("a.txt", "Sales rose.", title="Year 2021"), "Year 2021"),
    ],
)
def test_a_window_has_the_title_of_its_document_or_the_words_of_its_file(document, title):
    with indexed(document) as rag:
        assert texts_of(rag) == [f"{title}. Sales rose."]


def test_an_id_that_is_no_file_says_nothing():
    with indexed(SourceDocument("doc 7", "Sales rose.")) as rag:
        assert texts_of(rag) == ["Sales rose."]


def test_the_year_in_the_name_of_a_file_finds_the_report_of_that_year():
    years = range(2016, 2024)
    reports = [SourceDocument(f"reports/annual_{year}.txt", "Sales rose.") for year in years]
    with indexed(*reports) as rag:
        for year in years:
            [best, *_] = rag.retrieve(f"How did sales develop in {year}?").nodes
            assert best.document_id == f"reports/annual_{year}.txt"


def test_the_section_of_a_machine_answers_a_question_about_it():
    with indexed(SourceDocument("manual", MANUAL)) as rag:
        for machine, means in (("Corvin 42", "salt"), ("Delmar 7", "vinegar")):
            [best, *_] = rag.retrieve(f"How is the tank of the {machine} rinsed?").nodes
            assert means in best.text
