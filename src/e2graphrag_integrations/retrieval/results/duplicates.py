"""Texts that a result would show twice: equal ones, and summaries of sentences that it has already.

Texts of several documents that are equal but for case, white space, quotes and final punctuation
are duplicates, and so are nearly equal chunks (`NearDuplicates`): they differ in few words, and in
none that a question may be about. Numbers, dates, codes, names, nouns, negations and words such as
"must" or "before" must be equal and in the same order, as in two versions of a contract. Only
English texts are compared, because only their words are listed. A result shows one of them, and
names the other documents.

An extractive summary consists of sentences of chunks. It repeats those that are in the result.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import partial
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import RankedLists, Trace
from e2graphrag_integrations.text.sentences import sentence_spans
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


_COPY_LISTS = ("dense", "bm25")
"""The lists of a trace in which nodes with equal texts have equal scores. The vectors of texts with
different titles differ."""

_QUOTES = re.compile("[\"'`“”„‘’«»‹›]")
_SPACE = re.compile(r"\s+")
_ENDS = " \t.,;:!?-–—…"

_MOST = 0.6
"""Least share of the characters of a summary that repeats the result if it is left out."""

_EXTRACTIVE = "extractive:"
"""The fingerprint of a summarizer that copies sentences begins with this."""

_SUMMARY = "summary\0"
"""Prefix of the plain text of a summary, because a summary may equal its only chunk."""


def plain(text: str) -> str:
    r"""Return a text without what tells no content: equal plain texts are duplicates.

    >>> plain("The  “Mill” closed.\n") == plain("the mill closed")
    True
    >>> plain("It cost 1.5") == plain("It cost 15")
    False
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    return _SPACE.sub(" ", _QUOTES.sub("", text)).strip(_ENDS)


