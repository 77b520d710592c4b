"""The stages for facts in time: what held at a date, and the newest version first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from e2graphrag_integrations.retrieval.candidate_stages import rank_relevant
from e2graphrag_integrations.retrieval.draft import Draft
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import measure
from e2graphrag_integrations.retrieval.validity.options import Validity
from e2graphrag_integrations.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.validity.timeline import SeenVersions

_DEFAULT = Validity()


@dataclass(frozen=True, eq=False)
class Dated:
    """What the first stage found, for the others; one of `Query.options`.

    Attributes:
        validity: The options.
        left_out: Number of nodes that the filter admits and that do not hold at the date.
        versions: The versions among the nodes that the question may find; None without any.
    """

    validity: Validity
    left_out: int = 0
    versions: SeenVersions | None = None


def apply_dates(draft: Draft) -> Draft:
    """Admit only nodes that hold at the date of the question, and find the versions among them."""
    query, snapshot = draft.query, draft.snapshot
    validity = query.option(Validity)
    from e2graphrag_integrations.retrieval.validity import timeline

    with measure("filter", draft.timings):
        keys = _DEFAULT if validity is None else validity
        versions, allowed, left_out = timeline.versions_of(snapshot, keys), query.allowed, 0
        if validity is not None:  # without it, dates only order versions
            held = timeline.held_nodes(snapshot, validity, versions, allowed)
            before = held.size if allowed is None else int(allowed.sum())
            admitted = held if allowed is None else held & allowed
            left_out = before - int(admitted.sum())
            allowed = admitted if left_out else allowed
        seen = timeline.seen_versions(snapshot, versions, allowed)
    if validity is None and seen is None:
        return draft
    options = (*query.options, Dated(keys, left_out, seen))
    return replace(draft, query=replace(query, allowed=allowed, options=options))


def prefer_newest(draft: Draft) -> Draft:
    """Let the newest version of a document come before the older ones that were found.

    If a newest version is not among the candidates, its best passage is added.
    """
    versions = _versions(draft)
    if versions is None:
        return draft
    query, snapshot, pool = draft.query, draft.snapshot, list(draft.candidates)
    rows = np.asarray([one.row for one in pool], dtype=np.int64)
    if not versions.is_older[rows].any():
        return draft
    with measure("rank", draft.timings):
        count, ids = len(pool), snapshot.nodes.ids
        pool += _missing(draft, versions, rows)
        rows = np.asarray([one.row for one in pool], dtype=np.int64)
        moved = versions.order(rows, query.k)
        ordered = [_lifted(pool[place], pool[by]) for place, by in moved]
        if not draft.has_windows:
            ordered = ordered[: max(count, query.k)]
        cut = {ids[one.row] for one in pool[:count]} - {ids[one.row] for one in ordered}
    trace = draft.trace.with_cut("k", len(cut)) if cut else draft.trace
    return replace(draft, candidates=ordered, trace=trace)


def mark_versions(draft: Draft) -> Draft:
    """Mark the nodes of older versions, and say what the date left out."""
    dated = draft.query.option(Dated)
    if dated is None:
        return draft
    nodes, trace = list(draft.nodes), draft.trace
    if dated.versions is not None:
        nodes = _marked(nodes, dated, dated.versions, draft.snapshot)
    if dated.validity.at is not None:
        when = f"as of {dated.validity.described}"
        keys = (dated.validity.valid_from, dated.validity.valid_to)
        nodes = [_with_dates(node, when, keys) for node in nodes]
        trace = trace.with_cut("as_of", dated.left_out)
        trace = replace(trace, reason=f"{when}, {dated.left_out} node(s) left out; {trace.reason}")
    return replace(draft, nodes=nodes, trace=trace)


def _versions(draft: Draft) -> SeenVersions | None:
    dated = draft.query.option(Dated)
    return None if dated is None else dated.versions


def _missing(draft: Draft, versions: SeenVersions, rows: np.ndarray) -> list[Candidate]:
    """Return the best passage of each newest version that is not among the candidates."""
    query = draft.query
    found = set(versions.group[rows[versions.is_newest[rows]]].tolist())
    wanted = set(versions.group[rows[versions.is_older[rows]]].tolist()) - found
    if not wanted:
        return []
    mask = versions.is_newest & np.isin(versions.group, list(wanted))
    mask &= True if query.allowed is None else query.allowed
    narrow = replace(query, allowed=mask, k=max(query.k, 10 * len(wanted)))
    ranked, _ = rank_relevant(narrow, draft.strategy, draft.snapshot)
    best: dict[int, Candidate] = {}
    for one in ranked:
        best.setdefault(int(versions.group[one.row]), one)
    # Its ranks are those among the newest versions, so they would be misleading.
    return [replace(one, score=0.0, reasons=()) for one in best.values()]


def _lifted(candidate: Candidate, overtaken: Candidate) -> Candidate:
    if candidate is overtaken:
        return candidate
    reasons = (*candidate.reasons, "before an older version")
    return replace(candidate, score=overtaken.score, reasons=reasons)


def _marked(
    nodes: Sequence[RetrievedNode], dated: Dated, versions: SeenVersions, snapshot: Snapshot
) -> list[RetrievedNode]:
    """Return the nodes, the newest version first, with what they are versions of."""
    at = [snapshot.nodes.row_of[node.node_id] for node in nodes]
    order = versions.order(np.asarray(at, dtype=np.int64), len(nodes))
    when = f" as of {dated.validity.described}" if dated.validity.at is not None else ""
    marked = []
    for place, by in order:
        node, row = nodes[place], at[place]
        reasons = node.reasons
        if versions.is_older[row]:
            newest = versions.newest_of(row)
            reasons = (*reasons, f"older version: superseded by {newest!r}{when}")
            node = replace(node, superseded_by=newest)
        elif versions.is_newest[row]:
            size = int(versions.sizes[versions.group[row]])
            reasons = (*reasons, f"newest of {size} versions{when}")
        marked.append(replace(node, reasons=reasons, score=nodes[by].score))
    return marked


def _with_dates(
    node: RetrievedNode, when: str, keys: tuple[str | None, str | None]
) -> RetrievedNode:
    """Return a node with the reason why it holds, if its metadata have dates."""
    given = [None if key is None else node.metadata.get(key) for key in keys]
    if all(one in (None, "") for one in given):
        return node
    parts = [
        f"{word} {value}"
        for word, value in zip(("from", "to"), given, strict=True)
        if value not in (None, "")
    ]
    return replace(node, reasons=(*node.reasons, f"holds {when}: {' '.join(parts)}"))
