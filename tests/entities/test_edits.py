"""Entity edits: which entity a name means, and which edits contradict each other."""

from __future__ import annotations

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from e2graphrag_integrations.entities.edit_arguments import edit_ids, new_edits
from e2graphrag_integrations.entities.edits import EntityEdit, EntityEdits
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.types import Mention
from strategies import quick

NAMES = st.sampled_from(["Anna", "anna", "Bob", "the Bob", "Rob", "US", "us", "Dr. Lee", "李"])
EDITS = st.one_of(
    st.builds(EntityEdit, st.just("alias"), st.tuples(NAMES, NAMES)),
    st.builds(EntityEdit, st.just("separate"), st.tuples(NAMES, NAMES)),
    st.builds(EntityEdit, st.just("stop"), st.tuples(NAMES)),
)


def edits(alias=None, separate=None, stop=None):
    return EntityEdits(tuple(new_edits(alias, separate, stop)))


def test_aliases_are_followed_to_the_last_name():
    found = edits(alias={"Bobby": "Bob", "Bob": "Robert Smith"})
    assert found.entity_of("the BOBBY's") == found.entity_of("Bob") == "robert smith"
    assert found.aliases_of("robert smith") == ("Bob", "Bobby")
    assert found.entity_of("Roberta") == "roberta"


def test_a_stopped_name_means_no_entity():
    assert edits(stop="Chapter").entity_of("chapter") == ""


def test_separate_spellings_keep_their_capitals():
    found = edits(separate=[("Apple", "apple")], alias={"Apple": "Apple Inc"})
    assert [found.entity_of(name) for name in ("Apple's", "the apple", "APPLE")] == [
        "apple inc",
        "apple",
        "apple",
    ]


def test_an_alias_of_a_separated_name_is_separated_too():
    found = edits(separate=[("Bob", "Rob")], alias={"Bobby": "Bob", "Rob": "Robert"})
    assert found.separated_from("bobby") == {"robert"}
    assert found.separated_from("robert", "other") == {"bob"}


@pytest.mark.parametrize(
    ("given_edits", "message"),
    [
        ({"alias": {"A": "B", "B": "C", "C": "A"}}, "'A' -> 'B' -> 'C' -> 'A' is a cycle"),
        ({"alias": {"Bob": "the bob"}}, "already name the same entity"),
        ({"alias": {"Bob": "Rob", "BOB": "Robert"}}, "'Bob' cannot mean both 'Robert' and 'Rob'"),
        ({"separate": [("Bob", "the Bob")]}, "are the same name"),
        (
            {"separate": [("Bob", "Robert")], "alias": {"Bob": "Rob", "Rob": "Robert"}},
            r"aliases join them \('Bob' means 'Rob'; 'Rob' means 'Robert'\)",
        ),
        ({"stop": "Bob", "alias": {"Bob": "Rob"}}, "'Bob' is stopped, but 'Bob' is an alias"),
        ({"stop": "Rob", "alias": {"Bob": "Rob"}}, "'Rob' is stopped, but 'Bob' is an alias"),
        ({"stop": "?!"}, "no letter or digit"),
        ({"alias": {"Bob": ""}}, "must be a non-empty string"),
        ({"alias": {"Bob": 3}}, "must be a string, not int"),
        ({"alias": {"Bob": "\ud800"}}, "lone surrogate"),
        ({"alias": ["Bob"]}, "must map each alias to a name"),
        ({"separate": ("Bob", "Rob")}, "pass pairs of names"),
        ({"separate": "Bob"}, "must be pairs of names"),
        ({"separate": [("Bob",)]}, "pass pairs of names"),
        ({"stop": 3}, "must be a list of names"),
        ({"stop": {"Bob": 1}}, "must be a list of names"),
    ],
)
def test_invalid_edits_are_rejected(given_edits, message):
    with pytest.raises(InvalidInputError, match=message):
        edits(**given_edits)


def test_undo_accepts_edits_and_their_ids():
    [one] = edits(stop="Bob")
    assert edit_ids(one) == edit_ids(one.id) == edit_ids([one, one.id]) == [one.id]
    with pytest.raises(InvalidInputError, match="undo=3"):
        edit_ids(3)


