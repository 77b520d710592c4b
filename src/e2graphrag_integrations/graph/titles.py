"""Normal forms of titles, and titles in front of texts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.text.headings import is_junk_title

_PARENTHESIS = re.compile(r"[()（）]")
_WORD = re.compile(r"\w+")
_PLAIN = re.compile("[\x00-\x7f‘’“”–—]*")
"""Texts whose words begin where those of their normal form do."""

_MAX_WORDS = 8
"""Maximum number of words of a title that is found in a text."""


def title_form(title: str | None) -> str:
    """Return the normal form of a title without trailing parentheses.

    >>> title_form("Dune (novel)")
    'dune'
    """
    if not title:
        return ""
    plain = _without_trailing_parentheses(" ".join(title.split()))
    return normal_form(plain) or normal_form(title)


def title_entity(title: str | None, edits: EntityEdits) -> str:
    """Return the entity that a title names; empty if it names none.

    Parentheses at the end are kept if an edit contains the title with them.

    >>> from e2graphrag_integrations.entities.edits import EntityEdit
    >>> edits = EntityEdits((EntityEdit("separate", ("Dune (novel)", "Dune (film)")),))
    >>> title_entity("Dune (novel)", edits), title_entity("Dune (game)", edits)
    ('dune (novel', 'dune')
    """
    form = title_form(title)
    if not edits or not title:
        return form
    full = edits.form(title)
    return edits.resolve(full if full in edits.named_forms else form)


@dataclass(frozen=True, eq=False)
class TextTitles:
    """The titles of documents that are longer than a passage, for finding one in a question.

    Attributes:
        forms: Their normal forms.
    """

    forms: frozenset[str]

    @lazy
    def first_words(self) -> frozenset[str]:
        """The first word of each."""
        return frozenset(one for form in self.forms for one in _WORD.findall(form)[:1])

    def find(self, text: str) -> tuple[int, int] | None:
        """Return the span of the longest title of at most 8 words in a text, or None.

        The first of equally long titles counts.
        """
        if not self.forms:
            return None
        words = [match.span() for match in _WORD.finditer(text)]
        # A normal form begins with a word of a plain text. Computing one for each of all parts
        # takes longer than ranking.
        is_plain = _PLAIN.fullmatch(text) is not None
        may_begin = [not is_plain or text[a:b].casefold() in self.first_words for a, b in words]
        for length in range(min(_MAX_WORDS, len(words)), 0, -1):
            for first in range(len(words) - length + 1):
                if any(may_begin[first : first + length]):
                    start, end = words[first][0], words[first + length - 1][1]
                    if normal_form(text[start:end]) in self.forms:
                        return start, end
        return None


class TitleForms:
    """The entities that titles name, each computed once.

    Args:
        edits: The user's entity edits.
    """

    def __init__(self, edits: EntityEdits) -> None:
        self._edits = edits
        self._entities: dict[str, str] = {}
        self._subjects: dict[str, bool] = {}

    def __len__(self) -> int:
        """Return the number of titles."""
        return len(self._entities)

    def entity(self, title: str) -> str:
        """Return the entity that a title names; see `title_entity`."""
        entity = self._entities.get(title)
        if entity is None:
            entity = self._entities[title] = title_entity(title, self._edits)
        return entity

    def resolve(self, entity: str) -> str:
        """Return the entity that another one means after the edits."""
        return self._edits.resolve(entity)

    def is_subject(self, title: str) -> bool:
        """Return whether a title may name the subject of its document."""
        is_subject = self._subjects.get(title)
        if is_subject is None:
            is_subject = bool(title_form(title)) and not is_junk_title(title)
            self._subjects[title] = is_subject
        return is_subject


def _without_trailing_parentheses(title: str) -> str:
    """Remove parentheses at the end, but not the entire title; single spaces separate the words."""
    positions = [match.start() for match in _PARENTHESIS.finditer(title)]
    end = len(title)
    while len(positions) > 1:
        closing, opening = positions.pop(), positions.pop()
        if closing != end - 1 or title[closing] not in ")）" or title[opening] not in "(（":
            break
        shorter = opening - 1 if title[opening - 1 : opening] == " " else opening
        if not shorter:
            break
        end = shorter
    return title[:end]


def with_title(title: str | None, text: str) -> str:
    """Return a text with its document's title prepended, as BM25 indexes it."""
    title = (title or "").strip()
    return f"{title}. {text}" if title else text
