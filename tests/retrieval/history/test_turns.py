"""The turns of a history: accepted forms, limits and errors."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.history.turns import (
    MAX_TURN_LENGTH,
    MAX_TURNS,
    Turn,
    as_turns,
)

TURNS = (Turn("user", "Who is Anna?"), Turn("assistant", "A sailor."))


@pytest.mark.parametrize(
    "history",
    [
        TURNS,
        ["Who is Anna?", ("assistant", "A sailor.")],
        [["human", "Who is Anna?"], ["ai", "A sailor."]],
        [
            {"role": "user", "content": [{"type": "text", "text": "Who is Anna?"}]},
            {"role": "model", "content": ["A sailor."], "name": "bot"},
        ],
        [
            SimpleNamespace(type="human", content=" Who is Anna? "),
            SimpleNamespace(type="AIMessageChunk", content="A sailor."),
        ],
        [("system", "Be brief."), *TURNS, ("tool", "42"), ("assistant", " "), ("ai", None)],
        [*TURNS, {"role": "assistant", "tool_calls": [{"id": "1"}]}],
    ],
)
def test_all_forms_of_a_turn_are_accepted(history):
    assert as_turns(history) == TURNS


def test_only_the_end_of_a_long_history_and_the_beginning_of_a_long_turn_are_read():
    history = [f"question {number}" for number in range(999)]
    turns = as_turns([*history, "x" * 10**6])
    assert [turn.text for turn in turns[:-1]] == history[-MAX_TURNS + 1 :]
    assert turns[-1].text == "x" * MAX_TURN_LENGTH
    assert as_turns(None) == as_turns([]) == ()


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ("Who is Anna?", "must be a list of turns, oldest first"),
        (5, "must be a list of turns"),
        ({"role": "user", "content": "Who?"}, "must be a list of turns"),
        (["Who?", ("robot", "42")], r"history\[1\] has the unknown role 'robot': use user, assis"),
        ([("user", "Who?"), (None, "42")], r"history\[1\] has the unknown role None"),
        ([{"role": ["user"], "content": "Who?"}], r"history\[0\] has the unknown role \['user'\]"),
        ([{"content": "Who?"}], r"history\[0\] has no key 'role'"),
        ([{"role": "user", "text": "Who?"}], r"history\[0\] has no key 'content'"),
        ([("user", "Who?", 1)], r"history\[0\] is \('user', 'Who\?', 1\): a turn is a "),
        ([None], r"history\[0\] is None: a turn is a "),
        ([("user", 42)], r"the text of history\[0\] must be a string or a list of parts, not 42"),
        ([("user", [42])], r"the text of history\[0\] must be"),
        ([("robot", "x"), *["Who?"] * 1000], r"history\[0\] has the unknown role"),
    ],
)
def test_something_other_than_turns_is_rejected_with_its_place(history, message):
    with pytest.raises(InvalidInputError, match=message):
        as_turns(history)
