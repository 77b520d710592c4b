"""Proposing homonyms: names that different documents may use for different entities.

No language model is called. Only a document that is about a name, and begins with its definition,
says which entity it means. Such documents are compared by the other names in them, their metadata,
and their vectors; those that share such context are about one entity. The vector of the name is
taken out of theirs, because it makes all of them similar. Every other document with the name is
about the entity whose documents are nearest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import check_fraction
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.titles import title_entity, title_form
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.entities.entity_view import EntityView
from e2graphrag_integrations.snapshot.snapshot import Snapshot

MAX_DOCUMENTS = 50
"""Maximum number of documents with a name. A more frequent one is taken for one entity."""

MAX_SIMILARITY = 0.4
"""Maximum cosine similarity of documents about different entities, chosen on the dev half of
`benchmarks/homonyms.py`."""

MAX_SHARED_FEATURES = 1
"""Maximum number of names and values that documents about different entities share."""

MAX_SHARED = 0.02
"""Maximum share of the documents of an index with a name or a value that counts as context."""

_SHOWN = 5
"""Maximum number of names, and of values, that are shown as evidence for an entity."""


@dataclass(frozen=True, slots=True)
class Homonym:
    """One of the entities that share a name.

    Attributes:
        meaning: A name that tells it from the others. That of the first one is the shared name.
        document_ids: The documents that mean it.
        neighbors: Names that occur only with it, the most frequent first: the evidence.
        values: Values in the metadata of only its documents, such as "team=x": also evidence.
    """

    meaning: str
    document_ids: tuple[str, ...]
    neighbors: tuple[str, ...]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HomonymProposal:
    """A name that seems to mean several entities.

    Attributes:
        name: The name.
        entities: The entities; that of most documents is the first.
        similarity: The highest cosine similarity of documents that introduce different ones,
            without what the name adds to it. The lower it is, the surer is the proposal.
    """

    name: str
    entities: tuple[Homonym, ...]
    similarity: float

    @property
    def separation(self) -> tuple[str, Mapping[str, tuple[str, ...]]]:
        """The argument for `edit_entities(separate=)`, which also takes the proposal itself."""
        return self.name, {one.meaning: one.document_ids for one in self.entities[1:]}

    def to_dict(self) -> dict[str, Any]:
        """Return the proposal as JSON values."""
        return asdict(self)


def propose_homonyms(
    snapshot: Snapshot,
    embed: Callable[[Sequence[str]], FloatArray],
    prefix: str = "",
    max_similarity: float | None = None,
) -> list[HomonymProposal]:
    """Return proposals of homonyms, the surest first; see `E2GraphRAG.propose_homonyms`.

    Args:
        snapshot: The snapshot.
        embed: Returns the vectors of names, by the embedder of the index.
        prefix: Start of the names.
        max_similarity: Maximum cosine similarity; None means `MAX_SIMILARITY`.

    Raises:
        InvalidInputError: If an argument is invalid, or the vectors are not in the index.
    """
    limit = MAX_SIMILARITY
    if max_similarity is not None:
        limit = check_fraction("max_similarity", max_similarity)
    if snapshot.own_vectors is None:
        raise InvalidInputError(
            "homonyms are found by the vectors of documents, which are not in this index: call "
            "propose_homonyms() on an index that has its own vectors"
        )
    contexts = _Contexts(snapshot)
    candidates = contexts.candidates(prefix)
    if not candidates:
        return []
    names = [contexts.view.subjects.names[row] for row in candidates]
    found = [
        proposal
        for row, vector in zip(candidates, embed(names), strict=True)
        for proposal in contexts.proposals(row, vector, limit)
    ]
    return sorted(found, key=lambda one: (one.similarity, one.name))


@dataclass(frozen=True, eq=False)
class _Context:
    """What surrounds a name in a document.

    Attributes:
        document: Row of the document.
        is_about: Whether the document is about the name.
        features: The other names, and the values in the metadata.
        vector: The mean vector of the chunks with the name, of length 1.
    """

    document: int
    is_about: bool
    features: frozenset[int | str]
    vector: FloatArray

    def without(self, unit: FloatArray) -> _Context:
        """Return the context without the direction of a vector of length 1."""
        return replace(self, vector=_unit(self.vector - float(self.vector @ unit) * unit))


class _Contexts:
    """Compares the documents with a name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.view = EntityView(snapshot, None)

    def of(self, entity: int) -> list[_Context]:
        """Return the contexts of an entity in the documents that mention it or are about it."""
        about = set(self.view.subject_of(entity))
        mentioned = self.view.chunks_of(entity)
        owners = self._snapshot.chunk_documents
        own = owners[mentioned]
        found = []
        for document in self.view.documents_of(entity):
            chunks = mentioned[own == document]
            if document in about:
                chunks = np.arange(*np.searchsorted(owners, [document, document + 1]))
            features = {one for one in self._names(chunks) if one != entity}
            found.append(
                _Context(
                    document,
                    document in about,
                    frozenset(features | self._values[document]),
                    self._vector(chunks),
                )
            )
        return found

    def candidates(self, prefix: str) -> list[int]:
        """Return the names that several documents introduce, the most mentioned first."""
        is_name = self._snapshot.mostly_names
        return [
            row
            for row in self.view.ranked_rows(prefix).tolist()
            if is_name[row]
            and len(self._introducing(row)) > 1
            and len(self.view.documents_of(row)) <= MAX_DOCUMENTS
        ]

    def _introducing(self, entity: int) -> list[int]:
        """Return the documents that are about an entity and begin with its definition."""
        about = self.view.subject_of(entity)
        return [document for document in about if (document, entity) in self._introductions]

    def proposals(
        self, entity: int, name_vector: FloatArray, max_similarity: float
    ) -> Iterator[HomonymProposal]:
        """Yield the proposal for an entity, if there is one."""
        introducing = self._introducing(entity)
        unit = _unit(name_vector)
        contexts = [one.without(unit) for one in self.of(entity)]
        introductions = [one for one in contexts if one.document in introducing]
        groups = _groups(introductions, max_similarity)
        if len(groups) < 2:  # noqa: PLR2004 - two entities
            return
        similarity = max(_similarity(one, other) for one, other in combinations(groups, 2))
        complete = [list(group) for group in groups]
        for one in contexts:
            if one.document not in introducing:
                complete[_nearest(groups, one)].append(one)
        complete.sort(key=len, reverse=True)
        name = self.view.subjects.names[entity]
        used = {name}
        entities: list[Homonym] = []
        for own in complete:
            others = [one for one in contexts if one not in own]
            neighbors, values = self._evidence(own, others)
            meaning = name if not entities else self._meaning(name, own, neighbors, used)
            used.add(normal_form(meaning))
            ids = tuple(self._snapshot.documents[one.document] for one in own)
            entities.append(Homonym(meaning, ids, neighbors, values))
        yield HomonymProposal(name, tuple(entities), round(similarity, 4))

    def _evidence(
        self, own: Sequence[_Context], others: Sequence[_Context]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names and the values that only some contexts have, the most frequent first."""
        elsewhere = frozenset().union(*(one.features for one in others))
        counts = Counter(one for context in own for one in context.features)
        only = {one: count for one, count in counts.items() if one not in elsewhere}
        rows = self.view.subjects.names
        names = {rows[one]: count for one, count in only.items() if not isinstance(one, str)}
        values = {one: count for one, count in only.items() if isinstance(one, str)}
        return _most_frequent(names), _most_frequent(values)

    def _meaning(
        self, name: str, own: Sequence[_Context], neighbors: Sequence[str], used: AbstractSet[str]
    ) -> str:
        """Return a name for an entity that tells it from the others with the same name."""
        titles = [self._snapshot.titles[one.document] for one in own if one.is_about]
        candidates = [title for title in titles if title and title_form(title) == name]
        candidates += [f"{name} ({word})" for word in neighbors]
        candidates += [f"{name} ({number})" for number in range(2, len(used) + 3)]
        return next(one for one in candidates if normal_form(one) not in used)

    def _names(self, chunks: IntArray) -> Iterator[int | str]:
        matrix = self._names_of_chunks
        for chunk in chunks.tolist():
            for name in matrix.indices[matrix.indptr[chunk] : matrix.indptr[chunk + 1]].tolist():
                if self._is_context[name]:
                    yield name

    @lazy
    def _names_of_chunks(self) -> Any:
        return self._snapshot.graph.postings.T.tocsr()

    @lazy
    def _introductions(self) -> AbstractSet[tuple[int, int]]:
        """The documents that begin with a definition of an entity, as pairs with that entity."""
        snapshot, table = self._snapshot, self._snapshot.subject_candidates
        owners = snapshot.chunk_documents
        index = self.view.subjects.index
        found = set()
        for at in np.flatnonzero(table.is_definition).tolist():
            chunk = int(table.chunks[at])
            document = int(owners[chunk])
            entity = index.get(title_entity(table.names[at], snapshot.edits), -1)
            if chunk == int(np.searchsorted(owners, document)):
                found.add((document, entity))
        return found

    @lazy
    def _is_context(self) -> NDArray[np.bool_]:
        """Whether each entity is a name that few documents have."""
        snapshot = self._snapshot
        postings = snapshot.graph.postings
        entities = np.repeat(np.arange(postings.shape[0]), np.diff(postings.indptr))
        count = len(snapshot.documents)
        pairs = np.unique(entities * count + snapshot.chunk_documents[postings.indices])
        frequencies = np.bincount(pairs // max(1, count), minlength=postings.shape[0])
        is_name = snapshot.mostly_names[: postings.shape[0]]
        mask: NDArray[np.bool_] = is_name & (frequencies <= self._most_shared)
        return mask

    @property
    def _most_shared(self) -> float:
        return max(2.0, MAX_SHARED * len(self._snapshot.documents))

    @lazy
    def _values(self) -> Sequence[frozenset[int | str]]:
        """The values in the metadata of each document that few documents have."""
        snapshot = self._snapshot
        records = snapshot.records
        found: list[set[int | str]] = [set() for _ in snapshot.documents]
        rows = {id_: row for row, id_ in enumerate(snapshot.documents)}
        for record in records.values:
            values = found[rows[record[records.id_key]]]
            for key, value in record.items():
                if key != records.id_key and isinstance(value, str | int | float) and value:
                    values.add(f"{key}={value}")
        counts = Counter(value for values in found for value in values)
        return [
            frozenset(value for value in values if counts[value] <= self._most_shared)
            for values in found
        ]

    def _vector(self, chunks: IntArray) -> FloatArray:
        snapshot = self._snapshot
        dense = snapshot.own_vectors
        if dense is None:
            raise TypeError("the snapshot has no vectors")
        windows, _ = snapshot.dense.windows_of(snapshot.chunk_nodes[chunks])
        return _unit(np.asarray(dense.vectors[windows], dtype=np.float32).mean(axis=0))


def _most_frequent(counts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(counts, key=lambda one: (-counts[one], one))[:_SHOWN])


def _unit(vector: FloatArray) -> FloatArray:
    """Return a vector of length 1 with the same direction."""
    unit: FloatArray = vector / max(float(np.linalg.norm(vector)), 1e-9)
    return unit


def _groups(contexts: Sequence[_Context], max_similarity: float) -> list[list[_Context]]:
    """Return the contexts of each entity: those that share features, or have similar vectors."""
    group = list(range(len(contexts)))
    for (a, one), (b, other) in combinations(enumerate(contexts), 2):
        if group[a] != group[b] and _are_alike(one, other, max_similarity):
            old, new = sorted((group[a], group[b]), reverse=True)
            group = [new if number == old else number for number in group]
    found = [
        [one for one, own in zip(contexts, group, strict=True) if own == number]
        for number in dict.fromkeys(group)
    ]
    return sorted(found, key=len, reverse=True)


def _are_alike(one: _Context, other: _Context, max_similarity: float) -> bool:
    if len(one.features & other.features) > MAX_SHARED_FEATURES:
        return True
    return float(one.vector @ other.vector) > max_similarity


def _similarity(one: Sequence[_Context], other: Sequence[_Context]) -> float:
    """Return the highest cosine similarity between two groups."""
    return max(float(a.vector @ b.vector) for a in one for b in other)


def _nearest(groups: Sequence[Sequence[_Context]], one: _Context) -> int:
    """Return the number of the group of a document that does not introduce its entity."""

    def nearness(number: int) -> tuple[int, float]:
        shared = max(len(one.features & other.features) for other in groups[number])
        return shared, _similarity([one], groups[number])

    return max(range(len(groups)), key=nearness)
