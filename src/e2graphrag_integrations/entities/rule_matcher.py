"""Finding phrases and patterns of tokens in a text, in any script.

A token is a word, a punctuation mark, or a character of a script without spaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from e2graphrag_integrations.text.letters import MARKS, UNSPACED

MATCHING_VERSION = 1
"""Version of how rules are matched. Raise it when it changes."""

MAX_TOKENS = 30
"""Maximum number of tokens of a match."""

TOKEN = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])[\w{MARKS}])+|[^\w\s]")

_BLANK_LINE = re.compile(r"\n\s*\n")
_SHAPE_RUN = 4
"""Number of equal characters after which a shape no longer grows, as in spaCy."""


def _is_punctuation(text: str) -> bool:
    return not any(map(str.isalnum, text))


FLAGS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "IS_ALPHA": str.isalpha,
        "IS_DIGIT": str.isdigit,
        "IS_LOWER": str.islower,
        "IS_UPPER": str.isupper,
        "IS_TITLE": str.istitle,
        "IS_PUNCT": _is_punctuation,
    }
)
"""What an attribute says about a token, by its name in patterns."""


class RuleMatch(NamedTuple):
    """A match of a rule: its span, its label, and the name that it means, if the rule has one."""

    start: int
    end: int
    label: str
    name: str = ""


class _Token(NamedTuple):
    start: int
    end: int
    text: str


class _Step(NamedTuple):
    """A token of a pattern: whether it can be left out, and may repeat, and what it requires."""

    is_optional: bool
    repeats: bool
    texts: Mapping[str, tuple[frozenset[str], bool]]
    flags: Mapping[str, bool]

    @classmethod
    def of(cls, token: Mapping[str, Any]) -> _Step:
        """Return the step for the attributes of a token."""
        operator = token.get("OP", "1")
        texts: dict[str, tuple[frozenset[str], bool]] = {}
        for name in ("TEXT", "LOWER", "SHAPE"):
            if name in token:
                value = token[name]
                given = value if isinstance(value, Mapping) else {"IN": [value]}
                [(kind, values)] = given.items()
                texts[name] = frozenset(values), kind == "IN"
        flags = {name: value for name, value in token.items() if name in FLAGS}
        return cls(operator in {"?", "*"}, operator in {"*", "+"}, texts, flags)

    def accepts(self, text: str) -> bool:
        """Return whether a token of a text meets the requirements."""
        return all(
            (_FORMS[name](text) in values) is is_in for name, (values, is_in) in self.texts.items()
        ) and all(FLAGS[name](text) is wanted for name, wanted in self.flags.items())


def _shape(text: str) -> str:
    """Return the shape of a word: "Xxxx" for "London", "dddd" for "2026"."""
    shape = ""
    for one in text:
        kind = ("X" if one.isupper() else "x") if one.isalpha() else "d" if one.isdigit() else one
        if not shape.endswith(kind * _SHAPE_RUN):
            shape += kind
    return shape


_FORMS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"TEXT": str, "LOWER": str.lower, "SHAPE": _shape}
)


class RuleMatcher:
    """Finds the matches of rules.

    A state is a set of places in a pattern, as in an automaton, so no pattern takes exponential
    time.

    Args:
        patterns: Valid rules; see `EntityRules`.
    """

    def __init__(self, patterns: Sequence[Mapping[str, Any]]) -> None:
        self._phrases: dict[str, Any] = {}
        self._patterns: list[tuple[list[_Step], tuple[str, str]]] = []
        for rule in patterns:
            meaning = rule["label"], rule.get("id", "")
            if isinstance(rule["pattern"], str):
                branch = self._phrases
                for token in TOKEN.findall(rule["pattern"]):
                    branch = branch.setdefault(token, {})
                branch.setdefault("", meaning)  # no token is empty; the first rule wins
            else:
                self._patterns.append(([_Step.of(token) for token in rule["pattern"]], meaning))

    def matches(self, text: str) -> list[RuleMatch]:
        """Return the matches in a text, in order and disjoint."""
        tokens = [_Token(*m.span(), m.group()) for m in TOKEN.finditer(text)]
        found: list[RuleMatch] = []
        at = 0
        while at < len(tokens):
            best = max(self._at(tokens, at), key=lambda one: one[0], default=(0, ("", "")))
            end, (label, name) = best
            if end and not _BLANK_LINE.search(text, tokens[at].start, tokens[end - 1].end):
                found.append(RuleMatch(tokens[at].start, tokens[end - 1].end, label, name))
                at = end
            else:
                at += 1
        return found

    def _at(self, tokens: Sequence[_Token], first: int) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield the end of the longest match of each kind that begins at a token."""
        branch, end = self._phrases, first
        longest = None
        while end < len(tokens) and tokens[end].text in branch:
            branch = branch[tokens[end].text]
            end += 1
            if "" in branch:
                longest = end, branch[""]
        if longest is not None:
            yield longest
        for steps, meaning in self._patterns:
            last = _longest_match(steps, tokens, first)
            if last:
                yield last, meaning


def _longest_match(steps: Sequence[_Step], tokens: Sequence[_Token], first: int) -> int:
    """Return the end of the longest match of a pattern from a token on; 0 if there is none."""
    places, end, last = _reachable(steps, {0}), first, 0
    while places and end < len(tokens) and end - first < MAX_TOKENS:
        text = tokens[end].text
        accepted = {at for at in places if at < len(steps) and steps[at].accepts(text)}
        repeated = {at for at in accepted if steps[at].repeats}
        places = _reachable(steps, {at + 1 for at in accepted}) | _reachable(steps, repeated)
        end += 1
        if len(steps) in places:
            last = end
    return last


def _reachable(steps: Sequence[_Step], places: Iterable[int]) -> set[int]:
    """Return places in a pattern, and those after tokens that can be left out."""
    found: set[int] = set()
    for place in places:
        at = place
        found.add(at)
        while at < len(steps) and steps[at].is_optional:
            at += 1
            found.add(at)
    return found
