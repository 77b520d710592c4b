"""Normal forms of entity names in any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from e2graphrag_integrations.text.letters import has_han
from e2graphrag_integrations.text.spellings import STROKES
from e2graphrag_integrations.text.words import has_unspaced

ARTICLES = frozenset({"a", "an", "the"})
"""Words that a normal form leaves out at its beginning."""

ADDRESSES = frozenset(
    "mr mrs ms miss mme mlle messrs dr prof rev hon capt col gen maj lt sgt cpl".split()
)
"""Forms of address that are not part of a name."""

HONORIFICS = ADDRESSES | frozenset(
    "madame monsieur doctor professor sir dame lady lord reverend captain colonel general major "
    "lieutenant sergeant president king queen prince princess duke duchess count countess baron "
    "baroness saint st father mother uncle aunt pope emperor empress".split()
)
"""Words that precede a name or, as in "Prince of Wales", are part of one."""

FORM_RULES = 3
"""Version of the rules of normal forms. A snapshot of another version is built again."""

_BEFORE_NAMES = HONORIFICS | ARTICLES
_SPACE = re.compile(r"\s+")
_MAX_PART = 24
"""Maximum length of a part of a name, in words, or in characters for a script without spaces.
Bounds the number of parts."""

_MIN_BEGINNING, _MIN_END = 0.4, 0.51
"""Minimum share of the length for a part of a form without words, at its beginning and its end. In
Chinese, the last word of a name is often generic, such as 公路."""

_POSSESSIVE = re.compile(r"['’]s?$", re.IGNORECASE)
_ARTICLE = re.compile(f"(?:{'|'.join(sorted(ARTICLES))}) ", re.IGNORECASE)
_WORD = re.compile(r"\w+")


_IGNORED = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e0fff"  # soft hyphens, joiners, direction marks, variation selectors
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # vowels and accents of Hebrew
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"  # of Arabic
)
_VARIANTS = {
    **dict.fromkeys("أإآٱ", "ا"),
    "ی": "ي",  # the letters of Persian and Urdu
    "ک": "ك",
    "ё": "е",
    "ı": "i",
}
"""Letters that many writers replace by another one, in casefolded text."""

_TRANSLATION = str.maketrans(_VARIANTS)

_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3"
_MIDDLE_DOTS = re.compile(rf"(?<=[{_CJK}])\s*[·・•‧∙⋅]\s*(?=[{_CJK}])")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_RULED = re.compile(
    rf"[{_IGNORED}{''.join(_VARIANTS)}]|i\u0307|(?<=[{_CJK}])\s*[·・•‧∙⋅]|(?![0-9])\d"
)
_LATIN_MARK = re.compile("([a-z])[\u0300-\u036f]+")
_IGNORED_RUN = re.compile(f"[{_IGNORED}]+")


def normal_form(name: str) -> str:
    r"""Return the normal form of a name: NFKC, casefolded, trimmed, with single spaces.

    Leading articles, quotes and a trailing possessive are removed unless nothing would remain.
    Characters without a width, the vowel marks of Arabic and Hebrew, and the differences between
    letters that writers often replace by each other are removed, as between the two letters i of
    Turkish.

    >>> normal_form("The  Palace of  Green Porcelain's")
    'palace of green porcelain'
    >>> normal_form("İSTANBUL") == normal_form("istanbul")
    True
    """
    return _stable_form(name, str.casefold)


def fold_letters(text: str) -> str:
    """Return a text in which letters that normal forms do not tell apart are equal.

    Unlike in a normal form, spaces, punctuation and articles remain.
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    return text if text.isascii() else _without_variants(unicodedata.normalize("NFKC", text))


def without_marks(form: str) -> str:
    """Return a normal form without the marks and strokes of its Latin letters.

    >>> without_marks("brontë"), without_marks("søren"), without_marks("łukasz")
    ('bronte', 'soren', 'lukasz')
    """
    if form.isascii():
        return form
    return _LATIN_MARK.sub(r"\1", unicodedata.normalize("NFD", form)).translate(STROKES)


