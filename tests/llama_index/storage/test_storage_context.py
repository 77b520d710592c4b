"""Saving and loading: whole versions after kills, other indexes in the folder, damaged files."""

from __future__ import annotations

import builtins
import copy
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import fsspec
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

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SchemaVersionError,
    SettingsMismatchError,
    StoreError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor

DOCSTORE, STRUCTS, VECTORS = "docstore.json", "index_store.json", "default__vector_store.json"
QUESTIONS = ("What did Anna give Bert?", "Who built a mill?", "what is this about?")
MODELS = {"extractor": NameExtractor()}
TESTS = Path(__file__).parents[2]

CHANGES = ("rename", "replace", "mkdir", "rmdir", "unlink", "fsync")
"""Functions of `os` that change files; opening a file for writing is another change."""


def answers(index):
    return [
        [[n.node_id, n.text, n.score] for n in index.as_retriever(mode).retrieve(question)]
        for question in QUESTIONS
        for mode in ("adaptive", "local", "global")
    ]


def loaded(folder, **options):
    return E2GraphRAGIndex.from_persist_dir(folder, **grouped(MODELS | options))


def loaded_by_llama_index(folder, index_id=None, **options):
    context = StorageContext.from_defaults(persist_dir=str(folder))
    return load_index_from_storage(context, index_id, **grouped(MODELS | options))


def content(index):
    return list(index.rag.export())


@pytest.fixture
def folder(tmp_path, index_of, documents):
    index_of(documents).persist(tmp_path / "stored")
    return tmp_path / "stored"


@pytest.fixture
def versions(index_of, documents):
    """Return an index, and a function that changes it to its second version."""
    index = index_of(documents)

    def change():
        story, other = documents
        renamed = Document(id_="story", text=story.text, metadata={"title": "A Plan"})
        index.refresh_ref_docs([renamed, Document(id_="new", text="Kit met Lea. " * 20)])
        index.delete_ref_doc(other.node_id)

    return index, change


# Kills


class Killed(BaseException):
    """Stands for the end of the process."""


class Kill:
    """Lets the change of a given number, and all that follow, raise Killed instead.

    Attributes:
        tried: Number of changes that were tried.
    """

    def __init__(self, number):
        self.number = number
        self.tried = 0

    def step(self):
        self.tried += 1
        if self.tried > self.number:
            raise Killed

    def replacement(self, operation):
        def call(*args, **options):
            self.step()
            return operation(*args, **options)

        return call

    def open(self, path, mode="r", *args, _open=open, **options):
        """Open a file; truncate it as the last change, as a process that dies before it writes."""
        if set(mode) & set("wax+"):
            if self.tried == self.number:
                _open(path, mode, *args, **options).close()
            self.step()
        return _open(path, mode, *args, **options)


@contextmanager
def killed_at(number):
    kill = Kill(number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)  # a kill does not lose what is not synced
        for name in CHANGES:
            patch.setattr(os, name, kill.replacement(getattr(os, name)))
        patch.setattr(builtins, "open", kill.open)
        patch.setattr(io, "open", kill.open)
        yield kill


def each_kill(folder, work):
    """Kill `work` on copies of a folder, at each change; yield the copies, a complete one last."""
    for number in count():
        copied = Path(shutil.copytree(folder, f"{folder} {number}"))
        with killed_at(number) as kill, suppress(Killed):
            work(copied)
        yield copied
        if kill.tried <= number:
            return


@pytest.mark.slow
def test_a_kill_inside_persist_leaves_the_old_or_the_new_version(versions, tmp_path):
    index, change = versions
    index.persist(tmp_path / "stored")
    old = content(index)
    change()
    new = content(index)
    seen = []
    for folder in each_kill(tmp_path / "stored", index.storage_context.persist):
        found = content(loaded(folder))
        assert found in (old, new)
        assert content(loaded_by_llama_index(folder)) == found
        seen.append(found == new)
        index.persist(folder)
        assert content(loaded(folder)) == new
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


