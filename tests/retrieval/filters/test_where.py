"""The metadata filter `where`: its language, and its effect on nodes."""

import datetime as dt
import decimal
import enum
import itertools
import json
import operator
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import HybridStrategy, PaperStrategy, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.pages import with_pages_of
from e2graphrag_integrations.retrieval.filters import where as filters
from e2graphrag_integrations.retrieval.filters.where import allowed_nodes, compile_where
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.types import Mention
from fakes import STORY, LineCounter
from strategies import examples, quick

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

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
def test_a_record_passes_if_every_condition_holds(where):
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
        {"tags": "missing"},
        {"author": {}},
    ],
)
def test_a_record_fails_if_one_condition_does_not_hold(where):
    assert not compile_where(where)(BOOK)


def test_null_and_objects_compare_as_json_values():
    record = {"a": None, "b": {"x": 1, "y": 2}}
    assert compile_where({"a": None, "b": {"y": 2, "x": 1}})(record)
    assert not compile_where({"b": {"x": 1}})(record)


def test_numbers_compare_by_value_at_any_depth():
    record = {"list": [1, 2.5], "map": {"x": 1.0}, "ones": [True]}
    assert compile_where({"list": [1.0, 2.5], "map": {"x": 1}})(record)
    assert not compile_where({"ones": [1]})(record)


RANGES = ("$gt", "$gte", "$lt", "$lte")


def holds(where, record=BOOK):
    return compile_where(where)(record)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"$eq": 1895}, True),
        ({"$eq": 1895.0}, True),
        ({"$eq": np.int64(1895)}, True),
        ({"$eq": "1895"}, False),
        ({"$ne": 1895}, False),
        ({"$ne": "1895"}, True),
        ({"$gt": 1894}, True),
        ({"$gt": 1895}, False),
        ({"$gte": 1895}, True),
        ({"$gte": 1895.5}, False),
        ({"$lt": 1896}, True),
        ({"$lt": 1895}, False),
        ({"$lte": 1895}, True),
        ({"$lte": np.float32(1894.5)}, False),
        ({"$in": [1, 1895]}, True),
        ({"$in": ["1895", True]}, False),
        ({"$nin": [1895, 1]}, False),
        ({"$nin": ["1895", True]}, True),
        ({"$nin": []}, True),
        ({"$exists": True}, True),
        ({"$exists": False}, False),
        ({"$exists": np.False_}, False),
        ({"$gte": 1890, "$lt": 1900}, True),
        ({"$gte": 1890, "$lt": 1895}, False),
        ({"$gte": 1890, "$lt": 1900, "$nin": [1895]}, False),
    ],
)
def test_all_operators_of_a_key_must_hold(condition, expected):
    assert holds({"year": condition}) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"$eq": None}, False),
        ({"$in": [None, "x"]}, False),
        ({"$gt": 0}, False),
        ({"$gte": ""}, False),
        ({"$lt": 10**30}, False),
        ({"$lte": "\U0010ffff"}, False),
        ({"$exists": True}, False),
        ({"$exists": False}, True),
        ({"$ne": None}, True),
        ({"$ne": 1}, True),
        ({"$nin": [None, 1]}, True),
        ({"$nin": []}, True),
    ],
)
def test_a_missing_key_passes_only_the_negations(condition, expected):
    assert holds({"missing": condition}) is expected


def test_a_null_value_exists_but_is_outside_every_range():
    assert holds({"a": {"$exists": True, "$eq": None, "$in": [None]}}, {"a": None})
    assert not any(holds({"a": {op: 0}}, {"a": None}) for op in RANGES)


@pytest.mark.parametrize("own", [True, False, None, "5", ["5"], [], {"x": 5}, {}])
def test_a_numeric_range_rejects_other_types(own):
    assert not any(holds({"a": {op: bound}}, {"a": own}) for op in RANGES for bound in (5, -1, 0.5))


@pytest.mark.parametrize("own", [True, 5, 0, 1.5, None, [5], {"b": "b"}])
def test_a_string_range_rejects_other_types(own):
    assert not any(holds({"a": {op: bound}}, {"a": own}) for op in RANGES for bound in ("", "b"))


def test_integers_and_floats_of_any_size_compare():
    assert holds({"a": {"$gt": 1.5}}, {"a": 2})
    assert holds({"a": {"$lt": 2}}, {"a": 1.5})
    assert holds({"a": {"$gt": 1.7e308}}, {"a": 10**400})
    assert holds({"a": {"$gt": 2**53}}, {"a": 2**53 + 1})
    assert not holds({"a": {"$gt": 2.0**53 + 2}}, {"a": 2**53 + 1})


