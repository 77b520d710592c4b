"""A block that raises is undone, and its error continues."""

from __future__ import annotations

import contextlib
import gc
import weakref

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


def test_a_failure_to_undo_frees_what_the_block_had_open_at_once():
    class Open:
        pass

    def fail(_):
        raise OSError("cannot undo")

    def work():
        held = Open()
        found.append(weakref.ref(held))
        with on_error(fail):
            raise ValueError("wrong")

    found = []
    gc.disable()
    try:
        with contextlib.suppress(OSError):
            work()
        assert found[0]() is None
    finally:
        gc.enable()
