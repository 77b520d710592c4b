"""The commands about the state of an index."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from e2graphrag_integrations.cli import inputs, options, output
from e2graphrag_integrations.cli.app import ExitCode, command
from e2graphrag_integrations.cli.options import flag
from e2graphrag_integrations.store.location import shown_path


@command
def status(
    index: options.IndexFile,
    *,
    all_documents: Annotated[bool, flag("--all", "List all documents.")] = False,
    json: options.Json = False,
) -> ExitCode:
    """Print how many documents are in which state, and list the first 20.

    The states are done, pending, processing and failed. Documents that are not done are listed
    first. The exit code is 3 unless all documents are done.

    Examples:
      e2graphrag status novels.e2g
      e2graphrag status novels.e2g --all
    """
    with inputs.open_index(index) as rag:
        states, writer = rag.status(), rag.writer()
    path = shown_path(index)
    if json:
        output.print_states_as_json(states, writer=writer)
    else:
        output.print_states(states, path, can_resume=writer is None, limited=not all_documents)
        output.print_writer(path, writer)
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
