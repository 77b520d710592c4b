"""The route of a question: whether it is about something particular or about a text as a whole.

The paper (arXiv 2505.24226, section 3.3) retrieves locally if entities of the question are near
each other in the graph. `HybridStrategy` fuses both sides, so its route does not affect the
ranking. It tells a caller that branches on it, such as a router, what kind of question this is. The
question and the index decide it, before anything is ranked:

1. `global` if the words ask about a text as a whole ("the main themes", "summarize the meeting",
   "how does it end"), and no name leads elsewhere;
2. `local` if the index knows a code or a name in the question;
3. `local` if the nouns of the question meet in few passages;
4. `global` otherwise.

For a question about how a text ends ("How did everything turn out?"), the last part of the text
comes first. No word of such a question is there, so no ranking finds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.retrieval.names.code_matches import CodeMatches
from e2graphrag_integrations.retrieval.names.seeds import Seeds
from e2graphrag_integrations.retrieval.question_words import (
    asks_for_aspect,
    asks_for_content,
    asks_for_overview,
    topic_terms,
)
from e2graphrag_integrations.retrieval.ranking.breadth import is_overview
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.request_kinds import names_ending, request_kind
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Route
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Span

_MAX_MET = 1 / 3
"""Maximum fraction of the chunks in which the nouns of a question meet for a local route."""

_MAX_TITLES = 8
"""Number of titles in a question that are read; a question with more is no question."""

_MAX_NOUNS = 16
"""Maximum number of nouns of a question that are looked up."""

_SHOWN = 3
"""Maximum number of names that the reason states."""


@dataclass(frozen=True, slots=True)
class RouteChoice:
    """The route of a question.

    Attributes:
        route: `local` or `global`.
        reason: Why.
    """

    route: Route
    reason: Reason


def choose_route(query: Query, seeds: Seeds, codes: CodeMatches, snapshot: Snapshot) -> RouteChoice:
    """Return the route of a question, before anything is ranked.

    Args:
        query: The question.
        seeds: Its names in the index.
        codes: Its codes in the index.
        snapshot: The search index.
    """
    if query.mode != "auto":
        return RouteChoice(query.mode, Reason("mode", mode=query.mode))
    if not codes.found and _asks_about_whole(query, seeds, snapshot):
        return RouteChoice("global", Reason("whole"))
    counts = [(one.text, len(one.chunks)) for one in codes.found]
    counts += [(str(snapshot.subjects.names[one.entity]), one.doc_freq) for one in seeds.ranked]
    if counts:
        known = tuple(name for name, _ in counts)
        more = {"more": len(known) - _SHOWN} if len(known) > _SHOWN else {}
        reason = Reason(
            "more_names" if more else "names",
            names=known[:_SHOWN],
            name=known[0],
            count=counts[0][1],
            total=seeds.allowed_count,
            **more,
        )
        return RouteChoice("local", reason)
    return _by_nouns(*_meeting(query, seeds, snapshot), seeds.allowed_count)


def _by_nouns(nouns: Sequence[str], chunks: IntArray, allowed: int) -> RouteChoice:
    if not nouns:
        return RouteChoice("global", Reason("nothing_known"))
    is_few = len(chunks) <= max(1.0, _MAX_MET * allowed)
    code = f"{'few' if is_few else 'many'}_with_noun{'s' if len(nouns) > 1 else ''}"
    reason = Reason(code, nouns=tuple(nouns), count=len(chunks), total=allowed)
    return RouteChoice("local" if is_few else "global", reason)


def _asks_about_whole(query: Query, seeds: Seeds, snapshot: Snapshot) -> bool:
    """Return whether a question asks about a text as a whole, and names nothing else."""
    if query.codes and not asks_for_overview(query.question):
        return False  # it asks for one part, such as "§ 7"
    rest = without_titles(query.question, snapshot)
    others = [one.mention for one in seeds.linking.links if one.mention in rest]
    for mention in others:
        rest = rest.replace(mention, " ")
    if asks_for_content(query.question):
        return is_overview(rest, snapshot.bm25)
    if others:
        return False
    if asks_for_aspect(rest) or (request_kind(rest) != "other" and not query.carried_terms):
        return True
    if seeds.ranked and not asks_for_overview(rest):
        return False
    return is_overview(rest, snapshot.bm25, query.carried_terms)


def without_titles(question: str, snapshot: Snapshot) -> str:
    """Return a question without the titles of documents that are longer than a passage."""
    parts, rest = [], question
    for _ in range(_MAX_TITLES):
        found = snapshot.text_titles.find(rest)
        if found is None:
            break
        start, end = found
        parts.append(rest[:start])
        rest = rest[end:]
    return " ".join([*parts, rest])


def _meeting(query: Query, seeds: Seeds, snapshot: Snapshot) -> tuple[list[str], IntArray]:
    """Return known nouns of the question, and the allowed chunks in which they meet.

    If no chunk has all of them, these are the two, or the one, that meet in the fewest chunks.
    """
    nouns = {one.entity for one in query.mentions if not one.named and topic_terms(one.entity)}
    found = {}
    for noun in sorted(nouns)[:_MAX_NOUNS]:
        row = snapshot.subjects.index.get(normal_form(noun))
        if row is not None and len(chunks := seeds.allowed_chunks(row)):
            found[noun] = chunks
    if not found:
        return [], np.empty(0, dtype=np.int64)
    everywhere = reduce(np.intersect1d, found.values())
    if len(everywhere):
        return list(found), everywhere
    pairs = [
        ([a, b], shared)
        for i, (a, of_a) in enumerate(found.items())
        for b, of_b in list(found.items())[:i]
        if len(shared := np.intersect1d(of_a, of_b))
    ]
    return min(pairs, key=lambda pair: len(pair[1]), default=([], np.empty(0, dtype=np.int64)))


ENDING = "ending"
"""`found_by` of a candidate from the last part of a text."""

_MIN_CHUNKS = 3
"""Minimum number of chunks of a text that has a last part."""

_LAST_SHARE, _MAX_LAST = 0.05, 3
"""Share of the chunks of a text that are its last part, and the maximum number of them."""

_BEST = 200
"""Number of candidates that decide which text is meant."""


_QUANTITY = re.compile(
    r"\W*(?:how (?:much|many|long|often)|(?:at )?what time|when)\b", re.IGNORECASE
)
"""A question for a number, a price or a time, which need not be in the last part."""


def asks_for_ending(query: Query, snapshot: Snapshot) -> bool:
    """Return whether a question asks how a text ends, which it may call by its title."""
    question = query.question
    if query.mode == "local" or not names_ending(question) or _QUANTITY.match(question):
        return False
    return request_kind(without_titles(query.question, snapshot)) == "ending"


def endings_first(
    candidates: Sequence[Candidate], query: Query, snapshot: Snapshot
) -> list[Candidate]:
    """Return the candidates after the last chunks of the text that the best ones belong to.

    The last chunk, or its last window, is the first candidate. Chunks that a filter excludes are
    left out.

    Args:
        candidates: Nodes or windows, best first.
        query: The question.
        snapshot: The search index.
    """
    chunks = _last_chunks(candidates, query, snapshot)
    if not len(chunks):
        return list(candidates)
    best = candidates[0]
    reason = Reason("ending", count=len(chunks))
    added = [
        Candidate(row, best.score, ENDING, (reason,), span, best.is_window)
        for row in chunks[::-1].tolist()
        for span in (_windows(row, snapshot) if best.is_window else [None])
    ]
    known = {(one.row, one.best_span) if best.is_window else one.row for one in added}
    rest = (
        one
        for one in candidates
        if ((one.row, one.best_span) if best.is_window else one.row) not in known
    )
    return [*added, *rest]


def starts_with_ending(candidates: Sequence[Candidate]) -> bool:
    """Return whether the first candidate is there because it is the last part of a text."""
    return any(one.found_by == ENDING for one in candidates[:1])


def _last_chunks(candidates: Sequence[Candidate], query: Query, snapshot: Snapshot) -> IntArray:
    """Return the rows of the last allowed chunks of the text that is meant, ascending."""
    nodes, top = snapshot.nodes, candidates[:_BEST]
    if not top:
        return np.empty(0, dtype=np.int64)
    documents = nodes.document[[one.row for one in top]]
    shares = np.bincount(documents, [one.score for one in top])
    chunks = snapshot.chunk_nodes
    own = chunks[nodes.document[chunks] == int(shares.argmax())]
    own = own[np.argsort(nodes.position[own], kind="stable")]
    if len(own) < _MIN_CHUNKS:
        return np.empty(0, dtype=np.int64)
    last: IntArray = own[-min(_MAX_LAST, max(1, round(_LAST_SHARE * len(own)))) :]
    return last if query.allowed is None else last[query.allowed[last]]


def _windows(row: int, snapshot: Snapshot) -> list[Span | None]:
    """Return the spans of the windows of a node, the last one first."""
    windows = np.flatnonzero(snapshot.dense.window_nodes == row)[::-1]
    return [Span(*map(int, snapshot.window_spans[one])) for one in windows] or [None]