def test_an_edit_that_already_holds_is_not_added_again():
    first = edits(alias={"Bob": "Robert"}, separate=[("A", "B")])
    assert first.changed(new_edits({"the bob": "ROBERT"}, [("b", "a")], None)) == first


def test_undoing_an_unknown_edit_is_an_error():
    with pytest.raises(InvalidInputError, match="no edit 'x': edits"):
        edits(stop="Bob").changed((), ["x"])


def test_a_second_meaning_of_an_alias_names_both_meanings():
    before = edits(alias={"Bob": "Anna"})
    with pytest.raises(
        InvalidInputError, match="'Bob' cannot mean both 'Anna' and 'Zoe'"
    ) as failed:
        before.changed([EntityEdit("alias", ("Bob", "Zoe"))])
    values = {"alias": "Bob", "other": "Zoe", "first": "Anna"}
    assert (failed.value.args[0].code, failed.value.args[0].values) == ("alias_of_two", values)


def test_undoing_an_edit_on_which_others_rely_is_an_error():
    """Without the first edit, both spellings are one name with two meanings."""
    found = edits(separate=[("US", "us")], alias={"US": "America", "us": "we"})
    [separated] = [one for one in found if one.kind == "separate"]
    with pytest.raises(InvalidInputError, match="cannot mean both"):
        found.changed((), [separated.id])


@quick
@given(st.lists(EDITS, max_size=5), EDITS)
def test_undo_restores_the_edits(some, one):
    try:
        before = EntityEdits().changed(some)
        after = before.changed([one])
    except InvalidInputError:
        reject()
    assert EntityEdits.from_json(after.to_json()) == after
    added = set(after) - set(before)
    assert after.changed((), [edit.id for edit in added]) == before
    for name in ("Anna", "anna", "Bob", "Rob", "US", "us", "Dr. Lee", "李"):
        entity = after.entity_of(name)
        assert after.resolve(entity) == entity  # an entity means itself
    if not after:
        assert after.form("US") == normal_form("US")


@pytest.mark.parametrize(
    "value", [3, ["x"], [["merge", "A", "B"]], [["alias", "A"]], [["stop", 3]], [[["stop"], "A"]]]
)
def test_invalid_json_is_rejected(value):
    with pytest.raises((ValueError, TypeError)):
        EntityEdits.from_json(value)


@pytest.mark.parametrize(
    ("meanings", "code"),
    [
        ({"bob": ["a"]}, "homonym_same"),
        ({"Bob (2)": ["a"], "Bob (3)": ["a"]}, "homonym_of_two"),
    ],
)
def test_homonyms_that_contradict_each_other_have_codes(meanings, code):
    with pytest.raises(InvalidInputError) as failed:
        edits(separate=[("Bob", meanings)])
    assert failed.value.args[0].code == code


def test_a_part_of_an_index_keeps_names_apart_that_only_capitals_tell():
    whole = edits(separate=[("US", "us")], alias={"America": "US"})
    part = whole.restricted_to({"US", "america"}, {"a"})
    assert part.separate == (("US", "us"),)
    assert part.entity_of("America") == "US"
    assert edits(separate=[("Anna", "Bob")]).restricted_to({"anna"}, {"a"}).separate == ()


def test_a_separation_is_stored_once_whatever_the_order_of_its_names():
    first, second = edits(separate=[("Rob", "bob")]), edits(separate=[("Bob", "rob")])
    assert len(first.changed(second)) == 1


def test_a_homonym_with_capitals_is_not_the_word_without_them():
    homonym = EntityEdit("homonym", ("US", "US (band)", "q"))
    both = EntityEdits((*edits(separate=[("US", "us")]), homonym))
    read = both.read_in("q", [[Mention("US", 0, 2, "ORG"), Mention("us", 8, 10, "NOUN")]])
    assert [one.entity for one in read[0]] == ["US (band)", "us"]
    assert both.title_in("q", "US") == "US (band)"
    assert both.meanings_of("US")
    assert not both.meanings_of("us")