@dataclass
class Duplicates:
    """Finds the duplicates among the candidates of one retrieval.

    Attributes:
        reader: The texts and the snapshot.
        repeats: The rows of the summaries that repeat the result.
    """

    reader: NodeReader
    repeats: set[int] = field(default_factory=set)
    _dropped: set[tuple[str, int]] = field(default_factory=set)
    """The id of each node that was left out, and the start of its window."""

    _first: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The id and the document of the first node with a plain text."""

    _near: NearDuplicates = field(default_factory=NearDuplicates)

    _others: dict[str, dict[int, None]] = field(default_factory=dict)
    """The other documents with the text of a node, by node id."""

    @property
    def dropped(self) -> int:
        """Number of nodes or windows that were left out."""
        return len(self._dropped)

    def collapse(
        self, candidates: Sequence[Candidate], *, summaries: bool = True
    ) -> list[Candidate]:
        """Return complete nodes without duplicates, in their order.

        Args:
            candidates: The nodes.
            summaries: Whether equal summaries are duplicates. Those that will be expanded are not,
                because the chunks below them may differ.
        """
        rows = [one.row for one in candidates]
        if len(set(self.reader.snapshot.nodes.document[rows].tolist())) < 2:  # noqa: PLR2004
            return list(candidates)  # what a document repeats, it says in several places
        nodes = self.reader.read(rows)
        return [
            candidate
            for candidate, node in zip(candidates, nodes, strict=True)
            if (node.level and not summaries)
            or self._is_first(
                _Place(candidate.row, node.id, 0, len(node.text)), node.text, node.level
            )
        ]

    def first_distinct(
        self, candidates: Sequence[Candidate], count: int, *, summaries: bool = True
    ) -> list[Candidate]:
        """Return candidates of which the first `count` are no duplicates, reading few more texts.

        See `collapse`.
        """
        size = count
        while True:
            kept = self.collapse(candidates[:size], summaries=summaries)
            if len(kept) >= count or size >= len(candidates):
                return [*kept, *candidates[size:]]
            size *= 2

    def without_repeats(self, windows: Iterable[RetrievedNode]) -> Iterator[RetrievedNode]:
        """Yield windows, as they are read, except duplicates of earlier ones."""
        for window in windows:
            span, row = window.spans[0], self.reader.candidates[window.node_id].row
            place = _Place(row, window.node_id, span.start - window.start, span.end - window.start)
            if self._is_first(place, window.text, window.level):
                yield window

    def add_repeats(self, nodes: Sequence[RetrievedNode]) -> bool:
        """Add the extractive summaries that repeat other nodes of a result to `repeats`.

        A chunk always stays, because it has exact spans. A summary stays if it says more than the
        chunks and the summaries that rank above it.

        Returns:
            Whether there are any.
        """
        summaries = [node for node in nodes if node.level]
        made_with = self.reader.snapshot.made_with.get("summarizer", "")
        if not summaries or not made_with.startswith(_EXTRACTIVE):
            return False
        said = "\n".join(_squeezed(node.text) for node in nodes if not node.level)
        found = set()
        for node in summaries:
            if _share_in(said, node.text) >= _MOST:
                found.add(self.reader.candidates[node.node_id].row)
            else:
                said += "\n" + _squeezed(node.text)
        self.repeats |= found
        return bool(found)

    def find_copies(
        self, candidates: Sequence[Candidate], trace: Trace, allowed: NDArray[np.bool_] | None
    ) -> None:
        """Find further documents with the texts of the best chunks, for `named`.

        So which documents it names does not depend on how many nodes are asked for.

        Args:
            candidates: The best nodes.
            trace: The ranked lists, which are longer.
            allowed: The mask of the nodes that may be found; None for all.
        """
        snapshot = self.reader.snapshot
        if len(snapshot.documents) == 1:
            return
        owners, levels = snapshot.nodes.document, snapshot.nodes.level
        best = [one.row for one in candidates]
        equal = [
            row
            for row in _with_equal_scores(trace, np.asarray(best, dtype=np.int64))
            if not levels[row] and (allowed is None or allowed[row])
        ]
        if not equal:
            return
        first: dict[str, tuple[str, int]] = {}
        rows = [*best, *equal]
        for row, node in zip(rows, self.reader.read(rows), strict=True):  # in one round trip
            if node.level:  # a summary may equal its only chunk
                continue
            id_, owner = first.setdefault(plain(node.text), (node.id, int(owners[row])))
            if owners[row] != owner:
                self._others.setdefault(id_, {})[int(owners[row])] = None

    def named(self, nodes: Iterable[RetrievedNode]) -> list[RetrievedNode]:
        """Return nodes with the other documents that contain their texts."""
        ids = self.reader.snapshot.documents
        return [
            replace(node, also_in=tuple(ids[one] for one in sorted(self._others[node.node_id])))
            if self._others.get(node.node_id)
            else node
            for node in nodes
        ]

    def counted_in(self, trace: Trace) -> Trace:
        """Return the trace with the number of duplicates, if there are any."""
        count = self.dropped + len(self.repeats)
        return trace.with_cut("duplicates", count) if count else trace

    def _is_first(self, place: _Place, text: str, level: int) -> bool:
        if len(self.reader.snapshot.documents) == 1:
            return True
        document = int(self.reader.snapshot.nodes.document[place.row])
        first, owner = self._first_with(place, text, document, is_chunk=not level)
        if document == owner:  # what a document repeats, it says in several places
            return True
        self._others.setdefault(first, {})[document] = None
        self._dropped.add((place.node_id, place.start))
        return False

    def _first_with(
        self, place: _Place, text: str, document: int, *, is_chunk: bool
    ) -> tuple[str, int]:
        """Return the id and the document of the first node with this text, or nearly this one."""
        key = plain(text) if is_chunk else _SUMMARY + plain(text)
        if key not in self._first:
            self._first[key] = (place.node_id, document)
            if is_chunk and self.reader.snapshot.languages[document] == ENGLISH:
                near = NearText(key, text, partial(_mentions, self.reader, place))
                self._first[key] = self._first[self._near.earlier(near) or key]
        return self._first[key]


def _with_equal_scores(trace: Trace, rows: IntArray) -> list[int]:
    """Return the other rows that have the score of one of these in a ranked list."""
    if not isinstance(trace.lists, RankedLists):  # a strategy of the user
        return []
    found: dict[int, None] = {}
    for name in _COPY_LISTS:
        equal = trace.lists.rows_with_score_of(name, rows)
        # Many short texts, such as rows of a table, have the same score for a word.
        found |= dict.fromkeys((equal if name == "dense" else equal[:_MAX_COMPARED]).tolist())
    return list(found)


# Not a method: a cycle of references would keep the snapshot in memory, and its files open.
def _mentions(reader: NodeReader, place: _Place) -> list[Mention]:
    """Return the names and nouns in a part of a chunk."""
    (sentences,) = reader.read_mentions([place.row])
    return [
        mention
        for sentence in split_subjects(sentences)[1]
        for mention in sentence
        if place.start <= mention.start and mention.end <= place.end
    ]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _share_in(said: str, summary: str) -> float:
    """Return the share of the characters of a summary whose sentences are in a squeezed text."""
    spans = sentence_spans(summary, clauses=False)
    sentences = [_squeezed(summary[start:end]) for start, end in spans]
    repeated = sum(len(sentence) for sentence in sentences if sentence in said)
    return repeated / max(1, sum(map(len, sentences)))


class _Place(NamedTuple):
    """A part of a chunk: its row and id, and the range of the part in its text."""

    row: int
    node_id: str
    start: int
    end: int