def cased_form(name: str) -> str:
    r"""Return the normal form of a name, but with its capitals.

    >>> cased_form("The  Palace of  Green Porcelain's")
    'Palace of Green Porcelain'
    """
    return _stable_form(name, str)


def _stable_form(name: str, fold: Callable[[str], str]) -> str:
    previous = ""
    form = name
    while form != previous:  # casefolding can undo NFKC, so repeat until stable
        previous = form
        form = fold(unicodedata.normalize("NFKC", form))
        if not form.isascii() and _RULED.search(form):
            form = _without_variants(form)
        form = _SPACE.sub(" ", form).strip()
        form = _without_articles(_without_possessive(_trim(form)))
    return form if _WORD.search(form) else ""


def _without_variants(form: str) -> str:
    """Replace characters that writers often omit or replace by others."""
    form = _IGNORED_RUN.sub("", form)
    form = _MIDDLE_DOTS.sub("·", form)
    form = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit.group())), form)
    return form.replace("i\u0307", "i").translate(_TRANSLATION)


def _without_possessive(form: str) -> str:
    """Strip every "'s" and "'" from the end."""
    end = len(form)
    while mark := _POSSESSIVE.search(form, max(0, end - 2), end):
        end = mark.start()
        while end and form[end - 1].isspace():
            end -= 1
    return form[:end].strip()


def _without_articles(form: str) -> str:
    """Strip all articles from the start, unless nothing with a letter or digit would remain."""
    at = 0
    while (article := _ARTICLE.match(form, at)) and (word := _WORD.search(form, article.end())):
        at = word.start()
    return form[at:]


def _trim(form: str) -> str:
    """Strip all characters except letters and digits from both ends, but keep a final period."""
    start, end = 0, len(form)
    while start < end and not _WORD.match(form[start]):
        start += 1
    last = end
    while last > start and form[last - 1] != "." and not _WORD.match(form[last - 1]):
        last -= 1
    while last < end and form[last] in "+#" and last > start:  # C, C++ and C# are three names
        last += 1
    # Vowel signs and tone marks belong to the preceding letter, although `\w` excludes them.
    while last < end and unicodedata.category(form[last]).startswith("M"):
        last += 1
    return form[start:last]


def without_honorifics(form: str) -> str:
    """Remove leading honorifics and articles from a normal form, but keep at least one word.

    In Chinese, forms of address follow the name: of 李先生, 李 remains.
    """
    if has_han(form):
        from e2graphrag_integrations.entities.chinese.names import without_chinese_address

        form = without_chinese_address(form)
    words = form.split(" ")
    last = len(words) - 1
    first = next((i for i, word in enumerate(words) if word.rstrip(".") not in _BEFORE_NAMES), last)
    return " ".join(words[min(first, last) :])


def sub_spans(form: str) -> list[str]:
    """Return the contiguous parts of a normal form, longest first, then left to right.

    Parts consist of complete words. A form in a script without spaces has no words, unless dots
    separate them, as in a transliterated name. Its parts are its beginnings, and its ends that are
    longer than the rest: other parts would cross the borders of words.

    >>> sub_spans("约瑟夫·洛克"), sub_spans("北京市政府")
    (['约瑟夫', '洛克'], ['北京市政', '京市政府', '北京市', '市政府', '北京'])
    """
    glue = "·" if "·" in form and has_unspaced(form) else " "
    units = form.split(glue)
    if len(units) == 1:
        return _ends_of(form) if has_unspaced(form) else []
    return [
        glue.join(units[start : start + size])
        for size in range(min(len(units) - 1, _MAX_PART), 0, -1)
        for start in range(len(units) - size + 1)
    ]


def _ends_of(form: str) -> list[str]:
    length = len(form)
    return [
        part
        for size in range(min(length - 1, _MAX_PART), 1, -1)
        for part, least in ((form[:size], _MIN_BEGINNING), (form[-size:], _MIN_END))
        if size >= least * length
    ]
