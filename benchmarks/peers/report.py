"""From what an adapter measured to rows, and from rows to tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CUTS = (2, 5, 10)


def novel_row(raw: dict[str, Any]) -> dict[str, Any]:
    """Return what indexing took, and a question in the middle, in each mode."""
    if "error" in raw:
        return raw
    return _about(raw) | {"modes": {mode: _costs(asked) for mode, asked in raw["modes"].items()}}


def passage_row(
    raw: dict[str, Any], job: dict[str, Any], gold: Sequence[frozenset[str]]
) -> dict[str, Any]:
    """Return the row of `novel_row`, with recall of the gold passages in each mode."""
    if "error" in raw:
        return raw
    owner = _owners(job)
    modes = {}
    for mode, asked in raw["modes"].items():
        ranked = [[owner(text) for text in one["passages"]] for one in asked]
        found = [list(dict.fromkeys(id_ for id_ in ids if id_)) for ids in ranked]
        recall = {
            f"R@{cut}": statistics.mean(
                len(wanted & set(ids[:cut])) / len(wanted)
                for wanted, ids in zip(gold, found, strict=True)
            )
            for cut in CUTS
        }
        unknown = sum(id_ is None for ids in ranked for id_ in ids)
        modes[mode] = _costs(asked) | _rounded(recall, 3) | {"texts of no passage": unknown}
    return _about(raw) | {"modes": modes}


def _about(raw: dict[str, Any]) -> dict[str, Any]:
    about = {name: raw[name] for name in ("version", "settings", "peak_mb")}
    return about | {"index": _rounded(raw["index"], 1)}


def _costs(asked: Sequence[Mapping[str, float]]) -> dict[str, float]:
    seconds = [one["seconds"] for one in asked]
    own = [one["seconds"] - one["embed_seconds"] for one in asked]
    names = ("llm_calls", "prompt_tokens", "embed_texts")
    means = {name: statistics.mean(one[name] for one in asked) for name in names}
    times = {
        "p50_ms": 1000 * statistics.median(seconds),
        "p95_ms": 1000 * sorted(seconds)[int(0.95 * len(seconds))],
        "p50_ms_without_embedding": 1000 * statistics.median(own),
    }
    return _rounded(means | times, 1)


def _rounded(values: Mapping[str, float], digits: int) -> dict[str, float]:
    return {name: round(value, digits) for name, value in values.items()}


def _owners(job: dict[str, Any]) -> Callable[[str], str | None]:
    """Return the function from a chunk's text to the id of the passage it is of."""
    titles, texts = job["titles"], job["texts"]
    wholes = {id_: " ".join(f"{titles[id_]} {text}".split()) for id_, text in texts.items()}
    known: dict[str, str | None] = {}

    def owner(chunk: str) -> str | None:
        text = " ".join(chunk.split())
        if text not in known:
            known[text] = next((id_ for id_, whole in wholes.items() if text in whole), None)
        return known[text]

    return owner


@dataclass(frozen=True)
class _Column:
    """A column of a table: of what indexing or a question took, which figure, how it is written."""

    part: str
    head: str
    figure: str
    written: str = ",.0f"


_QUESTION = (_Column("query", "LLM calls", "llm_calls", "g"), _Column("query", "p50 ms", "p50_ms"))
_NOVEL = (
    _Column("index", "LLM calls", "llm_calls"),
    _Column("index", "prompt tokens", "prompt_tokens"),
    _Column("index", "texts embedded", "embed_texts"),
    _Column("index", "s", "seconds"),
    _Column("index", "of it embedding s", "embed_seconds"),
    *_QUESTION,
    _Column("query", "p95 ms", "p95_ms"),
    _Column("query", "p50 ms without embedding", "p50_ms_without_embedding"),
    _Column("query", "prompt tokens", "prompt_tokens"),
)
_PASSAGES = (
    _Column("index", "LLM calls", "llm_calls"),
    _Column("index", "s", "seconds"),
    *(_Column("query", f"R@{cut}", f"R@{cut}", ".3f") for cut in CUTS),
    *_QUESTION,
)


def tables(result: dict[str, Any]) -> str:
    """Return both parts as Markdown."""
    parts = []
    if result["novel"]:
        parts += [
            f"### One novel ({result['text']}), {result['questions']['novel']} questions\n",
            *_table(_NOVEL, result["novel"]),
        ]
    if result["hotpotqa"]:
        parts += [
            f"\n### hotpotqa: {result['passages']} passages\n",
            f"{result['questions']['hotpotqa']} questions of the report split.\n",
            *_table(_PASSAGES, result["hotpotqa"]),
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
            cells = [format(figures[one.part][one.figure], one.written) for one in columns]
            yield f"| {name} | {mode} | " + " | ".join(cells) + " |"


def _settings(rows: Mapping[str, Any]) -> Iterator[str]:
    for name, row in rows.items():
        if "error" not in row:
            told = "; ".join(f"{key}: {value}" for key, value in row["settings"].items())
            yield f"- **{name}**: {row['version']}, {told}"
