"""Normal forms of titles, and titles in front of texts."""

from __future__ import annotations

import re

from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.normalize import normal_form

_PARENTHESIS = re.compile(r"[()（）]")


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
