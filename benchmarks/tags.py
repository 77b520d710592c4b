r"""Measure how well tags are assigned, on documents whose category is known.

Each document has one category or none. It is a hit if the category is among the assigned tags;
every other assigned tag counts as wrong, even where a reader might accept it. Halves are split by
article: dev is where the threshold was chosen.

    python benchmarks/tags.py --data ../shared/data --out benchmarks/results/tags.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any
from unittest import mock

from e2graphrag_integrations import (
    E2GraphRAG,
    SentenceTransformerEmbedder,
    SourceDocument,
    Tag,
    tagged,
)
from e2graphrag_integrations.snapshot import tags as assignment
from e2graphrag_integrations.testing import CapitalizedWordExtractor
from quality_bench.corpora import CACHE
from quality_bench.embedders import MODEL
from quality_bench.vectors import CachedEmbedder, VectorCache
from runs import this_run, write_result

NEWS = (
    Tag(
        "sports",
        "Sports: games, teams, players, leagues and betting odds",
        [
            "The quarterback threw two touchdowns in the fourth quarter.",
            "The team won the match and leads the league.",
        ],
    ),
    Tag(
        "technology",
        "Technology: software, gadgets, startups and artificial intelligence",
        ["The company released a new version of its app.", "The chip makes the phone faster."],
    ),
    Tag(
        "business",
        "Business: companies, finance, markets and the economy",
        [
            "Shares fell after the bank reported lower profit.",
            "The central bank raised interest rates.",
        ],
    ),
    Tag(
        "entertainment",
        "Entertainment: film, television, music, celebrities and video games",
        ["The singer announced a world tour.", "The film opened in cinemas to good reviews."],
    ),
    Tag(
        "health",
        "Health: medicine, diseases, fitness and nutrition",
        ["Doctors recommend more sleep.", "The vaccine reduces the risk of infection."],
    ),
    Tag(
        "science",
        "Science: research, space, physics and biology",
        ["Researchers discovered a new species.", "The telescope observed a distant galaxy."],
    ),
)
HELP = (
    Tag(
        "government",
        "Government services, public benefits, permits, agencies and laws",
        [
            "Apply for the benefit at your local office.",
            "The department issues licenses to residents.",
        ],
    ),
    Tag(
        "cloud",
        "Cloud computing: servers, databases, APIs and deployment",
        [
            "Create a cluster and deploy the service with the command line.",
            "The plan includes storage and virtual machines.",
        ],
    ),
    Tag(
        "finance",
        "Personal finance: investing, taxes, loans and retirement savings",
        [
            "You should put the money in an index fund.",
            "The interest on the mortgage is deductible.",
        ],
    ),
)
COLLECTIONS = {"govt": "government", "ibmcloud": "cloud", "fiqa": "finance"}
"""Categories of mtrag_un by collection. The fourth collection, from Wikipedia, has none."""

THRESHOLDS = tuple(round(0.02 * step, 2) for step in range(1, 8))


def variants(tags: tuple[Tag, ...]) -> dict[str, list[Tag]]:
    return {
        "names": [Tag(tag.name) for tag in tags],
        "names and descriptions": [Tag(tag.name, tag.description) for tag in tags],
        "names, descriptions and 2 examples": list(tags),
    }


def news(data: Path, *, titles: bool) -> list[tuple[SourceDocument, str | None, str]]:
    """Return each document with its category and the article by which the halves are split."""
    path = data / "multihop_rag_facts" / "corpus.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        (
            SourceDocument(row["id"], row["text"], title=row["title"] if titles else None),
            row["category"],
            row["url"],
        )
        for row in rows
    ]


def passages(data: Path) -> list[tuple[SourceDocument, str | None, str]]:
    path = data / "mtrag_un" / "corpus.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        (
            SourceDocument(row["id"], f"{row['title']}\n{row['text']}".lstrip("\n")),
            COLLECTIONS.get(row["collection"]),
            row["id"].split("-")[0],
        )
        for row in rows
    ]


def is_dev(article: str) -> bool:
    return hashlib.sha256(article.encode()).digest()[0] % 2 == 0


def rates(pairs: list[tuple[str | None, frozenset[str]]]) -> dict[str, float]:
    """Return precision, recall and F1 over all pairs of a category and assigned tags."""
    hits = sum(category in assigned for category, assigned in pairs)
    precision = hits / max(1, sum(len(assigned) for _, assigned in pairs))
    recall = hits / max(1, sum(category is not None for category, _ in pairs))
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    return {
        "documents": len(pairs),
        "precision": round(precision, 3),
        "recall": round(recall, 3),
        "f1": round(f1, 3),
        "tags per document": round(sum(len(own) for _, own in pairs) / max(1, len(pairs)), 2),
    }


def assigned_tags(rag: E2GraphRAG, tags: list[Tag], threshold: float) -> dict[str, set[str]]:
    """Return the tags of each document that has any."""
    with mock.patch.object(assignment, "_THRESHOLD", threshold):
        rag.set_tags(tags)
        where = tagged(*(tag.name for tag in tags))
        result = rag.retrieve("?", k=10_000, mode="global", where=where, fill=True)
    found: dict[str, set[str]] = {}
    for node in result.nodes:
        found.setdefault(node.document_id, set()).update(node.tags)
    return found


def measure(
    documents: list[tuple[SourceDocument, str | None, str]],
    tags: tuple[Tag, ...],
    embedder: CachedEmbedder,
) -> dict[str, Any]:
    extractor = CapitalizedWordExtractor()
    default = assignment._THRESHOLD  # noqa: SLF001 - the constant to measure
    result: dict[str, Any] = {}
    with E2GraphRAG.open(":memory:", embedder=embedder, extractor=extractor) as rag:
        rag.add([document for document, _, _ in documents])
        for name, variant in variants(tags).items():
            halves: dict[str, dict[str, Any]] = {"dev": {}, "report": {}}
            for threshold in sorted({*THRESHOLDS, default}):
                found = assigned_tags(rag, variant, threshold)
                for half, by_threshold in halves.items():
                    by_threshold[f"{threshold:g}"] = rates(
                        [
                            (category, frozenset(found.get(document.id, ())))
                            for document, category, article in documents
                            if is_dev(article) == (half == "dev")
                        ]
                    )
            result[name] = {
                "report": halves["report"][f"{default:g}"],
                "dev": halves["dev"][f"{default:g}"],
                "dev f1 by threshold": {key: one["f1"] for key, one in halves["dev"].items()},
            }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    vectors = VectorCache(CACHE / "vectors.sqlite")
    embedder = CachedEmbedder(SentenceTransformerEmbedder(), MODEL, vectors)
    sets = {
        "news facts, 6 categories": measure(news(options.data, titles=True), NEWS, embedder),
        "news facts without titles": measure(news(options.data, titles=False), NEWS, embedder),
        "help pages, 3 categories or none": measure(passages(options.data), HELP, embedder),
    }
    write_result({**this_run(), "sets": sets}, options.out)


if __name__ == "__main__":
    main()
