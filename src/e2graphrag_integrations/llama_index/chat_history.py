"""The history of a chat, as LlamaIndex's chat engines keep it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory

from e2graphrag_integrations.retrieval.history.turns import History, Turn, TurnLike, as_turns

ChatHistory = Sequence[ChatMessage | TurnLike] | BaseMemory | Callable[[], History]
"""Messages or other turns, oldest first; a memory, or a function that returns turns, both read at
each query."""


def read_history(history: ChatHistory | None) -> tuple[Turn, ...]:
    """Return the turns to read.

    Raises:
        InvalidInputError: If the history contains something other than turns.
    """
    if isinstance(history, BaseMemory):
        return as_turns(history.get_all())
    return as_turns(history() if callable(history) else history)


async def aread_history(history: ChatHistory | None) -> tuple[Turn, ...]:
    """Run `read_history`; a memory is read in the caller's event loop, a function in a thread."""
    if isinstance(history, BaseMemory):
        return as_turns(await history.aget_all())
    if callable(history):
        return await asyncio.to_thread(read_history, history)
    return read_history(history)
