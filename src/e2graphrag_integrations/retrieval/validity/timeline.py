"""Which nodes hold at the date of a question, and which are older versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.moments import INVALID, end_moment, first_moment
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.pages import PAGE_ID
from e2graphrag_integrations.retrieval.filters.pages import all_pass, any_passes
from e2graphrag_integrations.retrieval.validity.options import Validity
from e2graphrag_integrations.retrieval.validity.versions import FindVersions, Versions
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import Snapshot

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SeenVersions:
    """The versions among the nodes that a question may find.

    Attributes:
        versions: The versions of the documents.
        group: The group of each node's first unit; -1 without other versions.
        is_older, is_newest: Masks of the nodes. A node over several units is older if all its units
            are, and newest if one of them is.
        newest: For each group, the first unit of the newest version.
        sizes: For each group, the number of its versions that the question may find.
    """

    versions: Versions
    group: IntArray
    is_older: Mask
    is_newest: Mask
    newest: IntArray
    sizes: IntArray

    def newest_of(self, row: int) -> str:
        """Return the id of the newest version of a node's document."""
        return self.versions.names[int(self.newest[self.group[row]])]

    def order(self, rows: IntArray, reach: int) -> list[tuple[int, int]]:
        """Order passages of nodes so that newest versions come first; see `newest_first`."""
        newest, older = self.is_newest[rows], self.is_older[rows]
        return newest_first(self.group[rows].tolist(), newest.tolist(), older.tolist(), reach)


def versions_of(snapshot: Snapshot, validity: Validity) -> Versions | None:
    """Return the versions of the documents, found once per snapshot; None if there are none."""
    found: Versions | None = snapshot.derived(FindVersions.of(validity))
    return found


def held_nodes(
    snapshot: Snapshot, validity: Validity, versions: Versions | None, allowed: Mask | None
) -> Mask:
    """Return the nodes that hold at the date: those all of whose metadata records do.

    Args:
        snapshot: The index.
        validity: The date and the keys.
        versions: The versions of the documents.
        allowed: The nodes that the filter admits; None admits all.

    Raises:
        InvalidInputError: If an admitted node has a value that is not a date.
    """
    moment, records = validity.moment, snapshot.records
    used = records.used_by(allowed)
    in_group = np.zeros(len(records.values), dtype=np.bool_)
    if versions is not None:
        in_group = versions.have_others[versions.unit_of_record]
    needs_date = used[(in_group | _have_text(records, validity.source))[used]]
    dates = _moments(records, validity.date, needs_date, is_end=False)
    if moment is None:
        return np.ones(len(records.starts), dtype=np.bool_)
    starts = _moments(records, validity.valid_from, used, is_end=False)
    starts = np.where(np.isnan(starts) & in_group, dates, starts)
    ends = _moments(records, validity.valid_to, used, is_end=validity.closed)
    return all_pass(records, ~(starts > moment) & ~(ends <= moment))


def seen_versions(
    snapshot: Snapshot, versions: Versions | None, allowed: Mask | None
) -> SeenVersions | None:
    """Return the versions among the admitted nodes; None if no document has two of them."""
    if versions is None:
        return None
    records = snapshot.records
    seen = np.zeros(len(versions.names), dtype=np.bool_)
    seen[versions.unit_of_record[records.used_by(allowed)]] = True
    units = np.flatnonzero(seen & versions.have_others)
    last = np.full(versions.groups, -1, dtype=np.int64)
    np.maximum.at(last, versions.group[units], versions.rank[units])
    pairs = np.unique(np.stack([versions.group[units], versions.rank[units]]), axis=1)
    sizes = np.bincount(pairs[0], minlength=versions.groups)
    if sizes.max(initial=0) < 2:  # noqa: PLR2004 - two versions of a document
        return None
    is_last = np.zeros(len(versions.names), dtype=np.bool_)
    is_last[units] = versions.rank[units] == last[versions.group[units]]
    newest = np.full(versions.groups, -1, dtype=np.int64)
    newest[versions.group[units[is_last[units]]][::-1]] = units[is_last[units]][::-1]
    several = np.zeros(len(versions.names), dtype=np.bool_)
    several[units] = sizes[versions.group[units]] > 1
    of_record = versions.unit_of_record
    is_older = all_pass(records, (several & ~is_last)[of_record])
    is_newest = any_passes(records, (several & is_last)[of_record])
    first = records.indices[records.starts]
    return SeenVersions(
        versions, versions.group[of_record[first]], is_older, is_newest, newest, sizes
    )


def newest_first(
    groups: Sequence[int], is_newest: Sequence[bool], is_older: Sequence[bool], reach: int
) -> list[tuple[int, int]]:
    """Order passages so that the newest version of a document comes before older ones.

    The i-th passage of the older versions follows the i-th one of the newest version, if that is
    among the first `reach` passages; the first one is lifted from any place. Nothing else moves.

    Args:
        groups: The group of each passage.
        is_newest: Whether each passage is of the newest version of its document.
        is_older: Whether each passage is of an older version.
        reach: Number of passages.

    Returns:
        The place of each passage before, and the place from which it now has its score: that of the
        passage that it has overtaken, or its own.

    >>> newest_first([0, -1, 0], [False, False, True], [True, False, False], reach=3)
    [(2, 0), (0, 0), (1, 1)]
    """
    newer: dict[int, list[int]] = {}
    for place, group in enumerate(groups):
        if is_newest[place]:
            own = newer.setdefault(group, [])
            if not own or place < reach:
                own.append(place)
    counts: dict[int, int] = {}
    done: set[int] = set()
    order: list[tuple[int, int]] = []
    for place, group in enumerate(groups):
        if place in done:
            continue
        if is_older[place]:
            counts[group] = counts.get(group, 0) + 1
            lifted = [one for one in newer.get(group, ())[: counts[group]] if one not in done]
            lifted = [one for one in lifted if one > place]
            order += [(one, place) for one in lifted]
            done.update(lifted)
        order.append((place, place))
    return order


def _have_text(records: MetadataRecords, key: str | None) -> Mask:
    """Return which records have text under a key."""
    if key is None:
        return np.zeros(len(records.values), dtype=np.bool_)
    values, of_record = records.column(key, None)
    has_text = np.asarray([isinstance(one, str) and bool(one.strip()) for one in values])
    mask: Mask = has_text[of_record] if len(values) else np.zeros(0, dtype=np.bool_)
    return mask


def _moments(
    records: MetadataRecords, key: str | None, used: IntArray, *, is_end: bool
) -> NDArray[np.float64]:
    """Return the date of each record in milliseconds; NaN where there is none.

    Raises:
        InvalidInputError: If one of the used records has a value that is not a date.
    """
    if key is None:
        return np.full(len(records.values), np.nan)
    moments = records.numbers(key, end_moment if is_end else first_moment)
    invalid = used[moments[used] == INVALID]
    if len(invalid):
        record = records.values[int(invalid[0])]
        raise InvalidInputError(
            f"as_of: document {record.get(PAGE_ID, record[records.id_key])!r} has "
            f"{key}={short_repr(record[key])}, which is not a date such as '2024-05-01', '2024-05' "
            "or '2024-05-01T12:00+02:00': update its metadata, or exclude it with a filter"
        )
    return moments
