"""Nearly equal texts: they differ in few words, and in none that a question may be about.

Numbers, dates, codes, names, nouns, negations and words such as "must" or "before" must be equal
and in the same order. Only English texts are compared, because only their words are listed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import islice, zip_longest

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.types import Mention

MIN_COMMON = 0.9
"""Minimum share of common words among all words of two nearly equal texts (Jaccard index of the
words with their numbers)."""

_MAX_COMPARED = 50
"""Maximum number of texts with a long word in common to which a text is compared."""

_LONG_WORDS = 3
"""Number of the longest words of a text of which nearly equal texts share one."""

_MIN_PARTS = 0.7
"""Minimum share of common parts of two texts that are compared word by word. It is lower than
`MIN_COMMON`, because a part has punctuation and case."""

_MIN_ENDING = 4
"""Two words that differ before a common ending of this length may be opposites, such as `lawful`
and `unlawful`, or `increase` and `decrease`."""

_WORD = re.compile(r"[^\s,;:!?()\[\]{}\"“”„«»…]+")
_MARKED = re.compile(r"[^\Wa-zß-öø-ÿ]|[^\w\s.]")
"""A character of a word with a digit, a capital, another script or a symbol inside."""

_TELLING = frozenset(
    """
    because despite although though instead whether due no not never none nothing nobody nor
    neither without cannot unless except only but however may might must shall should can could
    will would need needs ought all any some every each both either most more less least few fewer
    many much half double zero one two three four five six seven eight nine ten eleven twelve
    thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty
    seventy eighty ninety hundred thousand million billion first second third fourth fifth last
    next previous once twice before after until till since during while within by from to into
    onto above below over under up down in out on off left right north south east west and or if
    when than with against for january february march april may june july august september october
    november december monday tuesday wednesday thursday friday saturday sunday today tomorrow
    yesterday daily weekly monthly yearly annual annually quarterly always sometimes often rarely
    he she his her him hers i we you they my our your their me us them minimum maximum min max
    true false yes open opened close closed high higher low lower hot cold large larger small
    smaller big little old older new newer early earlier late later long longer short shorter good
    better best bad worse worst same different public private positive negative allow allowed
    allows permit permitted permits prohibit prohibited forbid forbidden require required requires
    accept accepted accepts reject rejected rejects refuse refused approve approved deny denied
    denies grant granted enable enabled disable disabled start started stop stopped begin began
    end ended rise rose risen fall fell fallen grow grew shrink gain gained lose lost win won buy
    bought sell sold add added remove removed pass passed fail failed live lived die died
    """.split()
)
"""English words on which the meaning of a sentence may depend, besides nouns and names."""


@dataclass(frozen=True, eq=False)
class NearText:
    """A text to compare.

    Attributes:
        key: What identifies it for the caller.
        text: The text.
        mentions: Returns its names and nouns; called only if the words are nearly equal.
    """

    key: str
    text: str
    mentions: Callable[[], Sequence[Mention]]

    @lazy
    def parts(self) -> frozenset[str]:
        """What white space separates."""
        return frozenset(self.text.split())

    @lazy
    def telling(self) -> tuple[str, ...]:
        """The words that must be equal, in order."""
        return tuple(_telling(_words(self.text)))

    def may_equal(self, other: NearText) -> bool:
        """Return whether the texts share so much that it is worth to compare their words."""
        common = len(self.parts & other.parts)
        return common >= _MIN_PARTS * (len(self.parts) + len(other.parts) - common)

    @lazy
    def words(self) -> list[str]:
        """The words in order, without case."""
        return [word.casefold() for word in _words(self.text)]

    @lazy
    def counts(self) -> Counter[str]:
        """The number of each word."""
        return Counter(self.words)


@dataclass
class NearDuplicates:
    """Finds a nearly equal text among those that were added before.

    Two nearly equal texts share one of their longest words, so only such texts are compared.
    """

    _by_long_word: dict[str, list[NearText]] = field(default_factory=dict)

    def earlier(self, text: NearText) -> str | None:
        """Return the key of an earlier text that is nearly equal; add the text if there is none."""
        longest = sorted(sorted(text.parts), key=len)[-_LONG_WORDS:]
        known = (other for word in longest for other in self._by_long_word.get(word, ()))
        for other in islice(dict.fromkeys(known), _MAX_COMPARED):
            may_equal = other.may_equal(text) and other.telling == text.telling
            if may_equal and is_nearly_equal(other, text):
                return other.key
        for word in longest:
            self._by_long_word.setdefault(word, []).append(text)
        return None


def is_nearly_equal(one: NearText, other: NearText) -> bool:
    """Return whether two texts with the same telling words differ only in words that tell little.

    Args:
        one: A text.
        other: Another one, whose telling words are equal and in the same order.

    >>> old = "the mill by the old river was closed again because the wheel of the mill broke"
    >>> new = old.replace("again ", "")
    >>> is_nearly_equal(NearText("a", old, list), NearText("b", new, list))
    True
    >>> is_nearly_equal(NearText("a", old, list), NearText("b", f"{old} twice", list))
    False
    """
    words, others = one.words, other.words
    most, least = max(len(words), len(others)), min(len(words), len(others))
    if least < MIN_COMMON * most:
        return False
    common = (one.counts & other.counts).total()
    if common < MIN_COMMON * (len(words) + len(others) - common):
        return False
    changed: set[str] = set()
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    for how, start, end, first, last in matcher.get_opcodes():
        if how == "equal":
            continue
        removed, added = words[start:end], others[first:last]
        if any(_may_be_opposites(a, b) for a, b in zip_longest(removed, added, fillvalue="")):
            return False
        changed |= {*removed, *added}
    if any(True for _ in _telling(changed)):
        return False
    entities, of_other = (Counter(m.entity for m in text.mentions()) for text in (one, other))
    named = {word for entity in entities for word in entity.casefold().split()}
    return entities == of_other and not any(
        word.startswith(name) for word in changed for name in named
    )


def _words(text: str) -> Iterator[str]:
    stripped = (word.strip(".'’‘`*_-–—") for word in _WORD.findall(text))
    return (word for word in stripped if word)


def _telling(words: Iterator[str] | set[str]) -> Iterator[str]:
    """Yield the words that must be equal, in order."""
    return (word for word in words if word in _TELLING or _MARKED.search(word))


def _may_be_opposites(one: str, other: str) -> bool:
    ending = 0
    for a, b in zip(reversed(one), reversed(other), strict=False):
        if a != b:
            break
        ending += 1
    return ending >= _MIN_ENDING and ending < max(len(one), len(other))
