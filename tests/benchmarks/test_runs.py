"""What benchmarks share: arguments, processes, goals and Markdown tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import tables
from goals import Goal, finish
from md_tables import table
from runs import forked, memory, output_of, parser_of


def test_arguments_that_a_script_needs_are_required(capsys):
    parser = parser_of("Measure something.\n\nMore.", "out")
    options = parser.parse_args(["--out", "result.json"])
    assert (options.data, options.out) == (None, Path("result.json"))
    with pytest.raises(SystemExit):
        parser.parse_args(["--data", "data"])
    assert "--out" in capsys.readouterr().err
    assert not hasattr(parser_of("Measure.", data=False).parse_args([]), "data")


def test_a_script_in_a_process_of_its_own_returns_json_or_ends_the_run(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, os, sys\n"
        "assert sys.argv[1] == '1', sys.argv\n"
        "print(json.dumps([sys.argv[1:], os.environ.get('OMP_NUM_THREADS')]))\n",
        encoding="utf-8",
    )
    assert output_of(str(script), 1, tmp_path, threads=3) == [["1", str(tmp_path)], "3"]
    with pytest.raises(SystemExit, match=r"script\.py 2 failed"):
        output_of(str(script), 2)


@pytest.mark.fast_cases(1)
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize(("task", "code"), [(lambda: None, 0), (lambda: 1 / 0, 1)])
def test_a_forked_task_tells_whether_it_finished(task, code):
    _, status = os.waitpid(forked(task), 0)
    assert os.waitstatus_to_exitcode(status) == code


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_is_in_mib():
    found = memory()
    assert 0 < found["anonymous"] <= found["resident"] <= found["peak"] < 1 << 20


def test_a_missed_goal_is_written_and_ends_the_run(tmp_path, capsys):
    out = tmp_path / "folder" / "result.json"
    finish({"a": 1}, [Goal("speed", 2, min=1)], out)
    before = out.read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="missed goals: time: 3"):
        finish({"a": 1}, [Goal("speed", 2, min=1), Goal("time", 3, max=2)], out)
    assert '"met": false' in out.read_text(encoding="utf-8").removeprefix(before)
    assert '"a": 1' in capsys.readouterr().out


def test_tables_have_a_line_per_row():
    assert table(("a", "b"), [(1, "x")]) == "| a | b |\n|---|---|\n| 1 | x |\n"


def test_figures_are_found_by_their_path():
    result = {"runs": [{"ms": {"p50": 1.25, "p95": 20.0}}], "nodes, all": 1240, "share": 0.5}
    assert tables.shown(tables.at(result, "runs > 0 > ms")) == "1.2 / 20.0"
    rows = {"nodes": "nodes, all", "share": "share"}
    assert tables.listed(rows, result) == "|  |  |\n|---|---|\n| nodes | 1,240 |\n| share | 0.5 |\n"
    with pytest.raises(KeyError):
        tables.at(result, "runs > 0 > seconds")


def test_figures_by_size_have_a_column_each():
    result = {"sizes": {"1000": {"s": 1}, "other": {"s": 2}}}
    lines = tables.by_size({"seconds": "sizes > * > s"}, result).splitlines()
    assert lines == ["|  | 1,000 chunks | other |", "|---|---|---|", "| seconds | 1 | 2 |"]


def test_missed_goals_are_listed_with_their_limits(monkeypatch):
    monkeypatch.setattr(tables, "WITH_GOALS", ("one", "other"))
    met = {"name": "a", "value": 1.0, "max": 2, "met": True}
    missed = {"name": "b", "value": 0.5, "min": 2, "met": False}
    by_name = {"c": {"value": 3.0, "min": 2, "met": True}}
    lines = tables.goals({"goals": [met, missed]}, {"goals": by_name}).splitlines()
    assert lines[2:] == ["| `one.json` | 2 | 1 | b: 0.5 (limit 2) |", "| `other.json` | 1 | 1 |  |"]


def test_every_table_is_shown_on_a_page():
    shown = {
        name
        for page in tables.DOCUMENTS
        for name in tables.TABLES
        if f"<!-- table {name} -->" in page.read_text(encoding="utf-8")
    }
    assert shown == set(tables.TABLES)
