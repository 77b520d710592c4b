"""The language of a text: by its script, and by statistics among languages of one script.

Most scripts belong to one language, or to one that is far more frequent than the others. The
languages of the Latin, Cyrillic, Arabic, Devanagari and Hebrew scripts are told apart by py3langid.

A wrong "German" for an English passage with German names costs more than a missed German passage:
the passage loses the extractor of its language. Therefore, a text in Latin letters is in another
language only if the statistics say so and its function words confirm it. Capitalized words do not
count, because names say little about the language of a text. A text that is too short or mixed to
tell is in the main language of the documents around it.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import runpy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from e2graphrag_integrations.languages.language import (
    ENGLISH,
    HAN,
    HANGUL,
    KANA,
    LANGUAGES,
    LATIN,
    UNKNOWN,
    count_scripts,
    find_code,
    scripts_of_language,
)

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


_CODES = {"no": "nb", "nn": "nb", "bs": "hr"}
"""Codes under which spaCy has the words of a language, where they differ from ours."""


@functools.cache
def distinctive_words(language: str, other: str = ENGLISH) -> frozenset[str]:
    """Return the stop words of a language that are not stop words of another.

    The lists are those of spaCy. Languages without a list have no words.

    >>> sorted(distinctive_words("it") & {"di", "una", "a", "the"})
    ['di', 'una']
    """
    return stop_words(language) - stop_words(other)


@functools.cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language, as spaCy lists them; none if it has no list."""
    listed = listed_stop_words(_CODES.get(language, language))
    return frozenset(word for word in listed if word.isalpha())


def listed_stop_words(code: str) -> Collection[str]:
    """Return spaCy's list of function words under a code of a language; empty if it has none.

    The file of the list is run alone, because importing spaCy takes seconds.
    """
    spacy = importlib.util.find_spec("spacy")
    if spacy is None or spacy.origin is None or not re.fullmatch("[a-z]{2,3}", code):
        return ()
    path = Path(spacy.origin).parent / "lang" / code / "stop_words.py"
    words: Collection[str] = runpy.run_path(str(path))["STOP_WORDS"] if path.is_file() else ()
    return words


_PIECES, _PIECE_LENGTH = 8, 500
"""Number of pieces of a long text that are read, and their length in characters."""

_LETTER_WEIGHTS: Mapping[str, int] = MappingProxyType({HAN: 4, KANA: 4, HANGUL: 4})
"""Number of Latin letters that correspond to one letter of a script; 1 for other scripts."""

_MIN_KANA = 0.2
"""Minimum share of kana in a Japanese text. Chinese texts about Japan contain some in names."""

_MIN_DISTINCT, _MIN_FREQUENT, _MIN_LEAD = 3, 0.15, 2
"""Function words that confirm a language in Latin letters: minimum number of different ones, one
fewer if there are none of English; minimum share of all words; and minimum ratio to those of
English."""

_MIN_WORDS = 8
"""Minimum number of words whose statistics alone are clear, in English and in other scripts."""

_MIN_WORDS_OF_RARE, _MAX_AGAINST = 20, 0.05
"""Minimum number of words, and maximum share of English function words, of a text in a language
whose own function words are rare or unknown."""

_MIN_EVIDENCE = 2
"""Minimum number of different function words by which an unclear text is in another language of the
index than its main one."""

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

