r"""Measure how long a large LlamaIndex index struct takes to store and load, and its size.

From the repository's root:

    python benchmarks/index_struct.py --out benchmarks/results/index_struct.json
"""

from __future__ import annotations

import argparse
import statistics
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np

from e2graphrag_integrations import Mention
from e2graphrag_integrations.llama_index import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.record import (
    DocumentRecord,
    MentionColumns,
    Window,
)
from e2graphrag_integrations.llama_index.storage.snapshot import build_graph
from e2graphrag_integrations.tree import plan_tree
from e2graphrag_integrations.types import NOUN, Span
from runs import this_run, timed, write_result

ENTITIES = 50_000
DOCUMENTS = 100
CHUNKS = 100
"""Chunks per document."""

SENTENCES = 4
"""Sentences per chunk."""

MENTIONS = 4
"""Mentions per sentence."""

RUNS = 5
SEED = 7
SYLLABLES = "ka lo mi ru sen tor vel ash bri dun".split()


def name(number: int) -> str:
    digits = f"{number:05}"
    first, last = ("".join(SYLLABLES[int(d)] for d in part) for part in (digits[:2], digits[2:]))
    return f"{first} {last}".title()


def draw_entities(random: np.random.Generator) -> np.ndarray:
    """Return the entities of each sentence: Zipf-distributed, each at least once."""
    count = DOCUMENTS * CHUNKS * SENTENCES * MENTIONS
    weights = 1 / np.arange(1, ENTITIES + 1) ** 0.8
    entities = random.choice(ENTITIES, count, p=weights / weights.sum())
    entities[:ENTITIES] = np.arange(ENTITIES)
    random.shuffle(entities)
    return entities.reshape(DOCUMENTS, CHUNKS, SENTENCES, MENTIONS)


def record(document_id: str, entities: np.ndarray) -> DocumentRecord:
    spans = [Span(i * 900, i * 900 + 900) for i in range(len(entities))]
    tree = plan_tree(document_id, " " * spans[-1].end, spans)
    nodes = [replace(node, text="", child_ids=()) for node in tree.nodes]
    windows = [
        Window(row, Span(0, 900), key, key)
        for row, key in enumerate(str(uuid.uuid5(uuid.NAMESPACE_URL, n.id)) for n in nodes)
    ]
    chunks = [
        [
            [
                Mention(name(e), 100 * s + 20 * m, 100 * s + 20 * m + 12, NOUN if e % 3 else "NAME")
                for m, e in enumerate(sentence)
            ]
            for s, sentence in enumerate(chunk)
        ]
        for chunk in entities.tolist()
    ]
    return DocumentRecord(
        id=document_id,
        hash=uuid.uuid5(uuid.NAMESPACE_OID, document_id).hex,
        title=f"Document {document_id}",
        metadata={"title": f"Document {document_id}", "year": 1900},
        leaf_metadata=[],
        leaf_metadata_rows=[() for _ in spans],
        segments=[],
        gaps=["" for _ in range(len(spans) + 1)],
        nodes=nodes,
        word_counts=[150 for _ in spans],
        windows=windows,
        mentions=MentionColumns.from_chunks(chunks),
    )


def load(text: str) -> dict[str, float]:
    """Return the seconds of each step of loading."""
    struct, reading = timed(lambda: E2GraphRAGIndexStruct.from_json(text))
    records, decoding = timed(lambda: list(struct.records()))
    graph, building = timed(lambda: build_graph(records))
    assert len(graph.names) == ENTITIES  # noqa: S101 - a wrong graph would make the timings meaningless
    return {
        "from_json": reading,
        "decode": decoding,
        "graph": building,
        "total": reading + decoding + building,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    entities = draw_entities(np.random.default_rng(SEED))
    records = [record(f"{number:04}", one) for number, one in enumerate(entities)]
    struct = E2GraphRAGIndexStruct(made_with={"chunk_size": "1200"})
    _, first = timed(lambda: struct.put_records(records[:-1]) or struct.to_json())
    text, again = timed(lambda: struct.put_records(records[-1:]) or struct.to_json())
    graph = build_graph(records)
    loads = [load(text) for _ in range(RUNS)]
    result = {
        **this_run(),
        "documents": DOCUMENTS,
        "chunks": DOCUMENTS * CHUNKS,
        "nodes": sum(len(one.nodes) for one in records),
        "entities": len(graph.names),
        "edges": graph.edges.nnz // 2,
        "mentions": int(entities.size),
        "bytes as JSON": len(text.encode()),
        "seconds to store": {
            f"encode {DOCUMENTS - 1} documents and to_json": round(first, 3),
            "insert one more and to_json": round(again, 4),
        },
        f"seconds to load, median of {RUNS}": {
            step: round(statistics.median(one[step] for one in loads), 3) for step in loads[0]
        },
    }
    write_result(result, options.out)


if __name__ == "__main__":
    main()
