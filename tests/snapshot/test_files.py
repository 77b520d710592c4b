"""The snapshot on disk: used again, repaired when damaged, never stale, never needed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.snapshot import files as snapshot_files
from e2graphrag_integrations.snapshot import snapshot as store_snapshot
from e2graphrag_integrations.snapshot.array_files import FORMAT, load_arrays, save_arrays
from fakes import numbered


@pytest.fixture
def path(tmp_path, open_index, story):
    """Make a closed index whose snapshot is on disk."""
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(story)
        rag.retrieve("Anna")
    return path


@pytest.fixture
def builds(monkeypatch):
    """Count how often a snapshot is derived from the store."""
    real, made = snapshot_files.build_snapshot, []

    def counting(store):
        made.append(store.generation)
        return real(store)

    monkeypatch.setattr(snapshot_files, "build_snapshot", counting)
    return made


def folders(path):
    return sorted(Path(f"{path}.snapshot").iterdir())


def answers(rag):
    questions = ("Did Anna meet Bert?", "Emil", "the harbour at night")
    return [rag.retrieve(q, k=4, where={"kind": "tale"}).nodes for q in questions]


def test_another_instance_uses_it_and_answers_alike(path, open_index, builds):
    shutil.copytree(f"{path}.snapshot", path.parent / "kept")
    loaded = answers(open_index(path))
    assert builds == []
    shutil.rmtree(f"{path}.snapshot")
    assert answers(open_index(path)) == loaded
    assert len(builds) == 1


def test_what_is_loaded_equals_what_was_built(path, open_index):
    one = open_index(path)._reader.snapshot()
    shutil.rmtree(f"{path}.snapshot")
    other = open_index(path)._reader.snapshot()
    for name, array in snapshot_files._arrays(one).items():
        assert np.array_equal(array, snapshot_files._arrays(other)[name]), name
    assert snapshot_files._meta(one) == snapshot_files._meta(other)


def test_another_process_uses_it(path, open_index):
    code = (
        "import sys\n"
        "from fakes import NameExtractor\n"
        "from e2graphrag_integrations import E2GraphRAG\n"
        "from e2graphrag_integrations.snapshot import files as snapshot_files\n"
        "snapshot_files.build_snapshot = None\n"  # not callable: building would fail
        f"with E2GraphRAG.open({str(path)!r}, extractor=NameExtractor()) as rag:\n"
        "    print(rag.retrieve('Did Anna meet Bert?', k=1).nodes[0].text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [node] = open_index(path).retrieve("Did Anna meet Bert?", k=1).nodes
    assert done.stdout.split() == node.text.split()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vectors.npy", b""),
        ("ids.npy", b"\x93NUMPY not an array"),
        ("meta.json", b""),
        ("meta.json", b"[]"),
        ("meta.json", b'{"format": 4, "checksum": 0, "text": "{}"}'),
        ("meta.json", b'{"format": 4, "checksum": 0, "text": 7}'),
        ("meta.json", b"\xff\xfe"),
    ],
)
def test_a_damaged_one_is_rebuilt_and_repaired_on_disk(path, open_index, builds, name, content):
    expected = answers(open_index(path))
    [folder] = folders(path)
    (folder / name).write_bytes(content)
    assert answers(open_index(path)) == expected
    assert len(builds) == 1
    assert answers(open_index(path)) == expected
    assert len(builds) == 1  # the third found it sound again


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (("edges_data", "edges_indices"), np.zeros((2, 2))),
        (("edges_shape",), np.zeros(3, dtype=np.int64)),
        (("vectors",), None),
    ],
)
def test_arrays_that_no_snapshot_is_made_of_are_made_again(path, open_index, builds, names, wrong):
    """Whatever wrote them: their checksums are right."""
    expected = answers(open_index(path))
    [folder] = folders(path)
    arrays, meta = load_arrays(folder)
    for name in names:
        arrays[name] = wrong
    save_arrays(folder, {name: one for name, one in arrays.items() if one is not None}, meta)
    assert answers(open_index(path)) == expected
    assert answers(open_index(path)) == expected
    assert len(builds) == 1


def test_one_flipped_byte_anywhere_is_noticed(path, open_index, builds):
    expected = answers(open_index(path))
    [folder] = folders(path)
    files = sorted(file for file in folder.iterdir() if file.is_file())
    flips = [(file, number) for number, file in enumerate(files)]
    flips += [(folder / "meta.json", number) for number in range(7)]
    for file, number in flips:
        whole = file.read_bytes()
        at = number % 7 * (len(whole) - 1) // 6
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert open_index(path)._reader.snapshot().generation == folder.name
    assert len(builds) == len(flips) >= 30
    assert answers(open_index(path)) == expected


def test_a_half_written_one_is_rebuilt(path, open_index, builds):
    [folder] = folders(path)
    files = [file for file in folder.iterdir() if file.is_file()]
    for number, file in enumerate(files, start=1):
        file.unlink()
        assert open_index(path).retrieve("Anna", k=1, mode="global").nodes
        assert len(builds) == number


def test_one_of_an_earlier_layout_is_replaced(path, open_index, builds):
    expected = answers(open_index(path))
    [folder] = folders(path)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "arrays.npz").write_bytes(b"PK")
    (folder / "words.npz").write_bytes(b"PK")
    text = json.dumps({"generation": folder.name, "nodes": [], "checksum": 0})
    wrapped = {"format": 3, "checksum": zlib.crc32(text.encode()), "meta": text}
    (folder / "meta.json").write_text(json.dumps(wrapped))
    assert answers(open_index(path)) == expected
    assert list(folder.rglob("*.npz")) == []
    assert answers(open_index(path)) == expected
    assert len(builds) == 1


def test_what_a_process_that_died_had_written_aside_goes_a_day_later(path, open_index):
    home = Path(f"{path}.snapshot")
    old, new = home / f"new-{'0' * 32}", home / f"new-{'1' * 32}"
    for aside in (old, new):
        aside.mkdir()
        (aside / "ids.npy").write_bytes(b"half")
    day = 24 * 60 * 60
    os.utime(old, (time.time() - day - 60,) * 2)
    os.utime(new, (time.time() - day + 60,) * 2)
    with open_index(path) as rag:
        rag.add(numbered(3))
        rag.retrieve("Anna")
        assert [one.name for one in folders(path)] == sorted([rag._store.generation, new.name])


def test_after_a_write_elsewhere_it_is_never_stale(path, open_index):
    one, other = open_index(path), open_index(path)
    assert one.retrieve("Item", k=50, mode="global").nodes[0].document_id == "story"
    other.add(numbered(3))
    assert one.retrieve("Item 2 ends", k=1, mode="global").nodes[0].document_id == "numbered"
    other.delete("numbered")
    found = one.retrieve("Item 2 ends", k=50, mode="global").nodes
    assert {node.document_id for node in found} == {"story"}


def test_only_the_present_generation_stays_on_disk(path, open_index):
    rag = open_index(path)
    rag.add(numbered(3))
    rag.retrieve("Anna")
    assert [folder.name for folder in folders(path)] == [rag._store.generation]


def test_a_backup_put_back_does_not_meet_the_snapshot_of_its_other_future(
    path, open_index, tmp_path
):
    backup = path.read_bytes()
    with open_index(path) as rag:
        rag.add(numbered(3))
        rag.retrieve("Item")
    path.write_bytes(backup)
    found = open_index(path).retrieve("Item 1 ends", k=50, mode="global").nodes
    assert {node.document_id for node in found} == {"story"}


@pytest.mark.parametrize("method", ["mkdir", "rename"])
def test_where_it_cannot_be_written_it_is_held_in_memory(path, open_index, monkeypatch, method):
    expected = answers(open_index(path))
    shutil.rmtree(f"{path}.snapshot")

    def refuse(*_, **__):
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, method, refuse)
    assert answers(open_index(path)) == expected
    monkeypatch.undo()
    leftovers = [p for p in path.parent.rglob("*") if p != path and p.is_file()]
    assert all(p.name.startswith("i.e2g-") for p in leftovers)  # SQLite's own, while it is open


def test_a_generation_that_is_no_name_never_becomes_a_path(path, open_index):
    victim = path.parent / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE manifest SET value = '../victim' WHERE key = 'generation'")
        db.commit()
    with pytest.raises(CorruptStoreError, match="generation"):
        open_index(path).retrieve("Anna")
    assert (victim / "file").read_text() == "precious"


def test_it_holds_no_pickle(path):
    [folder] = folders(path)
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 30
    for file in files:
        if file.suffix == ".npy":
            assert np.load(file, allow_pickle=False).dtype != object
        else:
            assert file.name == "meta.json"
            assert json.loads(file.read_text())["format"] == FORMAT


def test_the_snapshot_of_another_generation_is_not_believed(path, tmp_path, open_index, builds):
    other = tmp_path / "o.e2g"
    with open_index(other) as rag:
        rag.add(numbered(9))
        rag.retrieve("Anna")
    [own] = Path(f"{path}.snapshot").iterdir()
    [foreign] = Path(f"{other}.snapshot").iterdir()
    shutil.rmtree(own)
    shutil.copytree(foreign, own)
    builds.clear()
    assert open_index(path).retrieve("Where did Anna meet Bert?").nodes
    assert len(builds) == 1


def test_a_snapshot_folder_that_is_a_link_keeps_its_other_contents(path, tmp_path, open_index):
    home = tmp_path / "home"
    shutil.move(f"{path}.snapshot", home)
    (home / "mine").mkdir()
    Path(f"{path}.snapshot").symlink_to(home)
    with open_index(path) as rag:
        rag.add(numbered(3))
        rag.retrieve("Anna")
    assert (home / "mine").is_dir()


def test_deeply_nested_json_is_only_a_damaged_snapshot(path, open_index):
    [folder] = Path(f"{path}.snapshot").iterdir()
    (folder / "meta.json").write_text("[" * 200_000)
    assert open_index(path).retrieve("Where did Anna meet Bert?").nodes


@pytest.fixture
def word_builds(monkeypatch):
    """Count how often the words are indexed."""
    real, made = snapshot_files.lexical_of, []

    def counting(store, snapshot):
        made.append(snapshot.generation)
        return real(store, snapshot)

    monkeypatch.setattr(snapshot_files, "bm25_from_store", counting)
    return made


def words_of(path):
    [folder] = folders(path)
    return folder / "words"


def weights(rag):
    lexical = rag._reader.snapshot().lexical
    return list(lexical.words), lexical.weights.toarray().tolist()


def test_words_are_indexed_once_for_all_processes(path, open_index, word_builds):
    loaded, found = answers(open_index(path)), weights(open_index(path))
    assert word_builds == []
    shutil.rmtree(words_of(path))
    assert answers(open_index(path)) == loaded
    assert weights(open_index(path)) == found
    assert len(word_builds) == 1
    arrays = snapshot_files._arrays(open_index(path)._reader.snapshot())
    assert {file.name for file in folders(path)[0].iterdir()} == {
        *(f"{name}.npy" for name in arrays),
        "meta.json",
        "words",
    }
    assert sorted(file.name for file in words_of(path).iterdir()) == [
        "bounds.npy",
        "counts.npy",
        "data.npy",
        "indices.npy",
        "indptr.npy",
        "lengths.npy",
        "meta.json",
        "words.npy",
    ]


@pytest.mark.parametrize("in_memory", [True, False])
def test_after_an_edit_only_the_words_of_what_changed_are_indexed(
    path, open_index, word_builds, in_memory, monkeypatch
):
    read, real = [], store_snapshot.build_lexical
    monkeypatch.setattr(store_snapshot, "build_lexical", lambda texts: real(noting(texts, read)))
    rag = open_index(path)
    rag.add(SourceDocument("kept", "Dora met Emil."))
    assert weights(rag)
    if not in_memory:
        rag.close()
        rag = open_index(path)
    read.clear()
    rag.add(SourceDocument("new", "Zoe met Anna."))
    rag.delete("story")
    found = weights(rag)
    assert word_builds == []
    assert read == ["Zoe met Anna."]
    assert rag.verify().problems == ()
    word_builds.clear()
    rag.close()
    shutil.rmtree(f"{path}.snapshot")
    assert weights(open_index(path)) == found
    assert len(word_builds) == 1


def test_where_another_searches_the_vectors_words_are_kept_just_the_same(open_index, monkeypatch):
    read, real = [], store_snapshot.build_lexical
    monkeypatch.setattr(store_snapshot, "build_lexical", lambda texts: real(noting(texts, read)))
    rag = open_index(":memory:")
    rag.search_through(lambda snapshot: snapshot.dense)
    rag.add(numbered(20))
    rag.add(SourceDocument("kept", "Dora met Emil."))
    assert weights(rag)
    read.clear()
    rag.add(SourceDocument("new", "Zoe met Anna."))
    assert weights(rag)
    assert read == ["Zoe met Anna."]


def noting(texts, read):
    for text in texts:
        read.append(text)
        yield text


def test_where_nobody_asked_for_words_an_edit_indexes_none(path, open_index, word_builds):
    shutil.rmtree(words_of(path))
    rag = open_index(path)
    rag.add(SourceDocument("new", "Zoe met Anna."))
    rag.stats()
    snapshot = rag._reader.snapshot()
    assert snapshot.lexical_at_hand is None
    assert "zoe" in snapshot.lexical.words
    assert len(word_builds) == 1


@pytest.mark.parametrize("name", ["meta.json", "data.npy", "words.npy", "counts.npy"])
@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY not an array", b"\xff" * 400])
def test_damaged_words_are_indexed_again_and_repaired(path, open_index, word_builds, name, content):
    expected = answers(open_index(path))
    if content is None:
        (words_of(path) / name).unlink()
    else:
        (words_of(path) / name).write_bytes(content)
    assert answers(open_index(path)) == expected
    assert answers(open_index(path)) == expected
    assert len(word_builds) == 1


def test_a_flipped_bit_in_the_words_never_changes_an_answer(path, open_index):
    expected, flips = answers(open_index(path)), 0
    for file in sorted(words_of(path).iterdir()):
        whole = file.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 9)):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << at % 8
            file.write_bytes(flipped)
            assert answers(open_index(path)) == expected
            flips += 1
    assert flips >= 54


def test_an_index_without_a_word_is_opened_again(tmp_path, open_index):
    with open_index(tmp_path / "dots.e2g") as rag:
        rag.add(SourceDocument("dots", "... !!! ..."))
        assert len(rag.retrieve("What?").nodes) == 1
    with open_index(tmp_path / "dots.e2g") as again:
        assert weights(again) == ([], [[]])
        assert len(again.retrieve("What?").nodes) == 1


def test_words_that_cannot_be_written_are_held_in_memory(path, open_index, monkeypatch):
    expected = answers(open_index(path))
    shutil.rmtree(words_of(path))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    rag = open_index(path)
    assert answers(rag) == expected
    assert not words_of(path).exists()
    assert not list(words_of(path).parent.glob("new-*"))
