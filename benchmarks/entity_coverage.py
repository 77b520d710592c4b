r"""Count the titles that are extracted as entities, with and without name rules.

For each hotpotqa question and each gold passage: if the passage's title occurs in the text (the
question, or the passage itself), is the title among the extracted entities, complete and in normal
form? Even positions are dev, where the rules were chosen; odd positions are report.

    python benchmarks/entity_coverage.py --data ../shared/data \
        --out benchmarks/results/entity_coverage.json
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path

from e2graphrag_integrations import SpacyEntityExtractor
from e2graphrag_integrations.entities.normalize import normal_form
from runs import this_run, write_result

PARENTHESIS = re.compile(r"\s*\([^)]*\)$")


def read_jsonl(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def contains(text: str, title: str) -> bool:
    """Return whether the text contains the title's normal form as complete words."""
    flat = " ".join(re.findall(r"\w+", text.casefold()))
    words = " ".join(re.findall(r"\w+", title))
    return bool(words) and f" {words} " in f" {flat} "


def measure(
    extractor: SpacyEntityExtractor, texts: list[str], titles: list[list[str]]
) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for sentences, text, expected in zip(extractor.extract(texts), texts, titles, strict=True):
        entities = {normal_form(m.entity) for s in sentences for m in s if m.named}
        counts["entities"] += len(entities)
        for title in expected:
            if contains(text, title):
                counts["titles"] += 1
                counts["covered"] += title in entities
    return {
        "titles in text": counts["titles"],
        "covered": round(counts["covered"] / max(1, counts["titles"]), 4),
        "named entities per text": round(counts["entities"] / max(1, len(texts)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=("dev", "report"), default="report")
    parser.add_argument("--model", default=None, help="spaCy pipeline; default: the bundled one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    corpus = {p["id"]: p for p in read_jsonl(options.data / "hotpotqa" / "corpus.jsonl")}
    questions = read_jsonl(options.data / "hotpotqa" / "questions.jsonl")
    questions = questions[0 if options.split == "dev" else 1 :: 2]
    titles = {i: normal_form(PARENTHESIS.sub("", p["title"])) for i, p in corpus.items()}
    gold = sorted({i for q in questions for i in q["gold_ids"]})
    sets = {
        "questions": (
            [q["question"] for q in questions],
            [[titles[i] for i in q["gold_ids"]] for q in questions],
        ),
        "gold passages": ([corpus[i]["text"] for i in gold], [[titles[i]] for i in gold]),
    }
    results = {
        name: {
            set_name: measure(SpacyEntityExtractor(options.model, name_rules=rules), *texts)
            for set_name, texts in sets.items()
        }
        for name, rules in (("model alone", False), ("model and rules", True))
    }
    write_result({**this_run(), "split": options.split, **results}, options.out)


if __name__ == "__main__":
    main()
