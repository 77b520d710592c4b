"""Loading of persisted indexes: new processes, other indexes in the folder, damaged files."""

from __future__ import annotations

import json
import random
import re
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
from e2graphrag_integrations.cli.demo import demo_text
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SchemaVersionError,
    SettingsMismatchError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from fakes import NameExtractor
from llama_fakes import Digests

pytestmark = pytest.mark.slow

QUESTIONS = ("What did Anna give Bert?", "Who built a mill?", "what is this about?")
DOCSTORE, STRUCTS, VECTORS = "docstore.json", "index_store.json", "default__vector_store.json"

TESTS = Path(__file__).parents[2]


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
simple, flat, novel = sys.argv[1:]
context = StorageContext.from_defaults(persist_dir=simple)
try:
    load_index_from_storage(context)
except KeyError as error:
    message = str(error)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from test_loading import answers, novel_answers
from llama_index.core import Settings
indexes = [
    load_index_from_storage(context),
    E2GraphRAGIndex.from_persist_dir(simple),
    E2GraphRAGIndex.from_persist_dir(flat),
]
kinds = [type(index.storage.context.vector_store).__name__ for index in indexes]
found = [answers(index) for index in indexes]
assert Settings._llm is None and Settings._embed_model is None
of_novel = load_index_from_storage(StorageContext.from_defaults(persist_dir=novel))
print(json.dumps([message, kinds, found, novel_answers(of_novel)]))
"""

_NOVEL_QUESTIONS = (
    "What does Weena give to the traveller?",
    "Why do the Morlocks come at night?",
    "How did they get there so quickly?",
    "Who are the Eloi?",
)


def novel_answers(index):
    return [
        [[n.node_id, n.score, n.node.start_char_idx, n.text] for n in retriever.retrieve(question)]
        for mode in ("adaptive", "local", "global")
        for retriever in [index.as_retriever(mode, similarity_top_k=8)]
        for question in _NOVEL_QUESTIONS
    ]


def test_a_new_process_returns_the_same_results(tmp_path, index_of, documents, without_torch):
    """The folder alone is enough: models load by name, the vector store from its file.

    One process loads all folders, because its imports take seconds.
    """
    simple = index_of(documents, extractor=None)
    simple.persist(tmp_path / "simple")
    flat = index_of(documents, extractor=None, storage_context=in_faiss())
    flat.persist(tmp_path / "flat")
    text = demo_text().read_text(encoding="utf-8")[60_000:120_000]
    novel = E2GraphRAGIndex.from_documents(
        [Document(id_="novel", text=text)], embed_model="hashing"
    )
    novel.storage_context.persist(tmp_path / "novel")
    folders = [tmp_path / name for name in ("simple", "flat", "novel")]
    paths = f"{without_torch['PYTHONPATH']}:{TESTS}:{Path(__file__).parent}"
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS, *folders],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=without_torch | {"PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    # Older versions of LlamaIndex print messages first.
    message, kinds, found, of_novel = json.loads(done.stdout.splitlines()[-1])
    by_llama_index, by_folder, by_faiss = found
    assert "import e2graphrag_integrations.llama_index" in message
    assert kinds == ["SimpleVectorStore", "SimpleVectorStore", "FaissVectorStore"]
    assert by_llama_index == by_folder == answers(simple)
    assert by_faiss == answers(flat)
    assert of_novel == novel_answers(novel)
    assert len(json.dumps(of_novel)) > 10_000


def test_a_faiss_map_loads_from_the_folder(tmp_path, index_of, documents):
    index = index_of(documents, storage_context=in_faiss(FaissMapVectorStore))
    index.delete_ref_doc("other")
    index.persist(tmp_path / "stored")
    again = loaded(tmp_path / "stored")
    assert type(again.storage.context.vector_store) is FaissMapVectorStore
    assert answers(again) == answers(index)


def test_a_loaded_index_accepts_writes_and_needs_no_model_for_local_queries(
    folder, documents, index_of
):
    again = loaded(folder)
    assert again.as_retriever("local").retrieve("Anna and Bert?")  # loads no embedder
    again.insert(Document(id_="new", text="Kit met Lea. Lea met Max."))
    again.delete_ref_doc("other")
    again.persist(folder)
    third = loaded(folder)
    assert set(third.ref_doc_info) == {"story", "new"}
    assert answers(third) == answers(again)
    assert third.made_with == index_of(documents).made_with


def test_a_custom_model_must_be_passed_again_for_its_first_use(tmp_path, index_of, documents):
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


def test_another_embedding_model_is_rejected_on_first_use(folder):
    for other in (HashingEmbedder(256, max_tokens=9), MockEmbedding(embed_dim=256)):
        index = loaded(folder, embed_model=other)
        assert index.as_retriever("local").retrieve("Anna and Bert?")
        for ask in (
            lambda index: index.as_retriever("global").retrieve("Anna and Bert?"),
            lambda index: index.insert(Document(text="Kit met Lea.")),
        ):
            with pytest.raises(SettingsMismatchError, match="was built with the embedder hashing"):
                ask(index)
        assert set(index.ref_doc_info) == {"story", "other"}


def test_an_index_with_summaries_by_an_llm_answers_without_it_and_rejects_inserts(
    tmp_path, index_of
):
    llm = Settings.llm = Digests()
    index = index_of([Document(id_="a", text="Anna met Bert. " * 9)], llm=llm)
    index.persist(tmp_path / "stored")
    calls = len(llm.prompts)
    again = loaded(tmp_path / "stored")
    assert answers(again) == answers(index)
    added = Document(text="Kit met Lea. " * 9)
    for write in (again.insert, lambda document: again.estimate_cost([document])):
        with pytest.raises(
            SettingsMismatchError, match=r"MockLLM wrote the summaries of .*llm=Settings\.llm"
        ):
            write(added)
    assert len(llm.prompts) == calls
    extractive = loaded(tmp_path / "stored", llm="extractive")
    extractive.insert(added)
    assert extractive.last_report.llm_calls == 0
    explicit = loaded(tmp_path / "stored", llm=Settings.llm)
    explicit.insert(added)
    assert explicit.last_report.llm_calls == len(llm.prompts) - calls > 0


@pytest.mark.parametrize(
    "sizes", [{"chunk_size": 17}, {"chunk_overlap": 0}, {"group_size": 5}, {"summary_tokens": 9}]
)
def test_loading_rejects_other_sizes(folder, sizes):
    name = next(iter(sizes))
    with pytest.raises(SettingsMismatchError, match=f"was built with {name}="):
        loaded(folder, **sizes)
    with pytest.raises(SettingsMismatchError, match=f"was built with {name}="):
        load_index_from_storage(StorageContext.from_defaults(persist_dir=str(folder)), **sizes)
    assert loaded(folder, chunk_size=16, chunk_overlap=4, group_size=3)


def test_persist_and_load_keep_other_indexes_of_the_storage_context(tmp_path, index_of, documents):
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
        with pytest.raises(InvalidInputError, match=r"is a IndexDict, not an E2GraphRAGIndex"):
            loaded(target, index_id=vectors.index_id)
    again.delete_ref_doc("story")
    assert len(listed.as_retriever().retrieve("?")) == len(nodes)


def test_index_id_selects_one_of_two_indexes_in_a_folder(tmp_path, index_of, documents):
    context = StorageContext.from_defaults()
    one = index_of(documents[:1], storage_context=context)
    two = index_of(documents[1:], storage_context=context, chunk_size=24)
    two.set_index_id("second")
    two.persist(tmp_path / "stored")
    with pytest.raises(InvalidInputError, match=r"several indexes: pass index_id=.*'second'"):
        loaded(tmp_path / "stored")
    assert answers(loaded(tmp_path / "stored", index_id="second")) == answers(two)
    assert answers(loaded(tmp_path / "stored", index_id=one.index_id)) == answers(one)
    with pytest.raises(InvalidInputError, match="index 'third' is missing"):
        loaded(tmp_path / "stored", index_id="third")


def test_from_vector_store_names_calls_that_work(index_of, documents, tmp_path):
    """The calls in the message are run as they stand there."""
    index = index_of(documents, extractor=None)
    index.persist(tmp_path)
    vector_store = index.vector_store
    with pytest.raises(InvalidInputError, match="vector store alone") as raised:
        E2GraphRAGIndex.from_vector_store(vector_store, embed_model=None)
    calls = re.findall(r"call (E2GraphRAGIndex\..+?)(?:\. To|$)", str(raised.value))
    names = {
        "E2GraphRAGIndex": E2GraphRAGIndex,
        "StorageContext": StorageContext,
        "vector_store": vector_store,
        "docstore": index.docstore,
        "index_store": index.storage_context.index_store,
        "folder": tmp_path,
        "documents": [],
    }
    old, same, new = (eval(call, names) for call in calls)  # noqa: S307 - the package's own text
    assert answers(old) == answers(same) == answers(index)
    assert new.vector_store is vector_store


def test_a_folder_without_an_e2graphrag_index_is_rejected(tmp_path):
    with pytest.raises(InvalidInputError, match="is not a folder"):
        loaded(tmp_path / "nowhere")
    StorageContext.from_defaults().persist(tmp_path / "empty")
    with pytest.raises(InvalidInputError, match="contains no E2GraphRAGIndex: check the path"):
        loaded(tmp_path / "empty")


@pytest.mark.parametrize("name", [DOCSTORE, STRUCTS, VECTORS])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "bytes", "list", "null"])
def test_the_error_names_the_missing_or_damaged_file(folder, name, damage):
    path = folder / name
    original = path.read_bytes()
    path.unlink()
    contents = {
        "empty": b"",
        "half": original[: len(original) // 2],
        "bytes": bytes(range(256)),
        "list": b"[1]",
        "null": b"null",
    }
    if damage in contents:
        path.write_bytes(contents[damage])
    with pytest.raises(CorruptStoreError, match=name.replace(".", r"\.")) as raised:
        loaded(folder)
    message = str(raised.value)
    assert re.search("backup|(pass|passed as) vector_store=", message)


@pytest.mark.parametrize("damage", ["half", "bytes"])
def test_the_error_names_the_damaged_faiss_file(tmp_path, index_of, documents, damage):
    index_of(documents, storage_context=in_faiss()).persist(tmp_path / "stored")
    path = tmp_path / "stored" / VECTORS
    original = path.read_bytes()
    path.write_bytes(original[: len(original) // 2] if damage == "half" else bytes(range(256)))
    with pytest.raises(CorruptStoreError, match="default__vector_store"):
        loaded(tmp_path / "stored")


@pytest.mark.parametrize("name", ["graph_store.json", "image__vector_store.json"])
def test_damaged_files_of_other_indexes_are_reported(folder, name):
    """A silent empty store would overwrite the file on the next persist()."""
    (folder / name).write_text('{"graph_dict": {"Anna": [')
    with pytest.raises(CorruptStoreError, match=name.replace(".", r"\.")):
        loaded(folder)


def test_stores_of_another_index_are_detected(folder, tmp_path, index_of):
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


def test_a_damaged_record_is_detected_on_first_use(folder):
    generator = random.Random(7)  # noqa: S311 - not used for security

    def flip(data):
        payload = data["documents"]["story"]
        at = generator.randrange(20, len(payload) - 20)
        other = "A" if payload[at] != "A" else "B"
        data["documents"]["story"] = payload[:at] + other + payload[at + 1 :]

    original = (folder / STRUCTS).read_bytes()
    for _ in range(10):
        _changed_struct(folder, flip)
        index = loaded(folder)
        with pytest.raises(CorruptStoreError, match=r"document 'story' of index .* is damaged"):
            index.as_retriever().retrieve("Anna and Bert?")
        (folder / STRUCTS).write_bytes(original)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda d: d.update(schema_version=1), SchemaVersionError, "version 1, .* index the doc"),
        (lambda d: d.update(schema_version=99), SchemaVersionError, "version 99, .* index the doc"),
        (lambda d: d.pop("schema_version"), CorruptStoreError, "without a schema version"),
        (lambda d: d.pop("documents"), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(documents=[1]), CorruptStoreError, "is damaged in the index store"),
        (lambda d: d.update(made_with={"a": 1}), CorruptStoreError, "is damaged in the index"),
        (lambda d: d["made_with"].update(chunk_size="x"), CorruptStoreError, "chunk_size='x'"),
    ],
)
def test_a_damaged_or_newer_struct_is_rejected(folder, change, error, message):
    _changed_struct(folder, change)
    with pytest.raises(error, match=message):
        loaded(folder)
    with pytest.raises(error, match=message):
        load_index_from_storage(StorageContext.from_defaults(persist_dir=str(folder)))


@pytest.mark.parametrize("entry", [{}, {"__type__": "not imported", "__data__": "{}"}, 3, "text"])
def test_the_error_for_an_unreadable_index_store_says_what_to_do(folder, entry):
    index_id = loaded(folder).index_id
    path = folder / STRUCTS
    plain = json.loads(path.read_text())
    plain["index_store/data"]["foreign"] = entry
    path.write_text(json.dumps(plain))
    with pytest.raises(CorruptStoreError, match=r"SimpleIndexStore cannot be read.*index_id="):
        loaded(folder)
    assert loaded(folder, index_id=index_id).ref_doc_info


def test_all_persisted_files_are_json(folder):
    paths = list(folder.iterdir())
    assert folder / STRUCTS in paths
    for path in paths:
        json.loads(path.read_text(encoding="utf-8"))


def test_emptied_and_empty_indexes_load(tmp_path, index_of, documents):
    index = index_of(documents[:1])
    index.delete_ref_doc("story")
    for number, one in enumerate((index, index_of([]))):
        one.persist(tmp_path / str(number))
        again = loaded(tmp_path / str(number), chunk_size=300, embed_model=HashingEmbedder(8))
        assert again.as_retriever().retrieve("Anna?") == []
        again.insert(documents[0])
        assert again.as_retriever().retrieve("Anna?")
