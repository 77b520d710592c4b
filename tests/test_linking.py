import pytest

from e2graphrag_integrations.linking import Link, Linking, link
from e2graphrag_integrations.types import Mention


def linked(names, *entities):
    mentions = [Mention(name, 0, len(name), "PERSON") for name in names]
    return link(mentions, {entity: row for row, entity in enumerate(entities)})


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
