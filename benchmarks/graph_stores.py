r"""Measure graph exports and updates of a graph database: seconds, sizes, and what is written.

From the repository's root:

    python benchmarks/graph_stores.py --data ../shared/data \
        --out benchmarks/results/graph_stores.json

Pride and Prejudice is indexed in 16 documents. The database is FalkorDB, started on this machine,
through LlamaIndex's store. After the first update, a sentence is added to a document in the middle,
and then the document is deleted. All times are seconds of the CPU: those of this process and, for
updates, of the database.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.llama_index import update_property_graph
from e2graphrag_integrations.portability.graph_files import FORMATS
from runs import this_run, write_result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from graph_server import new_graph_store, running_graph_server

PARTS = 16
SENTENCE = " Natasha wrote to Pierre about Zerubbabel."


def novel(path: Path) -> list[SourceDocument]:
    text = path.read_text(encoding="utf-8")
    size = len(text) // PARTS + 1
    return [
        SourceDocument(f"part {n:02}", text[n * size : (n + 1) * size], f"Part {n}")
        for n in range(PARTS)
    ]


def size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def cpu_seconds(work: Callable[[], Any], store: Any = None) -> tuple[Any, float]:
    """Return the value of a function, and the CPU time of this process and the database."""

    def used() -> float:
        own = time.process_time()
        if store is None:
            return own
        database = store.client.client.connection.info("cpu")
        return own + database["used_cpu_user"] + database["used_cpu_sys"]

    began = used()
    value = work()
    return value, round(used() - began, 2)


def exports(rag: E2GraphRAG, folder: Path) -> dict[str, Any]:
    found = {}
    for format_ in FORMATS:
        out = folder / format_
        _, seconds = cpu_seconds(lambda format_=format_, out=out: rag.export_graph(out, format_))
        found[format_] = {"seconds": seconds, "megabytes": round(size_of(out) / 1e6, 1)}
    return found


def update(rag: E2GraphRAG, store: Any, **options: Any) -> dict[str, Any]:
    rag.communities(reports=None)  # their detection, and the search index, are not the update's
    report, seconds = cpu_seconds(lambda: update_property_graph(rag, store, **options), store)

    def total(counts: Mapping[str, int]) -> int:
        return sum(counts.values())

    return {
        "seconds": seconds,
        "added": total(report.added),
        "updated": total(report.updated),
        "removed": total(report.removed),
        "rewritten": report.rewritten,
    }


def updates(rag: E2GraphRAG, url: str, **options: Any) -> dict[str, Any]:
    """Return the figures of updates, and leave the index as it was."""
    store = new_graph_store(url)
    found = {"first": update(rag, store, **options), "unchanged": update(rag, store, **options)}
    id_ = rag.document_ids[len(rag.document_ids) // 2]
    old = rag.document(id_)
    changed = SourceDocument(id_, old.text + SENTENCE, old.title, old.metadata)
    rag.update(changed)
    found["sentence"] = update(rag, store, **options)
    rag.delete(id_)
    found["deleted"] = update(rag, store, **options)
    payloads = store.structured_query("MATCH (n:E2GraphRAGState) RETURN sum(size(n.state)) AS size")
    found["state_megabytes"] = round(payloads[0]["size"] / 1e6, 2)
    rag.add(SourceDocument(id_, old.text, old.title, old.metadata))
    return found


def measure(rag: E2GraphRAG, url: str, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    stats = rag.stats()
    rag.communities(reports=None)  # kept by the snapshot
    return {
        "documents": stats.documents,
        "chunks": stats.chunks,
        "entities": stats.entities,
        "edges": stats.edges,
        "exports": exports(rag, folder),
        "updates": updates(rag, url),
        "updates without communities": updates(rag, url, communities=False),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running_graph_server(Path(name)) as url:
        folder = Path(name)
        with E2GraphRAG.open(folder / "novel.e2g", embedder=HashingEmbedder()) as rag:
            rag.add(novel(arguments.data / "novels" / "pride_and_prejudice.txt"))
            figures = measure(rag, url, folder / "exports")
    write_result({**this_run(), "pride_and_prejudice": figures}, arguments.out)


if __name__ == "__main__":
    main()
