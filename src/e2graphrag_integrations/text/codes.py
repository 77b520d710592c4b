"""Codes: versions, clauses, part numbers, dates, addresses of computers and people, identifiers.

A tokenizer of words reads `2.10.1`, `2.1.10` and `1.2.10` as the same numbers. A code is therefore
a term of its own, beside the words it consists of. Terms of codes begin with `#`, which no word
does, unless they consist of digits alone. Different spellings of a code have one term: `RTX 4090`,
`rtx-4090` and `RTX4090`, or `2024-03-05` and `March 5, 2024`.

Dates, times, measures and numbered parts (`numbers`) are codes, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Protocol, TypeVar

from e2graphrag_integrations.text.addresses import find_addresses, find_phones
from e2graphrag_integrations.text.letters import UNSPACED
from e2graphrag_integrations.text.numbers import Found
from e2graphrag_integrations.text.numbers.dates import (
    MONTHS,
    SPOKEN_WORDS,
    find_dates,
    find_days,
    find_han_days,
    find_numeric_days,
    find_short_dates,
    find_spoken_times,
    find_times,
    is_month,
)
from e2graphrag_integrations.text.numbers.english import (
    TELLING_WORDS,
    find_spelled,
    lower,
    one_of,
)
from e2graphrag_integrations.text.numbers.han import find_amounts
from e2graphrag_integrations.text.numbers.measures import (
    UNIT_WORDS,
    Measure,
    find_han_measures,
    find_large_numbers,
    find_measures,
    find_sizes,
    find_spelled_measures,
    find_unit_prices,
)
from e2graphrag_integrations.text.numbers.numbered import (
    find_lettered,
    find_numbered,
    lettered_in_question,
    numbered_in_question,
)
from e2graphrag_integrations.text.numbers.periods import (
    WEEKDAYS,
    Period,
    find_periods,
    words_in_ranges,
)
from e2graphrag_integrations.text.words import FUNCTION_WORDS

MARK = "#"
"""First character of the term of a code."""

START = "^"
"""First character of a further term of a code with which a line begins, as that of a clause does
where it is written, but not where it is cited."""

_HANGUL = "가-힣"
_ALNUM = rf"[^\W_{UNSPACED}{_HANGUL}]"
"""A character of a code. Chinese and Japanese words and Korean particles adjoin codes."""

_ALONE, _ENDS = rf"(?<!_)(?<!{_ALNUM})", rf"(?!_|{_ALNUM})"
_CAPITAL_ALONE = rf"[A-Z](?<!_[A-Z])(?<!{_ALNUM}[A-Z])"
_HYPHENS = "\u2010\u2011-"

# A search skips to the first character of a pattern only if that is one class of characters, so
# patterns for whole texts begin with one, and look back after it.
_HINT = re.compile(
    rf"""
    [\d@_年点點时時:.A-Z{_HYPHENS}]
    (?: (?<=[\d@_年点點时時]) | (?<=:)// | (?<=\w\.)\w
      | (?<=[A-Z][{_HYPHENS}])[A-Z] | (?<=[a-z][A-Z]) )
    """,
    re.VERBOSE,
)
"""Every code matches it, and most words of prose do not."""

_IN_WORDS = TELLING_WORDS | SPOKEN_WORDS | UNIT_WORDS | MONTHS.keys()
"""Without one of these words, a text has no number, measure, time or day in words."""

_TOKEN = re.compile(r"\S+")
_REACH = 8
"""Maximum number of characters of a clause after its first space, as in `4.2 (b)`."""

_CODE = re.compile(
    rf"""
      (?P<mail>[\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+)
    | (?P<url>(?:https?://|www\.)[^\s<>"'()\[\]]+)
    | (?P<thousands>(?<![\d.,+])(?<!\d\ )\d{{1,3}}
        (?:(?:,\d{{3}})+|(?:['’]\d{{3}})+|(?:[\ \xa0\u202f]\d{{3}})+)(?:\.\d+)?(?![,.'’]?\d|\ \d))
    | (?P<joined>{_ALNUM}+(?:[./:+{_HYPHENS}]{_ALNUM}+)+(?:\ ?\({_ALNUM}{{1,4}}\))*)
    | (?P<clause>\d+(?:\ ?\({_ALNUM}{{1,4}}\))+)
    | (?P<name>[A-Za-z_]\w{{0,128}}_\w+)
    | (?P<word>{_ALNUM}+)
    """,
    re.VERBOSE,
)
_SPACED = re.compile(
    rf"({_CAPITAL_ALONE}[A-Za-z]{{1,14}}+)(?:\ |:\ ?|\ ?[=#])(\d{{1,6}}[A-Za-z]?){_ENDS}"
    rf"(?![.,/:{_HYPHENS}]{_ALNUM})"
)
"""A name before a number, such as `RTX 4090` or `Room: 103`."""

_GROUPED = re.compile(
    rf"""
      {_ALONE}(?<![+.,-])(?:(?P<country>\+\d{{1,3}})[\ -])?\(?\+?\d{{1,4}}\)?
        (?:[\ -]\d{{2,5}}){{2,6}}{_ENDS}(?![.,-]{_ALNUM})
    | {_ALONE}(?P<mixed>[A-Z]{{2}}\d{{2}}(?:\ [A-Z\d]{{4}}){{2,7}}(?:\ [A-Z\d]{{1,4}})?
        | (?:[A-Z]{{1,2}}\d[A-Z\d]?\ \d[A-Z]{{2}}|[A-Z]\d[A-Z]\ \d[A-Z]\d)){_ENDS}
    """,
    re.VERBOSE,
)
"""A number in groups, such as that of a telephone or a card, or of an account (IBAN), or the postal
code of an address in Britain or Canada."""

_GROUPED_HINT = re.compile(r"[\ -](?:(?<=[\dA-Z)].)\d|(?<=[A-Z]\d\d\ )[A-Z])")
"""What each number in groups contains."""

_UNIT = re.compile(r"(\d+(?:[.,]\d+)?)[^\W\d_]{1,3}")
"""A number and its unit, as in `62.5kg`."""

_DOTTED = re.compile(r"\d{1,3}(?:\.\d{3})+")
"""A number that may have dots between thousands, as in German."""

_MIN_GROUPED = 7
"""Minimum number of digits of a number in groups."""

_FRACTION = re.compile("[¼½¾⅐-⅞]")

_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_BEFORE = re.compile(rf"({_ALNUM}+)[\ .#§]+\Z")
_LONGEST_BEFORE = 64
_MAX_MONTH = 12
_DOTTED_TIME = re.compile(r"(?:1?\d|2[0-3])\.[0-5]\d")
_BEFORE_TIMES = frozenset("at by until till um gegen".split())
_BEFORE_DAYS = re.compile(
    r"(?:\A|[\n|;•]|\b(?:am|bis|dem|den|der|on|since|seit|und|until|vom|zum"
    rf"|(?:{one_of(*WEEKDAYS)}|date|datum|termin|deadline|due|wann|when)[.,:]?))\s*\Z",
    re.IGNORECASE,
)
"""What stands before a day such as `24.03.`, rather than a price, a grade or a version."""

_TIMES = frozenset(
    "around autumn circa early eve fall late mid season spring summer winter year years".split()
)
"""Words before a year, besides function words and months."""

_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)
_NOT_DIGIT = re.compile(r"\D")
_THOUSANDS = re.compile(r"[,'’\s]")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
_BETWEEN = re.compile(r"(?<=[^\W\d_])[-_\ ](?=\d)|(?<=\d)[-_\ ](?=[^\W\d_])")
_BRACKETED_DIGIT = re.compile(r"(?<=\d)\((?=\d)")
_NO_BRACKETS = str.maketrans("", "", "()")
_CLAUSE_PART = re.compile(r" ?\(.*")
_VERSION = re.compile(r"v(?=\d+(?:\.|\Z))")
_LONG_NUMBER = re.compile(r"[\d-]{11,}")
_VERB = re.compile(
    r"(?<!\bon )(?<!\bby )(?<!\bfrom )(?<!\buntil )(?<!\bsince )(?<!\bbefore )(?<!\bafter )"
    r"\d\d? (?:may|march) "
    r"(?!(?:a|and|at|for|from|i|in|is|of|on|or|the|to|until|was|we|with)\b)[a-z]"
)
"""A number and a verb in lower case, as in "up to 12 may attend"."""

_HASH = re.compile(r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}")
_SHORT_HASH = 7
"""Number of digits to which hashes are often shortened."""

_NAME = re.compile(r"[a-z_]\w+(?:\.[a-z_]\w+)+|[A-Z]+(?:-[A-Z]+)+")
"""Codes without digits: `os.path.join`, `www.example.org`, `AB-CX`."""

_LINE_START = re.compile(
    r"[\s#>*•\-\[(§|\"']*(?:(?:section|clause|article|art|paragraph|version|release|item|chapter|step"
    r"|part|no|nr|rule|v|error|code|fault|bug|ticket|issue|case|invoice|order|task|problem|id)"
    r"\b\.?\s*)?",
    re.IGNORECASE,
)
_MIN_LONG_NUMBER = 9
_MIN_NUMBER = 4
"""Minimum number of digits of a plain number in a question that may be written with commas."""

_MIN_AMOUNT = 3
"""The same for a number in words, or with a word for a million."""

_HALF_WIDTH = MappingProxyType(
    {0xFEE0 + ord(one): one for one in "0123456789:%+-./"}
    | {0x2080 + digit: str(digit) for digit in range(10)}
)
"""Characters in half width for those in full width, and digits for subscripts, as in CO₂."""

_HUMPS = re.compile(r"[a-z]{2,}(?:[A-Z][a-z0-9]+)+")
_HUMP = re.compile(r"[A-Z]?[a-z0-9]+")


class _Span(Protocol):
    """Characters of a text, half-open."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


_Part = TypeVar("_Part", bound=_Span)


@dataclass(frozen=True, slots=True)
class QuestionCode:
    """A code in a question.

    Attributes:
        text: The code as written.
        terms: The terms it may have in the index, the most specific first.
    """

    text: str
    terms: tuple[str, ...]


def code_terms(text: str, words: Iterable[str] | None = None) -> list[str]:
    """Return the terms of the codes in a text, each once and in the order of the alphabet.

    Identifiers also have the terms of their words.

    Args:
        text: The text.
        words: Its terms (`terms_of`), if they are known, which saves time.

    >>> code_terms("Upgrade to v2.10.1 by 5 March 2024")
    ['#--03', '#--03-05', '#2.10.1', '#2024-03', '#2024-03-05']
    >>> code_terms("The cat sat on 2 mats in 1984.")
    []
    """
    terms: set[str] = set()
    text = _half_width(text)
    for part in chain(find_numbered(text), find_lettered(text)):
        terms.update(MARK + form for form in part.forms)
        if _begins_line(text, part.start):
            terms.update(START + form for form in part.forms)
    terms.update(form for match in _FRACTION.finditer(text) for form in _marked(_fraction(match)))
    terms.update(form for one in find_amounts(text) for form in one.forms)
    terms.update(term for one in find_han_days(text) for term in _terms_of_day(one))
    terms.update(_terms_of_numbers(text, words))
    terms.update(words_in_ranges(text))
    if _HINT.search(text) is None:
        return sorted(terms)
    dates, times = list(find_dates(text)), list(find_times(text))
    in_dates = _covered(text, dates)
    # One with dots may be a version, so it remains a code as well.
    short = _outside(find_short_dates(text), in_dates)
    terms.update(term for date in (*dates, *short) for term in _terms_of_parts(date))
    for moment in (*dates, *times, *short):
        terms.update(MARK + form for form in moment.forms)
        if _begins_line(text, moment.start):
            terms.update(START + one for one in moment.forms)
    numeric = _outside(find_numeric_days(text), in_dates)
    terms.update(
        term for one in numeric if _is_day(text, one.start, one.end) for term in _terms_of_day(one)
    )
    terms.update(one.forms[0] for one in find_large_numbers(text))
    phones = _outside(find_phones(text), in_dates)
    terms.update(MARK + form for one in phones for form in one.forms)
    terms.update(
        _term(form) for match in _groups(text, in_dates) for form in _forms_of_groups(match)
    )
    for match in _SPACED.finditer(text):
        if not _YEAR.fullmatch(match[2]) and not is_month(match[1]):
            terms.add(MARK + _normal(match[1] + match[2]))
    for match in _codes(text, _covered(text, dates, times)):
        forms = _forms(match)
        terms.update(map(_term, forms))
        if forms and _begins_line(text, match.start()):
            terms.add(START + forms[0])
        terms.update(_words(match))
    return sorted(terms)


def question_codes(question: str) -> list[QuestionCode]:
    """Return the codes in a question, in order.

    A word before a number may belong to it, as in "rtx 4090".

    >>> [one.terms for one in question_codes("What does clause 12.3 say?")]
    [('#clause12.3', '#12.3')]
    """
    written, question = question, _half_width(question)
    dates, lowered = list(find_dates(question)), lower(question)
    in_full = _covered(question, dates)
    short = _outside(find_short_dates(question), in_full)
    in_dates = _covered(question, dates, short)
    times = [*find_times(question), *find_spoken_times(lowered)]
    measures = [
        *find_measures(lowered),
        *find_spelled_measures(lowered),
        *find_han_measures(lowered),
        *find_sizes(lowered),
    ]
    in_measures = _covered(question, measures)
    measures += _outside(find_large_numbers(question), in_measures)
    in_measures = _covered(question, dates, measures)
    periods, addresses = list(find_periods(lowered)), list(find_addresses(lowered))
    found = [*dates, *numbered_in_question(question), *lettered_in_question(question)]
    days = [*find_days(lowered), *find_han_days(question)]
    found += _outside(days, in_dates)
    phones = _outside(find_phones(question), in_dates)
    groups = [_numbered_groups(match, phones) for match in _groups(question, in_dates)]
    phones = _outside(phones, _covered(question, groups))
    found += groups
    found += (Found(*one.span(), _fraction(one)) for one in _FRACTION.finditer(question))
    asked: list[tuple[_Span, tuple[str, ...]]] = [(one, _marked(one.forms)) for one in found]
    asked += [
        (one, _marked([*one.forms, *_dotted(question[one.start : one.end], one)])) for one in times
    ]
    asked += [
        (one, one.forms)
        for one in _outside(find_amounts(question), in_measures)
        if len(one.forms[0]) >= _MIN_AMOUNT
    ]
    asked += [(one, _terms_of_asked_measure(one)) for one in _outside(measures, in_dates)]
    asked += [
        (one, _terms_of_asked_period(one))
        for one in periods
        if one.year or "half" not in lowered[one.start : one.end]  # that of a book
    ]
    asked += [(one, (MARK + one.forms[0],)) for one in addresses]
    asked += [
        (one, _marked([_NOT_DIGIT.sub("", question[one.start : one.end]), *one.forms]))
        for one in phones
    ]
    asked += [(one, _marked([_normal(question[one.start : one.end]), *one.forms])) for one in short]
    codes = [QuestionCode(written[one.start : one.end], terms) for one, terms in asked]
    covered = _covered(
        question, dates, short, days, times, measures, periods, addresses, phones, groups
    )
    codes += [
        QuestionCode(written[start:end], terms)
        for start, end, terms in _other_codes(question, covered)
    ]
    return list({one.terms[0]: one for one in reversed(codes)}.values())[::-1]


def _other_codes(question: str, covered: bytearray) -> Iterator[Found]:
    """Yield the codes that begin outside the masked characters of a question, in order."""
    for match in _codes(question, covered):
        raw, forms = match.group(), _forms(match)
        start = max(0, match.start() - _LONGEST_BEFORE)
        before = _BEFORE.search(question, start, match.start()) if raw[:1].isdigit() else None
        named = [before[1]] if before is not None and not before[1].isdigit() else []
        terms = _marked([*(_normal(one + raw) for one in named), *forms])
        if forms:
            terms += _marked([_normal(one + _CLAUSE_PART.sub("", raw)) for one in named])
        elif raw.isdigit() and len(raw) >= _MIN_NUMBER:
            is_year = _YEAR.fullmatch(raw) and not (named and _is_label(named[0]))
            terms += () if is_year else _marked([raw])
        others = _marked(_other_readings(question, match, named))
        is_dotted_day = "." in raw and any(one.startswith(f"{MARK}--") for one in others)
        terms = (*others, *terms) if is_dotted_day else (*terms, *others)
        if terms:
            yield Found(*match.span(), tuple(dict.fromkeys(terms)))


def _other_readings(question: str, code: re.Match[str], named: Sequence[str]) -> Iterator[str]:
    """Yield the forms of the day and the time that a code such as `24/03` or `8.45` may be."""
    raw = code.group()
    if _DOTTED_TIME.fullmatch(raw) and any(one.casefold() in _BEFORE_TIMES for one in named):
        yield raw.replace(".", ":")
    for day in find_numeric_days(f"{raw}." if "." in raw else raw):
        if _is_day(question, *code.span()):
            yield from day.forms


def _dotted(written: str, time: Found) -> tuple[str, ...]:
    """Return a time with a dot, unless it is a whole hour: "8.00" may be a price."""
    is_exact = not {":", "."}.isdisjoint(written) and not time.forms[0].endswith(":00")
    return (time.forms[0].replace(":", "."),) if is_exact else ()


def _is_day(text: str, start: int, end: int) -> bool:
    """Return whether two numbers are a day rather than a grade (10/10), a price or a version."""
    if _BEFORE_DAYS.search(text[max(0, start - _LONGEST_BEFORE) : start]) is not None:
        return True
    first, slash, _ = text[start:end].partition("/")
    return bool(slash) and int(first) > _MAX_MONTH


def _half_width(text: str) -> str:
    """Return a text with digits and colons in half width, each in its place."""
    return text if text.isascii() else text.translate(_HALF_WIDTH)


def _fraction(match: re.Match[str]) -> tuple[str]:
    """Return the form of a fraction of one character, such as ½."""
    return (unicodedata.normalize("NFKC", match.group()).replace("\u2044", "/"),)


def _is_label(word: str) -> bool:
    """Return whether a word may name what a number identifies, as in "order 2045"."""
    return word.casefold() not in FUNCTION_WORDS | _TIMES and not is_month(word)


def _codes(text: str, covered: bytearray) -> Iterator[re.Match[str]]:
    """Yield what may be a code, except what begins at a masked character, in order."""
    end = 0
    for token in _TOKEN.finditer(text):
        if token.end() <= end or _HINT.search(text, *token.span()) is None:
            continue
        for match in _CODE.finditer(text, max(end, token.start()), token.end() + _REACH):
            if match.start() >= token.end():
                break
            end = match.end()
            if not covered[match.start()]:
                yield match


def _marked(forms: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_term, forms)))


def _term(form: str) -> str:
    """Return the term of a normal form. One of digits alone is the word that such a number is.

    Otherwise, the few texts with "1,500" or "1500m" would seem to be the only ones with the number.
    """
    return form if form.isdigit() else MARK + form


def _terms_of_parts(date: Found) -> Iterator[str]:
    """Yield the terms of the month of a date, with and without its year, and of its day."""
    for form in date.forms:
        yield MARK + form[: len("2024-03")]
        yield f"{MARK}-{form[len('2024') :]}"
        yield f"{MARK}-{form[len('2024') : len('2024-03')]}"


def _terms_of_day(day: Found) -> Iterator[str]:
    for form in day.forms:
        yield MARK + form
        yield MARK + form[: len("--03")]


def _terms_of_numbers(text: str, words: Iterable[str] | None) -> Iterator[str]:
    """Yield the terms of numbers in words, measures, and parts of days and years."""
    lowered = lower(text)
    measures = [find_measures(lowered), find_unit_prices(lowered)]
    measures += [find_han_measures(lowered), find_sizes(lowered)]
    yield from (MARK + form for one in find_addresses(lowered) for form in one.forms)
    if words is None or not _IN_WORDS.isdisjoint(words):
        measures.append(find_spelled_measures(lowered))
        yield from (form for one in find_spelled(lowered) for form in one.forms)
        days = (one for one in find_days(lowered) if not _VERB.match(text, one.start))
        yield from (term for one in days for term in _terms_of_day(one))
        yield from (MARK + form for one in find_spoken_times(lowered) for form in one.forms)
    yield from (term for found in measures for one in found for term in _terms_of_measure(one))
    yield from (term for one in find_periods(lowered) for term in _terms_of_period(lowered, one))


def _terms_of_measure(measure: Measure) -> Iterator[str]:
    yield from map(_term, measure.forms)
    if measure.is_scaled:
        yield _term(measure.number)


def _terms_of_asked_measure(measure: Measure) -> tuple[str, ...]:
    number = measure.number
    is_telling = len(number) >= (_MIN_AMOUNT if measure.is_scaled else _MIN_NUMBER)
    return _marked([*measure.forms, *([number] if is_telling else [])])


def _terms_of_period(text: str, period: Period) -> Iterator[str]:
    """Yield the terms of a quarter or half: with its year or without one, and of any year.

    One that is written out also has its short name as a word.
    """
    name = period.name
    yield from _marked((f"{period.year or '-'}-{name}", f"-{name}"))
    if name not in text[period.start : period.end]:
        yield name


def _terms_of_asked_period(period: Period) -> tuple[str, ...]:
    name = period.name
    return _marked((f"{period.year}-{name}", f"--{name}") if period.year else (f"-{name}",))


def _covered(text: str, *parts: Iterable[_Span]) -> bytearray:
    """Return a mask of the characters in some parts of a text: an attacker may write thousands."""
    mask = bytearray(len(text) + 1)
    for one in chain(*parts):
        mask[one.start : one.end] = b"\1" * (one.end - one.start)
    return mask


def _outside(parts: Iterable[_Part], covered: bytearray) -> list[_Part]:
    """Return the parts of a text without a masked character."""
    return [one for one in parts if 1 not in covered[one.start : one.end]]


def _begins_line(text: str, at: int) -> bool:
    start = text.rfind("\n", 0, at) + 1
    return _LINE_START.fullmatch(text, start, at) is not None


def _forms(match: re.Match[str]) -> list[str]:
    """Return the normal forms of a code, the whole code first; [] if the match is none."""
    return list(dict.fromkeys(_FORMS[match.lastgroup or ""](match.group())))


def _groups(text: str, in_dates: bytearray) -> Iterator[re.Match[str]]:
    """Yield the numbers in groups, except dates, in order."""
    if _GROUPED_HINT.search(text) is None:
        return
    for match in _GROUPED.finditer(text):
        is_date = 1 in in_dates[match.start() : match.end()]
        # Hyphens alone are part of a number: 12-34-567 is not 123-45-67.
        if not is_date and " " in match.group() and _forms_of_groups(match):
            yield match


def _numbered_groups(match: re.Match[str], phones: Sequence[Found]) -> Found:
    """Return a number in groups, with the forms of the telephone numbers that it may be."""
    same = (one for one in phones if one.start < match.end() and match.start() < one.end)
    forms = [*_forms_of_groups(match), *(form for one in same for form in one.forms)]
    return Found(*match.span(), tuple(forms))


def _forms_of_groups(match: re.Match[str]) -> list[str]:
    """Return the characters of all groups, and of those after the prefix of a country."""
    if match["mixed"]:
        return [match["mixed"].replace(" ", "").casefold()]
    country = match["country"] or ""
    local = _NOT_DIGIT.sub("", match.group()[len(country) :])
    if len(local) < _MIN_GROUPED:
        return []
    return list(dict.fromkeys([country[1:] + local, local]))


def _forms_of_url(raw: str) -> Iterator[str]:
    yield raw.casefold().rstrip("./,;:!?").removeprefix("https://").removeprefix("http://")


def _forms_of_name(raw: str) -> Iterator[str]:
    if raw.strip("_"):
        yield from (raw.casefold(), _normal(raw))


def _forms_of_word(raw: str) -> Iterator[str]:
    if _DIGIT.search(raw) and _LETTER.search(raw) and not _ORDINAL.fullmatch(raw):
        form = _normal(raw)
        yield form
        yield from _forms_without_unit(form)
        if _HASH.fullmatch(form):
            yield form[:_SHORT_HASH]


def _forms_of_parts(raw: str) -> Iterator[str]:
    if _DIGIT.search(raw) or _NAME.fullmatch(raw):
        yield _normal(raw)
        yield from _forms_without_unit(_normal(raw))
        if _DOTTED.fullmatch(raw):
            yield raw.replace(".", "")
        if "(" in raw:
            yield _normal(raw.partition("(")[0].rstrip())


def _forms_without_unit(form: str) -> Iterator[str]:
    if (number := _UNIT.fullmatch(form)) is not None:
        yield number[1]


def _normal(raw: str) -> str:
    """Return the normal form of a code: without case, and without marks where spellings differ."""
    form = re.sub(f"[{_HYPHENS}]", "-", raw.casefold())
    form = _VERSION.sub("", form) if form.startswith("v") else form
    form = _BETWEEN.sub(
        "", _BRACKETED_DIGIT.sub(".", form.replace(" ", "")).translate(_NO_BRACKETS)
    )
    if _LONG_NUMBER.fullmatch(form) and sum(map(str.isdigit, form)) >= _MIN_LONG_NUMBER:
        return form.replace("-", "")
    return form


def _words(match: re.Match[str]) -> Iterator[str]:
    """Yield the words of an identifier, as plain terms."""
    raw = match.group()
    if match["name"]:
        yield from (one for one in raw.casefold().split("_") if one)
    elif match["word"] and _HUMPS.fullmatch(raw):
        yield from (one.casefold() for one in _HUMP.findall(raw))


_FORMS: Mapping[str, Callable[[str], Iterator[str]]] = MappingProxyType(
    {
        "mail": lambda raw: iter([raw.casefold()]),
        "url": _forms_of_url,
        "thousands": lambda raw: iter([_THOUSANDS.sub("", raw)]),
        "joined": _forms_of_parts,
        "clause": lambda raw: iter([_normal(raw)]),
        "name": _forms_of_name,
        "word": _forms_of_word,
    }
)
"""How the groups of the pattern of a code become normal forms."""
