"""Run the notebooks of this folder and save their outputs (`make notebooks`).

    python examples/notebooks/run.py            # runs and saves them
    python examples/notebooks/run.py --check    # runs them, and fails if an output differs

Saved outputs contain no metadata, times or counters, so that a run that changes nothing leaves the
files as they are. `--check` allows small differences of decimals, because processors round vectors
differently.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

FOLDER = Path(__file__).parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
TOLERANCE = 0.011
"""Maximum difference between two decimals that count as equal."""

_TIMEOUT = 300
_DECIMAL = re.compile(r"(\d+\.\d+)")
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path, environment: Mapping[str, str] = os.environ) -> NotebookNode:
    """Run a notebook in its folder, and return it with its new outputs."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as home:
        variables = {
            **environment,
            "IPYTHONDIR": home,
            "PYTHONWARNINGS": "ignore:IProgress not found",  # progress bars without ipywidgets
        }
        # Sockets in the file system instead of TCP ports.
        connection = {"transport": "ipc", "connection_file": f"{home}/kernel.json"}
        client = NotebookClient(
            notebook,
            config=Config(ConnectionFileMixin=connection),
            timeout=_TIMEOUT,
            resources={"metadata": {"path": str(path.parent)}},
        )
        # The synchronous method would leave its event loop open.
        asyncio.run(client.async_execute(env=variables))
    return without_traces(notebook)


def without_traces(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook without metadata; of each output, only its richest form is kept."""
    notebook.metadata = _METADATA
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            output.pop("metadata", None)
            if "data" in output:
                richest = "text/html" if "text/html" in output.data else "text/plain"
                output.data = {richest: output.data[richest]}
                output.metadata = {}
    return notebook


def outputs(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield the source of each code cell, and the text of its outputs."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts = [
                output.text if "text" in output else "".join(output.data.values())
                for output in cell.outputs
            ]
            yield cell.source, "".join(texts)


def differences(old: NotebookNode, new: NotebookNode) -> list[str]:
    """Return a description of each cell whose outputs differ."""
    return [
        f"In:\n{source}\nSaved:\n{saved}\nNow:\n{now}"
        for (source, saved), (_, now) in zip(outputs(old), outputs(new), strict=True)
        if not _is_equal(saved, now)
    ]


def _is_equal(saved: str, now: str) -> bool:
    saved_parts, parts = _DECIMAL.split(saved), _DECIMAL.split(now)
    return saved_parts[::2] == parts[::2] and all(
        math.isclose(float(a), float(b), rel_tol=0, abs_tol=TOLERANCE)
        for a, b in zip(saved_parts[1::2], parts[1::2], strict=True)
    )


def main() -> None:
    """Run all notebooks, and save or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    for path in NOTEBOOKS:
        notebook = execute(path)
        if not options.check:
            nbformat.write(notebook, path)
        elif found := differences(nbformat.read(path, as_version=4), notebook):
            raise SystemExit("\n\n".join([f"{path.name} differs:", *found]))
        print(path.name)


if __name__ == "__main__":
    main()
