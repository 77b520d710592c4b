"""Running PyTorch in one thread, without changing the number of threads for anything else."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.lazy import lazy

_TORCH_LIBRARIES = ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll")


class SingleThread:
    """Runs PyTorch on the CPU in one thread while its context is active.

    With several threads, embedding one short text on a busy machine mostly waits for threads that
    the operating system has not scheduled. The numbers of OpenMP and MKL threads belong to each
    thread, so the limit does not affect other threads, and the previous numbers are restored at the
    end. `torch.set_num_threads` would change the number for threads that start later.
    """

    @lazy
    def _openmp(self) -> Any:
        """The OpenMP libraries in this process; finding them takes several milliseconds."""
        try:
            from threadpoolctl import ThreadpoolController
        except ImportError:  # installed with sentence-transformers
            return None
        return ThreadpoolController().select(user_api="openmp")

    @lazy
    def _set_mkl(self) -> Callable[[int], int]:
        """Set the number of MKL threads of this thread, and return the previous one.

        The number 0 means that of the process, which `torch.set_num_threads` sets. It applies to
        matrix products even if OpenMP has only one thread. PyTorch contains MKL, which
        threadpoolctl therefore does not find.
        """
        folder = Path(sys.modules["torch"].__file__ or "").parent / "lib"
        for name in _TORCH_LIBRARIES:
            try:
                function = ctypes.CDLL(str(folder / name)).MKL_Set_Num_Threads_Local
            except (OSError, AttributeError):  # another system, or PyTorch without MKL
                continue
            function.argtypes, function.restype = [ctypes.c_int], ctypes.c_int
            return lambda number: int(function(number))
        return lambda _: 0

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run the `with` body in one thread, if PyTorch is loaded."""
        torch = sys.modules.get("torch")
        if torch is None or self._openmp is None:
            yield
            return
        # The first parallel call in a thread sets its number of threads and would undo the limit.
        torch.get_num_threads()
        previous = self._set_mkl(1)
        try:
            with self._openmp.limit(limits=1):
                yield
        finally:
            self._set_mkl(previous)