_QUESTION_WORDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        code: frozenset(words.split())
        for code, words in {
            "en": "about and are be been by did do does for from had has his how in is it not of "
            "on or she that the their they this to was were what when where which who whom whose "
            "why with would you",
            "de": "auf das dem den der des die ein eine hat im ist mit nicht sind und von wann war "
            "warum was welche welcher wem wen wer wie wo woher wohin wurde zu zwischen",
            "es": "como con cuando cuál cuáles cuándo cómo de del donde dónde el en entre es fue "
            "hay la las los no para por que quien quién quiénes qué son un una y",
            "fr": "avec combien comment dans de des du elle est et il la le les où pas pour "
            "pourquoi quand que quel quelle quelles quels qui quoi sont sur un une était",
            "it": "che chi come con cosa da del della di dove e era gli i il in la le lo non per "
            "perché quale quali quando sono un una è",
            "nl": "de een en het hoe in is met niet op van voor waar waarom wanneer was wat welke "
            "werd wie zijn",
            "pl": "był była co czy dlaczego do gdzie i jak jest kiedy kim kto która który na nie "
            "od są w z",
            "pt": "a as com como da das de do dos e em foi não o onde os para por porque quais "
            "qual quando que quem são um uma é",
            "sv": "av den det en ett för hur i inte med när och på vad var varför vem vilka vilken "
            "är",
            "tr": "bir bu değil hangi ile için kaç kim kimdir mi mı nasıl ne neden nedir nerede "
            "niçin ve zaman",
        }.items()
    }
)
"""Frequent function words of questions in languages in Latin letters."""

_MIN_QUESTION_WORDS = 2
"""Minimum number of these words by which a question is in another language."""

_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class _Guess:
    """What a text alone says about its language.

    Attributes:
        language: Code of the language, or of the main language of the script if it is unclear.
        script: Script of most letters; None if there are none.
    """

    language: str
    script: str | None
    is_clear: bool = True


def detect_language(text: str) -> str:
    """Return the code of the main language of a text (ISO 639-1).

    Of a long text, only a few pieces are read. A text without letters counts as English, and one in
    a script without a known language as unknown ("und").

    >>> detect_language("曹雪芹著有《红楼梦》。"), detect_language("東京は日本の首都です。")
    ('zh', 'ja')
    >>> detect_language("Wo liegt Hamburg?")
    'en'
    """
    return _guess(text).language


_JOINED, _JOINED_LENGTH = 1_000, 500
"""Number and length of the unclear texts that are read together."""


def detect_languages(
    texts: Iterable[str] | Callable[[], Iterable[str]],
    known: Mapping[str, int] = MappingProxyType({}),
) -> list[str]:
    """Return the codes of the main languages of texts that belong together, such as those of a run.

    A text whose language is unclear is in the main language of the others. If all are unclear, it
    is in that of all together: a few short notes have too few words each.

    Args:
        texts: The texts, or a function that returns them each time it is called, so that not all
            of them have to be in memory.
        known: Number of documents in each language that the index contains already.

    >>> detect_languages(["Wo liegt Hamburg?"], {"de": 30, "en": 2})
    ['de']
    """
    if not callable(texts):
        listed = list(texts)
        return detect_languages(lambda: listed, known)
    guesses = [_guess(text) for text in texts()]
    counts = Counter(known)
    counts.update(guess.language for guess in guesses if guess.is_clear)
    if all(guess.is_clear for guess in guesses):
        return [guess.language for guess in guesses]
    if not counts:
        together = _guess("\n".join(text[:_JOINED_LENGTH] for text in islice(texts(), _JOINED)))
        counts.update([together.language] if together.is_clear else [])
    return [
        guess.language if guess.is_clear else _most_likely(guess, text, counts)
        for guess, text in zip(guesses, texts(), strict=True)
    ]


def _most_likely(guess: _Guess, text: str, counts: Mapping[str, int]) -> str:
    """Return the most likely language of an unclear text among languages with their frequencies."""
    possible = [
        one
        for one in sorted(counts, key=lambda one: (-counts[one], one))
        if guess.script is None or guess.script in scripts_of_language(one)
    ]
    if not possible:
        return guess.language
    main = possible[0]
    if 2 * counts[main] <= sum(counts.values()):  # no language is the main one
        main = guess.language
    others = [one for one in possible if one != main]
    words = set(_words(_sample(text), guess.script)) if others else set()
    evidence = {one: len(words & distinctive_words(one, main)) for one in others}
    best = max(evidence, key=lambda one: evidence[one], default=main)
    if best == main or evidence[best] < _MIN_EVIDENCE:
        return main
    return best if evidence[best] > len(words & distinctive_words(main, best)) else main


