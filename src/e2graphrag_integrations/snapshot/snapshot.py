"""The snapshot: arrays derived from the store that contain all data for retrieval except texts.

Nodes are ordered by document, level and position. Chunks are also numbered consecutively in this
order, so that the chunks under any node form a contiguous range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import (
    IntArray,
    concatenated_ranges,
    exclusive_sums,
)
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.matching.aliases import Aliases, NameIndexes
from e2graphrag_integrations.graph.builder import MentionTable, SentenceTable, apply_edits
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.metadata_names import names_in_metadata
from e2graphrag_integrations.graph.pagerank import PersonalizedPageRank
from e2graphrag_integrations.graph.subjects import Subjects, choose_subjects
from e2graphrag_integrations.graph.titles import SubjectTable, TextTitles, TitleForms
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.dense import (
    FLOAT32,
    DenseIndex,
    NodeSearch,
    OwnVectors,
    VectorKind,
)
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.name_evidence import NameEvidence

if TYPE_CHECKING:
    from e2graphrag_integrations.graph.communities import Communities
    from e2graphrag_integrations.snapshot.entity_types import EntityTypes
    from e2graphrag_integrations.text.tags import TagSet


T = TypeVar("T")

_MAX_DERIVED = 16
"""Number of values for which a snapshot remembers what `derived` returned."""

_CACHED_SEEDS = 4
"""Number of seeds for which a snapshot keeps its communities."""

_MIN_SHARE_NAMED = 0.5
"""An entity is a name if at least this share of its mentions are names, or of the chunks with it
are in documents about it."""


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of all documents, one row per node.

    Attributes:
        ids: Id of each node.
        document: Row of the node's document.
        level: The node's level in the tree; 0 for chunks.
        position: The node's position within its level of the document.
        start, end: Span of the node in its document's text, half-open.
        first_leaf, end_leaf: Half-open range of the numbers of the chunks under the node.
    """

    ids: Sequence[str]
    document: IntArray
    level: IntArray
    position: IntArray
    start: IntArray
    end: IntArray
    first_leaf: IntArray
    end_leaf: IntArray

    @lazy
    def row_of(self) -> Mapping[str, int]:
        """Return the row of each node by id."""
        return {id_: row for row, id_ in enumerate(self.ids)}

    @lazy
    def roots(self) -> IntArray:
        """Return the rows of the nodes without a parent, ascending."""
        roots: IntArray = np.flatnonzero(self.parents < 0)
        return roots

    @lazy
    def children(self) -> tuple[IntArray, IntArray]:
        """Return the first child of each node, and the number of its children: adjacent rows."""
        first = np.zeros(len(self.level), dtype=np.int64)
        counts = np.zeros(len(self.level), dtype=np.int64)
        below = np.flatnonzero(self.level == 0)
        for level in range(1, int(self.level.max(initial=0)) + 1):
            rows = np.flatnonzero(self.level == level)
            leaves = self.first_leaf[below]  # ascending, as chunks are numbered by document
            start = np.searchsorted(leaves, self.first_leaf[rows])
            first[rows] = below[start]
            counts[rows] = np.searchsorted(leaves, self.end_leaf[rows]) - start
            below = rows
        return first, counts

    @lazy
    def parents(self) -> IntArray:
        """Return the row of each node's parent; -1 for a root."""
        first, counts = self.children
        parents = np.full(len(self.level), -1, dtype=np.int64)
        parents[concatenated_ranges(first, counts)] = np.repeat(np.arange(len(counts)), counts)
        return parents


NODE_ARRAYS = tuple(field.name for field in fields(NodeTable) if field.name != "ids")
"""Names of the integer columns of a `NodeTable`."""


def _no_tags(snapshot: Snapshot) -> NDArray[np.int16]:
    return np.empty((len(snapshot.chunk_nodes), 0), dtype=np.int16)


def no_field(snapshot: Snapshot) -> None:
    """Return None: chunks contain nothing in addition to their texts."""


@dataclass(frozen=True)
class Segments:
    """The folders on disk that contain the documents of a snapshot; see `snapshot/incremental.py`.

    Attributes:
        generations: The generations of the snapshots that were saved in the folders, oldest first.
        deleted: Ids of the documents in the folders that are not in the snapshot.
    """

    generations: tuple[str, ...]
    deleted: frozenset[str] = frozenset()

    def followed_by(self, newer: Snapshot, removed: Iterable[str]) -> Segments:
        """Return these segments with that of the documents that changed; others were removed."""
        deleted = self.deleted.union(removed).difference(newer.documents)
        return Segments((*self.generations, newer.generation), deleted)


