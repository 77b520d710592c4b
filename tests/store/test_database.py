"""The newest known generation: only statements prove it, and later ones win."""

from __future__ import annotations

import math

from e2graphrag_integrations.store.database import KnownGeneration, NewestGeneration


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
