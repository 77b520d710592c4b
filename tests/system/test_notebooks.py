"""The notebooks in examples/notebooks run without network and print their saved outputs."""

from __future__ import annotations

import importlib.util
import os
import re
from copy import deepcopy
from pathlib import Path

import pytest

from no_network import NO_NETWORK

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
MAX_BYTES = 60_000
MACHINE_PATH = re.compile(r"/(?:home|root|tmp|usr|work)/|[A-Z]:\\\\")

spec = importlib.util.spec_from_file_location("run_notebooks", FOLDER / "run.py")
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

pytestmark = pytest.mark.filterwarnings("default")  # of Jupyter's packages
NAMES = ["novel.ipynb", "pdf_folder.ipynb"]


def test_all_notebooks_are_tested():
    assert [path.name for path in run.NOTEBOOKS] == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_offline_and_gives_its_saved_outputs(name, tmp_path):
    if name == "pdf_folder.ipynb":
        pytest.importorskip("fpdf")
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    attempts = tmp_path / "attempts"
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "NETWORK_ATTEMPTS": str(attempts)}
    new = run.execute(FOLDER / name, environment)
    assert not attempts.exists(), attempts.read_text(encoding="utf-8")
    saved = nbformat.read(FOLDER / name, as_version=4)
    assert run.differences(saved, new) == []


@pytest.mark.parametrize("name", NAMES)
def test_saved_notebook_is_small_and_has_no_traces_of_a_machine(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert len(text) < MAX_BYTES
    assert not MACHINE_PATH.search(text)
    saved = nbformat.read(FOLDER / name, as_version=4)
    nbformat.validate(saved)
    assert run.without_traces(deepcopy(saved)) == saved
    for cell in saved.cells:
        if cell.cell_type == "code":
            assert {output.output_type for output in cell.outputs} <= {"stream", "execute_result"}
            assert all(output.get("name", "stdout") == "stdout" for output in cell.outputs)
    counts = [cell.execution_count for cell in saved.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_comparison_finds_changed_outputs_but_not_rounding():
    saved = nbformat.read(FOLDER / "novel.ipynb", as_version=4)
    new = deepcopy(saved)
    [cell] = [c for c in new.cells if "paths[0]" in c.source]
    html = cell.outputs[0].data["text/html"]
    cell.outputs[0].data["text/html"] = html.replace("filby", "weena")
    [found] = run.differences(saved, new)
    assert "weena" in found
    new = deepcopy(saved)
    [cell] = [c for c in new.cells if "Green Porcelain?" in c.source and "k=2" in c.source]
    html = cell.outputs[0].data["text/html"]
    figure = re.search(r"relevance (0\.\d+)", html)[1]
    for change, differs in ((0.01, False), (0.05, True)):
        moved = html.replace(figure, f"{float(figure) + change:.2f}")
        cell.outputs[0].data["text/html"] = moved
        assert bool(run.differences(saved, new)) == differs