def test_a_kill_inside_the_first_persist_leaves_no_index_or_all_of_it(versions, tmp_path):
    index, _ = versions
    (tmp_path / "stored").mkdir()
    loads = 0
    for folder in each_kill(tmp_path / "stored", index.persist):
        try:
            found = loaded(folder)
        except CorruptStoreError as error:
            assert "is missing" in str(error)  # noqa: PT017
        else:
            loads += 1
            assert content(found) == content(index)
    assert loads


def test_a_persist_that_fails_keeps_the_old_version_and_says_so(versions, tmp_path, monkeypatch):
    index, change = versions
    index.persist(tmp_path / "stored")
    before = {path: path.read_bytes() for path in (tmp_path / "stored").iterdir()}
    change()

    def fail(*_args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError, match=r"No space left on device.*can still be loaded"):
            index.persist(tmp_path / "stored")
    assert {path: path.read_bytes() for path in (tmp_path / "stored").iterdir()} == before
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot persist to"):
        index.persist(tmp_path / "file")


@pytest.mark.slow
def test_reading_while_another_thread_persists_gives_a_whole_version(versions, tmp_path):
    index, change = versions
    other = copy.deepcopy(index)
    change()
    contents = [content(index), content(other)]
    index.persist(tmp_path / "stored")
    stop = threading.Event()

    def persist():
        while not stop.is_set():
            for one in (other, index):
                one.persist(tmp_path / "stored")

    thread = threading.Thread(target=persist)
    thread.start()
    try:
        for _ in range(8):
            assert content(loaded(tmp_path / "stored")) in contents
    finally:
        stop.set()
        thread.join()


# Loading


_OTHER_PROCESS = """
import json, sys
from llama_index.core import StorageContext, load_index_from_storage
folder, at_path = sys.argv[1:]
context = StorageContext.from_defaults(persist_dir=folder)
try:
    load_index_from_storage(context)
except KeyError as error:
    message = str(error)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from test_storage_context import answers
from llama_index.core import Settings
indexes = [load_index_from_storage(context), *map(E2GraphRAGIndex.from_persist_dir, sys.argv[1:])]
found = [answers(index) for index in indexes]
assert Settings._llm is None and Settings._embed_model is None
print(json.dumps([message, found]))
"""


