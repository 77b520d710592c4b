"""Two files never share an id, and a file that is read again keeps its own."""

from __future__ import annotations

import shutil

import pytest

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.indexing.stages.work import LocalEngine
from e2graphrag_integrations.store.tables.source_files import read_source_files

ALPHA, GAMMA = "Alpha met Beta.", "Gamma met Delta."


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The current folder, with `readme.md` in two folders."""
    monkeypatch.chdir(tmp_path)
    for folder, text in (("a", ALPHA), ("b", GAMMA)):
        (tmp_path / folder / "sub").mkdir(parents=True)
        (tmp_path / folder / "readme.md").write_text(text)
    return tmp_path


@pytest.fixture
def index(call):
    """Index paths, and return the report."""

    def run(*paths, out="x.e2g"):
        result = call("index", *paths, "--out", out, "--embedder", "hashing", "--json")
        assert result.code == 0, result.err
        return result.json()

    return run


def texts(path="x.e2g"):
    with E2GraphRAG.open(path) as rag:
        return {id_: rag.document(id_).text for id_ in rag.document_ids}


BOTH = {"readme.md": ALPHA, "b/readme.md": GAMMA}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "runs",
    [
        [["a/readme.md"], ["b/readme.md"]],
        [["a/readme.md", "b/readme.md"]],
        [["a"], ["b"]],
        [["a", "b"]],
        [["a"], ["b/readme.md"]],
        [["a/readme.md"], ["b"]],
    ],
    ids=str,
)
def test_files_of_one_name_in_two_folders_are_two_documents(runs, folders, index):
    for again in (False, True):
        for paths in runs:
            report = index(*paths)
            assert bool(report["skipped"]) == again
            assert not report["replaced"]
        assert texts() == BOTH
    (folders / "b" / "readme.md").write_text("Edited.")
    index(*runs[-1])
    assert texts() == BOTH | {"b/readme.md": "Edited."}


def test_a_file_keeps_its_id_however_it_is_given(folders, index, monkeypatch):
    (folders / "b" / "sub" / "c.txt").write_text("C.")
    (folders / "link").symlink_to(folders / "b")
    index("a/readme.md")
    index("b")
    expected = BOTH | {"sub/c.txt": "C."}
    for paths in (["b/readme.md"], ["link/readme.md"], [folders / "b"], ["b/sub/c.txt"], ["b/sub"]):
        index(*paths)
        assert texts() == expected
    monkeypatch.chdir(folders / "b")
    for paths in (["readme.md"], ["."], ["sub/c.txt"], ["../a/readme.md"]):
        index(*paths, out="../x.e2g")
        assert texts("../x.e2g") == expected


def test_files_in_the_current_folder_of_two_runs_are_two_documents(folders, index, monkeypatch):
    for folder in ("a", "b"):
        monkeypatch.chdir(folders / folder)
        index("readme.md", out="../x.e2g")
    assert texts("../x.e2g") == BOTH


def test_a_longer_id_that_is_taken_gets_another_folder(folders, index):
    (folders / "a" / "b").mkdir()
    (folders / "a" / "b" / "readme.md").write_text("Inner.")
    index("a")
    index("b/readme.md")
    assert texts() == {
        "readme.md": ALPHA,
        "b/readme.md": "Inner.",
        f"{folders.name}/b/readme.md": GAMMA,
    }


def test_a_file_that_was_moved_keeps_its_id(folders, index):
    index("a")
    (folders / "a").rename(folders / "moved")
    index("moved")
    assert texts() == {"readme.md": ALPHA}
    index("b/readme.md")
    assert texts() == BOTH


def test_an_index_that_is_moved_with_its_files_knows_them(folders, index, monkeypatch):
    index("a/readme.md")
    index("b")
    (folders / "new").mkdir()
    for name in ("a", "b", "x.e2g"):
        shutil.move(folders / name, folders / "new" / name)
    monkeypatch.chdir(folders / "new")
    index("b/readme.md")
    index("a")
    assert texts() == BOTH


def test_files_that_were_moved_apart_from_their_index_keep_their_ids(folders, index, monkeypatch):
    index("a")
    index("b")
    (folders / "new").mkdir()
    for name in ("a", "b"):
        shutil.move(folders / name, folders / "new" / name)
    index("new/b/readme.md")
    index("new/a")
    assert texts() == BOTH


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_an_imported_index_knows_files_by_their_ids(folders, index, call, order):
    index("a/readme.md")
    index("b/readme.md")
    call("export", "folder", "x.e2g", "export")
    call("indexes", "import", "export", "--out", "y.e2g")
    for folder in order:
        (folders / folder / "readme.md").write_text(f"Edited {folder}.")
        report = index(f"{folder}/readme.md", out="y.e2g")
        assert len(report["replaced"]) == 1
    assert texts("y.e2g") == {"readme.md": "Edited a.", "b/readme.md": "Edited b."}


def test_copies_in_postgres_and_back_know_the_files(folders, index, call, postgres_url):
    index("a")
    index("b")
    (folders / "c").mkdir()
    call("indexes", "copy", "x.e2g", postgres_url)
    for paths in (["b/readme.md"], ["a"], ["b"]):
        assert index(*paths, out=postgres_url)["replaced"] == []
    assert texts(postgres_url) == BOTH
    call("indexes", "copy", postgres_url, "c/y.e2g")
    for paths in (["b/readme.md"], ["a"], ["b"]):
        assert index(*paths, out="c/y.e2g")["replaced"] == []
    assert texts("c/y.e2g") == BOTH


def test_update_prunes_and_deletes_by_the_same_ids(folders, index, call):
    index("a/readme.md")
    index("b")
    (folders / "b" / "readme.md").write_text("Edited.")
    assert call("documents", "update", "x.e2g", "b/readme.md", "--json").json()["replaced"] == [
        "b/readme.md"
    ]
    assert call("documents", "update", "x.e2g", "b", "--prune", "--json").json()["deleted"] == [
        "readme.md"
    ]
    assert texts() == {"b/readme.md": "Edited."}


def test_the_path_of_a_deleted_document_is_forgotten(folders, index, call):
    index("a", "b")
    call("documents", "delete", "x.e2g", "readme.md")
    with E2GraphRAG.open("x.e2g") as rag:
        assert read_source_files(rag.store) == {"b/readme.md": "b/readme.md"}
        assert not any("file:" in line for line in rag.export())
    index("b", "a")
    assert texts() == BOTH


def test_an_estimate_and_an_empty_file_store_nothing(folders, call):
    (folders / "x.e2g").touch()
    assert call("index", "a", "--out", "x.e2g", "--embedder", "hashing", "--estimate").code == 0
    (folders / "c").mkdir()
    assert call("index", "c", "--out", "x.e2g").code == 2
    assert call("index", "b", "--out", "x.e2g", "--embedder", "hashing").code == 0
    assert texts() == {"readme.md": GAMMA}


def test_the_files_of_an_interrupted_run_are_known(folders, index, call, monkeypatch):
    def interrupted(*arguments, **options):
        add(*arguments, **{**options, "wait": False, "engine": LocalEngine()})
        raise KeyboardInterrupt

    add = E2GraphRAG.add
    with monkeypatch.context() as patch:
        patch.setattr(E2GraphRAG, "add", interrupted)
        assert call("index", "a", "--out", "x.e2g", "--embedder", "hashing").code == 130
    index("b/readme.md")
    call("documents", "resume", "x.e2g")
    assert texts() == BOTH


def test_files_of_one_name_are_two_documents_in_postgres(folders, index, postgres_url):
    index("a/readme.md", out=postgres_url)
    index("b", out=postgres_url)
    assert texts(postgres_url) == BOTH
