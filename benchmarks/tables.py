"""Write the tables of docs and README.md from the results of the benchmarks.

From the repository's root:

    python benchmarks/tables.py            # writes the tables
    python benchmarks/tables.py --check    # fails if the tables differ from the results

Only the text between `<!-- table NAME -->` and `<!-- end -->` is generated.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from answers_bench.report import ANSWERS, CONTEXTS, difference_table, score_table
from leave_one_out import left_out_table
from md_tables import difference, table
from quality_bench.calibration import calibration_table
from quality_bench.measures import interval
from quality_bench.report import IN_BRIEF, OVERVIEW, Columns, overview

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).parents[1]
DOCUMENTS = (*sorted((_ROOT / "docs").glob("*.md")), _ROOT / "README.md")

_TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Result = Mapping[str, Any]


def p50_p95(milliseconds: Mapping[str, float]) -> str:
    return " / ".join(f"{milliseconds[name]:.1f}" for name in ("p50", "p95"))


def shown(value: Any) -> str:
    """Return a figure, or the times of a mapping separated by slashes."""
    if isinstance(value, Mapping):
        return " / ".join(f"{one:.1f}" for one in value.values())
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def at(result: Any, path: str) -> Any:
    """Return the value at a path of keys and positions, such as `runs > 0 > seconds`."""
    for key in path.split(" > "):
        result = result[int(key) if isinstance(result, Sequence) else key]
    return result


def goals(*results: Result) -> str:
    """Return how many goals of each benchmark are met, and the missed ones."""
    rows = []
    for name, result in zip(WITH_GOALS, results, strict=True):
        listed = result["goals"]
        if isinstance(listed, Mapping):
            listed = [{"name": goal, **row} for goal, row in listed.items()]
        missed = [
            f"{one['name']}: {one['value']:g} (limit {one.get('max', one.get('min')):g})"
            for one in listed
            if not one["met"]
        ]
        rows.append((f"`{name}.json`", len(listed), len(listed) - len(missed), "; ".join(missed)))
    return table(("results", "goals", "met", "missed"), rows)


def query(result: Result) -> str:
    parts = (
        "embedding",
        "extraction",
        "without embedding and extraction",
        "without embedding",
    )
    fastest = "p50 of the fastest pass"
    rows = [
        (name, *(p50_p95(row[part]) for part in parts), f"{row[parts[2]][fastest]:.1f}")
        for name, row in result["milliseconds"].items()
        if "embedding" in row
    ]
    return table(("", *parts, f"{parts[2]}, {fastest}"), rows)


def listed(rows: Mapping[str, str], result: Result, titles: Sequence[str] = ("", "")) -> str:
    """Return a table with one figure per row.

    Args:
        rows: For each label, the path of its figure.
        result: The result.
        titles: The heads of both columns.
    """
    return table(titles, [(label, shown(at(result, path))) for label, path in rows.items()])


INDEX = {
    "no LLM: wall seconds": "without an LLM > indexing > wall",
    "no LLM: CPU seconds": "without an LLM > indexing > cpu",
    "CPU seconds of embedding all windows alone": "without an LLM > embedding alone > cpu",
    "CPU seconds of spaCy on all chunks alone": "without an LLM > spaCy alone > cpu",
    "LLM that replies after 0.3 s, 4 at once: calls": "LLM with 0.3 s latency > calls",
    "LLM that replies after 0.3 s: wall seconds": "LLM with 0.3 s latency > wall",
    "LLM that replies after 0.3 s: lower bound": "LLM with 0.3 s latency > lower bound",
    "LLM that replies after 5 s: wall seconds": "LLM with 5.0 s latency > wall",
    "LLM that replies after 5 s: lower bound": "LLM with 5.0 s latency > lower bound",
}
CRASH = {
    "kills while indexing": "kills",
    "lost documents": "lost documents",
    "failed verifications": "failed verifications",
    "files that differ from one indexed without kills": (
        "files that differ from an uninterrupted run"
    ),
    "LLM calls repeated per kill, of 4 at once": "repeated LLM calls per kill",
    "forks while a thread writes": "forks",
    "lost documents after forks": "forks: lost documents",
    "kills while a LlamaIndex index is persisted": "persist > E2GraphRAGIndex.persist > kills",
    "folders that did not load": "persist > E2GraphRAGIndex.persist > rejected at load",
}
SHARDS = {
    "equal results": "equal results",
    "R@5 of one index": "R@5 > one index",
    "R@5 of the shards": "R@5 > shards",
    "ms of one index, p50 / p95": "ms > one index",
    "ms of the shards, p50 / p95": "ms > shards",
    "ratio of the medians": "ratio of the medians",
}


def shards(result: Result) -> str:
    """Return a table with a row for each set and number of shards."""
    rows = [
        (label, count, *(shown(at(row, path)) for path in SHARDS.values()))
        for label, one in result["sets"].items()
        for count, row in one["shards"].items()
    ]
    return table(("set", "shards", *SHARDS), rows)


VECTOR_SIZES = {
    "recall at 10": "recall at 10",
    "recall at 200": "recall at 200",
    "MiB": "MiB",
    "ms, p50": "ms > p50",
}


def vector_sizes(result: Result) -> str:
    """Return a table with a row for each number and kind of vectors."""
    rows = [
        (f"{one['vectors']:,}", kind, *(shown(at(row, path)) for path in VECTOR_SIZES.values()))
        for one in result["sizes"]
        for kind, row in one["kinds"].items()
    ]
    return table(("vectors", "kind", *VECTOR_SIZES), rows)


def enrichment(result: Result) -> str:
    """Return a table with a row for each set and enricher."""
    rows = [
        (
            label,
            enricher,
            f"{own['answers with sentences']} of {found['passages']}",
            found["questions"],
            shown(found["without"]["R@5"]),
            shown(own["means"]["R@5"]),
            difference(own["differences"]["R@5"]),
        )
        for label, found in result["sets"].items()
        for enricher, own in found["with"].items()
    ]
    heads = ("set", "enricher", "passages with sentences", "questions", "R@5 without", "with")
    return table((*heads, "difference"), rows)


RAY = {
    "seconds with one worker of one core": "runs > 0 > seconds",
    "seconds with two": "runs > 1 > seconds",
    "speedup": "goals > 0 > value",
}
SCOPES = {
    "first question in a scope, ms p50 / p95": "first question, ms",
    "later questions, ms p50 / p95": "later questions, ms",
    "the same to the entire index, ms p50 / p95": "questions to the index, ms",
    "memory of a scope, MiB": "memory of a tenant, MiB",
}
_QUERY = "without embedding and extraction, ms"
SCALE = {
    "nodes": "sizes > * > build > nodes",
    "windows": "sizes > * > build > windows",
    "edges": "sizes > * > build > edges",
    "indexing, s": "sizes > * > index > seconds",
    "peak memory of indexing, MiB": "sizes > * > index > final memory, MiB > peak",
    "build time of snapshot / BM25 / IVF lists / first question, s": "sizes > * > build > seconds",
    "peak memory of the snapshot build, MiB": "sizes > * > build > snapshot memory, MiB > peak",
    "database file, bytes per chunk": "sizes > * > build > bytes > database file per chunk",
    "snapshot without vectors, bytes per chunk": (
        "sizes > * > build > bytes > snapshot without vectors per chunk"
    ),
    "opening, s": "sizes > * > serve > seconds to open",
    "first query, s": "sizes > * > serve > seconds for the first query",
    "vectors, MiB": "sizes > * > serve > vectors, MiB",
    "resident memory while serving, MiB": "sizes > * > serve > memory, MiB > serving > resident",
    "FAISS flat search, ms p50 / p95": "sizes > * > serve > FAISS flat search, ms",
    "query, k=10, ms p50 / p95": f"sizes > * > serve > queries > k=10 > {_QUERY}",
    "query, 2000 tokens, ms p50 / p95": f"sizes > * > serve > queries > 2000 tokens > {_QUERY}",
    "query, filter on 10% of the documents, ms p50 / p95": (
        f"sizes > * > serve > queries > filter on 10% of the documents > {_QUERY}"
    ),
    "writing one changed document, s": (
        "sizes > * > serve > one changed document > seconds to write"
    ),
    "the next query, s": "sizes > * > serve > one changed document > seconds for the next query",
    "recall: results, top 10": "sizes > * > serve > recall > results, top 10",
}
SCALE_IN_BRIEF = {
    label: SCALE[label]
    for label in (
        "indexing, s",
        "opening, s",
        "resident memory while serving, MiB",
        "FAISS flat search, ms p50 / p95",
        "query, k=10, ms p50 / p95",
        "recall: results, top 10",
    )
}
SCALE_10M = {label: path for label, path in SCALE.items() if label != "indexing, s"}
"""The seconds of an interrupted run are those of its last part."""

_WRITERS = (
    "updates by another process",
    "updates by another process, 4 threads ask",
    "updates by a thread",
    "updates by another process, states prepared by a thread",
)
_CONTROLS = (
    "control: another process updates another index",
    "control: an unrelated process sorts numbers",
)
FRESH = {
    "seconds from the call of `update` until the change is found, median": (
        "sizes > * > until a change is found > seconds from its call > median"
    ),
    **{
        f"{figure}, {one}": f"sizes > * > {one} > {figure}"
        for figure in ("p95 relative to rest", "peak memory relative to rest")
        for one in _WRITERS
    },
    **{
        f"p95 relative to rest, {one}": f"sizes > * > {one} > p95 relative to rest"
        for one in _CONTROLS
    },
    "memory of the preparing process, MiB": (
        "sizes > * > updates by another process > memory of the preparing process, MiB > resident"
    ),
}
_STORES = ("file", "Postgres")
READERS = {
    "question, k=10, ms p50 / p95": "parts > readers > questions, k=10 > ms, *",
    "question, 2000 tokens, ms p50 / p95": "parts > readers > questions, 2000 tokens > ms, *",
    "seconds until a change by another process is found, median": (
        "parts > readers > until a change by another process is found > * > "
        "seconds from the return of update, median"
    ),
    **{
        figure: f"parts > readers > writes > {figure}, *"
        for figure in ("chunks added per second", "documents updated per second")
    },
}
_FILTERS = "parts > vectors > {} > filters > * > {}"
VECTORS = {
    "pgvector: recall": _FILTERS.format("pgvector", "recall at 200"),
    "pgvector: ms p50 / p95": _FILTERS.format("pgvector", "search, ms"),
    "Qdrant Edge: recall": _FILTERS.format("Qdrant Edge", "recall at 200"),
    "Qdrant Edge: ms p50 / p95": _FILTERS.format("Qdrant Edge", "search, ms"),
    "exact search, ms p50 / p95": _FILTERS.format("pgvector", "exact search, ms"),
}
"""Rows or columns of tables: their labels and the paths of their figures, in which `*` stands for
the column or the row."""


def by_size(rows: Mapping[str, str], result: Result) -> str:
    """Return figures with one column per size."""
    heads = [f"{int(name):,} chunks" if name.isdigit() else name for name in result["sizes"]]
    return grid(("", *heads), rows, list(result["sizes"]), result)


def grid(
    head: Sequence[str], rows: Mapping[str, str], columns: Sequence[str], result: Result
) -> str:
    """Return a table of the figures at the path of each row in each column."""
    cells = {
        label: [shown(at(result, path.replace("*", column))) for column in columns]
        for label, path in rows.items()
    }
    return table(head, [(label, *values) for label, values in cells.items()])


def postgres_vectors(result: Result) -> str:
    """Return the recall and the times of vector indexes, by filter."""
    rows = [
        (name, *(shown(at(result, path.replace("*", name))) for path in VECTORS.values()))
        for name in result["parts"]["vectors"]["pgvector"]["filters"]
    ]
    return table(("filter", *VECTORS), rows)


def recalls(result: Result) -> str:
    """Return the recall of each search against an exact one, by size."""
    found = {name: size["serve"]["recall"] for name, size in result["sizes"].items()}
    labels = next(iter(found.values()))
    return table(
        ("", *found), [(label, *(each[label] for each in found.values())) for label in labels]
    )


def install_sizes(result: Result) -> str:
    """Return the size of the core, and how much each extra adds to it."""
    (_, sizes), *_ = result["sizes"].items()
    core, order = sizes["core"], {"core": 0, "all": 2}
    known = core["installed MB by package"]

    def rows() -> Iterator[Sequence[Any]]:
        for name, row in sorted(sizes.items(), key=lambda item: (order.get(item[0], 1), item[0])):
            is_core = name == "core"
            sign, less = ("", {}) if is_core else ("+", core)
            added = row["installed MB by package"].items()
            largest = [(p, size) for p, size in added if is_core or p not in known][:3]
            yield (
                name if is_core else f"`{name}`",
                *(
                    f"{sign}{row[key] - less.get(key, 0):.0f}"
                    for key in ("packages", "download MB", "installed MB")
                ),
                ", ".join(f"{package} {size:.0f}" for package, size in largest),
            )

    return table(
        ("", "packages", "download, MB", "installed, MB", "largest packages, MB installed"), rows()
    )


def postgres_scopes(result: Result) -> str:
    """Return the cost of a tenant."""
    return listed(SCOPES, result["parts"]["scopes"]["tenants of 1000 chunks among 100,000"])


def history(result: Result) -> str:
    """Return R@5 by group of questions, each baseline with the interval of the gain over it."""

    def cell(row: Result | None) -> str:
        if row is None:
            return ""
        gain = row.get("history minus this")
        if gain is None:
            return f"**{row['R@5']:.3f}**"
        return f"{row['R@5']:.3f}, {difference(gain)}"

    groups = result["groups"]
    heads = (f"{name.replace('_', '-')} ({row['questions']})" for name, row in groups.items())
    rows = (
        (name, *(cell(row["systems"].get(name)) for row in groups.values()))
        for name in groups["follow_up"]["systems"]
    )
    return table(("R@5", *heads), rows)


def embedding(result: Result) -> str:
    """Return the texts per second of both ways to embed, by set and by threads."""
    speeds = {
        f"{name}, {result['tokens per text'][name]} tokens, one thread": row
        for name, row in result["one thread"].items()
    } | {f"hotpotqa-text, threads: {count}": row for count, row in result["threads"].items()}
    ways = ("sentence-transformers", "this package")
    rows = [
        (name, *(row[way]["texts per second"] for way in ways), row[ways[1]]["speedup"])
        for name, row in speeds.items()
    ]
    return table(("texts per second", *ways, "speedup"), rows)


MAIN = (
    *("hotpotqa-text", "hotpotqa", "hotpotqa-none"),
    *("multihop_rag_facts-text", "lihuaworld-text"),
    *("qmsum", "qmsum coverage", "graphrag_bench_novel", "wild"),
)
"""One set in all protocols, and controls with titles in the text."""

BRIEF = (
    *("hotpotqa-text", "hotpotqa-none", "multihop_rag_facts-text", "lihuaworld-text"),
    *("qmsum", "graphrag_bench_novel", "wild"),
)
"""The sets of the README."""

OF_VECTORS = "hotpotqa-text", "multihop_rag_facts-text", "qmsum", "graphrag_bench_novel", "wild"
"""Sets for users of vector search."""

WITHOUT_GRAPHS = [one for one in OVERVIEW if one[0] not in {"PageRank", "LinearRAG"}]
VECTOR_COLUMNS = [column for column in OVERVIEW if column[0] in {"dense", "RRF", "hybrid"}]


def quality(labels: Sequence[str] | None, columns: Columns, result: Result) -> str:
    """Return the main measures on some sets, or on all, in some systems."""
    sets = result["sets"]
    return overview({name: sets[name] for name in labels or sets}, columns)


def peers(names: Sequence[str], result: Result) -> str:
    """Return the costs and the recall of other systems, and of this package."""
    head = ("measured", "mode", "LLM calls to index one novel", "tokens of their prompts",
            "tokens of their answers", "seconds, if the LLM replies at once",
            "LLM calls per question", "ms per question, median",
            "R@5, 1,000 passages of HotpotQA", "hybrid minus this")  # fmt: skip
    rows = []
    for name in (*names, "e2graphrag"):
        one, passages = result["novel"][name], result["hotpotqa"].get(name, {}).get("modes", {})
        method = one["settings"].get("method")
        for mode, asked in one["modes"].items():
            cells = (
                one["version"],
                ", ".join(filter(None, (method, mode))),
                *(f"{one['index'][key]:,}" for key in _INDEX_COUNTS),
                f"{one['index']['seconds']:.0f}",
                f"{asked['llm_calls']:g}",
                f"{asked['p50_ms']:.0f}",
                f"{passages[mode]['R@5']:.3f}" if mode in passages else "not measured",
                _loss(result["hotpotqa"], name, mode),
            )
            rows.append(cells)
    return table(head, rows)


def _loss(rows: Result, name: str, mode: str) -> str:
    """Return the recall of the hybrid minus that of another mode, paired by question."""
    key = "R@5 by question"
    asked = [rows.get(one, {}).get("modes", {}).get(way) for one, way in ((name, mode), _OURS)]
    if (name, mode) == _OURS or None in asked:
        return ""
    theirs, ours = ([float(recall) for recall in one[key].split()] for one in asked)
    return difference(interval(ours, theirs))


_OURS = "e2graphrag", "hybrid"
_INDEX_COUNTS = ("llm_calls", "prompt_tokens", "completion_tokens")
_ALL_PEERS = ("lightrag", "nano-graphrag", "graphrag", "graphrag-fast", "fast-graphrag", "raptor")
WITH_GOALS = (
    *("quality_report", "quality_e5_report", "quality_zh_report", "history", "query_speed"),
    *("index_speed", "embedding_speed", "scale", "scale_10m", "fresh", "ray_engine", "shards"),
    *("routes", "vector_sizes", "memory"),
)
"""Results with goals."""

TABLES: Mapping[str, tuple[Sequence[str], Callable[..., str]]] = {
    "goals": (WITH_GOALS, goals),
    "query": (["query_speed"], query),
    "index": (["index_speed"], partial(listed, INDEX)),
    "embedding": (["embedding_speed"], embedding),
    "scale": (["scale"], partial(by_size, SCALE)),
    "scale_in_brief": (["scale"], partial(by_size, SCALE_IN_BRIEF)),
    "recalls": (["scale"], recalls),
    "scale_10m": (["scale_10m"], partial(by_size, SCALE_10M)),
    "crash": (["crash"], partial(listed, CRASH)),
    "fresh": (["fresh"], partial(by_size, FRESH)),
    "ray": (["ray_engine"], partial(listed, RAY)),
    "shards": (["shards"], shards),
    "vector_sizes": (["vector_sizes"], vector_sizes),
    "enrichment": (["enrichment"], enrichment),
    "install_sizes": (["install_sizes"], install_sizes),
    "postgres_readers": (["postgres"], partial(grid, ("", *_STORES), READERS, _STORES)),
    "postgres_vectors": (["postgres"], postgres_vectors),
    "postgres_scopes": (["postgres"], postgres_scopes),
    "history": (["history"], history),
    "peers": (["peers"], partial(peers, _ALL_PEERS)),
    "peers_graphrag": (["peers"], partial(peers, ["graphrag", "graphrag-fast"])),
    "peers_lightrag": (["peers"], partial(peers, ["lightrag"])),
    "peers_raptor": (["peers"], partial(peers, ["raptor"])),
    "quality": (["quality_report"], partial(quality, None, OVERVIEW)),
    "quality_main": (["quality_report"], partial(quality, MAIN, OVERVIEW)),
    "quality_in_brief": (["quality_report"], partial(quality, BRIEF, IN_BRIEF)),
    "quality_of_vectors": (["quality_report"], partial(quality, OF_VECTORS, VECTOR_COLUMNS)),
    "second_embedder": (["quality_e5_report"], partial(quality, None, WITHOUT_GRAPHS)),
    "quality_zh": (["quality_zh_report"], partial(quality, None, WITHOUT_GRAPHS)),
    "calibration": (["calibration"], calibration_table),
    "calibration_e5": (["calibration_e5"], calibration_table),
    "leave_one_out": (["leave_one_out"], left_out_table),
    "answers": (["answers"], lambda result: score_table(result["sets"], ANSWERS)),
    "contexts": (["answers_contexts"], lambda result: score_table(result["sets"], CONTEXTS)),
    "context_differences": (
        ["answers_contexts"],
        lambda result: difference_table(result["sets"], CONTEXTS),
    ),
}
"""Tables by name: the result files that each is made from, and the function that makes it."""


def filled(text: str) -> str:
    """Return the document with its tables generated from the results."""

    def generated(match: re.Match[str]) -> str:
        files, render = TABLES[match[2]]
        texts = ((RESULTS / f"{name}.json").read_text(encoding="utf-8") for name in files)
        return f"{match[1]}{render(*map(json.loads, texts)).strip()}\n{match[3]}"

    return _TABLE.sub(generated, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    for document in DOCUMENTS:
        before = document.read_text(encoding="utf-8")
        after = filled(before)
        if not options.check:
            document.write_text(after, encoding="utf-8")
        elif after != before:
            raise SystemExit(f"{document.name} differs from the results: run benchmarks/tables.py")


if __name__ == "__main__":
    main()
