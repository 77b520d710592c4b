"""The history of a chat, as LangChain keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from e2graphrag_integrations.retrieval.history.turns import History, Turn, TurnLike, as_turns

ChatHistory = Sequence[BaseMessage | TurnLike] | Callable[[], History]
"""Messages or other turns, oldest first; or a function that returns them, called at each query."""


def read_history(history: Any) -> tuple[Turn, ...]:
    """Return the turns of a `ChatHistory` to read.

    Raises:
        InvalidInputError: If the history contains something other than turns.
    """
    return as_turns(history() if callable(history) else history)
