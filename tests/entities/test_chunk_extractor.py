"""Extraction of chunks: the mentions of an extractor, and the candidates for the subject."""

from __future__ import annotations

import pickle

import pytest
import spacy

from e2graphrag_integrations import SpacyEntityExtractor
from e2graphrag_integrations.entities.chunk_extractor import ChunkExtractor, own_fingerprint
from e2graphrag_integrations.entities.subjects import SUBJECT_RULES
from e2graphrag_integrations.types import DEFINITION, HEADING
from fakes import NameExtractor

TEXT = "Anna Berg\nAnna Berg was a pilot. Bert met her in Oslo, the town."


def names(extractor, text):
    [sentences] = extractor.extract([text])
    return [mention.entity for sentence in sentences for mention in sentence if mention.named]


def test_the_candidates_for_the_subject_are_added():
    [found] = ChunkExtractor(NameExtractor()).extract([TEXT], ["here"])
    labels = {mention.label for sentence in found for mention in sentence}
    assert {HEADING, DEFINITION} <= labels
    assert NameExtractor().extract([TEXT]) == [found[1:]]


def test_the_fingerprint_names_the_extractor_and_the_rules_for_subjects():
    fingerprint = ChunkExtractor(NameExtractor()).fingerprint
    assert fingerprint == f"fake:names+{SUBJECT_RULES}"
    assert own_fingerprint(fingerprint) == "fake:names"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("language", ["en", "de"])
def test_the_fingerprint_of_a_spacy_extractor_names_its_rules(language):
    assert SpacyEntityExtractor(spacy.blank(language)).fingerprint.endswith(":rules=1:version=4")


def test_a_heading_ends_a_name(real_extractor):
    text = "CKHL-FM\nCKHL-FM is a Canadian radio station."
    assert names(real_extractor, text) == ["CKHL-FM", "Canadian"]


def test_a_line_or_a_cell_ends_a_name(real_extractor):
    assert names(real_extractor, "anna krog\npeter moe\nida lund") == [
        "anna krog",
        "peter moe",
        "ida lund",
    ]
    table = "name,price\nBold Town,$12.50\nOld Harbor,$3.10"
    assert names(real_extractor, table) == ["Bold Town", "Old Harbor"]
    assert names(real_extractor, "He saw <b>Bold Town</b> there.") == ["Bold Town"]


def test_an_extractor_without_the_rules_for_names_is_not_reproducible_by_name():
    assert SpacyEntityExtractor().is_reproducible_by_name
    copy = pickle.loads(pickle.dumps(SpacyEntityExtractor(name_rules=False)))  # noqa: S301
    assert not copy.is_reproducible_by_name