def test_strings_compare_by_code_point():
    dates = {"date": {"$gte": "1895-05-01", "$lt": "1895-06"}}
    assert holds(dates, {"date": "1895-05-31T23:59:59"})
    assert not holds(dates, {"date": "1895-06-01"})
    assert not holds(dates, {"date": "1895-04-30"})
    assert holds({"a": {"$lt": "a"}}, {"a": "Z"})
    assert holds({"a": {"$gt": "\uffff"}}, {"a": "\U0001f600"})  # not so in UTF-16


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"$and": []}, True),
        ({"$or": []}, False),
        ({"$not": {}}, False),
        ({"$and": [{}]}, True),
        ({"$or": [{}]}, True),
        ({"$and": [{"year": 1895}, {"author": "Wells"}]}, True),
        ({"$and": [{"year": 1895}, {"author": "Verne"}]}, False),
        ({"$or": [{"year": 1}, {"author": "Wells"}]}, True),
        ({"$or": ({"year": 1}, {"author": "Verne"})}, False),
        ({"$or": [{"year": 1895, "author": "Verne"}]}, False),
        ({"$not": {"author": "Verne"}}, True),
        ({"$not": {"year": 1895, "author": "Verne"}}, True),
        ({"$not": {"year": 1895, "author": "Wells"}}, False),
        ({"$not": {"missing": {"$gt": 1}}}, True),
        ({"author": "Wells", "$or": [{"year": 1}, {"read": True}]}, True),
        ({"author": "Verne", "$or": [{"year": 1}, {"read": True}]}, False),
        ({"$or": [{"year": 1895}], "$and": [{"read": True}], "$not": {"read": False}}, True),
        ({"$or": [{"year": 1895}], "$and": [{"read": True}], "$not": {"read": True}}, False),
        ({"$not": {"$or": [{"$and": [{"year": 1895}, {"$not": {"read": True}}]}]}}, True),
    ],
)
def test_logical_operators_combine_with_keys_and_nest(where, expected):
    assert holds(where) is expected


def test_eq_matches_an_object_whose_keys_look_like_operators():
    record = {"price": {"$gt": 5}}
    assert holds({"price": {"$eq": {"$gt": 5}}}, record)
    assert holds({"price": {"$in": [{"$gt": 5}]}}, record)
    assert not holds({"price": {"$gt": 5}}, record)


def test_changing_a_filter_after_compilation_has_no_effect():
    years = [1895]
    where = {"$or": [{"year": {"$in": years}}]}
    test = compile_where(where)
    years[0] = 1
    where["$or"].clear()
    assert test(BOOK)


def nested(depth, name="$not"):
    where = {"year": 1895}
    for _ in range(depth):
        where = {name: where if name == "$not" else [where]}
    return where


@pytest.mark.parametrize("name", ["$not", "$and", "$or"])
def test_filters_nest_at_most_fifty_deep(name):
    assert holds(nested(50, name))
    for depth in (51, 100_000):
        with pytest.raises(InvalidInputError, match="nested more than 50 deep: flatten it"):
            compile_where(nested(depth, name))


def test_a_filter_that_contains_itself_is_rejected():
    for name in ("$and", "$or"):
        circle = {}
        circle[name] = [circle, circle]
        with pytest.raises(InvalidInputError, match="nested more than 50 deep"):
            compile_where(circle)
    circle = {}
    circle["$not"] = circle
    with pytest.raises(InvalidInputError, match="nested more than 50 deep"):
        compile_where(circle)
    values = []
    values.append(values)
    for condition in (values, {"$eq": values}, {"$in": values}, {"$nin": [values]}):
        with pytest.raises(InvalidInputError, match=r"where\['year'\].* is not a JSON value"):
            compile_where({"year": condition})


class Hostile(dict):
    """A mapping that raises when read."""

    def items(self):
        raise OSError("no items")

    def __iter__(self):
        raise OSError("no keys")


class Unprintable:
    def __repr__(self):
        raise OSError("no repr")


