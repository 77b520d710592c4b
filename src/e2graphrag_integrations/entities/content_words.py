"""Content words in scripts without capital letters, and repeated words, found without a model.

Without a dictionary, only statistics and the script tell a noun from other words:

* Where spaces separate words, a word counts if it is repeated in the text and is neither a function
  word nor among the most frequent words. In a query, every word counts that is not a
  function word. Where there are no capitals, repeated phrases are names.
* In scripts without spaces, runs of letters count by their length: those of ideographs, katakana
  and Latin letters between hiragana; elsewhere, short runs of ideographs. In Thai, Lao, Khmer and
  Burmese, repeated runs between spaces count.

There are no lists of words, endings or particles: whoever needs more passes a pipeline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from e2graphrag_integrations.entities.grammar import Grammar
from e2graphrag_integrations.entities.word_tokens import Kind, Word
from e2graphrag_integrations.types import NOUN, Mention

MAX_UNSPACED = 20
"""Maximum length of an entity in a script without spaces, in characters."""

_MAX_HAN = 4
"""Maximum length of a run of Han characters in a text without kana."""

_MIN_CASED, _MIN_CASELESS, _MIN_HANGUL = 4, 3, 2
"""Minimum number of letters of a content word, where spaces separate words. A Korean letter is a
syllable."""

_MANY_WORDS = 100
_MAX_SHARE = 0.03
"""In a text of at least 100 words, more frequent words count as function words."""

_MAX_PHRASE = 5
"""Maximum number of words of a phrase in a query."""

_BETWEEN_SPACES = frozenset({Kind.SPACED, Kind.HANGUL})
_COMPOUND = frozenset({Kind.HAN, Kind.KATAKANA, Kind.SPACED})
_MIN_KATAKANA = 3
_MIN_COMPOUND_NAME = 3
"""Minimum length of a compound that counts as a name, in characters."""


class ContentWords(NamedTuple):
    """The words of a text that can be content words.

    Attributes:
        text: The text.
        words: Its words.
        is_query: Whether the text reads as a query: a single sentence that is short or a question.
        grammar: Facts about the language.
    """

    text: str
    words: Sequence[Word]
    is_query: bool
    grammar: Grammar

    def mentions(self) -> Iterator[Mention]:
        """Yield the content words, in order within each script."""
        yield from self._spaced()
        if any(word.kind is Kind.HIRAGANA for word in self.words):
            yield from self._compounds()
        else:
            yield from self._han()
        yield from self._southeast_asian()

    def _spaced(self) -> Iterator[Mention]:
        if self.grammar.nouns_are_capitalized or self.grammar.writes_syllables:
            return
        words = [word for word in self.words if word.kind in _BETWEEN_SPACES]
        counts = Counter(word.key for word in words)
        most = _MAX_SHARE * len(words) if len(words) >= _MANY_WORDS else len(words)
        least = 1 if self.is_query else 2
        content = [word for word in words if self._is_content(word) and counts[word.key] <= most]
        yield from (_mention(word, NOUN) for word in content if counts[word.key] >= least)
        yield from self._phrases([word for word in content if not word.form.is_cased])

    def _is_content(self, word: Word) -> bool:
        shortest = _MIN_CASED if word.form.is_cased else _MIN_CASELESS
        shortest = _MIN_HANGUL if word.kind is Kind.HANGUL else shortest
        is_long = word.form.letters >= shortest
        return is_long and not word.form.is_capitalized and word.key not in self.grammar.stop_words

    def _phrases(self, words: Sequence[Word]) -> Iterator[Mention]:
        """Yield the repeated phrases of a script without capitals; in a query, all phrases.

        A phrase of a query is linked to its longest part that is an entity.
        """
        runs: list[list[Word]] = []
        for word in words:
            if runs and self.text[runs[-1][-1].end : word.start] == " ":
                runs[-1].append(word)
            else:
                runs.append([word])
        if self.is_query:
            phrases = [run for run in runs if 1 < len(run) <= _MAX_PHRASE]
        else:
            sizes = (3, 2)
            grams = [run[i : i + n] for n in sizes for run in runs for i in range(len(run) - n + 1)]
            counts = Counter(tuple(word.key for word in gram) for gram in grams)
            phrases = [gram for gram in grams if counts[tuple(word.key for word in gram)] > 1]
        for phrase in phrases:
            start, end = phrase[0].start, phrase[-1].end
            yield Mention(self.text[start:end], start, end, "NAME")

    def _southeast_asian(self) -> Iterator[Mention]:
        words = [word for word in self.words if word.kind is Kind.SOUTHEAST_ASIAN]
        counts = Counter(word.key for word in words)
        for word in words:
            is_word = word.form.letters >= _MIN_CASELESS and len(word.text) <= MAX_UNSPACED
            if is_word and counts[word.key] > 1 and word.key not in self.grammar.stop_words:
                yield _mention(word, NOUN)

    def _han(self) -> Iterator[Mention]:
        for word in self.words:
            if word.kind is Kind.HAN and 1 < len(word.text) <= _MAX_HAN:
                yield _mention(word, NOUN)
            elif word.kind is Kind.KATAKANA and _MIN_KATAKANA <= len(word.text) <= MAX_UNSPACED:
                yield _mention(word, "NAME")

    def _compounds(self) -> Iterator[Mention]:
        """Yield the runs of ideographs, katakana and Latin letters between hiragana."""
        compound: list[Word] = []
        for word in self.words:
            if compound and (word.kind not in _COMPOUND or word.start != compound[-1].end):
                yield from self._compound(compound)
                compound = []
            if word.kind in _COMPOUND:
                compound.append(word)
        if compound:
            yield from self._compound(compound)

    def _compound(self, words: Sequence[Word]) -> Iterator[Mention]:
        start, end = words[0].start, words[-1].end
        if end - start > MAX_UNSPACED and len(words) > 1:
            for word in words:
                yield from self._compound([word])
            return
        if all(word.kind is Kind.SPACED for word in words):
            return  # a Latin word
        text = self.text[start:end]
        least = _MIN_KATAKANA if all(word.kind is Kind.KATAKANA for word in words) else 2
        if least <= len(text) <= MAX_UNSPACED and not text[0].isdigit():
            yield Mention(text, start, end, "NAME" if len(text) >= _MIN_COMPOUND_NAME else NOUN)


def _mention(word: Word, label: str) -> Mention:
    return Mention(word.text, word.start, word.end, label)
