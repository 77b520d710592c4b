"""What the command line prints: text for people, JSON for programs, a bar on a terminal."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from e2graphrag_integrations.reports import (
    CostEstimate,
    DeleteReport,
    DocumentStatus,
    IndexReport,
    Stats,
    VerifyReport,
)
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode

_SNIPPET = 240
"""Characters of a hit's text that people see."""


def print_line(text: str) -> None:
    """Print a text."""
    print(text)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object, readable where the output can show all characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    escaped = codecs.lookup(encoding).name != "utf-8"
    print(json.dumps(value, ensure_ascii=escaped, indent=2))


def print_estimate(estimate: CostEstimate) -> None:
    """Print what indexing would cost."""
    print(f"{estimate.documents} document(s), {estimate.chunks} chunks")
    for level in estimate.levels:
        print(
            f"level {level.level}: {level.summaries} summaries, {level.llm_calls} LLM calls, "
            f"at most {level.prompt_tokens} prompt and {level.completion_tokens} completion tokens"
        )
    print(
        f"LLM calls: {estimate.llm_calls} (with --llm-model; without it, summaries cost none)\n"
        f"prompt tokens: at most {estimate.prompt_tokens}\n"
        f"completion tokens: at most {estimate.completion_tokens}"
    )


def print_report(
    report: IndexReport, path: str, changes: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Print what indexing did, and which documents an update changed in what way."""
    for document_id, reason in report.failed.items():
        print(f"failed: {document_id}: {reason}", file=sys.stderr)
    if report.failed:
        print(f"`e2graphrag resume {path}` tries them again", file=sys.stderr)
    for what, ids in (changes or {}).items():
        for document_id in ids:
            print(f"{what}: {document_id}")
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
        print(f"warning: {document_id} holds no text", file=sys.stderr)


def print_deleted(report: DeleteReport, path: str) -> None:
    """Print what was deleted."""
    print(
        f"{path}: {report.documents} document(s) deleted with {report.chunks} chunks and "
        f"{report.summaries} summaries"
    )


def print_states(states: Sequence[DocumentStatus]) -> None:
    """Print how far documents are, one a line."""
    for state in states:
        older = " (an older version answers)" if state.indexed and state.status != "done" else ""
        print(f"{state.status}\t{state.id}{older}{': ' + state.reason if state.reason else ''}")


def print_profile(seconds: Mapping[str, float]) -> None:
    """Print a table of stages: seconds, and the share of all stages' together.

    Stages of indexing run side by side: their sum may exceed the wall time, `total`.
    """
    stages = {stage: spent for stage, spent in seconds.items() if stage != "total"}
    together = sum(stages.values())
    print(f"{'stage':<12}{'seconds':>10}{'share':>8}")
    for stage, spent in sorted(stages.items(), key=lambda item: -item[1]):
        print(f"{stage:<12}{spent:>10.4f}{spent / together if together else 0:>8.1%}")
    print(f"{'wall' if 'total' in seconds else 'sum':<12}{seconds.get('total', together):>10.4f}")


def print_stats(stats: Stats) -> None:
    """Print what an index holds."""
    for name, value in stats.to_dict().items():
        if name != "settings":
            print(f"{name}: {value}")
    for name, value in stats.settings.items():
        print(f"  {name} = {value}")


def print_verification(report: VerifyReport, path: str) -> None:
    """Print what a check of the file found."""
    counts = ", ".join(f"{count} {what}" for what, count in report.checked.items())
    print(f"{path}: {'sound' if report.ok else 'damaged'} ({counts})")
    for problem in report.problems:
        print(f"  {problem}")


def print_result(result: RetrievalResult, *, explain: bool) -> None:
    """Print a question's route, entities and hits."""
    if explain:
        print(result.trace.explain())
    else:
        print("\n".join(result.trace.explain().splitlines()[:3]))
    for rank, node in enumerate(result.nodes, 1):
        print()
        _print_hit(rank, node)
    if not result.nodes:
        cut = result.trace.cuts.get("token_budget")
        print("nothing fits the token budget" if cut else "nothing found")


def _print_hit(rank: int, node: RetrievedNode) -> None:
    kind = "chunk" if node.level == 0 else f"summary (level {node.level})"
    spans = ", ".join(f"{start}-{end}" for start, end in node.spans)
    print(f"{rank}. {kind} {node.position} of {node.document_id}  span: {spans}")
    print(f"   score: {node.score:.4f} ({node.route})")
    print(f"   reasons: {'; '.join(node.reasons)}")
    if node.entities:
        print(f"   holds: {' - '.join(node.entities)}")
    text = " ".join(node.text.split())
    print(f"   {text[:_SNIPPET]}{'...' if len(text) > _SNIPPET else ''}")


def result_to_dict(result: RetrievalResult, *, explain: bool) -> dict[str, Any]:
    """Return a result as plain JSON values, with its trace on demand."""
    value = {
        "question": result.question,
        "route": result.route,
        "reason": result.trace.reason,
        "nodes": [asdict(node) for node in result.nodes],
    }
    return value | ({"trace": result.trace.to_dict()} if explain else {})
