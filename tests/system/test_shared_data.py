"""Tests that need ../shared: a complete novel, and the bundled pipeline on test treebanks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG, PaperStrategy, SourceDocument
from e2graphrag_integrations.retrieval.result import GAP
from tree_oracle import level_sizes

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is missing"),
]


def test_novel_is_indexed_and_queried(tmp_path):
    text = (DATA / "novels" / "pride_and_prejudice.txt").read_text(encoding="utf-8")[:150_000]
    with E2GraphRAG.open(tmp_path / "pp.e2g", embedder="hashing") as rag:
        estimate = rag.estimate(SourceDocument("pp", text))
        report = rag.add(SourceDocument("pp", text))
    assert report.chunks == estimate.chunks > 20
    assert report.summaries == estimate.llm_calls == sum(level_sizes(report.chunks)[1:])
    with E2GraphRAG.open(tmp_path / "pp.e2g") as rag:
        question = "What does Mr. Darcy think of Elizabeth Bennet?"
        local = rag.retrieve(question, strategy=PaperStrategy())
        assert local.route == "local"
        assert {link.entity for link in local.trace.links} >= {"darcy", "elizabeth bennet"}
        assert all(pair.hops for pair in local.trace.pairs)
        for node in local.nodes:
            assert text[node.start : node.end] == node.text
        assert rag.retrieve("How did they get there so quickly?").route == "global"
        packed = rag.retrieve(question, token_budget=2000)
        assert {"darcy", "elizabeth bennet"} <= {link.entity for link in packed.trace.links}
        for node in packed.nodes:
            assert GAP.join(text[start:end] for start, end in node.spans) == node.text
        assert rag.verify().ok


def test_bundled_pipeline_reaches_the_scores_in_its_metadata(without_torch):
    pipeline = ROOT / "src" / "e2graphrag_integrations" / "models" / "en_e2g_sm"
    command = [sys.executable, "training/evaluate.py", "--split", "test"]
    command += ["--data", str(DATA / "treebanks"), "--pipeline", str(pipeline)]
    command += ["--raw-documents", "20"]  # only the scores on gold tokens are compared
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env=without_torch
    )
    scores = json.loads(done.stdout[done.stdout.index("{") :])
    metadata = json.loads((pipeline / "meta.json").read_text(encoding="utf-8"))["performance"]
    assert scores["pos_acc"] >= 0.95
    assert scores["lemma_acc"] >= 0.96
    assert scores["ents_f"] >= 0.68
    for name in ("pos_acc", "lemma_acc", "ents_f"):
        assert metadata[f"test_{name}"] == pytest.approx(scores[name], abs=0.005)
    size = sum(file.stat().st_size for file in pipeline.rglob("*") if file.is_file())
    assert size <= 8_000_000
