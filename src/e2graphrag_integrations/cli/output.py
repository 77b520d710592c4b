"""Print results: plain text in pipes, colors and tables on terminals, JSON for programs.

Scripts parse the plain text: it has no escape codes and no line wrapping.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from e2graphrag_integrations.reports import (
        CostEstimate,
        DeleteReport,
        DocumentStatus,
        IndexReport,
        ProgressListener,
        Stats,
        VerifyReport,
    )
    from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode

_HIT_CHARACTERS = 240
"""Characters of each hit that the text output shows."""

_STATUS_STYLES = {"done": "green", "failed": "red", "pending": "yellow", "processing": "yellow"}


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that can show boxes and move the cursor."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def progress_bar() -> Iterator[ProgressListener | None]:
    """Show one progress bar per stage on standard error; yield None unless it is a terminal."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from e2graphrag_integrations.cli.terminal import progress_bars

    with progress_bars() as listener:
        yield listener


def print_line(text: str, style: str = "") -> None:
    """Print a text.

    Args:
        text: The text, with or without line breaks.
        style: A rich style, such as `"bold"`, for terminals.
    """
    if style and is_terminal(sys.stdout):
        from e2graphrag_integrations.cli.terminal import print_styled

        print_styled(text, style)
    else:
        print(text)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object; escape non-ASCII characters unless the output is UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    escape = codecs.lookup(encoding).name != "utf-8"
    print(json.dumps(value, ensure_ascii=escape, indent=2))


def print_estimate(estimate: CostEstimate) -> None:
    """Print the expected cost of indexing."""
    print(f"{estimate.documents} document(s), {estimate.chunks} chunks")
    if is_terminal(sys.stdout):
        from e2graphrag_integrations.cli.terminal import print_table

        columns = ("level", "summaries", "LLM calls", "prompt tokens", "completion tokens")
        print_table(columns, [asdict(level).values() for level in estimate.levels])
    else:
        for level in estimate.levels:
            print(
                f"level {level.level}: {level.summaries} summaries, {level.llm_calls} LLM calls, "
                f"at most {level.prompt_tokens} prompt and {level.completion_tokens} "
                "completion tokens"
            )
    print(
        f"LLM calls: {estimate.llm_calls} (with --llm-model; extracted summaries need none)\n"
        f"prompt tokens: at most {estimate.prompt_tokens}\n"
        f"completion tokens: at most {estimate.completion_tokens}"
    )


