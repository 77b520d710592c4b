"""Print results: plain text in pipes, tables and colors on terminals, JSON for programs.

The plain text has no escape codes and no line wrapping, because scripts parse it. rich draws the
output for terminals and honors `NO_COLOR`. All text is printed literally, without console markup,
and its control characters are escaped: only this module prints, so that a hostile document or file
name cannot control the terminal or forge a line.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations._utils.printable import printable, printable_json, printable_lines
from e2graphrag_integrations.cli.excerpt import excerpt
from e2graphrag_integrations.cli.wording import on_command_line
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.text.spacing import on_one_line

if TYPE_CHECKING:
    from e2graphrag_integrations import reports
    from e2graphrag_integrations.entities.edits import EntityEdits
    from e2graphrag_integrations.evaluation import Estimate, EvaluationReport
    from e2graphrag_integrations.loaders import SkippedFile
    from e2graphrag_integrations.retrieval.communities import Community
    from e2graphrag_integrations.retrieval.entity_paths import EntityPath
    from e2graphrag_integrations.retrieval.entity_view import EntityDetails, EntityInfo
    from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
    from e2graphrag_integrations.store.location import IndexInfo

_HIT_CHARACTERS = 240
"""Maximum number of characters per hit in the text output."""

_MAX_DOCUMENTS = 5
"""Maximum number of documents that are listed for a community."""

_MAX_SKIPPED = 20
"""Maximum number of files of unknown kinds that are listed."""

_MAX_SHOWN = 20
"""Maximum number of documents of an entity that are listed."""

_PROGRESS_SECONDS = 5.0
"""Seconds between two lines of progress without a terminal."""

_MAX_STATES = 20
"""Maximum number of documents that `status` lists."""

_STATUS_STYLES = {"failed": "red", "processing": "yellow", "pending": "yellow", "done": "green"}
"""The statuses in the order in which their documents are listed."""


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that can show boxes and move the cursor."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def progress_bar() -> Iterator[reports.ProgressListener]:
    """Show a progress bar per stage on standard error, or a line now and then in a pipe."""
    if not is_terminal(sys.stderr):
        yield _ProgressLines().show
        return
    from rich import progress as rich_progress
    from rich.console import Console

    with rich_progress.Progress(
        "{task.description}",
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        loading = bars.add_task("loading models", total=None)
        tasks: dict[str, rich_progress.TaskID] = {}

        def show(progress: reports.Progress) -> None:
            if progress.note:
                bars.console.print(printable(progress.note), markup=False, highlight=False)
                return
            bars.update(loading, visible=False)
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=progress.total)
            # A worker starts again for each group of documents.
            bars.update(tasks[progress.stage], completed=progress.done, total=progress.total)

        yield show


class _ProgressLines:
    """Prints the notes, and every few seconds one line with the progress of all stages.

    A run that takes less time prints no line.
    """

    def __init__(self) -> None:
        self._stages: dict[str, reports.Progress] = {}
        self._printed_at = time.monotonic()

    def show(self, progress: reports.Progress) -> None:
        """Handle an event; events come one at a time."""
        if progress.note:
            print_line(progress.note, error=True)
            return
        self._stages[progress.stage] = progress
        now = time.monotonic()
        if now - self._printed_at < _PROGRESS_SECONDS:
            return
        self._printed_at = now
        stages = [f"{one.stage} {one.done:,}/{one.total:,}" for one in self._stages.values()]
        left = max((one.seconds_left or 0.0 for one in self._stages.values()), default=0.0)
        if left:
            stages.append(f"about {left:,.0f} s left")
        print_line(f"progress: {', '.join(stages)}", error=True)


def print_line(text: str = "", *, error: bool = False) -> None:
    """Print one line, to standard error if `error` is set; tabs between columns are kept."""
    stream = sys.stderr if error else sys.stdout
    if stream is not None:  # None if the caller closed it; `print` would use standard output
        print("\t".join(map(printable, text.split("\t"))), file=stream)


def print_styled(text: str, style: str) -> None:
    """Print one line; on terminals, use a rich style such as `"bold"`."""
    if not is_terminal(sys.stdout):
        print_line(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(printable(text), style), soft_wrap=True)


def _print_table(
    columns: Sequence[str],
    rows: Iterable[Iterable[object]],
    plain: Iterable[str],
    styles: Mapping[str, str] | None = None,
) -> None:
    """Print a table.

    Args:
        columns: Column titles.
        rows: Cells of each row; numbers are aligned to the right.
        plain: Lines to print instead if the output is not a terminal. Texts from elsewhere in
            lines with tabs must be printable, since tabs separate the columns.
        styles: Maps the text of a cell to its rich style.
    """
    if not is_terminal(sys.stdout):
        for line in plain:
            print_line(line)
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(cell) for cell in row] for row in rows]
    table = Table(box=SIMPLE_HEAD)
    for position, title in enumerate(columns):
        numeric = all(row[position][:1].isdigit() for row in cells if row[position])
        table.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell, (styles or {}).get(cell, "")) for cell in row))
    Console().print(table)


def _print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object; escape non-ASCII characters unless the output is UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    escape = codecs.lookup(encoding).name != "utf-8"
    print(printable_json(json.dumps(value, ensure_ascii=escape, indent=2)))


def print_summary(text: str, value: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one line, or a JSON object if `as_json` is set."""
    if as_json:
        _print_json(value)
    else:
        print_line(text)


