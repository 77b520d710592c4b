"""Names in scripts with capital letters: runs of capitalized words, found without a model.

A capital at the start of a sentence is no evidence. The first word of a sentence counts if it is
capitalized elsewhere inside a sentence, or if the text is a single sentence or begins like a
definition of the word, and the word never occurs in lowercase. In German, where all nouns are
capitalized, a single word is a name only if it never follows an article and does not end like a
common noun.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from e2graphrag_integrations.entities.grammar import Grammar
from e2graphrag_integrations.entities.word_tokens import Word
from e2graphrag_integrations.types import NOUN, Mention

NAME = "NAME"

_MAX_JOINERS = 2
_MAX_WORDS = 8
"""Maximum number of words in a name. A longer run is a heading or a list."""

_MAX_UPPERCASE = 0.7
"""Maximum share of uppercase words in a line. Above it, as in a heading, capitals mean nothing."""

_WRAPPED_LINE = 40
"""Minimum length of a line, in characters, whose end may be a wrap inside a name. Shorter lines are
items of a list."""

_MAX_NUMBER = 3
"""Maximum number of digits of a number in a name, as in "Apollo 13". Longer ones are years."""

_MIN_STEM, _MAX_ENDING = 4, 2
"""Two forms of a name share at least 4 letters, and differ in at most 2 at the end."""

_STARTS_SENTENCE = re.compile(r"[.!?…:\"“„«»‟—–(\[{•*¿¡|>#]")
_SUFFIX = re.compile(r"(?<=\w)['’ʼ][^\W\d_]+$")
_PLACE_SUFFIXES = frozenset("da de ta te dan den tan ten".split())
_MIN_BEFORE_PLACE = 2
_AFTER_SUBJECT = frozenset({"(", "—", "–", "-"})
_ELISION = re.compile(r"[^\W\d_]{1,5}['’ʼ]")
_SPACE = re.compile(r"[^\S\n]*(?:\n[^\S\n]*)?")
_ADJECTIVE_ENDINGS = ("e", "en", "er", "es", "em")


def capitalized_names(
    text: str, words: Sequence[Word], sentences: Sequence[int], grammar: Grammar
) -> list[Mention]:
    """Return the names among the words of a text, in order and disjoint.

    Args:
        text: The text.
        words: All words of the text.
        sentences: Ascending offsets of the sentence starts.
        grammar: Facts about the language.
    """
    return list(_Capitals(text, words, sentences, grammar).names())


def _stem_length(key: str) -> int:
    return max(_MIN_STEM, len(key) - _MAX_ENDING)


def suffix_length(word: Word) -> int:
    """Return the length of a suffix after an apostrophe, as in Turkish "Ankara'da"; 0 if none."""
    suffix = _SUFFIX.search(word.text)
    return 0 if suffix is None or not suffix.group().islower() else len(suffix.group())


class _Capitals:
    """The capitalized words of one text, and the evidence that the whole text gives for them."""

    def __init__(
        self, text: str, words: Sequence[Word], sentences: Sequence[int], grammar: Grammar
    ) -> None:
        self._text = text
        self._words = words
        self._grammar = grammar
        self._is_single_sentence = len(sentences) == 1
        self._shouted = self._shouted_words()
        self._initial = self._initial_words(sentences)
        self._first = next((at for at, word in enumerate(words) if word.form.is_cased), -1)
        capital = [at for at, word in enumerate(words) if self._is_capital(at)]
        self._lower = {word.key for word in words if word.text.islower()}
        self._inside = Counter(words[at].key for at in capital if at not in self._initial)
        # "Moskva" at the start of a sentence is a name if "Moskve" occurs elsewhere.
        self._stems = {
            key[:size] for key in self._inside for size in range(_stem_length(key), len(key) + 1)
        }
        self._nouns = (
            {words[at].key for at in capital if self._is_noun(at)}
            if grammar.nouns_are_capitalized
            else frozenset[str]()
        )

    def names(self) -> Iterator[Mention]:
        """Yield the names, in order."""
        at = 0
        while at < len(self._words):
            if not self._is_capital(at):
                at += 1
                continue
            end = self._run_end(at)
            yield from self._run_names(at, end)
            at = end

    def _shouted_words(self) -> set[int]:
        """Return the words in lines that consist of uppercase words."""
        shouted: set[int] = set()
        bounds = [m.start() for m in re.finditer("\n", self._text)]
        line, numbered = 0, []
        for at, word in enumerate(self._words):
            while line < len(bounds) and bounds[line] < word.start:
                line += 1
            if word.form.is_cased:
                numbered.append((line, at))
        for _, group in groupby(numbered, key=lambda pair: pair[0]):
            own = [at for _, at in group]
            loud = sum(self._words[at].form.is_uppercase for at in own)
            if len(own) > 1 and loud > _MAX_UPPERCASE * len(own):
                shouted.update(own)
        return shouted

    def _initial_words(self, sentences: Sequence[int]) -> set[int]:
        """Return the words that may have a capital only because a sentence begins there."""
        initial: set[int] = set()
        number, previous_end = 0, 0
        for at, word in enumerate(self._words):
            begins = at == 0
            while number < len(sentences) and sentences[number] <= word.start:
                begins = begins or sentences[number] >= previous_end
                number += 1
            gap = self._text[previous_end : word.start]
            if begins or (_STARTS_SENTENCE.search(gap) and not self._is_after_initial(at)):
                initial.add(at)
            previous_end = word.end
        return initial

    def _is_capital(self, at: int) -> bool:
        word = self._words[at]
        if at in self._shouted:
            return False
        return word.form.has_capital

    def _is_after_initial(self, at: int) -> bool:
        """Return whether a word follows the initial of a name, as in "A. S. Pushkin"."""
        if at == 0:
            return False
        previous = self._words[at - 1]
        gap = self._text[previous.end : self._words[at].start]
        is_abbreviated = gap.startswith(".") and not gap[1:].strip() and "\n" not in gap
        is_initial = previous.form.letters == 1 and previous.form.is_capitalized
        return is_abbreviated and (is_initial or previous.key in self._grammar.addresses)

    def _is_joined(self, at: int) -> bool:
        """Return whether only a space separates a word from the previous one."""
        previous, word = self._words[at - 1], self._words[at]
        gap = self._text[previous.end : word.start]
        if self._is_after_initial(at):
            return True
        if gap in {"'", "’", "ʼ"}:
            return previous.key in self._grammar.joiners
        if not gap or not _SPACE.fullmatch(gap):
            return False
        if "\n" not in gap:
            return True
        line_start = self._text.rfind("\n", 0, previous.end) + 1
        return previous.end - line_start >= _WRAPPED_LINE

    def _run_end(self, start: int) -> int:
        end = start + 1
        while end < len(self._words) and self._is_joined(end):
            if self._grammar.apostrophe_before_suffix and suffix_length(self._words[end - 1]):
                break
            word = self._words[end]
            if self._is_place_after_name(start, end):
                break
            if self._is_capital(end) and not self._is_calendar(end):
                end += 1
                continue
            if word.form.has_digit and self._is_part_number(word):
                end += 1
                continue
            ahead = end
            while ahead < len(self._words) and self._joins(ahead, end, start):
                ahead += 1
            if ahead == end or ahead >= len(self._words) or not self._is_joined(ahead):
                break
            if not self._is_capital(ahead) or self._is_calendar(ahead):
                break
            end = ahead + 1
        return end

    def _is_place_after_name(self, start: int, at: int) -> bool:
        """Return whether a place follows a name, as in Turkish "Orhan Pamuk Ankara'da"."""
        if not self._grammar.apostrophe_before_suffix or at - start < _MIN_BEFORE_PLACE:
            return False
        word = self._words[at]
        length = suffix_length(word)
        return length > 0 and word.text[1 - length :] in _PLACE_SUFFIXES

    def _joins(self, at: int, first: int, start: int) -> bool:
        key = self._words[at].key
        if at - first >= _MAX_JOINERS or key not in self._grammar.joiners:
            return False
        if not self._is_joined(at):
            return False
        if self._grammar.nouns_are_capitalized:
            # "Otto von Bismarck" is a name, but "das Buch von Peter" is not.
            begins = at == first and key in {"der", "den", "the"}
            return not begins and not self._is_determined(start)
        return True

    def _is_part_number(self, word: Word) -> bool:
        return not word.text.isdigit() or len(word.text) <= _MAX_NUMBER

    def _is_calendar(self, at: int) -> bool:
        return self._words[at].key in self._grammar.calendar

    def _is_stop_word(self, at: int) -> bool:
        word = self._words[at]
        is_acronym = word.form.is_uppercase and at not in self._shouted
        return not is_acronym and word.key in self._grammar.stop_words

    def _run_names(self, start: int, end: int) -> Iterator[Mention]:
        """Yield the name in a run of capitalized words, and in German also its first noun."""
        initial = start in self._initial
        while start < end and self._is_no_name(start, end, initial=initial):
            start, initial = start + 1, False
        while start + 1 < end and self._words[start].key in self._grammar.addresses:
            start, initial = start + 1, False
        while start < end and not self._is_capital(start):
            start += 1
        if start == end or end - start > _MAX_WORDS:
            return
        if self._grammar.nouns_are_capitalized:
            yield from self._german_names(start, end, initial=initial)
            return
        if initial and not self._is_name_at_start(start, end):
            start += 1
            while start < end and not self._is_capital(start):
                start += 1
        if start < end and (end - start > 1 or self._words[start].form.letters > 1):
            yield self._mention(start, end, NAME)

    def _mention(self, start: int, end: int, label: str) -> Mention:
        first, last = self._words[start], self._words[end - 1]
        begin = first.start + (self._elision_length(start) if start in self._initial else 0)
        suffix = suffix_length(last) if self._grammar.apostrophe_before_suffix else 0
        stop = last.end - suffix
        return Mention(self._text[begin:stop], begin, stop, label)

    def _elision_length(self, at: int) -> int:
        """Return the length of an elision before a name, as in "L'Angleterre"."""
        word = self._words[at].text
        match = _ELISION.match(word) if self._grammar.elides else None
        return match.end() if match is not None and word[match.end()].isupper() else 0

    def _is_no_name(self, start: int, end: int, *, initial: bool) -> bool:
        """Return whether a word is a function word, but not that of "Los Angeles"."""
        if self._is_calendar(start):
            return True
        if start + 1 < end and self._is_after_initial(start + 1):
            return False  # "A. S. Pushkin"
        is_alone = end - start == 1
        is_evident = self._inside[self._words[start].key] > 0
        return self._is_stop_word(start) and (is_alone or (initial and not is_evident))

    def _is_name_at_start(self, start: int, end: int) -> bool:
        """Return whether the first word of a sentence belongs to the name."""
        word = self._words[start]
        key = word.key
        is_acronym = word.form.has_digit or word.form.is_uppercase
        if self._inside[key] or is_acronym or self._elision_length(start):
            return True
        if key in self._lower:
            return False
        is_inflected = key[: _stem_length(key)] in self._stems
        return end - start > 1 or is_inflected or self._is_subject(start)

    def _is_subject(self, at: int) -> bool:
        """Return whether a word begins the text like its subject: "Paris is ...", "Paris (...)"."""
        if self._is_single_sentence:
            return True
        if at != self._first or at + 1 == len(self._words):
            return False
        following = self._words[at + 1]
        gap = self._text[self._words[at].end : following.start].strip()
        return gap in _AFTER_SUBJECT or (not gap and following.key in self._grammar.stop_words)

    # German

    def _german_names(self, start: int, end: int, *, initial: bool) -> Iterator[Mention]:
        first = self._words[start]
        if end - start == 1:
            is_unclear = initial and not self._inside[first.key]
            if is_unclear and (first.key in self._lower or not self._is_subject(start)):
                return
            if first.form.letters > 1 or first.form.has_digit:
                is_noun = first.key in self._nouns and not first.form.is_uppercase
                yield self._mention(start, end, NOUN if is_noun else NAME)
            return
        if initial and first.key in self._lower:
            yield from self._german_names(start + 1, end, initial=False)
            return
        is_adjective = first.text.endswith(("e", "en"))
        if end - start > 2 and first.key in self._nouns and not is_adjective:  # noqa: PLR2004
            yield self._mention(start, start + 1, NOUN)  # "der Physiker Albert Einstein"
            start += 1
        yield self._mention(start, end, NAME)

    def _is_noun(self, at: int) -> bool:
        word = self._words[at]
        return self._is_determined(at) or word.key.endswith(self._grammar.noun_endings)

    def _is_determined(self, at: int) -> bool:
        """Return whether a word follows an article, directly or after an adjective."""
        if at == 0 or not self._follows(at):
            return False
        previous = self._words[at - 1]
        if previous.key in self._grammar.determiners:
            return True
        is_adjective = previous.text.islower() and previous.text.endswith(_ADJECTIVE_ENDINGS)
        if not is_adjective or at == 1 or not self._follows(at - 1):
            return False
        return self._words[at - 2].key in self._grammar.determiners

    def _follows(self, at: int) -> bool:
        gap = self._text[self._words[at - 1].end : self._words[at].start]
        return bool(gap) and not gap.strip()
