"""Document titles as entities: the subject of each document, and the documents about a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.graph.entity_graph import EntityGraph

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


@dataclass(frozen=True, eq=False)
class TitledEntities:
    """The entities of an index, including those that occur only as a document's title.

    Attributes:
        names: Normal forms: first the graph's, in its order, then those that only titles contain.
        title_of_document: The row in `names` of each document's title, or -1 if it has none.
    """

    names: Sequence[str]
    title_of_document: IntArray

    @classmethod
    def from_titles(cls, graph: EntityGraph, titles: Sequence[str | None]) -> Self:
        """Combine the graph's entities with the titles, given one title per document."""
        forms = [title_form(title) for title in titles]
        new = dict.fromkeys(form for form in forms if form and form not in graph.index)
        rows = {form: len(graph.names) + number for number, form in enumerate(new)}
        title_of_document = [
            graph.index.get(form, rows.get(form, -1)) if form else -1 for form in forms
        ]
        return cls([*graph.names, *new], np.asarray(title_of_document, dtype=np.int64))

    @lazy
    def index(self) -> dict[str, int]:
        """The row of each normal form."""
        return {name: row for row, name in enumerate(self.names)}

    @lazy
    def is_title(self) -> NDArray[np.bool_]:
        """Whether each entity is the title of a document, shape (entities,)."""
        mask = np.zeros(len(self.names), dtype=np.bool_)
        mask[self.title_of_document[self.title_of_document >= 0]] = True
        return mask

    @lazy
    def documents(self) -> dict[int, list[int]]:
        """For each entity that is a title, the documents with that title, ascending."""
        documents: dict[int, list[int]] = {}
        for document, entity in enumerate(self.title_of_document.tolist()):
            if entity >= 0:
                documents.setdefault(entity, []).append(document)
        return documents
