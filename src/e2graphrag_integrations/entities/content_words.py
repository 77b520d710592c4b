"""Content words in scripts without capital letters, and repeated words, found without a model.

Without a dictionary, only statistics and the script tell a noun from other words:

* Where spaces separate words, a word counts if it is repeated in the text and is neither a function
  word nor among the most frequent words. In a query, every word counts that is not a
  function word. Where there are no capitals, repeated phrases are names.
* In Japanese, hiragana separates the words. Compounds of Han characters, katakana and Latin letters
  are names if they contain katakana or Latin capitals, if they end like the name of a place or
  institution, or if they have at least three characters and do not end like a common noun. All
  others are nouns.
* In Korean, a word with a particle at its end is a noun. The particle is removed.
* In Thai, Lao, Khmer and Burmese, only repeated runs between spaces count.
* In Chinese, only short runs between punctuation marks count: use a pipeline instead.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.grammar import Grammar
from e2graphrag_integrations.entities.word_tokens import Kind, Word
from e2graphrag_integrations.types import NOUN, Mention

MAX_UNSPACED = 20
"""Maximum length of an entity in a script without spaces, in characters."""

_MAX_HAN = 4
"""Maximum length of a run of Han characters in a text without kana."""

_MIN_CASED, _MIN_CASELESS = 4, 3
"""Minimum number of letters of a content word, where spaces separate words."""

_MANY_WORDS = 100
_MAX_SHARE = 0.03
"""In a text of at least 100 words, more frequent words count as function words."""

_MAX_PHRASE = 5
"""Maximum number of words of a phrase in a query."""

_COMPOUND = frozenset({Kind.HAN, Kind.KATAKANA, Kind.SPACED})
_MIN_KATAKANA = 3
_HAN_NUMBER = re.compile("[〇一二三四五六七八九十百千万億兆第]+[年月日時分秒人個回目章世紀円歳]*")
_NAME_ENDINGS = tuple(
    "市 県 都 府 区 町 村 駅 島 川 湖 寺 城 港 国 州 郡 省 庁 党 大学 高校 学校 会社 "
    "銀行 新聞 協会 連盟 連合 博物館 美術館 神社".split()
)
_NOUN_ENDINGS = tuple(
    "家者人員師手作品物性的化力率論学法式用業費場所間中後前上下内外目時年月日分等数量度"
)
_MIN_HAN_NAME = 3
_HONORIFICS = ("氏", "様", "先生")
_HONORIFIC_KANA = ("さん", "さま", "くん", "ちゃん")

_AFTER_CONSONANT = frozenset("은 이 을 과 으로 이나 이라 이란 이라는 이라고".split())
_AFTER_VOWEL = frozenset("는 가 를 와 로 나 라 란 라는 라고".split())
_AFTER_ANY = frozenset(
    "의 에 도 만 에서 에게 에는 에도 에서는 에서도 에서의 에게서 부터 까지 까지의 "
    "처럼 보다 하고 께서 마다 조차 밖에 으로의 로의 으로서 로서 으로써 로써 와의 "
    "과의 와는 과는 이며 이고 이자 이다 이었다 였다 입니다 이었습니다 였습니다 "
    "인가요 일까요".split()
)
KOREAN_PARTICLES = tuple(sorted(_AFTER_CONSONANT | _AFTER_VOWEL | _AFTER_ANY))
"""What can stand at the end of a Korean noun."""

_LONGEST_PARTICLE = 5
_PREDICATE = re.compile("(?:다|요|까|죠|네|니|자|고|며|서|면|게|지|는|은|을|한|된|할|될|인|던)$")
_VERB_STEMS = ("하", "되")
_MAX_HANGUL = 12
_FIRST_SYLLABLE, _LAST_SYLLABLE, _FINALS, _FINAL_RIEUL = 0xAC00, 0xD7A3, 28, 8


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
            yield from self._japanese()
        else:
            yield from self._han()
        yield from self._korean()
        yield from self._southeast_asian()

    def _spaced(self) -> Iterator[Mention]:
        if self.grammar.nouns_are_capitalized or self.grammar.writes_syllables:
            return
        words = [word for word in self.words if word.kind is Kind.SPACED]
        counts = Counter(word.key for word in words)
        most = _MAX_SHARE * len(words) if len(words) >= _MANY_WORDS else len(words)
        least = 1 if self.is_query else 2
        content = [word for word in words if self._is_content(word) and counts[word.key] <= most]
        yield from (_mention(word, NOUN) for word in content if counts[word.key] >= least)
        yield from self._phrases([word for word in content if not word.form.is_cased])

    def _is_content(self, word: Word) -> bool:
        shortest = _MIN_CASED if word.form.is_cased else _MIN_CASELESS
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

    # Japanese

    def _japanese(self) -> Iterator[Mention]:
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
        name = self.text[start:end]
        following = self.text[end : end + 3]
        is_person = following.startswith(_HONORIFIC_KANA)
        for honorific in _HONORIFICS:
            if name.endswith(honorific) and len(name) > len(honorific) + 1:
                name, is_person = name.removesuffix(honorific), True
        is_short = len(name) == 1 or len(name) > MAX_UNSPACED
        if is_short or _HAN_NUMBER.fullmatch(name) or name[0].isdigit():
            return
        katakana = max((len(w.text) for w in words if w.kind is Kind.KATAKANA), default=0)
        latin = any(w.kind is Kind.SPACED and w.text[0].isupper() for w in words)
        is_long = len(name) >= _MIN_HAN_NAME
        has_ending = is_long and name.endswith(_NAME_ENDINGS)
        is_unusual = is_long and not name.endswith(_NOUN_ENDINGS)
        if all(word.kind is Kind.KATAKANA for word in words) and katakana < _MIN_KATAKANA:
            return
        is_name = is_person or has_ending or is_unusual or latin or katakana >= _MIN_KATAKANA
        yield Mention(name, start, start + len(name), "NAME" if is_name else NOUN)

    # Korean

    def _korean(self) -> Iterator[Mention]:
        words = [_Eojeol(word) for word in self.words if word.kind is Kind.HANGUL]
        counts = Counter(word.stem for word in words)
        for word in words:
            is_noun = (word.has_particle and not word.stem.endswith(_VERB_STEMS)) or (
                (counts[word.stem] > 1 or self.is_query) and not _PREDICATE.search(word.stem)
            )
            is_stop_word = {word.stem, word.whole} & self.grammar.stop_words
            if is_noun and not is_stop_word and 1 < len(word.stem) <= _MAX_HANGUL:
                yield word.mention()


def _mention(word: Word, label: str) -> Mention:
    return Mention(word.text, word.start, word.end, label)


class _Eojeol:
    """A Korean word: a stem and perhaps a particle."""

    def __init__(self, word: Word) -> None:
        self._word = word
        self.whole = unicodedata.normalize("NFC", word.text)

    @lazy
    def stem(self) -> str:
        """The word without its particle."""
        for size in range(min(_LONGEST_PARTICLE, len(self.whole) - 2), 0, -1):
            stem, particle = self.whole[:-size], self.whole[-size:]
            if _fits(stem[-1], particle):
                return stem
        return self.whole

    @property
    def has_particle(self) -> bool:
        """Whether a particle was found."""
        return self.stem != self.whole

    def mention(self) -> Mention:
        """Return the stem as a noun, with its exact span."""
        text, form = self._word.text, unicodedata.normalize("NFC", self._word.text)
        particle = self.whole[len(self.stem) :]
        if text != form:  # decomposed: a syllable has two or three characters
            particle = unicodedata.normalize("NFD", particle)
        end = len(text) - len(particle) if text.endswith(particle) else len(text)
        return Mention(text[:end], self._word.start, self._word.start + end, NOUN)


def _fits(syllable: str, particle: str) -> bool:
    """Return whether a particle can follow a syllable, which depends on its final consonant."""
    if particle in _AFTER_ANY:
        return True
    code = ord(syllable)
    if not _FIRST_SYLLABLE <= code <= _LAST_SYLLABLE:
        return False
    final = (code - _FIRST_SYLLABLE) % _FINALS
    if particle == "로":
        return final in {0, _FINAL_RIEUL}
    return particle in (_AFTER_CONSONANT if final else _AFTER_VOWEL)
