"""A file has one id, however its name is spelled, on systems that find it under any spelling."""

from __future__ import annotations

import os
import sys
import unicodedata
from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations._utils.files import KnownFiles, composed, is_same_file
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.errors import StoreLockedError
from e2graphrag_integrations.loaders import read_documents
from e2graphrag_integrations.store.lock import IndexLock
from fakes import STORY, numbered

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs names that differ in case only")

if sys.platform == "linux":
    from platforms.mac_files import Mac

COMPOSED, DECOMPOSED = "\u00e9t\u00e9.txt", "e\u0301te\u0301.txt"


@pytest.fixture
def mac(tmp_path):
    """The rules of macOS, in force during the test."""
    if sys.platform == "darwin":
        yield
        return
    if sys.platform != "linux":
        pytest.skip("for Linux and macOS")
    with Mac(tmp_path).in_force():
        yield


def ids(*paths: Path) -> list[str]:
    return [document.id for document in read_documents(paths)]


@linux
def test_the_shim_finds_any_spelling_and_lists_decomposed_names(mac, tmp_path):
    (tmp_path / COMPOSED).write_text("summer", encoding="utf-8")
    assert os.listdir(tmp_path) == [DECOMPOSED]  # noqa: PTH208
    assert [one.name for one in tmp_path.iterdir()] == [DECOMPOSED]
    for name in (COMPOSED, DECOMPOSED, COMPOSED.upper()):
        assert (tmp_path / name).read_text(encoding="utf-8") == "summer"
        assert (tmp_path / name).samefile(tmp_path / DECOMPOSED)
    # A violation: names as keys.
    by_name = {one.name: one for one in (tmp_path / COMPOSED, *tmp_path.iterdir())}
    assert len(by_name) == 2
    (tmp_path / COMPOSED.upper()).rename(tmp_path / "x")
    assert os.listdir(tmp_path) == ["x"]  # noqa: PTH208


def test_ids_are_composed(mac, tmp_path):
    folder = tmp_path / "texts"
    (folder / "\u00e4").mkdir(parents=True)
    (folder / "\u00e4" / COMPOSED).write_text("Anna.", encoding="utf-8")
    assert ids(folder) == [f"\u00e4/{COMPOSED}"]
    assert ids(folder / "\u00e4" / DECOMPOSED) == [COMPOSED]


def test_a_file_is_read_once_under_all_its_spellings(mac, tmp_path):
    (tmp_path / COMPOSED).write_text("Anna.", encoding="utf-8")
    spellings = [tmp_path / name for name in (COMPOSED, DECOMPOSED, COMPOSED.upper())]
    assert ids(*spellings) == [COMPOSED]
    assert ids(tmp_path, *spellings) == [COMPOSED]


@linux
def test_linux_keeps_names_apart(tmp_path):
    for name in ("a.txt", "A.txt", COMPOSED, DECOMPOSED):
        (tmp_path / name).write_text(name, encoding="utf-8")
    assert sorted(ids(tmp_path)) == sorted(["A.txt", "a.txt", DECOMPOSED, COMPOSED])
    assert len(read_documents([tmp_path / "a.txt", tmp_path / "A.txt"])) == 2
    assert not is_same_file(str(tmp_path / "a.txt"), str(tmp_path / "A.txt"))


def test_the_command_line_gives_a_file_one_id(mac, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "Texts"
    folder.mkdir()
    (folder / COMPOSED).write_text("Anna met Bert.", encoding="utf-8")
    (folder / "Other.txt").write_text("Cleo met Dora.", encoding="utf-8")
    options = ["--out", "x.e2g", "--embedder", "hashing"]
    for paths in (
        ["Texts"],
        ["texts"],
        [f"TEXTS/{COMPOSED}"],
        [f"texts/{DECOMPOSED}", f"Texts/{COMPOSED.upper()}"],
        ["texts/OTHER.TXT", "Texts/other.txt"],
    ):
        assert cli.main(["index", *paths, *options]) == 0, capsys.readouterr().err
    with E2GraphRAG.open(tmp_path / "x.e2g") as rag:
        assert rag.document_ids == ["Other.txt", COMPOSED]


def test_the_index_in_a_folder_is_no_document(mac, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Texts").mkdir()
    (tmp_path / "Texts" / "a.txt").write_text("Anna met Bert.", encoding="utf-8")
    options = ["--out", "Texts/Own.idx", "--embedder", "hashing"]
    assert cli.main(["index", "Texts", *options]) == 0
    (tmp_path / "Texts" / "Old.E2G").touch()
    options[1] = "texts/own.IDX"
    assert cli.main(["index", "Texts", *options]) == 0
    assert "skipped" not in capsys.readouterr().err
    with E2GraphRAG.open(tmp_path / "Texts" / "Own.idx") as rag:
        assert rag.document_ids == ["a.txt"]


def test_an_index_is_one_under_all_its_spellings(mac, tmp_path, open_index):
    one = open_index(tmp_path / "\u00c4.e2g")
    one.add(SourceDocument("story", STORY))
    expected = one.retrieve("Did Anna meet Bert?", k=3).nodes
    other = open_index(tmp_path / "a\u0308.E2G", max_staleness=0)
    assert other.retrieve("Did Anna meet Bert?", k=3).nodes == expected
    lock = IndexLock(other.path, 0)
    with IndexLock(one.path, 0).acquire(), pytest.raises(StoreLockedError), lock.acquire():
        pass
    one.add(numbered(5))
    assert other.document_ids == ["numbered", "story"]
    assert other.retrieve("Item 2 ends", k=9, mode="global").nodes
    one.update(numbered(6))
    other.delete("story")
    other.compact()
    assert one.verify().problems == ()
    one.export_to(tmp_path / "Export")
    assert (tmp_path / "EXPORT" / "index.jsonl").exists()


def test_spellings_of_missing_files_are_different_files(tmp_path):
    known = KnownFiles()
    one, other = str(tmp_path / "a.txt"), str(tmp_path / "A.txt")
    assert [known.first_spelling(path) for path in (one, other, one)] == [one, other, one]
    assert composed(unicodedata.normalize("NFD", COMPOSED)) == COMPOSED
