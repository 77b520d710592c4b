"""The user's aliases in a question: as mentions, and translated to the names that they mean.

A glossary across languages needs this: `edit_entities(alias={"Liu Bei": "刘备"})` names an
entity of Chinese documents in English questions, which a Chinese extractor does not read. Neither
BM25 nor most embedders know that the two names are equal, so they search for the Chinese one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.normalize import fold_letters
from e2graphrag_integrations.languages.detection import main_script
from e2graphrag_integrations.text.letters import HANGUL_LETTERS, MARKS, UNSPACED, inner_offsets
from e2graphrag_integrations.text.words import has_unspaced
from e2graphrag_integrations.types import NOUN, Mention, Span

ALIAS = "ALIAS"
"""Label of the mentions that are found by the user's aliases alone."""

_MARK = re.compile(f"[{MARKS}]")
_LETTER = rf"[^\W{UNSPACED}]"
"""Regex class of the characters of words in scripts with spaces between words."""


def with_alias_mentions(
    question: str, mentions: Iterable[Mention], edits: EntityEdits
) -> tuple[Mention, ...]:
    """Return the mentions, and the aliases in the question that are not among them.

    Differences that normal forms do not have, such as case, full-width forms, the width of spaces
    and vowel marks, do not matter. A word of a script with spaces
    must occur as a complete word; an alias of a single character of another script is left to the
    extractor, because it is a part of many words. Of overlapping aliases, the longest counts. An
    alias within a longer name is not a name of its own, and an extracted name within an alias is
    part of that.

    >>> from e2graphrag_integrations.entities.edits import EntityEdit
    >>> edits = EntityEdits((EntityEdit("alias", ("Liu Bei", "刘备")),))
    >>> [one.entity for one in with_alias_mentions("Who was Liu  Bei?", (), edits)]
    ['Liu  Bei']
    """
    kept = list(mentions)
    if not edits.aliases:
        return tuple(kept)
    known = {edits.form(mention.entity) for mention in kept}
    names = [(one.start, one.end) for one in kept if one.label != NOUN]
    found: list[Mention] = []
    for alias, (start, end) in _occurrences(question, edits):
        is_inside = any(first <= start and end <= last for first, last in names)
        if not is_inside and edits.form(alias) not in known:
            found.append(Mention(question[start:end], start, end, ALIAS))
            known.add(edits.form(alias))
    kept = [
        one
        for one in kept
        if not any(alias.start <= one.start and one.end <= alias.end for alias in found)
    ]
    return (*kept, *sorted(found, key=lambda mention: mention.start))


def translated(question: str, edits: EntityEdits) -> str:
    """Return a question with each alias in another script replaced by the name that it means.

    >>> from e2graphrag_integrations.entities.edits import EntityEdit
    >>> edits = EntityEdits((EntityEdit("alias", ("Liu Bei", "刘备")),))
    >>> translated("Who was Liu Bei?", edits)
    'Who was 刘备?'
    """
    aliases = edits.aliases
    if not aliases:
        return question
    pieces: list[str] = []
    at = 0
    names = {edits.form(alias): name for alias, name in aliases.items()}
    for alias, (start, end) in sorted(_occurrences(question, edits), key=lambda one: one[1]):
        name = aliases[alias]
        while edits.form(name) in names:
            name = names[edits.form(name)]
        if main_script(name) != main_script(alias):
            pieces += [question[at:start], name]
            at = end
    return "".join([*pieces, question[at:]])


def _occurrences(question: str, edits: EntityEdits) -> list[tuple[str, Span]]:
    """Return the aliases in a question and their spans, without those inside of longer ones."""
    text, origins = _folded(question)
    found: list[tuple[str, Span]] = []
    for alias in sorted(edits.aliases, key=lambda name: (-len(name), name)):
        form = _folded_alias(alias)
        if not form or form not in text or (len(form) == 1 and has_unspaced(form)):
            continue
        for match in _whole(form).finditer(text):
            start, end = origins[match.start()].start, origins[match.end() - 1].end
            if edits.spelled_apart and edits.form(question[start:end]) != edits.form(alias):
                continue  # only capitals tell the alias from another word
            if not any(start < other.end and other.start < end for _, other in found):
                found.append((alias, Span(start, end)))
    return found


@lru_cache(maxsize=65_536)
def _folded_alias(alias: str) -> str:
    """Return an alias as `_folded` does; a glossary has thousands, which each question looks up."""
    return _folded(alias)[0]


def _folded(text: str) -> tuple[str, list[Span]]:
    """Return a folded text with single spaces, and the span from which each character comes."""
    folded: list[str] = []
    origins: list[Span] = []
    inner = set(inner_offsets(text))
    starts = [start for start in range(len(text)) if start not in inner]
    for start, end in pairwise([*starts, len(text)]):
        for one in fold_letters(text[start:end]):
            plain = " " if one.isspace() else one
            if plain != " " or not folded or folded[-1] != " ":
                folded.append(plain)
                origins.append(Span(start, end))
    return "".join(folded), origins


def _whole(form: str) -> re.Pattern[str]:
    """Return a pattern that finds a form, at the borders of words if the script has spaces.

    A vowel sign after the form belongs to its last letter, which is then another one. A Korean
    word may go on after the form, because particles follow it without a space.
    """
    letters = _MARK.sub("", form)
    before = rf"(?<!{_LETTER})" if re.match(_LETTER, letters[:1]) else ""
    is_hangul = re.match(f"[{HANGUL_LETTERS}]", letters[-1:])
    after = rf"(?!{_LETTER})" if re.match(_LETTER, letters[-1:]) and not is_hangul else ""
    return re.compile(f"{before}{re.escape(form)}{after}(?!{_MARK.pattern})")
