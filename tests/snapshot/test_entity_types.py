"""The types of the entities of a snapshot."""

import numpy as np
import pytest

from e2graphrag_integrations import Mention, SourceDocument
from e2graphrag_integrations.entities.entity_types import OTHER
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.builder import mention_table
from e2graphrag_integrations.snapshot.conversion import snapshot_arrays
from e2graphrag_integrations.snapshot.entity_types import EntityTypes


def types_of(*mentions, names=()):
    found, table = mention_table([[list(mentions)]])
    is_name = [any(n == name and type_ for n, type_ in mentions) for name in found]
    types = EntityTypes.of(table, np.asarray([*is_name, *(True for _ in names)]))
    return dict(zip([*found, *names], types.of_rows(np.arange(len(types.numbers))), strict=True))


def test_most_mentions_decide_and_those_of_unknown_type_have_no_vote():
    mentions = [("paris", "person"), *[("paris", "place")] * 2, *[("paris", OTHER)] * 9]
    assert types_of(*mentions) == {"paris": "place"}


def test_the_first_type_by_name_wins_ties():
    assert types_of(("paris", "place"), ("paris", "person")) == {"paris": "person"}


def test_names_without_a_typed_mention_are_others_and_the_rest_are_nouns():
    found = types_of(("rover", OTHER), ("house", ""), ("ada", "person"), names=["title"])
    assert found == {"rover": "other", "house": "noun", "ada": "person", "title": "other"}


LABELS = {"Ada": "PERSON", "London": "GPE", "Rex": "Dog", "Acme": "ORG"}


class Extractor:
    """Finds the words that have a label."""

    fingerprint = "typed"

    def extract(self, texts):
        return [
            [
                [
                    Mention(word, text.index(word), text.index(word) + len(word), LABELS[word])
                    for word in LABELS
                    if word in text
                ]
            ]
            for text in texts
        ]


def test_entities_are_listed_by_type(rag_with_types):
    listed = {one.name: one.type for one in rag_with_types.entities()}
    assert listed == {"ada": "person", "london": "place", "rex": "Dog"}
    assert [one.name for one in rag_with_types.entities(types="person")] == ["ada"]
    assert [one.name for one in rag_with_types.entities(types=["dog", "place"])] == [
        "london",
        "rex",
    ]
    assert rag_with_types.entities(types="work") == []
    assert rag_with_types.entity("London").info.type == "place"
    [neighbor] = rag_with_types.entity("London").neighbors
    assert (neighbor.name, neighbor.type) == ("ada", "person")


@pytest.mark.parametrize("types", [[], "", [" "], [1], 3, {"person": 1}, b"person"])
def test_invalid_types_are_refused(rag_with_types, types):
    with pytest.raises(InvalidInputError, match="type"):
        rag_with_types.entities(types=types)


def test_types_in_an_updated_snapshot_equal_those_of_a_full_build(open_index):
    texts = {"a": "Ada saw London.", "b": "Rex saw Acme.", "c": "Ada met Rex."}
    updated, built = open_index(extractor=Extractor()), open_index(extractor=Extractor())
    updated.add([SourceDocument(id_, text) for id_, text in texts.items()])
    labels = updated.read_snapshot(lambda one, _: one.unedited_mentions.labels)
    assert labels == ["Dog", "GPE", "ORG", "PERSON"]
    updated.delete("b")
    built.add([SourceDocument(id_, texts[id_]) for id_ in "ac"])
    one, other = (rag.read_snapshot(lambda one, _: one) for rag in (updated, built))
    assert (
        one.unedited_mentions.labels == other.unedited_mentions.labels == ["Dog", "GPE", "PERSON"]
    )
    types, expected = (snapshot_arrays(each)["mention_label_numbers"] for each in (one, other))
    assert types.dtype == expected.dtype
    assert types.tolist() == expected.tolist()


def test_aliases_have_the_type_of_their_entity(rag_with_types):
    rag_with_types.edit_entities(alias={"Rex": "Ada"})
    assert {one.name: one.type for one in rag_with_types.entities()} == {
        "ada": "Dog",
        "london": "place",
    }


@pytest.fixture
def rag_with_types(open_index):
    rag = open_index(extractor=Extractor())
    rag.add([SourceDocument("a", "Ada saw London."), SourceDocument("b", "Rex is here.")])
    return rag
