"""Street addresses: `5 Elm St` and `5 Elm Street`, `Lindenstr. 7` and `Lindenstraße 7`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import NamedTuple

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


class Address(NamedTuple):
    """A number in a street.

    Attributes:
        start, end: Its characters, half-open.
        form: The number and the name of the street in lower case, without spaces.
    """

    start: int
    end: int
    form: str


def find_addresses(lowered: str) -> Iterator[Address]:
    """Yield the addresses in a text in lower case.

    >>> [one.form for one in find_addresses("at 5 elm st., 12 old mill road or lindenstr. 7")]
    ['5elmstreet', '12oldmillroad', '7lindenstraße']
    """
    for match in _AFTER_NUMBER.finditer(lowered):
        yield _address(match, _ENGLISH[match["street"]])
    for place in _GERMAN.finditer(lowered):
        start = max(0, place.start() - _LONGEST_NAME)
        if (found := _BEFORE_NUMBER.search(lowered, start, place.end() + 1)) is not None:
            yield _address(found, "straße")


def _address(match: re.Match[str], street: str) -> Address:
    name = re.sub(r"[\W_]", "", match["name"])
    return Address(*match.span(), f"{match['number']}{name}{street}")
