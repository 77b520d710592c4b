r"""Ask about a Chinese novel, and show the route, the hops and the best spans of each question.

    python benchmarks/zh_novel.py --data ../shared/data --out benchmarks/results/zh_novel.json

The novel is 三国演义 (Romance of the Three Kingdoms, public domain), one document per chapter. A
question about two names should take the local route, through entities that are few hops apart, and
one about a theme the global route. The paper's strategy chooses by the hops. The hybrid fuses both,
and is called local if names that are specific enough led to the first result. Vectors are cached,
so only the first run embeds the novel.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    PaperStrategy,
    RetrievalResult,
    RetrievedNode,
    SourceDocument,
)
from goals import Goal, exit_if_missed
from quality_bench.corpora import CACHE, extractor_of
from quality_bench.embedders import EMBEDDERS, MULTILINGUAL
from quality_bench.vectors import CachedEmbedder, VectorCache
from runs import this_run, timed, write_result

QUESTIONS = {
    "刘备和诸葛亮是怎样相识的？": "local",
    "刘备三顾茅庐请诸葛亮出山时发生了什么？": "local",
    "关羽为什么在华容道放走曹操？": "local",
    "吕布和貂蝉是怎样相识的？": "local",
    "周瑜怎样打黄盖，又是为了骗谁？": "local",
    "孙权与鲁肃如何商议联刘抗曹？": "local",
    "赵云在长坂坡怎样救出阿斗？": "local",
    "张飞在长坂桥怎样喝退曹操的军队？": "local",
    "司马懿为什么害怕诸葛亮的空城计？": "local",
    "这部小说怎样描写忠义？": "global",
    "战乱给百姓带来了什么苦难？": "global",
    "全书的主要内容是什么？": "global",
}
"""Questions, and the route that each should take."""

_CHAPTER = re.compile(r"^第[一二三四五六七八九十百]+回", re.MULTILINE)
_SHOWN = 60
"""Characters of a span that are shown."""

_MAX_HOPS = 2
_MIN_SHARE = 0.8


def chapters(text: str) -> list[SourceDocument]:
    """Return one document per chapter; its first line is the heading."""
    starts = [match.start() for match in _CHAPTER.finditer(text)]
    ends = [*starts[1:], len(text)]
    return [
        SourceDocument(f"chapter-{number:03}", text[start:end].strip())
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    ]


def described(
    result: RetrievalResult, paper: RetrievalResult, expected: str, texts: Mapping[str, str]
) -> dict[str, Any]:
    """Return the route, the hops between names, and the best spans of a question."""
    names = {one.entity for one in result.trace.links}
    pairs = [pair for pair in paper.trace.pairs if {pair.a, pair.b} <= names]
    return {
        "expected": expected,
        "route of the paper's strategy": paper.route,
        "route": result.route,
        "reason": result.trace.reason,
        "links": [f"{one.mention} -> {one.entity} ({one.how})" for one in result.trace.links],
        "hops of the paper's strategy": {f"{pair.a} - {pair.b}": pair.hops for pair in pairs},
        "shortest path": " - ".join(result.paths[0].entities) if result.paths else None,
        "spans": [_shown(node, texts) for node in result.nodes[:3]],
    }


def _shown(node: RetrievedNode, texts: Mapping[str, str]) -> str:
    """Return the beginning of the best span of a node, and its place."""
    start, end = node.best_span or (node.start, node.end)
    text = "".join(texts[node.document_id][start:end].split())
    return f"{node.document_id} {start}-{end}: {text[:_SHOWN]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--chapters", type=int, help="index only the first chapters")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = (options.data / "zh_novel" / "zh-sanguo.txt").read_text(encoding="utf-8")
    documents = chapters(text)[: options.chapters]
    texts = {one.id: one.text for one in documents}
    chunks_only = HybridStrategy(include_summaries=False)
    name, create = EMBEDDERS[MULTILINGUAL]
    embedder = CachedEmbedder(create(), name, VectorCache(CACHE / "vectors.sqlite"))
    with (
        tempfile.TemporaryDirectory() as folder,
        E2GraphRAG.open(
            Path(folder) / "novel.e2g", embedder=embedder, extractor=extractor_of("zh")
        ) as rag,
    ):
        _, seconds = timed(lambda: rag.add(documents))
        found = {
            question: described(
                # Extractive summaries repeat the sentences of chunks, but are in no entity list.
                rag.retrieve(question, k=5, paths=True, strategy=chunks_only),
                rag.retrieve(question, k=5, strategy=PaperStrategy()),
                expected,
                texts,
            )
            for question, expected in QUESTIONS.items()
        }
        stats = rag.stats()
    hops = [hop for row in found.values() for hop in row["hops of the paper's strategy"].values()]
    goals = [
        Goal(
            f"{expected} questions that take the {expected} route, {name}",
            round(statistics.mean(row[key] == expected for row in rows), 4),
            min=_MIN_SHARE,
        )
        for expected in ("local", "global")
        for rows in [[row for row in found.values() if row["expected"] == expected]]
        for name, key in (("paper", "route of the paper's strategy"), ("hybrid", "route"))
    ]
    goals.append(
        Goal(
            f"share of pairs of names within {_MAX_HOPS} hops",
            round(sum(h is not None and h <= _MAX_HOPS for h in hops) / max(1, len(hops)), 4),
            min=_MIN_SHARE,
        )
    )
    result = {
        **this_run(),
        "embedder": name,
        "characters": sum(len(one.text) for one in documents),
        "documents": stats.documents,
        "chunks": stats.chunks,
        "entities": stats.entities,
        "seconds to index, with cached vectors": round(seconds, 1),
        "questions": found,
        "goals": [goal.to_dict() for goal in goals],
    }
    write_result(result, options.out)
    exit_if_missed(goals)


if __name__ == "__main__":
    main()
