"""Whatever comes in from outside: an answer or a typed error, never a traceback."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.errors import E2GraphRAGError
from e2graphrag_integrations.loaders import read_documents
from fakes import numbered

KINDS = ("txt", "md", "html", "htm", "pdf", "docx", "csv", "unknown")
BEGINNINGS = (b"", b"%PDF-1.4\n", b"PK\x03\x04", b"<html><body>", b"\xff\xfe", b"\xef\xbb\xbf")
FUZZ = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150
)


def docx_of(xml: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("word/document.xml", xml)
        archive.writestr("[Content_Types].xml", xml)
    return made.getvalue()


contents = st.one_of(
    st.builds(bytes.__add__, st.sampled_from(BEGINNINGS), st.binary(max_size=300)),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=200).map(docx_of),
)


@FUZZ
@given(kind=st.sampled_from(KINDS), content=contents)
def test_any_file_is_read_or_refused(tmp_path, kind, content):
    path = tmp_path / f"file.{kind}"
    path.write_bytes(content)
    with contextlib.suppress(E2GraphRAGError):
        for document in read_documents([path]):
            document.text.encode("utf-8")  # what comes out can be stored


@FUZZ
@given(data=st.data())
def test_a_damaged_file_of_a_known_kind_is_read_or_refused(tmp_path, data):
    pytest.importorskip("docx")
    from docx import Document

    whole = io.BytesIO()
    document = Document()
    document.add_paragraph("Anna met Bert in Oslo.")
    document.save(whole)
    damaged = bytearray(whole.getvalue())
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "file.docx"
    path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    with contextlib.suppress(E2GraphRAGError):
        read_documents([path])


words = st.one_of(
    st.sampled_from(
        [
            *("index", "query", "update", "delete", "status", "stats", "verify", "resume"),
            *("compact", "export", "import", "i.e2g", "broken.e2g", "a.txt", "nowhere", "--json"),
            *("--out", "--where", "-k", "0", "-1", "9e9", "--mode", "local", "--token-budget"),
            *("--estimate", "--prune", "--cut", "content", "--embedder", "hashing", "--context"),
            *('{"$or": [{"a": {"$gt": 1}}]}', "{", "a=1", "=", "--strategy", "paper", "numbered"),
        ]
    ),
    st.text(alphabet="ab-={}$\"'\\ 文%;\x00\ud800", max_size=6),
)


plausible = st.builds(
    lambda command, file, rest: [command, file, *rest],
    st.sampled_from(["query", "update", "delete", "status", "stats", "verify", "export"]),
    st.sampled_from(["i.e2g", "i.e2g", "broken.e2g", "a.txt"]),
    st.lists(words, max_size=5),
)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)
@given(arguments=st.one_of(st.lists(words, max_size=7), plausible))
@example(arguments=["query", "i.e2g", "Who?", "--where", "{" * 10_000])
@example(arguments=["query", "i.e2g", "\x00"])
@example(arguments=["delete", "i.e2g", "\ud800"])
@example(arguments=["export", "i.e2g", "a.txt"])
@example(arguments=["import", "a.txt", "--out", "new.e2g"])
@example(arguments=["update", "broken.e2g", "a.txt"])
def test_any_command_line_ends_with_an_exit_code(arguments, workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Anna met Bert.")))
    assert cli.main(arguments) in {0, 1, 2, 3}
    assert "Traceback" not in capsys.readouterr().err


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """Make a folder with an index, a broken one and a text; models stay as they were loaded."""
    with E2GraphRAG.open(tmp_path / "i.e2g", embedder="hashing") as rag:
        rag.add(numbered(3))
    (tmp_path / "broken.e2g").write_bytes((tmp_path / "i.e2g").read_bytes()[:5000])
    (tmp_path / "a.txt").write_text("Anna met Bert in Oslo.", encoding="utf-8")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return Path(tmp_path)
