"""Other ways to write a name: surnames, initials, short titles, and misspellings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.fuzzy import FuzzyNames

_JOINERS = frozenset({"of", "the", "and", "for", "in", "on", "at", "de", "la", "von", "van", "&"})
_LONGEST_PERSON = 4
"""Words of the longest name whose last word is looked up as a surname."""

_NUMBER = re.compile(r"\d+|\b[ivxlcdm]+\b")


class Alias(NamedTuple):
    """An entity found under another name, and how sure that is, in (0, 1]."""

    entity: str
    how: Literal["alias", "similar"]
    score: float


@dataclass(frozen=True, eq=False)
class Aliases:
    """Finds entities by what they may be called besides their normal form.

    Attributes:
        names: Normal forms of all entities.
        named: Which of them are names.
        held: How many chunks hold each: of several that share an alias the commonest is meant.
    """

    names: Sequence[str]
    named: NDArray[np.bool_]
    held: IntArray

    def find(self, form: str) -> Alias | None:
        """Return the entity that a normal form, which is none itself, most likely stands for."""
        bearers = self._table.get(form.replace(".", ""), [])
        if bearers:
            total = sum(int(self.held[row]) for row in bearers)
            best = max(bearers, key=lambda row: (int(self.held[row]), -row))
            share = int(self.held[best]) / max(1, total)
            return Alias(self.names[best], "alias", _rounded(max(share, 1 / len(bearers))))
        return self._similar(form)

    @lazy
    def _table(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for row, (name, named) in enumerate(zip(self.names, self.named.tolist(), strict=True)):
            if named:
                for alias in _aliases_of(name):
                    bearers = table.setdefault(alias, [])
                    if not bearers or bearers[-1] != row:
                        bearers.append(row)
        return table

    @lazy
    def _spellings(self) -> FuzzyNames:
        named = zip(self.names, self.named.tolist(), strict=True)
        return FuzzyNames([name for name, is_name in named if is_name])

    def _similar(self, form: str) -> Alias | None:
        for name, similarity in self._spellings.like(form):
            if _numbers(name) == _numbers(form):
                return Alias(name, "similar", _rounded(similarity))
        return None


def _rounded(score: float) -> float:
    return max(0.0001, round(score, 4))  # a link of no weight would be none


def _numbers(form: str) -> list[str]:
    """Return the numbers in a name, Roman ones too: "Henry VII" is no misspelling of another."""
    return sorted(_NUMBER.findall(form))


def _aliases_of(name: str) -> Iterator[str]:
    """Yield what else a name is called: its last word, its initials, what is before its colon."""
    if ":" in name and (head := name.partition(":")[0].strip()):
        yield head
    words = name.replace(".", "").split(" ")
    if len(words) == 1:
        return
    if len(words) <= _LONGEST_PERSON and words[-1].isalpha() and words[-1] not in _JOINERS:
        yield words[-1]
    heavy = [word[0] for word in words if word[:1].isalpha() and word not in _JOINERS]
    if len(heavy) > 1:
        yield "".join(heavy)
