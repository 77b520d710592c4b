"""Stage `embed`: compute a vector for each window of each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import (
    EmbeddingError,
    IndexingError,
    InvalidInputError,
    SettingsMismatchError,
)
from e2graphrag_integrations.indexing.run import RunControl, run_in_slices
from e2graphrag_integrations.indexing.stages.work import ComponentName, StageWork
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.reports import Stage
from e2graphrag_integrations.store.records import ContentCache
from e2graphrag_integrations.types import Node, Span

_SLICE_SIZE = 64
"""Windows per call of the embedder, which sorts them by length into batches."""

Windows = tuple[tuple[Span, bytes], ...]
"""A node's windows: each has a span of the node's text and the cache key of its vector."""


class EmbedderSource(Protocol):
    """An embedder with its fingerprint: the components of an index have one."""

    @property
    def embedder(self) -> WindowedEmbedder:
        """The embedder."""

    @property
    def embedder_fingerprint(self) -> str:
        """Identifies the embedder in cache keys."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The vectors of nodes.

    Attributes:
        windows: Windows of each node, by node id, without documents that had already failed.
        embedded: Number of nodes that needed a vector that was not in the cache.
    """

    windows: Mapping[str, Windows]
    embedded: int

    def __add__(self, other: Embeddings) -> Embeddings:
        return Embeddings({**self.windows, **other.windows}, self.embedded + other.embedded)


def embed_nodes(
    nodes: Sequence[Node],
    prefixes: Mapping[str, str],
    components: EmbedderSource,
    cache: ContentCache,
    control: RunControl,
) -> Embeddings:
    """Embed the node windows without a cached vector, and store the new vectors in the cache.

    `prefixes` maps each document id to the text prepended to its windows.

    Raises:
        WorkStopped: After a stop request.
    """
    embedder = components.embedder
    windows, texts = windows_of(
        (node for node in nodes if node.document_id not in control.failures.failed),
        prefixes,
        components,
        lambda node, prefix: _split_into_windows(node, prefix, embedder, control),
    )
    owners: dict[bytes, list[str]] = {}
    first_nodes: dict[bytes, str] = {}
    for node in nodes:
        for _, key in windows.get(node.id, ()):
            owners.setdefault(key, []).append(node.document_id)
            first_nodes.setdefault(key, node.id)
    cached = cache.cached(texts)
    missing = {key: text for key, text in texts.items() if key not in cached}
    embedded = len({first_nodes[key] for key in missing})
    control.timer.advance("embed", len(nodes) - embedded, reused=True)
    unfinished = float(embedded)
    for done in embed_texts(missing, owners, embedder, cache, control):
        share = embedded * done / len(missing)
        control.timer.advance("embed", share)
        unfinished -= share
    control.timer.advance("embed", unfinished)  # failed
    return Embeddings(windows, embedded)


def embed_texts(
    texts: Mapping[bytes, str],
    owners: Mapping[bytes, Sequence[str]],
    embedder: WindowedEmbedder,
    cache: ContentCache,
    control: RunControl,
) -> Iterator[int]:
    """Embed texts, given by the key of their vector, and cache the vectors; yield their numbers.

    `owners` are the ids of the documents of each text, by key.

    Raises:
        WorkStopped: After a stop request.
    """
    work, store = EmbeddingWork(embedder), partial(cache.put_cached, "vector")
    return run_in_slices(texts, owners, work, store, slice_size=_SLICE_SIZE, control=control)


def windows_of(
    nodes: Iterable[Node],
    prefixes: Mapping[str, str],
    components: EmbedderSource,
    split: Callable[[Node, str], Sequence[Span]] | None = None,
) -> tuple[dict[str, Windows], dict[bytes, str]]:
    """Return the windows of each node by id, and the text of each window by its cache key.

    Args:
        nodes: The nodes.
        prefixes: The text prepended to the windows of each document, by id.
        components: The embedder.
        split: Returns the windows of a node and a prefix; None means those of the embedder.
    """
    embedder, fingerprint = components.embedder, components.embedder_fingerprint
    windows: dict[str, Windows] = {}
    texts: dict[bytes, str] = {}
    for node in nodes:
        prefix = prefixes[node.document_id]
        spans = embedder.windows(node.text, prefix) if split is None else split(node, prefix)
        pieces = []
        for span in spans:
            text = prefix + node.text[span.start : span.end]
            key = embedder.cache_key(text, fingerprint)
            texts[key] = text
            pieces.append((span, key))
        windows[node.id] = tuple(pieces)
    return windows, texts


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


@dataclass(frozen=True)
class EmbeddingWork(StageWork[str]):
    """Embeds texts that fit into a window."""

    stage: ClassVar[Stage] = "embed"
    name: ClassVar[str] = "embedding"
    component_name: ClassVar[ComponentName] = "embedder"
    error_type: ClassVar[type[IndexingError]] = EmbeddingError

    embedder: WindowedEmbedder

    def __call__(self, inputs: Sequence[str]) -> list[bytes]:
        """Return the encoded vector of each text."""
        return [vector.astype("<f4").tobytes() for vector in self.embedder.embed(inputs)]

    @property
    def component(self) -> Embedder:
        """The embedder that the user passed, or the default one."""
        return self.embedder.embedder

    def recipe(self) -> Callable[[Embedder], EmbeddingWork]:
        """Return a function that creates this work with an embedder."""
        return partial(_embedding_work, expected=_identity(self.embedder))


def _identity(embedder: WindowedEmbedder) -> tuple[int, str | None]:
    """Return the dimension and, if the embedder declares one, the fingerprint: no model runs."""
    declared = getattr(embedder.embedder, "fingerprint", None)
    return embedder.dimension, None if declared is None else str(declared)


def _embedding_work(embedder: Embedder, expected: tuple[int, str | None]) -> EmbeddingWork:
    windowed = WindowedEmbedder(embedder)
    actual = _identity(windowed)
    if actual != expected:
        raise SettingsMismatchError(
            f"the embedder is {actual[1]} ({actual[0]}-d), not {expected[1]} ({expected[0]}-d)"
        )
    return EmbeddingWork(windowed)
