"""The language of a text: by its script, and by statistics among languages of one script.

Most scripts belong to one language, or to one that is far more frequent than the others. The
languages of the Latin, Cyrillic, Arabic, Devanagari and Hebrew scripts are told apart by py3langid.

A wrong "German" for an English passage with German names costs more than a missed German passage.
Therefore, a text in Latin letters counts as English if it is short, if it contains many English
function words, or if English is still possible. Capitalized words do not count, because names say
little about the language of a text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from e2graphrag_integrations.languages.language import ENGLISH, LANGUAGES, UNKNOWN, find_code
from e2graphrag_integrations.languages.scripts import HAN, HANGUL, KANA, LATIN, count_scripts

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_PIECES, _PIECE_LENGTH = 8, 500
"""Number of pieces of a long text that are read, and their length in characters."""

_LETTER_WEIGHTS: Mapping[str, int] = MappingProxyType({HAN: 4, KANA: 4, HANGUL: 4})
"""Number of Latin letters that correspond to one letter of a script; 1 for other scripts."""

_MIN_KANA = 0.2
"""Minimum share of kana in a Japanese text. Chinese texts about Japan contain some in names."""

_MIN_WORDS = 8
"""Minimum number of words in lower case for a text in Latin letters to be other than English."""

_MIN_ENGLISH = 0.12
"""Share of English function words from which a text is English."""

_MAX_ENGLISH, _MIN_OTHER = 0.02, 0.5
"""Maximum probability of English, and minimum probability of another language, for a text in that
language."""

_MAIN_LANGUAGES: Mapping[str, str] = MappingProxyType(
    {one.scripts[0]: code for code, one in LANGUAGES.items()}
    | {LATIN: ENGLISH, HAN: "zh", KANA: "ja", HANGUL: "ko", "Cyrl": "ru", "Arab": "ar"}
    | {"Deva": "hi", "Hebr": "he", "Beng": "bn", "Ethi": "am", "Tibt": "bo", "Cans": "iu"}
)
"""The most frequent language of each script."""

_SHARED_SCRIPTS = frozenset({LATIN, "Cyrl", "Arab", "Deva", "Hebr"})
"""Scripts whose languages are told apart by statistics."""

_ENGLISH_WORDS = frozenset(
    "about and are been did do does from had his how it of or she that the their they this to "
    "was were what when where which who with would you".split()
)
"""Frequent function words of English that are rare in other languages."""

_WORD = re.compile(r"[^\W\d_]+")


def detect_language(text: str) -> str:
    """Return the code of the main language of a text (ISO 639-1).

    Of a long text, only a few pieces are read. A text without letters counts as English, and one in
    a script without a known language as unknown ("und").

    >>> detect_language("曹雪芹著有《红楼梦》。"), detect_language("東京は日本の首都です。")
    ('zh', 'ja')
    >>> detect_language("Wo liegt Hamburg?")
    'en'
    """
    text = _sample(text)
    script = _script_of_sample(text)
    if script is None:
        return ENGLISH
    main = _MAIN_LANGUAGES.get(script, UNKNOWN)
    if script not in _SHARED_SCRIPTS:
        return main
    words = _WORD.findall(text)
    if script == LATIN:
        words = [word for word in words if word.islower()]
        if len(words) < _MIN_WORDS or _are_english(words):
            return main
    return _most_probable(words, script, main)


def main_script(text: str) -> str | None:
    """Return the script of most of a text (ISO 15924); None if the text contains no letters.

    Kana stand for a text in Japanese, which also contains Han characters.

    >>> main_script("GPT-4 是一个大型语言模型"), main_script("1984")
    ('Hani', None)
    """
    return _script_of_sample(_sample(text))


def _script_of_sample(text: str) -> str | None:
    counts = count_scripts(text)
    kana = counts.get(KANA, 0)
    cjk = kana + counts.get(HAN, 0)
    weights = {one: count * _LETTER_WEIGHTS.get(one, 1) for one, count in counts.items()}
    weights.pop(KANA, None)
    if cjk:
        weights[HAN] = cjk * _LETTER_WEIGHTS[HAN]
    if not weights:
        return None
    script = max(weights, key=lambda one: weights[one])
    return KANA if script == HAN and kana >= _MIN_KANA * cjk else script


def has_english_words(text: str) -> bool:
    """Return whether a text contains enough English function words to be in English.

    Of a short text, this says more than `detect_language`, which does not guess.

    >>> has_english_words("Who wrote the novel?"), has_english_words("Wo liegt Hamburg?")
    (True, False)
    """
    return _are_english([word.lower() for word in _WORD.findall(_sample(text))])


def _are_english(words: Sequence[str]) -> bool:
    return 0 < len(words) * _MIN_ENGLISH <= sum(word in _ENGLISH_WORDS for word in words)


def _sample(text: str) -> str:
    """Return a short text, or pieces of a long one."""
    if len(text) <= _PIECES * _PIECE_LENGTH:
        return text
    step = (len(text) - _PIECE_LENGTH) // (_PIECES - 1)
    starts = range(0, _PIECES * step, step)
    return "\n".join(text[start : start + _PIECE_LENGTH] for start in starts)


def _most_probable(words: Iterable[str], script: str, main: str) -> str:
    """Return the most probable language of words in a script, or its main language if unclear."""
    probabilities: dict[str, float] = {}
    for label, probability in _identifier().rank(" ".join(words)):
        code = find_code(label)
        if code is not None and code != UNKNOWN:
            probabilities[code] = probabilities.get(code, 0.0) + float(probability)
    english = probabilities.get(ENGLISH, 0.0)
    best = max(probabilities, key=lambda code: probabilities[code])
    is_clear = probabilities[best] >= _MIN_OTHER and english <= _MAX_ENGLISH
    return best if is_clear and script in LANGUAGES[best].scripts else main


@functools.cache
def _identifier() -> LanguageIdentifier:
    """Return the statistics, which are loaded once, on first use: this takes about a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
