r"""Write the tables of docs and README.md from the results of the benchmarks.

From the repository's root:

    python benchmarks/tables.py            # writes the tables
    python benchmarks/tables.py --check    # fails if the tables differ from the results

Only the text between `<!-- table NAME -->` and `<!-- end -->` is generated.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from answers_bench.report import ANSWERS, CONTEXTS, difference_table, score_table
from quality_bench.calibration import calibration_table
from quality_bench.evaluate import HEADLINE
from quality_bench.report import IN_BRIEF, OVERVIEW, goal_table, left_out_table, overview

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    _ROOT / "docs" / "benchmarks.md",
    _ROOT / "docs" / "boosts.md",
    *sorted((_ROOT / "docs").glob("coming_from_*.md")),
    _ROOT / "docs" / "freshness.md",
    _ROOT / "docs" / "installation.md",
    _ROOT / "docs" / "postgres.md",
    _ROOT / "docs" / "ray.md",
    _ROOT / "docs" / "retrieval.md",
    _ROOT / "docs" / "scale.md",
    _ROOT / "docs" / "scopes.md",
    _ROOT / "docs" / "vector_indexes.md",
    _ROOT / "README.md",
)
PAPER_ROUTE = "route of the paper's strategy"
LARGEST_SHARD = "chunks of the largest shard relative to the mean"
HOPS = "hops of the paper's strategy"
"""Keys of the figures of a question about a novel."""

_TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Result = Mapping[str, Any]


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def goals(result: Result) -> str:
    rows = [
        (
            goal["name"],
            f"{goal['value']:g}",
            f"at most {goal['max']:g}" if "max" in goal else f"at least {goal['min']:g}",
            "met" if goal["met"] else "**missed**",
        )
        for goal in result["goals"]
    ]
    return markdown(("goal", "measured", "limit", ""), rows)


def p50_p95(milliseconds: Mapping[str, float], scale: float = 1, digits: int = 1) -> str:
    return " / ".join(f"{scale * milliseconds[name]:.{digits}f}" for name in ("p50", "p95"))


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
    return markdown(("", *parts, f"{parts[2]}, {fastest}"), rows)


def hops(result: Result) -> str:
    row = result["milliseconds"]["hop distances"]
    speedups = {
        "this package": row["mean speedup"],
        "this package, empty cache": row["mean speedup, empty cache"],
        "official code, networkx": "",
    }
    return markdown(
        ("hop distances between a question's entities", "µs, p50 / p95", "mean speedup"),
        [(name, p50_p95(row[name], 1000, 0), speedup) for name, speedup in speedups.items()],
    )


def index(result: Result) -> str:
    plain = result["without an LLM"]
    tokens = plain["spaCy tokens per second"]
    rows = {
        "wall seconds": plain["indexing"]["wall"],
        "CPU seconds": plain["indexing"]["cpu"],
        "CPU seconds of embedding all windows alone": plain["embedding alone"]["cpu"],
        "CPU seconds of `nlp.pipe` on all chunks alone": plain["spaCy alone"]["cpu"],
        "tokens per second, `nlp.pipe` alone": f"{tokens['alone']:,}",
        "tokens per second, during indexing": f"{tokens['during indexing']:,}",
    }
    return markdown(("without an LLM", ""), rows.items())


def llm(result: Result) -> str:
    prefix, suffix = "LLM with ", " latency"
    return markdown(
        (
            "LLM latency, concurrency",
            "calls",
            "wall seconds",
            "seconds of its calls alone",
            "lower bound, seconds",
            "ratio",
        ),
        [
            (
                f"{name.removeprefix(prefix).removesuffix(suffix)}, 4",
                row["calls"],
                f"{row['wall']:.1f}",
                f"{row['LLM calls alone, wall']:.1f}",
                f"{row['lower bound']:.1f}",
                f"{row['ratio to the lower bound']:.2f}",
            )
            for name, row in result.items()
            if name.startswith(prefix)
        ],
    )


def scaling(result: Result) -> str:
    peak = "peak MiB above the models"
    return markdown(
        ("documents", "chunks", "CPU seconds", "peak memory above the models, MiB"),
        [
            (row["documents"], row["chunks"], f"{row['cpu']:.1f}", row[peak])
            for row in result["scaling"]["documents"]
        ],
    )


def joined(field: Callable[[Result], Mapping[str, float]]) -> Callable[[Result], str]:
    return lambda size: " / ".join(f"{value:g}" for value in field(size).values())


SCALE: Mapping[str, Callable[[Result], Any]] = {
    "nodes": lambda size: f"{size['build']['nodes']:,}",
    "windows": lambda size: f"{size['build']['windows']:,}",
    "entity-chunk links": lambda size: f"{size['build']['entity-chunk links']:,}",
    "edges": lambda size: f"{size['build']['edges']:,}",
    "indexing, s": lambda size: f"{size['index']['seconds']:.0f}",
    "chunks per second": lambda size: f"{size['index']['chunks per second']:,}",
    "peak memory of indexing, MiB": lambda size: size["index"]["final memory, MiB"]["peak"],
    "build time of snapshot / BM25 / IVF lists, s": joined(lambda size: size["build"]["seconds"]),
    "peak memory of the snapshot build, MiB": lambda size: size["build"]["snapshot memory, MiB"][
        "peak"
    ],
    "database file, bytes per chunk": lambda size: (
        f"{size['build']['bytes']['database file per chunk']:,}"
    ),
    "snapshot without vectors, bytes per chunk": lambda size: (
        f"{size['build']['bytes']['snapshot without vectors per chunk']:,}"
    ),
    "bytes per edge": lambda size: size["build"]["bytes"]["per edge"],
    "bytes per mention": lambda size: size["build"]["bytes"]["per mention"],
    "opening, s": lambda size: size["serve"]["seconds to open"],
    "first query, s": lambda size: size["serve"]["seconds for the first query"],
    "vectors, MiB": lambda size: f"{size['serve']['vectors, MiB']:,}",
    "resident memory while serving, MiB": lambda size: (
        f"{size['serve']['memory, MiB']['serving']['resident']:,}"
    ),
    "anonymous memory while serving, MiB": lambda size: (
        f"{size['serve']['memory, MiB']['serving']['anonymous']:,}"
    ),
    "FAISS flat search, ms p50 / p95": joined(lambda size: size["serve"]["FAISS flat search, ms"]),
    **{
        f"query, {name}, ms p50 / p95": joined(
            lambda size, name=name: size["serve"]["queries"][name][
                "without embedding and extraction, ms"
            ]
        )
        for name in ("k=10", "2000 tokens", "filter on 10% of the documents")
    },
    "writing one changed document, s": lambda size: size["serve"]["one changed document"][
        "seconds to write"
    ],
    "the next query, s": lambda size: size["serve"]["one changed document"][
        "seconds for the next query"
    ],
}
"""Rows of the table of sizes: their labels and values."""


def scale(result: Result) -> str:
    sizes = result["sizes"]
    recalls = {name: size["serve"]["recall"] for name, size in sizes.items()}

    def rows() -> Iterator[Sequence[Any]]:
        for label, value in SCALE.items():
            yield label, *map(value, sizes.values())
        for label in next(iter(recalls.values())):
            yield f"recall: {label}", *(recall[label] for recall in recalls.values())
        for label, recall in result["recall on real vectors"].items():
            yield f"recall on real vectors: {label}", recall, *[""] * (len(sizes) - 1)

    return markdown(("", *sizes), rows())


def shards(result: Result) -> str:
    """Return the times and the agreement of shards."""
    times = {
        "one index, ms p50 / p95": "ms of one index",
        "a shard, ms p50 / p95": "ms of a shard",
        "the slowest shard, ms p50 / p95": "ms of the slowest shard",
        "the merge, ms p50 / p95": "ms of the merge",
        "the slowest shard plus the merge, ms p50 / p95": "ms of the slowest shard plus the merge",
    }
    rows = [
        ("chunks", f"{result['chunks']:,}"),
        ("shards", result["shards"]),
        ("largest shard relative to the mean", result[LARGEST_SHARD]),
        *((label, p50_p95(result[name])) for label, name in times.items()),
        *(("share of " + name, value) for name, value in result["recall"].items()),
        *(
            (f"share of {name}, if each shard is scored alone", value)
            for name, value in result["recall if each shard is scored alone"].items()
        ),
    ]
    return markdown(("", ""), rows)


def fresh(result: Result) -> str:
    """Return how soon changes are found, and the questions meanwhile, by size."""
    sizes = result["sizes"].values()
    writers = ("updates by another process", "updates by a thread")

    def rows() -> Iterator[Sequence[Any]]:
        label = "seconds from the call of `update` until the change is found, median"
        found = (size["until a change is found"]["seconds from its call"] for size in sizes)
        yield label, *(each["median"] for each in found)
        for name in ("waited", "p95 relative to rest", "peak memory relative to rest"):
            for writer in writers:
                label = "questions that waited" if name == "waited" else name
                yield f"{label}, {writer}", *(size[writer][name] for size in sizes)
        control = "control: an unrelated process sorts numbers"
        yield (
            f"p95 relative to rest, {control}",
            *(size[control]["p95 relative to rest"] for size in sizes),
        )

    return markdown(("", *(f"{int(name):,} chunks" for name in result["sizes"])), rows())


def ray(result: Result) -> str:
    """Return the times with one and two workers, and the limit of the machine."""
    rows = [
        ("seconds with one worker of one core", result["runs"][0]["seconds"]),
        ("seconds with two", result["runs"][1]["seconds"]),
        ("speedup", result["goals"][0]["value"]),
        (
            "speedup of two processes without Ray, after loading",
            result["control: two processes without Ray"]["speedup"],
        ),
    ]
    return markdown(("", ""), rows)


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

    return markdown(
        ("", "packages", "download, MB", "installed, MB", "largest packages, MB installed"), rows()
    )


def postgres_readers(result: Result) -> str:
    """Return the questions, changes and writes of an index in Postgres and of a file."""
    readers = result["parts"]["readers"]

    def rows() -> Iterator[Sequence[Any]]:
        for name in ("k=10", "2000 tokens"):
            times = readers[f"questions, {name}"]
            both = (p50_p95(times[f"ms, {where}"]) for where in ("file", "Postgres"))
            yield f"question, {name}, ms p50 / p95", *both
        found = readers["until a change by another process is found"]
        median = "seconds from the return of update, median"
        label = "seconds until a change by another process is found, median"
        yield label, found["file"][median], found["Postgres"][median]
        writes = readers["writes"]
        for label in ("chunks added per second", "documents updated per second"):
            yield label, writes[f"{label}, file"], writes[f"{label}, Postgres"]

    return markdown(("", "file", "Postgres"), rows())


def postgres_vectors(result: Result) -> str:
    """Return the recall and the times of vector indexes, by filter."""
    vectors = result["parts"]["vectors"]
    servers = ("pgvector", "Qdrant Edge")
    rows = [
        (
            name,
            *(
                f"{vectors[server]['filters'][name]['recall at 200']} / "
                + p50_p95(vectors[server]["filters"][name]["search, ms"])
                for server in servers
            ),
            p50_p95(figures["exact search, ms"]),
        )
        for name, figures in vectors["pgvector"]["filters"].items()
    ]
    head = [f"{server}: recall / ms p50 / p95" for server in servers]
    return markdown(("filter", *head, "exact search, ms p50 / p95"), rows)


def postgres_scopes(result: Result) -> str:
    """Return the cost of a tenant."""
    tenants = result["parts"]["scopes"]["tenants of 1000 chunks among 100,000"]
    rows = [
        ("first question in a scope, ms p50 / p95", p50_p95(tenants["first question, ms"])),
        ("later questions, ms p50 / p95", p50_p95(tenants["later questions, ms"])),
        (
            "the same to the entire index, ms p50 / p95",
            p50_p95(tenants["questions to the index, ms"]),
        ),
        ("memory of a scope, MiB", tenants["memory of a tenant, MiB"]),
    ]
    return markdown(("", ""), rows)


def edges(result: Result) -> str:
    sets = result["sets"]
    caps = next(iter(sets.values()))

    def cell(row: Result) -> str:
        return f"{row['edges']:,}, {row['paper']:.3f}, {row['hybrid with path chunks']:.3f}"

    return markdown(
        ("edges per entity", *(f"{name}: edges, paper, hybrid with path chunks" for name in sets)),
        [
            ("all" if int(cap) >= 10**6 else cap, *(cell(rows[cap]) for rows in sets.values()))
            for cap in caps
        ],
    )


def history(result: Result) -> str:
    """Return R@5 by group of questions, each baseline with the interval of the gain over it."""

    def cell(row: Result | None) -> str:
        if row is None:
            return ""
        gain = row.get("history minus this")
        if gain is None:
            return f"**{row['R@5']:.3f}**"
        return (
            f"{row['R@5']:.3f}, {gain['difference']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]"
        )

    groups = result["groups"]
    heads = (f"{name.replace('_', '-')} ({row['questions']})" for name, row in groups.items())
    rows = (
        (name, *(cell(row["systems"].get(name)) for row in groups.values()))
        for name in groups["follow_up"]["systems"]
    )
    return markdown(("R@5", *heads), rows)


def hot_spots(result: Result) -> str:
    rows = [
        (workload, kind, ", ".join(f"{name} {100 * share:.1f}" for name, share in shares.items()))
        for workload, row in result["workloads"].items()
        for kind, shares in row.items()
        if kind in {"libraries", "functions"}
    ]
    return markdown(("workload", "% of samples by", ""), rows)


def paths(result: Result) -> str:
    columns = (
        "questions",
        "paths per question",
        "hops in gold passages",
        "recall of gold passages",
    )
    return markdown(
        ("cost", *columns, "milliseconds, p50 / p95"),
        [
            (
                f"`{cost}`",
                *(row[column] for column in columns),
                f"{row['milliseconds']['p50']:.0f} / {row['milliseconds']['p95']:.0f}",
            )
            for cost, row in result["costs"].items()
        ],
    )


def communities(result: Result) -> str:
    return markdown(
        ("method", "edges", "seconds", "communities per level", "modularity", "MB"),
        [
            (
                name,
                f"{row['edges']:,}",
                row["seconds"],
                ", ".join(f"{count:,}" for count in row["communities per level"]),
                row["modularity"],
                row["megabytes"],
            )
            for name, row in result["methods"].items()
        ],
    )


def community_stability(result: Result) -> str:
    levels = max(len(row["kept"]) for row in result["stability"].values())
    return markdown(
        ("set", "documents", *(f"level {level}" for level in range(levels))),
        [
            (name, f"{row['documents']:,}", *row["kept"], *[""] * (levels - len(row["kept"])))
            for name, row in result["stability"].items()
        ],
    )


def community_overview(result: Result) -> str:
    sets = result["sets"]

    def cell(row: Result) -> str:
        interval = f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
        return f"{row['mean']:.3f}, {interval}"

    budgets = ("C@2000", "C@4000")
    return markdown(
        ("context", *(f"{name}: {budget}" for name in sets for budget in budgets)),
        [
            (
                name,
                *(
                    cell(own["contexts"][name][budget])
                    for own in sets.values()
                    for budget in budgets
                ),
            )
            for name in next(iter(sets.values()))["contexts"]
        ],
    )


def quality(result: Result) -> str:
    return overview(result["sets"])


def quality_by_system(result: Result) -> str:
    """Return all measures of each system on each set."""
    sets = result["sets"]
    measures = list(next(iter(next(iter(sets.values()))["systems"].values())))
    rows = (
        (f"{label} ({one['questions']})", name, *(f"{row[m]:.3f}" for m in measures))
        for label, one in sets.items()
        for name, row in one["systems"].items()
    )
    return markdown(("set (questions)", "system", *measures), rows)


def cross_language(result: Result) -> str:
    systems = ("dense", "bm25", "rrf", "paper", "hybrid")
    rows = []
    for label, one in result["sets"].items():
        asked = {"same language": one["to"], "translated": one["from"]}
        for kind, language in asked.items():
            own = one[kind]
            cells = (f"{own[name]['R@5']:.3f}" for name in systems)
            ratio = f"{one['ratio']:.2f}" if kind == "translated" else ""
            rows.append((label, one["questions"], language, *cells, ratio))
        name = "translated, with the glossary"
        value = f"{one[name]['hybrid']['R@5']:.3f}"
        ratio = f"{one['ratio with the glossary']:.2f}"
        asked_in = f"{one['from']}, with a glossary"
        rows.append((label, one["questions"], asked_in, *[""] * (len(systems) - 1), value, ratio))
    return markdown(("passages", "questions", "asked in", *systems, "ratio"), rows)


def language_speed(result: Result) -> str:
    rows = [
        (embedder, language, *(f"{value:g}" for value in own.values()))
        for embedder, languages in result["embedders"].items()
        for language, own in languages.items()
        if isinstance(own, dict)
    ]
    columns = ("characters per second", "tokens per second", "tokens per CPU second")
    return markdown(("embedder", "language", *columns, "tokens per character"), rows)


def embedding(result: Result) -> str:
    """One row for each candidate: speedups by set, and the vectors of the set that has them all."""
    speeds = result["one thread"]
    [vectors] = [row for row in result["vectors"].values() if len(row) > 1]
    first = next(iter(speeds.values()))
    sets = [f"{name}, {result['tokens per text'][name]} tokens" for name in speeds]
    rows = [
        (
            name,
            *(
                f"{row[name]['texts per second']:g} ({row[name]['speedup']:g})"
                for row in speeds.values()
            ),
            f"{vectors[name]['smallest cosine']:.6f}",
            f"{vectors[name]['largest difference to the text alone']:g}",
            *(f"{row[name]:.3f}" if name in row else "" for row in result["dense R@5"].values()),
        )
        for name in first
    ]
    recall = [f"dense R@5, {name}" for name in result["dense R@5"]]
    return markdown(("", *sets, "smallest cosine", "difference to the text alone", *recall), rows)


def embedding_threads(result: Result) -> str:
    rows = [
        (threads, name, f"{row['texts per second']:g}", f"{row['speedup']:g}")
        for threads, models in result["threads"].items()
        for name, row in models.items()
    ]
    return markdown(("threads of PyTorch", "", "texts per second", "speedup"), rows)


def zh_novel(result: Result) -> str:
    rows = [
        (
            question,
            f"{row[PAPER_ROUTE]} / {row['route']}",
            ", ".join(f"{pair}: {hops}" for pair, hops in row[HOPS].items()),
            row["spans"][0],
        )
        for question, row in result["questions"].items()
    ]
    return markdown(("question", "route: paper / hybrid", "hops", "first result"), rows)


def quality_in_brief(result: Result) -> str:
    """Return the sets in brief: one in all protocols, and controls with titles in the text."""
    brief = (
        *("hotpotqa-text", "hotpotqa", "hotpotqa-none"),
        *("multihop_rag_facts-text", "lihuaworld-text"),
        *("qmsum", "qmsum coverage", "graphrag_bench_novel", "wild"),
    )
    return overview({name: result["sets"][name] for name in brief}, IN_BRIEF)


def quality_of_vectors(result: Result) -> str:
    """Return the sets in brief for users of vector search."""
    brief = "hotpotqa-text", "multihop_rag_facts-text", "qmsum", "graphrag_bench_novel", "wild"
    columns = [(name, systems) for name, systems in OVERVIEW if name in {"dense", "RRF", "hybrid"}]
    return overview({name: result["sets"][name] for name in brief}, columns)


def peer_costs(names: Sequence[str], result: Result) -> str:
    """Return the costs and the recall of other systems and of this package."""
    columns = [(name, mode) for name in names for mode in result["novel"][name]["modes"]]
    columns.append(("e2graphrag", "hybrid"))
    rows = [("measured", *(result["novel"][name]["version"] for name, _ in columns))]
    methods = (result["novel"][name]["settings"].get("method") for name, _ in columns)
    modes = [mode for _, mode in columns]
    rows.append(
        ("mode", *(", ".join(filter(None, two)) for two in zip(methods, modes, strict=True)))
    )
    for label, key in (
        ("LLM calls to index one novel", "llm_calls"),
        ("tokens of their prompts", "prompt_tokens"),
        ("tokens of their answers", "completion_tokens"),
    ):
        figures = (f"{result['novel'][name]['index'][key]:,}" for name, _ in columns)
        rows.append((label, *figures))
    seconds = (result["novel"][name]["index"]["seconds"] for name, _ in columns)
    rows.append(("seconds, if the LLM replies at once", *(f"{one:.0f}" for one in seconds)))
    asked = [result["novel"][name]["modes"][mode] for name, mode in columns]
    rows.append(("LLM calls per question", *(f"{one['llm_calls']:g}" for one in asked)))
    rows.append(("ms per question, median", *(f"{one['p50_ms']:.0f}" for one in asked)))
    found = [result["hotpotqa"].get(name, {}).get("modes", {}).get(mode) for name, mode in columns]
    recalls = ("not measured" if one is None else f"{one['R@5']:.3f}" for one in found)
    rows.append(("R@5, 1,000 passages of HotpotQA", *recalls))
    return markdown(rows[0], rows[1:])


def quality_goals(result: Result) -> str:
    return goal_table(result["goals"])


def tree_traversal(result: Result) -> str:
    systems = "tree-traversal", "dense", "paper", "hybrid"
    rows = []
    for name, one in result["sets"].items():
        measures = HEADLINE[one["kind"]]
        cells = (
            " / ".join(f"{one['systems'][system][measure]:.3f}" for measure in measures)
            for system in systems
        )
        rows.append((name, one["questions"], " / ".join(measures), *cells))
    return markdown(("set", "questions", "measures", *systems), rows)


def tree_budget(result: Result) -> str:
    rows = [
        (
            f"{name}, {kind}",
            f"{found['questions with a mixture']:.0f} of {found['questions']}",
            measure,
            f"{row['windows']:.3f}",
            f"{row['mixture']:.3f}",
            f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]",
        )
        for name, kinds in result["sets"].items()
        for kind, found in kinds.items()
        for measure, row in found.items()
        if measure[:2] in ("W@", "R@")
    ]
    return markdown(
        ("questions, summaries", "mixed", "measure", "windows", "mixture", "difference"), rows
    )


def context_size(result: Result) -> str:
    rows = [
        (
            f"`{name}`",
            f"{row['characters']:,.0f}",
            f"{row['tokens']:,.0f}",
            f"{row['nodes']:.1f}",
            f"{row['recall']:.3f}",
        )
        for name, row in result["sizes"].items()
    ]
    return markdown(("context", "characters", "tokens", "hits", "gold text in it"), rows)


def answers(result: Result) -> str:
    return score_table(result["sets"], ANSWERS)


def answer_differences(result: Result) -> str:
    return difference_table(result["sets"], ANSWERS[1:])


def contexts(result: Result) -> str:
    return score_table(result["sets"], CONTEXTS)


def context_differences(result: Result) -> str:
    return difference_table(result["sets"], CONTEXTS)


def tags(result: Result) -> str:
    rows = [
        (
            name,
            variant,
            *(f"{row['report'][rate]:.2f}" for rate in ("precision", "recall", "f1")),
            f"{row['report']['tags per document']:.1f}",
        )
        for name, variants in result["sets"].items()
        for variant, row in variants.items()
    ]
    head = ("set", "given for each tag", "precision", "recall", "F1", "tags per document")
    return markdown(head, rows)


TABLES: Mapping[str, tuple[str, Callable[[Result], str]]] = {
    "query": ("query_speed", query),
    "query_goals": ("query_speed", goals),
    "hops": ("query_speed", hops),
    "index": ("index_speed", index),
    "llm": ("index_speed", llm),
    "scaling": ("index_speed", scaling),
    "index_goals": ("index_speed", goals),
    "embedding": ("embedding_speed", embedding),
    "embedding_threads": ("embedding_speed", embedding_threads),
    "embedding_goals": ("embedding_speed", goals),
    "scale": ("scale", scale),
    "scale_goals": ("scale", goals),
    "shards": ("shards", shards),
    "fresh": ("fresh", fresh),
    "ray": ("ray_engine", ray),
    "install_sizes": ("install_sizes", install_sizes),
    "postgres_readers": ("postgres", postgres_readers),
    "postgres_vectors": ("postgres", postgres_vectors),
    "postgres_scopes": ("postgres", postgres_scopes),
    "edges": ("edge_cap", edges),
    "history": ("history", history),
    "history_dev": ("history_dev", history),
    "history_goals": ("history", goals),
    "paths": ("paths", paths),
    "communities": ("communities", communities),
    "community_overview": ("community_overview", community_overview),
    "community_stability": ("communities", community_stability),
    "hot_spots": ("hot_spots", hot_spots),
    "peers_graphrag": ("peers", partial(peer_costs, ["graphrag", "graphrag-fast"])),
    "peers_lightrag": ("peers", partial(peer_costs, ["lightrag"])),
    "peers_raptor": ("peers", partial(peer_costs, ["raptor"])),
    "quality": ("quality_report", quality),
    "quality_of_vectors": ("quality_report", quality_of_vectors),
    "quality_in_brief": ("quality_report", quality_in_brief),
    "quality_goals": ("quality_report", quality_goals),
    "second_embedder": ("quality_e5_report", quality),
    "second_embedder_goals": ("quality_e5_report", quality_goals),
    "quality_zh": ("quality_zh_report", quality_by_system),
    "quality_zh_dev": ("quality_zh_dev", quality_by_system),
    "quality_zh_goals": ("quality_zh_report", quality_goals),
    "cross_language": ("cross_language", cross_language),
    "cross_language_goals": ("cross_language", goals),
    "language_speed": ("language_speed", language_speed),
    "language_speed_goals": ("language_speed", goals),
    "zh_novel": ("zh_novel", zh_novel),
    "zh_novel_goals": ("zh_novel", goals),
    "calibration": ("calibration", calibration_table),
    "calibration_e5": ("calibration_e5", calibration_table),
    "tags": ("tags", tags),
    "leave_one_out": ("leave_one_out", left_out_table),
    "tree_traversal": ("tree_traversal", tree_traversal),
    "tree_budget": ("tree_budget", tree_budget),
    "context_size": ("context_size", context_size),
    "answers": ("answers", answers),
    "answer_differences": ("answers", answer_differences),
    "contexts": ("answers_contexts", contexts),
    "context_differences": ("answers_contexts", context_differences),
}
"""Tables by name: the result file each is made from, and the function that makes it."""


def filled(text: str) -> str:
    """Return the document with its tables generated from the results."""

    def table(match: re.Match[str]) -> str:
        name = match[2]
        if name == "peers":
            body = (RESULTS / "peers.md").read_text(encoding="utf-8")
        else:
            file, render = TABLES[name]
            body = render(json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8")))
        return f"{match[1]}{body.strip()}\n{match[3]}"

    return _TABLE.sub(table, text)


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
