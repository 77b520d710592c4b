"""A folder whose files are replaced together: after a crash, either all of them are old or all new.

The folder contains, next to its files:

- `persist.new-<uuid>`: a version that is being written, or that a crash interrupted.
- `persist.pending`: a complete version, some of whose files may not be in their place yet.
- `persist.lock`: exists while a process writes.

The files keep the names and the places that LlamaIndex's own loader expects. A version becomes the
current one when its folder is renamed to `persist.pending`. Then its files are moved to their
places. If a crash interrupts this, the next load or write moves the rest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from e2graphrag_integrations._utils.on_error import on_error
from e2graphrag_integrations.errors import CorruptStoreError, StoreError
from e2graphrag_integrations.store.lock import IndexLock

logger = logging.getLogger(__name__)

_NEW = "persist.new-"
_PENDING = "persist.pending"
_LOCK, _LOCK_FILE = "persist", "persist.lock"
_MANIFEST = "persist.manifest.json"
"""File in a version with the SHA-256 of each of its files, and of the file that it replaces."""

_LOCK_TIMEOUT = 600.0
"""Seconds to wait for another process that writes to the folder."""


def replace_files(folder: Path, write: Callable[[Path], None]) -> None:
    """Replace files in a folder by those that `write` creates in another folder.

    Files that `write` does not create remain. The folder is created if it does not exist.

    Raises:
        StoreError: If the folder cannot be written; the old version remains.
        StoreLockedError: If another process writes to the folder for too long.
    """
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _sync_folder(folder.parent)
        with _lock(folder).acquire():
            _move_pending(folder)
            for abandoned in folder.glob(f"{_NEW}*"):  # nobody else writes under the lock
                shutil.rmtree(abandoned, ignore_errors=True)
            _write_version(folder, write)
            _move_files(folder)
    except OSError as error:
        raise StoreError(
            f"cannot persist to {folder} ({error}): free disk space, or choose a writable folder; "
            "the version that was there before can still be loaded"
        ) from error


def finish_replacement(folder: Path) -> None:
    """Complete a replacement that a crash interrupted after its version was complete.

    Raises:
        StoreError: If the folder cannot be written, or another process does not release it.
        CorruptStoreError: If the pending version is damaged.
    """
    pending = folder / _PENDING
    if not pending.is_dir():
        return
    completed = False  # by the process that holds the lock, which may already write the next one

    def is_completed() -> bool:
        nonlocal completed
        completed = completed or not pending.is_dir()
        return completed

    try:
        with _lock(folder).acquire(is_completed):
            _move_pending(folder)
    except (OSError, StoreError) as error:
        if is_completed():
            return
        if isinstance(error, CorruptStoreError):
            raise
        raise StoreError(
            f"an interrupted persist left a complete version in {pending}, which cannot be moved "
            f"to its place ({error}): make the folder writable, or load a writable copy of it"
        ) from error


def folder_state(folder: Path) -> tuple[object, ...]:
    """Return a value that changes when a process replaces or changes the folder's files."""
    stats = sorted((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    return (
        (folder / _PENDING).exists(),
        *((name, s.st_ino, s.st_size, s.st_mtime_ns) for name, s in stats if name != _LOCK_FILE),
    )


def _lock(folder: Path) -> IndexLock:
    return IndexLock(str(folder / _LOCK), _LOCK_TIMEOUT)


def _write_version(folder: Path, write: Callable[[Path], None]) -> None:
    """Write a complete version and make it the pending one."""
    version = folder / f"{_NEW}{uuid.uuid4().hex}"
    version.mkdir()
    with on_error(lambda _: shutil.rmtree(version, ignore_errors=True)):
        write(version)
        names = list(_file_names(version))
        checksums = {name: (_checksum(folder / name), _checksum(version / name)) for name in names}
        manifest = version / _MANIFEST
        manifest.write_text(json.dumps(checksums), encoding="utf-8")
        for path in (*(version / name for name in names), manifest):
            _sync_file(path)
        for path in (*(p for p in version.rglob("*") if p.is_dir()), version):
            _sync_folder(path)
        version.rename(folder / _PENDING)
    _sync_folder(folder)


def _move_pending(folder: Path) -> None:
    """Complete a replacement that a crash interrupted, unless the folder has been changed since."""
    pending = folder / _PENDING
    if not pending.is_dir():
        return
    if _is_current(folder, pending):
        _move_files(folder)
    else:
        logger.warning("%s is older than the files in %s: deleting it", pending, folder)
        shutil.rmtree(pending)


def _move_files(folder: Path) -> None:
    """Move the files of the pending version to their places, and remove its folder."""
    pending = folder / _PENDING
    changed = {folder}
    for name in _file_names(pending):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (pending / name).replace(target)
        changed.add(target.parent)
    for path in changed:
        _sync_folder(path)
    shutil.rmtree(pending)


def _is_current(folder: Path, pending: Path) -> bool:
    """Return whether nothing else has written to the folder since the pending version."""
    try:
        text = (pending / _MANIFEST).read_text(encoding="utf-8")
        checksums = {str(name): (old, new) for name, (old, new) in json.loads(text).items()}
    except FileNotFoundError:
        if next(_file_names(pending), None) is None:
            return True  # all files have been moved
        raise CorruptStoreError(
            f"{pending} has no {_MANIFEST}: delete it, or restore a backup of {folder}"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptStoreError(
            f"{pending / _MANIFEST} is damaged ({error}): delete {pending}, or restore a backup"
        ) from error
    for name, (old, new) in checksums.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise CorruptStoreError(f"{pending / _MANIFEST} names a file outside the folder")
        is_moved = not (pending / name).exists()
        if _checksum(folder / name) not in ((new,) if is_moved else (old, new)):
            return False
    return True


def _file_names(version: Path) -> Iterator[str]:
    """Yield the relative path of each file of a version."""
    for path in sorted(version.rglob("*")):
        name = path.relative_to(version).as_posix()
        if path.is_file() and name != _MANIFEST:
            yield name


def _checksum(path: Path) -> str | None:
    """Return the SHA-256 of a file, or None if there is no such file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    # Windows cannot open folders, and some network file systems cannot sync them.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
