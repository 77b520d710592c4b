"""`E2GraphRAGIndex` from folder to folder: another process, other indexes beside it, damage."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import faiss
import pytest
from llama_index.core import (
    Document,
    Settings,
    StorageContext,
    SummaryIndex,
    VectorStoreIndex,
    load_index_from_storage,
    load_indices_from_storage,
)
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import EntityNode
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.vector_stores.faiss import FaissMapVectorStore, FaissVectorStore

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SchemaVersionError,
    SettingsMismatchError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from fakes import NameExtractor
from llama_fakes import Digests

QUESTIONS = ("What did Anna give Bert?", "Who built a mill?", "what is this about?")
DOCSTORE, STRUCTS, VECTORS = "docstore.json", "index_store.json", "default__vector_store.json"

TESTS = Path(__file__).parents[1]


def answers(index):
    return [
        [[n.node_id, n.text, n.score] for n in index.as_retriever(mode).retrieve(question)]
        for question in QUESTIONS
        for mode in ("adaptive", "local", "global")
    ]


def in_faiss(kind=FaissVectorStore):
    index = faiss.IndexFlatIP(256)
    mapped = kind is FaissMapVectorStore
    return StorageContext.from_defaults(
        vector_store=kind(faiss.IndexIDMap2(index) if mapped else index)
    )


def loaded(folder, **options):
    return E2GraphRAGIndex.from_persist_dir(folder, extractor=NameExtractor(), **options)


@pytest.fixture
def folder(tmp_path, index_of, documents):
    index_of(documents).persist(tmp_path / "stored")
    return tmp_path / "stored"


_OTHER_PROCESS = """
import json, sys
from llama_index.core import StorageContext, load_index_from_storage
simple, flat = sys.argv[1:]
context = StorageContext.from_defaults(persist_dir=simple)
try:
    load_index_from_storage(context)
except KeyError as error:
    message = str(error)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from test_persistence import answers
