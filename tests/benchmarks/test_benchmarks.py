"""The proofs that benchmarks give at length, here in short: nothing lost, nothing half read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stub_server import SCRIPT

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the benchmark forks")


def run(tmp_path, name, *options):
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *options, "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text(encoding="utf-8"))


@forks
@pytest.mark.shared
def test_a_process_that_is_killed_again_and_again_loses_and_repeats_nothing(tmp_path):
    if not SCRIPT.exists():
        pytest.skip(f"{SCRIPT} is missing")
    sizes = ("--kills", "6", "--kills-a-file", "6", "--parts", "11", "--latency-ms", "40")
    found = run(tmp_path, "crash.py", "--stub", str(SCRIPT), *sizes)
    assert found["kills"] >= 6
    assert found["failed verifies"] == found["lost documents"] == 0
    assert found["files that differ from one made in one go"] == 0
    assert found["repeated LLM calls"] <= found["concurrency"] * found["kills"]


@forks
def test_every_answer_beside_a_writer_is_of_one_whole_state(tmp_path):
    found = run(tmp_path, "concurrency.py", "--documents", "12", "--readers", "3")
    assert found["answers"] > 0
    assert found["answers that are not of one whole state"] == found["readers that failed"] == 0
    assert found["verify is clean"]


def test_the_tables_of_the_documents_are_what_the_results_say():
    command = [sys.executable, str(BENCHMARKS / "tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
