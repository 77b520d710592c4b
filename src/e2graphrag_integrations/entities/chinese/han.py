"""Traditional and simplified Chinese characters."""

from __future__ import annotations

import re
from typing import Any

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.text.letters import has_han

INSTALL = "pip install 'e2graphrag-integrations[zh]'"
"""The command that installs what Chinese texts need."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Simplifier:
    """Converts traditional to simplified characters with OpenCC.

    A name that is written in both ways becomes one entity. The conversion considers phrases:
    乾隆 stays as it is, although 乾 alone becomes 干.
    """

    def __init__(self) -> None:
        self._lock = process_lock()

    def check_installed(self) -> None:
        """Raise an error if OpenCC is not installed.

        Raises:
            MissingDependencyError: If it is not.
        """
        with self._lock:
            _ = self._converter

    def simplify(self, name: str) -> str:
        """Return a name in simplified characters.

        Raises:
            MissingDependencyError: If OpenCC is not installed.
        """
        if not has_han(name):
            return name
        with self._lock:
            return str(self._converter.convert(_LONE_SURROGATE.sub("\ufffd", name)))

    @lazy
    def _converter(self) -> Any:
        hint = f"Chinese texts need OpenCC: run `{INSTALL}`"
        with wrap_errors(MissingDependencyError, "OpenCC is not installed", hint):
            from opencc import OpenCC
        return OpenCC("t2s")
