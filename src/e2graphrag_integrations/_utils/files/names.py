"""Names of files on systems that do not tell upper from lower case, or decompose letters.

macOS and Windows find `Notes.txt` under `notes.TXT`, and macOS may list `\u00e9` as `e` and U+0301.
"""

from __future__ import annotations

import os
import unicodedata


def composed(name: str) -> str:
    """Return a name with composed letters (NFC), as documents are named on every system."""
    return unicodedata.normalize("NFC", name)


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
