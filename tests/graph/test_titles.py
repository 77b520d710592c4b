from __future__ import annotations

import subprocess
import sys

import pytest

from e2graphrag_integrations.graph.titles import title_form


@pytest.mark.parametrize(
    ("title", "form"),
    [
        ("Dune (novel)", "dune"),
        ("Dune(1965)  ", "dune"),
        ("红楼梦（小说）", "红楼梦"),
        ("Dune (novel) Part Two", "dune (novel) part two"),
        ("The  A-Team (film)", "a-team"),
        ("“Emma”", "emma"),
        ("Dune (1965) (novel)", "dune"),
        ("Dune (1965)（小说）", "dune"),
        ("Dune (a (b)) I", "dune (a (b)) i"),
        ("Dune b)c (d)", "dune b)c"),
        ("(a) (b)", "a"),
        ("(a", "a"),
    ],
)
def test_title_form_drops_parentheses_at_the_end(title, form):
    assert title_form(title) == form


def test_title_form_takes_linear_time_for_many_parentheses():
    code = """
from e2graphrag_integrations.graph.titles import title_form
assert title_form("Dune" + " (a)" * 400_000) == "dune"
"""
    # In quadratic time, this takes over an hour.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_title_form_keeps_a_title_entirely_in_parentheses():
    assert title_form("(Untitled)") == "untitled"


@pytest.mark.parametrize("title", [None, "", "  ", "()", "?!", "(…)"])
def test_title_without_a_word_has_an_empty_form(title):
    assert title_form(title) == ""
