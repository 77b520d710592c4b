"""`--where`: parsing conditions and filtering with them."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.cli.where import parse_where
from e2graphrag_integrations.errors import InvalidInputError


def where_options(conditions):
    return [part for condition in conditions for part in ("--where", condition)]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param(["year=1895", "name=Wells"], {"year": 1895, "name": "Wells"}, id="pairs"),
        pytest.param(
            ["name=Wells", "name=Verne"], {"name": {"$in": ["Wells", "Verne"]}}, id="repeated_key"
        ),
        pytest.param(['year={"$gte": 1890}'], {"year": {"$gte": 1890}}, id="operator"),
        pytest.param(
            ['{"$or": [{"year": 1895}, {"a=b": "c"}]}'],
            {"$or": [{"year": 1895}, {"a=b": "c"}]},
            id="json_object",
        ),
        pytest.param(["{}"], {}, id="empty_object"),
        pytest.param(
            ['{"year": 1895}', "a=1", "b=2"],
            {"$and": [{"year": 1895}, {"a": 1, "b": 2}]},
            id="object_and_pairs",
        ),
        pytest.param(
            ["a=1", '{"a": 2}', '{"b": 3}'],
            {"$and": [{"a": 2}, {"b": 3}, {"a": 1}]},
            id="two_objects_and_a_pair",
        ),
        pytest.param(
            ["a={}", 'a={"x": 1}'], {"a": {"$in": [{}, {"x": 1}]}}, id="repeated_object_value"
        ),
    ],
)
def test_conditions_are_parsed_into_one_filter(conditions, expected):
    assert parse_where(conditions) == expected


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        (["document_id=book.txt"], 0),
        (["document_id=book.txt", "document_id=x"], 0),
        (['document_id={"$gte": "book", "$lt": "bool"}'], 0),
        (['document_id={"$gt": "bool"}'], 1),
        (['{"$or": [{"document_id": "book.txt"}, {"document_id": "x"}]}'], 0),
        (['{"$not": {"document_id": "book.txt"}}'], 1),
        (['{"year": {"$exists": false}}', "document_id=book.txt"], 0),
        (['{"year": {"$exists": false}}', "document_id=x"], 1),
    ],
)
def test_query_returns_only_matching_documents(book_index, call, conditions, code):
    assert call("query", book_index, "Alice", *where_options(conditions)).code == code


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        pytest.param(["novalue"], "must be KEY=VALUE or a JSON object", id="no_value"),
        pytest.param(
            ['{"year": '], "--where '{\"year\": ' is not valid JSON (Expecting value", id="cut_json"
        ),
        pytest.param(
            ["{year}=1895"], 'use KEY=VALUE or \'{"year": {"$gte": 1890}}\'', id="braces_in_key"
        ),
        pytest.param(['{"a": 1} {"b": 2}'], "is not valid JSON (Extra data", id="two_objects"),
        pytest.param(
            ["a=" + "[" * 100_000], "--where a: the value is nested too deeply", id="deep_value"
        ),
        pytest.param(
            ['{"a": ' * 100_000], "--where {...}: the filter is nested too deeply", id="deep_json"
        ),
        pytest.param(['{"$not": ' * 60 + "{}" + "}" * 60], "more than 50", id="deep_filter"),
        pytest.param(['{"year": {"$like": "1%"}}'], "'$like'", id="unknown_operator"),
        pytest.param(['year={"$gt": NaN}'], "where['year']: $gt", id="nan"),
        pytest.param(['year={"$gt": 1e999}'], "where['year']: $gt", id="infinity"),
        pytest.param(
            ['year={"$gte": 1890}', 'year={"$lt": 1900}'],
            "--where year: write all operators in one condition",
            id="split_operators",
        ),
        pytest.param(
            ["year=1", 'year={"$lt": 1900}'],
            "--where year: write all operators in one condition",
            id="value_and_operator",
        ),
        pytest.param(['year={"$gte": 1890'], "is not valid JSON", id="unfinished_operator"),
        pytest.param(['{"$or": {"a": 1}}'], "where['$or']", id="or_without_list"),
    ],
)
def test_invalid_filter_exits_with_2_and_an_explanation(book_index, call, conditions, message):
    code, out, err = call("query", book_index, "Alice", *where_options(conditions))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err


def test_a_scope_hides_the_other_documents(book_index, call):
    own = '{"document_id": "book.txt"}'
    found = call("query", book_index, "Who met Alice?", "--scope", own, "-k", "50", "--json").json()
    assert found["nodes"]
    assert {node["document_id"] for node in found["nodes"]} == {"book.txt"}
    nothing = ("--where", "document_id=other.txt", "--scope", own)
    assert call("query", book_index, "Who met Alice?", *nothing).code == 1


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        ("{}", "contains an empty filter"),
        ("[1]", "must be a JSON object"),
        ("tenant=a", "--scope 'tenant=a' is not valid JSON"),
        ('{"tenant": {"$near": 1}}', "is not an operator"),
    ],
)
def test_an_invalid_scope_is_rejected(book_index, call, scope, problem):
    code, _, error = call("query", book_index, "Who?", "--scope", scope)
    assert code == 2
    assert problem in error


@pytest.mark.parametrize("condition", ['{"a": 1, "a": 2}', 'year={"$gt": 1, "$gt": 2}'])
def test_a_field_that_is_given_twice_is_refused(condition):
    with pytest.raises(InvalidInputError, match="is given twice"):
        parse_where([condition])
