"""The ids of an index's documents, pages and nodes, which tell whether gold answers are in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.pages import PAGE_ID, source_ids
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Span

IdKind = Literal["document", "page", "node"]


@dataclass(frozen=True, eq=False)
class KnownIds:
    """The ids in one snapshot.

    Attributes:
        snapshot: The snapshot.
    """

    snapshot: Snapshot

    @lazy
    def _documents(self) -> Mapping[str, int]:
        return {id_: row for row, id_ in enumerate(self.snapshot.documents)}

    @lazy
    def _pages(self) -> frozenset[str]:
        records = self.snapshot.records.values
        ids = {record[PAGE_ID] for record in records if isinstance(record.get(PAGE_ID), str)}
        return frozenset(ids.union(*map(source_ids, records)))

    def kind(self, id_: str) -> IdKind | None:
        """Return whether an id is that of a document, of a page or of a node; None if unknown.

        A page is a LlamaIndex or LangChain document that shares a tree with others, or a node that
        the user passed.
        """
        if id_ in self._documents:
            return "document"
        if id_ in self._pages:
            return "page"
        return "node" if id_ in self.snapshot.nodes.row_of else None

    def in_chunks(self, document_id: str, span: Span) -> Iterator[Span]:
        """Yield the parts of a span that chunks of a document of the index contain, in order.

        White space between two chunks belongs to neither.
        """
        row = self._documents[document_id]
        nodes, chunks = self.snapshot.nodes, self.snapshot.chunk_nodes
        first, last = np.searchsorted(self.snapshot.chunk_documents, [row, row + 1]).tolist()
        own = chunks[first:last]
        starts, ends = nodes.start[own], nodes.end[own]  # both ascend
        touched = slice(
            int(np.searchsorted(ends, span.start, "right")),
            int(np.searchsorted(starts, span.end, "left")),
        )
        reached = span.start  # chunks may overlap
        for start, end in zip(starts[touched].tolist(), ends[touched].tolist(), strict=True):
            begin, stop = max(start, reached), min(end, span.end)
            if begin < stop:
                yield Span(begin, stop)
                reached = stop
