"""Surnames, given names and forms of address in Chinese."""

from __future__ import annotations

import numpy as np
import pytest

from e2graphrag_integrations.entities.chinese.names import chinese_aliases
from e2graphrag_integrations.entities.matching.aliases import Alias, Aliases
from e2graphrag_integrations.entities.matching.linking import link
from e2graphrag_integrations.entities.normalize import without_honorifics
from e2graphrag_integrations.types import Mention


def aliases(doc_freq):
    freq = np.asarray(list(doc_freq.values()), dtype=np.int64)
    return Aliases(list(doc_freq), np.ones(len(freq), dtype=bool), freq)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("曹操", ["曹"]),
        ("王浩然", ["王", "浩然"]),
        ("诸葛亮", ["诸葛"]),
        ("欧阳娜娜", ["欧阳", "娜娜"]),
        ("巴拉克·奥巴马", ["奥巴马"]),
        ("黄河", []),  # a place
        ("玄德", []),  # a courtesy name
        ("北京大学", []),
    ],
)
def test_surname_given_name_and_last_part_are_aliases(name, expected):
    assert list(chinese_aliases(name)) == expected


@pytest.mark.parametrize(
    ("form", "rest"),
    [("李先生", "李"), ("奥巴马总统", "奥巴马"), ("先生", "先生"), ("大将军何进", "大将军何进")],
)
def test_forms_of_address_follow_the_name(form, rest):
    assert without_honorifics(form) == rest


def test_a_question_about_a_surname_links_to_the_most_frequent_person():
    names = {"李明": 3, "李芳": 1, "王芳": 9}
    [found] = link(
        [Mention("李先生", 0, 3, "PERSON")], dict.fromkeys(names, 0), aliases(names)
    ).links
    assert (found.entity, found.how, found.score) == ("李明", "alias", 0.75)


def test_courtesy_names_are_not_inferred():
    names = {"刘备": 5, "玄德": 7}
    found = link([Mention("玄德", 0, 2, "PERSON")], dict.fromkeys(names, 0), aliases(names)).links
    assert [one.entity for one in found] == ["玄德"]


def test_a_name_with_one_other_character_is_another_name():
    names = {"北京市东城区人民政府办公室": 1}
    assert aliases(names).find("北京市西城区人民政府办公室") is None
    assert aliases({"巴拉克·奥巴马": 2}).find("奥巴马") == Alias("巴拉克·奥巴马", "alias", 1.0)


def test_a_traditional_name_finds_the_simplified_entity():
    names = aliases({"诸葛亮": 2, "王浩然": 1})
    assert names.find("諸葛亮") == Alias("诸葛亮", "alias", 1.0)
    assert names.find("諸葛亮", frozenset({"诸葛亮"})) is None
    assert names.find("諸葛") == Alias("诸葛亮", "alias", 1.0)
