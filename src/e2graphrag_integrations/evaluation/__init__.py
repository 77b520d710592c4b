"""Evaluation on your own questions: how well settings find the gold documents and answers.

`evaluate` asks every question of `read_questions` with every `Setting`, and returns a report.
"""

from __future__ import annotations

from e2graphrag_integrations.evaluation.evaluate import aevaluate, evaluate
from e2graphrag_integrations.evaluation.intervals import Estimate
from e2graphrag_integrations.evaluation.questions import GoldSpan, Question, read_questions
from e2graphrag_integrations.evaluation.report import EvaluationReport
from e2graphrag_integrations.evaluation.settings import Setting, parse_settings, read_settings

__all__ = [
    "Estimate",
    "EvaluationReport",
    "GoldSpan",
    "Question",
    "Setting",
    "aevaluate",
    "evaluate",
    "parse_settings",
    "read_questions",
    "read_settings",
]
