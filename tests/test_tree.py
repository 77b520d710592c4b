import hashlib
import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.chunking import chunk_spans
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.tree import (
    ContentGroups,
    FixedGroups,
    level_sizes,
    plan_tree,
    without_overlap,
)
from e2graphrag_integrations.types import Span
from strategies import WordCounter, quick


def words_and_spans(words):
    """One chunk a word, separated by spaces."""
    text = " ".join(words)
    return text, [Span(*span) for span in WordCounter().spans(text)]


def tree_of(words, group_size=5, document_id="doc"):
    text, spans = words_and_spans(words)
    return plan_tree(document_id, text, spans, FixedGroups(group_size))


def numbered(count):
    return [f"w{i}" for i in range(count)]


@pytest.mark.parametrize(
    ("chunks", "sizes"),
    [
        (0, []),
        (1, [1]),  # one chunk has no summary
        (2, [2, 1]),
        (3, [3, 1]),
        (5, [5, 1]),
        (6, [6, 2]),  # ceil(6/5) = 2, which is at most 5
        (25, [25, 5]),
        (26, [26, 6, 2]),
        (100, [100, 20, 4]),
        (137, [137, 28, 6, 2]),  # 28 + 6 + 2 = 36 summaries
        (151, [151, 31, 7, 2]),  # 31 + 7 + 2 = 40 summaries
    ],
)
def test_level_sizes(chunks, sizes):
    assert level_sizes(chunks) == sizes


@pytest.mark.parametrize(("chunks", "summaries"), [(0, 0), (1, 0), (137, 36), (151, 40)])
def test_number_of_summaries(chunks, summaries):
    assert sum(level_sizes(chunks)[1:]) == summaries


def test_a_group_of_one_is_refused():
    with pytest.raises(InvalidInputError, match="group_size=1"):
        level_sizes(3, 1)


def test_no_chunks_make_an_empty_tree():
    tree = plan_tree("doc", "", [])
    assert tree.levels == ()
    assert tree.nodes == ()


def test_one_chunk_is_its_own_root():
    [node] = tree_of(["alone"]).nodes
    assert (node.level, node.parent_id, node.child_ids) == (0, None, ())
    assert (node.text, node.start, node.end) == ("alone", 0, 5)


def test_a_tree_of_151_chunks_is_right_where_the_official_code_breaks():
    """There, the last groups get children that do not exist, and spans and levels are wrong."""
    text, spans = words_and_spans(numbered(151))
    tree = plan_tree("doc", text, spans)
    assert [len(level) for level in tree.levels] == [151, 31, 7, 2]
    chunks, first, second, third = tree.levels
    nodes = {node.id: node for node in tree.nodes}
    assert len(nodes) == 191

    # 151 = 30 * 5 + 1: the last summary of level 1 has one child, chunk 150.
    assert [len(node.child_ids) for node in first] == [5] * 30 + [1]
    assert first[30].child_ids == (chunks[150].id,)
    # 31 = 6 * 5 + 1 and 7 = 5 + 2.
    assert [len(node.child_ids) for node in second] == [5] * 6 + [1]
    assert second[6].child_ids == (first[30].id,)
    assert [len(node.child_ids) for node in third] == [5, 2]
    assert third[1].child_ids == (second[5].id, second[6].id)

    assert all(child in nodes for node in tree.nodes for child in node.child_ids)
    # Root 0 covers 5 * 5 * 5 = 125 chunks, root 1 the other 26.
    assert (third[0].start, third[0].end) == (spans[0].start, spans[124].end)
    assert (third[1].start, third[1].end) == (spans[125].start, spans[150].end)
    assert (second[6].start, second[6].end) == spans[150]
    assert [node.parent_id for node in third] == [None, None]
    assert chunks[150].parent_id == first[30].id
    assert first[30].parent_id == second[6].id
    assert second[6].parent_id == third[1].id
    assert [node.text for node in (*first, *second, *third)] == [""] * 40


shapes = st.tuples(st.integers(1, 160), st.integers(2, 7))


