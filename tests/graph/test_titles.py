from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.entity_graph import build_graph
from e2graphrag_integrations.graph.titles import TitledEntities, title_form


def graph_of(*names):
    return build_graph([[[(name, True) for name in names]]])


@pytest.mark.parametrize(
    ("title", "form"),
    [
        ("Dune (novel)", "dune"),
        ("Dune(1965)  ", "dune"),
        ("红楼梦（小说）", "红楼梦"),
        ("Dune (novel) Part Two", "dune (novel) part two"),
        ("The  A-Team (film)", "a-team"),
        ("“Emma”", "emma"),
    ],
)
def test_a_title_loses_what_parentheses_at_its_end_add(title, form):
    assert title_form(title) == form


def test_a_title_that_is_all_in_parentheses_stays():
    assert title_form("(Untitled)") == "untitled"


@pytest.mark.parametrize("title", [None, "", "  ", "()", "?!", "(…)"])
def test_a_title_without_a_word_has_no_form(title):
    assert title_form(title) == ""


def test_titles_that_are_no_entities_follow_those_of_the_graph():
    made = TitledEntities.of(
        graph_of("anna", "oslo"), ["Zoo", "Oslo", "Bergen", None, "ZOO (film)", "?"]
    )
    assert list(made.names) == ["anna", "oslo", "zoo", "bergen"]
    assert made.of_document.tolist() == [2, 1, 3, -1, 2, -1]
    assert made.index == {"anna": 0, "oslo": 1, "zoo": 2, "bergen": 3}


def test_documents_of_one_title_are_found_by_it_in_order():
    made = TitledEntities.of(graph_of("anna", "oslo"), ["Zoo", "Oslo", None, "ZOO (film)"])
    assert made.documents == {1: [1], 2: [0, 3]}


def test_no_documents_add_no_subjects():
    made = TitledEntities.of(graph_of("anna"), [])
    assert (list(made.names), made.of_document.tolist(), made.documents) == (["anna"], [], {})
    assert made.of_document.dtype.kind == "i"


titles = st.lists(
    st.none() | st.text("ab ()?", max_size=6) | st.sampled_from(["Anna", "Anna (film)", "Oslo"]),
    max_size=8,
)


@given(st.lists(st.sampled_from(["a", "b", "anna", "cleo"]), unique=True), titles)
def test_every_title_leads_to_its_name_and_back(names, some):
    graph = graph_of(*names)
    made = TitledEntities.of(graph, some)
    rows = made.of_document.tolist()
    assert [made.names[row] if row >= 0 else "" for row in rows] == [title_form(t) for t in some]
    assert list(made.names[: len(graph.names)]) == list(graph.names)
    assert len(set(made.names)) == len(made.names)
    assert set(made.names) == {*names, *map(title_form, some)} - {""}
    bearers = [(entity, d) for entity, found in made.documents.items() for d in found]
    assert sorted(bearers) == sorted((row, d) for d, row in enumerate(rows) if row >= 0)
