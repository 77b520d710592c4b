"""What an index holds, in numbers."""

from __future__ import annotations

from pathlib import Path

from e2graphrag_integrations.reports import Stats
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.sqlite import Store


def index_stats(store: Store, snapshot: Snapshot) -> Stats:
    """Count a snapshot; `bytes` are those on disk, write-ahead log included, 0 in memory."""
    files = [Path(store.path), Path(f"{store.path}-wal")] if store.path != MEMORY else []
    nodes = snapshot.nodes
    return Stats(
        documents=len(snapshot.documents),
        chunks=len(snapshot.chunk_nodes),
        summaries=len(nodes.ids) - len(snapshot.chunk_nodes),
        levels=int(nodes.level.max()) + 1 if len(nodes.ids) else 0,
        entities=len(snapshot.graph.names),
        edges=snapshot.graph.edges.nnz // 2,
        mentions=int(snapshot.graph.postings.sum()),
        windows=len(snapshot.dense.nodes),
        dimension=int(snapshot.made_with.get("dimension", 0)),
        bytes=sum(file.stat().st_size for file in files if file.exists()),
        settings=dict(sorted(store.manifest().items())),
    )