def print_estimate(estimate: reports.CostEstimate, *, as_json: bool) -> None:
    """Print the expected cost of indexing."""
    if as_json:
        _print_json(estimate.to_dict())
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
    columns = ("level", "summaries", "LLM calls", "prompt tokens", "completion tokens")
    if estimate.levels:
        _print_table(columns, [asdict(level).values() for level in estimate.levels], lines)
    print_line(f"LLM calls: {estimate.llm_calls} (with --llm-model; extracted summaries need none)")
    print_line(f"prompt tokens: at most {estimate.prompt_tokens}")
    print_line(f"completion tokens: at most {estimate.completion_tokens}")


def print_communities(communities: Sequence[Community], *, as_json: bool) -> None:
    """Print communities with their main entities, sources and reports."""
    if as_json:
        _print_json({"communities": [one.to_dict() for one in communities]})
        return
    if not communities:
        print_line("no communities")
    for number, one in enumerate(communities, 1):
        if number > 1:
            print_line()
        more = len(one.entities) - len(one.top_entities)
        names = ", ".join(one.top_entities) + (f" and {more} more" if more else "")
        print_styled(f"{number}. {names}", "bold")
        size = f"{len(one.entities)} entities, {len(one.node_ids)} chunk(s)"
        documents = ", ".join(one.document_ids[:_MAX_DOCUMENTS])
        others = len(one.document_ids) - _MAX_DOCUMENTS
        documents += f" and {others} more" if others > 0 else ""
        parts = f"  divided into {len(one.child_ids)}" if one.child_ids else ""
        print_styled(f"   {size} of {documents}{parts}", "dim")
        if one.report is not None:
            print_line(f"   {on_one_line(one.report)}")


def print_evaluation(report: EvaluationReport, *, as_json: bool) -> None:
    """Print the means of all settings with their intervals, and the differences to the first."""
    if as_json:
        _print_json(report.to_dict())
        return
    print_line(f"{len(report.questions)} question(s); mean [95% interval]")
    columns = ("setting", "measure", "mean", "questions")
    _print_estimates(columns, report.scores, report.measures, report.mean)
    others = [name for name in report.scores if name != report.baseline]
    if others:
        print_line(f"minus {report.baseline}; * the interval does not contain 0")
        columns = ("setting", "measure", "difference", "questions")
        _print_estimates(columns, others, report.measures, report.difference, "+")


