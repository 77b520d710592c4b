"""Running PyTorch in one thread, without changing the number of threads for anything else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2graphrag_integrations._utils.lazy import lazy


class SingleThread:
    """Runs PyTorch on the CPU in one thread while its context is active.

    With several threads, embedding one short text on a busy machine mostly waits for threads that
    the operating system has not scheduled. The number of OpenMP threads belongs to each thread, so
    the limit does not affect other threads, and the previous number is restored at the end.
    `torch.set_num_threads` would change the number for threads that start later. If the user has
    called it, matrix products keep the user's number.
    """

    @lazy
    def _openmp(self) -> Any:
        """The OpenMP libraries in this process; finding them takes several milliseconds."""
        try:
            from threadpoolctl import ThreadpoolController
        except ImportError:  # installed with sentence-transformers
            return None
        return ThreadpoolController().select(user_api="openmp")

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run the `with` body in one thread, if PyTorch is loaded."""
        torch = sys.modules.get("torch")
        if torch is None or self._openmp is None:
            yield
            return
        # The first parallel call in a thread sets its number of threads and would undo the limit.
        torch.get_num_threads()
        with self._openmp.limit(limits=1):
            yield
