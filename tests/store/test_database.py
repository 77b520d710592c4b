"""The newest generation, which only statements prove, and the process that writes, as data."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from e2graphrag_integrations.store.database import KnownGeneration, NewestGeneration, Writer

WRITER = Writer(7, "job.py", "h", since=datetime(2026, 11, 28, 9, 30, tzinfo=UTC))


def test_the_statement_that_began_last_wins_whenever_its_result_arrives():
    newest = NewestGeneration()
    assert newest.known == KnownGeneration("", -math.inf)
    assert newest.learn("second", 2.0)
    assert not newest.learn("first", 1.0)
    assert newest.known == KnownGeneration("second", 2.0)
    assert newest.learn("third", 3.0)


def test_a_statement_that_finds_no_change_only_extends_the_time():
    newest = NewestGeneration()
    newest.learn("only", 1.0)
    assert not newest.learn("only", 2.0)
    assert newest.known == KnownGeneration("only", 2.0)


def test_a_writer_is_the_same_after_it_was_written_and_read():
    for one in (WRITER, Writer.here(), replace(WRITER, account="e2g from 10.0.0.1")):
        assert Writer.from_json(one.to_json()) == one


@pytest.mark.parametrize("text", ["", "process 1", "{}", "[]", '{"pid": 1}', '{"since": "x"}'])
def test_a_damaged_text_is_no_writer(text):
    with pytest.raises(ValueError, match=r"."):
        Writer.from_json(text)


@pytest.mark.parametrize(
    ("writer", "shown"),
    [
        (WRITER, "process 7 (job.py) on h since 2026-11-28 09:30:00 UTC"),
        (
            replace(WRITER, account="u from a"),
            "process 7 (job.py) on h (u from a) since 2026-11-28",
        ),
        (Writer(program="psql", account="u"), "psql (u)"),
        (Writer(), "another process"),
    ],
)
def test_a_writer_is_shown_with_what_is_known(writer, shown):
    assert str(writer).startswith(shown)


def test_only_a_writer_of_the_same_time_can_be_another_one():
    later = replace(WRITER, since=datetime(2026, 11, 28, 9, 31, tzinfo=UTC))
    assert WRITER.may_be(WRITER)
    assert not later.may_be(WRITER)  # a container restarts with the same number and name
    assert Writer().may_be(WRITER)
