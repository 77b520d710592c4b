"""Telephone numbers: `+49 170 1234567`, `0170/123-4567`, `(212) 555-0134`.

The country and the groups are often left out or written in another way, so a number is found by its
last digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from e2graphrag_integrations.text.numbers.numbered import Numbered

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

NAME = "tel"


def find_phones(text: str) -> Iterator[Numbered]:
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
            forms = tuple(f"{NAME}{digits[-end:]}" for end in _ENDS if len(digits) >= end)
            yield Numbered(*match.span(), forms)
