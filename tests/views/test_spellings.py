"""Entities as the texts write them, and the choice between names and common nouns."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.views.graph import (
    find_connection,
    list_entities,
    neighborhood,
    path_nodes,
)
from fakes import NamesAndNouns


def new_index(*documents, **edits):
    rag = E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        models=Models(extractor=NamesAndNouns()),
        settings=IndexSettings(chunk_size=16, chunk_overlap=0),
    )
    rag.add(documents)
    if edits:
        rag.edit_entities(**edits)
    return rag


TEXT = (
    "WEENA ran. A thing saw Weena at the harbour. In time Weena met the Time\nTraveller there. "
    "The times saw McTavish. MCTAVISH saw things. Time. The time was short, and things were few. "
    "Her time came, said Weena to a thing. WEENA. Once the Time Traveller met McTavish in time."
)


@pytest.fixture(scope="module")
def rag():
    documents = [
        SourceDocument("story", TEXT, title="The Eloi of McTavish", metadata={"kind": "tale"}),
        SourceDocument("shout", "WEENA. WEENA. WEENA. WEENA.", metadata={"kind": "cry"}),
    ]
    with new_index(*documents) as index:
        yield index


def labels(found):
    return {one.name: one.label for one in found}


def test_labels_are_the_most_frequent_spelling_on_one_line(rag):
    scoped = labels(list_entities(rag.scoped({"kind": "tale"})).items)
    assert scoped["weena"] == "Weena"
    assert scoped["time traveller"] == "Time Traveller"
    assert scoped["mctavish"] == "McTavish"
    assert scoped["thing"] == "thing"
    assert labels(list_entities(rag.scoped({"kind": "cry"})).items) == {"weena": "WEENA"}
    assert labels(list_entities(rag).items)["weena"] == "WEENA"


def test_labels_are_equal_in_every_view(rag):
    expected = labels(list_entities(rag).items)
    found = neighborhood(rag, "weena")
    assert len(found.nodes) > 1
    assert labels(found.nodes).items() <= expected.items()
    paths = find_connection(rag, "weena", "mctavish")
    nodes = path_nodes(rag, paths)
    assert {one.name for one in nodes} == {name for path in paths for name in path.entities}
    assert labels(nodes).items() <= expected.items()
    assert path_nodes(rag, ()) == ()


def test_a_title_or_an_edit_is_the_label_of_what_no_text_writes():
    story = SourceDocument("story", "Anna met Bert.", title="The MacGuffin")
    with new_index(story) as rag:
        assert labels(list_entities(rag).items) == {
            "anna": "Anna",
            "bert": "Bert",
            "macguffin": "The MacGuffin",
        }
    other = SourceDocument("other", "Robert McBride slept.")
    with new_index(story, other, alias={"Bert": "Robert McBride"}) as rag:
        rag.delete("other")
        assert labels(list_entities(rag).items)["robert mcbride"] == "Robert McBride"


def test_names_only_leaves_out_words_that_are_seldom_names(rag):
    named = {one.name for one in list_entities(rag).items if one.named}
    assert "time" in named  # once, at the start of a sentence
    found = list_entities(rag, names_only=True)
    names = {one.name for one in found.items}
    assert {"weena", "time traveller", "mctavish"} <= names
    assert names & {"time", "thing", "harbour"} == set()
    assert found.total == len(found.items)
    assert {one.is_name for one in found.items} == {True}
    everything = list_entities(rag).items
    assert {one.name for one in everything if not one.is_name} == {"time", "thing", "harbour"}
    assert list_entities(rag, "ti", limit=1, names_only=True).items[0].name == "time traveller"


def test_neighborhood_of_names_counts_the_nouns_that_it_leaves_out(rag):
    everything = neighborhood(rag, "weena")
    found = neighborhood(rag, "weena", names_only=True)
    nouns = [one.name for one in everything.nodes if not one.is_name]
    assert nouns
    assert [one.name for one in found.nodes] == [
        one.name for one in everything.nodes if one.is_name
    ]
    assert (found.nouns, found.omitted) == (len(nouns), len(nouns))
    assert (everything.nouns, everything.omitted) == (0, 0)
    drawn = {one.name for one in found.nodes}
    assert {one for edge in found.edges for one in (edge.source, edge.target)} <= drawn
    around = neighborhood(rag, "thing", names_only=True)
    assert (around.center, around.nodes[0].is_name) == ("thing", False)
    assert {one.is_name for one in around.nodes[1:]} == {True}


def test_a_noun_is_a_name_where_documents_are_about_it():
    article = SourceDocument("harbour", "Anna says a harbour is deep.", title="Harbour")
    other = SourceDocument("other", "Bert saw a harbour.")
    third = SourceDocument("third", "Cleo saw a harbour.")

    def names(*documents):
        with new_index(*documents) as rag:
            return {one.name for one in list_entities(rag, names_only=True).items}

    assert names(article) == {"anna", "harbour"}
    assert names(article, other) == {"anna", "bert", "harbour"}
    assert names(article, other, third) == {"anna", "bert", "cleo"}
