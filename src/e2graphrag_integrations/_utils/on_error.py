"""What must be undone if a block of code raises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def on_error(
    undo: Callable[[BaseException], object], kind: type[BaseException] = BaseException
) -> Iterator[None]:
    """Call a function if the block raises; the error continues.

    Args:
        undo: Called with the error.
        kind: Class of the errors for which it is called. The default includes interrupts.
    """
    # An ExitStack would refer to the error of `undo` from that error's own traceback. This cycle
    # keeps whatever the block had open, such as a lock, until the garbage collector runs.
    try:
        yield
    except kind as error:
        undo(error)
        raise
