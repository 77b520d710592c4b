"""Extraction of the mentions in chunks: those of an extractor, and the candidates for the subject.

The fingerprint of an extractor in a manifest also names the rules for the subjects
(`subjects.py`). If either changes, the chunks must be extracted again (`indexing/reindex.py`).

The workers of an engine import this module, which needs no graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.spacy_extractor import extract_checked
from e2graphrag_integrations.entities.subjects import SUBJECT_RULES, split_subjects, with_subjects
from e2graphrag_integrations.protocols import EntityExtractor, object_fingerprint
from e2graphrag_integrations.text.broken_words import CleanText, clean
from e2graphrag_integrations.types import Mention, Sentences

EXTRACTOR_KEY = re.compile(r"extractor(?:_([a-z]{2,3}))?")
"""Matches the keys in a manifest for the fingerprints of extractors: that of English documents, or
of all of them, and those of documents in other languages."""

_SUFFIX = f"+{SUBJECT_RULES}"


@dataclass(frozen=True, eq=False)
class ChunkExtractor:
    """Extracts the mentions of chunks, and the candidates for their subjects.

    Attributes:
        extractor: Finds the entities.
    """

    extractor: EntityExtractor

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the extractor with the rules that are added to it."""
        return object_fingerprint(self.extractor) + _SUFFIX

    def extract(self, texts: Sequence[str], places: Sequence[str]) -> list[list[list[Mention]]]:
        """Return the mentions in each sentence of each text; `places` describe the texts.

        Raises:
            ExtractionError: If the extractor fails or returns an invalid result.
        """
        cleaned = [clean(text) for text in texts]
        found = extract_checked(self.extractor, [one.text for one in cleaned], places)
        return [
            _in_original(one, with_subjects(one.text, mentions))
            for one, mentions in zip(cleaned, found, strict=True)
        ]


def _in_original(cleaned: CleanText, sentences: list[list[Mention]]) -> list[list[Mention]]:
    """Return mentions in a text without noise with their spans in the original text."""
    if not cleaned.starts:
        return sentences
    return [
        [Mention(one.entity, *cleaned.original(one.start, one.end), one.label) for one in sentence]
        for sentence in sentences
    ]


def own_fingerprint(fingerprint: str) -> str:
    """Return the fingerprint of an extractor without the rules that are added to it."""
    return fingerprint.removesuffix(_SUFFIX)


def normalize_mentions(
    sentences: Sentences, cache: dict[str, str] | None = None, edits: EntityEdits = NO_EDITS
) -> list[list[tuple[str, str]]]:
    """Return `(normal form, label)` for each mention in a chunk, grouped by sentence.

    The label of a common noun is empty.

    Mentions with an empty normal form and candidates for the subject are omitted.

    Args:
        sentences: The mentions of each sentence.
        cache: Known normal forms by surface form. New normal forms are added to it.
        edits: Tell names apart that differ only in capitals. No other edit is applied.
    """
    forms = {} if cache is None else cache
    _, sentences = split_subjects(sentences)
    for sentence in sentences:
        for mention in sentence:
            if mention.entity not in forms:
                forms[mention.entity] = edits.form(mention.entity)
    return [
        [
            (forms[m.entity], (m.label or "NAME") if m.named else "")
            for m in sentence
            if forms[m.entity]
        ]
        for sentence in sentences
    ]