class Nameless:
    @property
    def __class__(self):
        raise OSError("no class")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("author", "must be a mapping .* not str"),
        (None, "must be a mapping .* not NoneType"),
        ([{"a": 1}], "must be a mapping .* not list"),
        ({1: "x"}, "key 1 must be a string"),
        ({b"a": "x"}, "key b'a' must be a string"),
        ({("a", "b"): "x"}, "must be a string"),
        (
            {"$gt": 1},
            r"where: '\$gt' is not a logical operator: use \$and, \$or or \$not here, or ",
        ),
        ({"$nor": []}, r"'\$nor' is not a logical operator: .* \$eq, \$ne, \$gt, .* \$exists"),
        ({"$": []}, "is not a logical operator"),
        ({"$and": {"a": 1}}, r"where\['\$and'\] needs a list of filters, not {'a': 1}"),
        ({"$or": "a"}, r"where\['\$or'\] needs a list of filters, not 'a'"),
        ({"$or": None}, r"where\['\$or'\] needs a list"),
        ({"$or": {"a", "b"}}, r"where\['\$or'\] needs a list"),
        ({"$or": [{}, 5]}, r"where\['\$or'\]\[1\] must be a mapping of metadata keys, not int"),
        ({"$or": [len]}, r"where\['\$or'\]\[0\] must be a mapping"),
        ({"$not": []}, r"where\['\$not'\] must be a mapping of metadata keys, not list"),
        ({"$not": {2: 3}}, r"where\['\$not'\]: key 2 must be a string"),
        (
            {"$or": [{}, {"$not": {"year": {"$gt": None}}}]},
            r"where\['\$or'\]\[1\]\['\$not'\]\['year'\]: \$gt needs a finite number",
        ),
        (
            {"year": {"$like": 1}},
            r"where\['year'\]: '\$like' is not an operator: use \$eq, .* \$nin",
        ),
        ({"year": {"$gt": 1, "x": 2}}, r"where\['year'\]: 'x' is not an operator"),
        ({"year": {"$gt": 1, 5: 2}}, r"where\['year'\]: 5 is not an operator"),
        ({"year": {"$not": {"$gt": 1}}}, r"where\['year'\]: \$not combines filters"),
        ({"year": {"$or": [1, 2]}}, r"where\['year'\]: \$or combines filters"),
        ({"year": {"$in": "1895"}}, r"where\['year'\]: \$in needs a list, not '1895'"),
        ({"year": {"$nin": 1895}}, r"where\['year'\]: \$nin needs a list, not 1895"),
        ({"year": {"$in": np.arange(3)}}, r"\$in needs a list"),
        ({"year": {"$in": (n for n in (1, 2))}}, r"\$in needs a list"),
        ({"year": {"$in": range(10**8)}}, r"\$in takes up to .* values: use \$gte"),
        ({"year": {"$in": range(10**30)}}, r"\$in takes up to"),
        ({"year": {"$exists": 1}}, r"where\['year'\]: \$exists needs True or False, not 1"),
        ({"year": {"$exists": None}}, r"\$exists needs True or False"),
        ({"year": object()}, "is not a JSON value"),
        ({"year": b"1895"}, r"where\['year'\]: b'1895' is not a JSON value: use str, int"),
        ({"year": 10**5000}, "is not a JSON value"),
        ({"year": {"$eq": 10**5000}}, "is not a JSON value"),
        ({"year": {"$in": [10**5000]}}, "is not a JSON value"),
        ({"year": DEEP}, "is not a JSON value"),
        ({"year": {"$ne": DEEP}}, "is not a JSON value"),
        ({"year": float("nan")}, "is not a JSON value"),
        ({"year": {"$in": [float("inf")]}}, "is not a JSON value"),
        ({"year": {"$ne": {1, 2}}}, r"where\['year'\]: \$ne: {1, 2} is not a JSON value"),
        ({"year": np.datetime64("1895-05-01")}, "is not a JSON value"),
        ({"k" * 10_000: {"$gt": None}}, r"where\['k{79}\.\.\.\]: \$gt needs"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_an_invalid_filter_is_rejected_with_its_path(where, message):
    with pytest.raises(InvalidInputError, match=message):
        compile_where(where)


def test_an_object_that_raises_when_read_gives_a_filter_error():
    at_key = r"where\['year'\] could not be read: OSError"
    for where, message in (
        (Hostile(a=1), "where could not be read: OSError: no items"),
        (Nameless(), "where could not be read: OSError: no class"),
        ({"year": Hostile(a=1)}, f"{at_key}: no keys"),
        ({"year": Unprintable()}, r"where\['year'\]: \(Unprintable, cannot be printed\) is not"),
        ({"year": {"$gt": Unprintable()}}, r"\$gt needs .*\(Unprintable, cannot be printed\)"),
        ({"year": Nameless()}, f"{at_key}: no class"),
        ({"$and": [{"year": Nameless()}]}, r"where\['\$and'\]\[0\]\['year'\] could not be read"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            compile_where(where)


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize(
    "bound",
    [
        float("nan"),
        float("inf"),
        -np.float64("inf"),
        True,
        np.False_,
        None,
        [1],
        {"x": 1},
        b"1",
        10**5000,
        1j,
        decimal.Decimal(1),
        dt.date(1895, 5, 1),
        np.datetime64("1895-05-01"),
        np.arange(2),
        np.longdouble(1),
        DEEP,
        object(),
    ],
    ids=lambda bound: type(bound).__name__,
)
def test_a_bound_that_is_not_a_finite_number_or_string_is_rejected(name, bound):
    message = rf"where\['year'\]: \{name} needs a finite number or a string .*, not "
    with pytest.raises(InvalidInputError, match=message):
        compile_where({"year": {name: bound}})


def test_an_async_function_is_rejected_because_its_result_is_always_true(open_index):
    async def nothing(metadata):
        return False

    rag = open_index()
    rag.add(SourceDocument("d", "Anna sat here."))
    with pytest.raises(InvalidInputError, match="the function is async"):
        rag.retrieve("Anna", where=nothing)


def test_a_node_passes_only_if_all_its_records_pass():
    values = [{"author": 1}, {"author": 2}]
    # Node 0 is by author 1, node 1 by author 2, their summary node 2 by both, node 3 by neither.
    records = MetadataRecords(
        values,
        starts=np.array([0, 1, 2, 4]),
        ends=np.array([1, 2, 4, 4]),
        indices=np.array([0, 1, 0, 1]),
    )
    first = compile_where({"author": 1})
    assert allowed_nodes(records, first).tolist() == [True, False, False, True]
    both = compile_where({"author": {"$in": [1, 2]}})
    assert allowed_nodes(records, both).tolist() == [True] * 4
    neither = compile_where({"author": 3})
    assert allowed_nodes(records, neither).tolist() == [False, False, False, True]


def test_metadata_values_that_are_not_json_are_tested_unchanged():
    day = dt.date(1895, 5, 7)
    values = [{"at": day}, {"at": {1, 2}}, {}, {"at": 3}]
    bounds = np.arange(5)
    records = MetadataRecords(values, starts=bounds[:-1], ends=bounds[1:], indices=bounds[:-1])
    has_at = compile_where({"at": {"$exists": True}})
    assert allowed_nodes(records, has_at).tolist() == [True, True, False, True]
    assert allowed_nodes(records, compile_where({"at": {"$gt": 2}})).tolist() == [False] * 3 + [
        True
    ]


def test_each_distinct_value_is_tested_once(monkeypatch):
    tested, real = [], filters.ordered_kind
    monkeypatch.setattr(filters, "ordered_kind", lambda value: tested.append(value) or real(value))
    bounds = np.arange(101)
    values = [{"year": 1890 + n % 3} for n in range(100)]
    records = MetadataRecords(values, starts=bounds[:-1], ends=bounds[1:], indices=bounds[:-1])
    after = compile_where({"year": {"$gt": 1891}})
    tested.clear()
    assert allowed_nodes(records, after).sum() == 33
    assert sorted(tested) == [1890, 1891, 1892]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"n": {"$gte": 2}}, [False, True, False, False]),
        ({"n": {"$gte": 1, "$lt": 3}}, [True, True, True, False]),
        ({"$not": {"n": 1}}, [False, True, False, True]),
        ({"$not": {"n": {"$gt": 0}}}, [False, False, False, True]),
        ({"n": {"$ne": 1}}, [False, True, False, True]),
        ({"n": {"$nin": [1, 2]}}, [False, False, False, True]),
        ({"n": {"$exists": False}}, [False, False, False, True]),
        ({"$or": [{"n": 1}, {"n": 2}]}, [True, True, True, False]),
        ({"$not": {"$or": [{"n": 1}, {"n": 2}]}}, [False, False, False, True]),
    ],
)
def test_a_filter_applies_to_each_record_of_a_node(where, expected):
    """A summary of chapters 1 and 2 passes neither `n: 1` nor its negation."""
    records = MetadataRecords(
        [{"n": 1}, {"n": 2}, {}],
        starts=np.array([0, 1, 2, 4]),
        ends=np.array([1, 2, 4, 5]),
        indices=np.array([0, 1, 0, 1, 2]),
    )
    assert allowed_nodes(records, compile_where(where)).tolist() == expected


