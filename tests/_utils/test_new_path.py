"""Tests of creating a file in one step."""

from __future__ import annotations

import pytest

from e2graphrag_integrations._utils.new_path import new_path
from e2graphrag_integrations.errors import StoreError


@pytest.mark.parametrize("letter", ["a", "\U0001f600"])
def test_creates_a_file_with_the_longest_name_of_the_file_system(tmp_path, letter):
    target = tmp_path / (letter * (250 // len(letter.encode())) + ".html")

    with new_path(target) as temporary:
        temporary.write_text("done", encoding="utf-8")

    assert [file.name for file in tmp_path.iterdir()] == [target.name]


def test_reports_a_name_that_is_too_long_as_such(tmp_path):
    target = tmp_path / ("a" * 256)

    with pytest.raises(StoreError, match="too long"), new_path(target, replace=True) as temporary:
        temporary.write_text("lost", encoding="utf-8")

    assert list(tmp_path.iterdir()) == []