from llama_index.core import Settings
indexes = [
    load_index_from_storage(context),
    E2GraphRAGIndex.from_persist_dir(simple),
    E2GraphRAGIndex.from_persist_dir(flat),
]
kinds = [type(index.storage.context.vector_store).__name__ for index in indexes]
found = [answers(index) for index in indexes]
assert Settings._llm is None and Settings._embed_model is None
print(json.dumps([message, kinds, found]))
"""


def test_a_new_process_gets_the_same_results(tmp_path, index_of, documents):
    """With nothing but the folder: models come back by name, the vector store by its file."""
    simple = index_of(documents, extractor=None)
    simple.persist(tmp_path / "simple")
    flat = index_of(documents, extractor=None, storage_context=in_faiss())
    flat.persist(tmp_path / "flat")
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS, str(tmp_path / "simple"), str(tmp_path / "flat")],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{TESTS}:{TESTS / 'llama_index'}"},
    )
    assert done.returncode == 0, done.stderr
    message, kinds, (by_llama_index, by_folder, by_faiss) = json.loads(done.stdout.splitlines()[-1])
    assert "import e2graphrag_integrations.llama_index" in message
    assert kinds == ["SimpleVectorStore", "SimpleVectorStore", "FaissVectorStore"]
    assert by_llama_index == by_folder == answers(simple)
    assert by_faiss == answers(flat)


def test_a_faiss_map_is_found_in_the_folder(tmp_path, index_of, documents):
    index = index_of(documents, storage_context=in_faiss(FaissMapVectorStore))
    index.delete_ref_doc("other")
    index.persist(tmp_path / "stored")
    again = loaded(tmp_path / "stored")
    assert type(again.storage.context.vector_store) is FaissMapVectorStore
    assert answers(again) == answers(index)


def test_loading_needs_no_model_and_an_index_goes_on_where_it_was(folder, documents, index_of):
    again = loaded(folder)
    assert again.as_retriever("local").retrieve("Anna and Bert?")  # no embedder asked for
    again.insert(Document(id_="new", text="Kit met Lea. Lea met Max."))
    again.delete_ref_doc("other")
    again.persist(folder)
    third = loaded(folder)
    assert set(third.ref_doc_info) == {"story", "new"}
    assert answers(third) == answers(again)
    assert third.made_with == index_of(documents).made_with


def test_a_models_object_has_to_be_given_again_where_it_is_needed(tmp_path, index_of, documents):
    embedder = HashingEmbedder(32)
    index_of(documents, embed_model=embedder).persist(tmp_path / "stored")
    index = E2GraphRAGIndex.from_persist_dir(tmp_path / "stored")
    with pytest.raises(SettingsMismatchError, match=r"extractor fake:names.*pass extractor="):
        index.as_retriever("local").retrieve("Anna and Bert?")
    index = loaded(tmp_path / "stored")
    assert index.as_retriever("local").retrieve("Anna and Bert?")
    with pytest.raises(SettingsMismatchError, match="embedder hashing:1:32"):
        index.as_retriever("global").retrieve("Anna and Bert?")
    assert answers(loaded(tmp_path / "stored", embed_model=embedder))[2]


def test_another_embedding_model_is_refused_where_it_is_first_needed(folder):
    for other in (HashingEmbedder(256, max_tokens=9), MockEmbedding(embed_dim=256)):
        index = loaded(folder, embed_model=other)
        assert index.as_retriever("local").retrieve("Anna and Bert?")
        for ask in (
            lambda index: index.as_retriever("global").retrieve("Anna and Bert?"),
            lambda index: index.insert(Document(text="Kit met Lea.")),
        ):
            with pytest.raises(SettingsMismatchError, match="was made with the embedder hashing"):
                ask(index)
        assert set(index.ref_doc_info) == {"story", "other"}


def test_an_llm_of_settings_does_not_follow_into_a_process_without_it(tmp_path, index_of):
    Settings.llm = Digests()
    index = index_of([Document(id_="a", text="Anna met Bert. " * 9)])
    Settings._llm = None
    index.persist(tmp_path / "stored")
    again = loaded(tmp_path / "stored")
    assert answers(again) == answers(index)
    with pytest.raises(SettingsMismatchError, match=r"made by MockLLM, and there is no LLM now"):
        again.insert(Document(text="Kit met Lea. " * 9))
    Settings.llm = Digests()
    again.insert(Document(text="Kit met Lea. " * 9))
    assert again.last_report.llm_calls


@pytest.mark.parametrize(
    "sizes", [{"chunk_size": 17}, {"chunk_overlap": 0}, {"group_size": 5}, {"summary_tokens": 9}]
)
def test_other_sizes_are_refused_when_loading(folder, sizes):
    name = next(iter(sizes))
    with pytest.raises(SettingsMismatchError, match=f"was made with {name}="):
        loaded(folder, **sizes)
    with pytest.raises(SettingsMismatchError, match=f"was made with {name}="):
        load_index_from_storage(StorageContext.from_defaults(persist_dir=str(folder)), **sizes)
    assert loaded(folder, chunk_size=16, chunk_overlap=4, group_size=3)


def test_other_indexes_in_the_same_storage_context_stay_what_they_are(
    tmp_path, index_of, documents
):
    context = StorageContext.from_defaults(property_graph_store=SimplePropertyGraphStore())
    context.graph_store.upsert_triplet("Anna", "KNOWS", "Bert")
    context.property_graph_store.upsert_nodes([EntityNode(name="Cleo")])
    context.add_vector_store(SimpleVectorStore(), "mine")
    context.vector_stores["mine"].add([TextNode(id_="m", text="m", embedding=[1.0])])
    nodes = [TextNode(id_=f"own-{n}", text=f"Text {n}.") for n in range(3)]
    listed = SummaryIndex(nodes, storage_context=context)
    vectors = VectorStoreIndex(nodes, storage_context=context, embed_model=MockEmbedding(256))
    index = index_of(documents, storage_context=context)
    expected = answers(index)
    for target in (tmp_path / "one", tmp_path / "two"):
        context.persist(target)
        again = loaded(target)
        context = again.storage.context
        assert (again.index_id, answers(again)) == (index.index_id, expected)
        assert context.graph_store.get("Anna") == [["KNOWS", "Bert"]]
        assert context.property_graph_store.get(ids=["Cleo"])
        assert context.vector_stores["mine"].get("m") == [1.0]
        fresh = StorageContext.from_defaults(persist_dir=str(target))
        all_of_them = load_indices_from_storage(fresh, embed_model=MockEmbedding(256))
        assert {type(one) for one in all_of_them} == {
            SummaryIndex,
            VectorStoreIndex,
            E2GraphRAGIndex,
        }
        same = load_index_from_storage(fresh, listed.index_id)
        assert len(same.as_retriever().retrieve("?")) == len(nodes)
        with pytest.raises(InvalidInputError, match=r"IndexDict.*not one of ours"):
            loaded(target, index_id=vectors.index_id)
    again.delete_ref_doc("story")
    assert len(listed.as_retriever().retrieve("?")) == len(nodes)


def test_two_indexes_in_one_folder_are_told_apart_by_id(tmp_path, index_of, documents):
    context = StorageContext.from_defaults()
    one = index_of(documents[:1], storage_context=context)
    two = index_of(documents[1:], storage_context=context, chunk_size=24)
    two.set_index_id("second")
    two.persist(tmp_path / "stored")
    with pytest.raises(InvalidInputError, match=r"several indexes: pass index_id=.*'second'"):
        loaded(tmp_path / "stored")
    assert answers(loaded(tmp_path / "stored", index_id="second")) == answers(two)
    assert answers(loaded(tmp_path / "stored", index_id=one.index_id)) == answers(one)
    with pytest.raises(InvalidInputError, match="no index under the id 'third'"):
        loaded(tmp_path / "stored", index_id="third")


def test_a_folder_without_an_index_of_ours_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="there is no such folder"):
        loaded(tmp_path / "nowhere")
    StorageContext.from_defaults().persist(tmp_path / "empty")
    with pytest.raises(InvalidInputError, match="holds no E2GraphRAGIndex: is it the right folder"):
        loaded(tmp_path / "empty")


@pytest.mark.parametrize("name", [DOCSTORE, STRUCTS, VECTORS])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "bytes", "list", "null"])
def test_a_file_that_is_missing_or_damaged_is_named(folder, name, damage):
    path = folder / name
    whole = path.read_bytes()
    path.unlink()
    contents = {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "bytes": bytes(range(256)),
        "list": b"[1]",
        "null": b"null",
    }
    if damage in contents:
        path.write_bytes(contents[damage])
    with pytest.raises(CorruptStoreError, match=name.replace(".", r"\.")) as raised:
        loaded(folder)
    said = str(raised.value)
    assert "backup" in said or "pass vector_store=" in said or "passed as vector_store=" in said


@pytest.mark.parametrize("damage", ["half", "bytes"])
def test_damaged_faiss_vectors_are_named(tmp_path, index_of, documents, damage):
    index_of(documents, storage_context=in_faiss()).persist(tmp_path / "stored")
    path = tmp_path / "stored" / VECTORS
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage == "half" else bytes(range(256)))
    with pytest.raises(CorruptStoreError, match="default__vector_store"):
        loaded(tmp_path / "stored")


@pytest.mark.parametrize("name", ["graph_store.json", "image__vector_store.json"])
def test_damage_to_what_is_not_ours_is_told_too(folder, name):
    """Rather than an empty store in its place, which the next persist() would write over it."""
    (folder / name).write_text('{"graph_dict": {"Anna": [')
    with pytest.raises(CorruptStoreError, match=name.replace(".", r"\.")):
        loaded(folder)


def test_stores_of_another_index_are_noticed(folder, tmp_path, index_of):
    index_of([Document(id_="a", text="Anna met Bert.")]).persist(tmp_path / "other")
    for name, what in ((DOCSTORE, "docstore"), (VECTORS, "has lost vector")):
        mixed = tmp_path / f"mixed {name}"
        shutil.copytree(folder, mixed)
        shutil.copy(tmp_path / "other" / name, mixed / name)
        with pytest.raises(CorruptStoreError, match=what):
            loaded(mixed).as_retriever("global").retrieve("Anna and Bert?")


def _changed_struct(folder: Path, change) -> None:
    path = folder / STRUCTS
    plain = json.loads(path.read_text())
    (entry,) = plain["index_store/data"].values()
    data = json.loads(entry["__data__"])
    change(data)
    entry["__data__"] = json.dumps(data)
    path.write_text(json.dumps(plain))


def test_a_damaged_payload_is_noticed_at_its_first_use(folder):
    pick = random.Random(7)  # noqa: S311 - no secret

    def flip(data):
        payload = data["documents"]["story"]
        at = pick.randrange(20, len(payload) - 20)
        other = "A" if payload[at] != "A" else "B"
        data["documents"]["story"] = payload[:at] + other + payload[at + 1 :]

    whole = (folder / STRUCTS).read_bytes()
    for _ in range(10):
        _changed_struct(folder, flip)
        index = loaded(folder)
        with pytest.raises(CorruptStoreError, match=r"document 'story' of index .* is damaged"):
            index.as_retriever().retrieve("Anna and Bert?")
        (folder / STRUCTS).write_bytes(whole)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda d: d.update(schema_version=2), SchemaVersionError, "upgrade e2graphrag-integ"),
        (lambda d: d.pop("schema_version"), CorruptStoreError, "without a schema version"),
        (lambda d: d.pop("documents"), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(documents=[1]), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(made_with={"a": 1}), CorruptStoreError, "is damaged in the index"),
        (lambda d: d["made_with"].update(chunk_size="x"), CorruptStoreError, "chunk_size='x'"),
    ],
)
def test_a_damaged_or_newer_struct_is_refused(folder, change, error, said):
    _changed_struct(folder, change)
    with pytest.raises(error, match=said):
        loaded(folder)
    with pytest.raises(error, match=said):
        load_index_from_storage(StorageContext.from_defaults(persist_dir=str(folder)))


@pytest.mark.parametrize("entry", [{}, {"__type__": "not imported", "__data__": "{}"}, 3, "text"])
def test_what_the_index_store_cannot_read_is_told_with_its_way_out(folder, entry):
    index_id = loaded(folder).index_id
    path = folder / STRUCTS
    plain = json.loads(path.read_text())
    plain["index_store/data"]["foreign"] = entry
    path.write_text(json.dumps(plain))
    with pytest.raises(CorruptStoreError, match=r"SimpleIndexStore cannot be read.*index_id="):
        loaded(folder)
    assert loaded(folder, index_id=index_id).ref_doc_info


def test_nothing_that_is_no_json_gets_into_the_folder(folder):
    paths = list(folder.iterdir())
    assert folder / STRUCTS in paths
    for path in paths:
        json.loads(path.read_text(encoding="utf-8"))


def test_an_emptied_and_an_empty_index_load(tmp_path, index_of, documents):
    index = index_of(documents[:1])
    index.delete_ref_doc("story")
    for number, one in enumerate((index, index_of([]))):
        one.persist(tmp_path / str(number))
        again = loaded(tmp_path / str(number), chunk_size=300, embed_model=HashingEmbedder(8))
        assert again.as_retriever().retrieve("Anna?") == []
        again.insert(documents[0])
        assert again.as_retriever().retrieve("Anna?")
