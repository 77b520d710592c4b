"""An index of three files, and one in which a document failed."""

from __future__ import annotations

import re

import pytest

from cli_helpers import (
    FORBIDDEN,
    QUEEN,
    SHIP,
    SMALL_CHUNKS,
    FakeSummarizer,
    write_texts,
)
from e2graphrag_integrations.cli import models
from e2graphrag_integrations.cli.main import main


@pytest.fixture
def folder(tmp_path):
    """Three files, one of them in a subfolder."""
    return write_texts(tmp_path / "texts")


@pytest.fixture(scope="module")
def index_bytes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    texts, path = write_texts(folder / "texts"), folder / "i.e2g"
    assert main(["index", str(texts), "--out", str(path), *SMALL_CHUNKS]) == 0
    return path.read_bytes()


@pytest.fixture
def index(tmp_path, index_bytes):
    """An index of the three files."""
    path = tmp_path / "i.e2g"
    path.write_bytes(index_bytes)
    return path


@pytest.fixture
def summarizer(monkeypatch):
    """Let every command summarize with the fake language model."""
    fake = FakeSummarizer()
    monkeypatch.setattr(models, "make_summarizer", lambda *_, **__: fake)
    return fake


@pytest.fixture
def failed_index(folder, tmp_path, call, summarizer):
    """An index of the folder in which one document failed."""
    path = tmp_path / "s.e2g"
    (folder / "jabber.txt").write_text(f"{SHIP} {FORBIDDEN} {QUEEN} {SHIP}")
    code, out, err = call("index", folder, "--out", path, *SMALL_CHUNKS)
    assert code == 3
    assert f"{path}: 3 document(s) indexed, 0 unchanged; " in out
    announced, failure, hint = err.splitlines()
    assert re.fullmatch(r"summaries: \d+ LLM call\(s\) to FakeSummarizer, with at .*", announced)
    assert failure.startswith("failed: jabber.txt: ")
    assert "ValueError: content filter" in failure
    assert hint == f"run `e2graphrag documents resume {path}` to try again"
    return path
