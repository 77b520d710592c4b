r"""Compare the answers of an index in shards with those of one index, and their times.

From the repository's root:

    make bench-shards
    python benchmarks/shards.py --data ../shared/data --every 4

The cached index of a set is copied to 1, 2, 4 and 8 shards, without a model. Each question is asked
to one index and to the shards in turn, in one process, so the ratio of their times is the overhead
of the requests: on separate machines the shards would search at the same time.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import E2GraphRAG, Models
from e2graphrag_integrations.shards.index import ShardedIndex, open_shards
from e2graphrag_integrations.shards.rebalance import rebalance
from e2graphrag_integrations.shards.shards_file import ShardsFile
from goals import Goal, finish
from quality_bench.corpora import Corpus, Question, corpora
from runs import parser_of, percentiles, this_run

SETS = ("hotpotqa-text", "lihuaworld-text")
SHARDS = (1, 2, 4, 8)
K = 10
WARM_UP = 5

MIN_EQUAL = 0.98
"""Least share of questions whose first ten results are those of one index, in the same order."""

MAX_RECALL_LOSS = 0.002


def main() -> None:
    parser = parser_of(__doc__, "data")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--every", type=int, default=1, help="use every n-th question")
    options = parser.parse_args()
    sets = {
        corpus.label: measure(corpus, options.every)
        for corpus in corpora(options.data, options.sets.split(","))
    }
    finish({**this_run(), "k": K, "sets": sets}, list(goals(sets)), options.out)


def goals(sets: Mapping[str, Any]) -> list[Goal]:
    found = []
    for label, one in sets.items():
        for count, row in one["shards"].items():
            name = f"{label}, {count} shards"
            found += [
                Goal(f"{name}: equal results", row["equal results"], min=MIN_EQUAL),
                Goal(f"{name}: recall lost", row["recall lost"], max=MAX_RECALL_LOSS),
            ]
    return found


def measure(corpus: Corpus, every: int) -> dict[str, Any]:
    """Return the figures of a set: of one index, and of each number of shards."""
    questions = corpus.questions("dev")[::every]
    options: dict[str, Any] = {
        "embedder": corpus.embedder,
        "models": Models(extractor=corpus.extractor),
    }
    for question in questions:  # so that neither side pays for the models
        corpus.extractor.extract([question.text])
        corpus.embedder.embed_query(question.text)
    result: dict[str, Any] = {"questions": len(questions), "shards": {}}
    with tempfile.TemporaryDirectory() as name, corpus.index() as one:
        folder = Path(name)
        result["windows"] = one.stats().windows
        listing = folder / "one.shards.json"
        ShardsFile((str(corpus.path.absolute()),)).write(listing)
        for count in SHARDS:
            target = folder / f"of{count}.shards.json"
            began = time.perf_counter()
            rebalance(listing, target, count)
            copied = time.perf_counter() - began
            began = time.perf_counter()
            with open_shards(target, **options) as shards:
                shards.retrieve(questions[0].text, k=K)
                opened = time.perf_counter() - began
                row = {
                    **compare(one, shards, questions),
                    "seconds to copy": round(copied, 2),
                    "seconds to open and answer": round(opened, 2),
                    "coordinator bytes per window": coordinator_bytes(shards),
                }
            result["shards"][count] = row
            print(corpus.label, count, row, flush=True)
    return result


def compare(one: E2GraphRAG, shards: ShardedIndex, questions: Sequence[Question]) -> dict[str, Any]:
    """Return how many results are equal, the recall of both, and their times."""
    times: dict[str, list[float]] = {"one index": [], "shards": []}
    recalls: dict[str, list[float]] = {name: [] for name in times}
    equal, same_set = [], []
    for number, question in enumerate([*questions[:WARM_UP], *questions]):
        found = {}
        for name, index in (("one index", one), ("shards", shards)):
            began = time.perf_counter()
            result = index.retrieve(question.text, k=K)
            seconds = time.perf_counter() - began
            found[name] = [node.node_id for node in result.nodes]
            if number >= WARM_UP:
                times[name].append(seconds)
                documents = {node.document_id for node in result.nodes[:5]}
                recalls[name].append(len(question.gold & documents) / len(question.gold))
        if number >= WARM_UP:
            equal.append(found["one index"] == found["shards"])
            same_set.append(set(found["one index"]) == set(found["shards"]))
    medians = {name: float(np.median(own)) for name, own in times.items()}
    means = {name: float(np.mean(own)) for name, own in recalls.items()}
    return {
        "equal results": round(float(np.mean(equal)), 4),
        "equal sets": round(float(np.mean(same_set)), 4),
        "recall lost": round(means["one index"] - means["shards"], 4),
        "R@5": {name: round(value, 4) for name, value in means.items()},
        "ms": {name: percentiles(own) for name, own in times.items()},
        "ratio of the medians": round(medians["shards"] / medians["one index"], 2),
    }


def coordinator_bytes(shards: ShardedIndex) -> int:
    """Return the bytes that the coordinator keeps per window, as sent by the shards."""
    calls = shards._shards  # noqa: SLF001 - no user needs this
    directories = calls.all("directory").values()
    windows = sum(one.words.n_texts for one in directories)
    return sum(len(pickle.dumps(one)) for one in directories) // max(1, windows)


if __name__ == "__main__":
    main()
