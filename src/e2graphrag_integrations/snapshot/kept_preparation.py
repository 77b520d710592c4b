"""Keeping the results of the first question to a large snapshot on disk.

Subjects, PageRank and the keys of names take a second for a million chunks. The first question
after a build stores them, and later processes map them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from e2graphrag_integrations._utils.strings import StringArray
from e2graphrag_integrations.entities.matching.alias_index import AliasIndex
from e2graphrag_integrations.entities.matching.name_keys import NameCodes, NameKeys
from e2graphrag_integrations.entities.matching.similar_names import NameWords
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.pagerank import PersonalizedPageRank
from e2graphrag_integrations.graph.subjects import Subject, SubjectChoice, Subjects
from e2graphrag_integrations.graph.titles import Section
from e2graphrag_integrations.snapshot.array_files import Arrays, ArraysToSave, Part
from e2graphrag_integrations.snapshot.conversion import INVALID, are_rows, are_strings, is_sparse
from e2graphrag_integrations.snapshot.snapshot import Preparation, Snapshot

S = TypeVar("S")
T = TypeVar("T")

_MATRICES = "chunk_entities", "entity_chunks"
_MATRIX_ARRAYS = "data", "indices", "indptr"
_WORD_ARRAYS = "starts", "lengths", "letters"
_KEYS = "names", "aliases", "parts", "words"


@dataclass(frozen=True)
class _Kind:
    """A kind of value that is kept.

    Attributes:
        rules: Version of the rules that derive the value, which is computed again if they change.
        arrays: Returns the arrays and JSON values of a value, given what it is computed of.
        restore: Returns the value; None if the arrays do not fit.
    """

    rules: int
    arrays: Callable[[Any, Any], Part]
    restore: Callable[[Any, Arrays, Mapping[str, Any]], Any]


@dataclass(frozen=True, eq=False)
class KeptPreparation(Preparation):
    """Stores the values computed from one snapshot in its folder, and loads them.

    Attributes:
        graph: The graph of the snapshot. For one with another graph, such as that of a scope, all
            is computed.
        load: Returns the arrays and JSON values in a subfolder; None if they are missing or
            damaged.
        save: Stores these, if the folder is writable.
    """

    graph: EntityGraph
    load: Callable[[str], tuple[Arrays, dict[str, Any]] | None]
    save: Callable[[str, ArraysToSave, Mapping[str, Any]], None]

    def of(self, snapshot: Snapshot) -> Preparation:
        """Return the preparation of a snapshot. See `Preparation`."""
        return self if snapshot.graph is self.graph else Preparation()

    def get(self, name: str, snapshot: Snapshot, compute: Callable[[Snapshot], T]) -> T:
        """Return a stored value, or compute and store it. See `Preparation`."""
        return self._get(name, snapshot, compute)

    def by_letters(self, names: NameCodes) -> AliasIndex:
        """Return the names of the snapshot by their letters. See `NameIndexes`."""
        return self._get("keys", names, super().by_letters)

    def words(self, names: NameCodes) -> NameWords:
        """Return the words of the names of the snapshot."""
        return self._get("name_words", names, super().words)

    def stale(self, built: Snapshot) -> Iterator[str]:
        """Yield the names of the stored parts that differ from those of a fresh build."""
        for part, (arrays, meta) in computed_parts(built).items():
            stored = self.load(part)
            if stored is not None and not (
                stored[1] == meta
                and all(np.array_equal(array[:], stored[0][name]) for name, array in arrays.items())
            ):
                yield part

    def _get(self, name: str, source: S, compute: Callable[[S], T]) -> T:
        restored: T | None = self._restored(name, source)
        if restored is not None:
            return restored
        value = compute(source)
        self.save(name, *_part(name, source, value))
        return value

    def _restored(self, name: str, source: object) -> Any:
        kind, stored = _KINDS[name], self.load(name)
        if stored is None or stored[1].get("rules") != kind.rules:
            return None
        try:
            return kind.restore(source, *stored)
        except INVALID:
            return None


def _part(name: str, source: object, value: object) -> Part:
    arrays, meta = _KINDS[name].arrays(source, value)
    return arrays, {**meta, "rules": _KINDS[name].rules}


def computed_parts(snapshot: Snapshot) -> dict[str, Part]:
    """Return the arrays and JSON values of all that is kept of a snapshot, by subfolder."""
    names = snapshot.aliases.codes
    return {
        "subjects": _part("subjects", snapshot, snapshot.subjects),
        "ranks": _part("ranks", snapshot, snapshot.personalized_pagerank),
        "shares": _part("shares", snapshot, snapshot.shares_named),
        "keys": _part("keys", names, snapshot.aliases.index),
        "name_words": _part("name_words", names, snapshot.aliases.words),
    }


def _subject_arrays(snapshot: Snapshot, subjects: Subjects) -> Part:
    new = StringArray.of([*subjects.names[len(snapshot.graph.names) :]])
    arrays = {
        "names": new.data,
        "bounds": new.bounds,
        "entities": subjects.entities,
        "documents": subjects.documents_of_entities,
        "section_entities": subjects.section_entities,
        "section_chunks": subjects.section_chunks,
    }
    choice = subjects.choice
    return arrays, {
        "subjects": [[list(one.names), one.source] for one in choice.of_documents],
        "sections": [
            [form, one.name, int(one.first), int(one.end), bool(one.begins_chunk)]
            for form, one in choice.sections
        ],
        "trusted": sorted(choice.trusted),
    }


def _restore_subjects(
    snapshot: Snapshot, arrays: Arrays, meta: Mapping[str, Any]
) -> Subjects | None:
    new = StringArray(arrays["names"], arrays["bounds"])
    if not are_strings(new):
        return None
    count, chunks = len(snapshot.graph.names) + len(new), len(snapshot.chunk_nodes)
    columns = [arrays[name] for name in ("entities", "documents")]
    columns += [arrays[name] for name in ("section_entities", "section_chunks")]
    entities, documents, section_entities, section_chunks = columns
    choice = SubjectChoice(
        [Subject(tuple(names), source) for names, source in meta["subjects"]],
        [(form, Section(*section)) for form, *section in meta["sections"]],
        frozenset(meta["trusted"]),
    )
    fits = (
        are_rows(entities, count, len(documents))
        and are_rows(documents, len(snapshot.documents))
        and are_rows(section_entities, count, len(section_chunks))
        and are_rows(section_chunks, chunks)
        and len(choice.of_documents) == len(snapshot.documents)
        and all(0 <= one.first < one.end <= chunks for _, one in choice.sections)
    )
    return Subjects.of(snapshot.graph, [*new], columns, choice) if fits else None


def _rank_arrays(_: Snapshot, pagerank: PersonalizedPageRank) -> Part:
    matrices = {name: getattr(pagerank, name) for name in _MATRICES}
    arrays = {
        f"{name}_{part}": getattr(matrix, part)
        for name, matrix in matrices.items()
        for part in _MATRIX_ARRAYS
    }
    chunk_sums, entity_sums = pagerank.sums
    returns = pagerank.return_probability
    return {**arrays, "chunk_sums": chunk_sums, "entity_sums": entity_sums, "returns": returns}, {}


def _restore_ranks(
    snapshot: Snapshot, arrays: Arrays, _: Mapping[str, Any]
) -> PersonalizedPageRank | None:
    shape = len(snapshot.chunk_nodes), len(snapshot.subjects.names)
    chunk_entities, entity_chunks = (
        csr_array(tuple(arrays[f"{name}_{part}"] for part in _MATRIX_ARRAYS), shape=own)
        for name, own in zip(_MATRICES, (shape, shape[::-1]), strict=True)
    )
    sums = arrays["chunk_sums"], arrays["entity_sums"]
    returns = arrays["returns"]
    fits = (
        is_sparse(chunk_entities, *shape)
        and is_sparse(entity_chunks, *shape[::-1])
        and chunk_entities.data.dtype == entity_chunks.data.dtype == np.float64
        and chunk_entities.nnz == entity_chunks.nnz
        and all(one.dtype == np.float64 for one in (*sums, returns))
        and (sums[0].shape, sums[1].shape, returns.shape) == (shape[:1], shape[1:], shape[:1])
    )
    if not fits:
        return None
    return PersonalizedPageRank(
        chunk_entities, entity_chunks, known_sums=sums, known_returns=returns
    )


def _share_arrays(_: Snapshot, shares: NDArray[np.float32]) -> Part:
    return {"shares": shares}, {}


def _restore_shares(
    snapshot: Snapshot, arrays: Arrays, _: Mapping[str, Any]
) -> NDArray[np.float32] | None:
    shares = arrays["shares"]
    fits = shares.dtype == np.float32 and shares.shape == (len(snapshot.subjects.names),)
    return shares if fits else None


def _key_arrays(_: NameCodes, index: AliasIndex) -> Part:
    keys = {name: getattr(index, name) for name in _KEYS}
    return {name: one.packed for name, one in keys.items()}, {
        "bits": {name: one.bits for name, one in keys.items()}
    }


def _restore_keys(names: NameCodes, arrays: Arrays, meta: Mapping[str, Any]) -> AliasIndex | None:
    keys = [NameKeys.restored(arrays[name], meta["bits"][name]) for name in _KEYS]
    return AliasIndex.of(*keys) if all(one.fits(len(names.starts)) for one in keys) else None


def _word_arrays(_: NameCodes, words: NameWords) -> Part:
    return {name: getattr(words, name) for name in _WORD_ARRAYS}, {}


def _restore_words(names: NameCodes, arrays: Arrays, _: Mapping[str, Any]) -> NameWords | None:
    starts, lengths, letters = (arrays[name] for name in _WORD_ARRAYS)
    fits = (
        are_rows(starts, len(names.codes))
        and are_rows(lengths, len(names.codes), len(starts))
        and not (len(starts) and int((starts + lengths).max()) > len(names.codes))
        and letters.dtype == np.uint64
        and letters.shape == starts.shape
    )
    return NameWords.of(names, starts, lengths, letters) if fits else None


_KINDS = {
    "subjects": _Kind(1, _subject_arrays, _restore_subjects),
    "ranks": _Kind(1, _rank_arrays, _restore_ranks),
    "shares": _Kind(1, _share_arrays, _restore_shares),
    "keys": _Kind(1, _key_arrays, _restore_keys),
    "name_words": _Kind(1, _word_arrays, _restore_words),
}
"""The kinds of what is kept, by the names of their subfolders."""

KEPT = tuple(_KINDS)
"""Names of the subfolders of what is kept."""
