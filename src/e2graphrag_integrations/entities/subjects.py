"""Candidates for the subject of a text: its headings, and the names that it defines."""

from __future__ import annotations

from collections.abc import Sequence

from e2graphrag_integrations.entities.chinese.definitions import chinese_defined_names
from e2graphrag_integrations.entities.definitions import defined_names
from e2graphrag_integrations.text.headings import first_line_heading, markdown_headings
from e2graphrag_integrations.types import (
    DEFINITION,
    HEADING,
    SECTION_LABELS,
    SUBJECT_LABELS,
    Mention,
    Sentences,
)

SUBJECT_RULES = "subjects:1"
"""Part of the extractor's fingerprint. Raise the number when the rules change."""


def with_subjects(text: str, sentences: Sequence[Sequence[Mention]]) -> list[list[Mention]]:
    """Return the sentences of a text, after a list of the candidates for its subject if any."""
    candidates = subject_candidates(text)
    return [*([candidates] if candidates else []), *(list(sentence) for sentence in sentences)]


def split_subjects(sentences: Sentences) -> tuple[list[Mention], Sentences]:
    """Return the candidates for the subject of a text, and its sentences without them."""
    if sentences and sentences[0] and sentences[0][0].label in SUBJECT_LABELS:
        return list(sentences[0]), sentences[1:]
    return [], sentences


def subject_candidates(text: str) -> list[Mention]:
    """Return the candidates for the subject of a text.

    These are the heading in the first line, the names that the first sentence defines, and the
    Markdown headings of its sections. The span of a defined name is the start of the sentence.
    """
    candidates = []
    start = len(text) - len(text.lstrip())
    heading = first_line_heading(text)
    if heading is not None:
        name = heading.lstrip("# ") or heading  # Markdown
        candidates.append(Mention(name, start, start + len(heading), HEADING))
        start += len(heading)
    sections = list(markdown_headings(text))
    for own in sections:
        if not text[start : own.start].strip():  # the sentence comes after all headings
            start = max(start, own.end)
    body = text[start:]
    names = defined_names(body) or chinese_defined_names(body)
    candidates += [Mention(name, start, start, DEFINITION) for name in names]
    candidates += [
        Mention(own.name, own.start, own.end, SECTION_LABELS[own.level - 1]) for own in sections
    ]
    return candidates