def _print_estimates(
    columns: Sequence[str],
    settings: Iterable[str],
    measures: Sequence[str],
    estimate: Callable[[str, str], Estimate],
    sign: str = "",
) -> None:
    """Print one row per setting and measure."""
    rows = []
    for name in settings:
        for measure in measures:
            one = estimate(name, measure)
            interval = f"{one.mean:{sign}.4f} [{one.low:{sign}.4f}, {one.high:{sign}.4f}]"
            mark = "*" if sign and (one.low > 0 or one.high < 0) else ""
            rows.append((printable(name), measure, interval + mark, str(one.questions)))
    _print_table(columns, rows, map("\t".join, rows))


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
        _print_json({**values, "file": path, "bytes": size})
        return
    for document_id, reason in report.failed.items():
        print_line(f"failed: {document_id}: {on_command_line(reason)}", error=True)
    if report.failed:
        print_line(f"run `e2graphrag resume {path}` to try again", error=True)
    for change, ids in changes.items():
        for document_id in ids:
            print_line(f"{change}: {document_id}")
    _print_counts(report, path, size, skipped_as)
    if profile:
        _print_profile(report.seconds)


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
            f"run `e2graphrag work {shlex.quote(path)}` to index them"
        )
    else:
        print_line(f"{path}: nothing new, {len(report.skipped)} document(s) {skipped_as}")


def _print_size(size: int | None) -> None:
    if size is not None:  # the size of a database takes a query
        print_line(f"file: {size / 1e6:.2f} MB")


def print_reindexed(
    report: reports.IndexReport, path: str, *, profile: bool, as_json: bool
) -> None:
    """Print the result of extracting an index again."""
    if as_json:
        _print_json({**report.to_dict(), "file": path})
        return
    if report.documents:
        print_line(
            f"{path}: {report.documents} document(s) with {report.chunks} chunks extracted again; "
            f"{report.entities} entities, {report.edges} edges"
        )
    else:
        print_line(f"{path}: nothing to do, {len(report.skipped)} document(s) are current")
    if profile:
        _print_profile(report.seconds)


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
        _print_table(("status", "document", "note"), table, lines, _STATUS_STYLES)
    if len(states) > len(shown):
        print_line(f"... and {len(states) - len(shown):,} more: --all lists them")
    if can_resume and set(counts) - {"done"}:
        command = f"e2graphrag resume {shlex.quote(path)}"
        print_line(f"run `{command}` to index what is not done", error=True)


def print_states_as_json(states: Sequence[reports.DocumentStatus], *, writer: str | None) -> None:
    """Print the state of every document, and that of the index.

    Args:
        states: The states.
        writer: The other process that is writing, if any.
    """
    _print_json(
        {
            "counts": _count_states(states),
            "documents": [asdict(state) for state in states],
            "writer": writer,
        }
    )


def _count_states(states: Sequence[reports.DocumentStatus]) -> dict[str, int]:
    """Return the number of documents by status, done ones first; no zeros."""
    counts: Counter[str] = Counter(state.status for state in states)
    return {status: counts[status] for status in ("done", *_STATUS_STYLES) if counts[status]}


def print_writer(path: str, writer: str | None) -> None:
    """Say which other process is writing to an index, and since when; None prints nothing."""
    if writer is not None:
        from e2graphrag_integrations.store.index_state import written_by

        print_line(written_by(path, writer), error=True)


def _print_profile(seconds: Mapping[str, float]) -> None:
    """Print the seconds spent in each stage and its share of the sum of all stages.

    Indexing stages run in parallel, so their sum can exceed the wall time, `total`.
    """
    stages = {stage: spent for stage, spent in seconds.items() if stage != "total"}
    total = sum(stages.values())
    rows = [
        (stage, f"{spent:.4f}", f"{spent / total if total else 0:.1%}")
        for stage, spent in sorted(stages.items(), key=lambda item: -item[1])
    ]
    label = "wall" if "total" in seconds else "sum"
    rows.append((label, f"{seconds.get('total', total):.4f}", ""))
    columns = ("stage", "seconds", "share")
    lines = (
        f"{stage:<12}{spent:>10}{share:>8}".rstrip() for stage, spent, share in [columns, *rows]
    )
    _print_table(columns, rows, lines)