def print_report(
    report: IndexReport, path: str, changes: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Print the result of indexing; failures and warnings go to standard error.

    Args:
        report: The result.
        path: The index file.
        changes: Ids of documents by kind of change, for an update.
    """
    for document_id, reason in report.failed.items():
        print(f"failed: {document_id}: {reason}", file=sys.stderr)
    if report.failed:
        print(f"run `e2graphrag resume {path}` to try again", file=sys.stderr)
    for change, ids in (changes or {}).items():
        for document_id in ids:
            print(f"{change}: {document_id}")
    if not report.documents:
        print(f"{path}: nothing new, {len(report.skipped)} document(s) unchanged")
        return
    print(
        f"{path}: {report.documents} document(s) indexed, {len(report.skipped)} unchanged; "
        f"{report.chunks} chunks, {report.summaries} summaries, {report.entities} entities, "
        f"{report.edges} edges; {report.embedded} nodes embedded, {report.llm_calls} LLM calls "
        f"({report.saved_calls} saved), {report.tokens} tokens"
    )
    if report.seconds:
        print("seconds: " + ", ".join(f"{k} {v:.2f}" for k, v in report.seconds.items()))
    print(f"file: {Path(path).stat().st_size / 1e6:.2f} MB")
    for document_id in report.empty:
        print(f"warning: {document_id} contains no text", file=sys.stderr)


def print_deleted(report: DeleteReport, path: str) -> None:
    """Print how many documents and nodes were deleted."""
    print(
        f"{path}: {report.documents} document(s) deleted with {report.chunks} chunks and "
        f"{report.summaries} summaries"
    )


def print_states(states: Sequence[DocumentStatus]) -> None:
    """Print one line per document: its status, its id and why it failed."""
    rows = []
    for state in states:
        outdated = state.indexed and state.status != "done"
        note = " (the previous version is searchable)" if outdated else ""
        rows.append((state.status, state.id, note + (f": {state.reason}" if state.reason else "")))
    if is_terminal(sys.stdout):
        from e2graphrag_integrations.cli.terminal import print_table

        table = [(status, document_id, note.lstrip(": ")) for status, document_id, note in rows]
        print_table(("status", "document", "note"), table, _STATUS_STYLES)
        return
    for status, document_id, note in rows:
        print(f"{status}\t{document_id}{note}")


def print_profile(seconds: Mapping[str, float]) -> None:
    """Print a table of stages: seconds, and the share of the sum of all stages.

    Stages of indexing run in parallel: their sum can exceed the wall time, `total`.
    """
    stages = {stage: spent for stage, spent in seconds.items() if stage != "total"}
    total = sum(stages.values())
    rows = [
        (stage, f"{spent:.4f}", f"{spent / total if total else 0:.1%}")
        for stage, spent in sorted(stages.items(), key=lambda item: -item[1])
    ]
    label = "wall" if "total" in seconds else "sum"
    rows.append((label, f"{seconds.get('total', total):.4f}", ""))
    if is_terminal(sys.stdout):
        from e2graphrag_integrations.cli.terminal import print_table

        print_table(("stage", "seconds", "share"), rows)
        return
    for stage, spent, share in [("stage", "seconds", "share"), *rows]:
        print(f"{stage:<12}{spent:>10}{share:>8}".rstrip())


def print_stats(stats: Stats) -> None:
    """Print the counts and the settings of an index."""
    counts = {name: value for name, value in stats.to_dict().items() if name != "settings"}
    if is_terminal(sys.stdout):
        from e2graphrag_integrations.cli.terminal import print_table

        print_table(("count", "value"), counts.items())
        print_table(("setting", "value"), stats.settings.items())
        return
    for name, value in counts.items():
        print(f"{name}: {value}")
    for name, value in stats.settings.items():
        print(f"  {name} = {value}")


def print_verification(report: VerifyReport, path: str) -> None:
    """Print the result of a check and the problems that it found."""
    counts = ", ".join(f"{count} {unit}" for unit, count in report.checked.items())
    verdict, style = ("sound", "green") if report.ok else ("damaged", "red")
    print_line(f"{path}: {verdict} ({counts})", style)
    for problem in report.problems:
        print(f"  {problem}")


def print_result(result: RetrievalResult, *, explain: bool) -> None:
    """Print the route, the entities and the hits of a query.

    Args:
        result: The result.
        explain: Whether to print the whole trace instead of its first three lines.
    """
    trace = result.trace.explain()
    print(trace if explain else "\n".join(trace.splitlines()[:3]))
    for rank, node in enumerate(result.nodes, 1):
        print()
        _print_hit(rank, node)
    if not result.nodes:
        over_budget = result.trace.cuts.get("token_budget")
        print("nothing fits the token budget" if over_budget else "nothing found")


def _print_hit(rank: int, node: RetrievedNode) -> None:
    kind = "chunk" if node.level == 0 else f"summary (level {node.level})"
    spans = ", ".join(f"{start}-{end}" for start, end in node.spans)
    print_line(f"{rank}. {kind} {node.position} of {node.document_id}  span: {spans}", "bold")
    print_line(f"   score: {node.score:.4f} ({node.route})", "dim")
    print_line(f"   reasons: {'; '.join(node.reasons)}", "dim")
    if node.entities:
        print_line(f"   entities: {' - '.join(node.entities)}", "dim")
    text = " ".join(node.text.split())
    print(f"   {text[:_HIT_CHARACTERS]}{'...' if len(text) > _HIT_CHARACTERS else ''}")


def result_to_dict(result: RetrievalResult, *, explain: bool) -> dict[str, Any]:
    """Return a result as plain JSON values; `explain` adds the trace."""
    value = {
        "question": result.question,
        "route": result.route,
        "reason": result.trace.reason,
        "nodes": [asdict(node) for node in result.nodes],
    }
    return value | ({"trace": result.trace.to_dict()} if explain else {})
