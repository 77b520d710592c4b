"""Print the scores of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations.cli.output.terminal import print_json, print_line, print_table

if TYPE_CHECKING:
    from e2graphrag_integrations.evaluation import Estimate, EvaluationReport


def print_evaluation(report: EvaluationReport, *, as_json: bool) -> None:
    """Print the means of all settings with their intervals, and the differences to the first."""
    if as_json:
        print_json(report.to_dict())
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
    print_table(columns, rows, map("\t".join, rows))
