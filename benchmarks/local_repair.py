r"""Count the LLM calls and embedded nodes after inserting one sentence into a long document.

From the repository's root:

    python benchmarks/local_repair.py --data ../shared/data \
        --out benchmarks/results/local_repair.json

Inserts sentences at random places of War and Peace (Gutenberg 2600), one after the other, each into
the index that the previous one left, with content-defined and with fixed chunks. The summarizer
returns a digest of its prompt, so that every regenerated summary differs from the old one: the
worst case.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.text.sentences import sentence_starts
from runs import this_run, timed, write_result

BOOK = "novels/war_and_peace.txt"
SETTINGS = {
    "content": {"chunking": "content", "grouping": "content"},
    "fixed": {},
}
MAX_CALLS, MAX_EMBEDDED = 10, 14
"""Limits of the 95th percentiles with content-defined chunks."""


class NoEntities:
    """Extracts no entities: they cost no LLM calls."""

    fingerprint = "bench:none"

    def extract(self, texts: list[str]) -> list[list[list[Any]]]:
        return [[] for _ in texts]


def digest(prompt: str) -> str:
    return f"Digest {hashlib.sha256(prompt.encode()).hexdigest()[:16]} of it."


def open_index(settings: dict[str, Any]) -> E2GraphRAG:
    return E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(64),
        extractor=NoEntities(),
        summarizer=digest,
        summarizer_id="digest",
        **settings,
    )


def measure(text: str, insertions: int, settings: dict[str, Any]) -> dict[str, Any]:
    rows: list[tuple[int, int, int, float]] = []
    with open_index(settings) as rag:
        first = rag.add(SourceDocument("book", text))
        random_ = random.Random(0)  # noqa: S311 - chooses the places of the sentences
        for number in range(insertions):
            start = random_.choice(sentence_starts(text))
            text = f"{text[:start]}In the year {number} nobody had yet heard of it. {text[start:]}"
            document = SourceDocument("book", text)
            expected = rag.estimate(update=document).llm_calls
            report, seconds = timed(lambda document=document: rag.update(document))
            if report.llm_calls + report.saved_calls != expected:
                raise SystemExit(
                    f"estimated {expected} LLM calls, but {report.llm_calls} were made and "
                    f"{report.saved_calls} saved"
                )
            rows.append((report.llm_calls, report.embedded, report.saved_calls, seconds))
        updated = "".join(rag.export())
    with open_index(settings) as rebuilt:
        rebuilt.add(SourceDocument("book", text))
        equal = "".join(rebuilt.export()) == updated
    columns = zip(*rows, strict=True)
    return {
        "chunks": first.chunks,
        "summaries": first.summaries,
        "update equals rebuild": equal,
        **{
            name: {
                "mean": round(float(np.mean(values)), 2),
                "p50": round(float(np.median(values)), 2),
                "p95": round(float(np.quantile(values, 0.95)), 2),
                "max": round(float(np.max(values)), 2),
            }
            for name, values in zip(
                ("llm_calls", "embedded", "saved_calls", "seconds"), columns, strict=True
            )
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--insertions", type=int, default=200)
    parser.add_argument(
        "--fixed-insertions", type=int, default=20, help="with fixed chunks, which cost much more"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = (options.data / BOOK).read_text(encoding="utf-8")
    counts = {"content": options.insertions, "fixed": options.fixed_insertions}
    result: dict[str, Any] = {
        **this_run(),
        "characters": len(text),
        **{
            name: {"insertions": counts[name]} | measure(text, counts[name], settings)
            for name, settings in SETTINGS.items()
        },
    }
    write_result(result, options.out)
    content = result["content"]
    if content["llm_calls"]["p95"] > MAX_CALLS or content["embedded"]["p95"] > MAX_EMBEDDED:
        raise SystemExit(
            f"95% of the insertions should cost at most {MAX_CALLS} LLM calls and {MAX_EMBEDDED} "
            "embedded nodes"
        )
    if not (content["update equals rebuild"] and result["fixed"]["update equals rebuild"]):
        raise SystemExit("an updated index differs from a rebuilt one")


if __name__ == "__main__":
    main()
