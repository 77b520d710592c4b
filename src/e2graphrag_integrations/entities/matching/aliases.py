"""Alternative names of entities: surnames, initials, short titles and misspellings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import reduce
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.strings import StringArray, index_strings
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.matching.alias_index import AliasIndex, aliases_of, parts_of
from e2graphrag_integrations.entities.matching.name_keys import (
    NameCodes,
    NameKeys,
    hash_of,
    key_letters,
)
from e2graphrag_integrations.entities.matching.similar_names import FuzzyNames, NameWords, typos
from e2graphrag_integrations.text.letters import has_han, simplified

_CACHED_ALIASES = 1024
"""Number of aliases whose entities are cached."""

_MAX_OTHERS = 5
"""Maximum number of entities that are named beside the one that is meant."""

_MIN_SINGULAR = 4
"""Minimum number of letters of a name without the ending of a plural."""

_NUMBER = re.compile(r"\d+|\b[ivxlcdm]+\b")


Forms = Callable[[str], Iterable[str]]
"""Returns forms of a name."""


class Alias(NamedTuple):
    """An entity found by a name other than its normal form.

    Attributes:
        entity: The normal form of the entity.
        how: `alias`, or `similar` for a spelling.
        score: Confidence in (0, 1].
        others: Other entities that have the name, most frequent first, at most five.
    """

    entity: str
    how: Literal["alias", "similar"]
    score: float
    others: tuple[str, ...] = ()


class Tie(NamedTuple):
    """Several entities that a name means equally well, so that it means none of them.

    Attributes:
        entities: The normal forms, most frequent first, at most five.
    """

    entities: tuple[str, ...]


class NameIndexes:
    """Computes what names are looked up in."""

    def by_letters(self, names: NameCodes) -> AliasIndex:
        """Return the names by the letters of their spellings, aliases, parts and words."""
        return AliasIndex(names)

    def words(self, names: NameCodes) -> NameWords:
        """Return the words of names."""
        return NameWords(names)


@dataclass(frozen=True, eq=False)
class Aliases:
    """Finds entities by names other than their normal form.

    Attributes:
        names: Normal forms of all entities.
        named: Mask that is True for named entities and False for common nouns.
        doc_freq: Number of chunks that mention each entity. Among entities that share an alias, the
            most frequent one is chosen.
        edits: The user's edits. An alternative name of an alias is one of its entity.
        indexes: Computes what names are looked up in.
    """

    names: Sequence[str]
    named: NDArray[np.bool_]
    doc_freq: IntArray
    edits: EntityEdits = NO_EDITS
    indexes: NameIndexes = field(default_factory=NameIndexes)

    def find(self, form: str, excluded: AbstractSet[str] = frozenset()) -> Alias | Tie | None:
        """Return the most likely entity for a normal form that is not itself an entity.

        Of the entities with the letters of the form, or with it as a surname or initials, the most
        frequent one is meant. A first name, or a surname with an initial, means an entity only if
        no other one has it. Then come plurals and misspellings. Several names that differ from the
        form by equally many typos are a tie.

        Args:
            form: The normal form.
            excluded: Entities that it does not name.
        """
        other = simplified(form)
        if other != form and other in self._rows and other not in excluded:
            return Alias(other, "alias", 1.0)
        letters = key_letters(other)
        for rule, spelled in self._rules(letters):
            names = ((row, self.names[row]) for row in rule(spelled).tolist())
            allowed = [row for row, name in names if name != form and name not in excluded]
            if allowed:
                rows = np.asarray(allowed, dtype=np.int64)
                return self._of(rows, other, letters, spelled, rule)
        return self._similar(form, excluded)

    def _rules(self, letters: str) -> Iterator[tuple[_Rule, str]]:
        for ending in plural_endings(letters):
            spelled = letters[: len(letters) - ending]
            yield self.rows_of_letters, spelled
            yield self.rows_with_alias, spelled
            yield self.rows_with_part, spelled

    def _of(
        self, rows: IntArray, form: str, letters: str, spelled: str, rule: _Rule
    ) -> Alias | Tie:
        doc_freq = self.doc_freq[rows]
        keys = [-doc_freq]  # of equally frequent ones, the first
        if rule == self.rows_of_letters and len(rows) > 1:
            keys.append(np.array([typos(form, self.names[row]) for row in rows.tolist()]))
        order = np.lexsort(keys)
        found = [self.names[row] for row in rows[order[: _MAX_OTHERS + 1]].tolist()]
        if len(rows) > 1 and rule == self.rows_with_part:
            return Tie(tuple(found[:_MAX_OTHERS]))
        fraction = int(doc_freq[order[0]]) / max(1, int(doc_freq.sum()))
        similarity = len(spelled) / len(letters)
        is_spelling = rule == self.rows_of_letters or spelled != letters
        score = _rounded(max(fraction, 1 / len(rows)) * similarity)
        return Alias(found[0], "similar" if is_spelling else "alias", score, tuple(found[1:]))

    @lazy
    def _rows(self) -> Mapping[str, int]:
        return index_strings(self.names)

    @cached_method(_CACHED_ALIASES)
    def rows_of_letters(self, letters: str) -> IntArray:
        """Return the rows of the entities whose names have these letters, ascending."""
        return self._verified(self.index.names, own_form, letters)

    @cached_method(_CACHED_ALIASES)
    def rows_with_alias(self, letters: str) -> IntArray:
        """Return the rows of the entities with an alias of these letters, ascending."""
        return self._verified(self.index.aliases, aliases_of, letters)

    @cached_method(_CACHED_ALIASES)
    def rows_with_part(self, letters: str) -> IntArray:
        """Return the rows of the entities with a part of these letters, ascending."""
        return self._verified(self.index.parts, parts_of, letters)

    def rows_with_words(self, words: Iterable[str]) -> IntArray:
        """Return the rows of the entities whose names probably contain all words, ascending.

        Names with equal hashes are not told apart.
        """
        found = [self.rows_with_word(word) for word in words]
        return reduce(np.intersect1d, found) if found else np.empty(0, dtype=np.int64)

    @cached_method(_CACHED_ALIASES)
    def rows_with_word(self, word: str) -> IntArray:
        """Return the rows of the entities whose names probably contain a word, ascending."""
        found = [self.rows_of_codes[rows] for _, rows in self.index.words.find(hash_of(word))]
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *found]))

    def having(self, form: Forms, rows: Iterable[int], letters: str) -> IntArray:
        """Return the entities of which a form has these letters, ascending.

        Args:
            form: Returns forms of a name.
            rows: Names that may have it, as rows of `codes`.
            letters: Letters of a key.
        """
        names = self.codes.names
        found = [
            row for row in rows if any(key_letters(one) == letters for one in form(names[row]))
        ]
        return np.unique(self.rows_of_codes[found])

    def _verified(self, keys: NameKeys, form: Forms, letters: str) -> IntArray:
        found = keys.find(hash_of(letters)) if letters else ()
        return self.having(form, (row for _, rows in found for row in rows), letters)

    @lazy
    def _merged(self) -> dict[str, int]:
        """The row of the entity that each of the user's aliases means."""
        if not self.edits:
            return {}
        targets = {form: self.edits.resolve(form) for form in self.edits.alias_forms}
        return {form: self._rows[name] for form, name in targets.items() if name in self._rows}

    @lazy
    def rows_of_codes(self) -> IntArray:
        """The rows of all named entities, then of those that the user's aliases mean."""
        merged = np.fromiter(self._merged.values(), dtype=np.int64, count=len(self._merged))
        return np.concatenate([np.flatnonzero(self.named), merged])

    @lazy
    def codes(self) -> NameCodes:
        """The code points of all named entities, then of the user's aliases."""
        if isinstance(self.names, StringArray):
            named = self.names.compress(self.named)
            return NameCodes.of(StringArray.joined([named, StringArray.of([*self._merged])]))
        return NameCodes.of([*compress(self.names, self.named.tolist()), *self._merged])

    @lazy
    def index(self) -> AliasIndex:
        """The rows of `codes` by the letters of names and aliases."""
        return self.indexes.by_letters(self.codes)

    @lazy
    def words(self) -> NameWords:
        """The words of all names."""
        return self.indexes.words(self.codes)

    @lazy
    def _fuzzy_names(self) -> FuzzyNames:
        return FuzzyNames(self.codes)

    def _similar(self, form: str, excluded: AbstractSet[str]) -> Alias | Tie | None:
        if has_han(form):  # a character is a syllable with a meaning, and rarely a misspelling
            return None
        found: dict[str, tuple[float, int]] = {}
        for name, similarity in self._fuzzy_names.most_similar(form):
            entity = self.names[self._merged[name]] if name in self._merged else name
            if _numbers(name) == _numbers(form) and entity not in excluded:
                found.setdefault(entity, (similarity, typos(form, name)))
        if not found:
            return None
        best, (similarity, count) = next(iter(found.items()))
        equal = sorted(
            (one for one, (_, other) in found.items() if other <= count),
            key=lambda one: -int(self.doc_freq[self._rows[one]]),
        )
        if len(equal) > 1:
            return Tie(tuple(equal[:_MAX_OTHERS]))
        return Alias(best, "similar", _rounded(similarity))


_Rule = Callable[[str], IntArray]


def own_form(name: str) -> tuple[str]:
    """Return the name itself, as its only form."""
    return (name,)


def plural_endings(letters: str) -> Iterator[int]:
    """Yield 0, and the lengths of the endings with which a name may be a plural.

    >>> list(plural_endings("hamre")), list(plural_endings("joneses"))
    ([0], [0, 1, 2])
    """
    yield 0
    for ending in ("s", "es"):
        if letters.endswith(ending) and len(letters) - len(ending) >= _MIN_SINGULAR:
            yield len(ending)


def _rounded(score: float) -> float:
    return max(0.0001, round(score, 4))  # a link needs a positive score


def _numbers(form: str) -> list[str]:
    """Return the Arabic and Roman numerals in a name, which must match in similar names.

    "Henry VII" must not match "Henry VIII".
    """
    return sorted(_NUMBER.findall(form))
