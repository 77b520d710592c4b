"""Alternative names of entities: surnames, initials, short titles and misspellings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.chinese_names import chinese_aliases
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.fuzzy import FuzzyNames
from e2graphrag_integrations.entities.han import has_han
from e2graphrag_integrations.text.simplified import simplified

_JOINERS = frozenset({"of", "the", "and", "for", "in", "on", "at", "de", "la", "von", "van", "&"})
_MAX_PERSON_WORDS = 4
"""Maximum number of words in a name whose last word is treated as a surname, which is an alias."""

_NUMBER = re.compile(r"\d+|\b[ivxlcdm]+\b")


class Alias(NamedTuple):
    """An entity found by a name other than its normal form, with a confidence in (0, 1]."""

    entity: str
    how: Literal["alias", "similar"]
    score: float


@dataclass(frozen=True, eq=False)
class Aliases:
    """Finds entities by names other than their normal form.

    Attributes:
        names: Normal forms of all entities.
        named: Mask that is True for named entities and False for common nouns.
        doc_freq: Number of chunks that mention each entity. Among entities that share an alias, the
            most frequent one is chosen.
        edits: The user's edits. An alternative name of an alias is one of its entity.
    """

    names: Sequence[str]
    named: NDArray[np.bool_]
    doc_freq: IntArray
    edits: EntityEdits = NO_EDITS

    def find(self, form: str, excluded: AbstractSet[str] = frozenset()) -> Alias | None:
        """Return the most likely entity for a normal form that is not itself an entity.

        Args:
            form: The normal form.
            excluded: Entities that it does not name.
        """
        other = simplified(form)
        if other != form and other in self._rows and other not in excluded:
            return Alias(other, "alias", 1.0)
        rows = self._table.get(other.replace(".", ""), [])
        if excluded:
            rows = [row for row in rows if self.names[row] not in excluded]
        if rows:
            total = sum(int(self.doc_freq[row]) for row in rows)
            best = max(rows, key=lambda row: (int(self.doc_freq[row]), -row))
            fraction = int(self.doc_freq[best]) / max(1, total)
            return Alias(self.names[best], "alias", _rounded(max(fraction, 1 / len(rows))))
        return self._similar(form, excluded)

    @lazy
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    @lazy
    def _table(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for row, (name, named) in enumerate(zip(self.names, self.named.tolist(), strict=True)):
            if named:
                for alias in _aliases_of(name):
                    rows = table.setdefault(alias, [])
                    if not rows or rows[-1] != row:
                        rows.append(row)
        for name, row in self._merged.items():
            for alias in _aliases_of(name):
                rows = table.setdefault(alias, [])
                if row not in rows:
                    rows.append(row)
        return table

    @lazy
    def _merged(self) -> dict[str, int]:
        """The row of the entity that each of the user's aliases means."""
        if not self.edits:
            return {}
        targets = {form: self.edits.resolve(form) for form in self.edits.alias_forms}
        return {form: self._rows[name] for form, name in targets.items() if name in self._rows}

    @lazy
    def _fuzzy_names(self) -> FuzzyNames:
        named = zip(self.names, self.named.tolist(), strict=True)
        return FuzzyNames([*(name for name, is_name in named if is_name), *self._merged])

    def _similar(self, form: str, excluded: AbstractSet[str]) -> Alias | None:
        if has_han(form):  # a character is a syllable with a meaning, and rarely a misspelling
            return None
        for name, similarity in self._fuzzy_names.most_similar(form):
            entity = self.names[self._merged[name]] if name in self._merged else name
            if _numbers(name) == _numbers(form) and entity not in excluded:
                return Alias(entity, "similar", _rounded(similarity))
        return None


def _rounded(score: float) -> float:
    return max(0.0001, round(score, 4))  # a link needs a positive score


def _numbers(form: str) -> list[str]:
    """Return the Arabic and Roman numerals in a name, which must match in similar names.

    "Henry VII" must not match "Henry VIII".
    """
    return sorted(_NUMBER.findall(form))


def _is_alphabetic(word: str) -> bool:
    """Return whether a word consists of letters and their combining marks."""
    is_letter = (c.isalpha() or unicodedata.category(c).startswith("M") for c in word)
    return word[:1].isalpha() and all(is_letter)


def _aliases_of(name: str) -> Iterator[str]:
    """Yield the aliases of a name: its last word, its initials, and the part before a colon."""
    if ":" in name and (head := name.partition(":")[0].strip()):
        yield head
    yield from chinese_aliases(name)
    words = name.replace(".", "").split(" ")
    if len(words) == 1:
        return
    if len(words) <= _MAX_PERSON_WORDS and _is_alphabetic(words[-1]) and words[-1] not in _JOINERS:
        yield words[-1]
    # Scripts without capitals have no initials.
    initials = [word[0] for word in words if word[:1].upper() != word[:1] and word not in _JOINERS]
    if len(initials) > 1:
        yield "".join(initials)