# Nodes: 0 and 1 touch one page each, 2 touches both, 3 touches a page of another tenant as well.
PAGES = MetadataRecords(
    [
        {"tenant": "a", "page": 1, "line": 1},
        {"tenant": "a", "page": 2, "page_label": "ii", "line": 2},
        {"tenant": "b", "page": 2, "page_label": "ii", "line": 3},
    ],
    starts=np.array([0, 1, 2, 4]),
    ends=np.array([1, 2, 4, 6]),
    indices=np.array([0, 1, 0, 1, 0, 2]),
)


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"page": 1}, [0, 2, 3]),
        ({"page": 2}, [1, 2, 3]),
        ({"page": 3}, []),
        ({"page": {"$ne": 1}}, [1, 2, 3]),
        ({"$not": {"page": 1}}, [1, 2, 3]),
        ({"page": {"$gt": 1}}, [1, 2, 3]),
        ({"page_label": {"$exists": False}}, [0, 2, 3]),
        ({"page": 1, "page_label": "ii"}, []),
        ({"page": 2, "page_label": "ii"}, [1, 2, 3]),
        ({"page": 1, "tenant": "a"}, [0, 2]),
        ({"page": 2, "tenant": "a"}, [1, 2]),
        ({"page": 2, "tenant": "b"}, []),
        ({"$and": [{"page": 2}, {"$not": {"tenant": "b"}}]}, [1, 2]),
        ({"$or": [{"page": 3}, {"tenant": "a"}]}, [0, 1, 2]),
        ({"$or": [{"page": 2}, {"tenant": "b"}]}, [1, 2, 3]),
        ({"$or": [{"page": 1, "line": 1}, {"page": 2, "line": 3}]}, [0, 3]),
        ({"$not": {"page": 2, "tenant": "b"}}, [0, 1, 2, 3]),
        ({"$not": {"$or": [{"page": 2}, {"tenant": "b"}]}}, [0, 2]),
        ({"line": 1}, [0]),
    ],
)
def test_page_conditions_match_any_page_and_all_others_every_record(where, expected, as_function):
    predicate = compile_where(where)
    function = predicate.__call__ if as_function else predicate
    assert np.flatnonzero(allowed_nodes(PAGES, function)).tolist() == expected


def test_a_filter_on_pages_tests_each_record_of_a_large_node_a_few_times():
    values = [{"page": page, "id": page} for page in range(500)]
    row, calls = np.arange(500), []
    records = MetadataRecords(values, np.array([0]), np.array([500]), row)

    def last_page(metadata):
        calls.append(metadata)
        return metadata["page"] == 499

    assert allowed_nodes(records, last_page).tolist() == [True]
    assert len(calls) <= 1500


# Random filters and records over few keys and values, so that they often match.

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 0.5, -1.5, 1e16, 10**16, 2**53 + 1, 1e300, "1", "true"]),
    st.text("ab\uffff\U0001f600", max_size=2),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner),
    max_leaves=4,
)
_user_keys = st.sampled_from(["a", "b", "%", "a.b", "", "page", "page_label"])
_ids = st.fixed_dictionaries({}, optional={"document_id": st.sampled_from(["1", "a", "ab"])})
_keys = _user_keys | st.just("document_id")
_records = st.builds(operator.or_, st.dictionaries(_user_keys, _values, max_size=5), _ids)
_bounds = _scalars.filter(lambda value: value is not None and not isinstance(value, bool))
_operators = st.fixed_dictionaries(
    {},
    optional={
        "$eq": _values,
        "$ne": _values,
        "$in": st.lists(_values, max_size=3),
        "$nin": st.lists(_values, max_size=3),
        "$exists": st.booleans(),
    }
    | dict.fromkeys(RANGES, _bounds),
)
_filters = st.recursive(
    st.dictionaries(_keys, _values | _operators, max_size=2),
    lambda inner: st.tuples(
        st.dictionaries(_keys, _values | _operators, max_size=1),
        st.fixed_dictionaries(
            {},
            optional={
                "$and": st.lists(inner, max_size=3),
                "$or": st.lists(inner, max_size=3),
                "$not": inner,
            },
        ),
    ).map(lambda parts: parts[0] | parts[1]),
    max_leaves=6,
)


