"""Contents attached to nodes: they follow their nodes, and are no windows."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError, IndexingError
from fakes import STORY

KEYS = (b"a" * 32, b"b" * 32, b"c" * 32)


@pytest.fixture(params=["file", "postgres"])
def rag(request, tmp_path, open_index):
    """An index with one document, whose first chunk has two contents."""
    is_file = request.param == "file"
    place = tmp_path / "i.e2g" if is_file else request.getfixturevalue("postgres_url")
    rag = open_index(place)
    rag.add(SourceDocument("story", STORY))
    rag.store.put_cached("note", {key: key for key in KEYS})
    rag.store.replace_attached({first_chunk(rag): KEYS[:2]}, lambda old: {**old, "note": "1"})
    return rag


def first_chunk(rag):
    return next(one.node.id for one in rag.store.all_nodes() if not one.node.level)


def left(rag):
    return sorted(rag.store.cached(KEYS))


def test_they_are_read_in_order_and_change_neither_windows_nor_counts(rag):
    first = first_chunk(rag)
    assert rag.store.attached() == {first: list(KEYS[:2])}
    stored = {one.node.id: one for one in rag.store.all_nodes()}
    assert stored[first].attached == KEYS[:2]
    assert all(one.windows and (id_ == first or not one.attached) for id_, one in stored.items())
    assert rag.store.manifest()["note"] == "1"
    assert rag.verify().ok
    assert left(rag) == list(KEYS)  # the last one is not linked, and not dropped by the others


def test_others_replace_them_and_the_old_ones_are_dropped(rag):
    rag.store.replace_attached({first_chunk(rag): KEYS[2:]}, dict)
    assert (rag.store.attached(), left(rag)) == ({first_chunk(rag): [KEYS[2]]}, [KEYS[2]])
    rag.store.replace_attached({first_chunk(rag): ()}, dict)
    assert (rag.store.attached(), left(rag)) == ({}, [])


def test_contents_that_are_not_cached_cannot_be_attached(rag):
    with pytest.raises(IndexingError, match="another writer changed"):
        rag.store.replace_attached({first_chunk(rag): [b"d" * 32]}, dict)
    assert rag.store.attached() == {first_chunk(rag): list(KEYS[:2])}


@pytest.mark.fast_cases(1)
def test_they_follow_unchanged_chunks_and_are_deleted_with_changed_ones(rag):
    rag.update(SourceDocument("story", STORY, metadata={"year": 1890}))
    assert rag.store.attached() == {first_chunk(rag): list(KEYS[:2])}
    rag.update(SourceDocument("story", f"Once, {STORY}"))
    assert rag.store.attached() == {}
    rag.store.drop_unused()
    assert left(rag) == []
    assert rag.verify().ok


def test_they_are_deleted_with_their_document(rag):
    rag.delete("story")
    assert (rag.store.attached(), left(rag)) == ({}, [])


def test_another_extractor_and_another_embedder_keep_them(rag):
    rag.reembed("hashing")
    rag.reindex()
    assert rag.store.attached() == {first_chunk(rag): list(KEYS[:2])}
    assert rag.verify().ok


def test_damage_is_found(open_index):
    rag = open_index()
    rag.add(SourceDocument("story", STORY))
    rag.store.put_cached("note", {KEYS[0]: b"x"})
    rag.store.replace_attached({first_chunk(rag): KEYS[:1]}, dict)
    with rag.store.transaction() as db:
        db.execute("UPDATE windows SET start = 1 WHERE number < 0")
    with pytest.raises(CorruptStoreError, match="content attached to node"):
        rag.store.attached()
    assert not rag.verify().ok
