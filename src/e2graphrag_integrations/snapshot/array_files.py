"""A folder of arrays: one `.npy` file per array, and `meta.json` for checksums and small values.

A folder is written under a temporary name and then renamed, so that the write is atomic. It is
never changed: a new version replaces it, or gets the next number if the folder is in use, as in
`words.1`. No file contains a pickle: arrays are loaded with `allow_pickle=False`, and everything
else is JSON. Large arrays are memory-mapped.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import check_array_size
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.files import OUTDATED, discard_folder, rename_new

FORMAT = 11
"""Version of the file format and the arrays. Folders with a different version are rebuilt."""

_META = "meta.json"

_MIN_MAPPED = 1 << 20
"""Minimum file size in bytes at which an array is memory-mapped instead of read into memory."""

_BLOCK_ROWS = 1 << 14
"""Number of rows in memory while rows that are not adjacent are written."""

_BLOCK = 1 << 20
"""Number of bytes read at a time."""

_COLUMNS = 512
"""Number of 8-byte numbers in a row of a block: a page of memory."""

_LARGE, _LARGE_STEP = 1 << 28, 1 << 24
"""Of a file with more than 256 MiB, such as the vectors of a million windows, only one block of
every 16 MiB is checked: reading 2.8 GB whenever such an index is opened would take longer than the
first question. `verify()` compares all of it with the store."""

_TEMPORARY = re.compile(r"new-[0-9a-f]{32}")
"""Names of temporary folders."""

_OUTDATED = re.compile(rf"{OUTDATED}[0-9a-f]{{32}}")
"""Names of folders that could not be deleted completely."""

_MAX_TEMPORARY_AGE = 86_400.0
"""Seconds after which a temporary folder is assumed to belong to a dead process."""

Arrays = dict[str, NDArray[Any]]


class ArrayRows(Protocol):
    """Rows that are not adjacent in memory, and are written to a file in blocks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows and the shape of a row."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Return some of the rows."""


ArraysToSave = Mapping[str, NDArray[Any] | ArrayRows]
"""Arrays by name. Arrays of Python objects are not supported."""

Part = tuple[ArraysToSave, Mapping[str, Any]]
"""The arrays and the JSON values in a folder."""


def save_arrays(
    folder: Path,
    arrays: ArraysToSave,
    meta: Mapping[str, Any],
    parts: Mapping[str, Part] = MappingProxyType({}),
    *,
    with_checksums: bool = True,
) -> None:
    """Write a folder of arrays, replacing any existing folder, or as the next version of it.

    Args:
        folder: The folder; its parent must exist.
        arrays: The arrays.
        meta: JSON values by name.
        parts: The contents of subfolders by name.
        with_checksums: Whether to store the checksums, which `load_arrays` compares.

    Raises:
        OSError: If the folder cannot be written. An existing folder is then either left unchanged
            or deleted.
    """
    temporary = unused_name(folder.parent)
    temporary.mkdir()
    with on_error(lambda _: shutil.rmtree(temporary, ignore_errors=True)):
        for name, array in arrays.items():
            _save(array_file(temporary, name), array)
        for name, part in parts.items():
            save_arrays(temporary / name, *part, with_checksums=with_checksums)
        checksums = {
            name: _checksum(array_file(temporary, name)) if with_checksums else None
            for name in arrays
        }
        text = json.dumps({"meta": dict(meta), "arrays": checksums}, ensure_ascii=False)
        wrapped = {"format": FORMAT, "checksum": zlib.crc32(text.encode()), "text": text}
        (temporary / _META).write_text(json.dumps(wrapped), encoding="utf-8")
    publish(temporary, folder)


def unused_name(parent: Path) -> Path:
    """Return a new name for a folder, which is deleted after a day."""
    return parent / f"new-{uuid.uuid4().hex}"  # mkdtemp would deny other users access


def publish(new: Path, folder: Path) -> None:
    """Give a folder that was written completely its name.

    Args:
        new: The folder.
        folder: The name. An existing folder is deleted; if it is in use, the new one becomes the
            next version of it.

    Raises:
        OSError: If the folder cannot be renamed. It is deleted then.
    """
    with on_error(lambda _: shutil.rmtree(new, ignore_errors=True)):
        # An existing folder is damaged, in a different format, or contains one segment of several.
        in_use = [number for number, one in _versions(folder).items() if not discard_folder(one)]
        number = max(in_use) + 1 if in_use else 0
        rename_new(new, folder.with_name(f"{folder.name}.{number}") if number else folder)


def newest_version(folder: Path) -> Path:
    """Return the folder that was written last under this name, or the name if there is none."""
    versions = _versions(folder)
    return versions[max(versions)] if versions else folder