def print_stats(stats: reports.Stats, *, as_json: bool) -> None:
    """Print the counts and the settings of an index."""
    counts = stats.to_dict()
    if as_json:
        _print_json(counts)
        return
    from e2graphrag_integrations.embedders.fingerprints import describe_fingerprint

    settings = counts.pop("settings")
    counts["subjects"] = ", ".join(f"{name} {n}" for name, n in stats.subjects.items()) or "-"
    languages = (f"{code} {n}" for code, n in stats.languages.items())
    counts["languages"] = ", ".join(languages) or "-"
    counts["trusted_sources"] = ", ".join(stats.trusted_sources) or "-"
    lines = (f"{name}: {value}" for name, value in counts.items())
    _print_table(("count", "value"), counts.items(), lines)
    described = {name: describe_fingerprint(value) for name, value in settings.items()}
    if "embedder" in settings:
        described["embedder"] = describe_fingerprint(
            settings["embedder"], settings.get("embedder_name")
        )
    lines = (f"  {name} = {value}" for name, value in described.items())
    _print_table(("setting", "value"), described.items(), lines)


def print_entities(entities: Sequence[EntityInfo], *, as_json: bool) -> None:
    """Print one line per entity with its counts."""
    if as_json:
        _print_json({"entities": [asdict(one) for one in entities]})
        return
    columns = ("entity", "mentions", "chunks", "documents", "degree", "aliases")
    rows = [
        (
            printable(one.name),
            *map(str, (one.mentions, one.chunks, one.documents, one.degree)),
            printable(", ".join(one.aliases)),
        )
        for one in entities
    ]
    _print_table(columns, rows, ("\t".join(row).rstrip("\t") for row in rows))
    if not entities:
        print_line("nothing found")


def print_entity(details: EntityDetails, *, as_json: bool) -> None:
    """Print an entity with its documents, neighbors and mentions."""
    if as_json:
        _print_json(details.to_dict())
        return
    info = details.info
    print_styled(info.name, "bold")
    if info.aliases:
        print_line(f"aliases: {', '.join(info.aliases)}")
    print_line(
        f"{info.mentions} mention(s) in {info.chunks} chunk(s) of {info.documents} document(s)"
    )
    shown = details.documents[:_MAX_SHOWN]
    more = len(details.documents) - len(shown)
    print_line(f"documents: {', '.join(shown)}{f', {more} more' if more else ''}")
    if details.subject_of:
        print_line(f"subject of: {', '.join(details.subject_of[:_MAX_SHOWN])}")
    if details.neighbors:
        neighbors = ", ".join(f"{one.name} {one.weight:.3f}" for one in details.neighbors)
        print_line(f"neighbors ({info.degree}): {neighbors}")
    for one in details.mentions:
        print_line()
        print_styled(f"{one.document_id}  span: {one.start}-{one.end}", "bold")
        print_line(f"   {on_one_line(one.sentence)}")


def print_edits(edits: EntityEdits, *, as_json: bool) -> None:
    """Print one line per entity edit."""
    if as_json:
        values = [{"id": one.id, "kind": one.kind, "names": list(one.names)} for one in edits]
        _print_json({"edits": values})
        return
    rows = [(one.id, one.kind, printable(str(one))) for one in edits]
    _print_table(("id", "kind", "edit"), rows, ("\t".join(row) for row in rows))
    if not edits:
        print_line("no edits")


def print_tags(counts: Mapping[str, int], path: str, *, as_json: bool) -> None:
    """Print the number of chunks with each tag."""
    if as_json:
        _print_json({"file": path, "tags": counts})
        return
    if not counts:
        print_line(f"{path} has no tags")
        return
    rows = [(printable(name), str(count)) for name, count in counts.items()]
    _print_table(("tag", "chunks"), rows, (f"{count}\t{name}" for name, count in rows))


