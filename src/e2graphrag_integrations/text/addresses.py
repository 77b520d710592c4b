"""Street addresses and telephone numbers: `5 Elm St`, `Lindenstr. 7`, `+49 170 1234567`.

The country of a telephone number and its groups are often left out or written in another way, so it
is found by its last digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

from e2graphrag_integrations.text.numbers import Found

_ENGLISH = MappingProxyType(
    {
        spelling: line.split()[0]
        for line in (
            "street st",
            "avenue ave av",
            "road rd",
            "lane ln",
            "drive dr",
            "boulevard blvd",
            "square sq",
            "court ct",
            "place pl",
            "terrace",
            "crescent",
            "highway hwy",
        )
        for spelling in line.split()
    }
)
# Begins with one class of characters, as `_HINT` in `codes` does.
_AFTER_NUMBER = re.compile(
    r"(?P<number>\d(?<![\w.,]\d)\d{0,4}[a-z]?),?\ "
    r"(?P<name>(?:[^\W\d_][^\W_]*(?:['’-][^\W_]+)?\.?\ ){1,3}?)"
    rf"(?P<street>{'|'.join(sorted(_ENGLISH, key=len, reverse=True))})(?!\w)"
)
_GERMAN = re.compile(r"str(?:aße|asse|\.) \d+")
_LONGEST_NAME = 32
_BEFORE_NUMBER = re.compile(
    r"(?<![\w-])(?P<name>[^\W\d_][\w-]*?[- ]?)str(?:aße|asse|\.)\ "
    r"(?P<number>\d{1,5}[a-z]?)(?!\w)"
)


def find_addresses(lowered: str) -> Iterator[Found]:
    """Yield the numbers in streets in a text in lower case.

    Their form is the number and the name of the street, without spaces.

    >>> [one.forms[0] for one in find_addresses("at 5 elm st., 12 old mill road or lindenstr. 7")]
    ['5elmstreet', '12oldmillroad', '7lindenstraße']
    """
    for match in _AFTER_NUMBER.finditer(lowered):
        yield _address(match, _ENGLISH[match["street"]])
    for place in _GERMAN.finditer(lowered):
        start = max(0, place.start() - _LONGEST_NAME)
        if (found := _BEFORE_NUMBER.search(lowered, start, place.end() + 1)) is not None:
            yield _address(found, "straße")


def _address(match: re.Match[str], street: str) -> Found:
    name = re.sub(r"[\W_]", "", match["name"])
    return Found(*match.span(), (f"{match['number']}{name}{street}",))


_PHONE = re.compile(
    r"""
    [+(\d](?:(?<![\w.,/+(-][+(\d])|(?<=\(\+))
    (?: (?<=\+)\d{7,15}
      | \d{0,14}\)?(?:(?:[\ \u00a0/-]{1,2}|(?<=\)))\(?\d{1,9}\)?){1,7} )
    (?![\dA-Za-z_]|[\ .,:/-]\d)
    """,
    re.VERBOSE,
)
_WITHOUT_PREFIX = re.compile(
    r"(?:\d{3}[ -])?\d{3}[ -]\d{4}|\d{3}[ -]\d{4}[ -]\d{4}|\d{2,5}/\d{4,9}(?:-\d{1,4})?"
)
"""A number that does not begin with a plus sign, a bracket or 0."""

_HINT = re.compile(r"\d(?:(?<=\+\d)|[ \u00a0/)-]{1,3}\(?\d{2})")
_NOT_DIGIT = re.compile(r"\D")
_SHORTEST, _LONGEST = 7, 15
_ENDS = (9, 7)
"""Numbers of last digits, of which the greatest that both numbers have is compared."""


def find_phones(text: str) -> Iterator[Found]:
    """Yield what may be telephone numbers in a text, in order.

    >>> [one.forms for one in find_phones("+49 170 1234567, 0170/1234567, 555-0134")]
    [('tel701234567', 'tel1234567'), ('tel701234567', 'tel1234567'), ('tel5550134',)]
    """
    if _HINT.search(text) is None:
        return
    for match in _PHONE.finditer(text):
        written = match.group()
        digits = _NOT_DIGIT.sub("", written)
        is_phone = written[0] in "+(0" or _WITHOUT_PREFIX.fullmatch(written)
        if is_phone and _SHORTEST <= len(digits) <= _LONGEST and len(written) > len(digits):
            forms = tuple(f"tel{digits[-end:]}" for end in _ENDS if len(digits) >= end)
            yield Found(*match.span(), forms)
