from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.builder import build_graph
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
        ("Dune (1965) (novel)", "dune"),
        ("Dune (1965)（小说）", "dune"),
        ("Dune (a (b)) I", "dune (a (b)) i"),
        ("Dune b)c (d)", "dune b)c"),
        ("(a) (b)", "a"),
        ("(a", "a"),
    ],
)
def test_title_form_drops_parentheses_at_the_end(title, form):
    assert title_form(title) == form


def test_title_form_takes_linear_time_for_many_parentheses():
    code = """
from e2graphrag_integrations.graph.titles import title_form
assert title_form("Dune" + " (a)" * 400_000) == "dune"
"""
    # In quadratic time, this takes over an hour.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_title_form_keeps_a_title_entirely_in_parentheses():
    assert title_form("(Untitled)") == "untitled"


@pytest.mark.parametrize("title", [None, "", "  ", "()", "?!", "(…)"])
def test_title_without_a_word_has_an_empty_form(title):
    assert title_form(title) == ""


def test_new_titles_follow_the_entities_of_the_graph():
    entities = TitledEntities.from_titles(
        graph_of("anna", "oslo"), ["Zoo", "Oslo", "Bergen", None, "ZOO (film)", "?"]
    )
    assert list(entities.names) == ["anna", "oslo", "zoo", "bergen"]
    assert entities.title_of_document.tolist() == [2, 1, 3, -1, 2, -1]
    assert entities.index == {"anna": 0, "oslo": 1, "zoo": 2, "bergen": 3}


def test_documents_are_grouped_by_title_in_order():
    titles = ["Zoo", "Oslo", None, "ZOO (film)"]
    entities = TitledEntities.from_titles(graph_of("anna", "oslo"), titles)
    assert entities.documents == {1: [1], 2: [0, 3]}


def test_index_without_documents_has_only_the_graphs_entities():
    entities = TitledEntities.from_titles(graph_of("anna"), [])
    assert list(entities.names) == ["anna"]
    assert (entities.title_of_document.tolist(), entities.documents) == ([], {})
    assert entities.title_of_document.dtype.kind == "i"


titles = st.lists(
    st.none() | st.text("ab ()?", max_size=6) | st.sampled_from(["Anna", "Anna (film)", "Oslo"]),
    max_size=8,
)


@given(st.lists(st.sampled_from(["a", "b", "anna", "cleo"]), unique=True), titles)
def test_titles_and_names_map_to_each_other(names, drawn):
    graph = graph_of(*names)
    entities = TitledEntities.from_titles(graph, drawn)
    rows = entities.title_of_document.tolist()
    forms = [title_form(title) for title in drawn]
    assert [entities.names[row] if row >= 0 else "" for row in rows] == forms
    assert list(entities.names[: len(graph.names)]) == list(graph.names)
    assert len(set(entities.names)) == len(entities.names)
    assert set(entities.names) == {*names, *forms} - {""}
    pairs = [(entity, d) for entity, documents in entities.documents.items() for d in documents]
    assert sorted(pairs) == sorted((row, d) for d, row in enumerate(rows) if row >= 0)
