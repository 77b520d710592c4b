import numpy as np
import pytest

from e2graphrag_integrations.errors import FilterError
from e2graphrag_integrations.filters import allowed_nodes, compile_where
from e2graphrag_integrations.store.snapshot import Records

BOOK = {"document_id": "wells", "author": "Wells", "year": 1895, "read": True, "tags": ["a", "b"]}

DEEP: list = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"author": "Wells"},
        {"document_id": "wells"},
        {"year": 1895.0},
        {"year": {"$in": [1894, 1895]}},
        {"year": {"$in": (1895,)}},
        {"author": {"$in": {"Wells", "Verne"}}, "read": True},
        {"tags": ["a", "b"]},
        {"tags": ("a", "b")},
        {"year": {"$in": range(1890, 1900)}},
        {"year": np.int64(1895)},
        {"year": np.float32(1895)},
        {"read": np.True_},
        {"year": {"$in": [np.int64(1895)]}},
    ],
)
def test_a_record_passes_where_every_key_holds(where):
    assert compile_where(where)(BOOK)


@pytest.mark.parametrize(
    "where",
    [
        {"author": "wells"},
        {"author": "Wells", "year": 1900},
        {"year": "1895"},
        {"read": 1},
        {"read": {"$in": [1, "true"]}},
        {"missing": "x"},
        {"missing": None},
        {"author": {"$in": []}},
        {"tags": "a"},
        {"author": {}},
    ],
)
def test_a_record_fails_where_one_key_does_not_hold(where):
    assert not compile_where(where)(BOOK)


def test_null_and_objects_compare_as_json_does():
    record = {"a": None, "b": {"x": 1, "y": 2}}
    assert compile_where({"a": None, "b": {"y": 2, "x": 1}})(record)
    assert not compile_where({"b": {"x": 1}})(record)


def test_numbers_compare_by_value_at_any_depth():
    record = {"list": [1, 2.5], "map": {"x": 1.0}, "ones": [True]}
    assert compile_where({"list": [1.0, 2.5], "map": {"x": 1}})(record)
    assert not compile_where({"ones": [1]})(record)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("author", "must be a mapping .* not str"),
        ({1: "x"}, "key 1 is not a string"),
        ({"$or": []}, r"'\$or' is not supported"),
        ({"year": {"$gt": 1}}, r"where\['year'\]: only"),
        ({"year": {"$in": [1], "$nin": [2]}}, r"where\['year'\]: only"),
        ({"year": {"$in": "1895"}}, r"\$in needs a list"),
        ({"year": object()}, "is no JSON value"),
        ({"year": 10**5000}, "is no JSON value"),
        ({"year": {"$in": [10**5000]}}, "is no JSON value"),
        ({"year": DEEP}, "is no JSON value"),
        ({"year": {"$in": np.arange(3)}}, r"\$in needs a list"),
        ({"year": float("nan")}, "is no JSON value"),
        ({"year": {"$in": [float("inf")]}}, "is no JSON value"),
    ],
)
def test_a_filter_that_is_not_understood_is_refused(where, message):
    with pytest.raises(FilterError, match=message):
        compile_where(where)


def test_a_node_passes_only_if_all_its_records_do():
    values = [{"page": 1}, {"page": 2}]
    # Node 0 on page 1, node 1 on page 2, node 2 (their summary) on both, node 3 on none.
    records = Records(
        values,
        first=np.array([0, 1, 2, 4]),
        last=np.array([1, 2, 4, 4]),
        of_node=np.array([0, 1, 0, 1]),
    )
    assert allowed_nodes(records, compile_where({"page": 1})).tolist() == [True, False, False, True]
    both = compile_where({"page": {"$in": [1, 2]}})
    assert allowed_nodes(records, both).tolist() == [True] * 4
    neither = compile_where({"page": 3})
    assert allowed_nodes(records, neither).tolist() == [False, False, False, True]
