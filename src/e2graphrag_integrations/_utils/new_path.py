"""Creating a file or folder in one step: either all of it appears under its name, or nothing."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from e2graphrag_integrations._utils.files import rename_new, replace_file, sync_file
from e2graphrag_integrations.errors import InvalidInputError, StoreError

_SHOWN = 40
"""Number of characters of the name in the name of the temporary file."""


def check_new(target: Path) -> None:
    """Check that nothing has this name yet.

    Raises:
        InvalidInputError: If the file or folder exists.
    """
    if target.exists() or target.is_symlink():
        raise InvalidInputError(f"{target} already exists: choose a new name")


def move_to_new(temporary: Path, target: Path) -> None:
    """Rename a file or folder, unless the target exists.

    Raises:
        InvalidInputError: If the target exists.
        StoreError: If it cannot be renamed.
    """
    try:
        os.link(temporary, target)  # unlike `rename`, fails if the target now exists
    except FileExistsError as error:
        raise InvalidInputError(f"{target} already exists: choose a new name") from error
    except OSError:  # a folder, or a file system without hard links
        check_new(target)
        try:
            rename_new(temporary, target)
        except OSError as error:
            raise StoreError(f"{target} could not be written: {error}") from error


@contextmanager
def new_path(
    target: Path, *, replace: bool = False, check: Callable[[], object] = lambda: None
) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which becomes the target after the block.

    If the block or `check` raises, the temporary file or folder is removed.

    Args:
        target: The file or folder to create.
        replace: Whether to replace an existing file.
        check: Called directly before the temporary path becomes the target.

    Raises:
        InvalidInputError: If the target exists.
        StoreError: If the target cannot be written.
    """
    if not replace:
        check_new(target)
    # A part of the name, because a file system limits the length of names.
    temporary = target.with_name(f"{target.name[:_SHOWN]}.new-{uuid.uuid4().hex}")
    try:
        yield temporary
        for file in sorted(temporary.iterdir()) if temporary.is_dir() else [temporary]:
            sync_file(file)
        check()
        if replace:
            replace_file(temporary, target)
        else:
            move_to_new(temporary, target)
    except OSError as error:
        raise StoreError(
            f"{target} could not be written: {error}; nothing was left behind, so free space or "
            "choose another place, then try again"
        ) from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            with suppress(OSError):  # would hide the error of the block
                temporary.unlink(missing_ok=True)