class Preparation(NameIndexes):
    """Prepares what questions need of a snapshot beside its arrays: computes it."""

    def of(self, snapshot: Snapshot) -> Preparation:  # noqa: ARG002 - for `KeptPreparation`
        """Return the preparation of a snapshot, which may have been made from another one."""
        return self

    def get(self, name: str, snapshot: Snapshot, compute: Callable[[Snapshot], T]) -> T:  # noqa: ARG002 - for `KeptPreparation`
        """Return what a function computes of the snapshot; the name says what."""
        return compute(snapshot)

    def stale(self, built: Snapshot) -> Iterable[str]:  # noqa: ARG002 - for `KeptPreparation`
        """Return the names of what is stored, but differs from a fresh build."""
        return ()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All arrays derived from one generation of the store.

    Attributes:
        generation: Name of the store's state that the arrays are derived from.
        made_with: Settings and model fingerprints of the index.
        documents, titles, stamps: Id, title and stamp of each document, ordered by id. Any change
            to a document changes its stamp.
        nodes: The nodes of all documents.
        chunk_nodes: Row in `nodes` of each chunk.
        chunk_words: Number of words in each chunk.
        graph: The entity graph.
        mentions: The mentions before the edits; None if the snapshot will be neither saved nor
            merged.
        mention_names: The names that `mentions` refer to: the entities before the edits. None if
            there are no edits.
        edits: The user's entity edits, which the graph contains.
        mentions_factory: Returns the mentions before the edits if `mentions` is None, given the
            names that they refer to.
        dense: Vector search over all windows.
        window_spans: Span of each window in its node's text; shape (windows, 2).
        records: The nodes' metadata.
        bm25_factory: Builds or loads the BM25 index on first use.
        prebuilt_bm25: The BM25 index, if it was built together with the snapshot.
        subject_candidates: The candidates for the subjects of the chunks.
        tags: The tags that chunks can have; None if the user has set none.
        tags_factory: Assigns or loads the tags of the chunks on first use; none by default.
        title_forms: The entities of titles, which a later snapshot need not compute again; None to
            forget them.
        segments: The folders on disk that contain the documents; None if the snapshot is not saved.
        partial_documents: The rows of documents of which only some nodes are in the snapshot.
        question_languages: The languages whose extractors read questions; None means all of the
            index.
        field_factory: Loads what chunks contain in addition to their texts (`ChunkField`) on first
            use.
        preparation: Prepares what questions need beside the arrays.
    """

    generation: str
    made_with: Mapping[str, str]
    documents: Sequence[str]
    titles: Sequence[str | None]
    nodes: NodeTable
    chunk_nodes: IntArray
    chunk_words: IntArray
    graph: EntityGraph
    dense: NodeSearch
    window_spans: IntArray
    records: MetadataRecords
    bm25_factory: Callable[[Snapshot], BM25Index]
    stamps: Sequence[str] = ()
    mentions: MentionTable | None = None
    mention_names: Sequence[str] | None = None
    edits: EntityEdits = NO_EDITS
    mentions_factory: Callable[[Sequence[str]], MentionTable] | None = None
    prebuilt_bm25: BM25Index | None = None
    subject_candidates: SubjectTable = field(default_factory=SubjectTable.empty)
    tags: TagSet | None = None
    tags_factory: Callable[[Snapshot], NDArray[np.int16]] = _no_tags
    title_forms: TitleForms | None = None
    segments: Segments | None = None
    partial_documents: Sequence[int] = ()
    question_languages: frozenset[str] | None = None
    field_factory: Callable[[Snapshot], Any] = no_field
    preparation: Preparation = field(default_factory=Preparation)

    @lazy
    def chunk_field(self) -> Any:
        """Return what chunks contain in addition to their texts; None if there is nothing."""
        return self.field_factory(self)

    @lazy
    def languages(self) -> Sequence[str]:
        """Return the language of each document."""
        return [self.records.languages.get(id_, ENGLISH) for id_ in self.documents]

    @lazy
    def known_languages(self) -> frozenset[str]:
        """Return the languages of the documents."""
        return frozenset(self.languages)

    @lazy
    def bm25(self) -> BM25Index:
        """Return the BM25 index over all windows, built or loaded on first use."""
        return self.bm25_factory(self) if self.prebuilt_bm25 is None else self.prebuilt_bm25

    @property
    def tag_set(self) -> TagSet:
        """The tags that chunks can have; an empty set if there are none."""
        from e2graphrag_integrations.text.tags import TagSet

        return TagSet() if self.tags is None else self.tags

    @lazy
    def chunk_tags(self) -> NDArray[np.int16]:
        """Return the tags of each chunk as rows of the tag set; see `snapshot/tags.py`."""
        return self.tags_factory(self)

    @property
    def loaded_bm25(self) -> BM25Index | None:
        """The BM25 index, or None if it is not in memory yet."""
        loaded: BM25Index | None = vars(self).get("bm25", self.prebuilt_bm25)
        return loaded

    def stored_parts(self) -> tuple[MentionTable, OwnVectors]:
        """Return the mentions and the vectors.

        Raises:
            TypeError: If there are none, for example because the vectors are in an external store.
        """
        dense = self.own_vectors
        if self.mentions is None or dense is None:
            raise TypeError("a snapshot without its mentions and vectors cannot be saved or merged")
        return self.mentions, dense

    @property
    def has_segments(self) -> bool:
        """Whether the vectors of recent documents are a segment of their own."""
        return self.own_vectors is not None and not isinstance(self.dense, DenseIndex)

    @property
    def kind(self) -> VectorKind:
        """The kind of its own vectors."""
        return FLOAT32 if self.own_vectors is None else self.own_vectors.kind

    @property
    def own_vectors(self) -> OwnVectors | None:
        """The search in the vectors of the snapshot; None if they are in an external store."""
        return self.dense if isinstance(self.dense, OwnVectors) else None

    @property
    def has_names(self) -> bool:
        """Whether the index knows a name, so that names in questions matter."""
        return bool(self.graph.names) or any(self.titles)

    @property
    def unedited_names(self) -> Sequence[str]:
        """The normal forms of all mentions, before the edits."""
        return self.graph.names if self.mention_names is None else self.mention_names

    @lazy
    def unedited_mentions(self) -> MentionTable:
        """Return the mentions before the edits, whose entities are rows of `unedited_names`."""
        if self.mentions is not None:
            return self.mentions
        if self.mentions_factory is None:
            raise TypeError("the snapshot has no mentions")
        return self.mentions_factory(self.unedited_names)

    @lazy
    def sentences(self) -> SentenceTable:
        """Return the entities of each sentence, prepared on first use."""
        return SentenceTable(self._edited_mentions(), len(self.graph.names))

    def _edited_mentions(self) -> MentionTable:
        """Return the mentions after the edits, whose entities are those of the graph."""
        return apply_edits(self.unedited_names, self.unedited_mentions, self.edits)[1]

    @cached_method(_MAX_DERIVED)
    def derived(self, make: Callable[[Snapshot], Any]) -> Any:
        """Return what a hashable function makes of the snapshot, computed once for equal ones."""
        return make(self)

    @cached_method(_CACHED_SEEDS)
    def communities(self, seed: int) -> Communities:
        """Return the communities of the graph for a seed."""
        from e2graphrag_integrations.graph.communities import Communities, find_communities

        labels = find_communities(self.graph.edges, seed)
        return Communities(labels, self.sentences, len(self.chunk_nodes))

    @lazy
    def subjects(self) -> Subjects:
        """Return the entities, including those that occur only as the subject of a document."""
        return self.preparation.of(self).get("subjects", self, Snapshot.choose_subjects)

    def choose_subjects(self) -> Subjects:
        """Return the subjects, computed anew."""
        records, chunks = self.records, self.chunk_nodes
        records_of_chunks = records.starts[chunks], records.ends[chunks], records.indices
        names = names_in_metadata(
            self.documents, self.chunk_documents, records.values, records_of_chunks
        )
        forms = TitleForms(self.edits) if self.title_forms is None else self.title_forms

        def meant(titles: Sequence[str | None]) -> Sequence[str | None]:
            if not self.edits.homonyms:
                return titles
            pairs = zip(self.documents, titles, strict=True)
            return [self.edits.title_in(id_, title) for id_, title in pairs]

        names = replace(names, titles=meant(names.titles), files=meant(names.files))
        choice = choose_subjects(
            self.graph,
            meant(self.titles),
            self.subject_candidates,
            self.chunk_documents,
            names,
            edits=self.edits,
            forms=forms,
        )
        return Subjects.from_choice(self.graph, choice, self.edits, forms)

    @lazy
    def personalized_pagerank(self) -> PersonalizedPageRank:
        """Return personalized PageRank for the entity graph, prepared on first use."""
        return self.preparation.of(self).get("ranks", self, Snapshot.prepare_pagerank)

    def prepare_pagerank(self) -> PersonalizedPageRank:
        """Return personalized PageRank, computed anew."""
        return PersonalizedPageRank.from_graph(self.graph, self.subjects, self.chunk_documents)

    @lazy
    def chunk_documents(self) -> IntArray:
        """Return the row of each chunk's document, ascending."""
        documents: IntArray = self.nodes.document[self.chunk_nodes]
        return documents

    @lazy
    def text_titles(self) -> TextTitles:
        """Return the titles of the documents that are longer than a passage."""
        return TextTitles(self.subjects.of_texts(self.chunk_documents))

    @lazy
    def is_chunk(self) -> NDArray[np.bool_]:
        """Return a mask over the nodes: True for chunks."""
        mask: NDArray[np.bool_] = self.nodes.level == 0
        return mask

    def is_name(self, form: str) -> bool:
        """Return whether a normal form is a named entity or the subject of a document."""
        row = self.subjects.index.get(form, -1)
        return row >= 0 and (
            row >= len(self.graph.names)
            or bool(self.graph.named[row])
            or bool(self.subjects.is_subject[row])
        )

    @lazy
    def mostly_names(self) -> NDArray[np.bool_]:
        """Whether each subject is a name: most mentions are, or are in documents about it.

        A word with `graph.named` may be a name only once, as "time" in a title. A document that is
        named "Story" does not make a name of all other mentions of that word.
        """
        subjects, postings = self.subjects, self.graph.postings
        entities = np.repeat(np.arange(postings.shape[0]), np.diff(postings.indptr))
        places = entities * len(self.documents) + self.chunk_documents[postings.indices]
        about = subjects.entities * len(self.documents) + subjects.documents_of_entities
        is_own = np.isin(places, about)
        total = np.bincount(entities, minlength=len(subjects.names))
        own = np.bincount(entities[is_own], minlength=len(subjects.names))
        is_about = own >= np.maximum(1, _MIN_SHARE_NAMED * total)
        mask: NDArray[np.bool_] = (self.shares_named >= _MIN_SHARE_NAMED) | is_about
        return mask

    @lazy
    def entity_types(self) -> EntityTypes:
        """Return the type of each subject, computed on first use."""
        from e2graphrag_integrations.snapshot.entity_types import EntityTypes

        return EntityTypes.of(self._edited_mentions(), self.mostly_names)

    @lazy
    def spellings(self) -> dict[int, str]:
        """The spelling of each subject whose mentions have been read for it, by row."""
        return {}

    @lazy
    def name_evidence(self) -> NameEvidence:
        """Return whether the texts use words as names, computed when a question asks for it."""
        return NameEvidence(
            self.bm25,
            self.aliases,
            self.personalized_pagerank,
            self.nodes.first_leaf,
            self.dense.window_nodes,
            self.nodes.level,
            self.shares_named,
        )

    @lazy
    def shares_named(self) -> NDArray[np.float32]:
        """The share of the mentions of each subject that are names, not common nouns."""
        return self.preparation.of(self).get("shares", self, Snapshot.count_named)

    def count_named(self) -> NDArray[np.float32]:
        """Return these shares, computed anew."""
        count = len(self.graph.names)
        mentions = self._edited_mentions()
        named = np.bincount(mentions.entities[mentions.named], minlength=count)
        total = np.bincount(mentions.entities, minlength=count)
        shares = np.ones(len(self.subjects.names), dtype=np.float32)
        shares[:count] = named / np.maximum(total, 1)
        return shares

    @lazy
    def aliases(self) -> Aliases:
        """Return the aliases of entities, for names that match no entity exactly."""
        only_subjects = len(self.subjects.names) - len(self.graph.names)
        named = np.concatenate([self.graph.named, np.ones(only_subjects, dtype=np.bool_)])
        doc_freq = self.personalized_pagerank.doc_freq
        names = self.subjects.names
        return Aliases(names, named, doc_freq, self.edits, self.preparation.of(self))

    @lazy
    def level_window_starts(self) -> IntArray:
        """Return the first window of each level in each document, then the number of windows."""
        nodes = self.dense.window_nodes  # ordered by document, level and position
        document, level = self.nodes.document[nodes], self.nodes.level[nodes]
        changes = (np.diff(document) != 0) | (np.diff(level) != 0)
        return np.concatenate([[0], np.flatnonzero(changes) + 1, [len(nodes)]])

    @lazy
    def chunk_word_offsets(self) -> IntArray:
        """Return the number of words before each chunk, then the total. Shape: (chunks + 1,)."""
        return exclusive_sums(self.chunk_words)
