"""The result of an evaluation: scores of each question, means, intervals and differences."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.display import block, heading, muted, table
from e2graphrag_integrations.errors import EvaluationError
from e2graphrag_integrations.evaluation.intervals import Estimate, estimate
from e2graphrag_integrations.evaluation.measures import MEASURES
from e2graphrag_integrations.evaluation.questions import Question

Scores = Mapping[str, float]
"""The measures of one question, each in [0, 1], as far as its gold answers allow them."""

_SUFFIXES = (".csv", ".json")

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What begins a formula in a spreadsheet, as OWASP lists it."""


@dataclass(frozen=True, eq=False)
class EvaluationReport:
    """The measures of all settings on all questions.

    `recall` and `ndcg` need gold ids, `span_recall` gold spans, and `answer_in_context` answers.
    docs/evaluation.md defines them.

    Attributes:
        questions: The questions, in order.
        scores: For each setting, the measures of each question, in the order of the questions.
        settings: For each setting, its arguments that are not the default ones.
    """

    questions: tuple[Question, ...]
    scores: Mapping[str, tuple[Scores, ...]]
    settings: Mapping[str, Mapping[str, Any]]

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that at least one question has."""
        measured = {name for rows in self.scores.values() for row in rows for name in row}
        return tuple(name for name in MEASURES if name in measured)

    @property
    def baseline(self) -> str:
        """The first setting."""
        return next(iter(self.scores))

    def mean(self, setting: str, measure: str) -> Estimate:
        """Return the mean of a measure over the questions that have it, with its interval.

        Raises:
            EvaluationError: If there is no such setting or measure.
        """
        return estimate([row[measure] for row in self._rows(setting, measure)])

    def difference(self, setting: str, measure: str, baseline: str | None = None) -> Estimate:
        """Return the mean difference of two settings, paired by question, with its interval.

        Args:
            setting: A setting.
            measure: A measure.
            baseline: The setting to subtract; None means the first one.

        Raises:
            EvaluationError: If there is no such setting or measure.
        """
        rows = self._rows(setting, measure)
        others = self._rows(self.baseline if baseline is None else baseline, measure)
        pairs = zip(rows, others, strict=True)
        return estimate([row[measure] - other[measure] for row, other in pairs])

    def _rows(self, setting: str, measure: str) -> list[Scores]:
        if setting not in self.scores or measure not in self.measures:
            raise EvaluationError(
                f"no {measure!r} of {setting!r}: the settings are {', '.join(self.scores)}, and "
                f"the measures are {', '.join(self.measures)}"
            )
        return [row for row in self.scores[setting] if measure in row]

    def to_dict(self) -> dict[str, Any]:
        """Return the means, the differences to the first setting, and the questions, as JSON."""
        others = [name for name in self.scores if name != self.baseline]
        return {
            "settings": {
                name: {
                    "arguments": dict(self.settings[name]),
                    "measures": {m: asdict(self.mean(name, m)) for m in self.measures},
                }
                for name in self.scores
            },
            "baseline": self.baseline,
            "differences": {
                name: {m: asdict(self.difference(name, m)) for m in self.measures}
                for name in others
            },
            "questions": [
                question.to_dict()
                | {"scores": {name: dict(rows[row]) for name, rows in self.scores.items()}}
                for row, question in enumerate(self.questions)
            ],
        }

    def _repr_html_(self) -> str:
        names, measures = [*self.scores], self.measures
        means = [(name, *(_interval(self.mean(name, m)) for m in measures)) for name in names]
        differences = [
            (f"{name} - {self.baseline}", *(_interval(self.difference(name, m)) for m in measures))
            for name in names[1:]
        ]
        return block(
            heading("EvaluationReport"),
            muted(f"{len(self.questions):,} questions; means with 95% intervals"),
            table(("setting", *measures), means),
            table(("difference", *measures), differences) if differences else "",
        )

    def to_csv(self) -> str:
        """Return one line per question and setting, with the measures in columns.

        The arguments of the setting are JSON. There is no column `id` or `line` if no question has
        one. A text that a spreadsheet would take for a formula begins with an apostrophe.
        """
        out = io.StringIO()
        writer = csv.writer(out)  # it quotes "\r" because its lines end in "\r\n"
        has_id = any(one.id for one in self.questions)
        has_line = any(one.line is not None for one in self.questions)
        names = ["id"] * has_id + ["line"] * has_line + ["question", "setting", "arguments"]
        writer.writerow([*names, *self.measures])
        arguments = {
            name: json.dumps(dict(own), ensure_ascii=False) for name, own in self.settings.items()
        }
        for row, question in enumerate(self.questions):
            for name, rows in self.scores.items():
                cells = [rows[row].get(measure, "") for measure in self.measures]
                own = [_as_text(question.id)] * has_id + [question.line] * has_line
                texts = [_as_text(question.text), _as_text(name), arguments[name]]
                writer.writerow([*own, *texts, *cells])
        return out.getvalue()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file: CSV if its name ends in `.csv`, or JSON for `.json`.

        Raises:
            EvaluationError: If the name has another ending, or the file cannot be written.
        """
        file = check_report_path(path)
        if file.suffix.lower() == ".csv":
            text = self.to_csv()
        else:
            text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n"
        try:
            file.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise EvaluationError(f"{file} cannot be written: {error.strerror}") from error


def _as_text(text: str) -> str:
    """Return the text of a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _interval(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def check_report_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a report, after checking that it can be written.

    Raises:
        EvaluationError: If the ending is unknown, or the folder does not exist.
    """
    file = Path(path)
    if file.suffix.lower() not in _SUFFIXES:
        raise EvaluationError(f"{file} must end in {' or '.join(_SUFFIXES)}")
    if file.is_dir() or not file.parent.is_dir():
        raise EvaluationError(f"{file} cannot be written: name a file in an existing folder")
    return file
