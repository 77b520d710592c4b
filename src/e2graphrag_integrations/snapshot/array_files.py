"""A folder of arrays: one `.npy` file per array, and `meta.json` for checksums and small values.

A folder is written under a temporary name and then renamed, so that the write is atomic. No file
contains a pickle: arrays are loaded with `allow_pickle=False`, and everything else is JSON. Large
arrays are memory-mapped.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
import uuid
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import check_array_size

FORMAT = 7
"""Version of the file format and the arrays. Folders with a different version are rebuilt."""

_META = "meta.json"

_MIN_MAPPED = 1 << 20
"""Minimum file size in bytes at which an array is memory-mapped instead of read into memory."""

_TEMPORARY = re.compile(r"new-[0-9a-f]{32}")
"""Names of temporary folders."""

_MAX_TEMPORARY_AGE = 86_400.0
"""Seconds after which a temporary folder is assumed to belong to a dead process."""

Arrays = dict[str, NDArray[Any]]


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write a folder of arrays, replacing any existing folder.

    Args:
        folder: The folder; its parent must exist.
        arrays: Arrays by name. Arrays of Python objects are not supported.
        meta: JSON values by name.

    Raises:
        OSError: If the folder cannot be written. An existing folder is then either left unchanged
            or deleted.
    """
    temporary = folder.parent / f"new-{uuid.uuid4().hex}"  # mkdtemp would deny other users access
    temporary.mkdir()
    try:
        for name, array in arrays.items():
            np.save(_file(temporary, name), array, allow_pickle=False)
        checksums = {name: _crc(_file(temporary, name)) for name in arrays}
        text = json.dumps({"meta": dict(meta), "arrays": checksums}, ensure_ascii=False)
        wrapped = {"format": FORMAT, "checksum": zlib.crc32(text.encode()), "text": text}
        (temporary / _META).write_text(json.dumps(wrapped), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # damaged, or in a different format
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def load_arrays(folder: Path) -> tuple[Arrays, dict[str, Any]] | None:
    """Return the arrays and the metadata in a folder.

    Returns:
        The arrays and the metadata, or None if a file is missing, damaged or in a different format.
    """
    try:
        wrapped = json.loads((folder / _META).read_text(encoding="utf-8"))
        text = wrapped["text"]
        if wrapped["format"] != FORMAT or wrapped["checksum"] != zlib.crc32(text.encode()):
            return None
        content = json.loads(text)
        if any(_crc(_file(folder, name)) != crc for name, crc in content["arrays"].items()):
            return None
        return {name: _load(_file(folder, name)) for name in content["arrays"]}, content["meta"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
        return None


def remove_temporary_folders(folder: Path) -> None:
    """Delete the temporary subfolders that dead processes left in a folder."""
    for other in folder.iterdir():
        with contextlib.suppress(OSError):
            if (
                _TEMPORARY.fullmatch(other.name)
                and time.time() - other.stat().st_mtime > _MAX_TEMPORARY_AGE
            ):
                shutil.rmtree(other, ignore_errors=True)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _load(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        check_array_size(file, path.stat().st_size)
    if path.stat().st_size < _MIN_MAPPED:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
        return array
    # Return a plain ndarray view, because slicing a memmap object is slower.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray))


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc
