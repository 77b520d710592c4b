import numpy as np
import pytest

from e2graphrag_integrations.entities.edit_arguments import new_edits
from e2graphrag_integrations.entities.edits import EntityEdit, EntityEdits
from e2graphrag_integrations.entities.matching.aliases import Alias, Aliases
from e2graphrag_integrations.entities.matching.linking import Link, Linking, link
from e2graphrag_integrations.types import NOUN, Mention


def link_names(names, *entities):
    mentions = [Mention(name, 0, len(name), "PERSON") for name in names]
    return link(mentions, {entity: row for row, entity in enumerate(entities)})


def link_with_aliases(names, *entities, label="PERSON"):
    """Link names with aliases; every entity is a name with one chunk."""
    ones = np.ones(len(entities), dtype=np.int64)
    mentions = [Mention(name, 0, len(name), label) for name in names]
    known = Aliases(entities, ones.astype(np.bool_), ones)
    return link(mentions, {entity: row for row, entity in enumerate(entities)}, known)


class RecordingAliases:
    """Resolves every form to `nobody` and records the forms."""

    def __init__(self):
        self.forms = []

    def find(self, form, excluded=frozenset()):
        assert not excluded
        self.forms.append(form)
        return Alias("nobody", "alias", 0.5)


def test_exact_normal_form_takes_precedence_over_its_parts():
    found = link_names(["Elizabeth  BENNET"], "elizabeth", "elizabeth bennet", "bennet")
    assert found.links == (Link("Elizabeth  BENNET", "elizabeth bennet", "exact", 1.0),)


def test_entity_with_an_honorific_matches_exactly():
    assert link_names(["Lady Lucas"], "lucas", "lady lucas").links[0].how == "exact"


@pytest.mark.parametrize("name", ["Mr. Darcy", "the Reverend Mr Darcy", "Sir Darcy"])
def test_honorifics_are_stripped_if_the_full_name_is_unknown(name):
    assert link_names([name], "darcy").links == (Link(name, "darcy", "stripped", 1.0),)


def test_longest_part_that_is_an_entity_is_linked():
    # 9 of the 16 characters of "elizabeth bennet": 0.5625.
    assert link_names(["Elizabeth Bennet"], "elizabeth") == Linking(
        (Link("Elizabeth Bennet", "elizabeth", "part", 0.5625),), ()
    )
    [found] = link_names(["Fitzwilliam Darcy of Pemberley"], "darcy", "darcy of pemberley").links
    assert found.entity == "darcy of pemberley"


def test_leftmost_of_equally_long_parts_is_linked():
    assert link_names(["Jane Anne"], "anne", "jane").links[0].entity == "jane"


def test_part_score_ignores_honorifics():
    # "miss elizabeth bennet" is stripped to 16 characters before parts are measured.
    assert link_names(["Miss Elizabeth Bennet"], "bennet").links[0].score == 0.375


def test_part_of_a_chinese_name_is_linked_without_spaces():
    assert link_names(["北京市政府"], "北京").links == (Link("北京市政府", "北京", "part", 0.4),)


def test_part_of_a_word_is_never_linked():
    assert link_names(["Zürichsee", "Marsupial"], "zürich", "mars").unlinked == (
        "Zürichsee",
        "Marsupial",
    )


def test_entity_is_linked_once_by_its_best_mention():
    found = link_names(["Elizabeth Bennet", "Elizabeth", "elizabeth"], "elizabeth")
    assert found.links == (Link("Elizabeth", "elizabeth", "exact", 1.0),)


def test_unlinked_mentions_are_listed_once_in_order():
    found = link_names(["Zeus", "Hera", "Zeus", "?!"], "darcy")
    assert found == Linking((), ("Zeus", "Hera", "?!"))


def test_linking_without_mentions_or_entities_is_empty():
    assert link_names([]) == link_names([], "darcy") == Linking((), ())


def test_very_long_mention_is_linked():
    """Trying all parts of all lengths would fill the memory."""
    name = " ".join(f"Word{i}" for i in range(5000))
    assert link_names([name], "word4999").links[0].entity == "word4999"
    assert link_names(["北京上海" * 5000], "海北").links == ()  # crosses the border of words


