"""A persist that fails or is killed leaves the old or the new version; torn stores are detected."""

from __future__ import annotations

import builtins
import copy
import io
import os
import shutil
import threading
from contextlib import contextmanager, suppress
from itertools import count, product
from pathlib import Path

import faiss
import fsspec
import pytest
from llama_index.core import Document, StorageContext, load_index_from_storage
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.vector_stores.faiss import FaissMapVectorStore, FaissVectorStore

from e2graphrag_integrations.errors import CorruptStoreError, StoreError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.llama_index.storage.persisted_folder import (
    finish_replacement,
    replace_files,
)
from fakes import NameExtractor

DOCSTORE, STRUCTS, VECTORS = "docstore.json", "index_store.json", "default__vector_store.json"
QUESTION = "What did Anna give Bert?"


CHANGES = ("rename", "replace", "mkdir", "rmdir", "unlink", "fsync")
"""Functions of `os` that change files; opening a file for writing is another change."""


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
def killed_at(number, changes=CHANGES):
    kill = Kill(number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)  # a kill does not lose what is not synced
        for name in changes:
            patch.setattr(os, name, kill.replacement(getattr(os, name)))
        if changes is CHANGES:
            patch.setattr(builtins, "open", kill.open)
            patch.setattr(io, "open", kill.open)
        yield kill


def each_kill(folder, work, changes=CHANGES):
    """Kill `work` on copies of a folder, at each change; yield the copies, a complete one last."""
    for number in count():
        copied = Path(shutil.copytree(folder, f"{folder} {number}"))
        with killed_at(number, changes) as kill, suppress(Killed):
            work(copied)
        yield copied
        if kill.tried <= number:
            return


def in_store(kind):
    flat = faiss.IndexFlatIP(256)
    store = {
        "simple": SimpleVectorStore,
        "faiss": lambda: FaissVectorStore(flat),
        "faiss-map": lambda: FaissMapVectorStore(faiss.IndexIDMap2(flat)),
    }[kind]()
    return StorageContext.from_defaults(vector_store=store)


def loaded(folder):
    return E2GraphRAGIndex.from_persist_dir(folder, extractor=NameExtractor())


def loaded_by_llama_index(folder, kind="simple"):
    store = {"faiss": FaissVectorStore, "faiss-map": FaissMapVectorStore}.get(kind)
    stores = {} if store is None else {"vector_store": store.from_persist_dir(str(folder))}
    context = StorageContext.from_defaults(persist_dir=str(folder), **stores)
    return load_index_from_storage(context, extractor=NameExtractor())


def content(index):
    """Return what users see of an index."""
    nodes = index.as_retriever("global", similarity_top_k=50).retrieve(QUESTION)
    return [(n.node_id, n.text, n.metadata, round(n.score, 5)) for n in nodes]


@pytest.fixture
def versions(index_of, documents):
    """Return a function that builds an index, and changes it to its second version."""

    def build(kind="simple"):
        index = index_of(documents, storage_context=in_store(kind))

        def change():
            story, other = documents
            renamed = Document(id_="story", text=story.text, metadata={"title": "A Plan"})
            index.refresh_ref_docs([renamed, Document(id_="new", text="Kit met Lea. " * 20)])
            index.delete_ref_doc(other.node_id)

        return index, change

    return build


OLD = {"a": "old a", "b": "old b", "same": "same", "other": "kept"}
NEW = {"a": "new a", "b": "new b", "same": "same", "below/c": "new c"}
BOTH = OLD | NEW
"""A replacement keeps the files that it does not name."""


def replace_by(files):
    def write(version):
        for name, text in files.items():
            (version / name).parent.mkdir(exist_ok=True)
            (version / name).write_text(text)

    return lambda folder: replace_files(folder, write)


def files_in(folder):
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != "persist.lock"]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in found}


@pytest.fixture
def old_folder(tmp_path):
    replace_by(OLD)(tmp_path / "old")
    return tmp_path / "old"


