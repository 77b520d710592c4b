"""The command line prints to consoles of other systems, whose encodings lack most characters."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument

END = "<end of a command>"
IN_ONE_PROCESS = f"""
import json, sys
from e2graphrag_integrations.cli.main import main
for arguments in json.loads(sys.argv[1]):
    assert main(arguments) in (0, 2)
    print({END!r}, flush=True)
"""
TEXT = "Żółw \u2192 met 曹操 in \u00e9t\u00e9 \U0001f600. He gave 曹操 a map of Łódź. " * 3


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii"])
def test_output_in_an_encoding_without_the_characters(tmp_path, without_torch, encoding):
    path = tmp_path / "i.e2g"
    with E2GraphRAG.open(path, embedder="hashing") as rag:
        rag.add(
            SourceDocument("\u0142\u00f3d\u017a.txt", TEXT, title="曹操 \u2014 \u201cmap\u201d")
        )
    commands = (
        ["query", str(path), "Who met 曹操?"],
        ["query", str(path), "Who met 曹操?", "--json"],
        ["documents", "list", str(path)],
        ["entities", "list", str(path)],
        ["documents", "delete", str(path), "\u65e0.txt"],  # an error quotes it
    )
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(commands)],
        env=without_torch | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = (done.stdout + done.stderr).decode(encoding)
    outputs = printed.split(END)[:-1]
    assert len(outputs) == len(commands)
    assert all(r"\u" in one for one in outputs[:-1])
    assert r"\u65e0.txt" in done.stderr.decode(encoding)
    assert "Traceback" not in printed
    assert "UnicodeEncodeError" not in printed