@quick
@given(shapes)
def test_parents_children_levels_positions_and_spans_agree(shape):
    count, group_size = shape
    text, spans = words_and_spans(numbered(count))
    tree = plan_tree("doc", text, spans, FixedGroups(group_size))
    nodes = {node.id: node for node in tree.nodes}
    assert len(nodes) == len(tree.nodes)
    assert [len(level) for level in tree.levels] == level_sizes(count, group_size)
    for number, level in enumerate(tree.levels):
        assert [node.position for node in level] == list(range(len(level)))
        assert {node.level for node in level} == {number}
    for node in tree.nodes:
        if node.level == 0:
            assert node.text == text[node.start : node.end]
            assert node.child_ids == ()
            continue
        children = [nodes[child] for child in node.child_ids]
        assert 1 <= len(children) <= group_size
        assert {child.parent_id for child in children} == {node.id}
        assert {child.level for child in children} == {node.level - 1}
        assert (node.start, node.end) == (children[0].start, children[-1].end)


@quick
@given(shapes)
def test_every_chunk_is_under_exactly_one_root_and_there_are_one_to_g_roots(shape):
    count, group_size = shape
    tree = tree_of(numbered(count), group_size)
    nodes = {node.id: node for node in tree.nodes}
    roots = [node for node in tree.nodes if node.parent_id is None]
    assert 1 <= len(roots) <= group_size
    assert {root.level for root in roots} == {len(tree.levels) - 1}
    assert (len(tree.levels) > 1) == (count > 1)

    def leaves(node):
        if not node.child_ids:
            return [node.id]
        return [leaf for child in node.child_ids for leaf in leaves(nodes[child])]

    under = [leaf for root in roots for leaf in leaves(root)]
    assert under == [node.id for node in tree.levels[0]]


@quick
@given(shapes, st.data())
def test_changing_one_chunk_renames_only_the_path_to_its_root(shape, data):
    count, group_size = shape
    changed = data.draw(st.integers(0, count - 1))
    words = numbered(count)
    before = tree_of(words, group_size)
    words[changed] = "CHANGED"
    after = tree_of(words, group_size)
    position = changed
    for old, new in zip(before.levels, after.levels, strict=True):
        different = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a.id != b.id]
        assert different == [position]
        position //= group_size


def test_inserting_a_chunk_keeps_the_ids_of_the_others():
    old = {node.id for node in tree_of(["a", "b", "c"]).levels[0]}
    new = {node.id for node in tree_of(["a", "x", "b", "c"]).levels[0]}
    assert old < new


def test_equal_chunks_get_different_ids_by_their_count():
    tree = tree_of(["same", "other", "same", "same"])
    ids = [node.id for node in tree.levels[0]]
    assert len(set(ids)) == 4
    assert ids[:3] == [node.id for node in tree_of(["same", "other", "same"]).levels[0]]


def test_ids_are_uuid5_of_document_and_content_with_lengths():
    """Fixed for ever: files on disk and users' references hold them."""
    namespace = uuid.UUID("8d4f4f0e-6c1d-5b0a-9d52-0d1f6f0c8a3e")
    digest = hashlib.sha256(b"a").hexdigest()
    first, second, root = tree_of(["a", "b"]).nodes
    assert first.id == str(uuid.uuid5(namespace, f"3:doc5:chunk64:{digest}1:0"))
    assert root.id == str(uuid.uuid5(namespace, f"3:doc1:136:{first.id}36:{second.id}"))
    assert tree_of(["a", "b"], document_id="x").nodes[0].id != first.id


def test_overlap_is_removed_between_joined_chunks():
    text = "a b c d e f g h"
    spans = chunk_spans(text, WordCounter(), chunk_size=4, chunk_overlap=1)
    chunks = plan_tree("doc", text, spans).levels[0]
    assert [chunk.text for chunk in chunks] == ["a b c d", "d e f g", "g h"]
    assert without_overlap(chunks) == ["a b c d", "e f g", "h"]


def test_summaries_and_chunks_without_overlap_come_back_as_they_are():
    tree = tree_of(numbered(7))
    assert without_overlap(tree.levels[0]) == numbered(7)
    assert without_overlap(tree.levels[1]) == ["", ""]


@quick
@given(st.integers(1, 60), st.integers(2, 12), st.data())
def test_texts_without_overlap_join_to_the_document(count, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    text = " ".join(numbered(count))
    spans = chunk_spans(text, WordCounter(), chunk_size=size, chunk_overlap=overlap)
    chunks = plan_tree("doc", text, spans).levels[0]
    assert " ".join(without_overlap(chunks)) == text
    assert all(a.end < b.end for a, b in pairwise(chunks))
