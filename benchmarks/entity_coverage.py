r"""How many of the titles that a question needs are found as entities, with and without name rules.

For each hotpotqa question and each gold passage: where the passage's title stands in the text (the
question, or the passage itself), is it among the extracted entities, in normal form and in full?
Even positions are dev (rules were chosen there), odd are report.

    python benchmarks/entity_coverage.py --data ../shared/data \
        --out benchmarks/results/entity_coverage.json
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

from e2graphrag_integrations import SpacyEntityExtractor
from e2graphrag_integrations.entities.normalize import normal_form

PARENTHESIS = re.compile(r"\s*\([^)]*\)$")


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def stands_in(title: str, text: str) -> bool:
    """Tell whether the title's normal form stands in the text as whole words."""
    flat = " ".join(re.findall(r"\w+", text.casefold()))
    words = " ".join(re.findall(r"\w+", title))
    return bool(words) and f" {words} " in f" {flat} "


def measure(
    extractor: SpacyEntityExtractor, texts: list[str], titles: list[list[str]]
) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for sentences, text, wanted in zip(extractor.extract(texts), texts, titles, strict=True):
        found = {normal_form(m.entity) for s in sentences for m in s if m.named}
        counts["entities"] += len(found)
        for title in wanted:
            if stands_in(title, text):
                counts["titles"] += 1
                counts["covered"] += title in found
    return {
        "titles in text": counts["titles"],
        "covered": round(counts["covered"] / max(1, counts["titles"]), 4),
        "named entities per text": round(counts["entities"] / max(1, len(texts)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=("dev", "report"), default="report")
    parser.add_argument("--model", default=None, help="spaCy pipeline; the bundled one if left out")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    corpus = {p["id"]: p for p in read(options.data / "hotpotqa" / "corpus.jsonl")}
    questions = read(options.data / "hotpotqa" / "questions.jsonl")
    questions = questions[0 if options.split == "dev" else 1 :: 2]
    forms = {i: normal_form(PARENTHESIS.sub("", p["title"])) for i, p in corpus.items()}
    gold = sorted({i for q in questions for i in q["gold_ids"]})
    sets = {
        "questions": (
            [q["question"] for q in questions],
            [[forms[i] for i in q["gold_ids"]] for q in questions],
        ),
        "gold passages": ([corpus[i]["text"] for i in gold], [[forms[i]] for i in gold]),
    }
    results = {
        rules: {
            name: measure(SpacyEntityExtractor(options.model, name_rules=on), texts, titles)
            for name, (texts, titles) in sets.items()
        }
        for rules, on in (("model alone", False), ("model and rules", True))
    }
    report = {"command": " ".join(["python", *sys.argv]), "split": options.split, **results}
    print(json.dumps(report, indent=2))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
