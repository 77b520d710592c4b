"""Versions of the extraction rules, and the fingerprints that name them."""

from __future__ import annotations

from copy import deepcopy

import pytest
import spacy

from e2graphrag_integrations import SpacyEntityExtractor
from e2graphrag_integrations.entities.versions import (
    CURRENT_VERSION,
    ChunkExtractor,
    find_version,
    index_version,
    is_outdated,
    own_fingerprint,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.types import DEFINITION, HEADING
from fakes import NameExtractor

TEXT = "Anna Berg\nAnna Berg was a pilot. Bert met her in Oslo, the town."


def labels(found):
    return {mention.label for sentences in found for sentence in sentences for mention in sentence}


def test_the_current_rules_add_the_candidates_for_the_subject():
    found = ChunkExtractor(NameExtractor()).extract([TEXT], ["here"])
    assert {HEADING, DEFINITION} <= labels(found)
    old = ChunkExtractor(NameExtractor(), version=1).extract([TEXT], ["here"])
    assert old == NameExtractor().extract([TEXT]) == [found[0][1:]]


def test_a_version_is_found_by_its_fingerprint():
    extractor = NameExtractor()
    for version in (1, CURRENT_VERSION):
        fingerprint = ChunkExtractor(extractor, version).fingerprint
        found = find_version(extractor, fingerprint)
        assert found is not None
        assert found.version == version == index_version({"extractor": fingerprint})
        assert own_fingerprint(fingerprint) == "fake:names"
    assert find_version(extractor, "fake:other") is None
    assert find_version(extractor, "fake:names+subjects:9") is None  # of a newer package


def test_an_empty_index_is_not_outdated():
    assert index_version({}) == CURRENT_VERSION
    assert not is_outdated({})
    assert is_outdated({"extractor": "fake:names"})


def test_version_1_of_a_spacy_extractor_shares_its_pipeline(real_extractor):
    old = real_extractor.with_rules(1)
    assert old.nlp is real_extractor.nlp
    assert real_extractor.fingerprint == f"{old.fingerprint}:version=4"
    found = find_version(real_extractor, old.fingerprint)
    assert found is not None
    assert (found.version, found.extractor.rules_version) == (1, 1)
    assert find_version(real_extractor, real_extractor.fingerprint) is None  # without subjects


def test_a_heading_ends_a_name_from_version_2(real_extractor):
    def names(extractor):
        [sentences] = extractor.extract(["CKHL-FM\nCKHL-FM is a Canadian radio station."])
        return [mention.entity for sentence in sentences for mention in sentence if mention.named]

    assert names(real_extractor) == ["CKHL-FM", "Canadian"]
    assert names(real_extractor.with_rules(1)) == ["CKHL-FM CKHL-FM", "Canadian"]


def test_a_line_or_a_cell_ends_a_name_from_version_4(real_extractor):
    def names(extractor, text):
        [sentences] = extractor.extract([text])
        return [mention.entity for sentence in sentences for mention in sentence if mention.named]

    assert names(real_extractor, "anna krog\npeter moe\nida lund") == [
        "anna krog",
        "peter moe",
        "ida lund",
    ]
    table = "name,price\nBold Town,$12.50\nOld Harbor,$3.10"
    assert names(real_extractor, table) == ["Bold Town", "Old Harbor"]
    assert names(real_extractor, "He saw <b>Bold Town</b> there.") == ["Bold Town"]
    assert len(names(real_extractor.with_rules(3), "Jonas Moser\nTilda Oxen")) == 1


def test_a_copy_of_a_spacy_extractor_keeps_its_version(real_extractor):
    assert deepcopy(real_extractor.with_rules(1)).rules_version == 1
    assert SpacyEntityExtractor().is_reproducible_by_name
    assert not SpacyEntityExtractor(rules_version=1).is_reproducible_by_name


def test_pipeline_of_another_language_has_a_third_version_of_the_rules():
    pipeline = spacy.blank("de")
    newest, second = SpacyEntityExtractor(pipeline), SpacyEntityExtractor(pipeline, rules_version=2)
    assert newest.fingerprint.endswith(":version=4")
    assert second.fingerprint.endswith(":version=2")
    found = find_version(newest, ChunkExtractor(second).fingerprint)
    assert found is not None
    assert (found.version, found.extractor.rules_version) == (2, 2)
    third = SpacyEntityExtractor(spacy.blank("en"), rules_version=3)
    assert third.fingerprint.endswith(":version=2")


@pytest.mark.parametrize("version", [0, 5, "2", True])
def test_an_unknown_version_is_rejected(version):
    with pytest.raises(InvalidInputError, match="rules_version"):
        SpacyEntityExtractor(rules_version=version)
