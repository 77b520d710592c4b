"""The type checker knows which functions of Python Windows and macOS lack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POSIX_ONLY = """
import fcntl
import os
import signal

fcntl.flock(0, fcntl.LOCK_EX)
os.register_at_fork(before=print)
os.kill(os.fork(), signal.SIGKILL)
"""


def errors(system: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--platform", system, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_the_package_uses_no_function_that_a_system_lacks(system, tmp_path):
    assert errors(system, "--cache-dir", tmp_path) == ""


@pytest.mark.slow
def test_functions_that_a_system_lacks_are_found(tmp_path):
    file = tmp_path / "posix_only.py"
    file.write_text(POSIX_ONLY, encoding="utf-8")
    found = errors("win32", "--cache-dir", tmp_path, file)
    for name in ("flock", "register_at_fork", "fork", "SIGKILL"):
        assert f'has no attribute "{name}"' in found
