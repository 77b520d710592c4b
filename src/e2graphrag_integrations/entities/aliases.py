"""Alternative names of entities: surnames, initials, short titles and misspellings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.bounded_cache import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.string_array import StringArray
from e2graphrag_integrations._utils.string_index import index_strings
from e2graphrag_integrations.entities.alias_index import AliasIndex, aliases_of
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.fuzzy import FuzzyNames
from e2graphrag_integrations.entities.han import has_han
from e2graphrag_integrations.entities.name_codes import NameCodes
from e2graphrag_integrations.entities.normalize import without_marks
from e2graphrag_integrations.text.simplified import simplified

_CACHED_ALIASES = 1024
"""Number of aliases whose entities are cached."""

_FIRST_MARKED, _END_MARKED = 0xC0, 0x250
_FIRST_MORE_MARKED, _END_MORE_MARKED = 0x1E00, 0x1F00
"""The code points of Latin letters with marks."""

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
        how: Literal["alias", "similar"] = "alias"
        rows = self._rows_with_alias(other.replace(".", ""))
        if not len(rows):
            how, rows = "similar", self._rows_by_letters(other)
        if excluded:
            is_allowed = [self.names[row] not in excluded for row in rows.tolist()]
            rows = rows[np.asarray(is_allowed, dtype=np.bool_)]
        if len(rows):
            doc_freq = self.doc_freq[rows]
            best = int(np.argmax(doc_freq))  # of equally frequent ones, the first
            fraction = int(doc_freq[best]) / max(1, int(doc_freq.sum()))
            name = self.names[int(rows[best])]
            return Alias(name, how, _rounded(max(fraction, 1 / len(rows))))
        return self._similar(form, excluded)

    @lazy
    def _rows(self) -> Mapping[str, int]:
        return index_strings(self.names)

    @cached_method(_CACHED_ALIASES)
    def _rows_with_alias(self, alias: str) -> IntArray:
        """Return the rows of the entities with an alias, ascending."""
        names, candidates = self._codes.names, self._index.candidates(alias).tolist()
        having = [number for number in candidates if alias in aliases_of(names[number])]
        return np.unique(self._code_rows[having])

    def _rows_by_letters(self, form: str) -> IntArray:
        """Return the rows of the named entities that differ from a form by marks only."""
        letters = without_marks(form)
        rows = [row for row in self._marked.get(letters, ()) if self.names[row] != form]
        row = self._rows.get(letters, -1) if letters != form else -1
        if row >= 0 and self.named[row]:
            rows.append(row)
        return np.unique(np.asarray(rows, dtype=np.int64))

    @lazy
    def _marked(self) -> Mapping[str, Sequence[int]]:
        """The rows of the named entities with marks on Latin letters, by form without marks."""
        codes = self._codes.codes
        is_marked = ((codes >= _FIRST_MARKED) & (codes < _END_MARKED)) | (
            (codes >= _FIRST_MORE_MARKED) & (codes < _END_MORE_MARKED)
        )
        found: dict[str, list[int]] = {}
        for number in np.unique(self._codes.owners(np.flatnonzero(is_marked))).tolist():
            name, row = self._codes.names[number], int(self._code_rows[number])
            for form in (name, *aliases_of(name)):
                found.setdefault(without_marks(form), []).append(row)
        return found

    @lazy
    def _merged(self) -> dict[str, int]:
        """The row of the entity that each of the user's aliases means."""
        if not self.edits:
            return {}
        targets = {form: self.edits.resolve(form) for form in self.edits.alias_forms}
        return {form: self._rows[name] for form, name in targets.items() if name in self._rows}

    @lazy
    def _code_rows(self) -> IntArray:
        """The rows of all named entities, then of those that the user's aliases mean."""
        merged = np.fromiter(self._merged.values(), dtype=np.int64, count=len(self._merged))
        return np.concatenate([np.flatnonzero(self.named), merged])

    @lazy
    def _codes(self) -> NameCodes:
        """The code points of all named entities, then of the user's aliases."""
        if isinstance(self.names, StringArray):
            named = self.names.compress(self.named)
            return NameCodes.of(StringArray.joined([named, StringArray.of([*self._merged])]))
        return NameCodes.of([*compress(self.names, self.named.tolist()), *self._merged])

    @lazy
    def _index(self) -> AliasIndex:
        return AliasIndex(self._codes)

    @lazy
    def _fuzzy_names(self) -> FuzzyNames:
        return FuzzyNames(self._codes)

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
