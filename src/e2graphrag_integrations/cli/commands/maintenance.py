"""The commands about the state of an index."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from e2graphrag_integrations.cli import inputs, options, output
from e2graphrag_integrations.cli.app import ExitCode, command
from e2graphrag_integrations.store.location import (
    shown_path,
)

if TYPE_CHECKING:
    pass


@command
def status(index: options.IndexFile, *, json: options.Json = False) -> ExitCode:
    """Print the state of every document.

    The states are done, pending, processing and failed. The exit code is 3 unless all
    documents are done.

    Examples:
      e2graphrag status novels.e2g
    """
    with inputs.open_index(index) as rag:
        states, version = rag.status(), rag.extraction_rules
        outdated_path = rag.path if rag.is_outdated else None
    output.print_states(states, version, outdated_path, as_json=json)
    done = all(state.status == "done" for state in states)
    return ExitCode.OK if done else ExitCode.INCOMPLETE


@command
def stats(index: options.IndexFile, *, json: options.Json = False) -> None:
    """Print the size and the settings of an index.

    Examples:
      e2graphrag stats novels.e2g
      e2graphrag stats novels.e2g --json
    """
    with inputs.open_index(index) as rag:
        output.print_stats(rag.stats(), as_json=json)


@command
def verify(index: options.IndexFile, *, json: options.Json = False) -> ExitCode:
    """Check an index file for damage.

    Examples:
      e2graphrag verify novels.e2g
    """
    with inputs.open_index(index) as rag:
        report = rag.verify()
    output.print_verification(report, shown_path(index), as_json=json)
    return ExitCode.OK if report.ok else ExitCode.ERROR


@command
def compact(
    index: options.IndexFile,
    *,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Reclaim disk space from deleted documents.

    Examples:
      e2graphrag compact novels.e2g
    """
    with inputs.open_index(index, lock_timeout=lock_timeout) as rag:
        report = rag.compact()
    text = (
        f"{shown_path(index)}: {report.bytes_before} to {report.bytes_after} bytes, "
        f"{report.dropped} cached results dropped"
    )
    output.print_summary(text, asdict(report), as_json=json)
