"""Names and codes that a question only mentions do not decide what comes first."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument

HELP = {
    "export": "Exporting to PDF. Open the File menu and choose Export.",
    "print": "Printing. Choose File, then Print, and select the paper.",
    "cancel": "Cancel an order before it is packed: open it and press Cancel.",
    "theme": "Dark theme. Open Settings, then Appearance.",
    "home": "Lunch is free on Fridays. Permits for the garage are drawn by lot in January.",
    "v1": "Version 4.2.1, released 2024-03-05. Fixed a crash on start.",
    "v0": "Version 4.2.0, released 2024-02-01. New icons.",
    "o1": "Order 48240-2 from 2024-05-16: winter coat, size M, navy.",
    "o2": "Order 48231-9 from 2024-05-15: two scarves, red.",
    "mia": "Mia Rud is the new intern in design.",
}


@pytest.fixture(scope="module")
def rag(real_embedder, real_extractor):
    with E2GraphRAG.open(
        ":memory:", embedder=real_embedder, models=Models(extractor=real_extractor)
    ) as opened:
        opened.add([SourceDocument(id_, text) for id_, text in HELP.items()])
        yield opened


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("Since the update to 4.2.1 I cannot find the dark theme. Where is it?", "theme"),
        ("On 2024-03-05 I wanted to choose the paper for printing. Where?", "print"),
        ("I got order 48231-9, how do I choose the dark appearance in the settings?", "theme"),
    ],
)
def test_the_rest_of_the_question_comes_first(rag, question, document):
    assert rag.retrieve(question, k=3).nodes[0].document_id == document


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("What was in order 48231-9?", "o2"),
        ("What is new in version 4.2.0?", "v0"),
        ("Who is Mia Rud?", "mia"),
        ("What does Mia Rud do in design?", "mia"),
    ],
)
def test_a_name_or_code_that_is_asked_about_comes_first(rag, question, document):
    assert rag.retrieve(question, k=3).nodes[0].document_id == document