@pytest.mark.parametrize(
    ("entities", "how", "entity"),
    [
        (["miss katherine", "katherine", "anna katherine"], "exact", "miss katherine"),
        (["katherine", "anna katherine", "katherines"], "stripped", "katherine"),
        (["anna katherine", "katherines"], "alias", "anna katherine"),
        (["katherines", "anna"], "similar", "katherines"),
    ],
)
def test_first_matching_rule_wins(entities, how, entity):
    [found] = link_with_aliases(["Miss Katherine"], *entities).links
    assert (found.how, found.entity) == (how, entity)


def test_alias_and_similar_spelling_take_precedence_over_a_part():
    [alias] = link_with_aliases(["United Nations"], "united", "united nations: a history").links
    assert alias == Link("United Nations", "united nations: a history", "alias", 1.0)
    [similar] = link_with_aliases(["Elizabet Bennet"], "bennet", "elizabeth bennet").links
    assert similar == Link("Elizabet Bennet", "elizabeth bennet", "similar", 0.9677)
    [part] = link_with_aliases(["Lizzy Bennet"], "bennet", "elizabeth bennet").links
    assert (part.entity, part.how) == ("bennet", "part")


def test_common_nouns_are_not_linked_by_alias():
    entities = ["market town", "butterfly"]
    assert link_with_aliases(["town", "butterflly"], *entities, label=NOUN).links == ()
    assert len(link_with_aliases(["town", "butterflly"], *entities, label="NAME").links) == 2
    [part] = link_with_aliases(["old butterfly"], "butterfly", label=NOUN).links
    assert part.how == "part"


@pytest.mark.parametrize(
    ("name", "entity"), [("Mt. Harrow", "mount harrow"), ("Mount Harrow", "mt harrow")]
)
def test_an_abbreviated_mount_is_the_mount_and_not_a_similar_one(name, entity):
    found = link_with_aliases([name], "mount barrow", entity, label="LOC")
    assert [one.entity for one in found.links] == [entity]


def test_linking_without_aliases_finds_no_alias():
    assert link_names(["Bennet"], "elizabeth bennet") == Linking((), ("Bennet",))


def test_aliases_are_looked_up_by_stripped_normal_form_for_unknown_names():
    aliases = RecordingAliases()
    mentions = [Mention(name, 0, 1, "PERSON") for name in ("Emma", "the  Rev. COLLINS", "?!")]
    found = link(mentions, {"emma": 0}, aliases)
    assert aliases.forms == ["collins"]
    assert found.links[1] == Link("the  Rev. COLLINS", "nobody", "alias", 0.5)
    assert found.unlinked == ("?!",)


def test_at_most_32_unknown_names_are_looked_up():
    aliases = RecordingAliases()
    known = [Mention("Emma", 0, 4, "PERSON"), Mention("tea", 0, 3, NOUN)] * 40
    unknown = [Mention(f"Name{i} Emma", 0, 4, "PERSON") for i in range(40)]
    found = link([*known, *unknown, Mention("Zeus", 0, 4, "PERSON")], {"emma": 0}, aliases)
    assert aliases.forms == [f"name{i} emma" for i in range(32)]
    assert {one.entity for one in found.links} == {"emma", "nobody"}
    assert found.unlinked == ("tea", "Zeus")


def test_names_beyond_the_lookup_limit_are_linked_by_their_parts():
    unknown = [Mention(f"Name{i}", 0, 4, "PERSON") for i in range(32)]
    found = link(
        [*unknown, Mention("Name32 Emma", 0, 4, "PERSON")], {"emma": 0}, RecordingAliases()
    )
    assert [(one.mention, one.how) for one in found.links] == [
        ("Name0", "alias"),
        ("Name32 Emma", "part"),
    ]


def test_mention_with_the_higher_score_is_kept():
    found = link_with_aliases(["Bennet", "Elizabeth Bennett"], "jane bennet", "elizabeth bennet")
    assert {(one.mention, one.entity, one.score) for one in found.links} == {
        ("Bennet", "jane bennet", 0.5),
        ("Elizabeth Bennett", "elizabeth bennet", 0.9697),
    }
    [kept] = link_with_aliases(
        ["EB", "Elizabeth Bennett", "Elizabet Bennet"], "elizabeth bennet"
    ).links
    assert kept.mention == "EB"


# Edits