def _versions(folder: Path) -> Mapping[int, Path]:
    """Return the folders of this name by number; that without a number has 0."""
    try:
        names = [one.name for one in folder.parent.iterdir() if one.name.startswith(folder.name)]
    except OSError:
        return {}
    pattern = re.compile(rf"{re.escape(folder.name)}(?:\.([1-9]\d*))?")
    found = [match for match in map(pattern.fullmatch, names) if match is not None]
    return {int(match[1] or 0): folder.with_name(match[0]) for match in found}


def load_arrays(
    folder: Path, pause: Callable[[], None] = lambda: None
) -> tuple[Arrays, dict[str, Any]] | None:
    """Return the arrays and the metadata in the newest version of a folder.

    Args:
        folder: The folder.
        pause: Called after each array, so that other threads can run.

    Returns:
        The arrays and the metadata, or None if a file is missing, damaged or in a different format.
    """
    return _read(newest_version(folder), _matches, pause)


def read_arrays(
    folder: Path, pause: Callable[[], None] = lambda: None
) -> tuple[Arrays, dict[str, Any]] | None:
    """Return the result of `load_arrays` for files that a process of our own has just written.

    They need no checksums: to compare these would read all of them.

    Args:
        folder: The folder.
        pause: Called after each array.
    """
    return _read(folder, lambda *_: True, pause)


def read_meta(folder: Path) -> dict[str, Any] | None:
    """Return the metadata in the newest version of a folder; None if it is missing or damaged."""
    content = _content(newest_version(folder))
    return None if content is None else content["meta"]


def _content(folder: Path) -> dict[str, Any] | None:
    """Return the JSON values of a folder: `meta`, and the checksums of `arrays`."""
    try:
        wrapped = json.loads((folder / _META).read_text(encoding="utf-8"))
        text = wrapped["text"]
        if wrapped["format"] != FORMAT or wrapped["checksum"] != zlib.crc32(text.encode()):
            return None
        content: dict[str, Any] = json.loads(text)
        return content if {"meta", "arrays"} <= content.keys() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
        return None


def _matches(path: Path, checksum: int) -> bool:
    return _checksum(path) == checksum


def _read(
    folder: Path, is_valid: Callable[[Path, int], bool], pause: Callable[[], None]
) -> tuple[Arrays, dict[str, Any]] | None:
    content = _content(folder)
    if content is None:
        return None
    try:
        arrays = {}
        for name, checksum in content["arrays"].items():
            file = array_file(folder, name)
            if not is_valid(file, checksum):
                return None
            arrays[name] = _load(file)
            pause()
        return arrays, content["meta"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
        return None
    except SystemError:
        # Until Python 3.11.7 and 3.12.1, two threads that parse a header at the same time can raise
        # "AST constructor recursion depth mismatch".
        return None


def remove_temporary_folders(folder: Path) -> None:
    """Delete the temporary subfolders of dead processes, and outdated ones that were in use."""
    for other in folder.iterdir():
        with contextlib.suppress(OSError):
            is_dead = (
                _TEMPORARY.fullmatch(other.name)
                and time.time() - other.stat().st_mtime > _MAX_TEMPORARY_AGE
            )
            if is_dead or _OUTDATED.fullmatch(other.name):
                shutil.rmtree(other, ignore_errors=True)


def array_file(folder: Path, name: str) -> Path:
    """Return the file of an array in a folder."""
    return folder / f"{name}.npy"


def _save(path: Path, array: NDArray[Any] | ArrayRows) -> None:
    if isinstance(array, np.ndarray):
        np.save(path, array, allow_pickle=False)
        return
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, array.shape[0], _BLOCK_ROWS):
            file.write(np.ascontiguousarray(array[start : start + _BLOCK_ROWS]).data)


def _load(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        check_array_size(file, path.stat().st_size)
    if path.stat().st_size < _MIN_MAPPED:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
        return array
    # Return a plain ndarray view, because slicing a memmap object is slower.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray))


def _checksum(path: Path) -> int:
    """Return the checksum of a file, or of a part of each `_LARGE_STEP` bytes of a large one."""
    size = path.stat().st_size
    step = _BLOCK if size <= _LARGE else _LARGE_STEP
    checksum = 0
    with path.open("rb") as file:
        for start in range(0, size, step):
            file.seek(start)
            checksum = zlib.crc32(_sums(file.read(_BLOCK)), checksum)
    return checksum


def _sums(block: bytes) -> bytes:
    """Return the sums of the rows and columns of a block, and the bytes after the last row.

    Any wrong number changes two sums, and so do two numbers that are exchanged. Adding takes a
    fifth of the time of a CRC, which would be a third of the first question to a large index.
    """
    end = len(block) - len(block) % (_COLUMNS * 8)
    numbers = np.frombuffer(block, np.uint64, end // 8).reshape(-1, _COLUMNS)
    return b"".join((numbers.sum(axis=0), numbers.sum(axis=1), block[end:]))
