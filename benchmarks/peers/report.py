"""Turn the measurements of the adapters into rows, and the rows into tables."""

from __future__ import annotations

import html
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quality_bench.measures import interval

CUTS = (2, 5, 10)

CUT = 5
"""The cut of the differences."""

BY_QUESTION = f"R@{CUT} by question"
"""Key of the recall of each question, in one line."""

DIFFERENCE = "difference"
"""Key of the text with the difference to a mode and its interval."""

OURS = "e2graphrag", "hybrid"
"""The system and the mode that the others are compared with."""


def novel_row(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the costs of indexing, and the mean costs of a question in each mode."""
    if "error" in raw:
        return raw
    modes = {mode: _costs(questions) for mode, questions in raw["modes"].items()}
    return _summary(raw) | {"modes": modes}


def passage_row(
    raw: dict[str, Any], texts: Mapping[str, str], gold: Sequence[frozenset[str]]
) -> dict[str, Any]:
    """Return the row of `novel_row` with the recall of the gold passages in each mode."""
    if "error" in raw:
        return raw
    owner = _owner_lookup(texts)
    modes = {}
    for mode, questions in raw["modes"].items():
        owners = [[owner(text) for text in one["passages"]] for one in questions]
        ranked = [list(dict.fromkeys(id_ for id_ in ids if id_)) for ids in owners]
        recalls = {
            cut: [
                len(expected & set(ids[:cut])) / len(expected)
                for expected, ids in zip(gold, ranked, strict=True)
            ]
            for cut in CUTS
        }
        figures = {f"R@{cut}": statistics.mean(recalls[cut]) for cut in CUTS}
        figures[f"all@{CUT}"] = statistics.mean(recall == 1 for recall in recalls[CUT])
        modes[mode] = {
            **_costs(questions),
            **_rounded(figures, 3),
            BY_QUESTION: " ".join(format(recall, "g") for recall in recalls[CUT]),
            "texts without a passage": sum(id_ is None for ids in owners for id_ in ids),
        }
    return _summary(raw) | {"modes": modes}


def _summary(raw: dict[str, Any]) -> dict[str, Any]:
    summary = {name: raw[name] for name in ("version", "settings", "peak_mb")}
    return summary | {"index": _rounded(raw["index"], 1)}


def _costs(questions: Sequence[Mapping[str, float]]) -> dict[str, float]:
    seconds = [one["seconds"] for one in questions]
    without_embedding = [one["seconds"] - one["embed_seconds"] for one in questions]
    names = ("llm_calls", "prompt_tokens", "embed_texts")
    means = {name: statistics.mean(one[name] for one in questions) for name in names}
    times = {
        "p50_ms": 1000 * statistics.median(seconds),
        "p95_ms": 1000 * sorted(seconds)[int(0.95 * len(seconds))],
        "p50_ms_without_embedding": 1000 * statistics.median(without_embedding),
    }
    return _rounded(means | times, 1)


def _rounded(values: Mapping[str, float], digits: int) -> dict[str, float]:
    return {name: round(value, digits) for name, value in values.items()}


def _owner_lookup(texts: Mapping[str, str]) -> Callable[[str], str | None]:
    """Return a function that maps a chunk's text to the id of its passage, or None."""
    passages = {id_: _plain(text) for id_, text in texts.items()}
    cache: dict[str, str | None] = {}

    def owner(chunk: str) -> str | None:
        text = _plain(chunk)
        if text not in cache:
            matches = (id_ for id_, passage in passages.items() if text and text in passage)
            cache[text] = next(matches, None)
        return cache[text]

    return owner


def _plain(text: str) -> str:
    """Return the text without what peers change: white space, and HTML entities in LightRAG."""
    return " ".join(html.unescape(text).split())


@dataclass(frozen=True)
class _Column:
    """A column of a table.

    Attributes:
        part: "index" or "query".
        head: The heading after the part.
        figure: Key of the figure.
        spec: Format specification of the figure; empty for text.
    """

    part: str
    head: str
    figure: str
    spec: str = ",.0f"


_LLM_CALLS = _Column("query", "LLM calls", "llm_calls", "g")
_P50 = _Column("query", "p50 ms", "p50_ms")
_NOVEL = (
    _Column("index", "LLM calls", "llm_calls"),
    _Column("index", "prompt tokens", "prompt_tokens"),
    _Column("index", "texts embedded", "embed_texts"),
    _Column("index", "s", "seconds"),
    _Column("index", "embedding s", "embed_seconds"),
    _LLM_CALLS,
    _Column("query", "prompt tokens", "prompt_tokens"),
    _P50,
    _Column("query", "p95 ms", "p95_ms"),
    _Column("query", "p50 ms without embedding", "p50_ms_without_embedding"),
)
_PASSAGES = (
    _Column("index", "LLM calls", "llm_calls"),
    _Column("index", "s", "seconds"),
    *(_Column("query", f"R@{cut}", f"R@{cut}", ".3f") for cut in CUTS),
    _Column("query", f"all@{CUT}", f"all@{CUT}", ".3f"),
    _Column("query", f"hybrid minus this, R@{CUT}", DIFFERENCE, ""),
    _LLM_CALLS,
    _P50,
)


_PAIRED = "The difference is paired by question, with its 95% bootstrap interval."


def tables(result: dict[str, Any]) -> str:
    """Return the tables and settings as Markdown."""
    parts = []
    if result["novel"]:
        parts += [
            f"### One novel ({result['text']}), {result['questions']['novel']} questions\n",
            *_table(_NOVEL, result["novel"]),
        ]
    if result["hotpotqa"]:
        parts += [
            f"\n### hotpotqa: {result['passages']:,} passages, the title in the first line\n",
            f"{result['questions']['hotpotqa']} questions of the report split. {_PAIRED}\n",
            *_table(_PASSAGES, _with_differences(result["hotpotqa"])),
        ]
    parts += ["\n### Settings\n", *_settings(result["novel"])]
    return "\n".join(parts) + "\n"


def _table(columns: Sequence[_Column], rows: Mapping[str, Any]) -> Iterator[str]:
    heads = [f"{column.part}: {column.head}" for column in columns]
    yield "| system | mode | " + " | ".join(heads) + " |"
    yield "|---" * (2 + len(heads)) + "|"
    for name, row in rows.items():
        if "error" in row:
            yield f"| {name} | {row['error']} |" + " |" * len(heads)
            continue
        for mode, costs in row["modes"].items():
            figures = {"index": row["index"], "query": costs}
            cells = [format(figures[one.part][one.figure], one.spec) for one in columns]
            yield f"| {name} | {mode} | " + " | ".join(cells) + " |"


def _with_differences(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows with the recall of the hybrid minus that of each other mode."""
    system, mode = OURS
    ours = _recalls(rows.get(system, {}).get("modes", {}).get(mode))
    compared = {}
    for name, row in rows.items():
        modes = {
            other: figures | {DIFFERENCE: _difference(ours, _recalls(figures))}
            for other, figures in row.get("modes", {}).items()
        }
        compared[name] = row | {"modes": modes}
    return compared


def _recalls(figures: Mapping[str, str] | None) -> list[float]:
    return [float(recall) for recall in figures[BY_QUESTION].split()] if figures else []


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    if not ours or ours == theirs:
        return ""
    difference = interval(ours, theirs)
    return "{difference:+.3f} [{low:+.3f}, {high:+.3f}]".format(**difference)


def _settings(rows: Mapping[str, Any]) -> Iterator[str]:
    for name, row in rows.items():
        if "error" not in row:
            settings = "; ".join(f"{key}: {value}" for key, value in row["settings"].items())
            yield f"- **{name}**: {row['version']}, {settings}"
