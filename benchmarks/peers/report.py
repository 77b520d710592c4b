"""Turn the measurements of the adapters into rows."""

from __future__ import annotations

import html
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

CUTS = (2, 5, 10)

CUT = 5
"""The cut of the recall that is kept for each question."""

BY_QUESTION = f"R@{CUT} by question"
"""Key of the recall of each question, in one line."""


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
