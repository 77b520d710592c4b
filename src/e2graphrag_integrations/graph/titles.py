"""Titles as entities: what a document is about, and the document that a name stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.graph.entity_graph import EntityGraph

_ADDITION = re.compile(r"[(（][^()（）]*[)）]$")


def title_form(title: str | None) -> str:
    """Return the normal form of a title, without what parentheses at its end add.

    >>> title_form("Dune (novel)")
    'dune'
    """
    if not title:
        return ""
    plain = " ".join(title.split())
    shorter = _ADDITION.sub("", plain).rstrip()
    while shorter != plain and shorter:
        plain, shorter = shorter, _ADDITION.sub("", shorter).rstrip()
    return normal_form(plain) or normal_form(title)


def with_title(title: str | None, text: str) -> str:
    """Return a text as it is searched: its document's title before it."""
    title = (title or "").strip()
    return f"{title}. {text}" if title else text


@dataclass(frozen=True, eq=False)
class TitledEntities:
    """The entities of an index, those that only titles name among them.

    Attributes:
        names: Normal forms: the graph's in its order, then those that only titles name.
        of_document: Row in `names` of each document's title, -1 without one.
    """

    names: Sequence[str]
    of_document: IntArray

    @classmethod
    def of(cls, graph: EntityGraph, titles: Sequence[str | None]) -> TitledEntities:
        """Return the subjects of documents that have these titles."""
        forms = [title_form(title) for title in titles]
        new = dict.fromkeys(form for form in forms if form and form not in graph.index)
        rows = {form: len(graph.names) + number for number, form in enumerate(new)}
        of_document = [graph.index.get(form, rows.get(form, -1)) if form else -1 for form in forms]
        return cls([*graph.names, *new], np.asarray(of_document, dtype=np.int64))

    @lazy
    def index(self) -> dict[str, int]:
        """Return the row of each normal form."""
        return {name: row for row, name in enumerate(self.names)}

    @lazy
    def is_title(self) -> NDArray[np.bool_]:
        """Return which of them are the title of a document."""
        mask = np.zeros(len(self.names), dtype=np.bool_)
        mask[self.of_document[self.of_document >= 0]] = True
        return mask

    @lazy
    def documents(self) -> dict[int, list[int]]:
        """Return for each entity that is a title the documents that bear it."""
        found: dict[int, list[int]] = {}
        for document, entity in enumerate(self.of_document.tolist()):
            if entity >= 0:
                found.setdefault(entity, []).append(document)
        return found
