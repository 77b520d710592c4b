import hashlib
import uuid
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.text.chunking import chunk_spans
from e2graphrag_integrations.tree import (
    ContentGroups,
    FixedGroups,
    plan_tree,
    tree_from_chunks,
    without_overlap,
)
from e2graphrag_integrations.types import Node, Span
from strategies import WordCounter, quick
from tree_oracle import level_sizes


def words_and_spans(words):
    """Return a text of the words and one span per word."""
    text = " ".join(words)
    return text, [Span(*span) for span in WordCounter().spans(text)]


def tree_of(words, group_size=5, document_id="doc"):
    text, spans = words_and_spans(words)
    return plan_tree(document_id, text, spans, FixedGroups(group_size))


def numbered_words(count):
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
def test_number_of_summaries_follows_from_the_chunks(chunks, summaries):
    assert sum(level_sizes(chunks)[1:]) == summaries


def test_group_size_of_one_is_rejected():
    with pytest.raises(InvalidInputError, match="group_size=1"):
        FixedGroups(1)


def test_tree_without_chunks_is_empty():
    tree = plan_tree("doc", "", [])
    assert tree.levels == ()
    assert tree.nodes == ()


def test_single_chunk_is_its_own_root():
    [node] = tree_of(["alone"]).nodes
    assert (node.level, node.parent_id, node.child_ids) == (0, None, ())
    assert (node.text, node.start, node.end) == ("alone", 0, 5)


def test_tree_of_151_chunks_is_correct_where_the_official_code_fails():
    """The official code gives the last groups missing children and wrong spans and levels."""
    text, spans = words_and_spans(numbered_words(151))
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
    text, spans = words_and_spans(numbered_words(count))
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
def test_every_chunk_is_under_one_of_at_most_group_size_roots(shape):
    count, group_size = shape
    tree = tree_of(numbered_words(count), group_size)
    nodes = {node.id: node for node in tree.nodes}
    roots = [node for node in tree.nodes if node.parent_id is None]
    assert 1 <= len(roots) <= group_size
    assert {root.level for root in roots} == {len(tree.levels) - 1}
    assert (len(tree.levels) > 1) == (count > 1)

    def leaves(node):
        if not node.child_ids:
            return [node.id]
        return [leaf for child in node.child_ids for leaf in leaves(nodes[child])]

    found = [leaf for root in roots for leaf in leaves(root)]
    assert found == [node.id for node in tree.levels[0]]


@quick
@given(shapes, st.data())
def test_changed_chunk_changes_only_the_ids_on_its_path_to_the_root(shape, data):
    count, group_size = shape
    changed = data.draw(st.integers(0, count - 1))
    words = numbered_words(count)
    before = tree_of(words, group_size)
    words[changed] = "CHANGED"
    after = tree_of(words, group_size)
    position = changed
    for old, new in zip(before.levels, after.levels, strict=True):
        different = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a.id != b.id]
        assert different == [position]
        position //= group_size


def test_inserted_chunk_keeps_the_ids_of_the_others():
    old = {node.id for node in tree_of(["a", "b", "c"]).levels[0]}
    new = {node.id for node in tree_of(["a", "x", "b", "c"]).levels[0]}
    assert old < new


def test_equal_chunks_have_distinct_ids():
    tree = tree_of(["same", "other", "same", "same"])
    ids = [node.id for node in tree.levels[0]]
    assert len(set(ids)) == 4
    assert ids[:3] == [node.id for node in tree_of(["same", "other", "same"]).levels[0]]


def test_ids_are_uuid5_of_document_and_content_with_lengths():
    """Must never change: files on disk and users' references contain these ids."""
    namespace = uuid.UUID("8d4f4f0e-6c1d-5b0a-9d52-0d1f6f0c8a3e")
    digest = hashlib.sha256(b"a").hexdigest()
    first, second, root = tree_of(["a", "b"]).nodes
    assert first.id == str(uuid.uuid5(namespace, f"3:doc5:chunk64:{digest}1:0"))
    assert root.id == str(uuid.uuid5(namespace, f"3:doc1:136:{first.id}36:{second.id}"))
    assert tree_of(["a", "b"], document_id="x").nodes[0].id != first.id