def _words(sample: str, script: str | None) -> list[str]:
    """Return the words of a text whose language is unclear; without names in Latin letters."""
    if script not in _SHARED_SCRIPTS:
        return []
    words = _WORD.findall(sample)
    return [word for word in words if word.islower()] if script == LATIN else words


def _guess(text: str) -> _Guess:
    text = _sample(text)
    script = _script_of_sample(text)
    if script is None:
        return _Guess(ENGLISH, None, is_clear=False)
    main = _MAIN_LANGUAGES.get(script, UNKNOWN)
    if script not in _SHARED_SCRIPTS:
        return _Guess(main, script)
    words = _words(text, script)
    has_evidence = script == LATIN and len(set(words) & _ENGLISH_WORDS) >= _MIN_EVIDENCE
    if has_evidence and _are_english(words):
        return _Guess(main, script)
    best = _most_probable(words, script) if words else None
    if best is not None and _is_confirmed(best, script, words):
        return _Guess(best, script)
    likely = main if best is None or script == LATIN else best
    return _Guess(likely, script, is_clear=False)


def _is_confirmed(language: str, script: str, words: Sequence[str]) -> bool:
    """Return whether the words confirm the language that is most probable by statistics."""
    if script != LATIN or language == ENGLISH:
        return len(words) >= _MIN_WORDS
    own = distinctive_words(language)
    english = distinctive_words(ENGLISH, language)
    found = [word for word in words if word in own]
    against = sum(word in english for word in words)
    if len(words) >= _MIN_WORDS_OF_RARE and against <= _MAX_AGAINST * len(words):
        return bool(found) or not own
    return (
        len(set(found)) >= (_MIN_DISTINCT if against else _MIN_DISTINCT - 1)
        and len(found) >= _MIN_FREQUENT * len(words)
        and len(found) >= _MIN_LEAD * against
    )


def foreign_language(question: str, known: Collection[str]) -> str:
    """Return the language of a question that is in none of some languages; empty if unclear.

    A question is too short for statistics: its script and its function words decide. Names alone
    say nothing.

    Args:
        question: The question.
        known: Codes of the languages.

    >>> foreign_language("Wer hat das Boot gebaut?", ["en"]), foreign_language("Weena?", ["en"])
    ('de', '')
    >>> foreign_language("谁造了这条船", ["en"]), foreign_language("谁造了这条船", ["en", "zh"])
    ('zh', '')
    """
    script = main_script(question)
    if script is None or UNKNOWN in known:
        return ""
    own = [code for code in known if script in scripts_of_language(code)]
    if script != LATIN:
        found = _MAIN_LANGUAGES.get(script, UNKNOWN)
        return "" if own or not known or found == UNKNOWN else found
    if not known or any(code not in _QUESTION_WORDS for code in own):
        return ""
    words = {word.lower() for word in _WORD.findall(_sample(question))}
    counts = {code: len(words & common) for code, common in _QUESTION_WORDS.items()}
    best = max(counts, key=lambda code: counts[code])
    most = max((counts[code] for code in own), default=0)
    return best if counts[best] >= _MIN_QUESTION_WORDS and counts[best] > most else ""


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


def _most_probable(words: Iterable[str], script: str) -> str | None:
    """Return the most probable language of words in a script; None if it is unclear."""
    probabilities: dict[str, float] = {}
    for label, probability in _identifier().rank(" ".join(words)):
        code = find_code(label)
        if code is not None and code != UNKNOWN:
            probabilities[code] = probabilities.get(code, 0.0) + float(probability)
    english = probabilities.get(ENGLISH, 0.0)
    best = max(probabilities, key=lambda code: probabilities[code])
    is_clear = probabilities[best] >= _MIN_OTHER and (best == ENGLISH or english <= _MAX_ENGLISH)
    return best if is_clear and script in LANGUAGES[best].scripts else None


@functools.cache
def _identifier() -> LanguageIdentifier:
    """Return the statistics, which are loaded once, on first use: this takes about a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
