"""A folder that behaves as on macOS, on Linux: without case, and with decomposed letters.

While the rules are in force, Python's functions find a file below the folder under any spelling of
its name, and new files get decomposed names (NFD), as HFS+ and some servers store them.
"""

from __future__ import annotations

import builtins
import contextlib
import glob
import io
import os
import shutil
import sqlite3
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self
from unittest import mock
from urllib.parse import quote, unquote

_listdir = os.listdir

_ONE_PATH = (
    *("stat", "lstat", "open", "listdir", "unlink", "remove", "rmdir", "mkdir"),
    *("readlink", "access", "utime", "chmod", "truncate"),
)
_TWO_PATHS = ("rename", "replace", "link")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


class Mac:
    """The rules of macOS for the files below a folder.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Find files under any spelling, in this process."""
        with contextlib.ExitStack() as stack:
            for name in _ONE_PATH:
                stack.enter_context(mock.patch.object(os, name, self._found(getattr(os, name), 1)))
            for name in _TWO_PATHS:
                stack.enter_context(mock.patch.object(os, name, self._found(getattr(os, name), 2)))
            for module in (io, builtins):
                stack.enter_context(mock.patch.object(module, "open", self._found(module.open, 1)))
            stack.enter_context(mock.patch.object(os, "scandir", self._scandir(os.scandir)))
            if (globber := getattr(glob, "_StringGlobber", None)) is not None:  # Python 3.13
                for name in ("lstat", "scandir"):
                    function = staticmethod(getattr(os, name))
                    stack.enter_context(mock.patch.object(globber, name, function))
            connect = self._connect(sqlite3.connect)
            stack.enter_context(mock.patch.object(sqlite3, "connect", connect))
            stack.enter_context(mock.patch.object(shutil, "_use_fd_functions", new=False))
            yield

    def real(self, path: Any) -> Any:
        """Return the name of a file on the disk, or the one that a new file gets."""
        if isinstance(path, int | bytes):
            return path
        complete = os.path.abspath(os.fspath(path))  # noqa: PTH100 - a link stays
        if not complete.startswith(f"{self._root}/"):
            return path
        found = self._root
        for name in complete.removeprefix(f"{self._root}/").split("/"):
            found = f"{found}/{self._spelling(found, name)}"
        return found

    def _spelling(self, folder: str, name: str) -> str:
        try:
            names = _listdir(folder)
        except OSError:
            names = []
        if name in names:
            return name
        same = (one for one in names if _folded(one) == _folded(name))
        return next(same, unicodedata.normalize("NFD", name))

    def _found(self, function: Callable[..., Any], count: int) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*map(self.real, args[:count]), *args[count:], **kwargs)

        return call

    def _scandir(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".") -> Any:
            return _Entries(function(self.real(path)), path)

        return call

    def _connect(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: str, **options: Any) -> Any:
            path, mark, rest = target.partition("?")
            if options.get("uri"):
                path = unquote(path).removeprefix("file://")
            found = self.real(path) if path.startswith("/") or not options.get("uri") else path
            if options.get("uri"):
                found = f"file://{quote(found)}"
            return connect(f"{found}{mark}{rest}" if path != ":memory:" else target, **options)

        return call


class _Entries:
    """The entries of a folder, whose paths begin as the folder was spelled."""

    def __init__(self, entries: Any, folder: Any) -> None:
        self._entries, self._folder = entries, folder

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        entry = next(self._entries)
        if isinstance(self._folder, int | bytes):
            return entry
        path = os.path.join(os.fspath(self._folder), entry.name)  # noqa: PTH118 - may be bytes
        return _Entry(entry, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries.close()


class _Entry:
    """An entry of a folder with another path."""

    def __init__(self, entry: Any, path: Any) -> None:
        self._entry, self.path = entry, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> Any:
        return self.path
