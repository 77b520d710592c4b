"""Files that all processes of a test run share: the first one makes them, the others wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of the test run, which all its processes see."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return a folder that `make` fills once, in the first process that needs it."""
    folder.mkdir(exist_ok=True)
    done = folder.with_name(f"{folder.name}.done")
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not done.exists():
            make(folder)
            done.touch()
    return folder
