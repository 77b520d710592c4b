"""The words of the question in the sentences around names.

A passage that answers the first hop of a question mentions several names. The one that leads to
the second hop is in the sentence with the question's other words: "Her *teacher* was Pavel Orth."
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from math import fsum

from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.text.sentences import sentence_starts
from e2graphrag_integrations.text.words import is_function_word, terms_of


class NameSentences:
    """Compares the sentences of a text by the words of the question.

    A word is weighted by its IDF, but at least like the question's heaviest function word. Where
    all texts have the same relations, such as records of people, "mother" is in all of them.

    Args:
        terms: The words of the question, with their inflected forms and weights.
        without: Words to ignore: those of the question's names, which the text may replace by
            pronouns.
    """

    def __init__(self, terms: QuestionTerms, without: Collection[str]) -> None:
        words, bm25 = [word for word in terms.words if word not in without], terms.bm25
        weights = {word: bm25.idf(word) or bm25.idf_of_unique for word in words}
        functions = {word for word in weights if is_function_word(word)}
        least = max((weights[word] for word in functions), default=0.0)
        self._weights = {
            word: weight if word in functions else max(weight, least)
            for word, weight in weights.items()
        }
        self._word_of = {form: word for word in weights for form in terms.spelled(word)}
        self._forms = frozenset(self._word_of)

    def shares(self, text: str, names: Iterable[str]) -> Mapping[str, float]:
        """Return how much of the question stands around each name, in [0, 1].

        The weight of a name is that of the best sentence with it, as the sum of the IDF of the
        question's words there. A share is this weight relative to the best name's. It is 1 for all
        names if none has a word of the question, and 0 for a name that is not in the text.

        Args:
            text: The text.
            names: Names in lower case.
        """
        starts = sentence_starts(text)
        sentences = [terms_of(text[start:end]) for start, end in pairwise([*starts, len(text)])]
        weighed = [
            (weight, between_spaces(terms))
            for terms in sentences
            if (weight := self._weight(terms))
        ]
        weighed.sort(reverse=True)
        found = {}
        for name in names:
            own = between_spaces(terms_of(name))
            found[name] = next((weight for weight, words in weighed if own in words), 0.0)
        most = max(found.values(), default=0.0)
        return {name: weight / most if most else 1.0 for name, weight in found.items()}

    def _weight(self, terms: Iterable[str]) -> float:
        words = {self._word_of[form] for form in self._forms.intersection(terms)}
        return fsum(self._weights[word] for word in words)


def between_spaces(terms: Iterable[str]) -> str:
    """Return words between spaces, so that "ann" is not in "annual"."""
    return f" {' '.join(terms)} "
