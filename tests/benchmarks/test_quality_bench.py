"""The measures, tables and goals of `benchmarks/quality.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from quality_bench.corpora import Words, in_words
from quality_bench.measures import content_words, interval
from quality_bench.report import goals, regressions, table
from quality_bench.systems import SYSTEMS, system


def results(recall, low=0.0):
    systems = {"rrf": {"R@5": 0.8, "all@5": 0.6}, "hybrid": {"R@5": recall, "all@5": 0.8}}
    difference = {"R@5": {"baseline": "rrf", "difference": 0.1, "low": low, "high": 0.2}}
    result = {"questions": 3, "systems": systems, "against best baseline": difference}
    return {"hotpotqa": result, "lihuaworld": result}


def test_regressions_name_the_goals_that_are_no_longer_met():
    before, after = goals(results(0.9)), goals(results(0.8, low=-0.03))
    assert [row["met"] for row in before.values()] == [True, True, True]
    messages = list(regressions(before, after))
    assert len(messages) == 2
    assert messages[0] == "hotpotqa R@5: 0.8 is below 0.87; it was 0.9"
    assert messages[1].startswith("lihuaworld R@5 low over the best baseline: -0.03")
    assert list(regressions(after, before)) == list(regressions(after, after)) == []


def test_table_marks_the_best_system_and_lists_intervals():
    lines = table(results(0.9)).splitlines()
    assert "| hybrid | **0.900** | **0.800** |" in lines
    assert "hybrid - rrf, R@5: +0.100 [+0.000, +0.200]" in lines


def test_interval_contains_the_mean_difference_and_is_reproducible():
    random = np.random.default_rng(1)
    scores, baseline = random.random(200) + 0.1, random.random(200)
    result = interval(scores, baseline)
    assert result == interval(scores, baseline)
    assert result["low"] < result["difference"] < result["high"]
    assert result["difference"] == pytest.approx(np.mean(scores - baseline), abs=1e-4)
    same = interval(scores, scores)
    assert (same["low"], same["high"]) == (0, 0)


def test_a_word_counts_as_1_3_tokens():
    assert in_words(2000) == 1538
    assert Words().count("one two  three") == len(Words().spans("one two  three")) == 3


def test_content_words_exclude_stop_words():
    assert content_words("What did the Whale eat?") == {"whale", "eat"}


@pytest.mark.parametrize("name", [*SYSTEMS, "hybrid:neighbor_decay=0.3+title_link_sources=4"])
def test_every_system_answers_with_and_without_a_budget(open_index, story, name):
    rag = open_index()
    rag.add(story)
    assert rag.retrieve("What did Anna give Bert?", k=2, strategy=system(name)).nodes
    packed = rag.retrieve("What did Anna give Bert?", token_budget=30, strategy=system(name))
    assert packed.nodes
