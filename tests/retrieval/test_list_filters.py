"""Conditions on lists hold as in MongoDB: for the list or for any of its elements."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.errors import FilterError
from e2graphrag_integrations.retrieval.filters import compile_where

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
        ({"$not": {"tags": "Oslo"}}, False),
        ({"missing": {"$ne": "Oslo"}}, True),
    ],
)
def test_a_condition_on_a_list(where, matches):
    assert compile_where(where)(TAGS) is matches


@pytest.mark.parametrize("condition", [{"$all": "Oslo"}, {"$size": -1}, {"$size": True}])
def test_a_wrong_operand_is_rejected(condition):
    with pytest.raises(FilterError, match="needs a"):
        compile_where({"tags": condition})
