from __future__ import annotations

import subprocess
import sys

import pytest

from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.graph import titles
from e2graphrag_integrations.graph.titles import TextTitles, title_form


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


@pytest.mark.slow
def test_title_form_takes_linear_time_for_many_parentheses():
    code = """
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.graph import titles
from e2graphrag_integrations.graph.titles import TextTitles, title_form
assert title_form("Dune" + " (a)" * 400_000) == "dune"
"""
    # In quadratic time, this takes over an hour.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_title_form_keeps_a_title_entirely_in_parentheses():
    assert title_form("(Untitled)") == "untitled"


@pytest.mark.parametrize("title", [None, "", "  ", "()", "?!", "(…)"])
def test_title_without_a_word_has_an_empty_form(title):
    assert title_form(title) == ""


TITLES = TextTitles(frozenset({"time machine", "emma", "tale of two cities", "élan", "u.s.a."}))


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What is The Time Machine about?", "The Time Machine"),
        ("Who loves Emma's father, Mr. Woodhouse?", "Emma's"),
        ("Is “Time  Machine” long?", "Time  Machine"),
        ("Emma or the Time Machine?", "the Time Machine"),  # the longer one
        ("Is Emma older than Emma?", "Emma"),
        ("Does élan help?", "élan"),
        ("Summarize Ｅｍｍａ", "Ｅｍｍａ"),  # full-width letters
        ("Who is Emmanuel?", None),
        ("", None),
    ],
)
def test_the_title_of_a_text_is_found_in_a_question(question, title):
    found = TITLES.find(question)
    assert title == (None if found is None else question[slice(*found)])


def test_parts_without_the_first_word_of_a_title_are_not_compared(monkeypatch):
    read = []
    monkeypatch.setattr(titles, "normal_form", lambda part: read.append(part) or normal_form(part))
    assert TextTitles(frozenset()).find("Who met Emma in the garden?") is None
    assert TITLES.find("Who met Anna in the garden of her house?") is None
    assert read == []
    TITLES.find("Who met Emma?")
    assert read == ["Emma"]
    read.clear()
    TITLES.find("Is it the time?")
    assert read == ["the time", "the", "time"]
