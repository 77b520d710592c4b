"""What BM25 reads for each window: what the window is about, and its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.arrays import exclusive_sums
from e2graphrag_integrations.graph.metadata_names import headings_of, source_of
from e2graphrag_integrations.graph.titles import with_title
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.lines import RowHeaders
from e2graphrag_integrations.text.plain_headings import HeadingsAbove


def window_texts(snapshot: Snapshot, texts: Iterable[str]) -> Iterator[str]:
    """Yield the text that BM25 indexes for each window: what it is about, and the window.

    A window needs the title of its document or the name of its file, and the headings above it: in
    a folder of reports, the year is often only there, and in a manual, the name of the machine is.
    Rows need the header of their table: without it, the words of a question about a column are
    found in the header only.

    Args:
        snapshot: The snapshot.
        texts: The text of each node in the snapshot, in order.
    """
    bounds = exclusive_sums(
        np.bincount(snapshot.dense.window_nodes, minlength=len(snapshot.nodes.ids))
    )
    rows, above, last, title = RowHeaders(), HeadingsAbove(), -1, ""
    sections = _Sections(snapshot.records)
    for node, text in enumerate(texts):
        document = int(snapshot.nodes.document[node])
        if document != last or snapshot.nodes.level[node]:
            rows, above = RowHeaders(), HeadingsAbove()
        if document != last:
            title, last = _title(snapshot, document, node), document
        rows.read(text)
        above.read(text)
        node_start = int(snapshot.nodes.start[node])
        for start, end in snapshot.window_spans[bounds[node] : bounds[node + 1]].tolist():
            window = text[start:end]
            headings = sections.headings_at(document, node, node_start + start) or above.at(start)
            headings = [name for name in headings if name not in window and name != title]
            # A line each, because a numbered part is found where a line begins with its number.
            lines = [*headings, with_title(rows.above(start), window)]
            yield with_title(title, "\n".join(lines))


def _title(snapshot: Snapshot, document: int, node: int) -> str:
    """Return the title of a document, or else that in its metadata or the words of its file."""
    title = (snapshot.titles[document] or "").strip()
    records = snapshot.records
    rows = records.indices[records.starts[node] : records.ends[node]].tolist()
    record: Mapping[str, Any] = records.values[rows[0]] if rows else {}
    return title or source_of(record, snapshot.documents[document])


class _Sections:
    """The headings above a place in a text, in the metadata of its section."""

    def __init__(self, records: MetadataRecords) -> None:
        self._records = records
        self._headings = {
            row: names
            for row, record in enumerate(records.values)
            if (names := headings_of(record))
        }

    def headings_at(self, document: int, node: int, offset: int) -> Sequence[str]:
        """Return the headings above a character of a document's text, highest first.

        Args:
            document: Row of the document.
            node: Row of the node with the character.
            offset: Place of the character in the document's text.
        """
        if not self._headings:
            return ()
        records = self._records
        rows = records.indices[records.starts[node] : records.ends[node]].tolist()
        if len(rows) > 1:
            rows = [row for _, _, row in records.sections.within(document, offset, offset + 1)]
        return self._headings.get(rows[0], ()) if rows else ()
