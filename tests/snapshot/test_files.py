"""The snapshot on disk is reused, rebuilt if damaged or stale, and never required."""

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

import fakes
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Mention,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.engine.opening import FaceHooks, open_parts
from e2graphrag_integrations.entities import normalize
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.options import Options
from e2graphrag_integrations.snapshot import build as snapshot_build
from e2graphrag_integrations.snapshot import conversion
from e2graphrag_integrations.snapshot import files as snapshot_files
from e2graphrag_integrations.snapshot.array_files import FORMAT, load_arrays, save_arrays
from fakes import NameExtractor, numbered


@pytest.fixture
def path(tmp_path, open_index, story):
    """Create an index with a snapshot on disk, and close it."""
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(story)
        rag.retrieve("Anna")
    return path


@pytest.fixture
def builds(monkeypatch):
    """Return the generations of all snapshots built from the store."""
    real, generations = snapshot_files.build_snapshot, []

    def counting(store, **options):
        generations.append(store.generation)
        return real(store, **options)

    monkeypatch.setattr(snapshot_files, "build_snapshot", counting)
    return generations


def folders(path):
    return sorted(Path(f"{path}.snapshot").iterdir())


def answers(rag):
    questions = ("Did Anna meet Bert?", "Emil", "the harbour at night")
    return [rag.retrieve(q, k=4, where={"kind": "tale"}).nodes for q in questions]


def test_another_instance_loads_the_snapshot_and_gives_the_same_answers(path, open_index, builds):
    shutil.copytree(f"{path}.snapshot", path.parent / "copy")
    loaded = answers(open_index(path))
    assert builds == []
    shutil.rmtree(f"{path}.snapshot")
    assert answers(open_index(path)) == loaded
    assert len(builds) == 1


def test_a_loaded_snapshot_equals_a_built_one(path, open_index):
    one = open_index(path)._session.snapshot()
    shutil.rmtree(f"{path}.snapshot")
    other = open_index(path)._session.snapshot()
    for name, array in snapshot_files.snapshot_arrays(one).items():
        assert np.array_equal(array, snapshot_files.snapshot_arrays(other)[name]), name
    assert snapshot_files.snapshot_meta(one) == snapshot_files.snapshot_meta(other)


@pytest.mark.slow
def test_another_process_loads_the_snapshot(path, open_index):
    code = (
        "import sys\n"
        "from fakes import NameExtractor\n"
        "from e2graphrag_integrations import E2GraphRAG, Models\n"
        "from e2graphrag_integrations.snapshot import files as snapshot_files\n"
        "snapshot_files.build_snapshot = None\n"  # not callable: building would fail
        f"with E2GraphRAG.open({str(path)!r}, models=Models(extractor=NameExtractor())) as rag:\n"
        "    print(rag.retrieve('Did Anna meet Bert?', k=1).nodes[0].text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(fakes.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [node] = open_index(path).retrieve("Did Anna meet Bert?", k=1).nodes
    assert done.stdout.split() == node.text.split()


@pytest.mark.fast_cases(1)
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
def test_a_damaged_snapshot_is_rebuilt_and_saved_again(path, open_index, builds, name, content):
    expected = answers(open_index(path))
    [folder] = folders(path)
    (folder / name).write_bytes(content)
    assert answers(open_index(path)) == expected
    assert len(builds) == 1
    assert answers(open_index(path)) == expected
    assert len(builds) == 1  # the third instance loaded the repaired snapshot


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (("edges_data", "edges_indices"), np.zeros((2, 2))),
        (("edges_shape",), np.zeros(3, dtype=np.int64)),
        (("vectors",), None),
    ],
)
def test_invalid_arrays_with_correct_checksums_are_rebuilt(path, open_index, builds, names, wrong):
    expected = answers(open_index(path))
    [folder] = folders(path)
    arrays, meta = load_arrays(folder)
    for name in names:
        arrays[name] = wrong
    save_arrays(folder, {name: one for name, one in arrays.items() if one is not None}, meta)
    assert answers(open_index(path)) == expected
    assert answers(open_index(path)) == expected
    assert len(builds) == 1


