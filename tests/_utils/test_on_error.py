"""A block that raises is undone, and its error continues."""

from __future__ import annotations

import pytest

from e2graphrag_integrations._utils.on_error import on_error


def test_nothing_is_undone_without_an_error():
    undone = []
    with on_error(undone.append):
        pass
    assert undone == []


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt()])
def test_an_error_is_undone_and_continues(error):
    undone = []
    with pytest.raises(type(error)) as raised, on_error(undone.append):
        raise error
    assert undone == [error]
    assert raised.value is error


def test_only_errors_of_the_given_class_are_undone():
    undone = []
    with pytest.raises(KeyboardInterrupt), on_error(undone.append, Exception):
        raise KeyboardInterrupt
    assert undone == []
