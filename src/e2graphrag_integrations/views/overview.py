"""What an index holds, and questions about names that only a few of its chunks have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from e2graphrag_integrations.portability.stats import snapshot_stats
from e2graphrag_integrations.retrieval.entities.entity_view import EntityView
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.words import is_common_word, is_function_word
from e2graphrag_integrations.views.spellings import spellings

MAX_QUESTIONS = 5
"""Maximum number of questions."""

_MAX_PAIRS = 2
"""Maximum number of questions about two names."""

_MAX_CHUNKS = 12
_MAX_SHARE = 4
"""A name is specific up to 12 chunks, and up to one of four chunks; it may always have four."""

_MAX_SEEN = 400
"""Number of names that are looked at, so that an index of any size answers quickly."""

_MIN_LETTERS = 3
_MAX_LETTERS = 40
_MAX_WORDS = 4


@dataclass(frozen=True, slots=True)
class _Wording:
    """The questions in a language: about one name, and about two."""

    about: str
    between: str


_WORDINGS: Mapping[str, _Wording] = MappingProxyType(
    {
        "en": _Wording(
            "What does the text say about {name}?", "How are {name} and {other} connected?"
        ),
        "zh": _Wording("文中是怎么讲{name}的？", "{name}和{other}有什么关系？"),
    }
)
"""The questions by language; an index whose main language is another one gets English ones."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What an index, or a scope of it, holds.

    Attributes:
        documents, chunks: How many there are.
        names: Number of entities, without common nouns.
        languages: Number of documents by language, the most frequent first.
        questions: Questions about specific names of the texts, in their main language if it is
            Chinese, else in English.
    """

    documents: int
    chunks: int
    names: int
    languages: Mapping[str, int]
    questions: tuple[str, ...]


def overview(reader: IndexReader) -> Overview:
    """Return what the reader sees of an index."""

    def read(snapshot: Snapshot, source: NodeSource) -> Overview:
        stats = snapshot_stats(snapshot, snapshot.made_with)
        view = EntityView(snapshot, None)
        names = int(np.count_nonzero(view.is_visible & snapshot.mostly_names))
        main = next(iter(stats.languages), "en")
        wording = _WORDINGS.get(main, _WORDINGS["en"])
        questions = tuple(_questions(view, source, wording))
        return Overview(stats.documents, stats.chunks, names, stats.languages, questions)

    return reader.read_snapshot(read)


def _questions(view: EntityView, source: NodeSource, wording: _Wording) -> list[str]:
    snapshot = view.snapshot
    rows = _specific_names(snapshot)
    pairs = list(_pairs(snapshot, rows))[:_MAX_PAIRS]
    used = {row for pair in pairs for row in pair}
    single = _spread(snapshot, [row for row in rows if row not in used])
    single = single[: MAX_QUESTIONS - len(pairs)]
    shown = [*single, *(row for pair in pairs for row in pair)]
    written = dict(zip(shown, spellings(view, source, shown), strict=True))
    questions = [wording.about.format(name=written[row]) for row in single]
    return questions + [wording.between.format(name=written[a], other=written[b]) for a, b in pairs]


def _specific_names(snapshot: Snapshot) -> list[int]:
    """Return proper names that few chunks have, those of the most chunks first."""
    graph = snapshot.graph
    chunks = np.diff(graph.postings.indptr)
    most = max(_MAX_SHARE, min(_MAX_CHUNKS, graph.postings.shape[1] // _MAX_SHARE))
    are_names = snapshot.mostly_names[: len(chunks)]
    rows = np.flatnonzero(are_names & (chunks > 0) & (chunks <= most))
    rows = rows[np.argsort(-chunks[rows], kind="stable")][:_MAX_SEEN]
    return [row for row in rows.tolist() if _is_fitting(graph.names[row])]


def _is_fitting(name: str) -> bool:
    """Return whether a name reads well in a question.

    Numbers, sentences and names of common words only, such as "Eight Hundred", do not.
    """
    words = name.split()
    if all(map(is_common_word, words)) or any(map(is_function_word, (words[0], words[-1]))):
        return False
    letters = sum(one.isalpha() for one in name)
    is_short = len(name) <= _MAX_LETTERS and len(words) <= _MAX_WORDS
    least = _MIN_LETTERS if name.isascii() else 2  # a Chinese name may have two characters
    return is_short and letters >= max(least, 0.7 * len(name.replace(" ", "")))


def _pairs(snapshot: Snapshot, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of names that share a sentence, each name and each document once."""
    graph, used, documents = snapshot.graph, set[int](), set[int]()
    rank = {row: place for place, row in enumerate(rows)}
    for row in rows:
        document = _document(snapshot, row)
        if row in used or document in documents:
            continue
        others = [other for other in graph.neighbors(row).tolist() if other in rank]
        for other in sorted(others, key=rank.__getitem__):
            if other not in used and _differ(graph.names[row], graph.names[other]):
                used |= {row, other}
                documents.add(document)
                yield row, other
                break


def _differ(one: str, other: str) -> bool:
    """Return whether two names have no word in common: "Zoe" may be "Zoe Smith"."""
    return set(one.split()).isdisjoint(other.split()) and one not in other and other not in one


def _spread(snapshot: Snapshot, rows: Sequence[int]) -> list[int]:
    """Return the rows with the first name of each document in front of all others."""
    first: list[int] = []
    rest: list[int] = []
    seen: set[int] = set()
    for row in rows:
        document = _document(snapshot, row)
        (rest if document in seen else first).append(row)
        seen.add(document)
    return first + rest


def _document(snapshot: Snapshot, row: int) -> int:
    """Return the first document that mentions an entity."""
    return int(snapshot.chunk_documents[snapshot.graph.chunks(row)[0][0]])
