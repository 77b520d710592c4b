"""Conditions on lists hold as in MongoDB: for the list or for any of its elements."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.filters.where import compile_where

TAGS = {"tags": ["Oslo", "Rome"], "years": [1890, 1920], "one": "Oslo"}


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ({"tags": "Oslo"}, True),
        ({"tags": "Riga"}, False),
        ({"tags": ["Oslo", "Rome"]}, True),
        ({"tags": ["Rome", "Oslo"]}, False),
        ({"tags": {"$in": ["Riga", "Rome"]}}, True),
        ({"tags": {"$nin": ["Riga", "Rome"]}}, False),
        ({"tags": {"$ne": "Oslo"}}, False),
        ({"tags": {"$ne": "Riga"}}, True),
        ({"years": {"$gt": 1900}}, True),
        ({"years": {"$gt": 2000}}, False),
        ({"tags": {"$all": ["Rome", "Oslo"]}}, True),
        ({"tags": {"$all": ["Rome", "Riga"]}}, False),
        ({"tags": {"$all": []}}, False),
        ({"one": {"$all": ["Oslo"]}}, True),
        ({"tags": {"$size": 2}}, True),
        ({"tags": {"$size": 1}}, False),
        ({"one": {"$size": 1}}, False),
        ({"$or": [{"tags": "Riga"}, {"tags": "Rome"}]}, True),
        ({"tags": {"$contains": "Oslo"}}, True),
        ({"tags": {"$contains": "Osl"}}, False),
        ({"tags": {"$contains": ["Riga", "Rome"]}}, True),
        ({"tags": {"$contains": []}}, False),
        ({"tags": {"$icontains": "oSLO"}}, True),
        ({"one": {"$contains": "sl"}}, True),
        ({"one": {"$contains": "SL"}}, False),
        ({"one": {"$contains": ["x", "Os"]}}, True),
        ({"one": {"$contains": 1}}, False),
        ({"one": {"$icontains": ["x", "SL"]}}, True),
        ({"years": {"$contains": 1890.0}}, True),
        ({"missing": {"$contains": "x"}}, False),
        ({"missing": {"$icontains": "x"}}, False),
        ({"missing": {"$empty": True}}, True),
        ({"tags": {"$empty": False}}, True),
        ({"tags": {"$empty": True}}, False),
        ({"$not": {"tags": "Oslo"}}, False),
        ({"missing": {"$ne": "Oslo"}}, True),
    ],
)
def test_a_condition_on_a_list(where, matches):
    assert compile_where(where)(TAGS) is matches


@pytest.mark.parametrize(
    "condition", [{"$all": "Oslo"}, {"$size": -1}, {"$size": True}, {"$icontains": 1}]
)
def test_a_wrong_operand_is_rejected(condition):
    with pytest.raises(InvalidInputError, match="needs a"):
        compile_where({"tags": condition})


@pytest.mark.parametrize("value", [None, "", []])
def test_empty_values(value):
    assert compile_where({"key": {"$empty": True}})({"key": value})
    assert not compile_where({"key": {"$empty": False}})({"key": value})


@pytest.mark.parametrize("value", [0, False, " ", [""], [None], {}])
def test_values_that_are_not_empty(value):
    assert not compile_where({"key": {"$empty": True}})({"key": value})


def test_the_operand_of_empty_is_true_or_false():
    with pytest.raises(InvalidInputError, match=r"\$empty needs True or False"):
        compile_where({"key": {"$empty": 1}})
