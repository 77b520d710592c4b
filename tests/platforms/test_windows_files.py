"""Nothing changes a file that is open or mapped, which Windows would refuse."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations._utils import files as file_changes
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.errors import StoreError, StoreLockedError
from e2graphrag_integrations.html_report import write_report
from e2graphrag_integrations.portability.export_import import import_folder
from e2graphrag_integrations.shards.index import open_shards
from e2graphrag_integrations.shards.rebalance import rebalance
from e2graphrag_integrations.shards.shards_file import ShardsFile, create_shards
from e2graphrag_integrations.snapshot import array_files, incremental
from e2graphrag_integrations.snapshot import files as snapshot_files
from e2graphrag_integrations.snapshot.array_files import load_arrays, save_arrays
from e2graphrag_integrations.store.lock import IndexLock
from fakes import STORY, numbered

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

if sys.platform == "linux":
    from platforms.windows_files import MAX_PATH, Windows

NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil")


@pytest.fixture
def windows(tmp_path):
    """The rules of Windows, in force during the test; all arrays are mapped, however small."""
    rules = Windows(tmp_path)
    with pytest.MonkeyPatch.context() as patch, rules.in_force():
        patch.setattr(array_files, "_MIN_MAPPED", 1)
        patch.setattr(file_changes, "_SECONDS", 0.05)
        yield rules


@pytest.fixture
def segments(monkeypatch):
    """Snapshots in many small segments."""
    monkeypatch.setattr(incremental, "_MIN_SEGMENTED", 1)
    monkeypatch.setattr(incremental, "_MIN_KEPT", 0.0)
    monkeypatch.setattr(snapshot_files, "_MIN_UNCHANGED", 0.0)
    monkeypatch.setattr(snapshot_files, "_MAX_SEGMENTS", 3)


def snapshots(path: Path) -> list[str]:
    return sorted(one.name for one in Path(f"{path}.snapshot").iterdir())


def answers(rag: E2GraphRAG) -> list[str]:
    return [node.text for node in rag.retrieve("Did Anna meet Bert?", k=3).nodes]


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text(encoding="utf-8")


# Planted violations


@contextmanager
def opened(path):
    with path.open("rb"):
        yield


@contextmanager
def opened_by_number(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def mapped(path):
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    yield
    content.close()


@contextmanager
def mapped_by_numpy(path):
    array = np.memmap(path, dtype=np.uint8, mode="r")
    yield
    del array


@contextmanager
def opened_by_sqlite(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (x)")
        yield


@contextmanager
def opened_by_another_process(path):
    code = "import sys; f = open(sys.argv[1]); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"\n"
        yield process.pid
        process.kill()


HOLDERS = [
    opened,
    opened_by_number,
    mapped,
    mapped_by_numpy,
    opened_by_sqlite,
    opened_by_another_process,
]
CHANGES = {
    "unlink": lambda file, _: file.unlink(),
    "remove": lambda file, _: os.remove(file),  # noqa: PTH107
    "rename": lambda file, other: file.rename(other.with_name("new")),
    "replace": lambda file, other: other.replace(file),
    "move": lambda file, other: shutil.move(file, other.with_name("new")),
    "rename its folder": lambda file, other: file.parent.rename(other.with_name("new")),
    "delete its folder": lambda file, _: shutil.rmtree(file.parent),
}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("hold", HOLDERS)
def test_a_change_of_a_file_in_use_is_found(windows, tmp_path, hold, change):
    file, other = tmp_path / "folder" / "file", tmp_path / "other"
    file.parent.mkdir()
    file.write_bytes(b"content")
    other.write_bytes(b"other")
    with hold(file) as process:
        windows.others = (process,) if process else ()
        with pytest.raises(PermissionError) as caught:
            change(file, other)
    assert file_changes.is_in_use(caught.value)
    assert windows.violations
    windows.others = ()
    change(file, other)  # nobody uses it now


def test_truncating_a_mapped_file_is_found(windows, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"content")
    with mapped(file):
        for change in (
            lambda: file.write_bytes(b""),
            lambda: os.truncate(file, 0),
            lambda: os.open(file, os.O_WRONLY | os.O_TRUNC),
        ):
            with pytest.raises(PermissionError):
                change()
    assert len(windows.violations) == 3


def test_other_violations_are_found(windows, tmp_path):
    file = tmp_path / "file"
    file.touch()
    with file.open("rb") as reader, pytest.raises(OSError, match="Bad file"):
        os.fsync(reader.fileno())
    with pytest.raises(PermissionError):
        os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(FileExistsError):
        (tmp_path / "file2").write_text("") or file.rename(tmp_path / "file2")
    with FileLock(tmp_path / "lock"), pytest.raises(PermissionError):
        (tmp_path / "lock").read_text(encoding="utf-8")
    names = ("CON", "nul.txt", "COM1.json", "a:b", "what?", "ends.", "ends ", 'a"b', "a|b")
    for name in names:
        with pytest.raises(OSError, match="WinError 123"):
            (tmp_path / name).write_text("")
    assert len(windows.violations) == 4 + len(names)


def test_a_path_that_is_too_long_is_refused(windows, tmp_path):
    windows.max_path = MAX_PATH
    room = MAX_PATH - len(str(tmp_path)) - 2
    (tmp_path / ("a" * room)).touch()
    with pytest.raises(FileNotFoundError):
        (tmp_path / ("a" * (room + 1))).touch()


# Helpers of the package


def test_a_file_is_replaced_when_its_reader_closes_it(windows, tmp_path, monkeypatch):
    monkeypatch.setattr(file_changes, "_SECONDS", 20)
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    new.write_text("new")
    reader = old.open("rb")
    threading.Timer(0.2, reader.close).start()
    file_changes.replace_file(new, old)
    assert old.read_text() == "new"
    assert windows.refusals
    assert windows.violations == []


def test_a_missing_folder_is_reported_at_once(windows, tmp_path, monkeypatch):
    monkeypatch.setattr(file_changes, "_SECONDS", 60)
    (tmp_path / "new").touch()
    began = time.monotonic()
    with pytest.raises(FileNotFoundError):
        file_changes.replace_file(tmp_path / "new", tmp_path / "missing" / "old")
    assert time.monotonic() - began < 10


def test_a_folder_in_use_stays_complete_and_is_deleted_later(windows, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_bytes(b"content")
    with mapped(folder / "b"):
        assert not file_changes.discard_folder(folder)
        assert sorted(one.name for one in folder.iterdir()) == ["a", "b", "c"]
    assert file_changes.discard_folder(folder)
    assert file_changes.discard_folder(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_new_version_is_saved_beside_one_in_use(windows, tmp_path):
    folder = tmp_path / "f"
    for number in range(3):
        save_arrays(folder, {"a": np.full(9, number)}, {"n": number})
    assert [one.name for one in tmp_path.iterdir()] == ["f"]
    held, _ = load_arrays(folder)
    for number in range(10, 13):
        save_arrays(folder, {"a": np.full(9, number)}, {"n": number})
        arrays, meta = load_arrays(folder)
        assert (arrays["a"][0], meta["n"]) == (number, number)
        del arrays
    assert held["a"].tolist() == [2] * 9
    assert sorted(one.name for one in tmp_path.iterdir()) == ["f", "f.1"]
    del held
    save_arrays(folder, {"a": np.zeros(9)}, {})
    assert [one.name for one in tmp_path.iterdir()] == ["f"]
    assert windows.violations == []


# The package


@pytest.mark.slow
def test_readers_keep_their_snapshot_while_others_write(windows, tmp_path, open_index):
    path = tmp_path / "i.e2g"
    writer = open_index(path)
    writer.add(SourceDocument("story", STORY))
    reader = open_index(path, max_staleness=3600)
    before = answers(reader)
    assert is_mapped(tmp_path / "i.e2g.snapshot")
    for number in range(3):
        writer.add(numbered(5, f"n{number}"))
        assert answers(writer)
    writer.update(SourceDocument("n0", "Fay saw Gus in Rome."))
    writer.delete("n1")
    writer.edit_entities(stop="Fay")
    answers(writer)
    writer.compact()
    writer.reindex()
    writer.resume()
    assert writer.verify().problems == ()
    assert answers(reader)[0] == before[0]
    assert writer.reembed(HashingEmbedder(dimension=64)).documents == 3
    assert answers(writer)
    assert windows.refusals, "nothing was in use"
    assert windows.violations == []


@pytest.mark.slow
def test_outdated_snapshots_are_deleted_when_nobody_reads_them(windows, tmp_path, open_index):
    path = tmp_path / "i.e2g"
    writer, reader = open_index(path), open_index(path)
    writer.add(SourceDocument("story", STORY))
    answers(writer)
    answers(reader)
    old = writer.store.generation
    writer.add(numbered(5))
    answers(writer)
    assert old in snapshots(path)
    reader.close()
    writer.update(numbered(6))
    answers(writer)
    writer.update(numbered(7))
    answers(writer)
    assert old not in snapshots(path)
    assert windows.violations == []


@pytest.mark.slow
def test_all_files_can_be_deleted_after_close(windows, tmp_path, open_index):
    path = tmp_path / "i.e2g"
    rag = open_index(path)
    rag.add([SourceDocument("story", STORY), numbered(20)])
    result = rag.retrieve("Did Anna meet Bert?", k=3)
    rag.update(numbered(30))
    answers(rag)
    rag.close()
    assert result.nodes
    del result  # its trace reads the names of all nodes
    for file in tmp_path.iterdir():
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    assert windows.violations == []


@pytest.mark.slow
def test_all_files_of_shards_can_be_deleted_after_close(windows, tmp_path):
    listed, copied = tmp_path / "x.shards.json", tmp_path / "y.shards.json"
    create_shards(listed, 2, embedder="hashing")
    with open_shards(listed) as shards:
        shards.add([SourceDocument("story", STORY), numbered(20)])
        assert answers(shards)
        shards.update(numbered(30))
        expected = answers(shards)
    rebalance(listed, copied, 3)
    with open_shards(copied) as shards:
        assert answers(shards) == expected
    for file in tmp_path.iterdir():
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    assert windows.violations == []


def test_what_is_in_use_hides_no_error_of_new_shards(windows, tmp_path, monkeypatch):
    with ExitStack() as stack:

        def fail(shards, path):
            stack.enter_context(opened(tmp_path / "x.0.e2g"))
            raise StoreError("the disk is full")

        monkeypatch.setattr(ShardsFile, "write", fail)
        with pytest.raises(StoreError, match="the disk is full"):
            create_shards(tmp_path / "x.shards.json", 2, embedder="hashing")
        assert (tmp_path / "x.0.e2g").exists()
        assert not (tmp_path / "x.1.e2g").exists()


@pytest.mark.slow
def test_a_damaged_snapshot_in_use_gets_a_new_version(windows, tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(SourceDocument("story", STORY))
        expected = answers(rag)
    reader = open_index(path)
    assert answers(reader) == expected
    [generation] = snapshots(path)
    folder = Path(f"{path}.snapshot") / generation
    (folder / "meta.json").write_bytes(b"damaged")
    with open_index(path) as other:
        assert answers(other) == expected
        assert snapshots(path) == [generation, f"{generation}.1"]
    with open_index(path) as again:
        assert answers(again) == expected
    assert answers(reader) == expected
    assert snapshots(path) == [generation, f"{generation}.1"]
    assert windows.violations == []


@pytest.mark.slow
@pytest.mark.usefixtures("segments")
@pytest.mark.parametrize("seed", [0, 1])
def test_any_history_works_while_older_states_are_mapped(windows, tmp_path, open_index, seed):
    choose = random.Random(seed)  # noqa: S311
    path = tmp_path / "i.e2g"
    rags = [open_index(path, max_staleness=0) for _ in range(2)]
    rags[0].add([SourceDocument("a", "Anna met Bert."), SourceDocument("b", "Cleo saw Dora.")])
    for step in range(12):
        rag = rags[step % 2]
        name, text = choose.choice("abc"), " ".join(choose.choices(NAMES, k=8))
        if name in rag.document_ids:
            rag.delete(name) if step % 5 == 4 else rag.update(SourceDocument(name, text))
        else:
            rag.add(SourceDocument(name, text))
        expected = rag.retrieve("Anna", k=9).nodes
        assert rags[1 - step % 2].retrieve("Anna", k=9).nodes == expected
        if step % 4 == 3:
            rags[step % 2].close()
            rags[step % 2] = open_index(path, max_staleness=0)
    assert rags[0].verify().problems == ()
    assert windows.refusals
    assert windows.violations == []


WORKER = """
import sys
from pathlib import Path
from platforms.windows_files import Windows
from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument
from e2graphrag_integrations.snapshot import array_files
from fakes import NameExtractor, numbered