def same(a, b):
    """Return whether two values are equal as JSON values."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(*pair) for pair in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


def compares(name, own, bound):
    numbers = all(type(value) in (int, float) for value in (own, bound))
    texts = all(type(value) is str for value in (own, bound))
    compare = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
    return (numbers or texts) and compare[name](own, bound)


def reference_for_key(record, key, name, value):
    has_key = key in record
    if name == "$exists":
        return has_key == value
    if name in ("$ne", "$nin"):
        return not reference_for_key(record, key, {"$ne": "$eq", "$nin": "$in"}[name], value)
    own = record.get(key)
    candidates = [own, *own] if isinstance(own, list | tuple) else [own]
    if name in RANGES:
        return has_key and any(compares(name, one, value) for one in candidates)
    wanted = value if name == "$in" else [value]
    return has_key and any(same(a, b) for a in candidates for b in wanted)


def reference(where, record):
    """Return whether a record passes a filter, written without the compiler."""
    for key, condition in where.items():
        if key == "$and":
            passes = all(reference(one, record) for one in condition)
        elif key == "$or":
            passes = any(reference(one, record) for one in condition)
        elif key == "$not":
            passes = not reference(condition, record)
        elif isinstance(condition, dict) and any(name[:1] == "$" for name in condition):
            passes = all(reference_for_key(record, key, *pair) for pair in condition.items())
        else:
            passes = reference_for_key(record, key, "$eq", condition)
        if not passes:
            return False
    return True


@quick
@given(_filters, st.lists(_records, min_size=1, max_size=6))
def test_random_filters_agree_with_the_reference(where, records):
    test = compile_where(where)
    assert [test(record) for record in records] == [reference(where, record) for record in records]


@quick
@given(_keys, _values, st.sampled_from([*RANGES, "$eq", "$ne", "$in", "$nin"]), _values, _bounds)
def test_random_operators_agree_with_the_reference(key, own, name, value, bound):
    operand = bound if name in RANGES else [value, bound] if "in" in name else value
    for record in ({key: own}, {key: operand}, {}):
        assert holds({key: {name: operand}}, record) == reference_for_key(
            record, key, name, operand
        )


@quick
@given(_filters, st.lists(_records, min_size=1, max_size=4), st.data())
def test_random_node_masks_agree_with_the_reference(where, values, data):
    rows = st.lists(st.integers(0, len(values) - 1), max_size=4)
    nodes = data.draw(st.lists(rows, min_size=1, max_size=5))
    ends = np.cumsum([len(node) for node in nodes])
    records = MetadataRecords(
        values,
        starts=ends - [len(node) for node in nodes],
        ends=ends,
        indices=np.array([row for node in nodes for row in node], dtype=np.int64),
    )
    expected = [
        all(
            any(reference(where, with_pages_of(values[row], values[page])) for page in node)
            for row in node
        )
        for node in nodes
    ]
    assert allowed_nodes(records, compile_where(where)).tolist() == expected


@quick
@given(_filters, _filters, _records)
def test_negation_follows_the_laws_of_logic(one, other, record):
    """Double negation is identity, De Morgan holds, and keys of one mapping are an `$and`."""
    assert holds({"$not": {"$not": one}}, record) == holds(one, record)
    neither = [{"$not": one}, {"$not": other}]
    both, either = {"$and": [one, other]}, {"$or": [one, other]}
    assert holds({"$not": both}, record) == holds({"$or": neither}, record)
    assert holds({"$not": either}, record) == holds({"$and": neither}, record)
    split = {"$and": [{key: condition} for key, condition in one.items()]}
    assert holds(split, record) == holds(one, record)


def one_record_per_node(values):
    bounds = np.arange(len(values) + 1)
    return MetadataRecords(values, starts=bounds[:-1], ends=bounds[1:], indices=bounds[:-1])


@pytest.mark.parametrize(
    "double",
    [
        lambda part: {"$or": [part, part]},
        lambda part: {"$and": [{"$or": [part]}, part]},
        lambda part: {"$and": [part], "$not": {"$not": part}},
        lambda part: {"$or": [part, {"$and": [part, part]}]},
    ],
)
def test_a_part_that_occurs_several_times_is_evaluated_once(monkeypatch, double):
    tested, real = [], filters.ordered_kind
    monkeypatch.setattr(filters, "ordered_kind", lambda value: tested.append(value) or real(value))
    where = {"year": {"$gt": 1891}, "page": {"$exists": False}}
    for _ in range(25):
        where = double(where)
    predicate = compile_where(where)
    tested.clear()
    records = one_record_per_node([{"year": 1890 + n} for n in range(4)])
    assert allowed_nodes(records, predicate).tolist() == [False, False, True, True]
    assert tested == [1890, 1891, 1892, 1893]
    assert predicate({"year": 1892})
    assert not predicate({"year": 1890})
    assert len(tested) == 6


def test_the_depth_limit_includes_parts_that_were_compiled_before():
    part = nested(30)
    assert holds({"$and": [part, nested(20, "$and")]})
    assert holds({"$and": [part, _wrapped(part, 19)]})
    with pytest.raises(InvalidInputError, match="nested more than 50 deep"):
        compile_where({"$and": [part, _wrapped(part, 20)]})


def _wrapped(where, depth):
    for _ in range(depth):
        where = {"$and": [where]}
    return where


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "filter_of",
    [
        lambda n: {f"key {i}": i for i in range(n)},
        lambda n: {"$or": [{"year": {"$gt": i}} for i in range(n - 1)]},
        lambda n: {"$and": [{} for _ in range(n - 1)]},
        lambda n: {"$or": [{"year": 1895}] * (n - 1)},
        lambda n: {"$not": {"$and": [{"year": 0, "read": i} for i in range(n // 2 - 1)]}},
        lambda n: {"a": {"$contains": [str(i) for i in range(n - 1)]}},
        lambda n: {"a": {"$icontains": [str(i) for i in range(n - 1)]}},
        lambda n: {"a": {"$all": list(range(n - 1))}},
    ],
)
def test_a_filter_has_at_most_ten_thousand_conditions(filter_of):
    compile_where(filter_of(10_000))
    with pytest.raises(InvalidInputError, match="more than 10,000 conditions: use \\$in"):
        compile_where(filter_of(10_002))


def test_a_mapping_that_creates_its_parts_when_read_is_compiled_correctly():
    class Fresh(Mapping):
        """A mapping whose parts exist only while they are compiled."""

        def __len__(self):
            return 1

        def __iter__(self):
            return iter(["$or"])

        def __getitem__(self, key):
            return [Years(range(1800, 1896))]

    class Years(Fresh):
        def __init__(self, years):
            self.years = years

        def __iter__(self):
            return iter(["$and", "$or"])

        def __getitem__(self, key):
            return [One(year) for year in self.years] if key == "$or" else []

    class One(Fresh):
        def __init__(self, year):
            self.year = year

        def __getitem__(self, key):
            return [{"year": self.year}, {"year": {"$gt": 3000}}]

    assert holds(Fresh())
    assert not holds(Fresh(), {"year": 1896})


def test_values_of_in_are_compared_by_type():
    class Color(str, enum.Enum):  # noqa: UP042 - unlike StrEnum, str() gives the name
        RED = "red"

    own = ["1", 1, True, 1.5, 1e22, 0, None, '"1', "red", "true", "null", [7], "[7]", {"a": 1}]
    for n, value in enumerate(own):
        found = [holds({"a": {"$in": [value, "other"]}}, {"a": one}) for one in own]
        assert found == [i == n for i in range(len(own))]
    for same in (
        (1, 1.0, np.int8(1), np.float32(1), np.longlong(1)),
        (0, -0.0, 0.0),
        (10**22, 1e22),
        ("red", Color.RED, np.str_("red")),
        (1.5, np.float64(1.5)),
        ([1], [1.0], (1,)),
    ):
        for one, other in itertools.product(same, same):
            assert holds({"a": {"$in": [one]}}, {"a": other})
            assert holds({"a": one}, {"a": other})


def test_strings_and_numbers_of_in_are_not_encoded(monkeypatch):
    monkeypatch.setattr(filters, "_canonical", None)
    many = [f"d{n}" for n in range(50)] + list(range(50)) + [n + 0.5 for n in range(50)]
    assert holds({"a": {"$in": many}, "b": {"$nin": many}}, {"a": "d7", "b": 50})
    assert holds({"a": {"$in": many}}, {"a": 7.5})


def test_a_list_of_in_is_bounded(monkeypatch):
    monkeypatch.setattr(filters, "MAX_COUNT", 3)
    assert holds({"year": {"$in": [1, 2, 1895]}})
    for values in ([1, 2, 3, 1895], {1, 2, 3, 4}, range(4)):
        with pytest.raises(InvalidInputError, match=r"\$in takes up to 3 values"):
            compile_where({"year": {"$in": values}})


def test_equalities_in_an_or_become_one_lookup(monkeypatch):
    where = {"$or": [{"year": n} for n in range(900)] + [{"year": {"$eq": "x"}}, {"read": True}]}
    predicate = compile_where(where)
    looked_up, real = [], filters._equality_key
    monkeypatch.setattr(
        filters, "_equality_key", lambda value: looked_up.append(value) or real(value)
    )
    records = one_record_per_node([{"year": 899}, {"year": 900}, {"year": "x"}, {"read": True}])
    assert allowed_nodes(records, predicate).tolist() == [True, False, True, True]
    assert len(looked_up) == 4


_steps = st.lists(
    st.tuples(st.sampled_from(["$and", "$or", "$not"]), st.integers(0, 9), st.integers(0, 9)),
    max_size=7,
)


@quick
@given(st.lists(_filters, min_size=1, max_size=3), _steps, st.lists(_records, max_size=4))
def test_shared_parts_give_the_same_results_as_copies(parts, steps, values):
    for name, one, other in steps:
        first, second = parts[one % len(parts)], parts[other % len(parts)]
        parts.append({"$not": first} if name == "$not" else {name: [first, second]})
    shared = compile_where(parts[-1])
    copies = compile_where(json.loads(json.dumps(parts[-1])))
    expected = [copies(value) for value in values]
    assert [shared(value) for value in values] == expected
    assert allowed_nodes(one_record_per_node(values), shared).tolist() == expected


@quick
@given(_keys, _values, _records)
def test_ne_and_nin_negate_eq_and_in(key, value, record):
    assert holds({key: {"$ne": value}}, record) != holds({key: {"$eq": value}}, record)
    assert holds({key: {"$nin": [value]}}, record) != holds({key: {"$in": [value]}}, record)
    assert holds({key: {"$eq": value}}, record) == holds({"$not": {key: {"$ne": value}}}, record)


WEIRD = [
    object(),
    object,
    b"x",
    bytearray(b"x"),
    "\ud800",
    "$gt",
    float("nan"),
    float("-inf"),
    1j,
    10**5000,
    -(10**400),
    decimal.Decimal("NaN"),
    dt.datetime(1895, 5, 1, tzinfo=dt.UTC),
    np.float64("nan"),
    np.int8(3),
    np.bool_(1),
    np.str_("a"),
    np.bytes_(b"a"),
    np.longdouble(1),
    np.datetime64("NaT"),
    np.void(b"a"),
    np.arange(4).reshape(2, 2),
    np.array(1),
    range(3),
    range(10**30),
    frozenset({1, "a"}),
    {1, 2},
    iter([]),
    len,
    DEEP,
    nested(60),
    Hostile(a=1),
    Unprintable(),
    Nameless(),
    NotImplemented,
    ...,
]
_weird = st.integers(0, len(WEIRD) - 1).map(
    lambda n: WEIRD[n]
)  # not st.sampled_from(WEIRD): some objects have no repr
_hashable = st.sampled_from(
    [1, None, b"a", 2.5, True, (1,), frozenset(), np.int64(1), "\ud800", ""]
)
_names = st.sampled_from(
    "$and $or $not $eq $ne $gt $gte $lt $lte $in $nin $exists $nor $ $where a b %".split()
)
_anything = st.recursive(
    _weird | _values,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(_names | _hashable, inner, max_size=3),
    ),
    max_leaves=4,
)
_known = st.sampled_from([*RANGES, "$eq", "$ne", "$in", "$nin", "$exists"])
_nearly_filters = st.recursive(
    st.dictionaries(_keys, st.dictionaries(_known, _anything, max_size=2) | _anything, max_size=2),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$and": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"$or": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"$not": inner | _anything}),
    ),
    max_leaves=4,
)


@examples(300)
@given(_nearly_filters | _anything.filter(lambda where: not callable(where)), _records)
def test_any_object_compiles_or_gives_a_filter_error(where, record):
    try:
        test = compile_where(where)
    except InvalidInputError as error:
        assert str(error).startswith("where")  # noqa: PT017 - it may be understood
        str(error).encode()
    else:
        assert test(record) in (True, False)


# Both strategies over an index.

both_strategies = pytest.mark.parametrize(
    "strategy", [HybridStrategy(), PaperStrategy()], ids=["hybrid", "paper"]
)


@pytest.fixture
def letters(open_index):
    """An index of twenty letters about the question and one about something else."""
    rag = open_index(":memory:", token_counter=LineCounter(), chunk_size=1, chunk_overlap=0)
    near = [
        SourceDocument(f"near-{n}", "Anna gave Bert the map.", metadata={"year": 1900 + n})
        for n in range(20)
    ]
    rag.add([*near, SourceDocument("far", "Nobody sailed.", metadata={"year": 1850, "old": True})])
    return rag


@pytest.mark.fast_cases(3)
@both_strategies
@pytest.mark.parametrize("mode", ["auto", "global"])
@pytest.mark.parametrize(
    "where",
    [
        {"year": {"$lt": 1900}},
        {"year": {"$nin": [1900, 1919], "$lte": 1850.5}, "$or": [{"old": True}, {"x": 1}]},
        {"$not": {"year": {"$gte": 1900, "$lt": 1920}}},
        {"$or": [{"year": {"$gt": 3000}}, {"old": {"$exists": True}}]},
        {"document_id": {"$nin": [f"near-{n}" for n in range(20)]}},
    ],
)
def test_a_filter_applies_before_the_cut_to_k(letters, strategy, mode, where):
    question = "What did Anna give Bert?"
    unfiltered = letters.retrieve(question, k=1, mode=mode, strategy=strategy).nodes
    assert unfiltered[0].document_id != "far"
    found = letters.retrieve(question, k=1, mode=mode, strategy=strategy, where=where).nodes
    assert [node.document_id for node in found] == ["far"]
    where = {"$and": [where, {"year": {"$gt": 1850}}]}
    assert not letters.retrieve(question, k=1, mode=mode, strategy=strategy, where=where).nodes


@pytest.mark.fast_cases(6)
@both_strategies
@pytest.mark.parametrize(
    ("where", "pages"),
    [
        ({"scene": {"$lte": 3}}, {1, 2, 3}),
        ({"scene": {"$gt": 3}}, {4, 5, 6}),
        ({"scene": {"$gte": 2, "$lt": 6}}, {2, 3, 4, 5}),
        ({"$not": {"scene": {"$gt": 3}}}, {1, 2, 3}),
        ({"scene": {"$ne": 4}}, {1, 2, 3, 5, 6}),
        ({"$or": [{"scene": 1}, {"scene": {"$in": [2, 3]}}]}, {1, 2, 3}),
        ({"$and": [{"scene": {"$nin": [1, 2, 3]}}, {"kind": "tale"}]}, {4, 5, 6}),
        ({"scene": {"$exists": True}}, {1, 2, 3, 4, 5, 6}),
        ({"scene": {"$exists": False}}, set()),
    ],
)
def test_a_summary_passes_only_if_all_its_segments_pass(open_index, strategy, where, pages):
    lines = [f"Anna wrote page {page}." for page in range(1, 7)]
    text = "\n".join(lines)
    segments = [
        ((start := text.index(line)), start + len(line), {"scene": page})
        for page, line in enumerate(lines, 1)
    ]
    rag = open_index(
        ":memory:", token_counter=LineCounter(), chunk_size=1, chunk_overlap=0, group_size=3
    )
    rag.add(SourceDocument("book", text, metadata={"kind": "tale"}, segments=segments))
    trees = [{page} for page in range(1, 7)] + [{1, 2, 3}, {4, 5, 6}]
    found = rag.retrieve("Who wrote?", k=99, mode="global", strategy=strategy, where=where).nodes
    under = [
        {own["scene"] for start, end, own in segments if start < node.end and node.start < end}
        for node in found
    ]
    assert sorted(map(sorted, under)) == sorted(sorted(t) for t in trees if t <= pages)


INJECTIONS = [
    "'; DROP TABLE documents; --",
    '") OR 1=1 --',
    "%",
    "_",
    "a%",
    "*",
    ".*",
    "?",
    ":1",
    "{0}",
    "{{x}}",
    "%s",
    "\\",
    "\0",
    "__class__",
    "$.a",
    "' OR ''='",
]


@pytest.mark.fast_cases(1)
@both_strategies
def test_injection_strings_are_plain_keys_and_values(open_index, strategy):
    rag = open_index(":memory:")
    keys = [key for key in INJECTIONS if not key.startswith("$")]
    rag.add(
        [
            SourceDocument("plain", "Anna met Bert.", metadata={"a": "apple"}),
            *(
                SourceDocument(f"odd-{n}", f"Anna met Bert {n}.", metadata={"a": text, text: n})
                for n, text in enumerate(INJECTIONS)
            ),
        ]
    )

    def found(where):
        nodes = rag.retrieve("Anna?", k=99, mode="global", strategy=strategy, where=where).nodes
        return {node.document_id for node in nodes}

    everything = found(None)
    assert len(everything) == len(INJECTIONS) + 1
    for n, text in enumerate(INJECTIONS):
        own = {f"odd-{n}"}
        assert found({"a": text}) == own
        assert found({"a": {"$eq": text}}) == found({"a": {"$in": [text]}}) == own
        assert found({"a": {"$gte": text, "$lte": text}}) == own
        assert found({"a": {"$ne": text}}) == found({"a": {"$nin": [text]}}) == everything - own
        assert found({"document_id": text}) == set()
    for key in keys:
        n = INJECTIONS.index(key)
        assert found({key: n}) == found({key: {"$exists": True}}) == {f"odd-{n}"}
        assert found({key: {"$gt": n}}) == found({f"{key}'": n}) == set()
    for key in set(INJECTIONS) - set(keys):
        with pytest.raises(InvalidInputError):
            found({key: 1})
    assert rag.verify().ok
    assert found(None) == everything


@pytest.mark.parametrize(
    ("where", "levels"),
    [
        ({"e2_level": 0}, {0}),
        ({"e2_level": {"$gt": 0}}, {1, 2, 3}),
        ({"e2_kind": "summary", "year": 1890}, {1, 2, 3}),
        ({"$or": [{"e2_level": 2}, {"e2_kind": {"$contains": "unk"}}]}, {0, 2}),
        ({"$not": {"e2_kind": "chunk"}}, {1, 2, 3}),
        ({"e2_level": 9}, set()),
        ({"e2_level": {"$exists": False}}, set()),
    ],
)
def test_the_level_of_a_node_can_be_filtered(open_index, where, levels):
    rag = open_index(group_size=2)
    rag.add(SourceDocument("d", STORY + STORY, metadata={"year": 1890, "e2_level": "of the user"}))
    nodes = rag.retrieve("x", k=99, mode="global", where=where).nodes
    there = {node.level for node in rag.retrieve("x", k=99, mode="global").nodes}
    assert {node.level for node in nodes} == levels & there
    assert there >= {0, 1, 2}


@pytest.mark.parametrize(
    ("where", "documents"),
    [
        ({"e2_types": "person"}, {"birth", "visit"}),
        ({"e2_types": {"$in": ["place", "drug"]}}, {"visit", "dose"}),
        ({"e2_types": {"$all": ["person", "place"]}}, {"visit"}),
        ({"e2_types": {"$ne": "person"}}, {"dose", "rain"}),
        ({"e2_types": "person", "year": 1890}, {"birth"}),
        ({"$or": [{"e2_types": "drug"}, {"year": 1890}]}, {"birth", "dose"}),
        ({"e2_types": "ship"}, set()),
    ],
)
def test_the_types_of_the_entities_of_a_node_can_be_filtered(open_index, where, documents):
    class Labels:
        fingerprint = "labels"

        def extract(self, texts):
            labels = {"Anna": "PERSON", "Oslo": "GPE", "aspirin": "drug"}
            return [
                [
                    [
                        Mention(name, text.index(name), text.index(name) + len(name), label)
                        for name, label in labels.items()
                        if name in text
                    ]
                ]
                for text in texts
            ]

    rag = open_index(extractor=Labels(), group_size=2)
    rag.add(
        [
            SourceDocument("birth", "Anna was born.", metadata={"year": 1890}),
            SourceDocument("visit", "Anna came to Oslo."),
            SourceDocument("dose", "Take aspirin twice."),
            SourceDocument("rain", "It rained all day."),
        ]
    )
    found = rag.retrieve("x", k=99, mode="global", where=where).nodes
    assert {node.document_id for node in found} == documents
