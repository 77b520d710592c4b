"""Applying entity edits to the mentions of an index."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.edit_arguments import new_edits
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.graph.builder import graph_from_mentions, mention_table
from e2graphrag_integrations.graph.edited_mentions import apply_edits
from strategies import quick

EDITS = EntityEdits(tuple(new_edits({"a": "b", "e": "f"}, [("c", "d")], ["c"])))
MENTIONS = st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "other", "place"]))
CHUNKS = st.lists(st.lists(st.lists(MENTIONS, max_size=4), max_size=3), max_size=4)


@quick
@given(CHUNKS)
def test_edits_of_mentions_equal_mentions_of_edited_names(chunks):
    renamed = [
        [[(form, named) for n, named in s if (form := EDITS.resolve(n))] for s in chunk]
        for chunk in chunks
    ]
    edited = graph_from_mentions(*apply_edits(*mention_table(chunks), EDITS))
    expected = graph_from_mentions(*mention_table(renamed))
    assert list(edited.names) == list(expected.names)
    assert edited.named.tolist() == expected.named.tolist()
    assert (edited.edges != expected.edges).nnz == 0
    assert (edited.postings != expected.postings).nnz == 0


def test_without_edits_the_mentions_are_not_copied():
    names, mentions = mention_table([[[("a", "other")]]])
    assert apply_edits(names, mentions, EntityEdits())[1] is mentions
