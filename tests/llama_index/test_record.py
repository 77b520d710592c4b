"""`DocumentRecord` and `Mentions`: what the index struct keeps of a document."""

from __future__ import annotations

import string
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, Mentions, Window
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
    return [[record.leaf_metadata[row] for row in rows] for rows in record.of_leaf]


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
        of_leaf=[draw(rows) if metadata else () for _ in spans],
        segments=draw(st.lists(st.tuples(st.integers(), st.integers(), _METADATA), max_size=2)),
        gaps=draw(st.lists(texts(3), max_size=3)),
        nodes=nodes,
        words=[draw(st.integers(0, 99)) for _ in spans],
        windows=windows,
        mentions=Mentions.of(draw(chunks(len(spans)))),
    )


@given(records())
@quick
def test_a_record_comes_back_as_it_was(record):
    assert DocumentRecord.decode(record.encode(), "here") == record


@given(st.integers(0, 4).flatmap(chunks))
@quick
def test_mentions_come_back_chunk_by_chunk(found):
    assert Mentions.of(found).chunks() == found


@given(records(), st.data())
@quick
def test_without_some_nodes_the_rest_is_a_sound_tree(record, data):
    all_ids = [node.id for node in record.nodes]
    gone = frozenset(data.draw(st.lists(st.sampled_from(all_ids)))) if all_ids else frozenset()
    rest = record.without(gone)
    before = {node.id: node for node in record.nodes}
    after = {node.id: node for node in rest.nodes}
    children = {node.id: node.child_ids for node in with_child_ids(record.nodes)}
    # Left is what was not asked to go, less the summaries that say what went.
    assert not after.keys() & gone
    for id_ in before.keys() - after.keys():
        assert id_ in gone or any(child not in after for child in children[id_])
    for node in with_child_ids(rest.nodes):
        assert node.child_ids == children[node.id]
        assert node.parent_id == (before[node.id].parent_id if node.parent_id else None)
        assert node.parent_id is not None or before[node.id].parent_id not in after
    by_level: dict[int, list[int]] = {}
    for node in rest.nodes:
        by_level.setdefault(node.level, []).append(node.position)
    assert all(places == list(range(len(places))) for places in by_level.values())
    kept = [i for i, leaf in enumerate(record.leaves) if leaf.id in after]
    assert rest.words == [record.words[i] for i in kept]
    assert metadata_of(rest) == [metadata_of(record)[i] for i in kept]
    assert rest.mentions.chunks() == [record.mentions.chunks()[i] for i in kept]
    assert [(rest.nodes[w.node].id, *w[1:]) for w in rest.windows] == [
        (record.nodes[w.node].id, *w[1:])
        for w in record.windows
        if record.nodes[w.node].id in after
    ]
    again = DocumentRecord.decode(rest.encode(), "here")
    assert (metadata_of(again), again.nodes) == (metadata_of(rest), rest.nodes)


@given(records(), st.data())
@quick
def test_a_flipped_character_is_noticed_or_does_no_harm(record, data):
    payload = record.encode()
    at = data.draw(st.integers(0, len(payload) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda c: c != payload[at]))
    try:
        read = DocumentRecord.decode(payload[:at] + other + payload[at + 1 :], "record 7")
    except CorruptStoreError as error:
        assert "record 7 is damaged" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert read == record


@given(records(), st.data())
@quick
def test_a_payload_cut_short_is_noticed(record, data):
    payload = record.encode()
    with pytest.raises(CorruptStoreError, match="is damaged"):
        DocumentRecord.decode(payload[: data.draw(st.integers(0, len(payload) - 9))], "it")


@given(st.lists(records(), max_size=3, unique_by=lambda record: record.id))
@quick
def test_a_struct_comes_back_through_json(some):
    struct = E2GraphRAGIndexStruct(made_with={"chunk_size": "16"})
    struct.put(some)
    read = E2GraphRAGIndexStruct.from_json(struct.to_json())
    assert read == struct
    assert list(read.records()) == sorted(some, key=lambda record: record.id)


def test_a_record_under_another_documents_id_is_noticed():
    struct = E2GraphRAGIndexStruct()
    record = DocumentRecord("a", "", None, {}, [], [], [], [""], [], [], [], Mentions.of([]))
    struct.payloads = {"b": record.encode()}
    with pytest.raises(CorruptStoreError, match="document 'b' of index"):
        struct.record("b")
