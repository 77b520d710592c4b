"""An extractor that remembers what it found in each question."""

from __future__ import annotations

from collections.abc import Sequence

from e2graphrag_integrations.protocols import EntityExtractor
from e2graphrag_integrations.types import Sentences

_LONGEST = 2_000
"""Maximum length of a remembered text, in characters; longer ones are not questions."""


class CachedExtractor:
    """Wraps an extractor so that it reads a question once, however many systems ask it.

    Args:
        inner: The wrapped extractor.
    """

    def __init__(self, inner: EntityExtractor) -> None:
        self._inner = inner
        self._found: dict[str, Sentences] = {}
        self.fingerprint: str = inner.fingerprint  # type: ignore[attr-defined] # the bundled one has it

    def extract(self, texts: Sequence[str]) -> list[Sentences]:
        if len(texts) != 1 or len(texts[0]) > _LONGEST:
            return list(self._inner.extract(texts))
        [text] = texts
        if text not in self._found:
            [self._found[text]] = self._inner.extract(texts)
        return [self._found[text]]