def link_edited(names, *entities, noun=False, nouns=(), **edits):
    mentions = [Mention(name, 0, 1, NOUN if noun else "PERSON") for name in names]
    rows = {entity: row for row, entity in enumerate(entities)}
    known = EntityEdits(tuple(new_edits(*map(edits.get, ("alias", "separate", "stop")))))
    named, doc_freq = np.ones(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.int64)
    aliases = Aliases(list(entities), named, doc_freq, known)
    noun_rows = {name: rows[name] for name in nouns}
    found = link(mentions, rows, aliases, noun_rows if noun else None, edits=known)
    return [(one.entity, one.how) for one in found.links], found.unlinked


@pytest.mark.parametrize("name", ["Bob", "the BOB's", "Mr. Bob", "Bobby"])
def test_an_alias_of_the_user_links_to_its_entity(name):
    edits = {"alias": {"Bob": "Robert Smith", "Bobby": "Bob"}}
    assert link_edited([name], "robert smith", **edits)[0] == [("robert smith", "user alias")]


def test_an_alias_of_the_user_links_a_noun():
    found = link_edited(["captain"], "ahab", noun=True, alias={"the captain": "Ahab"})
    assert found == ([("ahab", "user alias")], ())


def test_alternative_names_of_an_alias_link_to_its_entity():
    edits = {"alias": {"Bartholomew Jones": "Robert Smith"}}
    assert link_edited(["Jones"], "robert smith", **edits)[0] == [("robert smith", "alias")]
    misspelled = link_edited(["Bartolomew Jones"], "robert smith", **edits)
    assert misspelled[0] == [("robert smith", "similar")]
    part = link_edited(["Old Bartholomew Jones"], "robert smith", **edits)
    assert part[0] == [("robert smith", "part")]


def test_an_alias_whose_entity_is_gone_links_like_its_entity():
    edits = {"alias": {"Bob": "Robert Smith"}}
    assert link_edited(["Bob"], "smith", **edits)[0] == [("smith", "part")]
    assert link_edited(["Bob"], "anna", **edits) == ([], ("Bob",))


def test_an_entity_in_the_index_precedes_the_alias_without_its_title():
    found = link_edited(["Mr. Bob"], "mr. bob", "robert", alias={"Bob": "Robert"})
    assert found[0] == [("mr. bob", "exact")]


def test_a_stopped_name_is_ignored():
    assert link_edited(["Smith"], "john smith", stop=["Smith"]) == ([], ())
    assert link_edited(["Dr. Smith"], "john smith", stop=["Smith"]) == ([], ())
    assert link_edited(["John Smith"], "smith", stop=["John Smith"]) == ([], ())


@pytest.mark.parametrize(
    ("name", "entity"),
    [
        ("Jon Smithson", "john smithson"),  # similar
        ("Smithson", "john smithson"),  # surname
        ("John Smithson", "smithson"),  # part
        ("Mr. Smithson", "smithson"),  # without the form of address
    ],
)
def test_separate_names_are_never_linked(name, entity):
    assert link_edited([name], entity)[0]
    assert link_edited([name], entity, separate=[(name, entity)]) == ([], (name,))


def test_a_separate_name_links_to_the_next_entity():
    entities = ("john smith", "jane smith")
    found = link_edited(["Smith"], *entities, separate=[("Smith", "John Smith")])
    assert found[0] == [("jane smith", "alias")]


def test_spellings_that_the_user_separated_link_to_their_own_entities():
    found = link_edited(["US", "us"], "US", "us", separate=[("US", "us")])
    assert found[0] == [("US", "exact"), ("us", "exact")]


def test_an_alias_links_to_the_other_meanings_of_its_own_name():
    homonym = EntityEdit("homonym", ("Hermes", "Hermes (god)", "q"))
    edits = EntityEdits((EntityEdit("alias", ("Hermes", "Mercury")), homonym))
    entities = {"mercury": 0, edits.entity_of("Hermes (god)"): 1}
    linking = link([Mention("Hermes", 7, 13, "PERSON")], entities, edits=edits)
    assert {one.entity for one in linking.links} == set(entities)


def test_a_part_of_a_name_does_not_link_to_a_word_that_differs_in_capitals():
    edits = EntityEdits((EntityEdit("separate", ("US", "us")),))
    linking = link([Mention("US Navy", 0, 7, "ORG")], {"US": 0, "us": 1}, edits=edits)
    assert linking.links == ()
