"""Short runs of the benchmarks that check correctness, and the check of the generated tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import concurrency
from light_stub import SCRIPT
from stub_server import LIGHT_STUB

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the benchmark forks")


def run(tmp_path, environment, name, *options):
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *options, "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text(encoding="utf-8"))


@needs_fork
@pytest.mark.shared
def test_killed_indexing_loses_no_documents_and_repeats_few_calls(tmp_path, without_torch):
    if not SCRIPT.exists():
        pytest.skip(f"{SCRIPT} is missing")
    sizes = ("--kills", "3", "--kills-per-file", "3", "--parts", "11", "--latency-ms", "30")
    few = (*sizes, "--forks", "2", "--persist-kills", "2")
    result = run(tmp_path, without_torch, "crash.py", "--stub", str(LIGHT_STUB), *few)
    assert result["kills"] >= 3
    assert result["failed verifications"] == result["lost documents"] == 0
    assert result["files that differ from an uninterrupted run"] == 0
    assert result["repeated LLM calls"] <= result["concurrency"] * result["kills"]
    persist = result["persist"]["E2GraphRAGIndex.persist"]
    assert persist["old version"] + persist["new version"] == persist["kills"] == 2


def test_readers_see_consistent_states_while_processes_write(tmp_path, without_torch):
    options = ("--documents", "6", "--readers", "2")
    result = run(tmp_path, without_torch, "concurrency.py", *options)
    assert (result["documents"], result["answers"] > 0) == (12, True)
    assert result["errors and inconsistent answers"] == result["failed processes"] == 0
    assert result["verified"]


def test_a_document_that_is_missing_or_mixes_versions_is_an_error():
    assert concurrency.gaps({"0-000", "0-002", "1-000"}) == {"0-001"}
    texts = {"0-000": [0, 0], "0-001": [0, 1], "1-000": [0]}
    found = [
        SimpleNamespace(document_id=name, text=f"Version {version}. A line.")
        for name, versions in texts.items()
        for version in versions
    ]
    errors = concurrency.problems(found, 2)
    assert [one.partition(":")[0] for one in errors] == ["1-000", "0-001"]


def test_tables_in_the_docs_match_the_results(without_torch):
    command = [sys.executable, str(BENCHMARKS / "tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=without_torch)
    assert done.returncode == 0, done.stderr
