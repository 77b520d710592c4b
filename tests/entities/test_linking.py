import numpy as np
import pytest

from e2graphrag_integrations.entities.aliases import Alias, Aliases
from e2graphrag_integrations.entities.linking import Link, Linking, link
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
    assert link_names(["北京上海" * 5000], "海北").links[0].entity == "海北"


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
