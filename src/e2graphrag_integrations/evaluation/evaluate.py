"""Asking every question with every setting, and measuring the results."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from e2graphrag_integrations._utils.concurrency import run_in_thread
from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations._utils.validation import check_name, short_repr
from e2graphrag_integrations.errors import EvaluationError, StoppedError
from e2graphrag_integrations.evaluation.measures import (
    ANSWER,
    NDCG,
    RECALL,
    SPAN_RECALL,
    answer_words,
    contains_answer,
    ndcg,
    recall,
    span_recall,
)
from e2graphrag_integrations.evaluation.questions import Question
from e2graphrag_integrations.evaluation.report import EvaluationReport, Scores
from e2graphrag_integrations.evaluation.settings import Setting
from e2graphrag_integrations.pages import PAGE_ID, source_ids
from e2graphrag_integrations.reports import Progress, ProgressListener
from e2graphrag_integrations.retrieval.known_ids import KnownIds
from e2graphrag_integrations.retrieval.reader import HasReader, IndexReader, reader_of
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.strategy import DEFAULT_K
from e2graphrag_integrations.text.span_sets import merge_spans
from e2graphrag_integrations.types import Span

_SHOWN_PROBLEMS = 5
"""Maximum number of unknown ids and spans in a message."""


EvaluatedIndex = IndexReader | HasReader
"""An `E2GraphRAG` or a scope of one, or an `E2GraphRAGIndex`."""


@runtime_checkable
class Searcher(Protocol):
    """Anything that answers a question, such as a retriever of an integration."""

    def search(self, query: str, /) -> RetrievalResult:
        """Return the result of a question."""


Settings = Mapping[str, Setting | Searcher]
"""The settings to compare, by name. A setting can be a retriever of LlamaIndex or LangChain."""

_Search = Callable[[str], RetrievalResult]


def evaluate(
    index: EvaluatedIndex,
    questions: Iterable[Question],
    settings: Settings | None = None,
    *,
    progress: ProgressListener | None = None,
) -> EvaluationReport:
    """Ask every question with every setting, and measure the results.

    No language model is called. All questions are checked against the index before the first one is
    asked.

    Args:
        index: An `E2GraphRAG`, or an `E2GraphRAGIndex` of LlamaIndex or LangChain.
        questions: Questions with gold answers, such as those of `read_questions`.
        settings: Settings by name. The first one is the baseline of the differences. None means
            the default arguments of `retrieve`. A setting can also be a retriever:
            `{"five": index.as_retriever(similarity_top_k=5)}`.
        progress: Called after every question.

    Raises:
        EvaluationError: If there are no questions or settings, or the index does not contain a gold
            id or span. The message names the lines.
        E2GraphRAGError: If a question cannot be answered; see `E2GraphRAG.retrieve`.
    """
    return _evaluate(index, questions, settings, progress, threading.Event())


async def aevaluate(
    index: EvaluatedIndex,
    questions: Iterable[Question],
    settings: Settings | None = None,
    *,
    progress: ProgressListener | None = None,
) -> EvaluationReport:
    """Run `evaluate` in a thread. Cancellation ends it after the current question."""
    stopped = threading.Event()

    def run() -> EvaluationReport:
        return _evaluate(index, questions, settings, progress, stopped)

    return await run_in_thread(run, stopped.set)


def measure(
    index: EvaluatedIndex, result: RetrievalResult, question: Question, setting: object
) -> Scores:
    """Return the measures of one result.

    Args:
        index: The index that returned the result.
        result: The result.
        question: The gold answers.
        setting: The `Setting` or retriever with which the index was searched.

    Raises:
        EvaluationError: If the index does not contain a gold id or span.
    """
    [gold] = _resolve([question], _reader(index).known_ids())
    return _scores(result, gold, setting)


@dataclass(frozen=True)
class _Gold:
    """The gold answers of a question, resolved in an index.

    Attributes:
        ids: The gold ids.
        kinds: Their kinds: `document` and `page`, or `node`.
        spans: For each document, the gold spans as far as chunks contain them.
        answers: The answers as `answer_words`.
    """

    ids: frozenset[str]
    kinds: frozenset[str]
    spans: Mapping[str, Sequence[Span]]
    answers: tuple[str, ...]


def _evaluate(
    index: EvaluatedIndex,
    questions: Iterable[Question],
    settings: Settings | None,
    progress: ProgressListener | None,
    stopped: threading.Event,
) -> EvaluationReport:
    questions, settings = _checked(questions, settings, progress)
    reader = _reader(index)
    searches = {
        check_name("the name of a setting", name): _search(reader, name, setting)
        for name, setting in settings.items()
    }
    golds = _resolve(questions, reader.known_ids())
    rows: dict[str, list[Scores]] = {name: [] for name in searches}
    started, total = time.monotonic(), len(questions)
    for done, (question, gold) in enumerate(zip(questions, golds, strict=True), 1):
        for name, search in searches.items():
            if stopped.is_set():
                raise StoppedError("the evaluation was stopped")
            rows[name].append(_scores(search(question.text), gold, settings[name]))
        if progress is not None:
            progress(Progress("evaluate", done, total, time.monotonic() - started))
    described = {
        name: setting.describe() if isinstance(setting, Setting) else {}
        for name, setting in settings.items()
    }
    return EvaluationReport(questions, {name: tuple(own) for name, own in rows.items()}, described)


def _checked(
    questions: Iterable[Question], settings: Settings | None, progress: object
) -> tuple[tuple[Question, ...], Settings]:
    if not isinstance(questions, Iterable):
        raise EvaluationError(f"questions={short_repr(questions)} must be a list of Question")
    if progress is not None and not callable(progress):
        raise EvaluationError(f"progress={short_repr(progress)} must be a function")
    if not isinstance(settings, Mapping | None):
        raise EvaluationError(f"settings={short_repr(settings)} must map names to settings")
    questions = tuple(questions)
    if not questions:
        raise EvaluationError("there are no questions")
    if not all(isinstance(question, Question) for question in questions):
        raise EvaluationError("questions must be Question objects: use read_questions(path)")
    settings = {"default": Setting()} if settings is None else dict(settings)
    if not settings:
        raise EvaluationError("there are no settings")
    return questions, settings


def _reader(index: EvaluatedIndex) -> IndexReader:
    reader = reader_of(index)
    if reader is None:
        raise EvaluationError(
            f"index={short_repr(index)} is not an index: pass an E2GraphRAG, or an E2GraphRAGIndex"
        )
    return reader


def _search(reader: IndexReader, name: str, setting: object) -> _Search:
    """Return the function that answers a question with a setting."""
    if isinstance(setting, Setting):
        arguments = setting.arguments()
        return lambda question: reader.retrieve(question, **arguments)
    if isinstance(setting, Searcher) and not isinstance(setting, type):
        return setting.search
    raise EvaluationError(f"setting {name!r}: {short_repr(setting)} is not a Setting or retriever")


def _resolve(questions: Sequence[Question], known: KnownIds) -> list[_Gold]:
    """Return the gold answers of all questions.

    Raises:
        EvaluationError: If the index does not contain some of them.
    """
    golds, problems, lines = [], [], []
    for number, question in enumerate(questions, 1):
        own = list(_problems(question, known))
        if own:
            code, place = ("line", question.line) if question.line else ("question", number)
            problems += [
                CodedText(
                    f"gold_in_{code}",
                    f"{code} {{number}} ({{quoted}}): {{problem}}",
                    number=place,
                    quoted=short_repr(question.text),
                    problem=problem,
                )
                for problem in own
            ]
            lines += [] if question.line is None else [question.line]
            continue
        spans = {
            document: [part for span in merged for part in known.in_chunks(document, span)]
            for document, merged in _gold_spans(question).items()
        }
        kinds = frozenset(str(known.kind(id_)) for id_ in question.gold_ids)
        answers = tuple(map(answer_words, question.answers))
        golds.append(_Gold(frozenset(question.gold_ids), kinds, spans, answers))
    if problems:
        shown = "; ".join(problems[:_SHOWN_PROBLEMS])
        more = len(problems) - _SHOWN_PROBLEMS
        shown += f"; and {more} more" if more > 0 else ""
        if any(problem.values["problem"].code == "unknown_gold" for problem in problems):
            shown += (
                ". If it is the id of a node, its document has changed: mark the answer as a span"
            )
        text = CodedText(
            "missing_gold",
            "the index does not contain all gold answers: {shown}",
            shown=shown,
            problems=problems[:_SHOWN_PROBLEMS],
        )
        raise EvaluationError(text, tuple(lines))
    return golds


def _gold_spans(question: Question) -> dict[str, list[Span]]:
    """Return the gold spans of each document, disjoint: many may contain the same text."""
    spans: dict[str, list[Span]] = defaultdict(list)
    for document, start, end in question.gold_spans:
        spans[document].append(Span(start, end))
    return {document: merge_spans(own) for document, own in spans.items()}


def _problems(question: Question, known: KnownIds) -> Iterator[CodedText]:
    kinds = {id_: known.kind(id_) for id_ in question.gold_ids}
    for id_, kind in kinds.items():
        if kind is None:
            yield CodedText("unknown_gold", "unknown gold id {id}", id=short_repr(id_))
    found = {*kinds.values()}
    if "node" in found and found & {"document", "page"}:
        text = "gold_ids contains ids of documents and of nodes: use ids of one kind"
        yield CodedText("mixed_gold", text)
    for document, start, end in dict.fromkeys(question.gold_spans):
        if known.kind(document) != "document":
            text = "unknown document {id} in gold_spans"
            yield CodedText("unknown_span", text, id=short_repr(document))
        elif not any(known.in_chunks(document, Span(start, end))):
            text = "the document {id} has no text at {start}-{end}"
            yield CodedText("empty_span", text, id=short_repr(document), start=start, end=end)


def _scores(result: RetrievalResult, gold: _Gold, setting: object) -> Scores:
    """Return the measures of a result for which the question has gold answers."""
    scores: dict[str, float] = {}
    if gold.ids:
        ranked = list(dict.fromkeys(_ranked_ids(result.nodes, gold)))
        scores[RECALL] = recall(ranked, gold.ids)
        cut = len(gold.ids)
        if isinstance(setting, Setting) and setting.token_budget is None:
            cut = DEFAULT_K if setting.k is None else setting.k
        scores[NDCG] = ndcg(ranked, gold.ids, max(cut, len(ranked)))
    if gold.spans:
        found: dict[str, list[Span]] = defaultdict(list)
        for node in result.nodes:
            if node.level == 0:
                found[node.document_id] += node.spans
        scores[SPAN_RECALL] = span_recall(found, gold.spans)
    if gold.answers:
        scores[ANSWER] = contains_answer(result.context(), gold.answers)
    return scores


def _ranked_ids(nodes: Sequence[RetrievedNode], gold: _Gold) -> Iterator[str]:
    """Yield the ids that the nodes stand for, of the same kind as the gold ids."""
    for node in nodes:
        if "node" in gold.kinds:
            yield node.node_id
        elif "page" not in gold.kinds or node.document_id in gold.ids:
            yield node.document_id
        elif node.level == 0:  # a summary covers many pages
            for segment in node.segments:
                own = str(segment.metadata.get(PAGE_ID, node.document_id))
                yield from [own] if own in gold.ids else source_ids(segment.metadata) or [own]
