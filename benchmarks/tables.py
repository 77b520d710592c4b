r"""Fills the tables of docs/benchmarks.md from the results of the benchmarks.

From the repository's root:

    python benchmarks/tables.py            # writes them
    python benchmarks/tables.py --check    # fails if they are not what the results say

A table stands between two comments that name it; what is around it is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
_TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Result = Mapping[str, Any]


def rows(head: Sequence[str], body: Iterator[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def goals(result: Result) -> str:
    def told() -> Iterator[Sequence[Any]]:
        for goal in result["goals"]:
            limit = f"at most {goal['most']:g}" if "most" in goal else f"at least {goal['least']:g}"
            yield goal["what"], f"{goal['figure']:g}", limit, "met" if goal["met"] else "**missed**"

    return rows(("goal", "figure", "limit", ""), told())


def both(milliseconds: Mapping[str, float]) -> str:
    return f"{milliseconds['p50']:.1f} / {milliseconds['p95']:.1f}"


def query(result: Result) -> str:
    parts = ("embedding", "spaCy and names", "the rest", "all but embedding")
    quickest = "p50 of the quickest pass"
    asked = {k: v for k, v in result["milliseconds"].items() if "embedding" in v}
    return rows(
        ("", *parts, f"the rest, {quickest}"),
        (
            (name, *(both(told[part]) for part in parts), f"{told['the rest'][quickest]:.1f}")
            for name, told in asked.items()
        ),
    )


def hops(result: Result) -> str:
    told = result["milliseconds"]["hops of the paper's strategy"]
    kinds = ("ours", "ours, asked for the first time", "official, networkx")
    times = {
        "ours": told["times faster, mean"],
        "ours, asked for the first time": told["times faster, mean, the first time"],
    }
    return rows(
        ("hops of a question's entities", "µs, p50 / p95", "times faster, mean"),
        (
            (
                kind,
                f"{1000 * told[kind]['p50']:.0f} / {1000 * told[kind]['p95']:.0f}",
                times.get(kind, ""),
            )
            for kind in kinds
        ),
    )


def index(result: Result) -> str:
    plain = result["no LLM"]
    figures = {
        "wall, s": plain["whole"]["wall"],
        "CPU, s": plain["whole"]["cpu"],
        "embedding all windows alone, CPU s": plain["embedding alone"]["cpu"],
        "`nlp.pipe` on all chunks alone, CPU s": plain["spaCy alone"]["cpu"],
        "tokens a second by `nlp.pipe` alone": f"{plain['spaCy tokens a second']['alone']:,}",
        "tokens a second within indexing": f"{plain['spaCy tokens a second']['within indexing']:,}",
    }
    return rows(("without an LLM", ""), iter(figures.items()))


def llm(result: Result) -> str:
    return rows(
        ("LLM", "calls", "wall, s", "its calls alone, s", "floor, s", "times the floor"),
        (
            (
                f"{name.removeprefix('LLM of ')} a call, 4 at once",
                told["calls"],
                f"{told['wall']:.1f}",
                f"{told['LLM alone, wall']:.1f}",
                f"{told['floor']:.1f}",
                f"{told['times the floor']:.2f}",
            )
            for name, told in result.items()
            if name.startswith("LLM of")
        ),
    )


def growth(result: Result) -> str:
    documents = result["growth"]["documents"]
    return rows(
        ("documents", "chunks", "CPU, s", "peak memory beyond the models, MiB"),
        (
            (
                told["documents"],
                told["chunks"],
                f"{told['cpu']:.1f}",
                told["peak MiB beyond the start"],
            )
            for told in documents
        ),
    )


def percentiles(of: Callable[[Result], Mapping[str, float]]) -> Callable[[Result], str]:
    return lambda told: " / ".join(f"{value:g}" for value in of(told).values())


SCALE: Mapping[str, Callable[[Result], Any]] = {
    "nodes": lambda t: f"{t['derive']['nodes']:,}",
    "windows": lambda t: f"{t['derive']['windows']:,}",
    "links of entities and chunks": lambda t: f"{t['derive']['links of entities and chunks']:,}",
    "edges": lambda t: f"{t['derive']['edges']:,}",
    "indexing, s": lambda t: f"{t['index']['seconds']:.0f}",
    "chunks a second": lambda t: f"{t['index']['chunks a second']:,}",
    "its peak memory, MiB": lambda t: t["index"]["memory at the end, MiB"]["peak"],
    "snapshot / words / cells, s": percentiles(lambda t: t["derive"]["seconds"]),
    "peak memory of the snapshot, MiB": lambda t: t["derive"]["memory of the snapshot, MiB"][
        "peak"
    ],
    "file, bytes a chunk": lambda t: f"{t['derive']['bytes']['the file, a chunk']:,}",
    "snapshot without vectors, bytes a chunk": lambda t: (
        f"{t['derive']['bytes']['snapshot without vectors, a chunk']:,}"
    ),
    "bytes an edge": lambda t: t["derive"]["bytes"]["an edge"],
    "bytes a mention": lambda t: t["derive"]["bytes"]["a mention"],
    "opening, s": lambda t: t["serve"]["seconds to open"],
    "first question, s": lambda t: t["serve"]["seconds of the first question"],
    "vectors, MiB": lambda t: f"{t['serve']['vectors, MiB']:,}",
    "memory serving, MiB": lambda t: f"{t['serve']['memory, MiB']['serving']['resident']:,}",
    "of it not of files, MiB": lambda t: f"{t['serve']['memory, MiB']['serving']['own']:,}",
    "FAISS flat alone, ms p50 / p95": percentiles(
        lambda t: t["serve"]["FAISS flat search alone, ms"]
    ),
    **{
        f"the rest, {asked}, ms p50 / p95": percentiles(
            lambda t, asked=asked: t["serve"]["questions"][asked]["the rest, ms"]
        )
        for asked in ("k=10", "2000 tokens", "a tenth of the documents")
    },
    "one document changed: written, s": lambda t: t["serve"]["one document changed"][
        "seconds to write"
    ],
    "the next question after it, s": lambda t: t["serve"]["one document changed"][
        "seconds of the next question"
    ],
}


def scale(result: Result) -> str:
    sizes = result["sizes"]
    recalls = list(next(iter(sizes.values()))["serve"]["recall"])

    def told() -> Iterator[Sequence[Any]]:
        for label, of in SCALE.items():
            yield label, *map(of, sizes.values())
        for what in recalls:
            yield f"recall: {what}", *(one["serve"]["recall"][what] for one in sizes.values())
        for what, share in result["recall on real vectors"].items():
            yield f"recall on real vectors: {what}", share, *[""] * (len(sizes) - 1)

    return rows(("", *sizes), told())


def edges(result: Result) -> str:
    sets = result["sets"]
    caps = next(iter(sets.values()))
    return rows(
        ("most edges", *(f"{name}: edges, paper, hybrid with paths" for name in sets)),
        (
            (
                "all" if int(cap) >= 10**6 else cap,
                *(
                    f"{of[cap]['edges']:,}, {of[cap]['paper']:.3f}, {of[cap]['hybrid, paths']:.3f}"
                    for of in sets.values()
                ),
            )
            for cap in caps
        ),
    )


def hot_spots(result: Result) -> str:
    def told() -> Iterator[Sequence[Any]]:
        for work, found in result["works"].items():
            for kind in ("libraries", "functions"):
                shares = [f"{name} {100 * share:.1f}" for name, share in found[kind].items()]
                yield work, kind, ", ".join(shares)

    return rows(("work", "% of samples by", ""), told())


TABLES: Mapping[str, tuple[str, Callable[[Result], str]]] = {
    "query": ("query_speed", query),
    "query_goals": ("query_speed", goals),
    "hops": ("query_speed", hops),
    "index": ("index_speed", index),
    "llm": ("index_speed", llm),
    "growth": ("index_speed", growth),
    "index_goals": ("index_speed", goals),
    "scale": ("scale", scale),
    "scale_goals": ("scale", goals),
    "edges": ("edge_cap", edges),
    "hot_spots": ("hot_spots", hot_spots),
}


def filled(text: str) -> str:
    """Return the document with its tables as the results say."""

    def table(match: re.Match[str]) -> str:
        name = match[2]
        if name == "peers":
            made = (RESULTS / "peers.md").read_text(encoding="utf-8")
        else:
            result, make = TABLES[name]
            made = make(json.loads((RESULTS / f"{result}.json").read_text(encoding="utf-8")))
        return f"{match[1]}{made.strip()}\n{match[3]}"

    return _TABLE.sub(table, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    text = DOCUMENT.read_text(encoding="utf-8")
    now = filled(text)
    if options.check and now != text:
        raise SystemExit(f"{DOCUMENT.name} is not what the results say: run benchmarks/tables.py")
    DOCUMENT.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