path, other = Path(sys.argv[1]), int(sys.argv[2])
array_files._MIN_MAPPED = 1
windows = Windows(path.parent, others=(other,))
with windows.in_force():
    with E2GraphRAG.open(path, models=Models(extractor=NameExtractor())) as rag:
        for line in sys.stdin:
            if line.startswith("write"):
                rag.add(numbered(5, line.strip()))
            print(len(rag.retrieve("Item 2 ends", k=50, mode="global").nodes), flush=True)
assert windows.violations == [], windows.violations
"""


@pytest.mark.slow
def test_two_processes_read_and_write(windows, tmp_path, open_index):
    path = tmp_path / "i.e2g"
    rag = open_index(path)
    rag.add(SourceDocument("story", STORY))
    answers(rag)
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, path, str(os.getpid())],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        windows.others = (process.pid,)

        def ask(line):
            process.stdin.write(f"{line}\n")
            return int(process.stdout.readline())

        counts = []
        for number in range(3):
            counts.append(ask("read"))
            rag.add(numbered(5, f"own {number}"))
            answers(rag)
            ask(f"write {number}")
            rag.delete(f"own {number}")
            answers(rag)
        process.stdin.close()
        assert process.wait(60) == 0
    windows.others = ()
    assert counts == sorted(counts)
    rag.compact()
    rag.add(numbered(3, "last"))
    answers(rag)
    rag.update(numbered(4, "last"))
    answers(rag)
    assert len(snapshots(path)) <= 2  # the newest, and the one before, which was just replaced
    assert any(refusal.path.startswith(f"{path}.snapshot") for refusal in windows.refusals)
    assert windows.violations == []


def test_the_lock_names_its_holder_and_is_free_afterwards(windows, tmp_path):
    path = str(tmp_path / "i.e2g")
    for _ in range(2):
        with IndexLock(path, 0).acquire():
            with (
                pytest.raises(StoreLockedError, match=f"process {os.getpid()} "),
                IndexLock(path, 0).acquire(),
            ):
                pass
            assert f"process {os.getpid()} " in str(IndexLock(path, 0).holder())
        assert IndexLock(path, 0).holder() is None
    assert windows.violations == []


@pytest.mark.slow
def test_exports_copies_and_imports(windows, tmp_path, open_index):
    path = tmp_path / "i.e2g"
    rag = open_index(path)
    rag.add(SourceDocument("story", STORY))
    answers(rag)
    rag.export_to(tmp_path / "folder")
    rag.export_graph(tmp_path / "graph.graphml")
    report = tmp_path / "report.html"
    write_report(rag, report)
    write_report(rag, report, replace=True)
    rag.copy_to(tmp_path / "copy.e2g")
    rag.copy_to(tmp_path / "copy.e2g")
    import_folder(tmp_path / "folder", tmp_path / "imported.e2g")
    with open_index(tmp_path / "imported.e2g") as imported:
        assert answers(imported) == answers(rag)
    assert windows.violations == []


def test_a_copy_that_is_open_is_not_replaced(windows, tmp_path, open_index):
    rag = open_index(tmp_path / "i.e2g")
    rag.add(SourceDocument("story", STORY))
    rag.copy_to(tmp_path / "copy.e2g")
    rag.add(numbered(3))
    with open_index(tmp_path / "copy.e2g") as copy:
        with pytest.raises(StoreError, match=r"copy\.e2g, because it is open"):
            rag.copy_to(tmp_path / "copy.e2g")
        assert copy.document_ids == ["story"]
        assert copy.verify().problems == ()
    assert not list(tmp_path.glob("*.new-*"))
    rag.copy_to(tmp_path / "copy.e2g")
    with open_index(tmp_path / "copy.e2g") as copy:
        assert copy.document_ids == ["numbered", "story"]
    assert windows.violations == []


def test_a_storage_context_is_persisted_while_others_read_it(windows, tmp_path):
    pytest.importorskip("llama_index.core")
    module = importlib.import_module("e2graphrag_integrations.llama_index")
    core = importlib.import_module("llama_index.core")
    folder = tmp_path / "stored"
    index = module.E2GraphRAGIndex.from_documents(
        [core.Document(id_="story", text=STORY)], embed_model="hashing"
    )
    index.persist(folder)
    index.insert(core.Document(id_="new", text="Kit met Lea."))
    reader = (folder / "docstore.json").open("rb")
    with pytest.raises(StoreError, match="cannot persist"):
        index.persist(folder)
    assert module.E2GraphRAGIndex.from_persist_dir(folder).ref_doc_info.keys() >= {"story"}
    reader.close()
    index.persist(folder)
    assert module.E2GraphRAGIndex.from_persist_dir(folder).ref_doc_info.keys() == {"story", "new"}
    assert not list(folder.glob("persist.new-*"))
    assert windows.violations == []


def test_the_command_line_removes_an_index_that_failed(windows, tmp_path, capsys, monkeypatch):
    source = tmp_path / "a.txt"
    source.write_text("Anna met Bert.")
    path = tmp_path / "i.e2g"
    code = cli.main(["index", str(source), "--out", str(path), "--embedder", "missing-model"])
    assert code == 2, capsys.readouterr()
    assert [one.name for one in tmp_path.iterdir() if one.suffix != ".lock"] == ["a.txt"]
    assert windows.violations == []


@pytest.mark.slow
def test_the_command_line_indexes_and_answers(windows, tmp_path, capsys):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("Anna met Bert in Oslo.")
    path = str(tmp_path / "i.e2g")
    for arguments in (
        ["index", str(tmp_path / "texts"), "--out", path, "--embedder", "hashing"],
        ["query", path, "Whom did Anna meet?"],
        ["export", "folder", path, str(tmp_path / "export")],
        ["documents", "delete", path, "a.txt"],
        ["query", path, "Whom did Anna meet?"],
    ):
        cli.main(arguments)
    assert "error" not in capsys.readouterr().err
    assert windows.violations == []


def test_an_index_whose_snapshot_has_too_long_a_path_stays_in_memory(windows, tmp_path, open_index):
    windows.max_path = MAX_PATH
    folder = tmp_path / ("a" * (190 - len(str(tmp_path))))
    folder.mkdir()
    with open_index(folder / "i.e2g") as rag:
        rag.add(SourceDocument("story", STORY))
        expected = answers(rag)
    with open_index(folder / "i.e2g") as rag:
        assert answers(rag) == expected
        rag.update(numbered(3, "story"))
        assert rag.verify().problems == ()
    assert windows.violations == []
    assert json.dumps(expected)
