"""Print the estimated cost and the result of an indexing run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations.cli.output.terminal import (
    print_json,
    print_line,
    print_profile,
    print_table,
)
from e2graphrag_integrations.cli.wording import on_command_line

if TYPE_CHECKING:
    from e2graphrag_integrations import reports
    from e2graphrag_integrations.loaders import SkippedFile

_MAX_SKIPPED = 20
"""Maximum number of files of unknown kinds that are listed."""


def print_estimate(estimate: reports.CostEstimate, *, as_json: bool) -> None:
    """Print the expected cost of indexing."""
    if as_json:
        print_json(estimate.to_dict())
        return
    reports = estimate.community_reports
    if reports is None:
        print_line(f"{estimate.documents} document(s), {estimate.chunks} chunks")
    else:
        print_line(f"{reports.summaries} community reports of level {reports.level}")
    lines = (
        f"level {level.level}: {level.summaries} summaries, {level.llm_calls} LLM calls, at most "
        f"{level.prompt_tokens} prompt and {level.completion_tokens} completion tokens"
        for level in estimate.levels
    )
    of_chunks = estimate.chunk_calls
    if of_chunks is not None:
        print_line(f"{of_chunks.summaries} chunks to enrich, {of_chunks.llm_calls} LLM calls")
    columns = ("level", "summaries", "LLM calls", "prompt tokens", "completion tokens")
    if estimate.levels:
        print_table(columns, [asdict(level).values() for level in estimate.levels], lines)
    needed = "" if of_chunks else " (with --llm-model; extracted summaries need none)"
    print_line(f"LLM calls: {estimate.llm_calls}{needed}")
    print_line(f"prompt tokens: at most {estimate.prompt_tokens}")
    print_line(f"completion tokens: at most {estimate.completion_tokens}")


def print_skipped(skipped: Sequence[SkippedFile]) -> None:
    """Print one line on standard error for each file that was not read."""
    unknown = [file for file in skipped if file.error is None]
    for file in skipped:
        if file.error is not None:
            print_line(f"failed: {file.document_id}: {on_command_line(file.reason)}", error=True)
    for file in unknown[:_MAX_SKIPPED]:
        print_line(f"skipped: {file.document_id}: {file.reason}", error=True)
    if len(unknown) > _MAX_SKIPPED:
        more = len(unknown) - _MAX_SKIPPED
        print_line(f"skipped: {more} more files of unknown kinds", error=True)


def print_report(
    report: reports.IndexReport,
    path: str,
    changes: Mapping[str, Sequence[str]] | None = None,
    *,
    skipped_as: str = "unchanged",
    unread: Sequence[SkippedFile] = (),
    profile: bool = False,
    as_json: bool = False,
) -> None:
    """Print the result of indexing; failures and warnings go to standard error.

    Args:
        report: The result.
        path: The index file.
        changes: For an update, the ids of the documents by kind of change.
        skipped_as: Why documents were skipped, in words.
        unread: Files that were not read; they appear only in the JSON.
        profile: Whether to print the time of each stage.
        as_json: Whether to print JSON, which always contains the times.
    """
    changes = changes or {}
    size = None if is_postgres_url(path) else Path(path).stat().st_size
    if as_json:
        reasons = {file.document_id: file.reason for file in unread}
        values = {**report.to_dict(), **changes, "unread_files": reasons}
        print_json({**values, "file": path, "bytes": size})
        return
    for document_id, reason in report.failed.items():
        print_line(f"failed: {document_id}: {on_command_line(reason)}", error=True)
    if report.failed:
        print_line(
            f"run `e2graphrag documents resume {shlex.quote(path)}` to try again", error=True
        )
    for change, ids in changes.items():
        for document_id in ids:
            print_line(f"{change}: {document_id}")
    _print_counts(report, path, size, skipped_as)
    if profile:
        print_profile(report.seconds)


def _print_counts(
    report: reports.IndexReport, path: str, size: int | None, skipped_as: str
) -> None:
    skipped = f"{len(report.skipped)} {skipped_as}"
    if report.documents:
        graph = f", {report.entities} entities, {report.edges} edges" if report.entities else ""
        print_line(
            f"{path}: {report.documents} document(s) indexed, {skipped}; "
            f"{report.chunks} chunks, {report.summaries} summaries{graph}; {report.embedded} nodes "
            f"embedded, {report.llm_calls} LLM calls ({report.saved_calls} saved), "
            f"{report.tokens} tokens"
        )
        if report.seconds:
            print_line("seconds: " + ", ".join(f"{k} {v:.2f}" for k, v in report.seconds.items()))
        _print_size(size)
        for document_id in report.empty:
            print_line(f"warning: {document_id} contains no text", error=True)
    elif report.queued:
        print_line(
            f"{path}: {len(report.queued)} document(s) added to the queue, {skipped}; "
            f"run `e2graphrag documents work {shlex.quote(path)}` to index them"
        )
    else:
        skipped = f", {len(report.skipped)} document(s) {skipped_as}" if report.skipped else ""
        print_line(f"{path}: nothing new{skipped}")


def _print_size(size: int | None) -> None:
    if size is not None:  # the size of a database takes a query
        print_line(f"file: {size / 1e6:.2f} MB")


def print_renewed(
    report: reports.IndexReport, path: str, what: str, *, profile: bool, as_json: bool
) -> None:
    """Print the result of extracting or embedding an index again.

    Args:
        report: The result.
        path: The index.
        what: What the documents have, and was done again.
        profile: Whether to print the time of each stage.
        as_json: Whether to print JSON.
    """
    if as_json:
        print_json({**report.to_dict(), "file": path})
        return
    if report.documents:
        print_line(f"{path}: {report.documents} document(s) with {report.chunks} chunks {what}")
    else:
        print_line(f"{path}: nothing to do, {len(report.skipped)} document(s) are current")
    if profile:
        print_profile(report.seconds)


def print_enriched(report: reports.IndexReport, path: str, *, as_json: bool) -> None:
    """Print the result of enriching an index."""
    if as_json:
        print_json({**report.to_dict(), "file": path})
        return
    for document_id, reason in report.failed.items():
        print_line(f"failed: {document_id}: {on_command_line(reason)}", error=True)
    print_line(
        f"{path}: {report.chunks} chunks enriched, {report.llm_calls} LLM calls, "
        f"{report.tokens} tokens"
    )
