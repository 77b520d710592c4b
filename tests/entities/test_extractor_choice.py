"""Which extractor finds the entities of a document or a question, by its language."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import RuleBasedExtractor, SpacyEntityExtractor
from e2graphrag_integrations.entities.chinese.extractor import ChineseEntityExtractor
from e2graphrag_integrations.entities.entity_rules import EntityRules
from e2graphrag_integrations.entities.extractor_choice import (
    ExtractorRouter,
    question_languages,
    recorded_extractors,
    recorded_languages,
    used_entries,
    visible_text,
)
from e2graphrag_integrations.errors import InvalidInputError
from fakes import NameExtractor

ENGLISH_INDEX = {"extractor": "spacy:en+subjects:2", "extractor_model": "en_e2g_sm"}
MIXED_INDEX = ENGLISH_INDEX | {
    "extractor_zh": "chinese:zh+subjects:2",
    "extractor_zh_model": "default",
    "extractor_de": "spacy:de+subjects:2",
    "extractor_de_model": "de_core_news_sm",
}
OWN_EXTRACTOR = {"extractor": "fake:names+subjects:2", "extractor_model": ""}


def test_each_language_has_a_default_extractor():
    router = ExtractorRouter(None, {})
    assert isinstance(router.extractor("en"), SpacyEntityExtractor)
    assert isinstance(router.extractor("zh"), ChineseEntityExtractor)
    german = router.extractor("de")
    assert isinstance(german, RuleBasedExtractor)
    assert german.language == "de"
    assert [router.model_name(code) for code in ("en", "zh", "de")] == [
        "en_e2g_sm",
        "default",
        "default",
    ]
    assert router.marker() == {}


def test_one_extractor_is_used_for_all_languages():
    own = NameExtractor()
    router = ExtractorRouter(own, {})
    assert router.extractor("zh") is router.extractor("en") is own
    assert router.key("zh") == "extractor"
    assert ExtractorRouter("en_core_web_lg", {}).extractor("de").model == "en_core_web_lg"


def test_a_mapping_replaces_the_extractors_of_its_languages():
    own = NameExtractor()
    router = ExtractorRouter({"zh-CN": own, "fr": "fr_core_news_sm"}, {})
    assert router.extractor("zh") is own
    assert router.extractor("fr").model == router.model_name("fr") == "fr_core_news_sm"
    assert router.model_name("zh") == ""
    assert router.extractor("en").model == "en_e2g_sm"
    assert router.marker() == {}
    assert ExtractorRouter({"en": own}, {}).marker() == {"extractor_by_language": "yes"}


def test_rules_complete_the_default_extractor_of_each_language_that_is_used():
    rules = EntityRules([{"label": "drug", "pattern": "aspirin"}])
    router = ExtractorRouter(rules, {})
    assert not router.is_single
    german = router.extractor("de")
    assert (type(german.extractor), german.language) == (RuleBasedExtractor, "de")
    assert german.rules is rules
    assert router.extractor("de") is german
    assert isinstance(router.extractor("zh").extractor, ChineseEntityExtractor)
    assert router.key("de") == "extractor_de"
    assert router.model_name("de").startswith("rules:")
    assert not router.is_default("fr")
    assert router.marker() == {"extractor_by_language": "yes"}
    assert ExtractorRouter(rules, OWN_EXTRACTOR).extractor("en").rules is rules


@pytest.mark.parametrize("given", [{}, {"xx": "m"}, {"zh": 3}, {"zh": "a", "zho": "b"}, {"zh": ""}])
def test_an_invalid_mapping_is_rejected(given):
    with pytest.raises(InvalidInputError, match="extractor"):
        ExtractorRouter(given, {})


def test_an_index_names_its_extractors():
    router = ExtractorRouter(None, MIXED_INDEX)
    assert not router.is_single
    assert router.extractor("de").model == "de_core_news_sm"
    assert isinstance(router.extractor("zh"), ChineseEntityExtractor)
    assert [router.is_default(code) for code in ("en", "zh", "de", "fr")] == [
        True,
        True,
        False,
        True,
    ]
    assert list(recorded_languages(MIXED_INDEX)) == ["en", "de", "zh"]
    assert recorded_extractors(MIXED_INDEX) == {"de": "de_core_news_sm"}
    assert recorded_extractors(ENGLISH_INDEX) is None


def test_an_index_with_one_extractor_keeps_it_for_all_languages():
    router = ExtractorRouter(None, OWN_EXTRACTOR)
    assert router.is_single
    assert router.key("zh") == "extractor"
    assert router.extractor("zh") is None  # it must be passed
    marked = OWN_EXTRACTOR | {"extractor_by_language": "yes"}
    assert isinstance(ExtractorRouter(None, marked).extractor("zh"), ChineseEntityExtractor)


def test_extractors_of_languages_without_documents_are_not_exported():
    assert used_entries(MIXED_INDEX, {"en", "de", "zh"}) == MIXED_INDEX
    assert used_entries(MIXED_INDEX, {"en"}) == ENGLISH_INDEX
    assert set(used_entries(MIXED_INDEX, {"zh"})) == {"extractor_zh", "extractor_zh_model"}
    assert used_entries(ENGLISH_INDEX, {"zh"}) == ENGLISH_INDEX  # extracted before there were more
    assert used_entries(OWN_EXTRACTOR, {"zh"}) == OWN_EXTRACTOR


@pytest.mark.parametrize(
    ("question", "languages"),
    [
        ("Who wrote the novel?", ["en"]),
        ("Wer schrieb Faust?", ["en", "de"]),  # too short to exclude English
        ("贾宝玉是谁？", ["zh"]),
        ("OpenAI的创始人是谁？", ["en", "de", "zh"]),
        ("Кто это?", ["en"]),  # no language fits
        ("1984?", ["en"]),
    ],
)
def test_questions_are_read_by_the_languages_of_their_scripts(question, languages):
    assert question_languages(question, ["en", "de", "zh"]) == languages
    assert question_languages(question, ["zh"]) == ["zh"]


def test_letters_of_other_scripts_are_hidden_from_an_extractor():
    question = "OpenAI的CEO是谁 Кто?"
    assert visible_text(question, "en") == "OpenAI CEO      ?"
    assert visible_text(question, "zh") == "OpenAI的CEO是谁    ?"
    assert len(visible_text(question, "ru")) == len(question)
