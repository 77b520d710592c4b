"""Arrays in a folder: one `.npy` file each, and `meta.json` with their checksums and what is small.

A folder is written aside, then renamed: it is there whole or not at all. No pickle: arrays are
loaded with `allow_pickle=False`, large ones mapped into memory, the rest is JSON.
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

FORMAT = 5
"""Goes up when the files or what is derived in them change: older folders are made again."""

_META = "meta.json"
_MAPPED = 1 << 20
"""Bytes from which an array is mapped."""

_ASIDE = re.compile(r"new-[0-9a-f]{32}")
_DAY = 86_400.0

Arrays = dict[str, NDArray[Any]]


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write a folder, in the place of one that is there.

    Raises:
        OSError: If that cannot be; what was there is there still, or nothing.
    """
    aside = folder.parent / f"new-{uuid.uuid4().hex}"  # not mkdtemp: other users may read it
    aside.mkdir()
    try:
        for name, array in arrays.items():
            np.save(_file(aside, name), array, allow_pickle=False)
        sums = {name: _crc(_file(aside, name)) for name in arrays}
        text = json.dumps({"meta": dict(meta), "arrays": sums}, ensure_ascii=False)
        wrapped = {"format": FORMAT, "checksum": zlib.crc32(text.encode()), "text": text}
        (aside / _META).write_text(json.dumps(wrapped), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        aside.rename(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def load_arrays(folder: Path) -> tuple[Arrays, dict[str, Any]] | None:
    """Return the arrays and the rest; None if a file is missing, damaged or of another format."""
    try:
        wrapped = json.loads((folder / _META).read_text(encoding="utf-8"))
        text = wrapped["text"]
        if wrapped["format"] != FORMAT or wrapped["checksum"] != zlib.crc32(text.encode()):
            return None
        told = json.loads(text)
        if any(_crc(_file(folder, name)) != crc for name, crc in told["arrays"].items()):
            return None
        return {name: _array(_file(folder, name)) for name in told["arrays"]}, told["meta"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def remove_temporary_folders(folder: Path) -> None:
    """Remove what processes that died had written aside."""
    for other in folder.iterdir():
        with contextlib.suppress(OSError):
            if _ASIDE.fullmatch(other.name) and time.time() - other.stat().st_mtime > _DAY:
                shutil.rmtree(other, ignore_errors=True)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _array(path: Path) -> NDArray[Any]:
    if path.stat().st_size < _MAPPED:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
        return array
    # A plain view: slices of a memmap object cost more than those of an array.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray))


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc
