import numpy as np
import pytest

from e2graphrag_integrations.entities.aliases import Alias, Aliases
from e2graphrag_integrations.entities.linking import Link, Linking, link
from e2graphrag_integrations.types import NOUN, Mention


def linked(names, *entities):
    mentions = [Mention(name, 0, len(name), "PERSON") for name in names]
    return link(mentions, {entity: row for row, entity in enumerate(entities)})


def by_aliases(names, *entities, label="PERSON"):
    """Link names where entities are found by their aliases too; all are names, each in a chunk."""
    ones = np.ones(len(entities), dtype=np.int64)
    mentions = [Mention(name, 0, len(name), label) for name in names]
    known = Aliases(entities, ones.astype(np.bool_), ones)
    return link(mentions, {entity: row for row, entity in enumerate(entities)}, known)


class Asked:
    """Knows everybody as `nobody`, and notes who was looked up."""

    def __init__(self):
        self.forms = []

    def find(self, form):
        self.forms.append(form)
        return Alias("nobody", "alias", 0.5)


def test_the_exact_normal_form_wins_over_its_parts():
    found = linked(["Elizabeth  BENNET"], "elizabeth", "elizabeth bennet", "bennet")
    assert found.links == (Link("Elizabeth  BENNET", "elizabeth bennet", "exact", 1.0),)


def test_an_entity_that_keeps_its_honorific_is_found_exactly():
    assert linked(["Lady Lucas"], "lucas", "lady lucas").links[0].how == "exact"


@pytest.mark.parametrize("name", ["Mr. Darcy", "the Reverend Mr Darcy", "Sir Darcy"])
def test_honorifics_are_stripped_where_the_full_name_is_unknown(name):
    assert linked([name], "darcy").links == (Link(name, "darcy", "stripped", 1.0),)


def test_the_longest_part_that_is_an_entity_is_taken():
    # 9 of the 16 characters of "elizabeth bennet": 0.5625.
    assert linked(["Elizabeth Bennet"], "elizabeth") == Linking(
        (Link("Elizabeth Bennet", "elizabeth", "part", 0.5625),), ()
    )
    [found] = linked(["Fitzwilliam Darcy of Pemberley"], "darcy", "darcy of pemberley").links
    assert found.entity == "darcy of pemberley"


def test_of_equally_long_parts_the_left_one_is_taken():
    assert linked(["Jane Anne"], "anne", "jane").links[0].entity == "jane"


def test_the_score_of_a_part_leaves_honorifics_out():
    # "miss elizabeth bennet" is stripped to 16 characters before parts are measured.
    assert linked(["Miss Elizabeth Bennet"], "bennet").links[0].score == 0.375


def test_a_part_of_a_chinese_name_is_found_without_spaces():
    assert linked(["北京市政府"], "北京").links == (Link("北京市政府", "北京", "part", 0.4),)


def test_a_word_is_never_linked_by_some_of_its_letters():
    assert linked(["Zürichsee", "Marsupial"], "zürich", "mars").unlinked == (
        "Zürichsee",
        "Marsupial",
    )


def test_an_entity_is_linked_once_by_its_best_mention():
    found = linked(["Elizabeth Bennet", "Elizabeth", "elizabeth"], "elizabeth")
    assert found.links == (Link("Elizabeth", "elizabeth", "exact", 1.0),)


def test_mentions_without_an_entity_are_listed_once_in_order():
    found = linked(["Zeus", "Hera", "Zeus", "?!"], "darcy")
    assert found == Linking((), ("Zeus", "Hera", "?!"))


def test_no_mentions_and_no_entities_link_to_nothing():
    assert linked([]) == linked([], "darcy") == Linking((), ())


def test_an_endless_mention_is_answered():
    """At every part of every length this would fill the memory."""
    name = " ".join(f"Word{i}" for i in range(5000))
    assert linked([name], "word4999").links[0].entity == "word4999"
    assert linked(["北京上海" * 5000], "海北").links[0].entity == "海北"


@pytest.mark.parametrize(
    ("entities", "how", "entity"),
    [
        (["miss katherine", "katherine", "anna katherine"], "exact", "miss katherine"),
        (["katherine", "anna katherine", "katherines"], "stripped", "katherine"),
        (["anna katherine", "katherines"], "alias", "anna katherine"),
        (["katherines", "anna"], "similar", "katherines"),
    ],
)
def test_the_first_rule_that_finds_an_entity_has_the_word(entities, how, entity):
    [found] = by_aliases(["Miss Katherine"], *entities).links
    assert (found.how, found.entity) == (how, entity)


def test_an_alias_and_a_similar_spelling_win_over_a_part():
    [alias] = by_aliases(["United Nations"], "united", "united nations: a history").links
    assert alias == Link("United Nations", "united nations: a history", "alias", 1.0)
    [similar] = by_aliases(["Elizabet Bennet"], "bennet", "elizabeth bennet").links
    assert similar == Link("Elizabet Bennet", "elizabeth bennet", "similar", 0.9677)
    [part] = by_aliases(["Lizzy Bennet"], "bennet", "elizabeth bennet").links
    assert (part.entity, part.how) == ("bennet", "part")


def test_a_common_noun_is_looked_up_by_no_alias():
    entities = ["market town", "butterfly"]
    assert by_aliases(["town", "butterflly"], *entities, label=NOUN).links == ()
    assert len(by_aliases(["town", "butterflly"], *entities, label="NAME").links) == 2
    [part] = by_aliases(["old butterfly"], "butterfly", label=NOUN).links
    assert part.how == "part"


def test_without_aliases_none_are_looked_up():
    assert linked(["Bennet"], "elizabeth bennet") == Linking((), ("Bennet",))


def test_aliases_are_asked_for_stripped_normal_forms_of_what_is_unknown():
    asked = Asked()
    mentions = [Mention(name, 0, 1, "PERSON") for name in ("Emma", "the  Rev. COLLINS", "?!")]
    found = link(mentions, {"emma": 0}, asked)
    assert asked.forms == ["collins"]
    assert found.links[1] == Link("the  Rev. COLLINS", "nobody", "alias", 0.5)
    assert found.unlinked == ("?!",)


def test_at_most_32_unknown_names_are_looked_up_and_others_go_by_their_parts():
    asked = Asked()
    known = [Mention("Emma", 0, 4, "PERSON"), Mention("tea", 0, 3, NOUN)] * 40
    unknown = [Mention(f"Name{i} Emma", 0, 4, "PERSON") for i in range(40)]
    found = link([*known, *unknown, Mention("Zeus", 0, 4, "PERSON")], {"emma": 0}, asked)
    assert asked.forms == [f"name{i} emma" for i in range(32)]
    assert {one.entity for one in found.links} == {"emma", "nobody"}
    assert found.unlinked == ("tea", "Zeus")


def test_names_past_the_limit_are_still_linked_by_their_parts():
    unknown = [Mention(f"Name{i}", 0, 4, "PERSON") for i in range(32)]
    found = link([*unknown, Mention("Name32 Emma", 0, 4, "PERSON")], {"emma": 0}, Asked())
    assert [(one.mention, one.how) for one in found.links] == [
        ("Name0", "alias"),
        ("Name32 Emma", "part"),
    ]


def test_of_two_mentions_of_an_entity_the_surer_one_is_kept():
    found = by_aliases(["Bennet", "Elizabeth Bennett"], "jane bennet", "elizabeth bennet")
    assert {(one.mention, one.entity, one.score) for one in found.links} == {
        ("Bennet", "jane bennet", 0.5),
        ("Elizabeth Bennett", "elizabeth bennet", 0.9697),
    }
    [kept] = by_aliases(["EB", "Elizabeth Bennett", "Elizabet Bennet"], "elizabeth bennet").links
    assert kept.mention == "EB"
