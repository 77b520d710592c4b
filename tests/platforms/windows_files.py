"""Files that behave as on Windows, on Linux.

While the rules are in force, Python's functions refuse what Windows refuses: to rename, replace or
delete a file that is open or mapped in a process, to write out a file that is open for reading, to
open a folder, and names that Windows reserves. Which files are open is read from `/proc`, so it
does not matter what opened them: Python, NumPy, SQLite or another process.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import io
import os
import re
import shutil
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

MAX_PATH = 260
"""Maximum number of characters of a path, unless the user has allowed longer ones."""

_SHARING_VIOLATION, _MAPPED, _EXISTS, _BAD_NAME, _DENIED = 32, 1224, 183, 123, 5

_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f\\]|[. ]$')

_MAY_TRY = ("delete_if_unused", "discard_folder", "sync_names", "_retried")
"""The functions of the package that may try a change of a file that is open."""


@dataclass(frozen=True)
class Refusal:
    """A call that was refused."""

    call: str
    path: str
    functions: tuple[str, ...]
    """The functions of the stack, outermost first."""

    @property
    def is_expected(self) -> bool:
        """Whether the caller tries again later."""
        return any(name in _MAY_TRY for name in self.functions)


@dataclass
class Windows:
    """The rules of Windows for the files below a folder.

    Attributes:
        root: The folder.
        others: Ids of other processes whose open files count.
        max_path: Maximum number of characters of a path; None does not limit it.
        refusals: The calls that were refused.
    """

    root: Path
    max_path: int | None = None
    others: tuple[int, ...] = ()
    refusals: list[Refusal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._real_root = os.path.realpath(self.root)

    @property
    def violations(self) -> list[Refusal]:
        """The refused calls whose callers did not expect it."""
        return [refusal for refusal in self.refusals if not refusal.is_expected]

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Refuse what Windows refuses, in this process."""
        with contextlib.ExitStack() as stack:
            for module, name, check in (
                (os, "rename", self._check_rename),
                (os, "replace", self._check_replace),
                (os, "unlink", self._check_delete),
                (os, "remove", self._check_delete),
                (os, "rmdir", self._check_delete),
                (os, "truncate", self._check_truncate),
                (os, "fsync", self._check_fsync),
                (os, "mkdir", self._check_name),
                (os, "link", self._check_link),
                (os, "open", self._check_os_open),
                (io, "open", self._check_open),
                (builtins, "open", self._check_open),
            ):
                checked = _checked(getattr(module, name), check)
                stack.enter_context(mock.patch.object(module, name, checked))
            # Windows has no functions that delete relative to a folder.
            stack.enter_context(mock.patch.object(shutil, "_use_fd_functions", new=False))
            yield

    def _check_rename(self, source: Any, target: Any, **_: Any) -> None:
        self._check_name(target)
        if self._is_below(target) and os.path.lexists(target) and not _same(source, target):
            self._refuse("rename to an existing name", target, FileExistsError, _EXISTS)
        self._check_unused("rename", source)

    def _check_replace(self, source: Any, target: Any, **_: Any) -> None:
        self._check_name(target)
        self._check_unused("rename", source)
        self._check_unused("replace", target)

    def _check_link(self, source: Any, target: Any, **_: Any) -> None:
        del source
        self._check_name(target)

    def _check_delete(self, path: Any, **_: Any) -> None:
        self._check_unused("delete", path)

    def _check_truncate(self, path: Any, _: int) -> None:
        if not isinstance(path, int) and self._is_below(path) and self._mapped(path):
            self._refuse("truncate a mapped file", path, PermissionError, _MAPPED)

    def _check_fsync(self, file: Any) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        path = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - text is enough
        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if self._is_below(path) and access == os.O_RDONLY:
            self._record("fsync of a file that is open for reading", path)
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _check_os_open(self, path: Any, flags: int, *_: Any, **__: Any) -> None:
        self._check_name(path)
        if self._is_below(path) and Path(os.fspath(path)).is_dir():
            self._record("open a folder", path)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        if flags & os.O_TRUNC:
            self._check_truncate(path, 0)

    def _check_open(
        self, path: Any, mode: str = "r", buffering: int = -1, *_: Any, **__: Any
    ) -> None:
        if isinstance(path, int) or not self._is_below(path):
            return
        self._check_name(path)
        if "w" in mode:
            self._check_truncate(path, 0)
        if buffering != 0 and self._is_locked(path):
            # A buffer begins with the locked first byte.
            self._refuse("read or write the locked byte of", path, PermissionError, 33)

    def _check_name(self, path: Any, *_: Any, **__: Any) -> None:
        if not self._is_below(path):
            return
        complete = os.path.abspath(os.fspath(path))  # noqa: PTH100 - a link stays
        for part in Path(complete).relative_to(self.root).parts:
            if _RESERVED.fullmatch(part) or _FORBIDDEN.search(part):
                self._refuse("reserved name", path, OSError, _BAD_NAME)
        if self.max_path is not None and len(complete) >= self.max_path:
            # Not recorded: the user has chosen the folder.
            raise _refused(FileNotFoundError, 3, complete)

    def _check_unused(self, call: str, path: Any) -> None:
        if not self._is_below(path) or not os.path.lexists(path):
            return
        complete = _complete(path)
        if self._mapped(path):
            self._refuse(f"{call} a mapped file", path, PermissionError, _DENIED)
        if any(_is_at(one, complete) for one in self._open_files()):
            self._refuse(f"{call} an open file", path, PermissionError, _SHARING_VIOLATION)

    def _mapped(self, path: Any) -> bool:
        if not os.path.lexists(path):
            return False  # most files are new
        complete = _complete(path)
        return any(_is_at(one, complete) for one in self._mapped_files())

    def _open_files(self) -> Iterator[str]:
        for process in (os.getpid(), *self.others):
            folder = f"/proc/{process}/fd"
            with contextlib.suppress(OSError):
                for descriptor in os.listdir(folder):  # noqa: PTH208 - text is enough
                    with contextlib.suppress(OSError):
                        yield os.readlink(f"{folder}/{descriptor}")  # noqa: PTH115

    def _mapped_files(self) -> Iterator[str]:
        for process in (os.getpid(), *self.others):
            maps = _read(f"/proc/{process}/maps")
            # A process maps thousands of files, and few of them are below the folder.
            for rest in maps.split(f" {self._real_root}/")[1:]:
                yield f"{self._real_root}/{rest.splitlines()[0]}"

    def _is_locked(self, path: Any) -> bool:
        try:
            inode = os.stat(path).st_ino  # noqa: PTH116 - the path may be text
        except OSError:
            return False
        locks = _read("/proc/locks")
        return any(
            "FLOCK" in line and line.split()[-3].rpartition(":")[2] == str(inode)
            for line in locks.splitlines()
        )

    def _is_below(self, path: Any) -> bool:
        if isinstance(path, int):
            return False
        return _is_at(os.path.abspath(os.fsdecode(path)), str(self.root))  # noqa: PTH100

    def _record(self, call: str, path: Any) -> None:
        functions = tuple(
            f"{frame.name}" if "e2graphrag_integrations" in frame.filename else "-"
            for frame in traceback.extract_stack()
        )
        self.refusals.append(Refusal(call, os.fsdecode(path), functions))

    def _refuse(self, call: str, path: Any, kind: type[OSError], code: int) -> None:
        self._record(call, path)
        raise _refused(kind, code, os.fsdecode(path))


def _refused(kind: type[OSError], code: int, path: str) -> OSError:
    error = kind(errno.EACCES, f"[WinError {code}]", path)
    error.winerror = code  # type: ignore[attr-defined]  # as on Windows
    return error


def _checked(function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def _same(one: Any, other: Any) -> bool:
    return os.path.abspath(os.fspath(one)) == os.path.abspath(os.fspath(other))  # noqa: PTH100


def _complete(path: Any) -> str:
    """Return the path of a file or link, as `/proc` shows it."""
    folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100
    return str(Path(os.path.realpath(folder)) / name)


def _is_at(file: str, path: str) -> bool:
    return file == path or file.startswith(f"{path}/")


_real_open = open


def _read(path: str) -> str:
    try:
        with _real_open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
