"""The group `export`: the report and the graph; `test_indexes.py` exports and imports a folder."""

from __future__ import annotations

import json

import pytest


@pytest.mark.slow
def test_report_is_written_and_described(call, book_index, tmp_path):
    out = tmp_path / "book.html"
    arguments = ("export", "report", book_index, "--out", out)
    printed = call(*arguments, "--question", "Who gave Alice a cup of tea?")
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith(f"wrote {out}, ")
    assert "1 document(s)" in printed.out
    assert "cup of tea" in out.read_text(encoding="utf-8")
    assert "already exists" in call(*arguments).err
    found = call(*arguments, "--replace", "--max-mb", "0", "--json").json()
    assert (found["documents"], found["left_out"], found["answers"]) == (0, 1, 0)
    assert "raise --max-mb" in call(*arguments, "--replace", "--max-mb", "0").out


def test_scope_hides_the_other_documents(call, book_index, tmp_path):
    out = tmp_path / "none.html"
    scope = json.dumps({"document_id": "other.txt"})
    assert call("export", "report", book_index, "--out", out, "--scope", scope).code == 0
    assert "Hatter" not in out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_read_only_index_has_a_report(call, book_index, tmp_path):
    book_index.chmod(0o444)
    assert call("export", "report", book_index, "--out", tmp_path / "book.html").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "missing/book.html"), "the folder missing does not exist"),
        (("--out", "."), "is a folder"),
        (("--out", "book.html", "--max-mb", "-1"), "--max-mb -1.0"),
        (("--out", "book.html", "--scope", "[]"), "--scope"),
        (("--out", "book.html", "--scope", "{}"), "empty filter"),
        ((), "--out"),
    ],
)
def test_bad_input_ends_with_code_2(call, book_index, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    printed = call("export", "report", book_index, *arguments)
    assert printed.code == 2
    assert message in printed.err
    assert not (tmp_path / "book.html").exists()


@pytest.mark.slow
def test_url_of_a_database_has_a_report(call, book_index, postgres_url, tmp_path):
    assert call("indexes", "copy", book_index, postgres_url).code == 0
    out = tmp_path / "book.html"
    assert call("export", "report", postgres_url, "--out", out).code == 0
    name = postgres_url.partition("schema=")[2]
    raw = out.read_text(encoding="utf-8")
    assert f"<title>{name}</title>" in raw
    assert "postgresql" not in raw


def test_exported_graph_has_all_nodes_and_relations(index, tmp_path, call):
    folder = tmp_path / "graph"
    code, out, err = call("export", "graph", index, folder)
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {folder}: 3 Document, ")
    options = ("--no-texts", "--no-communities", "--json")
    found = call("export", "graph", index, tmp_path / "g.graphml", *options).json()
    assert found["path"] == str(tmp_path / "g.graphml")
    assert found["counts"]["Entity"] == len((folder / "entity.csv").read_bytes().splitlines()) - 1
    assert found["counts"]["Community"] == 0
    assert 'attr.name="text"' not in (tmp_path / "g.graphml").read_text(encoding="utf-8")
    code, out, err = call("export", "graph", index, tmp_path / "g.gml")
    assert (code, out) == (2, "")
    assert ".graphml, .gexf, .json" in err
    code, out, err = call("export", "folder", index, tmp_path / "g.gexf")
    assert (code, out) == (2, "")
    assert "e2graphrag export graph" in err
