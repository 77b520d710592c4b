"""What the index struct keeps of a document: its tree and its mentions, without texts and vectors.

Texts are in the docstore and vectors in the vector store. A record holds what else a snapshot is
derived from, as columns: small when compressed, quick to read.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.types import Mention, Node, Sentences, Span


class Window(NamedTuple):
    """A vector of a node.

    Attributes:
        node: Row of the node in its record.
        span: Characters of the node's text that it covers.
        key: UUID that changes whenever vector or metadata would.
        stored: The vector store's own id of it.
    """

    node: int
    span: Span
    key: str
    stored: str


@dataclass(frozen=True, slots=True)
class Mentions:
    """The mentions in a document's chunks, in order, as columns.

    Attributes:
        names: Distinct names and nouns as they stand in the text.
        labels: Distinct labels.
        name, label: Row of each mention in them.
        start, length: Each mention's span in its chunk.
        sentence_sizes: Mentions of each sentence.
        chunk_sizes: Sentences of each chunk.
    """

    names: Sequence[str]
    labels: Sequence[str]
    name: Sequence[int]
    label: Sequence[int]
    start: Sequence[int]
    length: Sequence[int]
    sentence_sizes: Sequence[int]
    chunk_sizes: Sequence[int]

    @classmethod
    def of(cls, chunks: Sequence[Sentences]) -> Mentions:
        """Return the columns of what was found in each chunk."""
        sentences = [sentence for chunk in chunks for sentence in chunk]
        mentions = [mention for sentence in sentences for mention in sentence]
        names = {name: row for row, name in enumerate(dict.fromkeys(m.entity for m in mentions))}
        labels = {label: row for row, label in enumerate(dict.fromkeys(m.label for m in mentions))}
        return cls(
            list(names),
            list(labels),
            [names[m.entity] for m in mentions],
            [labels[m.label] for m in mentions],
            [m.start for m in mentions],
            [m.end - m.start for m in mentions],
            [len(sentence) for sentence in sentences],
            [len(chunk) for chunk in chunks],
        )

    def chunks(self) -> list[Sentences]:
        """Undo `of`."""
        mentions = [
            Mention(self.names[name], start, start + length, self.labels[label])
            for name, label, start, length in zip(
                self.name, self.label, self.start, self.length, strict=True
            )
        ]
        ends = list(accumulate(self.sentence_sizes, initial=0))
        sentences = [
            mentions[end - size : end]
            for size, end in zip(self.sentence_sizes, ends[1:], strict=True)
        ]
        ends = list(accumulate(self.chunk_sizes, initial=0))
        return [
            sentences[end - size : end]
            for size, end in zip(self.chunk_sizes, ends[1:], strict=True)
        ]


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """One document of an index.

    Attributes:
        id: Its ref_doc_id.
        hash: LlamaIndex's hash of the document, to notice changes by.
        title: Put before its texts when they are embedded.
        metadata: The document's own.
        leaf_metadata: Distinct metadata of its chunks, where it differs from the document's.
        of_leaf: For each chunk the rows of `leaf_metadata` it stands under.
        segments: `(start, end, metadata)` of an index file's document.
        gaps: What of the document's text lies in no chunk: before, between and after them.
        nodes: Chunks, then summaries level by level, without texts.
        words: Words of each chunk.
        windows: Its vectors.
        mentions: What was found in its chunks.
    """

    id: str
    hash: str
    title: str | None
    metadata: Mapping[str, Any]
    leaf_metadata: Sequence[Mapping[str, Any]]
    of_leaf: Sequence[Sequence[int]]
    segments: Sequence[tuple[int, int, Mapping[str, Any]]]
    gaps: Sequence[str]
    nodes: Sequence[Node]
    words: Sequence[int]
    windows: Sequence[Window]
    mentions: Mentions

    @property
    def leaves(self) -> Sequence[Node]:
        """The chunks."""
        return [node for node in self.nodes if node.level == 0]

    def stored_as(self, ids: Mapping[str, str]) -> DocumentRecord:
        """Return the record with other ids of the vector store, by the keys of windows."""
        return replace(
            self, windows=[w._replace(stored=ids.get(w.key, w.stored)) for w in self.windows]
        )

    def without(self, gone: frozenset[str]) -> DocumentRecord:
        """Return the record without some nodes, and without every summary that stands on them.

        What stood under a summary that goes stays, without a parent.
        """
        dropped = set(gone)
        for node in self.nodes:  # levels ascend: children come first
            if node.id in dropped and node.parent_id is not None:
                dropped.add(node.parent_id)
        chunks = self.mentions.chunks()
        kept = [i for i, node in enumerate(self.nodes) if node.id not in dropped]
        leaves = [i for i in kept if self.nodes[i].level == 0]
        row = {old: new for new, old in enumerate(kept)}
        of_leaf = [self.of_leaf[i] for i in leaves]
        metadata = {
            old: new for new, old in enumerate(sorted({i for rows in of_leaf for i in rows}))
        }
        return replace(
            self,
            leaf_metadata=[self.leaf_metadata[old] for old in metadata],
            of_leaf=[[metadata[old] for old in rows] for rows in of_leaf],
            nodes=_renumbered([self.nodes[i] for i in kept], dropped),
            words=[self.words[i] for i in leaves],
            windows=[w._replace(node=row[w.node]) for w in self.windows if w.node in row],
            mentions=Mentions.of([chunks[i] for i in leaves]),
            gaps=(),
        )

    def encode(self) -> str:
        """Return the record as text: JSON, compressed, with a checksum of its own."""
        rows = {node.id: row for row, node in enumerate(self.nodes)}
        m = self.mentions
        columns = {
            "id": self.id,
            "hash": self.hash,
            "title": self.title,
            "metadata": self.metadata,
            "leaf_metadata": self.leaf_metadata,
            "of_leaf": self.of_leaf if self.leaf_metadata else [],
            "segments": self.segments,
            "gaps": self.gaps,
            "nodes": [node.id for node in self.nodes],
            "levels": [node.level for node in self.nodes],
            "starts": [node.start for node in self.nodes],
            "ends": [node.end for node in self.nodes],
            "parents": [rows.get(node.parent_id or "", -1) for node in self.nodes],
            "words": self.words,
            "window_nodes": [w.node for w in self.windows],
            "window_spans": [list(w.span) for w in self.windows],
            "window_keys": [w.key for w in self.windows],
            "window_stored": _unless_equal(self.windows),
            "mentions": [
                *(m.names, m.labels, m.name, m.label),
                *(m.start, m.length, m.sentence_sizes, m.chunk_sizes),
            ],
        }
        plain = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
        # Surrogates may hide in metadata, which is LlamaIndex's to check.
        data = zlib.compress(plain.encode("utf-8", "surrogatepass"), 6)
        return base64.b64encode(data).decode("ascii")

    @classmethod
    def decode(cls, text: str, where: str) -> DocumentRecord:
        """Undo `encode`.

        Raises:
            CorruptStoreError: If the text is damaged.
        """
        try:
            raw = zlib.decompress(base64.b64decode(text, validate=True))
            return cls._from_columns(json.loads(raw.decode("utf-8", "surrogatepass")))
        except (ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
            raise CorruptStoreError(
                f"{where} is damaged ({type(error).__name__}: {error}): restore a backup of the "
                "index store, or index the document again"
            ) from error

    @classmethod
    def _from_columns(cls, columns: Mapping[str, Any]) -> DocumentRecord:
        ids, levels = columns["nodes"], columns["levels"]
        before: dict[int, int] = {}
        nodes = []
        for id_, level, start, end, parent in zip(
            ids, levels, columns["starts"], columns["ends"], columns["parents"], strict=True
        ):
            position = before.get(level, 0)
            before[level] = position + 1
            above = ids[parent] if parent >= 0 else None
            nodes.append(Node(id_, columns["id"], level, position, start, end, "", above))
        keys = columns["window_keys"]
        windows = [
            Window(node, Span(*span), key, stored)
            for node, span, key, stored in zip(
                columns["window_nodes"],
                columns["window_spans"],
                keys,
                columns["window_stored"] or keys,
                strict=True,
            )
        ]
        chunks = before.get(0, 0)
        return cls(
            id=columns["id"],
            hash=columns["hash"],
            title=columns["title"],
            metadata=columns["metadata"],
            leaf_metadata=columns["leaf_metadata"],
            of_leaf=columns["of_leaf"] or [()] * chunks,
            segments=[(start, end, metadata) for start, end, metadata in columns["segments"]],
            gaps=columns["gaps"],
            nodes=nodes,
            words=columns["words"],
            windows=windows,
            mentions=Mentions(*columns["mentions"]),
        )


def _unless_equal(windows: Sequence[Window]) -> list[str]:
    """Return the vector store's ids, or nothing where they are the keys: most stores keep them."""
    same = all(w.stored == w.key for w in windows)
    return [] if same else [w.stored for w in windows]


def _renumbered(nodes: Sequence[Node], dropped: set[str]) -> list[Node]:
    before: dict[int, int] = {}
    renumbered = []
    for node in nodes:
        position = before.get(node.level, 0)
        before[node.level] = position + 1
        parent = None if node.parent_id in dropped else node.parent_id
        renumbered.append(replace(node, position=position, parent_id=parent))
    return renumbered
