"""The snapshot on disk: used again, repaired when damaged, never stale, never needed."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.store import snapshot_files
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
        "from e2graphrag_integrations.store import snapshot_files\n"
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
        ("arrays.npz", b""),
        ("arrays.npz", b"PK\x03\x04 not a zip"),
        ("meta.json", b""),
        ("meta.json", b"[]"),
        ("meta.json", b'{"format": 1, "checksum": 0, "meta": "{}"}'),
        ("meta.json", b'{"format": 1, "checksum": 0, "meta": 7}'),
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


def test_one_flipped_byte_anywhere_is_noticed(path, open_index, builds):
    expected = answers(open_index(path))
    [folder] = folders(path)
    for name in ("arrays.npz", "meta.json"):
        whole = (folder / name).read_bytes()
        for at in range(0, len(whole), len(whole) // 7):
            (folder / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert answers(open_index(path)) == expected
    assert len(builds) >= 10


def test_a_half_written_one_is_rebuilt(path, open_index, builds):
    [folder] = folders(path)
    (folder / "arrays.npz").unlink()
    assert open_index(path).retrieve("Anna").nodes
    assert len(builds) == 1


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
    with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
        assert all(array.dtype != object for array in dict(arrays).values())
    assert json.loads((folder / "meta.json").read_text())["format"] == 3


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

    monkeypatch.setattr(snapshot_files, "lexical_of", counting)
    return made


def words_file(path):
    [folder] = folders(path)
    return folder / "words.npz"


def weights(rag):
    lexical = rag._reader.snapshot().lexical
    return list(lexical.words), lexical.weights.toarray().tolist()


def test_words_are_indexed_once_for_all_processes(path, open_index, word_builds):
    loaded, found = answers(open_index(path)), weights(open_index(path))
    assert word_builds == []
    words_file(path).unlink()
    assert answers(open_index(path)) == loaded
    assert weights(open_index(path)) == found
    assert len(word_builds) == 1
    assert sorted(file.name for file in folders(path)[0].iterdir()) == [
        "arrays.npz",
        "meta.json",
        "words.npz",
    ]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\xff" * 400])
def test_damaged_words_are_indexed_again_and_repaired(path, open_index, word_builds, content):
    expected = answers(open_index(path))
    words_file(path).write_bytes(content)
    assert answers(open_index(path)) == expected
    assert answers(open_index(path)) == expected
    assert len(word_builds) == 1


def test_a_flipped_bit_in_the_words_never_changes_an_answer(path, open_index):
    expected, whole = answers(open_index(path)), words_file(path).read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        words_file(path).write_bytes(flipped)
        assert answers(open_index(path)) == expected


def test_an_index_without_a_word_is_opened_again(tmp_path, open_index):
    with open_index(tmp_path / "dots.e2g") as rag:
        rag.add(SourceDocument("dots", "... !!! ..."))
        assert len(rag.retrieve("What?").nodes) == 1
    with open_index(tmp_path / "dots.e2g") as again:
        assert weights(again) == ([], [[]])
        assert len(again.retrieve("What?").nodes) == 1


def test_words_that_cannot_be_written_are_held_in_memory(path, open_index, monkeypatch):
    expected = answers(open_index(path))
    words_file(path).unlink()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    rag = open_index(path)
    assert answers(rag) == expected
    assert not words_file(path).exists()
