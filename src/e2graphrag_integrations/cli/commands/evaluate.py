"""The command that evaluates settings on the user's questions."""

from __future__ import annotations

from typing import Annotated

import typer

from e2graphrag_integrations.cli import index_files, options
from e2graphrag_integrations.cli.app import command
from e2graphrag_integrations.cli.output.evaluate import print_evaluation
from e2graphrag_integrations.cli.output.progress import progress_bar
from e2graphrag_integrations.errors import EvaluationError


@command
def evaluate(
    index: options.IndexFile,
    questions: Annotated[
        str,
        typer.Argument(
            metavar="QUESTIONS",
            help="JSON Lines file: question, and gold_ids, gold_spans or answer.",
        ),
    ],
    *,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME KEY=VALUE...'",
            help="A name and arguments such as k=5, mode=local, token_budget=2000, strategy=paper "
            "or bm25_weight=0.5. Repeat it to compare settings with the first one.",
        ),
    ] = None,
    settings: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="JSON or TOML file that maps names to arguments."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the scores of each question (.csv or .json)."),
    ] = None,
    scope: options.Scope = None,
    json: options.Json = False,
) -> None:
    """Measure how well settings find the answers to your questions.

    Prints the mean of each measure with its 95% bootstrap interval, and the differences of the
    settings to the first one. No language model is called.

    Examples:
      e2graphrag evaluate novels.e2g questions.jsonl
      e2graphrag evaluate novels.e2g questions.jsonl --setting "five k=5" --setting "ten k=10"
      e2graphrag evaluate novels.e2g questions.jsonl --settings settings.toml --out scores.csv
    """
    from e2graphrag_integrations import evaluation
    from e2graphrag_integrations.evaluation.report import check_report_path

    compared = {} if settings is None else evaluation.read_settings(settings)
    for name, one in evaluation.parse_settings(setting or ()).items():
        if name in compared:
            raise EvaluationError(f"the setting {name!r} is also in {settings}")
        compared[name] = one
    if out is not None:
        check_report_path(out)
    asked = evaluation.read_questions(questions)
    with index_files.open_index(index) as rag, progress_bar() as progress:
        reader = index_files.scoped(rag, scope)
        report = evaluation.evaluate(reader, asked, compared or None, progress=progress)
    if out is not None:
        report.write(out)
    print_evaluation(report, as_json=json)  # last: a pipe may be closed
