"""`DocumentRecord`, `MentionColumns` and the index struct that stores them."""

from __future__ import annotations

import string
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.record import (
    DocumentRecord,
    MentionColumns,
    Window,
)
from e2graphrag_integrations.tree import FixedGroups, plan_tree, with_child_ids
from e2graphrag_integrations.types import Mention, Span
from strategies import quick, texts

_NAMES = st.one_of(st.text(min_size=1, max_size=8), st.sampled_from(["Oslo", "北京", "é", "map"]))
_METADATA = st.dictionaries(
    st.text(max_size=5),
    st.one_of(
        st.none(),
        st.integers(),
        st.text(max_size=6),
        st.just("\ud800"),
        st.lists(st.integers(0, 9), max_size=3),
    ),
    max_size=3,
)


@st.composite
def mentions(draw):
    name, start = draw(_NAMES), draw(st.integers(0, 999))
    return Mention(
        name, start, start + draw(st.integers(1, 30)), draw(st.sampled_from(["NOUN", "PERSON"]))
    )


def metadata_of(record):
    return [[record.leaf_metadata[row] for row in rows] for rows in record.leaf_metadata_rows]


def chunks(count):
    return st.lists(
        st.lists(st.lists(mentions(), max_size=3), max_size=3), min_size=count, max_size=count
    )


@st.composite
def records(draw):
    count = draw(st.integers(0, 14))
    text = " ".join(f"Item {n} ends." for n in range(count))
    spans, at = [], 0
    for piece in text.split(". ") if count else ():
        spans.append(Span(at, at + len(piece)))
        at += len(piece) + 2
    tree = plan_tree(draw(_NAMES), text, spans, FixedGroups(draw(st.integers(2, 4))))
    nodes = [replace(node, text="", child_ids=()) for node in tree.nodes]
    windows, is_renamed = [], draw(st.booleans())
    for row in range(len(nodes)):
        for number in range(draw(st.integers(1, 2))):
            key = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{row} {number}"))
            windows.append(Window(row, Span(0, number + 1), key, f"s{row}" if is_renamed else key))
    metadata = draw(st.lists(_METADATA, max_size=2))
    rows = st.lists(st.integers(0, len(metadata) - 1), min_size=1, max_size=2, unique=True)
    return DocumentRecord(
        id=tree.document_id,
        hash=draw(st.text(string.hexdigits, max_size=8)),
        title=draw(st.none() | st.text(max_size=8)),
        metadata=draw(_METADATA),
        leaf_metadata=metadata,
        leaf_metadata_rows=[draw(rows) if metadata else () for _ in spans],
        segments=draw(
            st.lists(st.tuples(st.integers(0, 9), st.integers(9, 99), _METADATA), max_size=2)
        ),
        gaps=draw(st.lists(texts(3), max_size=3)),
        nodes=nodes,
        word_counts=[draw(st.integers(0, 99)) for _ in spans],
        windows=windows,
        mentions=MentionColumns.from_chunks(draw(chunks(len(spans)))),
        language=draw(st.sampled_from(["en", "zh"])),
    )


@given(records())
@quick
def test_records_survive_encode_and_decode(record):
    assert DocumentRecord.decode(record.encode(), "here") == record


@given(st.integers(0, 4).flatmap(chunks))
@quick
def test_mention_columns_restore_the_mentions_of_each_chunk(found):
    assert MentionColumns.from_chunks(found).to_chunks() == found


@given(records(), st.data())
@quick
def test_without_nodes_returns_a_consistent_tree(record, data):
    all_ids = [node.id for node in record.nodes]
    removed = frozenset(data.draw(st.lists(st.sampled_from(all_ids)))) if all_ids else frozenset()
    rest = record.without_nodes(removed)
    before = {node.id: node for node in record.nodes}
    after = {node.id: node for node in rest.nodes}
    children = {node.id: node.child_ids for node in with_child_ids(record.nodes)}
    # Only the given nodes and the summaries above them are removed.
    assert not after.keys() & removed
    for id_ in before.keys() - after.keys():
        assert id_ in removed or any(child not in after for child in children[id_])
    for node in with_child_ids(rest.nodes):
        assert node.child_ids == children[node.id]
        assert node.parent_id == (before[node.id].parent_id if node.parent_id else None)
        assert node.parent_id is not None or before[node.id].parent_id not in after
    by_level: dict[int, list[int]] = {}
    for node in rest.nodes:
        by_level.setdefault(node.level, []).append(node.position)
    assert all(places == list(range(len(places))) for places in by_level.values())
    kept = [i for i, leaf in enumerate(record.leaves) if leaf.id in after]
    assert rest.word_counts == [record.word_counts[i] for i in kept]
    assert metadata_of(rest) == [metadata_of(record)[i] for i in kept]
    assert rest.mentions.to_chunks() == [record.mentions.to_chunks()[i] for i in kept]
    assert [(rest.nodes[w.node_row].id, *w[1:]) for w in rest.windows] == [
        (record.nodes[w.node_row].id, *w[1:])
        for w in record.windows
        if record.nodes[w.node_row].id in after
    ]
    again = DocumentRecord.decode(rest.encode(), "here")
    assert (metadata_of(again), again.nodes) == (metadata_of(rest), rest.nodes)


@given(records(), st.data())
@quick
def test_a_changed_character_is_detected_or_harmless(record, data):
    payload = record.encode()
    at = data.draw(st.integers(0, len(payload) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda c: c != payload[at]))
    try:
        read = DocumentRecord.decode(payload[:at] + other + payload[at + 1 :], "record 7")
    except CorruptStoreError as error:
        assert "record 7 is damaged" in str(error)  # noqa: PT017 - both outcomes are valid
    else:
        assert read == record


@given(records(), st.data())
@quick
def test_a_truncated_record_is_detected(record, data):
    payload = record.encode()
    with pytest.raises(CorruptStoreError, match="is damaged"):
        DocumentRecord.decode(payload[: data.draw(st.integers(0, len(payload) - 9))], "it")


@given(st.lists(records(), max_size=3, unique_by=lambda record: record.id))
@quick
def test_structs_survive_json(some):
    struct = E2GraphRAGIndexStruct(made_with={"chunk_size": "16"})
    struct.put_records(some)
    read = E2GraphRAGIndexStruct.from_json(struct.to_json())
    assert read == struct
    assert list(read.records()) == sorted(some, key=lambda record: record.id)


def test_a_record_under_the_id_of_another_document_is_detected():
    struct = E2GraphRAGIndexStruct()
    record = DocumentRecord(
        "a", "", None, {}, [], [], [], [""], [], [], [], MentionColumns.from_chunks([]), "en"
    )
    struct.payloads = {"b": record.encode()}
    with pytest.raises(CorruptStoreError, match="document 'b' of index"):
        struct.record("b")
