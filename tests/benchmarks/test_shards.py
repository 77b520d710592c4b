"""Shards of an index give the same answers as the index."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import scale
import shards
from synthetic import Corpus


def test_shards_with_merged_statistics_answer_like_one_index(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARDS", 3)
    monkeypatch.setattr(shards, "QUESTIONS", 20)
    real = np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)
    real /= np.linalg.norm(real, axis=1, keepdims=True)
    corpus = Corpus(600)
    with scale.open_index(tmp_path / "i.e2g", real) as rag:
        rag.add(list(corpus.documents()))
        result = shards.measure_shards(rag, corpus)
    recalls = result["recall"]
    lists = {name: value for name, value in recalls.items() if name.startswith("shards")}
    assert min(lists.values()) > 0.98
    assert recalls["shards against one index: bm25, top 10"] == 1
    assert result["recall if each shard is scored alone"]["bm25, top 10"] < 1
