"""Fixtures of the command-line tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli_helpers import SMALL_CHUNKS, TEA_PARTY, Result
from e2graphrag_integrations.cli.main import main


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command in this process."""

    def run(*arguments: object) -> Result:
        code = main([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A text file."""
    path = tmp_path / "book.txt"
    path.write_text(TEA_PARTY, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def book_index_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("book")
    (folder / "book.txt").write_text(TEA_PARTY, encoding="utf-8")
    out = folder / "book.e2g"
    assert main(["index", str(folder / "book.txt"), "--out", str(out), *SMALL_CHUNKS]) == 0
    return out.read_bytes()


@pytest.fixture
def book_index(tmp_path: Path, book_index_bytes: bytes) -> Path:
    """An index of the text file."""
    path = tmp_path / "book.e2g"
    path.write_bytes(book_index_bytes)
    return path
