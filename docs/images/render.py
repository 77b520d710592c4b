"""Render docs/images/query.svg: a real question to the demo's index, in a terminal.

Usage: `make demo`, then `.venv/bin/python docs/images/render.py time_machine.e2g`.
"""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 104
QUESTION = "Why did Filby not believe in the Time Machine?"


def terminal_output(command: list[str]) -> str:
    """Run a command in a pseudo-terminal and return its output with escape codes."""
    leader, follower = pty.openpty()
    environment = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    subprocess.run(command, stdout=follower, stderr=follower, env=environment, check=True)
    os.close(follower)
    output = b""
    while True:
        try:
            block = os.read(leader, 65536)
        except OSError:  # the end of a pseudo-terminal
            break
        if not block:
            break
        output += block
    return output.decode().replace("\r\n", "\n")


def main() -> None:
    """Write the picture."""
    index = sys.argv[1]
    program = str(Path(sys.executable).with_name("e2graphrag"))
    output = terminal_output([program, "query", index, QUESTION, "-k", "1"])
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text(f'$ e2graphrag query {Path(index).name} "{QUESTION}" -k 1', style="bold"))
    console.print(Text.from_ansi(output))
    target = Path(__file__).with_name("query.svg")
    target.write_text(console.export_svg(title="e2graphrag"), encoding="utf-8")


if __name__ == "__main__":
    main()
