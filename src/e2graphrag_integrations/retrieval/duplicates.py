"""Equal texts of several documents: a result shows one, and names the other documents.

Only texts that are equal but for case, white space, quotes and final punctuation are duplicates. A
number or a word that differs is often what a question is about, as in two versions of a contract.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import Trace

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

    _others: dict[str, dict[int, None]] = field(default_factory=dict)
    """The other documents with the text of a node, by node id."""

    @property
    def dropped(self) -> int:
        """Number of nodes or windows that were left out."""
        return len(self._dropped)

    def collapse(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return complete nodes without duplicates, in their order."""
        nodes = self.reader.read([one.row for one in candidates])
        # A summary may equal its only chunk; a filter or an expansion needs both.
        documents = self.reader.snapshot.nodes.document
        return [
            candidate
            for candidate, node in zip(candidates, nodes, strict=True)
            if node.level
            or self._is_first((node.id, node.start), node.text, int(documents[candidate.row]))
        ]

    def without_repeats(self, windows: Iterable[RetrievedNode]) -> Iterator[RetrievedNode]:
        """Yield windows, as they are read, except duplicates of earlier ones."""
        documents, candidates = self.reader.snapshot.nodes.document, self.reader.candidates
        for window in windows:
            document = int(documents[candidates[window.node_id].row])
            place = (window.node_id, window.spans[0].start)
            if window.level or self._is_first(place, window.text, document):
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

    def _is_first(self, place: tuple[str, int], text: str, document: int) -> bool:
        first, owner = self._first.setdefault(plain(text), (place[0], document))
        if document == owner:  # what a document repeats, it says in several places
            return True
        self._others.setdefault(first, {})[document] = None
        self._dropped.add(place)
        return False
