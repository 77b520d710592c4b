import numpy as np
import pytest

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SettingsMismatchError,
)
from e2graphrag_integrations.settings import Settings, resolve_settings
from e2graphrag_integrations.text.chunking import chunk_spans, content_spans
from e2graphrag_integrations.tree import ContentGroups, FixedGroups
from strategies import WordCounter


def test_defaults_are_those_of_the_paper():
    assert Settings() == Settings(1200, 100, 5, 300)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"chunk_size": 100}, "chunk_overlap=100"),
        ({"chunk_overlap": -1}, "chunk_overlap=-1"),
        ({"chunk_size": 0, "chunk_overlap": 0}, "chunk_size=0"),
        ({"group_size": 1}, "group_size=1"),
        ({"summary_tokens": 0}, "summary_tokens=0"),
        ({"chunk_size": 1200.0}, r"chunk_size=1200\.0 must be a whole number"),
        ({"chunk_size": "1200"}, "chunk_size='1200' must be a whole number"),
        ({"chunk_size": 2**63}, "chunk_size=.* from 1 to 10,000,000"),
        ({"summary_tokens": 10**5000}, "summary_tokens="),
        ({"group_size": True}, "group_size=True must be a whole number"),
    ],
)
def test_values_out_of_range_are_refused_by_name(values, message):
    with pytest.raises(InvalidInputError, match=message):
        Settings(**values)


def test_a_manifest_gives_back_the_settings_it_was_made_of():
    made = Settings(50, 7, 3, 20)
    assert resolve_settings({}, made.to_manifest(), "x.e2g") == made


def test_what_is_asked_for_fills_what_the_manifest_leaves_open():
    found = resolve_settings({"chunk_size": 50, "chunk_overlap": 5}, {"group_size": "3"}, "x.e2g")
    assert found == Settings(50, 5, 3, 300)


def test_asking_for_what_the_index_was_made_with_is_fine():
    manifest = Settings(group_size=3).to_manifest()
    assert (
        resolve_settings({"group_size": 3, "chunk_size": None}, manifest, "x.e2g").group_size == 3
    )


def test_another_value_than_the_index_was_made_with_is_an_error():
    message = r"x\.e2g was made with group_size=3, not 4"
    with pytest.raises(SettingsMismatchError, match=message):
        resolve_settings({"group_size": 4}, Settings(group_size=3).to_manifest(), "x.e2g")


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInputError, match="'chunksize'; there are chunk_size"):
        resolve_settings({"chunksize": 5}, {}, "x.e2g")


def test_numbers_of_numpy_become_plain():
    made = Settings(chunk_size=np.int64(50), chunk_overlap=np.int32(5))
    assert made == Settings(50, 5)
    assert {type(made.chunk_size), type(made.chunk_overlap)} == {int}


def test_a_manifest_that_is_no_number_is_a_damaged_index():
    with pytest.raises(CorruptStoreError, match=r"x\.e2g says chunk_size='abc'"):
        resolve_settings({}, {"chunk_size": "abc"}, "x.e2g")


# Cut and grouped by content

CONTENT = Settings(chunking="content", grouping="content")
VERSION_1 = {"chunk_size": "50", "chunk_overlap": "7", "group_size": "3", "summary_tokens": "20"}
"""What files said before there was a choice."""

TEXT = " ".join(f"Sentence {number} of the text." for number in range(60))


def test_cuts_are_fixed_unless_asked_for_by_content():
    assert (Settings().chunking, Settings().grouping) == ("fixed", "fixed")
    assert (Settings().overlap, Settings().groups) == (100, FixedGroups(5))


@pytest.mark.parametrize("grouping", ["fixed", "content"])
def test_chunks_cut_by_content_share_nothing_unless_told_to(grouping):
    made = Settings(chunk_size=50, chunking="content", grouping=grouping)
    assert (made.chunk_overlap, made.overlap) == (0, 0)
    assert made == Settings(50, 0, chunking="content", grouping=grouping)
    with pytest.raises(InvalidInputError, match=r"chunk_overlap=7: .* share nothing; leave it out"):
        Settings(chunk_size=50, chunk_overlap=7, chunking="content", grouping=grouping)


def test_fixed_chunks_under_groups_by_content_overlap_as_ever():
    assert Settings(grouping="content").overlap == 100
    assert Settings(50, 7, grouping="content").overlap == 7


