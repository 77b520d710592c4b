"""Warnings about the languages of an index, each of which is logged once."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from e2graphrag_integrations._utils.display import printable

logger = logging.getLogger(__name__)


class LanguageNotices:
    """Logs warnings that a model does not fit a language, once per model and language.

    All components of one open index share it, so that a warning does not appear with each write.

    Args:
        where: Name of the index.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._logged: set[tuple[str, str]] = set()

    def unwarned(self, kind: str, languages: Iterable[str]) -> list[str]:
        """Return the languages about which no warning of a kind was logged."""
        return [one for one in languages if (kind, one) not in self._logged]

    def warn(self, kind: str, languages: Iterable[str], message: str) -> None:
        """Log a warning about an index, unless one of this kind was logged for the languages.

        Args:
            kind: What does not fit, such as "extractor" or "embedder".
            languages: Codes of the languages.
            message: What is wrong, and what to install or pass.
        """
        unwarned = self.unwarned(kind, languages)
        if unwarned:
            self._logged.update((kind, one) for one in unwarned)
            logger.warning("%s: %s", printable(self._where), printable(message))
