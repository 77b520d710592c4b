"""Any file and any command line gives a result or a typed error, never a traceback."""

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
from strategies import examples

KINDS = ("txt", "md", "html", "htm", "pdf", "docx", "csv", "unknown")
BEGINNINGS = (b"", b"%PDF-1.4\n", b"PK\x03\x04", b"<html><body>", b"\xff\xfe", b"\xef\xbb\xbf")
FUZZ = settings(examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])


def as_docx(xml: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("word/document.xml", xml)
        archive.writestr("[Content_Types].xml", xml)
    return file.getvalue()


contents = st.one_of(
    st.builds(bytes.__add__, st.sampled_from(BEGINNINGS), st.binary(max_size=300)),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=200).map(as_docx),
)


@FUZZ
@given(kind=st.sampled_from(KINDS), content=contents)
def test_any_file_is_loaded_or_rejected(tmp_path, kind, content):
    path = tmp_path / f"file.{kind}"
    path.write_bytes(content)
    with contextlib.suppress(E2GraphRAGError):
        for document in read_documents([path]):
            document.text.encode("utf-8")  # raises for text that cannot be stored


@pytest.mark.slow
@FUZZ
@given(data=st.data())
def test_damaged_docx_is_loaded_or_rejected(tmp_path, data):
    pytest.importorskip("docx")
    from docx import Document

    saved = io.BytesIO()
    document = Document()
    document.add_paragraph("Anna met Bert in Oslo.")
    document.save(saved)
    damaged = bytearray(saved.getvalue())
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "file.docx"
    path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    with contextlib.suppress(E2GraphRAGError):
        read_documents([path])


any_argument = st.one_of(
    st.sampled_from(
        [
            *("index", "query", "documents", "entities", "export", "indexes", "update", "delete"),
            *("list", "stats", "verify", "resume", "compact", "folder", "import", "show", "edit"),
            *("i.e2g", "broken.e2g", "a.txt", "nowhere", "--json"),
            *("--out", "--where", "-k", "0", "-1", "9e9", "--mode", "local", "--token-budget"),
            *("--estimate", "--prune", "--cut", "content", "--embedder", "hashing", "--context"),
            *('{"$or": [{"a": {"$gt": 1}}]}', "{", "a=1", "=", "--strategy", "paper", "numbered"),
        ]
    ),
    st.text(alphabet="ab-={}$\"'\\ 文%;\x00\ud800", max_size=6),
)


plausible_commands = st.builds(
    lambda command, file, rest: [*command.split(), file, *rest],
    st.sampled_from(
        [
            *("query", "documents update", "documents delete", "documents list"),
            *("indexes stats", "indexes verify", "export folder"),
        ]
    ),
    st.sampled_from(["i.e2g", "i.e2g", "broken.e2g", "a.txt"]),
    st.lists(any_argument, max_size=5),
)


@pytest.mark.slow
@settings(examples(150), suppress_health_check=list(HealthCheck))
@given(arguments=st.one_of(st.lists(any_argument, max_size=7), plausible_commands))
@example(arguments=["query", "i.e2g", "Who?", "--where", "{" * 10_000])
@example(arguments=["query", "i.e2g", "\x00"])
@example(arguments=["documents", "delete", "i.e2g", "\ud800"])
@example(arguments=["export", "folder", "i.e2g", "a.txt"])
@example(arguments=["indexes", "import", "a.txt", "--out", "new.e2g"])
@example(arguments=["documents", "update", "broken.e2g", "a.txt"])
def test_any_command_line_ends_with_an_exit_code(arguments, index_folder, monkeypatch, capsys):
    monkeypatch.chdir(index_folder)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Anna met Bert.")))
    assert cli.main(arguments) in {0, 1, 2, 3}
    assert "internal error" not in capsys.readouterr().err


@pytest.fixture
def index_folder(tmp_path, monkeypatch):
    """A folder with an index, a truncated index and a text file."""
    with E2GraphRAG.open(tmp_path / "i.e2g", embedder="hashing") as rag:
        rag.add(numbered(3))
    (tmp_path / "broken.e2g").write_bytes((tmp_path / "i.e2g").read_bytes()[:5000])
    (tmp_path / "a.txt").write_text("Anna met Bert in Oslo.", encoding="utf-8")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return Path(tmp_path)