@pytest.mark.slow
def test_a_flipped_byte_in_any_file_is_detected(path, open_index, builds):
    expected = answers(open_index(path))
    [folder] = folders(path)
    files = sorted(file for file in folder.iterdir() if file.is_file())
    flips = [(file, number) for number, file in enumerate(files)]
    flips += [(folder / "meta.json", number) for number in range(7)]
    for file, number in flips:
        original = file.read_bytes()
        at = number % 7 * (len(original) - 1) // 6
        file.write_bytes(original[:at] + bytes([original[at] ^ 1]) + original[at + 1 :])
        assert open_index(path)._session.snapshot().generation == folder.name
    assert len(builds) == len(flips) >= 30
    assert answers(open_index(path)) == expected


@pytest.mark.slow
def test_an_incomplete_snapshot_is_rebuilt(path, open_index, builds):
    [folder] = folders(path)
    files = [file for file in folder.iterdir() if file.is_file()]
    for number, file in enumerate(files, start=1):
        file.unlink()
        assert open_index(path).retrieve("Anna", k=1, mode="global").nodes
        assert len(builds) == number


def test_a_snapshot_of_an_earlier_format_is_replaced(path, open_index, builds):
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


def test_temporary_folders_of_dead_processes_are_deleted_after_a_day(path, open_index):
    home = Path(f"{path}.snapshot")
    old, new = home / f"new-{'0' * 32}", home / f"new-{'1' * 32}"
    for folder in (old, new):
        folder.mkdir()
        (folder / "ids.npy").write_bytes(b"incomplete")
    day = 24 * 60 * 60
    os.utime(old, (time.time() - day - 60,) * 2)
    os.utime(new, (time.time() - day + 60,) * 2)
    with open_index(path) as rag:
        rag.add(numbered(3))
        rag.retrieve("Anna")
        assert [one.name for one in folders(path)] == sorted([rag.store.generation, new.name])


def test_an_instance_sees_the_writes_of_another(path, open_index):
    one, other = open_index(path, max_staleness=0), open_index(path)
    assert one.retrieve("Item", k=50, mode="global").nodes[0].document_id == "story"
    other.add(numbered(3))
    assert one.retrieve("Item 2 ends", k=1, mode="global").nodes[0].document_id == "numbered"
    other.delete("numbered")
    found = one.retrieve("Item 2 ends", k=50, mode="global").nodes
    assert {node.document_id for node in found} == {"story"}


def test_only_the_current_generation_stays_on_disk(path, open_index):
    rag = open_index(path)
    rag.add(numbered(3))
    rag.retrieve("Anna")
    assert [folder.name for folder in folders(path)] == [rag.store.generation]


def test_a_restored_backup_ignores_the_snapshot_of_a_later_state(path, open_index, tmp_path):
    backup = path.read_bytes()
    with open_index(path) as rag:
        rag.add(numbered(3))
        rag.retrieve("Item")
    path.write_bytes(backup)
    found = open_index(path).retrieve("Item 1 ends", k=50, mode="global").nodes
    assert {node.document_id for node in found} == {"story"}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("method", ["mkdir", "rename"])
def test_a_snapshot_that_cannot_be_saved_stays_in_memory(path, open_index, monkeypatch, method):
    expected = answers(open_index(path))
    shutil.rmtree(f"{path}.snapshot")

    def refuse(*_, **__):
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, method, refuse)
    assert answers(open_index(path)) == expected
    monkeypatch.undo()
    leftovers = [p for p in path.parent.rglob("*") if p != path and p.is_file()]
    assert all(
        p.name.startswith("i.e2g-") for p in leftovers
    )  # SQLite's own files, while the index is open


def test_a_damaged_generation_never_becomes_a_path(path, open_index):
    victim = path.parent / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE manifest SET value = '../victim' WHERE key = 'generation'")
        db.commit()
    with pytest.raises(CorruptStoreError, match="generation"):
        open_index(path).retrieve("Anna")
    assert (victim / "file").read_text() == "precious"


def test_a_snapshot_contains_no_pickle(path):
    [folder] = folders(path)
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 30
    for file in files:
        if file.suffix == ".npy":
            assert np.load(file, allow_pickle=False).dtype != object
        else:
            assert file.name == "meta.json"
            assert json.loads(file.read_text())["format"] == FORMAT


