"""Simplified characters in texts of equal length."""

from __future__ import annotations

from hypothesis import given

from e2graphrag_integrations.text.simplified import simplified
from strategies import quick, texts


def test_traditional_characters_are_replaced():
    assert simplified("諸葛亮，字孔明。GDP") == "诸葛亮，字孔明。GDP"


@quick
@given(texts())
def test_offsets_stay_and_a_second_call_changes_nothing(text):
    once = simplified(text)
    assert len(once) == len(text)
    assert simplified(once) == once
