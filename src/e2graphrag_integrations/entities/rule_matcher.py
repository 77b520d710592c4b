"""Finding phrases and patterns of tokens in a text, in any script.

A token is a word, a punctuation mark, or a character of a script without spaces. No pipeline
divides mixed scripts so, so the tokens are ours; spaCy matches them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from e2graphrag_integrations.text.letters import MARKS, UNSPACED

MATCHING_VERSION = 2
"""Version of how rules are matched. Raise it when it changes."""

MAX_TOKENS = 30
"""Maximum number of tokens of a match."""

TOKEN = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])[\w{MARKS}])+|[^\w\s]")

_BLANK_LINES = re.compile(r"\n\s*\n")


class RuleMatch(NamedTuple):
    """A match of a rule: its span, its label, and the name that it means, if the rule has one."""

    start: int
    end: int
    label: str
    name: str = ""


class RuleMatcher:
    """Finds the matches of rules.

    Args:
        rules: Valid rules; see `EntityRules`.
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]]) -> None:
        from spacy.lang.lex_attrs import LEX_ATTRS
        from spacy.matcher import Matcher, PhraseMatcher
        from spacy.vocab import Vocab

        self._rules = rules
        self._vocab = Vocab(lex_attr_getters=LEX_ATTRS)
        self._patterns = Matcher(self._vocab, validate=False)
        self._phrases = PhraseMatcher(self._vocab)
        for at, rule in enumerate(rules):
            pattern = rule["pattern"]
            if isinstance(pattern, str):
                self._phrases.add(str(at), [self._doc(TOKEN.findall(pattern))])
            else:
                self._patterns.add(str(at), [pattern])

    def _doc(self, words: list[str]) -> Any:
        from spacy.tokens import Doc

        return Doc(self._vocab, words=words)

    def matches(self, text: str) -> list[RuleMatch]:
        """Return the matches in a text, in order and disjoint."""
        found = []
        gaps = [(0, 0), *(gap.span() for gap in _BLANK_LINES.finditer(text)), (len(text),) * 2]
        for (_, start_of_paragraph), (end, _) in pairwise(gaps):
            tokens = list(TOKEN.finditer(text, start_of_paragraph, end))
            taken: set[int] = set()
            for length, start, at in sorted(set(self._found([one.group() for one in tokens]))):
                span = range(start, start - length)
                if taken.isdisjoint(span):
                    taken.update(span)
                    rule = self._rules[at]
                    ends = tokens[start].start(), tokens[span[-1]].end()
                    found.append(RuleMatch(*ends, rule["label"], rule.get("id", "")))
        return sorted(found)

    def _found(self, words: list[str]) -> Iterator[tuple[int, int, int]]:
        """Yield each match: its negative length, its first token, and its rule."""
        doc = self._doc(words)
        for key, start, end in self._phrases(doc) if len(self._phrases) else ():
            yield start - end, start, int(self._vocab.strings[key])
        # spaCy finds all lengths of a repetition, so the time of a long text must be bounded.
        for first in range(0, len(doc) if len(self._patterns) else 0, MAX_TOKENS):
            for key, start, end in self._patterns(doc[first : first + 2 * MAX_TOKENS]):
                if end - start <= MAX_TOKENS:
                    yield start - end, first + start, int(self._vocab.strings[key])