def test_a_folder_with_the_snapshot_of_another_generation_is_rebuilt(
    path, tmp_path, open_index, builds
):
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


def test_a_linked_snapshot_folder_keeps_unrelated_files(path, tmp_path, open_index):
    home = tmp_path / "home"
    shutil.move(f"{path}.snapshot", home)
    (home / "mine").mkdir()
    Path(f"{path}.snapshot").symlink_to(home)
    with open_index(path) as rag:
        rag.add(numbered(3))
        rag.retrieve("Anna")
    assert (home / "mine").is_dir()


def test_deeply_nested_json_counts_as_a_damaged_snapshot(path, open_index):
    [folder] = Path(f"{path}.snapshot").iterdir()
    (folder / "meta.json").write_text("[" * 200_000)
    assert open_index(path).retrieve("Where did Anna meet Bert?").nodes


@pytest.fixture
def bm25_builds(monkeypatch):
    """Return the generations of all BM25 indexes built from the store."""
    real, generations = snapshot_files.bm25_from_store, []

    def counting(store, snapshot):
        generations.append(snapshot.generation)
        return real(store, snapshot)

    monkeypatch.setattr(snapshot_files, "bm25_from_store", counting)
    return generations


def bm25_folder(path):
    [folder] = folders(path)
    return folder / "words"


def weights(rag):
    postings = rag._session.snapshot().bm25.postings
    counts = postings.counts.toarray().tolist()
    return list(postings.vocabulary), counts, postings.lengths.tolist()


def test_the_bm25_index_is_built_once_and_loaded_afterwards(path, open_index, bm25_builds):
    loaded, found = answers(open_index(path)), weights(open_index(path))
    assert bm25_builds == []
    shutil.rmtree(bm25_folder(path))
    assert answers(open_index(path)) == loaded
    assert weights(open_index(path)) == found
    assert len(bm25_builds) == 1
    arrays = snapshot_files.snapshot_arrays(open_index(path)._session.snapshot())
    assert {file.name for file in folders(path)[0].iterdir()} == {
        *(f"{name}.npy" for name in arrays),
        "meta.json",
        "words",
    }
    assert sorted(file.name for file in bm25_folder(path).iterdir()) == [
        "bounds.npy",
        "data.npy",
        "indices.npy",
        "indptr.npy",
        "lengths.npy",
        "meta.json",
        "words.npy",
    ]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rules", [{}, {"terms": 1}])
def test_a_bm25_index_of_other_term_rules_is_built_again(path, open_index, bm25_builds, rules):
    expected = weights(open_index(path))
    arrays, _ = load_arrays(bm25_folder(path))
    save_arrays(bm25_folder(path), arrays | {"data": arrays["data"] + 1}, rules)
    rag = open_index(path)
    assert rag.verify().problems == ()
    assert weights(rag) == expected
    assert len(bm25_builds) == 1


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("in_memory", [True, False])
def test_an_edit_indexes_only_the_changed_texts_for_bm25(
    path, open_index, bm25_builds, in_memory, monkeypatch
):
    texts_read, real = [], snapshot_build.build_bm25
    monkeypatch.setattr(
        snapshot_build, "build_bm25", lambda texts: real(recording(texts, texts_read))
    )
    rag = open_index(path)
    rag.add(SourceDocument("kept", "Dora met Emil."))
    assert weights(rag)
    if not in_memory:
        rag.close()
        rag = open_index(path)
    texts_read.clear()
    rag.add(SourceDocument("new", "Zoe met Anna."))
    rag.delete("story")
    found = weights(rag)
    assert bm25_builds == []
    assert texts_read == ["Zoe met Anna."]
    assert rag.verify().problems == ()
    bm25_builds.clear()
    rag.close()
    shutil.rmtree(f"{path}.snapshot")
    assert weights(open_index(path)) == found
    assert len(bm25_builds) == 1