@pytest.mark.parametrize("name", ["chunking", "grouping"])
@pytest.mark.parametrize("value", ["Content", "", "none", None, 5, True, ["content"], b"content"])
def test_ways_to_cut_that_there_are_not_are_refused_with_those_there_are(name, value):
    with pytest.raises(InvalidInputError, match=f"{name}=.*: choose one of fixed, content"):
        Settings(**{name: value})


def test_settings_cut_and_group_as_they_say():
    counter = WordCounter()
    fixed, content = Settings(30, 6, 3), Settings(30, None, 3, chunking="content")
    assert fixed.spans(TEXT, counter) == chunk_spans(TEXT, counter, chunk_size=30, chunk_overlap=6)
    assert content.spans(TEXT, counter) == content_spans(TEXT, counter, chunk_size=30)
    assert fixed.spans(TEXT, counter) != content.spans(TEXT, counter)
    assert content.groups == FixedGroups(3)
    assert Settings(group_size=3, grouping="content").groups == ContentGroups(3)


@pytest.mark.parametrize("chunking", ["fixed", "content"])
@pytest.mark.parametrize("grouping", ["fixed", "content"])
def test_a_manifest_gives_back_how_an_index_was_cut(chunking, grouping):
    made = Settings(50, None if chunking == "content" else 7, 3, 20, chunking, grouping)
    manifest = made.to_manifest()
    assert all(isinstance(value, str) for value in manifest.values())
    assert (manifest["chunking"], manifest["grouping"]) == (chunking, grouping)
    assert resolve_settings({}, manifest, "x.e2g") == made
    same = {"chunking": chunking, "grouping": grouping, "chunk_overlap": None}
    assert resolve_settings(same, manifest, "x.e2g") == made


def test_an_empty_index_is_cut_as_asked():
    asked = {"chunking": "content", "grouping": "content", "chunk_size": 50}
    assert resolve_settings(asked, {}, "x.e2g") == Settings(
        50, 0, chunking="content", grouping="content"
    )


def test_an_index_from_before_there_was_a_choice_is_cut_fixed():
    expected = Settings(50, 7, 3, 20, "fixed", "fixed")
    assert resolve_settings({}, VERSION_1, "x.e2g") == expected
    asked = {"chunking": "fixed", "grouping": "fixed"}
    assert resolve_settings(asked, VERSION_1, "x.e2g") == expected


@pytest.mark.parametrize("name", ["chunking", "grouping"])
@pytest.mark.parametrize("manifest", [VERSION_1, Settings().to_manifest()])
def test_an_index_that_was_cut_fixed_is_not_cut_by_content(name, manifest):
    message = rf"x\.e2g was made with {name}=fixed, not 'content': leave {name} out"
    with pytest.raises(SettingsMismatchError, match=message):
        resolve_settings({name: "content"}, manifest, "x.e2g")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"chunking": "fixed"}, "chunking=content, not 'fixed'"),
        ({"grouping": "fixed"}, "grouping=content, not 'fixed'"),
        ({"grouping": "other"}, "grouping=content, not 'other'"),
        ({"chunk_overlap": 100}, "chunk_overlap=0, not 100"),
    ],
)
def test_an_index_that_was_cut_by_content_is_not_cut_otherwise(asked, message):
    with pytest.raises(SettingsMismatchError, match=message):
        resolve_settings(asked, CONTENT.to_manifest(), "x.e2g")


@pytest.mark.parametrize("name", ["chunking", "grouping"])
@pytest.mark.parametrize("value", ["abc", "", "Content", "None"])
def test_a_manifest_with_no_way_to_cut_is_a_damaged_index(name, value):
    with pytest.raises(CorruptStoreError, match=rf"x\.e2g says {name}='{value}'"):
        resolve_settings({}, CONTENT.to_manifest() | {name: value}, "x.e2g")


@pytest.mark.parametrize("value", ["content", "fixed"])
def test_a_manifest_with_a_way_to_cut_where_a_number_belongs_is_a_damaged_index(value):
    with pytest.raises(CorruptStoreError, match=rf"x\.e2g says chunk_size='{value}'"):
        resolve_settings({}, CONTENT.to_manifest() | {"chunk_size": value}, "x.e2g")


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunking": "7"},
        {"grouping": "-1"},
        {"chunk_overlap": "5"},  # with chunks by content
        {"chunk_size": "0"},
        {"group_size": "1"},
    ],
)
def test_a_manifest_with_values_that_no_settings_have_is_a_damaged_index(wrong):
    with pytest.raises(CorruptStoreError, match=r"x\.e2g"):
        resolve_settings({}, CONTENT.to_manifest() | wrong, "x.e2g")
