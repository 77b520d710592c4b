"""Opening an index: its file, settings and models, checked against what the file records."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.entities.extractor_choice import recorded_extractors
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_engine, check_language
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.planning import DocumentPlanner, IsChunk
from e2graphrag_integrations.languages.language import LanguageNotices
from e2graphrag_integrations.options import MayShareChunk, Options
from e2graphrag_integrations.protocols import Embedder, Summarizer
from e2graphrag_integrations.retrieval.strategies.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.strategy import Strategy, check_strategy
from e2graphrag_integrations.search.dense import FLOAT32, NodeSearch, VectorKind
from e2graphrag_integrations.settings import Settings, checked_path, resolve_settings
from e2graphrag_integrations.snapshot.files import vector_kind
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.location import shown_path
from e2graphrag_integrations.store.store import Store

if TYPE_CHECKING:
    from e2graphrag_integrations.vectors.open_vectors import OpenVectors, VectorsArgument

VectorSearch = Callable[[Snapshot, Store], NodeSearch]
"""Returns the vector search for a snapshot; may also update an external vector store."""


@dataclass(frozen=True, slots=True)
class FaceHooks:
    """What the face of a framework adds to an index that it opens.

    Attributes:
        vector_search: Replaces the built-in vector search.
        is_chunk: Selects the segments, by their metadata, that are chunks already. They are kept;
            the rest of the text is split.
        may_share_chunk: Whether two adjacent segments, by their metadata, are split together,
            unless the settings say that segments are split separately.
        parameter_names: The face's own names of `embedder`, `summarizer` and `vectors`, for error
            messages.
        as_embedder: Turns an embedding model of the framework into an `Embedder`, and returns
            anything else unchanged.
        around_write: Returns a block that contains one write of the engine.
        around_caching: Returns a block that contains a write of what could be made again, such as
            a report.
        drop_indexed: Forgets the pending documents of the face that workers have indexed.
    """

    vector_search: VectorSearch | None = None
    is_chunk: IsChunk | None = None
    may_share_chunk: MayShareChunk | None = None
    parameter_names: Mapping[str, str] = field(default_factory=dict)
    as_embedder: Callable[[Any], Any] = lambda embedder: embedder
    around_write: Callable[[], AbstractContextManager[None]] = nullcontext
    around_caching: Callable[[], AbstractContextManager[None]] = nullcontext
    drop_indexed: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class IndexParts:
    """An open index file with everything that `E2GraphRAG` needs.

    Attributes:
        index: The file with its models.
        strategy: The default retrieval strategy.
        options: The options with which it was opened.
        node_search: Replaces the built-in vector search, if any.
        vectors: The vector index of `vectors=`, if any.
        kind: The kind of the vectors in memory.
        hooks: What the face of a framework adds.
    """

    index: OpenIndex
    strategy: Strategy
    options: Options
    node_search: Callable[[Snapshot], NodeSearch] | None = None
    vectors: OpenVectors | None = None
    kind: VectorKind = FLOAT32
    hooks: FaceHooks = field(default_factory=FaceHooks)


def open_parts(
    path: str | os.PathLike[str],
    options: Options,
    *,
    embedder: Embedder | str | None = None,
    summarizer: Summarizer | Any | None = None,
    strategy: Strategy | None = None,
    vectors: VectorsArgument | None = None,
    hooks: FaceHooks | None = None,
) -> IndexParts:
    """Open an index file, or create it; `E2GraphRAG.open` describes the arguments and errors.

    Args:
        path: The index file.
        options: The option objects.
        embedder: The embedder.
        summarizer: The summarizer.
        strategy: The default strategy.
        vectors: Another vector index.
        hooks: What the face of a framework adds.
    """
    hooks = FaceHooks() if hooks is None else hooks
    settings, models = options.settings, options.models
    location = checked_path(path)
    path = shown_path(location)
    if settings.splitter is not None and not callable(settings.splitter):
        raise InvalidInputError(
            f"splitter={short_repr(settings.splitter)} must be a function that accepts a text"
        )
    language = check_language(models.language)
    as_engine(options.writes.engine)
    kind = vector_kind(vectors)
    server = vectors if kind is FLOAT32 else None
    if server is not None:
        from e2graphrag_integrations.vectors.open_vectors import as_vectors

        as_vectors(server, hooks.parameter_names.get("vectors", "vectors"))
    if vectors is not None and hooks.vector_search is not None:
        raise InvalidInputError("vectors and a vector store exclude each other: pass one")
    strategy = HybridStrategy() if strategy is None else strategy
    check_strategy(strategy)
    requested = settings.recorded()

    def resolve(manifest: dict[str, str], queued: dict[str, str]) -> tuple[Settings, Components]:
        # If the first `add` was interrupted, its settings and models become the defaults.
        defaults = asdict(Settings.from_manifest(queued, path)) if queued else {}
        default_embedder = queued.get("embedder_model") or None
        default_extractor = recorded_extractors(queued)
        given = {name: value for name, value in requested.items() if value is not None}
        return resolve_settings(defaults | given, manifest, path), Components(
            path,
            manifest,
            embedder=default_embedder if embedder is None else embedder,
            extractor=default_extractor if models.extractor is None else models.extractor,
            summarizer=summarizer,
            token_counter=models.token_counter,
            llm_id=models.llm_id,
            prompts=models.prompts,
            parameter_names=hooks.parameter_names,
            language_notices=language_notices,
        )

    language_notices = LanguageNotices(path)
    store = Store(
        location,
        timeout=options.writes.lock_timeout,
        before_creation=lambda: resolve({}, {}),  # checks the arguments
    )
    with on_error(lambda _: store.close()):
        manifest = store.manifest()
        resolved, components = resolve(manifest, {} if manifest else store.queue_manifest())
        components.check_embedder()
        opened_vectors = _opened_vectors(server, store)
    planner = DocumentPlanner(
        resolved,
        components.counter,
        settings.splitter,
        settings.split_segments or hooks.may_share_chunk or False,
        hooks.is_chunk,
    )
    index = OpenIndex(
        store, resolved, components, planner, options.writes, language, requested=requested
    )
    node_search = None if opened_vectors is None else opened_vectors.search
    if kind.rescored is not None:
        from e2graphrag_integrations.snapshot.rescoring import rescored_search

        node_search = lambda snapshot: rescored_search(snapshot, store)  # noqa: E731 - optional
    if (search := hooks.vector_search) is not None:
        node_search = lambda snapshot: search(snapshot, store)  # noqa: E731 - optional
    return IndexParts(index, strategy, options, node_search, opened_vectors, kind, hooks)


def arguments_of(names: Mapping[str, Any], *excluded: str) -> dict[str, Any]:
    """Return the arguments of the calling function, to open an equal object later.

    Args:
        names: The `locals()` at the start of the function, so that no parameter can be forgotten.
        excluded: Parameters to leave out, besides `self` and `cls`.
    """
    excluded = ("self", "cls", "__class__", *excluded)
    return {name: value for name, value in names.items() if name not in excluded}


def _opened_vectors(vectors: VectorsArgument | None, store: Store) -> OpenVectors | None:
    if vectors is None:
        return None
    from e2graphrag_integrations.vectors.open_vectors import open_vectors

    return open_vectors(vectors, store)