@pytest.mark.slow
def test_a_kill_at_any_change_of_a_file_leaves_all_old_or_all_new_files(old_folder):
    interrupted = []
    for folder in each_kill(old_folder, replace_by(NEW)):
        if (folder / "persist.pending").exists():
            interrupted.append(Path(shutil.copytree(folder, f"{folder} interrupted")))
        finish_replacement(folder)
        files = files_in(folder)
        visible = {name: text for name, text in files.items() if not name.startswith("persist.new")}
        assert visible == (BOTH if interrupted else OLD)
        replace_by(NEW)(folder)
        assert files_in(folder) == BOTH
    assert len(interrupted) > len(NEW)
    for folder in interrupted[::3]:
        for again in each_kill(folder, finish_replacement):
            finish_replacement(again)
            assert files_in(again) == BOTH


def test_a_kill_during_the_first_persist_leaves_no_files_or_all(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in each_kill(tmp_path / "empty", replace_by(NEW)):
        finish_replacement(folder)
        files = {n: text for n, text in files_in(folder).items() if not n.startswith("persist.new")}
        assert files in ({}, NEW)


def test_files_written_after_an_interrupted_persist_are_kept(old_folder, caplog):
    *_, folder = (f for f in each_kill(old_folder, replace_by(NEW)) if list(f.glob("*.pending/b")))
    (folder / "b").write_text("written by something else")
    finish_replacement(folder)
    assert (folder / "b").read_text() == "written by something else"
    assert "is older than the files" in caplog.text


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("[1]", "is damaged"),
        ("{", "is damaged"),
        ('{"a": [null]}', "is damaged"),
        ('{"../a": [null, null]}', "names a file outside"),
        ('{"/etc/hostname": [null, null]}', "names a file outside"),
        (None, "has no persist.manifest.json"),
    ],
)
def test_a_damaged_pending_version_is_rejected(old_folder, manifest, message):
    pending = old_folder / "persist.pending"
    pending.mkdir()
    (pending / "a").write_text("new a")
    if manifest is not None:
        (pending / "persist.manifest.json").write_text(manifest)
    with pytest.raises(CorruptStoreError, match=message):
        finish_replacement(old_folder)
    assert (old_folder / "a").read_text() == "old a"


def test_a_persist_that_fails_keeps_the_old_version_and_says_so(versions, tmp_path, monkeypatch):
    index, change = versions()
    index.persist(tmp_path / "stored")
    before = files_in(tmp_path / "stored")
    change()

    def fail(*_args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError, match=r"No space left on device.*can still be loaded"):
            index.persist(tmp_path / "stored")
    assert files_in(tmp_path / "stored") == before
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot persist to"):
        index.persist(tmp_path / "file")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simple", "faiss-map"])
def test_a_killed_persist_of_an_index_leaves_the_old_or_the_new_version(versions, tmp_path, kind):
    index, change = versions(kind)
    index.persist(tmp_path / "stored")
    old = content(index)
    change()
    new = content(index)
    seen = []
    moves = ("rename", "replace")
    for folder in each_kill(tmp_path / "stored", index.storage_context.persist, moves):
        copied = shutil.copytree(folder, f"{folder} for LlamaIndex")
        try:
            assert content(loaded_by_llama_index(copied, kind)) in (old, new)
        except CorruptStoreError as error:
            assert "E2GraphRAGIndex.from_persist_dir(folder) loads it" in str(error)  # noqa: PT017
        found = content(loaded(folder))
        assert found == content(loaded_by_llama_index(folder, kind))
        assert found in (old, new)
        seen.append(found == new)
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


@pytest.mark.parametrize("kind", ["simple", "faiss", "faiss-map"])
def test_files_of_two_versions_do_not_load(versions, tmp_path, kind):
    """LlamaIndex's own `StorageContext.persist` can leave any mixture when it is killed."""
    index, change = versions(kind)
    index.persist(tmp_path / "old")
    old = content(index)
    change()
    index.persist(tmp_path / "new")
    contents = [old, content(index)]
    names = [DOCSTORE, STRUCTS, VECTORS, *(["id_map.json"] if kind == "faiss-map" else [])]
    for number, chosen in enumerate(product(["old", "new"], repeat=len(names))):
        mixed = shutil.copytree(tmp_path / "old", tmp_path / str(number))
        for name, version in zip(names, chosen, strict=True):
            shutil.copy(tmp_path / version / name, mixed / name)
        if len(set(chosen)) == 1:
            assert content(loaded(mixed)) == contents[chosen[0] == "new"]
            continue
        for load in (loaded, lambda folder: loaded_by_llama_index(folder, kind)):
            with pytest.raises(CorruptStoreError, match="index store"):
                load(mixed)


