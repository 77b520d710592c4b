"""Token budgets: an answer never has more tokens than its budget, as the JSON that is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter

MIN_TOKENS = 200
MAX_TOKENS = 100_000
DEFAULT_LIMIT = 4_000
"""Smallest and largest budget, and the default limit of a server."""

DEFAULT_TOKENS = 2_000
"""Budget of a call that names none, if the limit of the server allows it."""

_CHARS_PER_TOKEN = 8
"""Maximum number of characters per token. The counter does not count white space."""

_NUMBER = 8
"""Tokens reserved for the number where the answer continues."""

_COUNTER = ApproximateTokenCounter()

T = TypeVar("T")


def as_values(value: Any) -> Any:
    """Return a data class as JSON values, without the fields that have their default value."""
    if is_dataclass(value):
        own = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: as_values(one) for field, one in own if one != field.default}
    return [as_values(one) for one in value] if isinstance(value, list) else value


def as_json(value: Any) -> str:
    """Return a data class as compact JSON; see `as_values`."""
    return json.dumps(as_values(value), ensure_ascii=False, separators=(",", ":"))


def count(text: str) -> int:
    """Return the approximate number of tokens in a text; white space counts by its length."""
    return max(_COUNTER.count(text), len(text) // _CHARS_PER_TOKEN)


@dataclass(frozen=True)
class Budget:
    """The budget of one call.

    Attributes:
        tokens: Maximum number of tokens in the answer.
    """

    tokens: int

    @classmethod
    def of(cls, requested: int | None, limit: int) -> Budget:
        """Return the requested budget, or the default one.

        Raises:
            InvalidInputError: If the request is below `MIN_TOKENS` or above the limit.
        """
        if requested is None:
            return cls(min(DEFAULT_TOKENS, limit))
        return cls(check_int("max_tokens", requested, MIN_TOKENS, limit))

    def fit(
        self, base: Any, items: Iterable[T], shorten: Callable[[T, int], T] | None = None
    ) -> tuple[list[T], bool]:
        """Return the first items that fit together with the rest of the answer, and if more follow.

        The first item is shortened if it does not fit.

        Args:
            base: The answer without the items.
            items: The items, as data classes. No more are taken than needed.
            shorten: Returns an item with at most a number of characters of text.

        Raises:
            InvalidInputError: If not even a shortened first item fits.
        """
        left = self.tokens - count(as_json(base)) - _NUMBER
        chosen: list[T] = []
        for item in items:
            cost = count(as_json(item)) + 1
            if cost <= left:
                chosen.append(item)
                left -= cost
            elif chosen:
                return chosen, True
            else:
                chosen.append(self._shortened(item, left, shorten))
                left = 0
        return chosen, False

    def _shortened(self, item: T, left: int, shorten: Callable[[T, int], T] | None) -> T:
        if shorten is not None and left > 0:
            characters = longest(
                lambda size: count(as_json(shorten(item, size))) + 1 <= left,
                left * _CHARS_PER_TOKEN,
            )
            if characters:
                return shorten(item, characters)
        raise InvalidInputError(f"max_tokens={self.tokens} is too low for this answer: allow more")


def longest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest size from 0 to `most` that fits; 0 if none does.

    Args:
        fits: Whether a size fits; if one does not, larger ones hardly ever do.
        most: The largest size to try.
    """
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def with_short_text(item: Any, characters: int) -> Any:
    """Return an item whose text has at most this many characters, and says so."""
    if item.text is None or len(item.text) <= characters:
        return item
    return replace(item, text=item.text[:characters], truncated=True)
