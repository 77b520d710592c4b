"""The record of a document in the index struct: its tree, mentions and vector ids.

The docstore stores the texts and the vector store stores the vectors. A record stores everything
else that a snapshot needs, as columns, which compress well and decode fast.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

from llama_index.core.schema import BaseNode, TextNode

from e2graphrag_integrations._utils.decoding import decompress
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.languages.language import find_code
from e2graphrag_integrations.types import Mention, Node, Sentences, Span

T = TypeVar("T")

_MAX_OFFSET = 1 << 60
"""Upper bound of all numbers in a record, so that NumPy can store them."""


class Window(NamedTuple):
    """One vector of a node; a node that is longer than the embedder's limit has several vectors.

    Attributes:
        node_row: Row of the node in its record.
        span: Characters of the node's text that the vector covers.
        key: UUID that changes when the vector or its metadata changes.
        vector_id: Id of the vector in the vector store; most stores use `key`.
    """

    node_row: int
    span: Span
    key: str
    vector_id: str


@dataclass(frozen=True, slots=True)
class MentionColumns:
    """All entity mentions of a document in text order, one column per field.

    Attributes:
        names: Distinct names and nouns as written in the text.
        labels: Distinct labels.
        name_rows: For each mention, its row in `names`.
        label_rows: For each mention, its row in `labels`.
        starts: For each mention, the character offset in its chunk.
        lengths: For each mention, the number of characters.
        sentence_sizes: Number of mentions in each sentence.
        chunk_sizes: Number of sentences in each chunk.
    """

    names: Sequence[str]
    labels: Sequence[str]
    name_rows: Sequence[int]
    label_rows: Sequence[int]
    starts: Sequence[int]
    lengths: Sequence[int]
    sentence_sizes: Sequence[int]
    chunk_sizes: Sequence[int]

    @classmethod
    def from_chunks(cls, chunks: Sequence[Sentences]) -> MentionColumns:
        """Build the columns from the extracted sentences of each chunk."""
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

    def to_chunks(self) -> list[Sentences]:
        """Return the extracted sentences of each chunk; the inverse of `from_chunks`."""
        mentions = [
            Mention(self.names[name], start, start + length, self.labels[label])
            for name, label, start, length in zip(
                self.name_rows, self.label_rows, self.starts, self.lengths, strict=True
            )
        ]
        return _split(_split(mentions, self.sentence_sizes), self.chunk_sizes)


class PageRecord(NamedTuple):
    """A LlamaIndex document that shares its tree with others, such as a page of a PDF.

    Attributes:
        id: Id of the document.
        hash: LlamaIndex's hash of the document; a different hash means a changed document.
        start: Start of its text in the text of the tree.
        end: End of its text.
        metadata: Metadata of the document.
        excluded_embed: Metadata keys that are not embedded.
        excluded_llm: Metadata keys that are not shown to an LLM.
    """

    id: str
    hash: str
    start: int
    end: int
    metadata: Mapping[str, Any]
    excluded_embed: Sequence[str] = ()
    excluded_llm: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """One tree of an index: that of a document, or of several documents that share it.

    Attributes:
        id: Id of the tree: the ref_doc_id of its document, or the source of its pages.
        hash: Hash of the document or of all pages; a different hash means a changed text.
        title: Title of the document; a prefix of its texts when they are embedded.
        metadata: Metadata of the document.
        leaf_metadata: Distinct metadata of the chunks; empty if all are equal to `metadata`.
        leaf_metadata_rows: For each chunk, its rows in `leaf_metadata`.
        segments: `(start, end, metadata)` of the pages, or of a document imported from an index
            file.
        gaps: Document text before, between and after the chunks; one more gap than chunks.
        nodes: Chunks, then summaries level by level, without texts.
        word_counts: Number of words in each chunk.
        windows: The vectors of all nodes.
        mentions: The entity mentions in the chunks.
        vector_checksum: CRC-32 of the vectors, if their ids in the store do not depend on them.
        pages: The documents that share the tree, in text order; empty if the tree is that of the
            document `id`.
        keeps_chunks: Whether the user passed the chunks, which a change of another page keeps.
        language: Code of the language.
    """

    id: str
    hash: str
    title: str | None
    metadata: Mapping[str, Any]
    leaf_metadata: Sequence[Mapping[str, Any]]
    leaf_metadata_rows: Sequence[Sequence[int]]
    segments: Sequence[tuple[int, int, Mapping[str, Any]]]
    gaps: Sequence[str]
    nodes: Sequence[Node]
    word_counts: Sequence[int]
    windows: Sequence[Window]
    mentions: MentionColumns
    language: str
    vector_checksum: int | None = None
    pages: Sequence[PageRecord] = field(default_factory=list)
    keeps_chunks: bool = False

    @property
    def leaves(self) -> Sequence[Node]:
        """The chunks."""
        return [node for node in self.nodes if node.level == 0]

    def window_texts(self, nodes: Sequence[Node]) -> list[str]:
        """Return the text of each window; `nodes` are the nodes of the record with their texts."""
        return [nodes[w.node_row].text[w.span.start : w.span.end] for w in self.windows]

    def with_vector_ids(self, vector_ids: Mapping[str, str]) -> DocumentRecord:
        """Return the record with new vector ids, looked up by window key."""
        windows = [w._replace(vector_id=vector_ids.get(w.key, w.vector_id)) for w in self.windows]
        return replace(self, windows=windows)

    def without_nodes(self, node_ids: frozenset[str]) -> DocumentRecord:
        """Return the record without the given nodes or any summary above them.

        Children of a removed summary remain but lose their parent.
        """
        removed = set(node_ids)
        for node in self.nodes:  # children come before their parents
            if node.id in removed and node.parent_id is not None:
                removed.add(node.parent_id)
        chunks = self.mentions.to_chunks()
        kept = [i for i, node in enumerate(self.nodes) if node.id not in removed]
        nodes = [self.nodes[i] for i in kept]
        leaves = [i for i in kept if self.nodes[i].level == 0]
        new_row = {old: new for new, old in enumerate(kept)}
        leaf_rows = [self.leaf_metadata_rows[i] for i in leaves]
        used_rows = sorted({row for rows in leaf_rows for row in rows})
        new_metadata_row = {old: new for new, old in enumerate(used_rows)}
        pages, segments = self._pages_with_text([self.nodes[i] for i in leaves])
        return replace(
            self,
            pages=pages,
            segments=segments,
            leaf_metadata=[self.leaf_metadata[row] for row in used_rows],
            leaf_metadata_rows=[[new_metadata_row[row] for row in rows] for rows in leaf_rows],
            nodes=[
                replace(
                    node,
                    position=position,
                    parent_id=None if node.parent_id in removed else node.parent_id,
                )
                for node, position in zip(nodes, _positions([n.level for n in nodes]), strict=True)
            ],
            word_counts=[self.word_counts[i] for i in leaves],
            windows=[
                w._replace(node_row=new_row[w.node_row])
                for w in self.windows
                if w.node_row in new_row
            ],
            mentions=MentionColumns.from_chunks([chunks[i] for i in leaves]),
            gaps=(),
        )

    @property
    def documents(self) -> Mapping[str, str]:
        """The hash of each document in the tree, by id."""
        return {page.id: page.hash for page in self.pages} if self.pages else {self.id: self.hash}

    def document_nodes(self) -> Iterator[tuple[str, list[str], Mapping[str, Any]]]:
        """Yield the id, the nodes and the metadata of each document in the tree."""
        if not self.pages:
            yield self.id, [node.id for node in self.nodes], self.metadata
        for page in self.pages:
            yield page.id, [n.id for n in self.nodes if _overlaps(page, [n])], page.metadata

    def _pages_with_text(
        self, leaves: Sequence[Node]
    ) -> tuple[Sequence[PageRecord], Sequence[tuple[int, int, Mapping[str, Any]]]]:
        """Return the pages and segments of the record without pages that lost all their chunks."""
        if not self.pages:
            return self.pages, self.segments
        kept = [
            row
            for row, page in enumerate(self.pages)
            if _overlaps(page, leaves) or not _overlaps(page, self.leaves)
        ]
        segments = [self.segments[row] for row in kept] if self.segments else ()
        return [self.pages[row] for row in kept], segments

    def encode(self) -> str:
        """Encode the record as base64 of zlib-compressed JSON; zlib adds a checksum."""
        rows = {node.id: row for row, node in enumerate(self.nodes)}
        has_own_ids = any(w.vector_id != w.key for w in self.windows)
        m = self.mentions
        columns = {
            "id": self.id,
            "hash": self.hash,
            "title": self.title,
            "metadata": self.metadata,
            "leaf_metadata": self.leaf_metadata,
            "of_leaf": self.leaf_metadata_rows if self.leaf_metadata else [],
            "segments": self.segments,
            "gaps": self.gaps,
            "nodes": [node.id for node in self.nodes],
            "levels": [node.level for node in self.nodes],
            "starts": [node.start for node in self.nodes],
            "ends": [node.end for node in self.nodes],
            "parents": [rows.get(node.parent_id or "", -1) for node in self.nodes],
            "words": self.word_counts,
            "window_nodes": [w.node_row for w in self.windows],
            "window_spans": [list(w.span) for w in self.windows],
            "window_keys": [w.key for w in self.windows],
            # Empty if every vector id equals its window's key, as in most stores.
            "window_stored": [w.vector_id for w in self.windows] if has_own_ids else [],
            "vector_checksum": self.vector_checksum,
            "mentions": [
                *(m.names, m.labels, m.name_rows, m.label_rows),
                *(m.starts, m.lengths, m.sentence_sizes, m.chunk_sizes),
            ],
            "pages": self.pages,
            "keeps_chunks": self.keeps_chunks,
            "language": self.language,
        }
        plain = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
        # LlamaIndex accepts lone surrogates in metadata, so the encoding preserves them.
        data = zlib.compress(plain.encode("utf-8", "surrogatepass"), 6)
        return base64.b64encode(data).decode("ascii")

    @classmethod
    def decode(cls, text: str, where: str) -> DocumentRecord:
        """Decode the output of `encode`.

        Raises:
            CorruptStoreError: If the text is damaged.
        """
        try:
            raw = decompress(base64.b64decode(text, validate=True))
            record = cls._from_columns(json.loads(raw.decode("utf-8", "surrogatepass")))
            _check_tree(record)
            _check_columns(record)
            _check_mentions(record.mentions, len(record.leaves))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptStoreError(
                f"{where} is damaged ({type(error).__name__}: {error}): restore a backup of the "
                "index store, or index the document again"
            ) from error
        return record

    @classmethod
    def _from_columns(cls, columns: Mapping[str, Any]) -> DocumentRecord:
        ids, levels, keys = columns["nodes"], columns["levels"], columns["window_keys"]
        parent_ids = [ids[row] if row >= 0 else None for row in columns["parents"]]
        positions = _positions(levels)
        node_columns = (ids, levels, positions, columns["starts"], columns["ends"], parent_ids)
        nodes = [
            Node(id_, columns["id"], level, position, start, end, "", parent_id)
            for id_, level, position, start, end, parent_id in zip(*node_columns, strict=True)
        ]
        vector_ids = columns["window_stored"] or keys
        window_columns = (columns["window_nodes"], columns["window_spans"], keys, vector_ids)
        windows = [
            Window(node_row, Span(*span), key, vector_id)
            for node_row, span, key, vector_id in zip(*window_columns, strict=True)
        ]
        return cls(
            id=columns["id"],
            hash=columns["hash"],
            title=columns["title"],
            metadata=columns["metadata"],
            leaf_metadata=columns["leaf_metadata"],
            leaf_metadata_rows=columns["of_leaf"] or [()] * levels.count(0),
            segments=[(start, end, metadata) for start, end, metadata in columns["segments"]],
            gaps=columns["gaps"],
            nodes=nodes,
            word_counts=columns["words"],
            windows=windows,
            mentions=MentionColumns(*columns["mentions"]),
            vector_checksum=columns["vector_checksum"],
            pages=[PageRecord(*page) for page in columns["pages"]],
            keeps_chunks=columns["keeps_chunks"],
            language=columns["language"],
        )


def _check_tree(record: DocumentRecord) -> None:
    nodes = record.nodes
    _check_numbers((node.level for node in nodes), "levels")
    if any(a.level > b.level for a, b in pairwise(nodes)):
        raise ValueError("the nodes are not ordered by level")
    _check_strings((node.id for node in nodes), "node ids")
    rows = {node.id: row for row, node in enumerate(nodes)}
    parents = {node.parent_id for node in nodes}
    if len(rows) != len(nodes):
        raise ValueError("two nodes have the same id")
    for row, node in enumerate(nodes):
        _check_span(node.start, node.end)
        if node.parent_id is not None and rows[node.parent_id] <= row:
            raise ValueError("a parent does not follow its children")
        if node.level and node.id not in parents:
            raise ValueError("a summary has no children")


def _check_columns(record: DocumentRecord) -> None:
    chunks = len(record.leaves)
    _check_strings((record.id, record.hash, record.title or "", *record.gaps), "texts")
    if find_code(record.language) != record.language:
        raise ValueError("the language is not a code")
    _check_strings((w.key for w in record.windows), "window keys")
    _check_strings((w.vector_id for w in record.windows), "vector ids")
    _check_numbers((w.node_row for w in record.windows), "windows", len(record.nodes))
    if any(a.node_row > b.node_row for a, b in pairwise(record.windows)):
        raise ValueError("the windows are not ordered by node")
    for start, end in (w.span for w in record.windows):
        _check_span(start, end)
    for start, end, _ in record.segments:
        _check_span(start, end)
    for page in record.pages:
        _check_span(page.start, page.end)
        excluded = (*page.excluded_embed, *page.excluded_llm)
        _check_strings((page.id, page.hash, *excluded), "texts of pages")
    if record.pages and record.segments and len(record.segments) != len(record.pages):
        raise ValueError("there is not one segment per page")
    _check_numbers(record.word_counts, "word counts", length=chunks)
    if len(record.leaf_metadata_rows) != chunks:
        raise ValueError("a chunk has no metadata")
    for rows in record.leaf_metadata_rows:
        _check_numbers(rows, "metadata rows", len(record.leaf_metadata))
    inner = [segment[2] for segment in record.segments] + [page.metadata for page in record.pages]
    own = (record.metadata, *record.leaf_metadata, *inner)
    if not all(isinstance(metadata, Mapping) for metadata in own):
        raise TypeError("metadata must be an object")


def _check_mentions(mentions: MentionColumns, chunks: int) -> None:
    count = len(mentions.name_rows)
    _check_strings((*mentions.names, *mentions.labels), "names")
    _check_numbers(mentions.name_rows, "names", len(mentions.names))
    _check_numbers(mentions.label_rows, "labels", len(mentions.labels), count)
    _check_numbers(mentions.starts, "starts", length=count)
    _check_numbers(mentions.lengths, "lengths", length=count)
    _check_numbers(mentions.sentence_sizes, "sentences", count + 1)
    sentences = len(mentions.sentence_sizes)
    _check_numbers(mentions.chunk_sizes, "chunks", sentences + 1, chunks)
    if sum(mentions.sentence_sizes) != count or sum(mentions.chunk_sizes) != sentences:
        raise ValueError("the sizes of the sentences or chunks are wrong")


def _check_numbers(
    values: Iterable[Any], what: str, end: int = _MAX_OFFSET, length: int | None = None
) -> None:
    numbers = list(values)
    if length is not None and len(numbers) != length:
        raise ValueError(f"there are {len(numbers)} {what} instead of {length}")
    if not all(type(number) is int and 0 <= number < end for number in numbers):
        raise ValueError(f"the {what} contain an invalid number")


def _check_span(start: Any, end: Any) -> None:
    _check_numbers((start, end), "spans")
    if end < start:
        raise ValueError("a span ends before it starts")


def _check_strings(values: Iterable[Any], what: str) -> None:
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"the {what} must be strings")


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document that is ready to be stored.

    Attributes:
        record: Record for the index struct.
        nodes: Nodes for the docstore.
        vectors: Entries for the vector store, with embeddings, in the order of `record.windows`.
    """

    record: DocumentRecord
    nodes: Sequence[BaseNode]
    vectors: Sequence[TextNode]


def _overlaps(page: PageRecord, leaves: Sequence[Node]) -> bool:
    """Return whether a page has text in any of the chunks."""
    has_text = page.start < page.end
    return has_text and any(n.start < page.end and page.start < n.end for n in leaves)


def _positions(levels: Sequence[int]) -> list[int]:
    """Return the position of each node within its level."""
    sizes: Counter[int] = Counter()
    positions = []
    for level in levels:
        positions.append(sizes[level])
        sizes[level] += 1
    return positions


def _split(items: Sequence[T], sizes: Sequence[int]) -> list[Sequence[T]]:
    """Split the items into consecutive lists of the given sizes."""
    rest = iter(items)
    return [list(islice(rest, size)) for size in sizes]
