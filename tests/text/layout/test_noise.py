"""Noise of a layout is left out for readers, and spans lead back to the original."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.text.layout.noise import clean
from strategies import examples


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Veld-\nhoven", "Veldhoven"),
        ("Veld-  \r\n  hoven", "Veldhoven"),
        ("Veld\u00adhoven", "Veldhoven"),
        ("Veld\u200bhoven", "Veldhoven"),
        ("\ufeff# Heading", "# Heading"),
        ("Rolls-\nRoyce", "Rolls-Royce"),
        ("10-\n20 and - \n a list", "10-\n20 and - \n a list"),
    ],
)
def test_noise_is_removed(text, expected):
    assert clean(text).text == expected


@given(st.text(alphabet="aB- \n\u00ad\u200b\ufeff1", max_size=40))
@examples(200)
def test_each_character_leads_back_to_itself(text):
    cleaned = clean(text)
    for at, letter in enumerate(cleaned.text):
        start, end = cleaned.original(at, at + 1)
        assert text[start:end] == letter


@pytest.mark.parametrize("broken", ["Veld-\nhoven", "Veld\u00adhoven", "Veld\u200bhoven"])
def test_a_broken_name_is_found_and_shown_as_written(broken):
    text = f"The miller of {broken} keeps goats near the mill."
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add([SourceDocument("a", text), SourceDocument("b", "The baker of Ostrava sells.")])
        result = rag.retrieve("Who lives in Veldhoven?", k=2)
        assert [link.entity for link in result.trace.links] == ["veldhoven"]
        assert result.nodes[0].text == text
        [mention] = rag.entity("veldhoven").mentions
        assert text[mention.start : mention.end] == broken
        assert rag.verify().ok
