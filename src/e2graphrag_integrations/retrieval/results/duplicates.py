"""Texts that a result would show twice: equal ones, and summaries of sentences that it has already.

Texts of several documents that are equal but for case, white space, quotes and final punctuation
are duplicates, and so are nearly equal chunks (`near_duplicates.py`). A number or a name that
differs is often what a question is about, as in two versions of a contract. A result shows one of
them, and names the other documents.

An extractive summary consists of sentences of chunks. It repeats those that are in the result.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.results.near_duplicates import NearDuplicates, NearText
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.text.sentences import sentence_spans
from e2graphrag_integrations.types import Mention

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

    def named(self, nodes: Iterable[RetrievedNode]) -> list[RetrievedNode]:
        """Return nodes with the other documents that contain their texts."""
        ids = self.reader.snapshot.documents
        return [
            replace(node, also_in=tuple(ids[one] for one in self._others[node.node_id]))
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
    """Return the share of the characters of a summary whose sentences are in a text.

    Args:
        said: The text, without white space.
        summary: The summary.
    """
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
