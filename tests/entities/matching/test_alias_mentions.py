"""The user's aliases that are found in a question without the extractor."""

from __future__ import annotations

import unicodedata

import pytest

from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdit, EntityEdits
from e2graphrag_integrations.entities.matching.alias_mentions import translated, with_alias_mentions
from e2graphrag_integrations.types import NOUN, Mention


def edits(**aliases):
    pairs = {name.replace("_", " "): entity for name, entity in aliases.items()}
    return EntityEdits(tuple(EntityEdit("alias", pair) for pair in pairs.items()))


def found(question, glossary, mentions=()):
    return [one.entity for one in with_alias_mentions(question, mentions, glossary)]


GLOSSARY = edits(Liu_Bei="刘备", Guan_Yu="关羽")


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who was Liu Bei?", ["Liu Bei"]),
        ("who was LIU  BEI, and Guan Yu", ["LIU  BEI", "Guan Yu"]),
        ("Liu Bei和Guan Yu是什么关系？", ["Liu Bei", "Guan Yu"]),
        ("ＬＩＵ Ｂｅｉ是谁？", ["ＬＩＵ Ｂｅｉ"]),
        ("What did Liu Beijing do?", []),
        ("Who was Zhang Fei?", []),
    ],
)
def test_aliases_are_found_as_complete_words_in_any_case_and_width(question, names):
    assert found(question, GLOSSARY) == names


@pytest.mark.parametrize(
    ("alias", "question", "names"),
    [
        ("Café Noir", "where is CAFE\u0301 NOIR?", ["CAFE\u0301 NOIR"]),
        ("محمد", "من هو مُحَمَّد؟", ["مُحَمَّد"]),
        ("İstanbul", "istanbul ve ISTANBUL", ["istanbul"]),
        ("한국", "한국은 어디?", ["한국"]),  # with a particle
        ("한국", "남한국은?", []),  # not at the beginning of the word
        ("서울", unicodedata.normalize("NFD", "서울 날씨"), [unicodedata.normalize("NFD", "서울")]),
        ("Liu Bei", "Liu\u200b Be\u00adi?", ["Liu\u200b Be\u00adi"]),
        ("नेहर", "नेहरू कौन थे?", []),  # the vowel sign belongs to the last letter
        ("नेहरू", "नेहरू कौन थे?", ["नेहरू"]),
    ],
)
def test_aliases_are_found_in_any_encoding_of_their_letters(alias, question, names):
    assert found(question, edits(**{alias: "entity"})) == names


def test_spans_are_those_of_the_question():
    question = "是ＬＩＵ Ｂｅｉ吗？"
    [mention] = with_alias_mentions(question, (), GLOSSARY)
    assert question[mention.start : mention.end] == mention.entity == "ＬＩＵ Ｂｅｉ"


def test_an_alias_in_a_script_without_spaces_is_found_within_a_sentence():
    glossary = edits(涅槃乐队="Nirvana", 涅槃="Nirvana (film)", 备="Liu Bei")
    assert found("涅槃乐队的鼓手是谁？准备好了吗？", glossary) == ["涅槃乐队"]


def test_an_extracted_name_that_contains_an_alias_stays_as_it_is():
    names = [Mention("John Smith", 8, 18, "PERSON")]
    assert found("Who was John Smith?", edits(Smith="Adam Smith"), names) == ["John Smith"]


def test_an_alias_replaces_the_parts_that_the_extractor_found_in_it():
    parts = [Mention("Emperor", 4, 11, NOUN), Mention("Southern Qi", 18, 29, "LOC")]
    glossary = edits(Emperor_Wu_of_Southern_Qi="齐武帝")
    assert found("Did Emperor Wu of Southern Qi rule?", glossary, parts) == [
        "Emperor Wu of Southern Qi"
    ]


def test_an_alias_that_was_extracted_is_not_added_again():
    names = (Mention("Liu Bei's", 0, 9, "PERSON"),)
    assert with_alias_mentions("Liu Bei's sons", names, GLOSSARY) == names


def test_without_aliases_the_mentions_are_returned():
    names = (Mention("Liu Bei", 0, 7, "PERSON"),)
    assert with_alias_mentions("Liu Bei", names, NO_EDITS) == names


@pytest.mark.parametrize(
    ("question", "translation"),
    [
        ("Who was Liu Bei's brother?", "Who was 刘备's brother?"),
        ("liu  bei和Guan Yu", "刘备和关羽"),
        ("Who was Uncle Liu?", "Who was 刘备?"),
        ("Who was Bob?", "Who was Bob?"),
        ("Liu Beijing", "Liu Beijing"),
        ("", ""),
    ],
)
def test_only_aliases_in_another_script_are_translated(question, translation):
    glossary = edits(Liu_Bei="刘备", Guan_Yu="关羽", Uncle_Liu="Liu Bei", Bob="Robert")
    assert translated(question, glossary) == translation


def test_the_longest_alias_is_translated():
    glossary = edits(涅槃乐队="Nirvana", 涅槃="Moksha")
    assert translated("涅槃乐队和涅槃", glossary) == "Nirvana和Moksha"


def test_an_alias_with_capitals_is_not_the_word_without_them():
    edits = EntityEdits((EntityEdit("separate", ("US", "us")), EntityEdit("alias", ("US", "美国"))))
    assert translated("Can you tell us about Liu?", edits) == "Can you tell us about Liu?"
    assert translated("Where is the US?", edits) == "Where is the 美国?"
    assert with_alias_mentions("Can you tell us?", (), edits) == ()
