"""Statistics of an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from e2graphrag_integrations.reports import Stats
from e2graphrag_integrations.snapshot.snapshot import Snapshot


def snapshot_stats(snapshot: Snapshot, manifest: Mapping[str, str], size: int = 0) -> Stats:
    """Return the statistics of a snapshot.

    Args:
        snapshot: The snapshot.
        manifest: The settings and the model fingerprints of the index.
        size: Size of the index in bytes.
    """
    nodes, choice = snapshot.nodes, snapshot.subjects.choice
    subjects = Counter(subject.source or "none" for subject in choice.of_documents)
    return Stats(
        documents=len(snapshot.documents),
        chunks=len(snapshot.chunk_nodes),
        summaries=len(nodes.ids) - len(snapshot.chunk_nodes),
        levels=int(nodes.level.max()) + 1 if len(nodes.ids) else 0,
        entities=len(snapshot.subjects.names),
        edges=snapshot.graph.edges.nnz // 2,
        mentions=int(snapshot.graph.postings.sum()),
        windows=len(snapshot.dense.window_nodes),
        dimension=int(snapshot.made_with.get("dimension", 0)),
        bytes=size,
        subjects=dict(subjects.most_common()),
        sections=len(choice.sections),
        trusted_sources=tuple(sorted(choice.trusted)),
        settings=dict(sorted(manifest.items())),
        languages=dict(Counter(snapshot.languages).most_common()),
    )