@pytest.mark.slow
def test_a_new_process_returns_the_same_results(tmp_path, index_of, documents, without_torch):
    """The folder alone is enough, because the models load by name."""
    index = index_of(documents, extractor=None)
    index.persist(tmp_path / "stored")
    at_path = index_of(documents, extractor=None, path=tmp_path / "i.e2g")
    at_path.persist(tmp_path / "located")
    paths = f"{without_torch['PYTHONPATH']}:{TESTS}:{Path(__file__).parent}"
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS, tmp_path / "stored", tmp_path / "located"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=without_torch | {"PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    # Older versions of LlamaIndex print messages first.
    message, found = json.loads(done.stdout.splitlines()[-1])
    assert "import e2graphrag_integrations.llama_index" in message
    assert found == [answers(index)] * 3


def test_a_loaded_index_accepts_writes_and_needs_no_model_for_local_queries(folder, index_of):
    again = loaded(folder)
    assert again.as_retriever("local").retrieve("Anna and Bert?")  # loads no embedder
    again.insert(Document(id_="new", text="Kit met Lea. Lea met Max."))
    again.delete_ref_doc("other")
    again.persist(folder)
    third = loaded(folder)
    assert set(third.ref_doc_info) == {"story", "new"}
    assert content(third) == content(again)
    assert answers(third) == answers(again)


def test_another_model_is_rejected(folder):
    index = E2GraphRAGIndex.from_persist_dir(folder)
    remedy = r"extractor fake:names.*pass models=Models\(extractor"
    with pytest.raises(SettingsMismatchError, match=remedy):
        index.as_retriever("local").retrieve("Anna and Bert?")
    for other in (HashingEmbedder(256, max_tokens=9), MockEmbedding(embed_dim=256)):
        with pytest.raises(SettingsMismatchError, match="was built with the embedder hashing"):
            loaded(folder, embed_model=other).as_retriever("global").retrieve("Anna?")


@pytest.mark.parametrize(
    "sizes", [{"chunk_size": 17}, {"chunk_overlap": 0}, {"group_size": 5}, {"summary_tokens": 9}]
)
def test_loading_rejects_other_sizes(folder, sizes):
    name = next(iter(sizes))
    for load in (loaded, loaded_by_llama_index):
        with pytest.raises(SettingsMismatchError, match=f"was built with {name}="):
            load(folder, **sizes)
    assert loaded(folder, chunk_size=16, chunk_overlap=4, group_size=3)


def test_an_index_at_a_path_is_saved_as_its_location(tmp_path, index_of, documents):
    """The folder stays small, and every object that is loaded sees the writes of the others."""
    index = index_of(documents[:1], path=tmp_path / "i.e2g")
    index.persist(tmp_path / "stored")
    assert (tmp_path / "stored" / STRUCTS).stat().st_size < 4000
    again = loaded(tmp_path / "stored")
    index.insert(documents[1])
    again.insert(Document(id_="third", text="Kit met Lea."))
    assert set(index.ref_doc_info) == set(again.ref_doc_info) == {"story", "other", "third"}
    assert answers(index) == answers(again)
    index.close()
    again.close()


@pytest.mark.slow
def test_an_index_file_that_was_moved_is_found_by_its_new_path(tmp_path, index_of, documents):
    """LlamaIndex's own loader would otherwise return a new, empty index."""
    with index_of(documents, path=tmp_path / "i.e2g") as index:
        index.persist(tmp_path / "stored")
        expected = answers(index)
    (tmp_path / "moved").mkdir()
    (tmp_path / "i.e2g").rename(tmp_path / "moved" / "i.e2g")
    for load in (loaded, loaded_by_llama_index):
        with pytest.raises(InvalidInputError, match=r"was at .*i\.e2g, where there is none now"):
            load(tmp_path / "stored")
        with pytest.raises(InvalidInputError, match=r"none\.e2g is not a file"):
            load(tmp_path / "stored", path=tmp_path / "none.e2g")
        with load(tmp_path / "stored", path=tmp_path / "moved" / "i.e2g") as again:
            assert answers(again) == expected
            again.persist(tmp_path / load.__name__)
        with load(tmp_path / load.__name__) as third:
            assert answers(third) == expected
    assert not list(tmp_path.glob("*.e2g"))


def test_a_path_for_an_index_in_the_index_store_is_rejected(tmp_path, folder):
    with pytest.raises(InvalidInputError, match=r"path='.*' has no effect.*copy_to"):
        loaded(folder, path=tmp_path / "i.e2g")
    assert not (tmp_path / "i.e2g").exists()


def test_an_in_memory_index_loads_from_anywhere(tmp_path, folder):
    expected = answers(loaded(folder))
    folder.rename(tmp_path / "moved")
    assert answers(loaded(tmp_path / "moved")) == expected


def test_persist_and_load_keep_other_indexes_of_the_storage_context(tmp_path, index_of, documents):
    context = StorageContext.from_defaults(property_graph_store=SimplePropertyGraphStore())
    context.graph_store.upsert_triplet("Anna", "KNOWS", "Bert")
    context.property_graph_store.upsert_nodes([EntityNode(name="Cleo")])
    context.add_vector_store(SimpleVectorStore(), "mine")
    context.vector_stores["mine"].add([TextNode(id_="m", text="m", embedding=[1.0])])
    nodes = [TextNode(id_=f"own-{n}", text=f"Text {n}.") for n in range(3)]
    before = VectorStoreIndex(nodes, storage_context=context, embed_model=MockEmbedding(256))
    index = index_of(documents, storage_context=context)
    listed = SummaryIndex(nodes, storage_context=context)
    expected = answers(index)
    for target in (tmp_path / "one", tmp_path / "two"):
        context.persist(target)
        again = loaded(target)
        context = again.storage_context
        assert (again.index_id, answers(again)) == (index.index_id, expected)
        assert context.graph_store.get("Anna") == [["KNOWS", "Bert"]]
        assert context.property_graph_store.get(ids=["Cleo"])
        assert context.vector_stores["mine"].get("m") == [1.0]
        fresh = StorageContext.from_defaults(persist_dir=str(target))
        Settings.embed_model = MockEmbedding(256)
        all_of_them = load_indices_from_storage(fresh)
        kinds = {type(one) for one in all_of_them}
        assert kinds == {SummaryIndex, VectorStoreIndex, E2GraphRAGIndex}
        [vectors] = [one for one in all_of_them if type(one) is VectorStoreIndex]
        Settings._embed_model = None
        assert len(vectors.as_retriever(similarity_top_k=9).retrieve("?")) == len(nodes)
        same = load_index_from_storage(fresh, listed.index_id)
        assert len(same.as_retriever().retrieve("?")) == len(nodes)
        with pytest.raises(InvalidInputError, match="contains no E2GraphRAGIndex with index_id="):
            loaded(target, index_id=before.index_id)
    again.delete_ref_doc("story")
    assert len(listed.as_retriever().retrieve("?")) == len(nodes)


@pytest.mark.slow
def test_index_id_selects_one_of_two_indexes_in_a_folder(tmp_path, index_of, documents):
    context = StorageContext.from_defaults()
    one = index_of(documents[:1], storage_context=context)
    two = index_of(documents[1:], storage_context=context, chunk_size=24)
    two.set_index_id("second")
    two.persist(tmp_path / "stored")
    with pytest.raises(InvalidInputError, match=r"several indexes: pass index_id=.*'second'"):
        loaded(tmp_path / "stored")
    for load in (loaded, loaded_by_llama_index):
        assert answers(load(tmp_path / "stored", index_id="second")) == answers(two)
        assert answers(load(tmp_path / "stored", index_id=one.index_id)) == answers(one)
    with pytest.raises(InvalidInputError, match="no E2GraphRAGIndex with index_id='third'"):
        loaded(tmp_path / "stored", index_id="third")


def test_the_context_that_the_user_holds_persists_the_index(tmp_path, index_of, documents):
    context = StorageContext.from_defaults()
    index = index_of(documents[:1], storage_context=context)
    assert index.storage_context.docstore is context.docstore
    assert index.storage_context.index_store is context.index_store
    assert index.storage_context.vector_stores is context.vector_stores
    index.insert(documents[1])
    context.persist(str(tmp_path / "mine"))
    assert content(loaded(tmp_path / "mine")) == content(index)
    index.storage_context.persist(f"file://{tmp_path / 'url'}", fs=fsspec.filesystem("file"))
    assert content(loaded(tmp_path / "url")) == content(index)
    copied = copy.deepcopy(index.storage_context.index_store)
    fresh = StorageContext.from_defaults(index_store=copied)
    assert content(E2GraphRAGIndex.from_storage(fresh, **grouped(MODELS))) == content(index)


def test_a_context_of_a_class_of_the_user_stays_in_use(index_of, documents):
    class OwnContext(StorageContext):
        def persist(self, *_args, **_options):
            return "mine"

    own = OwnContext(**vars(StorageContext.from_defaults()))
    index = index_of(documents, storage_context=own)
    assert index.storage_context is own
    assert content(E2GraphRAGIndex.from_storage(own, **grouped(MODELS))) == content(index)


def test_other_file_systems_are_written_file_by_file(versions):
    index, change = versions
    memory = fsspec.filesystem("memory")
    for step in (lambda: None, change):
        step()
        index.storage_context.persist("/stored", fs=memory)
        assert not memory.glob("/stored/persist.*")
        context = StorageContext.from_defaults(persist_dir="/stored", fs=memory)
        assert content(load_index_from_storage(context, **grouped(MODELS))) == content(index)
    memory.rm("/stored", recursive=True)


def test_files_of_two_versions_give_one_of_them(versions, tmp_path):
    """LlamaIndex's own `persist` can be killed between two files; the index is in one of them."""
    index, change = versions
    index.persist(tmp_path / "old")
    old = content(index)
    change()
    index.persist(tmp_path / "new")
    for name in (DOCSTORE, VECTORS):
        shutil.copy(tmp_path / "old" / name, tmp_path / "new" / name)
    assert content(loaded(tmp_path / "new")) == content(index)
    shutil.copy(tmp_path / "old" / STRUCTS, tmp_path / "new" / STRUCTS)
    assert content(loaded(tmp_path / "new")) == old


# Damage


def test_a_folder_without_an_index_is_rejected(tmp_path):
    with pytest.raises(InvalidInputError, match="is not a folder"):
        loaded(tmp_path / "nowhere")
    for wrong in (3, None, b"x"):
        with pytest.raises(InvalidInputError, match="must be a str or a Path"):
            loaded(wrong)
    StorageContext.from_defaults().persist(tmp_path / "empty")
    with pytest.raises(InvalidInputError, match="contains no E2GraphRAGIndex: check the path"):
        loaded(tmp_path / "empty")
    with pytest.raises(InvalidInputError, match="storage_context"):
        E2GraphRAGIndex.from_storage(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(
            (name, damage)
            for name in (DOCSTORE, STRUCTS)
            for damage in ("missing", "empty", "bytes")
        ),
        (STRUCTS, "half"),
        (STRUCTS, "list"),
    ],
)
def test_a_missing_or_damaged_file_is_reported(folder, name, damage):
    path = folder / name
    original = path.read_bytes()
    path.unlink()
    contents = {
        "empty": b"",
        "half": original[: len(original) // 2],
        "bytes": bytes(range(256)),
        "list": b'[1, {"a": 2}]',
    }
    if damage in contents:
        path.write_bytes(contents[damage])
    with pytest.raises(CorruptStoreError, match=rf"{re.escape(name)}|IndexStore|a file in"):
        loaded(folder)


@pytest.mark.parametrize("name", ["graph_store.json", "image__vector_store.json"])
def test_damaged_files_of_other_indexes_are_reported(folder, name):
    """A silent empty store would overwrite the file on the next persist()."""
    (folder / name).write_text('{"graph_dict": {"Anna": [')
    with pytest.raises(CorruptStoreError, match="is damaged"):
        loaded(folder)


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


def test_a_folder_of_an_earlier_format_is_refused_in_one_sentence(folder):
    path = folder / STRUCTS
    plain = json.loads(path.read_text())
    [entry] = plain["index_store/data"].values()
    entry["__data__"] = json.dumps(json.loads(entry["__data__"]) | {"schema_version": 5})
    path.write_text(json.dumps(plain))
    for load in (loaded, loaded_by_llama_index):
        with pytest.raises(SchemaVersionError, match=r"version 5, .* index the documents again"):
            load(folder)


def test_all_persisted_files_are_json(folder):
    names = {path.name for path in folder.iterdir()}
    assert {DOCSTORE, STRUCTS} <= names
    for path in folder.iterdir():
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


def test_from_vector_store_names_calls_that_work(index_of, documents, tmp_path):
    """The calls in the message are run as they stand there."""
    index = index_of(documents, extractor=None)
    index.persist(tmp_path / "folder")
    index.rag.copy_to(tmp_path / "i.e2g")
    with pytest.raises(InvalidInputError, match="vector store, which has only a copy") as raised:
        E2GraphRAGIndex.from_vector_store(index.vector_store, embed_model=None)
    message = str(raised.value)
    calls = re.findall(r"E2GraphRAGIndex\.\w+\((?:[^()]|\([^()]*\))*\)", message)
    assert len(calls) == 3
    names = {
        "E2GraphRAGIndex": E2GraphRAGIndex,
        "StorageContext": StorageContext,
        "vector_store": index.vector_store,
        "folder": tmp_path / "folder",
        "path": tmp_path / "i.e2g",
        "documents": [],
    }
    saved, opened, new = (eval(call, names) for call in calls)  # noqa: S307 - the package's own text
    assert answers(saved) == answers(opened) == answers(index)
    assert new.vector_store is index.vector_store
