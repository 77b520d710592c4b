"""The figures of `benchmarks/quality.py` and the check of its goals."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from quality_bench.corpora import Words, in_words
from quality_bench.measures import content_words, interval
from quality_bench.report import goals, lost, table
from quality_bench.systems import SYSTEMS, system


def results(recall, low=0.0):
    systems = {"rrf": {"R@5": 0.8, "all@5": 0.6}, "hybrid": {"R@5": recall, "all@5": 0.8}}
    versus = {"R@5": {"baseline": "rrf", "difference": 0.1, "low": low, "high": 0.2}}
    one = {"questions": 3, "systems": systems, "against best baseline": versus}
    return {"hotpotqa": one, "lihuaworld": one}


def test_a_goal_that_held_and_does_not_any_more_is_told():
    before, now = goals(results(0.9)), goals(results(0.8, low=-0.03))
    assert [row["held"] for row in before.values()] == [True, True, True]
    told = list(lost(before, now))
    assert len(told) == 2
    assert told[0] == "hotpotqa R@5: 0.8 is below 0.87; it was 0.9"
    assert told[1].startswith("lihuaworld R@5 low over the best baseline: -0.03")
    assert list(lost(now, before)) == list(lost(now, now)) == []


def test_the_table_marks_the_best_and_gives_intervals():
    lines = table(results(0.9)).splitlines()
    assert "| hybrid | **0.900** | **0.800** |" in lines
    assert "hybrid - rrf, R@5: +0.100 [+0.000, +0.200]" in lines


def test_the_interval_of_paired_differences_holds_their_mean_and_is_the_same_each_time():
    random = np.random.default_rng(1)
    one, other = random.random(200) + 0.1, random.random(200)
    found = interval(one, other)
    assert found == interval(one, other)
    assert found["low"] < found["difference"] < found["high"]
    assert found["difference"] == pytest.approx(np.mean(one - other), abs=1e-4)
    same = interval(one, one)
    assert (same["low"], same["high"]) == (0, 0)


def test_budgets_are_words_times_one_point_three():
    assert in_words(2000) == 1538
    assert Words().count("one two  three") == len(Words().spans("one two  three")) == 3
    assert content_words("What did the Whale eat?") == {"whale", "eat"}


@pytest.mark.parametrize("name", [*SYSTEMS, "hybrid:neighbor_decay=0.3+title_link_sources=4"])
def test_every_system_answers_with_and_without_a_budget(open_index, story, name):
    rag = open_index()
    rag.add(story)
    assert rag.retrieve("What did Anna give Bert?", k=2, strategy=system(name)).nodes
    packed = rag.retrieve("What did Anna give Bert?", token_budget=30, strategy=system(name))
    assert packed.nodes