def test_overlap_between_adjacent_chunks_is_removed():
    text = "a b c d e f g h"
    spans = chunk_spans(text, WordCounter(), chunk_size=4, chunk_overlap=1)
    chunks = plan_tree("doc", text, spans).levels[0]
    assert [chunk.text for chunk in chunks] == ["a b c d", "d e f g", "g h"]
    assert without_overlap(chunks) == ["a b c d", "e f g", "h"]


def test_texts_without_overlap_are_unchanged():
    tree = tree_of(numbered_words(7))
    assert without_overlap(tree.levels[0]) == numbered_words(7)
    assert without_overlap(tree.levels[1]) == ["", ""]


@quick
@given(st.integers(1, 60), st.integers(2, 12), st.data())
def test_texts_without_overlap_join_to_the_document(count, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    text = " ".join(numbered_words(count))
    spans = chunk_spans(text, WordCounter(), chunk_size=size, chunk_overlap=overlap)
    chunks = plan_tree("doc", text, spans).levels[0]
    assert " ".join(without_overlap(chunks)) == text
    assert all(a.end < b.end for a, b in pairwise(chunks))


# Content groups


def leaves(texts):
    return [Node(f"id {n}", "doc", 0, n, n, n + 1, text) for n, text in enumerate(texts)]


def content_tree(texts, size=5, document_id="doc"):
    return tree_from_chunks(document_id, leaves(texts), ContentGroups(size))


def shape(tree):
    """Return the number of children of each summary by level."""
    return [[len(node.child_ids) for node in level] for level in tree.levels[1:]]


def new_summaries(before, after):
    known = {node.id for node in before.nodes}
    return [node for node in after.nodes if node.level and node.id not in known]


few_texts = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=120)
many_texts = st.lists(st.text("abcdef", max_size=6), min_size=1, max_size=120)
any_leaves = few_texts | many_texts | st.integers(1, 120).map(lambda n: ["same"] * n)


@pytest.mark.parametrize("kind", [FixedGroups, ContentGroups])
@pytest.mark.parametrize("size", [1, 0, -3])
def test_group_size_below_two_is_rejected(kind, size):
    with pytest.raises(InvalidInputError, match=f"group_size={size}"):
        kind(size)


@pytest.mark.parametrize("kind", [FixedGroups, ContentGroups])
def test_groupings_compare_by_value(kind):
    assert kind() == kind(5) != kind(4)
    assert hash(kind(3)) == hash(kind(3))
    assert FixedGroups(3) != ContentGroups(3)


@quick
@given(shapes)
def test_fixed_groups_start_at_multiples_of_the_size(shape_):
    count, size = shape_
    assert list(FixedGroups(size).starts(leaves("x" * count))) == list(range(0, count, size))
    tree = tree_from_chunks("doc", leaves("x" * count), FixedGroups(size))
    assert [len(level) for level in tree.levels] == level_sizes(count, size)


def test_content_groups_never_change_between_releases():
    """Files are verified against these groups: if they moved, every file would be invalid."""
    texts = [f"Chunk {number} of it." for number in range(40)]
    assert list(ContentGroups(5).starts(leaves(texts))) == [0, 3, 8, 12, 15, 21, 26, 33]
    assert shape(content_tree(texts, 5)) == [[3, 5, 4, 3, 6, 5, 7, 7], [8]]
    first = [3, 3, 2, 4, 3, 4, 2, 3, 2, 3, 2, 2, 2, 3, 2]
    assert shape(content_tree(texts, 3)) == [first, [3, 2, 5, 2, 3], [5]]