def test_a_change_of_metadata_alone_is_detected(index_of, tmp_path):
    text = "Anna met Bert. Bert met Cleo."
    index = index_of([Document(id_="a", text=text, metadata={"tenant": "one"})])
    index.persist(tmp_path / "old")
    index.refresh_ref_docs([Document(id_="a", text=text, metadata={"tenant": "two"})])
    index.persist(tmp_path / "new")
    shutil.copy(tmp_path / "old" / DOCSTORE, tmp_path / "new" / DOCSTORE)
    with pytest.raises(CorruptStoreError, match="saved at different times"):
        loaded(tmp_path / "new")


def test_an_edited_docstore_still_loads(index_of, documents, tmp_path):
    """Only a docstore of another version is rejected, not one that the user has changed."""
    index = index_of(documents)
    docstore = index.storage_context.docstore
    node = next(iter(docstore.docs.values()))
    node.metadata["note"] = "mine"
    docstore.add_documents([node])
    docstore.add_documents([TextNode(id_="mine", text="Mine.")])
    index.set_index_id("renamed")
    index.persist(tmp_path / "stored")
    assert content(loaded(tmp_path / "stored")) == content(index)


def test_the_context_of_the_user_persists_as_before(index_of, documents, tmp_path):
    class OwnContext(StorageContext):
        def persist(self, *_args, **_options):
            return "mine"

    own = OwnContext(**vars(StorageContext.from_defaults()))
    assert index_of(documents, storage_context=own).storage_context is own
    context = StorageContext.from_defaults()
    index = index_of(documents[:1], storage_context=context)
    assert index.storage_context.docstore is context.docstore
    assert index.storage_context.vector_stores is context.vector_stores
    index.storage_context.persist(f"file://{tmp_path / 'stored'}", fs=fsspec.filesystem("file"))
    assert content(loaded(tmp_path / "stored")) == content(index)
    copied = copy.deepcopy(index.storage_context)
    copied.persist(tmp_path / "copied")
    assert content(loaded(tmp_path / "copied")) == content(index)


def test_other_file_systems_are_written_file_by_file_and_checked_at_load(versions):
    index, change = versions()
    memory = fsspec.filesystem("memory")
    index.storage_context.persist("/stored", fs=memory)
    assert not memory.glob("/stored/persist.*")
    context = StorageContext.from_defaults(persist_dir="/stored", fs=memory)
    assert content(load_index_from_storage(context, extractor=NameExtractor())) == content(index)
    old = memory.cat_file(f"/stored/{STRUCTS}")
    change()
    index.storage_context.persist("/stored", fs=memory)
    memory.pipe_file(f"/stored/{STRUCTS}", old)
    context = StorageContext.from_defaults(persist_dir="/stored", fs=memory)
    with pytest.raises(CorruptStoreError, match="saved at different times"):
        load_index_from_storage(context, extractor=NameExtractor())


def test_reading_while_another_thread_persists_gives_a_whole_version(versions, tmp_path):
    index, change = versions()
    ids = [index.ref_doc_info.keys()]
    other, _ = versions()
    change()
    ids.append(index.ref_doc_info.keys())
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
            try:
                found = loaded(tmp_path / "stored")
            except StoreError as error:
                assert "changed during every attempt" in str(error)  # noqa: PT017
            else:
                assert found.ref_doc_info.keys() in ids
    finally:
        stop.set()
        thread.join()


def test_only_folders_with_a_complete_first_version_load(versions, tmp_path):
    index, _ = versions()
    (tmp_path / "stored").mkdir()
    for folder in each_kill(tmp_path / "stored", index.persist, ("rename",)):
        if (folder / DOCSTORE).exists():
            assert content(loaded(folder)) == content(index)
        else:
            with pytest.raises(CorruptStoreError, match=r"docstore\.json is missing"):
                loaded(folder)
