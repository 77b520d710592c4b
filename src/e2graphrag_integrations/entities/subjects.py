"""Candidates for the subject of a text: its headings, and the names that its start defines.

An encyclopedic text begins with its subject, often with several names: "Neymar da Silva Santos
Júnior, known as Neymar, is ...". The rules below collect these names from the clause before the
first form of "to be". They are written for English and find nothing in most other texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from e2graphrag_integrations.text.headings import (
    first_line_heading,
    front_matter,
    markdown_headings,
)
from e2graphrag_integrations.text.letters import has_han
from e2graphrag_integrations.types import (
    DEFINITION,
    HEADING,
    SECTION_LABELS,
    SUBJECT_LABELS,
    Mention,
    Sentences,
)

_COPULA = re.compile(r"\b(?:is|was|are|were)\b")
_ARTICLE = re.compile(r"(?:The|A|An)\s+(?=\S)")
_PAUSE = re.compile(r"[,;]")
_QUOTES = '"“”„«»'
_QUOTED = re.compile(rf"\s*[{_QUOTES}]([^{_QUOTES}]+)[{_QUOTES}]\s*")
_UPPER = "A-ZÀ-ÖØ-Þ"
_WORD = rf"[{_UPPER}][^\s,;:(){_QUOTES}]*"
_NAME = re.compile(rf"{_WORD}(?:\s+(?:(?:of|the|de|da|von|van|and|&)\s+)?{_WORD})*")
_ALSO = re.compile(
    r"\b(?:known(?: \w+){0,2} (?:as|by (?:her|his|their|the) (?:\w+ ){0,2}name)"
    r"|(?:referred to|abbreviated|stylized|styled|credited|billed)(?: simply)? as"
    r"|nicknamed|called|born|n[ée]e|formerly)\s+"
)
_ACRONYM = re.compile(rf"\(\s*([{_UPPER}][{_UPPER}0-9&.\-]{{1,9}})\s*[,;)]")
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Jr|Sr|St|Dr|Mr|Mrs|Inc|Co|Ltd|No|vs)\.")
_SENTENCE_END = re.compile(r"[.!?]\s+[A-Z]")

_REACH = 600
"""Number of characters that are searched for a definition."""

_MAX_WORDS = 14
"""Maximum number of words before the verb, without parentheses. More words are not only a name."""

_SHORT_NAME, _LONG_NAME = 3, 4
"""A name of 3 or more words also gives its first and last word; one of 3 or 4, its first two."""


def defined_names(text: str) -> list[str]:
    """Return the names of the subject that the first sentence of a text defines, main name first.

    The names are the phrase before the verb, the same without a nickname or with only the nickname
    and the last name, the first and last word of a long name, acronyms in parentheses, and names
    after phrases such as "known as" and "born".

    >>> defined_names('Randolph "Randy" Smith (born 1948) was a basketball player.')
    ['Randolph Smith', 'Randy Smith', 'Randolph Randy Smith']
    >>> defined_names("He was late.")
    []
    """
    clause = _clause(" ".join(text[:_REACH].split()))
    if clause is None:
        return []
    full, plain, inner = clause
    article = _ARTICLE.match(plain)
    body = plain[article.end() :] if article else plain
    phrase = _PAUSE.split(body, maxsplit=1)[0].strip()
    names: dict[str, None] = {}
    for part in phrase.split(" or "):
        names.update(dict.fromkeys(_variants(part)))
    parts = body.split(",")
    if len(parts) == 2 and parts[1].strip()[:1].isupper():  # noqa: PLR2004 - "Stamford, Connecticut"
        names[body] = None
    for source in [plain[len(plain) - len(body) + len(phrase) :], *inner]:
        for also in _ALSO.finditer(source):
            name = _NAME.match(source, also.end())
            if name is not None:
                names[name.group()] = None
    names.update(dict.fromkeys(_ACRONYM.findall(full)))
    cleaned = dict.fromkeys(name.strip(f" {_QUOTES}'’.,;") for name in names)
    return [name for name in cleaned if len(name) > 1]


def _clause(text: str) -> tuple[str, str, list[str]] | None:
    """Return the clause before the verb: in full, without parentheses, and the parentheses."""
    for verb in _COPULA.finditer(text):
        full = text[: verb.start()]
        plain, inner, is_open = _split_parentheses(full)
        if not is_open:
            break
    else:
        return None
    plain = " ".join(plain.split()).rstrip(", ")
    begins = plain[:1].isupper() or plain[:1].isdigit() or plain[:1] in _QUOTES
    too_long = len(plain.split()) > _MAX_WORDS
    if not plain or not begins or too_long or _SENTENCE_END.search(_ABBREVIATION.sub("", plain)):
        return None
    if plain.casefold() in _PRONOUNS:
        return None
    return full, plain, inner


_PRONOUNS = frozenset("he she it they we you i this that these those there here".split())


def _split_parentheses(text: str) -> tuple[str, list[str], bool]:
    """Return the text outside parentheses, each text inside, and whether one is still open."""
    outside: list[str] = []
    inside: list[str] = []
    depth = start = 0
    for place, character in enumerate(text):
        if character in "([":
            if not depth:
                outside.append(text[start:place])
                start = place + 1
            depth += 1
        elif character in ")]":
            depth = max(0, depth - 1)
            if not depth:  # an unmatched parenthesis is dropped
                was_open = start > 0 and text[start - 1] in "(["
                (inside if was_open else outside).append(text[start:place])
                start = place + 1
    if not depth:
        outside.append(text[start:])
    return "".join(outside), inside, bool(depth)


def _variants(part: str) -> list[str]:
    """Return the forms of one name: without a nickname, with it, and shortened."""
    nicknames = _QUOTED.findall(part)
    bare = _QUOTED.sub(" ", part).strip()
    variants = []
    if nicknames and bare:
        last = bare.split()[-1]
        variants = [bare, *(f"{nickname} {last}" for nickname in nicknames)]
    variants.append(" ".join(re.sub(f"[{_QUOTES}]", " ", part).split()))
    words = bare.split()
    if len(words) >= _SHORT_NAME and all(word[0].isupper() for word in words):
        variants.append(f"{words[0]} {words[-1]}")
        if len(words) <= _LONG_NAME:
            variants.append(f"{words[0]} {words[1]}")
    return variants


SUBJECT_RULES = "subjects:2"
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
    content = text[len(front_matter(text)) :]
    start = len(text) - len(content.lstrip())
    heading = first_line_heading(content)
    if heading is not None:
        name = heading.lstrip("# ") or heading  # Markdown
        candidates.append(Mention(name, start, start + len(heading), HEADING))
        start += len(heading)
    sections = list(markdown_headings(text))
    for own in sections:
        if not text[start : own.start].strip():  # the sentence comes after all headings
            start = max(start, own.end)
    body = text[start:]
    names = defined_names(body)
    if not names and has_han(body):
        from e2graphrag_integrations.entities.chinese.definitions import chinese_defined_names

        names = chinese_defined_names(body)
    candidates += [Mention(name, start, start, DEFINITION) for name in names]
    candidates += [
        Mention(own.name, own.start, own.end, SECTION_LABELS[own.level - 1]) for own in sections
    ]
    return candidates