@quick
@given(any_leaves, st.integers(2, 9))
def test_content_groups_have_half_to_twice_the_size(texts, size):
    starts = [*ContentGroups(size).starts(leaves(texts)), len(texts)]
    least = max(2, (size + 1) // 2)
    assert starts[0] == 0
    # A group is smaller only if it contains all the texts.
    assert all(min(least, len(texts)) <= b - a <= 2 * size for a, b in pairwise(starts))


@quick
@given(any_leaves, st.integers(2, 9))
def test_content_levels_shrink_by_half_until_the_group_size(texts, size):
    sizes = [len(level) for level in content_tree(texts, size).levels]
    assert sizes[0] == len(texts)
    assert sizes[-1] <= size
    assert all(2 * above <= below for below, above in pairwise(sizes))
    assert all(below > size for below in sizes[1:-1])
    assert (len(sizes) > 1) == (len(texts) > 1)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("count", [2, 3, 7, 500])
def test_equal_texts_form_a_valid_content_tree(count, size):
    tree = content_tree(["same"] * count, size)
    assert sum(shape(tree)[0]) == count
    assert len(tree.levels[-1]) <= size
    assert len({node.id for node in tree.nodes}) == len(tree.nodes)


@quick
@given(any_leaves, st.integers(2, 7))
def test_parents_children_positions_and_spans_agree_in_content_trees(texts, size):
    tree = content_tree(texts, size)
    nodes = {node.id: node for node in tree.nodes}
    assert len(nodes) == len(tree.nodes)
    for number, level in enumerate(tree.levels):
        assert [node.position for node in level] == list(range(len(level)))
        assert {node.level for node in level} == {number}
    for node in tree.nodes[len(texts) :]:
        children = [nodes[child] for child in node.child_ids]
        assert {child.parent_id for child in children} == {node.id}
        assert (node.start, node.end) == (children[0].start, children[-1].end)
    for level, above in pairwise(tree.levels):
        assert [node.id for node in level] == [child for n in above for child in n.child_ids]
    assert {node.parent_id for node in tree.levels[-1]} == {None}


@quick
@given(any_leaves, st.integers(2, 7))
def test_content_tree_shape_depends_only_on_the_texts(texts, size):
    tree = content_tree(texts, size)
    text = "\n\n ".join(texts)
    spans, at = [], 0
    for one in texts:
        spans.append(Span(at, at + len(one)))
        at += len(one) + 3
    planned = plan_tree("another", text, spans, ContentGroups(size))
    assert shape(planned) == shape(tree)
    assert not {node.id for node in planned.nodes} & {node.id for node in tree.nodes}


@quick
@given(any_leaves, st.integers(2, 7))
def test_content_summary_ids_derive_from_their_children(texts, size):
    namespace = uuid.UUID("8d4f4f0e-6c1d-5b0a-9d52-0d1f6f0c8a3e")
    for node in content_tree(texts, size, "id").nodes:
        if node.level:
            parts = ["id", str(node.level), *node.child_ids]
            name = "".join(f"{len(part)}:{part}" for part in parts)
            assert node.id == str(uuid.uuid5(namespace, name))


@quick
@given(st.integers(2, 90), st.integers(2, 6), st.data())
def test_edit_after_the_start_of_a_chunk_keeps_all_groups(count, size, data):
    texts = [f"Chunk number {n} {'of the text ' * 6}" for n in range(count)]
    changed = data.draw(st.integers(0, count - 1))
    before = content_tree(texts, size)
    texts[changed] = texts[changed][:64] + data.draw(st.text(max_size=9))
    after = tree_from_chunks("doc", leaves(texts), ContentGroups(size))
    assert shape(after) == shape(before)


@quick
@given(st.integers(2, 90), st.integers(2, 6), st.data())
def test_edit_after_the_start_of_a_chunk_changes_only_the_ids_on_its_path(count, size, data):
    words = [f"Chunk-number-{n}-{'of-the-text-' * 6}" for n in range(count)]
    changed = data.draw(st.integers(0, count - 1))
    before = plan_tree("doc", *words_and_spans(words), ContentGroups(size))
    words[changed] += "CHANGED"
    after = plan_tree("doc", *words_and_spans(words), ContentGroups(size))
    changed_nodes = new_summaries(before, after)
    assert [node.level for node in changed_nodes] == list(range(1, len(after.levels)))
    start = after.levels[0][changed].start
    assert all(node.start <= start < node.end for node in changed_nodes)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("size", "mean", "most"), [(3, 8, 16), (5, 5, 10)])
def test_inserted_chunk_changes_few_content_summaries_and_half_of_all_fixed_ones(size, mean, most):
    words = numbered_words(400)
    counts = {}
    for kind in (ContentGroups, FixedGroups):
        before = plan_tree("doc", *words_and_spans(words), kind(size))
        counts[kind] = []
        for at in range(0, 400, 16):
            edited = [*words[:at], "NEW", *words[at:]]
            after = plan_tree("doc", *words_and_spans(edited), kind(size))
            counts[kind].append(len(new_summaries(before, after)))
    assert np.mean(counts[ContentGroups]) < mean
    assert max(counts[ContentGroups]) <= most
    assert np.mean(counts[FixedGroups]) > sum(level_sizes(400, size)[1:]) * 0.4
