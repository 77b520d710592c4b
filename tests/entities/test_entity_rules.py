"""The user's rules complete the names of any extractor."""

import copy
import pickle

import pytest

from e2graphrag_integrations import (
    ChineseEntityExtractor,
    RuleBasedExtractor,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.entities.entity_rules import EntityRules, RuledExtractor, extractor_of
from e2graphrag_integrations.errors import (
    InvalidInputError,
    SettingsMismatchError,
    UnreadableFileError,
)

DRUGS = EntityRules(
    [
        {"label": "drug", "pattern": "aspirin"},
        {"label": "drug", "pattern": "ASA", "id": "aspirin"},
        {"label": "ORG", "pattern": [{"LOWER": "acme"}, {"LOWER": "labs", "OP": "?"}]},
    ]
)


def mentions(text, rules=DRUGS, extractor=None):
    ruled = RuledExtractor(extractor or SpacyEntityExtractor(), rules)
    [sentences] = ruled.extract([text])
    for sentence in sentences:
        assert list(sentence) == sorted(sentence, key=lambda one: (one.start, one.end))
    return [[(m.entity, m.label) for m in sentence] for sentence in sentences]


def test_matches_replace_the_mentions_that_they_overlap():
    first, second = mentions("Ada gave aspirin to the patient. ASA was made by acme labs.")
    assert ("aspirin", "drug") in first
    assert ("patient", "NOUN") in first
    assert ("aspirin", "NOUN") not in first
    assert second == [("aspirin", "drug"), ("acme labs", "ORG")]


def test_a_longer_name_stays():
    text = "Yesterday, Paris Hilton came to London. She left Paris."
    rules = EntityRules([{"label": "city", "pattern": "Paris"}])
    found = [one for sentence in mentions(text, rules) for one in sentence]
    assert ("Paris Hilton", "PERSON") in found
    assert ("Paris", "city") in found


class Fixed:
    """An extractor with the sentences that a test needs."""

    def __init__(self, sentences):
        self.sentences = sentences

    def extract(self, texts):
        return [self.sentences for _ in texts]


@pytest.mark.parametrize(
    ("sentences", "number", "count"),
    [
        ([[("Ann", 0, 3, "PERSON")], [], [("Bob", 21, 24, "PERSON")]], 1, 3),
        ([[("Ann", 0, 3, "PERSON")], [("Bob", 21, 24, "PERSON")]], 1, 3),
        ([[], [], []], 0, 3),
        ([], 0, 1),
        ([[("Ann", 0, 3, "PERSON")], [("use", 13, 16, "NOUN")]], 1, 2),
    ],
)
def test_matches_are_in_the_sentence_around_them(sentences, number, count):
    text = "Ann left us. Use it! Bob came."
    rules = EntityRules([{"label": "x", "pattern": "it"}])
    found = mentions(text, rules, Fixed(sentences))
    assert len(found) == count
    assert ("it", "x") in found[number]


def test_a_text_without_a_match_is_as_before():
    text = "The Eloi fear the dark."
    [plain] = SpacyEntityExtractor().extract([text])
    assert mentions(text) == [[(m.entity, m.label) for m in sentence] for sentence in plain]


def test_rules_work_in_chinese():
    pytest.importorskip("opencc")
    rules = EntityRules([{"label": "药物", "pattern": "阿司匹林"}])
    [found] = mentions("医生给他开了阿司匹林。", rules, ChineseEntityExtractor())
    assert ("阿司匹林", "药物") in found
    rules = EntityRules([{"label": "医院", "pattern": "東華醫院"}])
    [found] = mentions("他在東華醫院工作。", rules, ChineseEntityExtractor())
    assert ("东华医院", "医院") in found


@pytest.mark.parametrize(
    "patterns",
    [
        "aspirin",
        {"label": "drug", "pattern": "aspirin"},
        3,
        ["aspirin"],
        [{"label": "drug"}],
        [{"label": "drug", "pattern": "a", "code": "exit()"}],
        [{"label": "", "pattern": "a"}],
        [{"label": "Noun", "pattern": "a"}],
        [{"label": "subject:heading", "pattern": "a"}],
        [{"label": "x" * 101, "pattern": "a"}],
        [{"label": "drug", "pattern": " "}],
        [{"label": "drug", "pattern": "a " * 31}],
        [{"label": "drug", "pattern": []}],
        [{"label": "drug", "pattern": ["a"]}],
        [{"label": "drug", "pattern": [{"REGEX": "(a+)+"}]}],
        [{"label": "drug", "pattern": [{"TEXT": {"REGEX": "(a+)+"}}]}],
        [{"label": "drug", "pattern": [{"TEXT": {"IN": "ab"}}]}],
        [{"label": "drug", "pattern": [{"IS_DIGIT": 1}]}],
        [{"label": "drug", "pattern": [{"TEXT": "a", "OP": "!"}]}],
        [{"label": "drug", "pattern": [{"TEXT": "a", "OP": "?"}]}],
        [{"label": "drug", "pattern": [{"IS_ALPHA": True, "OP": "*"}] * 20 + [{"TEXT": "?"}]}],
        [{"label": "drug", "pattern": [{"IS_ALPHA": True, "OP": "?"}] * 7 + [{"TEXT": "?"}]}],
        [{"label": "drug", "pattern": "a", "id": ""}],
    ],
)
def test_invalid_rules_are_refused(patterns):
    with pytest.raises(InvalidInputError):
        EntityRules(patterns)


def test_arguments_of_the_wrong_type_are_refused():
    with pytest.raises(InvalidInputError, match="EntityRules"):
        RuledExtractor(SpacyEntityExtractor(), [{"label": "x", "pattern": "y"}])
    with pytest.raises(InvalidInputError, match="extractor"):
        RuledExtractor("en_core_web_sm", DRUGS)


def test_a_path_of_rules_that_is_none_is_refused():
    with pytest.raises(InvalidInputError, match="path=3 must name a file of rules"):
        EntityRules.read(3)


def test_rules_are_read_from_the_files_of_spacy(tmp_path):
    path = tmp_path / "rules.jsonl"
    path.write_text('{"label": "drug", "pattern": "aspirin"}\n\n', encoding="utf-8")
    assert EntityRules.read(path) == EntityRules([{"label": "drug", "pattern": "aspirin"}])
    path.write_text('\n[{"label": "drug", "pattern": "aspirin"}]', encoding="utf-8")
    assert EntityRules.read(path) == EntityRules([{"label": "drug", "pattern": "aspirin"}])
    path.write_text('{"label": "drug", "pattern": "aspirin"}\n\nlabel: drug', encoding="utf-8")
    with pytest.raises(UnreadableFileError, match=r"line 3 of .*rules\.jsonl is not JSON"):
        EntityRules.read(path)
    path.write_text('\n{"label": "drug"}', encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"line 2 of .*rules\.jsonl"):
        EntityRules.read(path)
    with pytest.raises(UnreadableFileError, match="cannot read"):
        EntityRules.read(tmp_path / "missing.jsonl")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("base", [SpacyEntityExtractor(), RuleBasedExtractor("en")])
def test_extractors_with_rules_are_created_again_by_name(base):
    ruled = RuledExtractor(base, DRUGS)
    again = extractor_of(ruled.recorded_name)
    assert again.fingerprint == ruled.fingerprint == copy.deepcopy(ruled).fingerprint
    assert again.rules == DRUGS
    assert ruled.fingerprint != RuledExtractor(base, EntityRules([])).fingerprint
    ruled.extract(["Ada took aspirin."])
    again = pickle.loads(pickle.dumps(ruled))  # noqa: S301 - made here
    assert again.fingerprint == ruled.fingerprint


def test_the_users_own_extractor_is_not_created_again():
    assert RuledExtractor(Fixed([]), DRUGS).recorded_name == ""


@pytest.mark.parametrize("name", ["", "{}", "[1]", '{"patterns": 3}'])
def test_damaged_names_are_refused(name):
    with pytest.raises(InvalidInputError):
        extractor_of(name)


def test_an_index_remembers_its_rules_and_refuses_others(tmp_path, open_index):
    path = tmp_path / "drugs.e2g"

    def opened(rules):
        return {"extractor": RuledExtractor(RuleBasedExtractor("en"), rules)}

    with open_index(path, **opened(DRUGS)) as rag:
        rag.add(SourceDocument("a", "Ada took aspirin. Later, Ada took ASA."))
        assert [(one.name, one.mentions) for one in rag.entities(types="drug")] == [("aspirin", 2)]
    with open_index(path, extractor=None) as rag:
        rag.add(SourceDocument("b", "Bob took ASA from Acme Labs."))
        assert [(one.name, one.mentions) for one in rag.entities(types="drug")] == [("aspirin", 3)]
        assert [one.name for one in rag.entities(types="organization")] == ["acme labs"]
        assert rag.retrieve("Who took ASA?").trace.links[0].entity == "aspirin"
    with (
        open_index(path, **opened(EntityRules([{"label": "drug", "pattern": "ASA"}]))) as rag,
        pytest.raises(SettingsMismatchError, match="extractor"),
    ):
        rag.retrieve("Who took ASA?")
