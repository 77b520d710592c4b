"""The command line prints to consoles of other systems, whose encodings lack most characters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument

TEXT = "Żółw \u2192 met 曹操 in \u00e9t\u00e9 \U0001f600. He gave 曹操 a map of Łódź. " * 3


@pytest.mark.parametrize(
    "encoding",
    ["cp1252", *(pytest.param(one, marks=pytest.mark.slow) for one in ("cp437", "ascii"))],
)
def test_output_in_an_encoding_without_the_characters(tmp_path, without_torch, encoding):
    path = tmp_path / "i.e2g"
    with E2GraphRAG.open(path, embedder="hashing") as rag:
        rag.add(
            SourceDocument("\u0142\u00f3d\u017a.txt", TEXT, title="曹操 \u2014 \u201cmap\u201d")
        )
    environment = without_torch | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for arguments in (
        ["query", path, "Who met 曹操?"],
        ["query", path, "Who met 曹操?", "--json"],
        ["documents", "list", path],
        ["entities", "list", path],
        ["documents", "delete", path, "\u65e0.txt"],  # an error quotes it
    ):
        done = subprocess.run(
            [sys.executable, "-m", "e2graphrag_integrations.cli", *map(str, arguments)],
            env=environment | {"PATH": os.environ["PATH"]},
            capture_output=True,
            check=False,
        )
        assert done.returncode in {0, 2}, done.stderr
        assert b"Traceback" not in done.stderr
        assert b"UnicodeEncodeError" not in done.stderr
        printed = (done.stdout + done.stderr).decode(encoding)
        assert r"\u" in printed