def print_indexes(indexes: Sequence[IndexInfo], *, as_json: bool) -> None:
    """Print the indexes in a database, one per line."""
    if as_json:
        _print_json({"indexes": [asdict(one) for one in indexes]})
        return
    rows = [
        (one.schema, "?" if one.documents is None else str(one.documents), f"{one.bytes / 1e6:.1f}")
        for one in indexes
    ]
    _print_table(("schema", "documents", "MB"), rows, ("\t".join(row) for row in rows))


def print_verification(report: reports.VerifyReport, path: str, *, as_json: bool) -> None:
    """Print the result of a check and the problems that it found."""
    if as_json:
        _print_json({"ok": report.ok, **asdict(report)})
        return
    counts = ", ".join(f"{count} {unit}" for unit, count in report.checked.items())
    verdict, style = ("sound", "green") if report.ok else ("damaged", "red")
    print_styled(f"{path}: {verdict} ({counts})", style)
    for problem in report.problems:
        print_line(f"  {problem}")


def print_result(
    result: RetrievalResult,
    *,
    explain: bool,
    context: bool = False,
    profile: bool = False,
    as_json: bool = False,
) -> None:
    """Print the route and the hits of a query.

    Args:
        result: The result.
        explain: Whether to print the whole trace, and why each hit was found.
        context: Whether to print only the hits with their sources, as text for a prompt.
        profile: Whether to print the time of each stage.
        as_json: Whether to print JSON; the other flags add fields to it.
    """
    paths = result.paths
    if as_json:
        _print_json(
            {
                "question": result.question,
                "route": result.route,
                "reason": result.trace.reason,
                "relevance_kind": result.trace.relevance_kind,
                "nodes": [asdict(node) for node in result.nodes],
                **({} if paths is None else {"paths": [path.to_dict() for path in paths]}),
                **({"trace": result.trace.to_dict()} if explain else {}),
                **({"context": result.cited_context()} if context else {}),
                **({"seconds": dict(result.trace.timings)} if profile else {}),
            }
        )
        return
    if context:
        print(printable_lines(result.cited_context()))
    else:
        trace = result.trace.explain()
        print(printable_lines(trace if explain else "\n".join(trace.split("\n")[:2])))
        for rank, node in enumerate(result.nodes, 1):
            _print_hit(rank, node, result.trace.relevance_name, explain=explain)
        if not result.nodes:
            over_budget = result.trace.cuts.get("token_budget")
            print_line("nothing fits the token budget" if over_budget else "nothing found")
    if paths is not None:
        _print_paths(paths)
    if profile:
        _print_profile(result.trace.timings)


def _print_paths(paths: Sequence[EntityPath]) -> None:
    if not paths:
        print_line("paths: no chain of sentences joins the names")
    for path in paths:
        heading, *hops = path.describe().split("\n")
        print_styled(f"path: {heading}", "bold")
        for hop in hops:
            print_line(hop)


def _print_hit(rank: int, node: RetrievedNode, relevance: str, *, explain: bool) -> None:
    from e2graphrag_integrations.retrieval.result import describe_place

    place = describe_place([node], node.spans)
    print_styled(f"{rank}. {place}, {relevance} {node.relevance:.2f}", "bold")
    print_line(f"   {excerpt(node, _HIT_CHARACTERS)}")
    details = {"also in": node.also_in, "tags": node.tags}
    if explain:
        kind = "summary" if node.level else "chunk"
        figures = f"{kind} {node.position}, score {node.score:.4f}, mainly by {node.found_by}"
        details |= {
            "found": (figures,),
            "reasons": ("; ".join(node.reasons),),
            "entities": node.entities,
            "language": () if node.language == ENGLISH else (node.language,),
        }
    for name, values in details.items():
        if values:
            print_styled(f"   {name}: {', '.join(values)}", "dim")
