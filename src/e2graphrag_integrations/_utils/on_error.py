"""What must be undone if a block of code raises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import TracebackType


@contextlib.contextmanager
def on_error(
    undo: Callable[[BaseException], object], kind: type[BaseException] = BaseException
) -> Iterator[None]:
    """Call a function if the block raises; the error continues.

    Args:
        undo: Called with the error.
        kind: Class of the errors for which it is called. The default includes interrupts.
    """

    def check(
        _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if isinstance(error, kind):
            undo(error)

    with contextlib.ExitStack() as stack:
        stack.push(check)
        yield
