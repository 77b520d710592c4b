import dataclasses
import enum
from datetime import date

import numpy as np
import pytest

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.types import Mention, Segment, SourceDocument


class Name(str, enum.Enum):  # noqa: UP042 - as users write it; a StrEnum has another __str__
    A = "a"


def test_a_member_of_a_string_enumeration_is_stored_as_its_value():
    document = SourceDocument(Name.A, Name.A, Name.A)
    assert {type(one) for one in (document.id, document.text, document.title)} == {str}
    plain = SourceDocument("a", "a", "a")
    assert f"{document.id}{document.text}{document.title}" == "aaa"
    assert document == plain


def test_segment_tuples_become_segment_objects():
    document = SourceDocument("d", "abcd", segments=[(0, 2, {"page": 1}), (2, 4, {"page": 2})])
    assert document.segments == (Segment(0, 2, {"page": 1}), Segment(2, 4, {"page": 2}))


def test_segments_can_leave_gaps_and_be_empty():
    assert len(SourceDocument("d", "abcd", segments=[(0, 0, {}), (1, 2, {}), (3, 4, {})]).segments)


def test_segment_bounds_can_be_numpy_integers():
    [segment] = SourceDocument("d", "abcd", segments=[(np.int64(0), np.int32(2), {})]).segments
    assert segment == (0, 2, {})
    assert {type(segment.start), type(segment.end)} == {int}


def test_document_copies_its_metadata():
    own, page = {"tags": ["a"]}, {"page": [1]}
    document = SourceDocument("d", "abcd", metadata=own, segments=[(0, 2, page)])
    own["tags"].append(object())
    own["document_id"] = "reserved"
    page["page"].append(object())
    assert document.metadata == {"tags": ["a"]}
    assert document.segments[0].metadata == {"page": [1]}


def test_document_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SourceDocument("d", "abcd").text = "x"


@pytest.mark.parametrize("text", ["", " \r\n", "a\0b", "👩‍👩‍👧‍👦 e\u0301", "שלום"])
def test_any_text_is_stored_unchanged(text):
    assert SourceDocument("d", text).text == text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, "id must be a non-empty string"),
        ({"id": " \n"}, "id must be a non-empty string"),
        ({"id": 3}, "not 3"),
        ({"id": "\ud800"}, "id of document"),
        ({"id": "é" * 500 + "a"}, "has 1,001 bytes in UTF-8, but at most 1,000 .* shorter one"),
        ({"text": None}, "text of document 'd' must be a string, not NoneType"),
        ({"text": b"abc"}, "not bytes"),
        ({"text": "ab\ud800"}, "lone surrogate at character 2"),
        ({"title": 5}, "title of document 'd' must be a string"),
        ({"title": "\udfff"}, "title of document 'd' contains a lone surrogate"),
        ({"metadata": [1]}, "metadata of document 'd' must map strings"),
        ({"metadata": {1: "a"}}, "metadata of document 'd' must map strings"),
        ({"metadata": {"a": {1, 2}}}, "is not plain JSON"),
        ({"metadata": {"a": float("nan")}}, "is not plain JSON"),
        ({"metadata": {"a": "\ud800"}}, "is not plain JSON"),
        ({"metadata": {"document_id": "x"}}, "reserved for the document"),
        ({"segments": [(0, 3, {}), (1, 2, {})]}, "segment 1 of document 'd' spans 1-2"),
        ({"segments": [(2, 3, {}), (0, 1, {})]}, "segment 1"),
        ({"segments": [(0, 5, {})]}, "the text's 4 characters"),
        ({"segments": [(2, 1, {})]}, "segment 0"),
        ({"segments": [(-1, 1, {})]}, "segment 0"),
        ({"segments": [(0, 1.5, {})]}, "segment 0"),
        ({"segments": [(False, True, {})]}, "segment 0"),
        ({"segments": 7}, "triples"),
        ({"metadata": {"a": 10**5000}}, "is not plain JSON"),
        ({"segments": [("0", "1", {})]}, "segment 0"),
        ({"segments": [(0, 1)]}, "triples"),
        ({"segments": [7]}, "triples"),
        ({"segments": [(0, 1, {"a": object()})]}, "segment 0 of document 'd' is not plain JSON"),
        ({"segments": [(0, 1, {"document_id": 1})]}, "segment 0 of document 'd' has the key"),
    ],
)
def test_invalid_field_is_rejected_with_its_location(fields, message):
    with pytest.raises(InvalidInputError, match=message):
        SourceDocument(**{"id": "d", "text": "abcd", **fields})


def test_numpy_scalars_in_metadata_become_python_values():
    metadata = {"n": np.int64(3), "x": np.float32(1.5), "is": np.all([]), "all": [np.int8(1)]}
    document = SourceDocument("d", "abcd", metadata=metadata)
    assert document.metadata == {"n": 3, "x": 1.5, "is": True, "all": [1]}
    assert [type(value) for value in document.metadata.values()] == [int, float, bool, list]


@pytest.mark.parametrize("value", [date(2024, 5, 1), np.zeros(2), {1}, float("nan"), "\ud800"])
def test_the_key_of_a_value_that_is_no_json_is_named(value):
    with pytest.raises(InvalidInputError, match=r"'d' is not plain JSON .* at the key 'b': use"):
        SourceDocument("d", "abcd", metadata={"a": 1, "b": {"c": value}})


def test_mention_is_named_unless_it_is_a_noun():
    assert Mention("Darcy", 0, 5, "PERSON").named
    assert not Mention("house", 0, 5).named
