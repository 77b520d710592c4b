"""Rules for names that a statistical model misses, such as the titles of works.

A run of capitalized words is a name. It may include joiners such as "of", "the", "&", "de" and "'s"
between capitalized words. A quotation in which all content words are capitalized is also a name.
The first word of a sentence needs further evidence: a proper-noun tag, or the tag of another noun
or an adjective and no lowercase occurrence in the text. Hyphenated words count as one word. If a
run contains an entity found by the model, the run replaces it. "and", "or" and "in" are allowed
within names only inside quotes: elsewhere, they separate names more often than they join one
(measured on the dev half of hotpotqa, see ARCHITECTURE.md).

Pipelines of other languages use that language's joiners, months and quotation marks (`grammar.py`).
In German, where all nouns are capitalized, a name consists of words with the tag of a proper noun
or an adjective. In scripts without capitals, only quoted titles are added.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from e2graphrag_integrations.entities.grammar import Grammar, grammar_of
from e2graphrag_integrations.entities.normalize import ADDRESSES

_JOINERS = frozenset(
    "of the & de la le du des von van der den di da del el al bin ibn ben y 's ’s".split()
)
_MAX_JOINERS = 2
_HYPHENS = frozenset("-–‐‑")
_OPENING_QUOTES = {'"': '"', "“": "”", "«": "»", "``": "''", "‘": "’"}
_LONGEST_QUOTE = 12
"""Maximum number of tokens in a quoted title. Longer quotations are usually speech."""

_CALENDAR = frozenset(
    "january february march april may june july august september october november december jan feb "
    "mar apr jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday "
    "sunday mon tue wed thu fri sat sun".split()
)
_PRONOUNS = frozenset({"i", "i'm", "i'll", "i've", "i'd"})
_NAME_CLASSES = frozenset({"PROPN", "NOUN", "ADJ", "X"})
_GERMAN_NAME_CLASSES = frozenset({"PROPN", "ADJ", "X"})
_GERMAN_HEADS = frozenset({"PROPN", "X"})
_OPEN_CLASSES = _NAME_CLASSES | {"VERB", "NUM"}
_SMALL_CLASSES = frozenset({"ADP", "DET", "CCONJ", "PART", "PUNCT", "AUX", "PRON", "SCONJ"})
_MAX_UPPERCASE = 0.7
"""Maximum fraction of uppercase words in a line. Above it, as in a heading, capitalization does not
indicate a name."""

_BEFORE_A_START = frozenset({".", "!", "?", ":", "“", "‘", '"', "``", "—", "--", "(", "[", "-"})


@dataclass(frozen=True)
class NameRules:
    """The rules for names in one language.

    Attributes:
        grammar: Facts about the language.
        pronouns: Capitalized words that never begin a name.
        is_english: Whether all content words of a title are capitalized.
    """

    grammar: Grammar
    pronouns: frozenset[str] = frozenset()
    is_english: bool = False


ENGLISH_RULES = NameRules(
    Grammar(joiners=_JOINERS, addresses=ADDRESSES, calendar=_CALENDAR), _PRONOUNS, is_english=True
)
"""The rules for English."""


@cache
def name_rules_of(language: str) -> NameRules:
    """Return the rules for a language, by its ISO 639-1 code."""
    return ENGLISH_RULES if language == "en" else NameRules(grammar_of(language))


class NameSpan(NamedTuple):
    """A name: its half-open token range `[start, end)` in the document, and its label."""

    start: int
    end: int
    label: str


class _Word(NamedTuple):
    """A word: one token, or several tokens joined by hyphens without spaces."""

    tokens: list[Any]

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    @property
    def pos(self) -> str:
        return str(self.tokens[0].pos_)

    def is_capital(self, rules: NameRules) -> bool:
        first = self.tokens[0].text
        return bool(first[0].isupper()) and first.lower().replace("’", "'") not in rules.pronouns

    def can_be_name(self, rules: NameRules) -> bool:
        """Return whether the word is capitalized, and not because it is a German noun."""
        is_noun = rules.grammar.nouns_are_capitalized and self.pos not in _GERMAN_NAME_CLASSES
        return self.is_capital(rules) and not is_noun

    @property
    def number(self) -> bool:
        return any(character.isdigit() for character in self.text)


def find_names(
    sentence: Any,
    entities: Sequence[NameSpan],
    lower_words: frozenset[str],
    rules: NameRules = ENGLISH_RULES,
) -> list[NameSpan]:
    """Return the names in a sentence: the model's entities, capitalized runs and quoted titles.

    Args:
        sentence: A spaCy `Span`.
        entities: The entities that the model found in the sentence.
        lower_words: Words that occur in lowercase anywhere in the text.
        rules: The rules for the language.
    """
    found: list[NameSpan] = []
    for tokens in _lines(sentence):
        letters = [token for token in tokens if token.is_alpha]
        if sum(token.is_upper for token in letters) > _MAX_UPPERCASE * len(letters):
            continue
        entity_starts = {entity.start for entity in entities}
        runs = _Line(_words(tokens), lower_words, entity_starts, rules).runs()
        found += _merge(runs, _quoted_titles(tokens)) if rules.is_english else runs
    if not rules.is_english:
        found = _merge(found, _titles_of_any_language(sentence))
    return _merge(list(entities), found)


def _lines(sentence: Any) -> list[list[Any]]:
    """Split the tokens of a sentence into lines, because names do not cross line breaks."""
    lines: list[list[Any]] = [[]]
    for token in sentence:
        if not token.is_space:
            lines[-1].append(token)
        elif "\n" in token.text:
            lines.append([])
    return [line for line in lines if line]


def _words(tokens: list[Any]) -> list[_Word]:
    words: list[_Word] = []
    glued = False
    for token in tokens:
        hyphen = token.text in _HYPHENS
        if words and (glued or (hyphen and not words[-1].tokens[-1].whitespace_)):
            words[-1].tokens.append(token)
        else:
            words.append(_Word([token]))
        glued = hyphen and len(words[-1].tokens) > 1 and not token.whitespace_
    return words


@dataclass(frozen=True)
class _Line:
    """A line of a sentence.

    Attributes:
        words: Its words.
        lower_words: Words that occur in lowercase anywhere in the text.
        entity_starts: Where the entities of the model start.
        rules: The rules for the language.
    """

    words: Sequence[_Word]
    lower_words: frozenset[str]
    entity_starts: set[int]
    rules: NameRules

    def runs(self) -> list[NameSpan]:
        """Return the runs of capitalized words that are names."""
        words, runs = self.words, list[NameSpan]()
        first = _first_word(words)
        at = 0
        while at < len(words):
            initial = at <= first or words[at - 1].text in _BEFORE_A_START
            if not self._begins(at, initial=initial):
                at += 1
                continue
            end = self._end(at)
            if self._is_name(words[at:end]):
                runs.append(_span(words[at:end]))
            at = end
        return runs

    def _begins(self, at: int, *, initial: bool) -> bool:
        """Return whether a name begins at a word; `initial`: the word may begin a sentence."""
        word = self.words[at]
        if not word.can_be_name(self.rules):
            return False
        lower = word.text.lower()
        if lower in self.rules.grammar.joiners and word.pos != "PROPN":
            return False
        follows = at + 1 < len(self.words) and self.words[at + 1].can_be_name(self.rules)
        if lower.rstrip(".") in self.rules.grammar.addresses:
            return not follows  # "Mr. Darcy": the name is "Darcy", as in the models
        if not initial or word.pos == "PROPN":
            return True
        if follows and self.words[at + 1].tokens[0].i in self.entity_starts:
            return False  # "Yesterday Elizabeth Bennet": the model found the start of the name
        return word.pos in _NAME_CLASSES and (follows or lower not in self.lower_words)

    def _end(self, start: int) -> int:
        words = self.words
        end = start + 1
        while end < len(words):
            if words[end].number and words[end].text[0].isalnum():  # "Catch 22", "Redmi 1S"
                end += 1
                continue
            ahead = end
            while ahead < len(words) and self._joins(ahead, end):
                ahead += 1
            if ahead >= len(words) or not words[ahead].can_be_name(self.rules):
                return end
            end = ahead + 1
        return end

    def _joins(self, at: int, first: int) -> bool:
        return at - first < _MAX_JOINERS and self.words[at].text in self.rules.grammar.joiners

    def _is_name(self, words: Sequence[_Word]) -> bool:
        grammar = self.rules.grammar
        texts = [word.text.lower().rstrip(".") for word in words]
        if all(text in grammar.calendar or not text[:1].isalpha() for text in texts):
            return False
        if grammar.nouns_are_capitalized and all(w.pos not in _GERMAN_HEADS for w in words):
            return False
        if len(words) == 1:
            return words[0].pos in _NAME_CLASSES and len(texts[0]) > 1
        return any(word.pos in _OPEN_CLASSES for word in words)


def _span(words: Sequence[_Word]) -> NameSpan:
    tokens = [token for word in words for token in word.tokens]
    while tokens[-1].text in _HYPHENS:
        tokens.pop()
    return NameSpan(tokens[0].i, tokens[-1].i + 1, "NAME")


def _first_word(words: Sequence[_Word]) -> int:
    """Return the position of the first word that is not punctuation."""
    return next(
        (at for at, word in enumerate(words) if not all(t.is_punct for t in word.tokens)),
        len(words),
    )


def _titles_of_any_language(sentence: Any) -> list[NameSpan]:
    """Return the quoted titles that consist of complete tokens."""
    from e2graphrag_integrations.entities.quoted_titles import quoted_titles

    titles = []
    for start, end in quoted_titles(sentence.text):
        first = sentence.start_char
        span = sentence.doc.char_span(first + start, first + end)
        if span is not None:
            titles.append(NameSpan(span.start, span.end, "NAME"))
    return titles


def _quoted_titles(tokens: list[Any]) -> list[NameSpan]:
    titles: list[NameSpan] = []
    at = 0
    while at < len(tokens):
        closing = _OPENING_QUOTES.get(tokens[at].text)
        end = None
        if closing:
            reach = range(at + 1, min(len(tokens), at + 2 + _LONGEST_QUOTE))
            end = next((i for i in reach if tokens[i].text == closing), None)
        if end is not None and _is_title(tokens[at + 1 : end]):
            titles.append(NameSpan(tokens[at + 1].i, tokens[end - 1].i + 1, "NAME"))
        at = end + 1 if end is not None else at + 1
    return titles


def _is_title(tokens: list[Any]) -> bool:
    """Return whether all content words in a quotation are capitalized, as in a title."""
    if not tokens or not tokens[0].text[0].isupper() or tokens[-1].text in {",", ".", "!", "?"}:
        return False
    content = [t for t in tokens if t.pos_ not in _SMALL_CLASSES and t.text[0].isalpha()]
    return bool(content) and all(token.text[0].isupper() for token in content)


def _merge(inner: list[NameSpan], outer: list[NameSpan]) -> list[NameSpan]:
    """Merge two lists of spans. An outer span replaces the inner spans that it contains.

    The inner spans are in order and disjoint.
    """
    merged: list[NameSpan] = []
    replaced: set[NameSpan] = set()
    starts, ends = [span.start for span in inner], [span.end for span in inner]
    for span in outer:
        overlapping = inner[bisect_right(ends, span.start) : bisect_left(starts, span.end)]
        if any(s.start < span.start or span.end < s.end for s in overlapping):
            continue  # an inner span extends beyond the outer one
        label = overlapping[0].label if len(overlapping) == 1 else span.label
        merged.append(NameSpan(span.start, span.end, label))
        replaced.update(overlapping)
    return sorted(merged + [span for span in inner if span not in replaced])
