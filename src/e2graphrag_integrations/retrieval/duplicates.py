"""Equal texts of several documents: a result shows one, and names the other documents.

Texts that are equal but for case, white space, quotes and final punctuation are duplicates, and so
are nearly equal ones (`near_duplicates.py`). A number or a name that differs is often what a
question is about, as in two versions of a contract.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.near_duplicates import NearDuplicates, NearText
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.types import Mention

_QUOTES = re.compile("[\"'`“”„‘’«»‹›]")
_SPACE = re.compile(r"\s+")
_ENDS = " \t.,;:!?-–—…"


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
    """

    reader: NodeReader
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

    def collapse(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return complete nodes without duplicates, in their order."""
        rows = [one.row for one in candidates]
        if len(set(self.reader.snapshot.nodes.document[rows].tolist())) < 2:  # noqa: PLR2004
            return list(candidates)  # what a document repeats, it says in several places
        nodes = self.reader.read(rows)
        # A summary may equal its only chunk; a filter or an expansion needs both.
        return [
            candidate
            for candidate, node in zip(candidates, nodes, strict=True)
            if node.level
            or self._is_first(_Place(candidate.row, node.id, 0, len(node.text)), node.text)
        ]

    def without_repeats(self, windows: Iterable[RetrievedNode]) -> Iterator[RetrievedNode]:
        """Yield windows, as they are read, except duplicates of earlier ones."""
        for window in windows:
            span, row = window.spans[0], self.reader.candidates[window.node_id].row
            place = _Place(row, window.node_id, span.start - window.start, span.end - window.start)
            if window.level or self._is_first(place, window.text):
                yield window

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
        return trace.with_cut("duplicates", self.dropped) if self.dropped else trace

    def _is_first(self, place: _Place, text: str) -> bool:
        if len(self.reader.snapshot.documents) == 1:
            return True
        document = int(self.reader.snapshot.nodes.document[place.row])
        first, owner = self._first_with(place, text, document)
        if document == owner:  # what a document repeats, it says in several places
            return True
        self._others.setdefault(first, {})[document] = None
        self._dropped.add((place.node_id, place.start))
        return False

    def _first_with(self, place: _Place, text: str, document: int) -> tuple[str, int]:
        """Return the id and the document of the first node with this text, or nearly this one."""
        key = plain(text)
        if key not in self._first:
            self._first[key] = (place.node_id, document)
            if self.reader.snapshot.languages[document] == ENGLISH:
                near = NearText(key, text, lambda: self._mentions(place))
                self._first[key] = self._first[self._near.earlier(near) or key]
        return self._first[key]

    def _mentions(self, place: _Place) -> list[Mention]:
        """Return the names and nouns in a part of a chunk."""
        (sentences,) = self.reader.read_mentions([place.row])
        return [
            mention
            for sentence in split_subjects(sentences)[1]
            for mention in sentence
            if place.start <= mention.start and mention.end <= place.end
        ]


class _Place(NamedTuple):
    """A part of a chunk: its row and id, and the range of the part in its text."""

    row: int
    node_id: str
    start: int
    end: int
