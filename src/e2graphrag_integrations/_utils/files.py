"""Files on all systems: changing them while another process has them open, and their names.

Windows refuses to rename, replace or delete a file that is open or mapped into memory, and to
rename a folder that contains one. Therefore, files that stay open are written once, under a new
name, and what is outdated is deleted as soon as nobody uses it.

macOS and Windows find `Notes.txt` under `notes.TXT`, and macOS may list `\u00e9` as `e` and U+0301.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import unicodedata
import uuid
from collections.abc import Callable
from pathlib import Path

OUTDATED = "old-"
"""Start of the names of folders that are being deleted, before 32 hexadecimal digits."""

_IN_USE = frozenset({5, 32, 33, 1224})
"""Error codes of Windows: access denied, sharing violation, lock violation, mapped file."""

_SECONDS = 5.0
"""How long to wait for a program that reads a file and closes it, such as a virus scanner."""

_PAUSE = 0.05


def unread_reason(error: Exception) -> str:
    """Return in words why a text file of the user cannot be read or parsed."""
    if isinstance(error, UnicodeDecodeError):
        return "not valid UTF-8: save the file in this encoding"
    return getattr(error, "strerror", None) or str(error)


def is_in_use(error: OSError) -> bool:
    """Return whether Windows refused a change, perhaps because a file is open."""
    return getattr(error, "winerror", None) in _IN_USE


def replace_file(source: Path, target: Path) -> None:
    """Rename a file, replacing any existing one; wait until a program that reads it closes it.

    Only for files that are read completely and then closed.

    Raises:
        OSError: If it cannot be replaced, or Windows refuses for 5 seconds.
    """
    _retried(lambda: source.replace(target))


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder to a name that is free; see `replace_file` about open files.

    Raises:
        OSError: If it cannot be renamed.
    """
    _retried(lambda: source.rename(target))


def delete_if_unused(file: Path) -> bool:
    """Delete a file; return whether it is gone. One that is in use stays, for a later call."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def discard_folder(folder: Path) -> bool:
    """Delete a folder; return whether its name is free. One that is in use stays complete.

    The folder is renamed first, so that nobody reads half of it. What cannot be deleted then
    remains under a name that starts with `OUTDATED`, for a later call.
    """
    outdated = folder.with_name(f"{OUTDATED}{uuid.uuid4().hex}")
    try:
        folder.rename(outdated)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    shutil.rmtree(outdated, ignore_errors=True)
    return True


def sync_file(file: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with file.open("r+b") as written:  # Windows writes out only what is open for writing
        os.fsync(written.fileno())


def sync_names(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk."""
    with contextlib.suppress(PermissionError):  # Windows cannot open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _retried(change: Callable[[], object]) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            change()
        except OSError as error:
            if not is_in_use(error) or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(_PAUSE)


def composed(name: str) -> str:
    """Return a name with composed letters (NFC), as documents are named on every system."""
    return unicodedata.normalize("NFC", name)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder; False also if a folder above it cannot be entered."""
    return os.path.isdir(path)  # noqa: PTH112 - a `Path` raises for a folder that cannot be entered


def is_same_file(one: str, other: str) -> bool:
    """Return whether two complete paths, which may differ in spelling only, are of one file."""
    if one == other:
        return True
    if _folded(one) != _folded(other):
        return False
    try:
        return os.path.samefile(one, other)  # noqa: PTH121 - of text
    except OSError:
        return False


class KnownFiles:
    """The spellings of the files that were met."""

    def __init__(self) -> None:
        self._known: dict[str, list[str]] = {}

    def first_spelling(self, path: str) -> str:
        """Return the path under which a file was met first, and remember it.

        Args:
            path: The complete path, without links.
        """
        spellings = self._known.setdefault(_folded(path), [])
        for known in spellings:
            if is_same_file(known, path):
                return known
        spellings.append(path)
        return path


def _folded(path: str) -> str:
    return composed(composed(path).casefold())
