"""Embedding all nodes of an index again, with another embedder.

The new vectors are cached first. One transaction then links all windows to them, so the index
contains the vectors of one embedder at any time, also after a crash. A later call reuses what an
interrupted one has cached. Nothing is extracted or summarized.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations.components import EMBEDDER_ENTRIES, Components, embedder_entries
from e2graphrag_integrations.embedders.fingerprints import embedder_fingerprint, readable_name
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import (
    InvalidInputError,
    SettingsMismatchError,
    StoppedError,
    StoreError,
)
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.reindex import stored_documents
from e2graphrag_integrations.indexing.run import IndexingRun, RunControl, StageTimer, WorkStopped
from e2graphrag_integrations.indexing.stages.embedding import (
    EmbedderSource,
    Windows,
    embed_nodes,
    windows_of,
)
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.reports import (
    IndexReport,
    Progress,
    ProgressListener,
    ReembedEstimate,
)
from e2graphrag_integrations.store.records import DocumentHeader
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.reembedding import NewEmbedderName, note_reembedding
from e2graphrag_integrations.text.tags import embed_tags
from e2graphrag_integrations.text.tokens import count_tokens

Reattach = Callable[[Store, EmbedderSource, RunControl], Mapping[str, Sequence[bytes]]]
"""Embeds what is attached to the nodes of an index; returns the keys of the contents by node id."""


def _nothing(*_: object) -> Mapping[str, Sequence[bytes]]:
    """Attach nothing else."""
    return {}


@dataclass(frozen=True, slots=True)
class NewEmbedder:
    """The embedder that shall replace that of an index.

    Attributes:
        embedder: The embedder.
        embedder_fingerprint: Identifies it in cache keys and in the manifest.
    """

    embedder: WindowedEmbedder
    embedder_fingerprint: str

    @classmethod
    def of(cls, embedder: Embedder) -> NewEmbedder:
        """Return an embedder with its fingerprint, which may load the model.

        Raises:
            EmbeddingError: If the embedder fails.
        """
        return cls(WindowedEmbedder(embedder), embedder_fingerprint(embedder))

    def prefixes(self, documents: Iterable[DocumentHeader]) -> Mapping[str, str]:
        """Return what is embedded in front of each text of some documents, by document id."""
        return {one.id: self.embedder.title_prefix(one.title) for one in documents}

    def is_current(self, store: Store, components: Components) -> bool:
        """Return whether an index has the vectors of this embedder, with windows of its size.

        Raises:
            InvalidInputError: If the index has no documents.
        """
        recorded = store.manifest().get("embedder")
        if recorded is None:
            raise InvalidInputError(
                f"{store.path} has no vectors yet: open it with embedder= to choose the embedder "
                "of its first documents"
            )
        if recorded != self.embedder_fingerprint:
            return False
        try:
            return components.embedder.window_tokens == self.embedder.window_tokens
        except SettingsMismatchError:  # the index was opened without its embedder
            return True


_NOTE_SECONDS = 1.0
"""Seconds between two notes of the progress in the index."""


class _Noted:
    """Notes the progress of the new vectors in the index, for readers, and passes it on."""

    def __init__(
        self,
        index: OpenIndex,
        embedder: Embedder,
        new: NewEmbedder,
        listener: ProgressListener | None,
    ) -> None:
        self._store = index.store
        model = embedder_entries(embedder, new.embedder_fingerprint, 0)["embedder_model"]
        self._embedder = NewEmbedderName(model or readable_name(embedder), model)
        self._listener = listener
        self._progress = Progress("embed", 0, 0)
        self._at = 0.0

    def __call__(self, progress: Progress) -> None:
        """Note an event of the stage `embed`, at most once a second."""
        if progress.stage == "embed" and not progress.note:
            self._progress = progress
            now = time.monotonic()
            if not progress.done or now - self._at >= _NOTE_SECONDS:
                self._at = now
                note_reembedding(
                    self._store, self._embedder, progress, self._store.index_lock.own()
                )
        if self._listener is not None:
            self._listener(progress)

    def end(self) -> None:
        """Note that the run has ended before its vectors were used, unless the store fails."""
        with contextlib.suppress(StoreError):  # would hide the error that ended the run
            note_reembedding(self._store, self._embedder, self._progress, None)


def reembed_documents(
    index: OpenIndex, embedder: Embedder, run: IndexingRun, reattach: Reattach = _nothing
) -> IndexReport:
    """Embed all nodes of a file again; see `E2GraphRAG.reembed`.

    Args:
        index: The file.
        embedder: The new embedder.
        run: The options of the run.
        reattach: Embeds what is attached to nodes, and returns what to attach instead.
    """
    store, components, started = index.store, index.components, time.perf_counter()
    documents = store.content_hashes()
    new = NewEmbedder.of(embedder)
    if new.is_current(store, components):
        return IndexReport(skipped=tuple(sorted(documents)))
    noted = _Noted(index, embedder, new, run.progress)
    control = RunControl(StageTimer(noted), stop=run.stop)
    counts = store.counts()
    control.timer.begin({"embed": counts["chunks"] + counts["summaries"], "write": len(documents)})
    windows: dict[str, Windows] = {}
    embedded = chunks = 0
    try:
        with on_error(lambda _: noted.end()):
            for headers, nodes in stored_documents(store):
                found = embed_nodes(nodes, new.prefixes(headers), new, store, control)
                windows |= found.windows
                embedded += found.embedded
                chunks += sum(not node.level for node in nodes)
            attached = reattach(store, new, control)
    except WorkStopped as error:
        raise StoppedError(
            "embedding again was stopped and the index is as before: call reembed() to continue"
        ) from error
    entries = embedder_entries(embedder, new.embedder_fingerprint, new.embedder.dimension)
    stored = store.tag_set()
    tags = None
    if stored is not None:
        tags = embed_tags(stored.tags, new.embedder_fingerprint, new.embedder.embed)
    with control.timer.timed("write"):
        store.replace_vectors(
            windows,
            lambda recorded: {
                **{name: value for name, value in recorded.items() if name not in EMBEDDER_ENTRIES},
                **entries,
            },
            tags,
            attached,
        )
    control.timer.advance("write", len(documents))
    components.replace_embedder(embedder, new.embedder_fingerprint)
    components.revalidate(store.manifest())
    seconds = control.timer.seconds | {"total": time.perf_counter() - started}
    return IndexReport(
        documents=len(documents),
        chunks=chunks,
        summaries=len(windows) - chunks,
        embedded=embedded,
        seconds={stage: round(spent, 4) for stage, spent in seconds.items()},
    )


def estimate_reembedding(
    store: Store, components: Components, embedder: Embedder
) -> ReembedEstimate:
    """Return what `reembed` would embed; see `E2GraphRAG.estimate_reembed`."""
    new = NewEmbedder.of(embedder)
    if new.is_current(store, components):
        return ReembedEstimate()
    counted = ReembedEstimate()
    seen: set[bytes] = set()
    for headers, nodes in stored_documents(store):
        texts = windows_of(nodes, new.prefixes(headers), new)[1]
        missing = texts.keys() - store.cached(texts).keys() - seen
        seen |= missing
        counted += ReembedEstimate(
            nodes=len(nodes),
            windows=len(missing),
            tokens=sum(count_tokens(components.counter, texts[key]) for key in missing),
        )
    return counted
