"""The struct shows trees and graph of an open index, and keeps its content or its location."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from llama_index.core import Document, StorageContext, load_index_from_storage
from llama_index.core.schema import TextNode
from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.storage.index_store.keyval_index_store import KVIndexStore
from llama_index.core.storage.kvstore import SimpleKVStore

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SchemaVersionError,
    StoreError,
    UnknownEntityError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from llama_fakes import Digests

STRUCTS = "index_store/data"
"""Collection of the index store."""

MODELS = {"embed_model": "hashing", "extractor": NameExtractor()}


def change_struct(context, change):
    """Change the plain values of the only struct in a storage context."""
    kvstore = context.index_store._kvstore
    [(key, entry)] = kvstore.get_all(STRUCTS).items()
    plain = json.loads(entry["__data__"])
    change(plain)
    kvstore.put(key, entry | {"__data__": json.dumps(plain)}, STRUCTS)


def test_the_struct_gives_the_trees(index_of, documents):
    index = index_of(documents)
    struct = index.index_struct
    nodes = index.docstore.docs
    roots = struct.roots()
    assert {struct.document(root) for root in roots} == {"story", "other"}
    assert all(struct.parent(root) is None for root in roots)
    seen = []
    below = list(roots)
    while below:
        seen.append(below.pop())
        children = struct.children(seen[-1])
        assert children == [one.node_id for one in nodes[seen[-1]].child_nodes or ()]
        assert {struct.parent(child) for child in children} <= {seen[-1]}
        below += children
    assert sorted(seen) == sorted(nodes)
    for read in (struct.children, struct.parent, struct.document):
        with pytest.raises(InvalidInputError, match="the index has no node 'nobody'"):
            read("nobody")


def test_the_struct_gives_the_graph(index_of, documents):
    struct = index_of(documents).index_struct
    assert {"anna", "bert", "fay"} <= {name.casefold() for name in struct.entities()}
    neighbors = struct.neighbors("Anna")
    assert neighbors["bert"] > neighbors["dora"] > 0
    assert neighbors == struct.neighbors("anna")
    chunks = struct.chunks("Anna")
    assert chunks
    assert all("Anna" in struct.rag.nodes([id_])[id_].text for id_ in chunks)
    for read in (struct.neighbors, struct.chunks):
        with pytest.raises(UnknownEntityError, match="Quorbius"):
            read("Quorbius")


def test_the_struct_is_live(index_of, documents):
    index = index_of(documents[:1])
    struct = index.index_struct
    index.insert(documents[1])
    assert {struct.document(root) for root in struct.roots()} == {"story", "other"}
    index.delete_ref_doc("story")
    assert {struct.document(root) for root in struct.roots()} == {"other"}
    assert "Anna" not in struct.entities()


def test_a_node_of_the_user_has_the_id_of_the_user(index_of):
    index = E2GraphRAGIndex(
        [TextNode(id_="mine", text="Anna met Bert in Oslo.")], **grouped(MODELS)
    )
    struct = index.index_struct
    [chunk] = struct.chunks("Anna")
    assert set(index.docstore.docs) >= {chunk} == {"mine"}
    assert struct.parent("mine") in (None, *index.docstore.docs)
    for root in struct.roots():
        assert root in index.docstore.docs
        assert [*struct.children(root), root][0] in index.docstore.docs


def test_a_struct_of_the_index_store_is_not_open(index_of, documents):
    index = index_of(documents)
    saved = index.storage_context.index_store.get_index_struct(index.index_id)
    assert saved.made_with == dict(index.rag.made_with)
    assert saved.counts == {
        "documents": 2,
        "chunks": sum(not n.metadata["e2_level"] for n in index.docstore.docs.values()),
        "summaries": sum(bool(n.metadata["e2_level"]) for n in index.docstore.docs.values()),
    }
    for read in (saved.roots, saved.entities, lambda: saved.children("x")):
        with pytest.raises(InvalidInputError, match=r"not open: call load_index_from_storage"):
            read()


def test_json_gives_an_equal_struct(index_of, documents):
    struct = index_of(documents).index_struct
    plain = struct.to_dict()
    again = E2GraphRAGIndexStruct.from_json(json.dumps(plain))
    assert again.to_dict() == plain
    assert E2GraphRAGIndexStruct.from_dict(json.loads(struct.to_json())).content == again.content
    assert again.content.startswith(b"SQLite format 3")
    assert "SQLite" not in repr(again)


def test_an_index_at_a_path_is_saved_as_its_location(index_of, documents, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with index_of(documents, path="i.e2g") as index:
        plain = index.index_struct.to_dict()
    assert plain["location"] == str(tmp_path / "i.e2g")
    assert zlib.decompress(base64.b64decode(plain["content"])) == b""
    assert plain["counts"]["documents"] == 2
    assert len(json.dumps(plain)) < 3000


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda d: d.update(schema_version=99), SchemaVersionError, "version 99"),
        (lambda d: d.update(schema_version=5), SchemaVersionError, "version 5"),
        (lambda d: d.pop("schema_version"), CorruptStoreError, "without a schema version"),
        (lambda d: d.pop("content"), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(content="?"), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(content="AAAA"), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(content=5), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(made_with=[1]), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(counts={"a": "x"}), CorruptStoreError, "is damaged in the index"),
    ],
)
def test_a_damaged_or_newer_struct_is_rejected(index_of, change, error, message):
    context = StorageContext.from_defaults()
    index_of([Document(id_="a", text="Anna met Bert.")], storage_context=context)
    change_struct(context, change)
    for load in (E2GraphRAGIndex.from_storage, load_index_from_storage):
        with pytest.raises(error, match=message):
            load(context, **grouped(MODELS))


def test_json_that_is_none_is_rejected():
    for text in ("", "{", "[1]", "null", "3"):
        with pytest.raises(CorruptStoreError, match="e2graphrag struct"):
            E2GraphRAGIndexStruct.from_json(text)


def test_content_that_is_no_index_is_rejected(index_of):
    context = StorageContext.from_defaults()
    index_of([Document(id_="a", text="Anna met Bert.")], storage_context=context)
    for content in (b"no SQLite file" * 20, b"SQLite format 3\0" + bytes(4080)):
        encoded = base64.b64encode(zlib.compress(content)).decode()
        change_struct(context, lambda d, encoded=encoded: d.update(content=encoded))
        with pytest.raises(StoreError):
            E2GraphRAGIndex.from_storage(context, **grouped(MODELS))


class CountingKVStore(SimpleKVStore):
    """Stands for a key-value store in a database, such as Redis: it never persists."""

    def __init__(self):
        super().__init__()
        self.puts = 0

    def put(self, key, val, collection="data"):
        self.puts += 1
        super().put(key, json.loads(json.dumps(val)), collection)


async def test_every_write_is_saved_in_the_index_store(index_of, documents):
    """A remote index store has no `persist`, so whatever is not saved at a write is lost."""
    kvstore = CountingKVStore()
    context = StorageContext.from_defaults(index_store=KVIndexStore(kvstore))
    index = index_of(documents[:1], storage_context=context)

    def saved():
        other = StorageContext.from_defaults(index_store=KVIndexStore(kvstore))
        return load_index_from_storage(other, **grouped(MODELS))

    def writes():
        yield lambda: index.insert(documents[1]), {"story", "other"}
        yield lambda: index.insert_nodes([TextNode(id_="n", text="Kit met Lea.")]), {"n"}
        yield lambda: index.delete_nodes(["n"]), {"story", "other"}
        yield lambda: index.update_ref_doc(Document(id_="other", text="Kit left.")), {"other"}
        yield lambda: index.delete_ref_doc("other"), {"story"}

    for write, expected in writes():
        before = kvstore.puts
        write()
        assert kvstore.puts > before
        again = saved()
        assert set(again.ref_doc_info) >= expected
        assert set(again.ref_doc_info) == set(index.ref_doc_info)
        assert list(again.rag.export()) == list(index.rag.export())
    await index.ainsert(documents[1])
    index.rag.edit_entities(stop="Anna")
    assert "Anna" not in saved().rag.graph.names
    assert set(saved().ref_doc_info) == {"story", "other"}


def test_a_second_object_does_not_replace_the_writes_of_the_first(index_of, documents):
    """Objects of an index in memory are copies; without a check, the last save would win."""
    context = StorageContext.from_defaults()
    one = index_of(documents[:1], storage_context=context)
    two = load_index_from_storage(context, **grouped(MODELS))
    three = load_index_from_storage(context, **grouped(MODELS))
    one.insert(documents[1])
    for write in (
        lambda: two.insert(Document(id_="third", text="Kit met Lea.")),
        lambda: two.delete_ref_doc("story"),
        two.build,
        two.rag.reindex,
        lambda: two.rag.edit_entities(stop="Anna"),
    ):
        with pytest.raises(StoreError, match=r"another object has changed .* load it again"):
            write()
    assert set(two.ref_doc_info) == {"story"}
    again = load_index_from_storage(context, **grouped(MODELS))
    again.insert(Document(id_="third", text="Kit met Lea."))
    assert set(load_index_from_storage(context, **grouped(MODELS)).ref_doc_info) == {
        "story",
        "other",
        "third",
    }
    with pytest.raises(StoreError, match="another object"):
        three.insert(documents[1])


class FailingIndexStore(SimpleIndexStore):
    """An index store that fails to save a struct while `fails` is true."""

    fails = False

    def add_index_struct(self, index_struct):
        if self.fails:
            raise ConnectionError("nobody answers")
        super().add_index_struct(index_struct)


def test_the_next_write_saves_what_the_index_store_failed_to_save(index_of, documents):
    context = StorageContext.from_defaults(index_store=FailingIndexStore())
    index = index_of(documents[:1], storage_context=context)
    context.index_store.fails = True
    with pytest.raises(StoreError, match="nobody answers"):
        index.insert(documents[1])
    context.index_store.fails = False
    index.insert(documents[1])  # no new document, but the struct is saved
    again = load_index_from_storage(context, **grouped(MODELS))
    assert set(again.ref_doc_info) == {"story", "other"}


def test_reports_of_an_outdated_copy_replace_no_writes(index_of, documents):
    context = StorageContext.from_defaults()
    options = {"llm": Digests()}
    one = index_of(documents[:1], storage_context=context, **options)
    two = load_index_from_storage(context, **grouped({**MODELS, **options}))
    assert two.rag.communities(reports="summarizer")
    three = load_index_from_storage(context, **grouped({**MODELS, **options}))
    three.insert(documents[1])
    assert two.rag.communities(reports="summarizer")
    again = load_index_from_storage(context, **grouped(MODELS))
    assert set(again.ref_doc_info) == {"story", "other"}
    with pytest.raises(StoreError, match="another object"):
        one.insert(documents[1])
