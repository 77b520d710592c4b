r"""Measure how long a browser takes to open a report with 10 MB of text.

From the repository's root, with Chromium installed:

    python benchmarks/html_report.py --data ../shared/data --out benchmarks/results/html_report.json

The texts are novels and transcripts of meetings. Vectors and entities come from fast stand-ins,
because only their number matters here. Each time starts when the browser is told to open the file,
and ends when the view has its content.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chromium import find_chromium
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.html_report import write_report
from e2graphrag_integrations.testing import CapitalizedWordExtractor
from goals import Goal, exit_if_missed
from runs import this_run, timed, write_result

SIZES = (10, 50)
"""Sizes of the texts in MB."""

ROUNDS = 5
MAX_SECONDS = 3.0
QUESTIONS = ("Who is the captain of the ship?", "What did they decide about the remote control?")
VIEWS = {
    "answers": ("", ".hit"),
    "overview": ("#/overview", "tbody tr"),
    "graph": ("#/graph", ".graph-members li"),
    "tree of the last document": ("#/tree?document={last}", ".tree-source .tree-text:not(:empty)"),
}
"""The address of each view, and the element that shows that it has its content."""


def texts(data: Path) -> Iterator[str]:
    for name in ("graphrag_bench_novel", "qmsum"):
        with (data / name / "corpus.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)["text"]


def documents(data: Path, megabytes: int) -> list[SourceDocument]:
    """Return documents with a number of MB of text; texts repeat if there are not enough."""
    found, size = [], 0
    for number, text in enumerate(cycle(list(texts(data)))):
        if size >= megabytes * 1_000_000:
            break
        found.append(SourceDocument(f"document-{number:04}", f"{number}. {text}"))
        size += len(text.encode("utf-8"))
    return found


def measure_views(page: Any, url: str, last: str) -> dict[str, float]:
    """Open each view in a new page; return the seconds until it has its content."""
    seconds = {}
    for name, (address, selector) in VIEWS.items():
        page.goto("about:blank")
        began = time.perf_counter()
        page.goto(url + address.format(last=last), wait_until="commit")
        page.wait_for_selector(selector, timeout=60_000)
        seconds[name] = time.perf_counter() - began
    return seconds


def measure(data: Path, folder: Path, browser: Any, megabytes: int) -> dict[str, Any]:
    added = documents(data, megabytes)
    out = folder / f"{megabytes}.html"
    with E2GraphRAG.open(
        folder / f"{megabytes}.e2g",
        embedder=HashingEmbedder(),
        extractor=CapitalizedWordExtractor(),
    ) as rag:
        rag.add(added)
        rag.refresh()
        report, seconds = timed(
            lambda: write_report(rag, out, questions=QUESTIONS, max_mb=2 * megabytes)
        )
    if report.left_out:
        raise SystemExit(f"the report leaves out {report.left_out} documents")
    page = browser.new_page()
    rounds = [measure_views(page, out.as_uri(), added[-1].id) for _ in range(ROUNDS)]
    heap = page.evaluate("performance.memory.usedJSHeapSize")
    page.close()
    return {
        "text, MB": megabytes,
        "documents": len(added),
        "file, MB": round(report.bytes / 1e6, 1),
        "seconds to write": round(seconds, 2),
        "JavaScript heap, MB": round(heap / 1e6),
        "seconds to open": {
            name: {
                "median": round(statistics.median(one[name] for one in rounds), 3),
                "max": round(max(one[name] for one in rounds), 3),
            }
            for name in VIEWS
        },
    }


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        rows = [measure(options.data, Path(folder), browser, size) for size in SIZES]
        result = {**this_run(), "browser": f"Chromium {browser.version}", "reports": rows}
        browser.close()
    slowest = max(one["max"] for one in rows[0]["seconds to open"].values())
    goals = [Goal("10 MB, seconds to open the slowest view", slowest, max=MAX_SECONDS)]
    write_result(result | {"goals": [goal.to_dict() for goal in goals]}, options.out)
    exit_if_missed(goals)


if __name__ == "__main__":
    main()
