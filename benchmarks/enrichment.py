r"""What enrichment by a language model gains or loses, on a part of two sets.

From the repository's root:

    make bench-enrichment      # with the very small model of bench-answers
    OPENAI_API_KEY=... python benchmarks/enrichment.py --data ../shared/data \
        --base-url https://host/v1 --model NAME --out enrichment.json

Of each set, dev questions are taken at random until their gold passages are half of `--documents`;
other passages fill the rest. The same passages are indexed without an `Enricher`, with the default
one, and with one that asks for questions only, in a sentence that a very small model follows. The
answers are cached on disk by model and prompt, so an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from answers_bench.local_model import MODEL, local_model
from answers_bench.reader import Reader
from e2graphrag_integrations import E2GraphRAG, HybridStrategy, SourceDocument, WriteOptions
from e2graphrag_integrations.enrichment import Enricher
from e2graphrag_integrations.enrichment.answers import read_answer
from e2graphrag_integrations.options import grouped
from md_tables import table
from quality_bench.caches import DiskCache
from quality_bench.corpora import CACHE, Corpus, Question, corpora
from quality_bench.measures import interval, score
from runs import parser_of, this_run, timed, write_result

SETS = "multihop_rag_facts,hotpotqa"
"""Sets of short passages, which a small model reads in minutes: one whose questions have few names,
where other words may help most, and one whose questions have many."""

MAX_TOKENS = 200
"""Maximum tokens of an answer."""

MEASURES = ("hit@1", "R@2", "R@5", "nDCG@10", "MRR@10")

QUESTIONS_ONLY = "{text}\n\n---\nWrite three questions that this passage answers."

ENRICHERS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "questions only": {"keywords": 0, "context": False, "prompt": QUESTIONS_ONLY},
}

Rows = list[dict[str, float]]


def main() -> None:
    options = parsed()
    server = (
        local_model(options.local, options.threads)
        if options.local
        else nullcontext(options.base_url)
    )
    sets = {}
    with closing(DiskCache(options.cache)) as cache, server as base_url:
        reader = Reader(options.model, base_url, cache)
        for corpus in corpora(options.data, options.sets.split(",")):
            documents, questions = part_of(corpus, options.documents)
            sets[corpus.label] = compared(corpus, documents, questions, reader, options.concurrency)
            print(shown({corpus.label: sets[corpus.label]}), flush=True)
    write_result({**this_run(), "model": options.model, "split": "dev", "sets": sets}, options.out)
    print(shown(sets))


def parsed() -> argparse.Namespace:
    parser = parser_of(__doc__, "data")
    parser.add_argument("--base-url", help="URL of the server")
    parser.add_argument("--model", help="the server's name for the model")
    parser.add_argument(
        "--local",
        type=Path,
        metavar="PYTHON",
        help="serve the small model of the dependency group `answers` with this interpreter",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of the --local server")
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--documents", type=int, default=200, help="passages of each set")
    parser.add_argument("--concurrency", type=int, default=1, help="calls at the same time")
    parser.add_argument("--cache", type=Path, default=CACHE / "answers.sqlite")
    options = parser.parse_args()
    if options.local:
        options.model = MODEL
    elif not (options.base_url and options.model):
        parser.error("pass --local PYTHON, or --base-url and --model")
    return options


def part_of(corpus: Corpus, count: int) -> tuple[list[SourceDocument], list[Question]]:
    """Return some passages of a set, and the dev questions that they answer."""
    random = np.random.default_rng(0)
    every, asked = corpus.documents(), corpus.questions("dev")
    gold: set[str] = set()
    for place in random.permutation(len(asked)).tolist():
        if len(gold | asked[place].gold) <= count // 2:
            gold |= asked[place].gold
    others = [one.id for one in every if one.id not in gold]
    chosen = gold.union(
        others[place] for place in random.permutation(len(others))[: count - len(gold)]
    )
    documents = [one for one in every if one.id in chosen]
    return documents, [one for one in asked if one.gold <= gold]


def compared(
    corpus: Corpus,
    documents: Sequence[SourceDocument],
    questions: Sequence[Question],
    reader: Reader,
    concurrency: int,
) -> dict[str, Any]:
    """Return the scores without enrichment and with each enricher, and what the model answered."""
    plain, _, _ = measured(corpus, documents, questions, WriteOptions())
    found: dict[str, Any] = {
        "passages": len(documents),
        "questions": len(questions),
        "without": means(plain),
        "with": {},
    }
    for name, settings in ENRICHERS.items():
        answers: list[str] = []

        def llm(prompt: str, answers: list[str] = answers) -> str:
            answers.append(reader.answer(prompt, MAX_TOKENS) or "-")
            return answers[-1]

        before = reader.calls
        enricher = Enricher(llm, reader.model, max_tokens=MAX_TOKENS, **settings)
        writes = WriteOptions(enricher=enricher, concurrency=concurrency)
        enriched, seconds, llm_calls = measured(corpus, documents, questions, writes)
        read = [read_answer(answer) for answer in answers]
        found["with"][name] = {
            "calls": llm_calls,
            "calls now": reader.calls - before,
            "seconds": round(seconds, 1),
            "answers with keywords": sum(bool(one.keywords) for one in read),
            "answers with sentences": sum(bool(one.sentences) for one in read),
            "means": means(enriched),
            "differences": {
                measure: interval(
                    [row[measure] for row in enriched], [row[measure] for row in plain]
                )
                for measure in MEASURES
            },
        }
    return found


def measured(
    corpus: Corpus,
    documents: Sequence[SourceDocument],
    questions: Sequence[Question],
    writes: WriteOptions,
) -> tuple[Rows, float, int]:
    """Return the measures of each question, the seconds to index, and the number of LLM calls."""
    models = {"embedder": corpus.embedder, "extractor": corpus.extractor}
    with E2GraphRAG.open(":memory:", **grouped(models), writes=writes) as rag:
        report, seconds = timed(lambda: rag.add(documents))
        scored, strategy = score(corpus, rag), HybridStrategy()
        return [scored(one, strategy) for one in questions], seconds, report.llm_calls


def means(rows: Rows) -> dict[str, float]:
    return {name: round(statistics.mean(row[name] for row in rows), 4) for name in MEASURES}


def shown(sets: dict[str, Any]) -> str:
    """Return the scores as a table."""
    rows = [
        (label, found["questions"], enricher, name, found["without"][name], own["means"][name],
         "{difference:+.3f} [{low:+.3f}, {high:+.3f}]".format(**own["differences"][name]))
        for label, found in sets.items()
        for enricher, own in found["with"].items()
        for name in MEASURES
    ]  # fmt: skip
    heads = ("set", "questions", "enricher", "measure", "without", "with", "difference")
    return table(heads, rows)


if __name__ == "__main__":
    main()
