"""Print the states and the tags of documents."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations.cli.output.terminal import print_json, print_line, print_table
from e2graphrag_integrations.cli.wording import on_command_line

if TYPE_CHECKING:
    from e2graphrag_integrations import reports
    from e2graphrag_integrations.store.index_state import IndexState

_MAX_STATES = 20
"""Maximum number of documents that `status` lists."""

_STATUS_STYLES = {"failed": "red", "processing": "yellow", "pending": "yellow", "done": "green"}
"""The statuses in the order in which their documents are listed."""


def print_states(
    states: Sequence[reports.DocumentStatus], path: str, *, can_resume: bool, limited: bool
) -> None:
    """Print the totals and one line per document: its status, its id and why it failed.

    Args:
        states: The states.
        path: The index.
        can_resume: Whether no other process is writing, so that this one may.
        limited: Whether to list only the first documents.
    """
    counts = _count_states(states)
    totals = ", ".join(f"{count:,} {status}" for status, count in counts.items()) or "no documents"
    print_line(f"{path}: {len(states):,} document(s): {totals}" if states else f"{path}: {totals}")
    order = list(_STATUS_STYLES)
    ordered = sorted(states, key=lambda one: order.index(one.status))  # by id within a status
    shown = ordered[:_MAX_STATES] if limited else ordered
    rows = []
    for state in shown:
        outdated = state.indexed and state.status != "done"
        note = " (the previous version is searchable)" if outdated else ""
        note += f": {on_command_line(state.reason)}" if state.reason else ""
        note += f": {state.worker} since {state.since}" if state.worker else ""
        rows.append((state.status, printable(state.id), printable(note)))
    table = [(status, document_id, note.lstrip(": ")) for status, document_id, note in rows]
    lines = (f"{status}\t{document_id}{note}" for status, document_id, note in rows)
    if rows:
        print_table(("status", "document", "note"), table, lines, _STATUS_STYLES)
    if len(states) > len(shown):
        print_line(f"... and {len(states) - len(shown):,} more: --all lists them")
    if can_resume and set(counts) - {"done"}:
        command = f"e2graphrag documents resume {shlex.quote(path)}"
        print_line(f"run `{command}` to index what is not done", error=True)


def print_states_as_json(states: Sequence[reports.DocumentStatus], state: IndexState) -> None:
    """Print the state of every document, who writes to the index, and how fast.

    Args:
        states: The states of the documents.
        state: That of the index.
    """
    print_json(
        {
            "counts": _count_states(states),
            "documents": [asdict(state) for state in states],
            "writer": None if state.writer is None else str(state.writer),
            "documents_per_second": state.documents_per_second,
            "seconds_left": state.seconds_left,
        }
    )


def _count_states(states: Sequence[reports.DocumentStatus]) -> dict[str, int]:
    """Return the number of documents by status, done ones first; no zeros."""
    counts: Counter[str] = Counter(state.status for state in states)
    return {status: counts[status] for status in ("done", *_STATUS_STYLES) if counts[status]}


def print_writer(path: str, state: IndexState) -> None:
    """Say which other process is writing to an index, since when, and how fast; or nothing."""
    from e2graphrag_integrations.store.index_state import written_by

    if state.writer is not None:
        print_line(written_by(path, state.writer), error=True)
    if pace := state.pace():
        print_line(pace, error=True)


def print_tags(counts: Mapping[str, int], path: str, *, as_json: bool) -> None:
    """Print the number of chunks with each tag."""
    if as_json:
        print_json({"file": path, "tags": counts})
        return
    if not counts:
        print_line(f"{path} has no tags")
        return
    rows = [(printable(name), str(count)) for name, count in counts.items()]
    print_table(("tag", "chunks"), rows, (f"{count}\t{name}" for name, count in rows))
