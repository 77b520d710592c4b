"""The words of a question that BM25 looks up, in all forms that the index contains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.retrieval.question_words import (
    content_words,
    function_words,
    is_english,
    is_foreign,
)
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.text.inflections import inflections
from e2graphrag_integrations.text.lines import MOST_ASKED, ROWS, can_be_paired, pairs_of
from e2graphrag_integrations.text.numbers.english import other_spellings_of_number, with_digits
from e2graphrag_integrations.text.numbers.numbered import other_numeral
from e2graphrag_integrations.text.numbers.periods import days_of
from e2graphrag_integrations.text.spellings import other_spellings
from e2graphrag_integrations.text.words import corrections, is_function_word, terms_of

_INFLECTED = 0.8
"""Weight in BM25 of an inflected form or another spelling, relative to the question's own word."""

_FUNCTION_WEIGHT = 0.1
"""Weight of a function word. In a small index, it may be as rare as a word with content."""

_PAIR_WEIGHT = 2.0
"""Weight in BM25 of two words of the question in one row of a table."""

_MAX_WORDS = 512
"""Number of words from which a question is a text: only its rarest words are searched, because each
takes time and memory in all windows that are compared."""

_MAX_UNKNOWN = 32
"""Number of words without a text that may be corrected: each is compared with hundreds of words."""


@dataclass(frozen=True, eq=False)
class QuestionTerms:
    """The words of a question, and what BM25 searches for instead of them.

    Attributes:
        query: The question.
        bm25: The index of words.
        idf_power: Exponent of the extra IDF factor of each term.
        written_out: The words of the names that abbreviations in the question mean.
    """

    query: Query
    bm25: BM25Index
    idf_power: float
    written_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @lazy
    def words(self) -> list[str]:
        """The words of the question, and those carried over from earlier turns.

        Question words in Chinese are left out, and English function words if the index is in
        another language. The words of a name replace its abbreviation; those that the question
        also contains count once.
        """
        own = content_words(self.query.terms, self.bm25)
        names = (word for one in dict.fromkeys(own) for word in self.written_out.get(one, ()))
        kept = [one for one in own if one not in self.written_out]
        every = [*kept, *(word for word in names if word not in own), *self.query.carried_terms]
        return every if len(every) <= _MAX_WORDS else self._rarest(every)

    def _rarest(self, words: Iterable[str]) -> list[str]:
        """Return the rarest words once, and few that the index does not have, in their order."""
        distinct = list(dict.fromkeys(words))
        doc_freq = self.bm25.doc_freq
        known = sorted(filter(doc_freq, distinct), key=doc_freq)[: _MAX_WORDS - _MAX_UNKNOWN]
        unknown = [one for one in distinct if not doc_freq(one)][:_MAX_UNKNOWN]
        kept = {*known, *unknown}
        return [one for one in distinct if one in kept]

    @lazy
    def weights(self) -> Mapping[str, float]:
        """The weights of the words that do not have the weight 1.

        These are words carried over from earlier turns, and the function words of the languages of
        the question, unless it has no other words.
        """
        light = function_words(self.words, self.query.languages)
        if len(light) == len(set(self.words)):
            light = frozenset()
        weights = {**dict.fromkeys(light, 1.0), **self.query.carried_terms}
        return {
            word: _FUNCTION_WEIGHT * weight if word in light else weight
            for word, weight in weights.items()
        }

    @lazy
    def forms(self) -> Mapping[str, tuple[str, ...]]:
        """The other forms of the question's words that the index contains, by word.

        These are inflected forms, spellings with or without marks, and the days of a weekend. For
        a word that the index does not contain in any form, they are the number in other numerals,
        or else the words that differ by one typing error. A form that the question contains itself
        is left out. Only an English index has inflected forms and corrections.
        """
        own = frozenset(self.words)
        is_in_english = is_english(self.bm25)
        forms: dict[str, tuple[str, ...]] = {}
        unknown = 0
        for word in dict.fromkeys(self.words):
            own_forms = self._forms_of(word, is_in_english, may_correct=unknown < _MAX_UNKNOWN)
            unknown += not self.bm25.doc_freq(word)
            related = (*own_forms, *self._codes_of.get(word, ()))
            found = tuple(one for one in related if one not in own)
            if found:
                forms[word] = found
        return forms

    @lazy
    def _codes_of(self) -> Mapping[str, tuple[str, ...]]:
        """The codes in the index that are written with a word, by word.

        A text with "noon" has the code of 12:00, but none of its words.
        """
        codes: dict[str, tuple[str, ...]] = {}
        for code in self.query.codes:
            term = next(filter(self.bm25.doc_freq, code.terms), None)
            if term is not None:
                for word in terms_of(with_digits(code.text)):
                    codes[word] = (*codes.get(word, ()), term)
        return codes

    def _forms_of(self, word: str, is_in_english: bool, *, may_correct: bool) -> tuple[str, ...]:
        doc_freq = self.bm25.doc_freq
        spellings: tuple[str, ...] = ()
        if not is_function_word(word):
            spellings = (*other_spellings(word, is_known=bool(doc_freq(word))), *days_of(word))
        if is_in_english:
            related = (*spellings, *other_spellings_of_number(word), *inflections(word))
        else:
            related = spellings
        found = tuple(filter(doc_freq, related))
        if found or doc_freq(word):
            return found
        if numeral := other_numeral(word):
            return (numeral,) if doc_freq(numeral) else ()
        return corrections(word, doc_freq) if is_in_english and may_correct else ()

    def spelled(self, word: str) -> tuple[str, ...]:
        """Return a word of the question and its other forms in the index."""
        return (word, *self.forms.get(word, ()))

    @lazy
    def searched(self) -> tuple[list[str], Mapping[str, float]]:
        """The terms of BM25, and the factors of those that do not have the factor 1.

        A form may be far rarer than the word of the question, but is worth no more than that word.
        """
        bm25 = self.bm25
        factors: dict[str, float] = {}
        for word, forms in self.forms.items():
            for form in forms:
                rarity = (bm25.idf(word) / bm25.idf(form)) ** (1 + self.idf_power)
                factor = _INFLECTED * (min(1.0, rarity) if rarity else 1.0)
                factors[form] = max(factors.get(form, 0.0), factor * self.weights.get(word, 1.0))
        factors |= dict.fromkeys(self.pairs, _PAIR_WEIGHT)
        return [*self.words, *factors], {**self.weights, **factors}

    @lazy
    def telling(self) -> list[str]:
        """The words with content, without those carried over, and the pairs in rows of tables."""
        words = [one for one in dict.fromkeys(self.words) if one not in self.weights]
        return [*words, *self.pairs]

    @lazy
    def pairs(self) -> list[str]:
        """The pairs of the question's words that stand in one row of a table."""
        doc_freq = self.bm25.doc_freq
        if not doc_freq(ROWS):
            return []
        words = [one for word in self.words for one in self.spelled(word) if can_be_paired(one)]
        return [pair for pair in pairs_of(words, MOST_ASKED) if doc_freq(pair)]

    def contain(self, words: Sequence[str], windows: IntArray) -> NDArray[np.bool_]:
        """Return which windows contain which words of the question, in any form.

        Args:
            words: Some of the words of the question.
            windows: Window numbers, shape (n,).

        Returns:
            A mask of shape (words, n).
        """
        spelled = [(row, one) for row, word in enumerate(words) for one in self.spelled(word)]
        mask = np.zeros((len(words), len(windows)), dtype=np.bool_)
        found = self.bm25.contain([one for _, one in spelled], windows)
        for (row, _), own in zip(spelled, found, strict=True):
            mask[row] |= own
        return mask

    def rarity(self, words: Sequence[str]) -> Floats:
        """Return the IDF of words, shape (n,); an unknown word counts like one in a single text."""
        bm25 = self.bm25
        return np.asarray([bm25.idf(one) or bm25.idf_of_unique for one in words])

    @lazy
    def are_foreign(self) -> bool:
        """Whether the question is in English, and the index is in another language."""
        return is_foreign(terms_of(self.query.question), self.bm25)

    @lazy
    def full_score(self) -> float:
        """The BM25 score of a text of average length that contains every word once."""
        return self.bm25.reference_score(self.words, idf_power=self.idf_power, weights=self.weights)