def test_the_bm25_index_is_reused_with_an_external_vector_store(monkeypatch):
    texts_read, real = [], snapshot_build.build_bm25
    monkeypatch.setattr(
        snapshot_build, "build_bm25", lambda texts: real(recording(texts, texts_read))
    )
    models, settings = (
        Models(extractor=NameExtractor()),
        IndexSettings(chunk_size=16, chunk_overlap=4),
    )
    parts = open_parts(
        ":memory:",
        Options.of(settings, models, None, None),
        embedder=HashingEmbedder(),
        hooks=FaceHooks(lambda snapshot, _: snapshot.dense),
    )
    rag = E2GraphRAG(parts)
    rag.add(numbered(20))
    rag.add(SourceDocument("kept", "Dora met Emil."))
    assert weights(rag)
    texts_read.clear()
    rag.add(SourceDocument("new", "Zoe met Anna."))
    assert weights(rag)
    assert texts_read == ["Zoe met Anna."]
    rag.close()


def recording(texts, texts_read):
    for text in texts:
        texts_read.append(text)
        yield text


def test_an_edit_builds_no_bm25_index_that_was_never_used(path, open_index, bm25_builds):
    shutil.rmtree(bm25_folder(path))
    rag = open_index(path)
    rag.add(SourceDocument("new", "Zoe met Anna."))
    rag.stats()
    snapshot = rag._session.snapshot()
    assert snapshot.loaded_bm25 is None
    assert "zoe" in snapshot.bm25.postings.vocabulary
    assert len(bm25_builds) == 1


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", ["meta.json", "data.npy", "words.npy", "lengths.npy"])
@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY not an array", b"\xff" * 400])
def test_a_damaged_bm25_index_is_rebuilt_and_saved_again(
    path, open_index, bm25_builds, name, content
):
    expected = answers(open_index(path))
    if content is None:
        (bm25_folder(path) / name).unlink()
    else:
        (bm25_folder(path) / name).write_bytes(content)
    assert answers(open_index(path)) == expected
    assert answers(open_index(path)) == expected
    assert len(bm25_builds) == 1


@pytest.mark.slow
def test_a_flipped_bit_in_the_bm25_index_never_changes_an_answer(path, open_index):
    expected, flips = answers(open_index(path)), 0
    for file in sorted(bm25_folder(path).iterdir()):
        original = file.read_bytes()
        for at in range(0, len(original), max(1, len(original) // 9)):
            flipped = bytearray(original)
            flipped[at] ^= 1 << at % 8
            file.write_bytes(flipped)
            assert answers(open_index(path)) == expected
            flips += 1
    assert flips >= 54


def test_an_index_without_any_word_can_be_reopened(tmp_path, open_index):
    with open_index(tmp_path / "dots.e2g") as rag:
        rag.add(SourceDocument("dots", "... !!! ..."))
        assert len(rag.retrieve("What?").nodes) == 1
    with open_index(tmp_path / "dots.e2g") as again:
        assert weights(again) == ([], [[]], [0])
        assert len(again.retrieve("What?").nodes) == 1


def test_a_bm25_index_that_cannot_be_saved_stays_in_memory(path, open_index, monkeypatch):
    expected = answers(open_index(path))
    shutil.rmtree(bm25_folder(path))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    rag = open_index(path)
    assert answers(rag) == expected
    assert not bm25_folder(path).exists()
    assert not list(bm25_folder(path).parent.glob("new-*"))


def test_snapshot_with_names_of_other_rules_is_built_again(
    tmp_path, open_index, builds, monkeypatch
):
    name = "İstanbul"

    class Extractor:
        fingerprint = "fake:one"

        def extract(self, texts):
            return [[[Mention(name, 0, len(name), "PLACE")]] for _ in texts]

    path = tmp_path / "i.e2g"
    with monkeypatch.context() as other:
        other.setattr(conversion, "FORM_RULES", 1)
        other.setattr(normalize, "_without_variants", str)
        with open_index(path, extractor=Extractor()) as rag:
            rag.add(SourceDocument("a", f"{name} is a city."))
            assert [one.name for one in rag.entities()] == [name.casefold()]
    builds.clear()
    with open_index(path, extractor=Extractor()) as rag:
        assert [one.name for one in rag.entities()] == [name.lower().replace("\u0307", "")]
    assert len(builds) == 1
