r"""Answer questions from what each system retrieves, and score the answers.

From the repository's root, with any server that has OpenAI's API:

    OPENAI_API_KEY=... python benchmarks/answers.py --data ../shared/data \
        --base-url https://host/v1 --model NAME --questions 100 --out answers.json
    python benchmarks/answers.py --data ../shared/data      # contexts only, without an LLM
    make bench-answers      # with a very small model on this machine

The systems are the hybrid, dense search, BM25, reciprocal rank fusion, the paper's strategy, the
full text up to a limit (for a long document its beginning, for passages that of the corpus), no
context, and the evidence itself (`gold`), the best that the model can do. All of them fill the same
prompt. Budgets count 1.3 tokens per word.

EM and F1 are those of SQuAD, and ROUGE-L is the F-measure on words. `in context` is whether the
context contains a short answer word by word, and `words in context` the fraction of the answer's
content words that it contains; both need no LLM. The hybrid is compared with each system by paired
bootstrap intervals.

Answers are cached on disk by model and prompt, so an interrupted run resumes. Indexes and vectors
are those of benchmarks/quality.py, which describes the splits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np

from answers_bench.contexts import NAMES, context_of
from answers_bench.local_model import MODEL, local_model
from answers_bench.reader import Reader
from answers_bench.report import difference_table, pooled, score_table, summary
from answers_bench.scoring import answer_scores, context_scores
from answers_bench.tasks import PROMPT, TASKS
from quality_bench.caches import DiskCache
from quality_bench.corpora import CACHE, Corpus, Question, corpora
from runs import parser_of, this_run, write_result

ALL = "all"
"""The questions of all sets together."""

_EVERY = 25
"""Prompts between two messages."""


def main() -> None:
    options = parsed()
    names = options.systems.split(",")
    sets = corpora(options.data, options.sets.split(","))
    server = (
        local_model(options.local, options.threads)
        if options.local
        else nullcontext(options.base_url)
    )
    rows = {}
    with closing(DiskCache(options.cache)) as cache, server as base_url:
        reader = (
            Reader(options.model, base_url, cache, request=options.request) if base_url else None
        )
        for corpus in sets:
            questions = sample(corpus.questions(options.split), options.questions, len(sets))
            contexts = retrieve(corpus, questions, names, options)
            answers = reader and read(corpus, questions, contexts, reader, options.concurrency)
            rows[corpus.label] = scores(questions, contexts, answers)
            print(score_table({corpus.label: summary(rows[corpus.label])}), flush=True)
    summaries = {label: summary(of_set) for label, of_set in rows.items()}
    if len(rows) > 1:
        summaries[ALL] = summary(pooled(list(rows.values())))
    result = {
        **this_run(),
        "model": options.model if base_url else None,
        "split": options.split,
        "context tokens": options.context_tokens,
        "full text tokens": options.full_text_tokens,
        "prompt": PROMPT,
        "sets": summaries,
    }
    write_result(result, options.out)
    print(score_table(summaries), difference_table(summaries), sep="\n")


def parsed() -> argparse.Namespace:
    parser = parser_of(__doc__, "data")
    parser.add_argument(
        "--base-url", help="URL of the server; without it, only contexts are scored"
    )
    parser.add_argument("--model", help="the server's name for the model")
    parser.add_argument(
        "--local",
        type=Path,
        metavar="PYTHON",
        help="serve the small model of the dependency group `answers` with this interpreter",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of the --local server")
    parser.add_argument("--sets", default=",".join(TASKS))
    parser.add_argument("--systems", default=",".join(NAMES))
    parser.add_argument("--split", choices=("dev", "report"), default="dev")
    parser.add_argument("--questions", type=int, help="number of questions in all sets together")
    parser.add_argument("--context-tokens", type=int, default=1000)
    parser.add_argument("--full-text-tokens", type=int, default=4000)
    parser.add_argument("--concurrency", type=int, default=1, help="calls at the same time")
    parser.add_argument(
        "--request", type=json.loads, default={}, help="JSON with extra fields of each request"
    )
    parser.add_argument("--cache", type=Path, default=CACHE / "answers.sqlite")
    options = parser.parse_args()
    if options.local:
        options.model = MODEL
    elif (options.base_url is None) != (options.model is None):
        parser.error("--base-url and --model belong together")
    if unknown := set(options.sets.split(",")) - set(TASKS):
        parser.error(f"unknown sets: {', '.join(sorted(unknown))}; there are {', '.join(TASKS)}")
    return options


def sample(questions: Sequence[Question], total: int | None, sets: int) -> list[Question]:
    """Return a set's part of the questions; a larger part contains a smaller one."""
    count = len(questions) if total is None else total // sets
    chosen = np.random.default_rng(0).permutation(len(questions))[:count]
    return [questions[i] for i in sorted(chosen)]


def retrieve(
    corpus: Corpus, questions: Sequence[Question], names: Sequence[str], options: argparse.Namespace
) -> dict[str, list[str]]:
    """Return the contexts of the questions for each system."""
    with corpus.index() as rag:
        limits = options.context_tokens, options.full_text_tokens
        sources = {name: context_of(name, corpus, rag, *limits) for name in names}
        return {name: [of(question) for question in questions] for name, of in sources.items()}


def read(
    corpus: Corpus,
    questions: Sequence[Question],
    contexts: dict[str, list[str]],
    reader: Reader,
    concurrency: int,
) -> dict[str, list[str]]:
    """Return the model's answers from the contexts of each system.

    Prompts are sent in alphabetical order, because servers reuse what a prompt shares with the
    beginning of the one before.
    """
    task = TASKS[corpus.name]
    prompts = {
        name: [task.prompt(c, q.text) for c, q in zip(texts, questions, strict=True)]
        for name, texts in contexts.items()
    }
    asked = sorted({prompt for of_system in prompts.values() for prompt in of_system})
    began, before = time.perf_counter(), reader.calls
    answers = {}
    with ThreadPoolExecutor(concurrency) as pool:
        found = pool.map(lambda prompt: reader.answer(prompt, task.max_tokens), asked)
        for answered, (prompt, answer) in enumerate(zip(asked, found, strict=True), 1):
            answers[prompt] = answer
            if answered % _EVERY == 0 or answered == len(asked):
                calls, seconds = reader.calls - before, time.perf_counter() - began
                print(f"{corpus.label}: {answered} of {len(asked)} prompts, {calls} of them "
                      f"now, {seconds:.0f} s", flush=True)  # fmt: skip
    return {name: [answers[prompt] for prompt in of_system] for name, of_system in prompts.items()}


def scores(
    questions: Sequence[Question],
    contexts: dict[str, list[str]],
    answers: dict[str, list[str]] | None,
) -> dict[str, list[dict[str, float]]]:
    """Return the measures of each question for each system."""
    return {
        name: [
            (answer_scores(answers[name][i], question.answer) if answers else {})
            | context_scores(text, question)
            for i, (question, text) in enumerate(zip(questions, texts, strict=True))
        ]
        for name, texts in contexts.items()
    }


if __name__ == "__main__":
    main()
