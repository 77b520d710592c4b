"""Stage `embed`: compute a vector for each window of each node."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import EmbeddingError, InvalidInputError
from e2graphrag_integrations.indexing.isolation import WorkItem, run_in_slices
from e2graphrag_integrations.indexing.run import RunControl
from e2graphrag_integrations.store.records import ContentCache
from e2graphrag_integrations.types import Node, Span

Windows = tuple[tuple[Span, bytes], ...]
"""The windows of a node: the span of its text, and the cache key of the vector."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The vectors of nodes.

    Attributes:
        windows: Windows of each node, by node id; none for documents that failed before.
        embedded: Nodes that needed a vector which was not in the cache.
    """

    windows: Mapping[str, Windows]
    embedded: int

    def __add__(self, other: Embeddings) -> Embeddings:
        """Return the vectors of both sets of nodes."""
        return Embeddings({**self.windows, **other.windows}, self.embedded + other.embedded)


def embed_nodes(
    nodes: Sequence[Node],
    prefixes: Mapping[str, str],
    *,
    embedder: WindowedEmbedder,
    fingerprint: str,
    cache: ContentCache,
    control: RunControl,
) -> Embeddings:
    """Embed the windows of nodes that are not in the cache, and store the vectors there.

    Args:
        nodes: Nodes with their texts.
        prefixes: Text in front of each window, by document id.
        embedder: Splits texts into windows and embeds them.
        fingerprint: The embedder's part of the cache keys.
        cache: Stores vectors.
        control: Receives failures, times and progress.

    Raises:
        WorkStopped: After a stop request.
    """
    windows: dict[str, Windows] = {}
    texts: dict[bytes, str] = {}
    owners: dict[bytes, dict[str, None]] = {}
    for node in nodes:
        if node.document_id in control.failures.failed:
            continue
        prefix = prefixes[node.document_id]
        pieces = []
        for span in _split_into_windows(node, prefix, embedder, control):
            text = prefix + node.text[span.start : span.end]
            key = embedder.cache_key(text, fingerprint)
            texts[key] = text
            owners.setdefault(key, {})[node.document_id] = None
            pieces.append((span, key))
        windows[node.id] = tuple(pieces)
    cached = cache.cached(texts)
    missing = {key: text for key, text in texts.items() if key not in cached}

    def embed(part: Sequence[WorkItem[str]]) -> None:
        with control.timer.timed("embed"):
            vectors = embedder.embed([item.value for item in part])
        cache.put_cached(
            "vector",
            {i.key: v.astype("<f4").tobytes() for i, v in zip(part, vectors, strict=True)},
        )

    items = [WorkItem(key, text, tuple(owners[key])) for key, text in missing.items()]
    for done in run_in_slices(items, embed, EmbeddingError, "embedding", control):
        control.timer.advance("embed", len(nodes) * done / len(missing))
    if not missing:
        control.timer.advance("embed", len(nodes))
    return Embeddings(windows, _count_first_users(windows.values(), missing))


def _split_into_windows(
    node: Node, prefix: str, embedder: WindowedEmbedder, control: RunControl
) -> Sequence[Span]:
    try:
        with (
            control.timer.timed("embed"),
            wrap_errors(EmbeddingError, "splitting a text into windows failed"),
        ):
            return embedder.windows(node.text, prefix)
    except (InvalidInputError, EmbeddingError) as error:  # the embedder's tokenizer failed
        control.failures.record_failure([node.document_id], error)
        return ()


def _count_first_users(windows: Iterable[Windows], missing: Container[bytes]) -> int:
    """Count the nodes that are the first to need some missing vector."""
    needed: set[bytes] = set()
    count = 0
    for pieces in windows:
        new = {key for _, key in pieces if key in missing} - needed
        needed |= new
        count += bool(new)
    return count
