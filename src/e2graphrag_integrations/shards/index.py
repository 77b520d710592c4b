"""`ShardedIndex`: an index whose documents are in several files or schemas."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NoReturn, TypeVar

from e2graphrag_integrations._utils.concurrency import run_in_thread
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.validation import check_bool
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.opening import IndexParts
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    NotPicklableError,
    UnknownDocumentError,
)
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.indexing.inputs import (
    Documents,
    EngineArgument,
    OnCopy,
    OnDuplicate,
    as_documents,
    as_ids,
)
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.planning import DocumentPlanner
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.languages.language import LanguageNotices
from e2graphrag_integrations.options import (
    FreshnessPolicy,
    IndexSettings,
    Models,
    Options,
    WriteOptions,
)
from e2graphrag_integrations.portability.reopening import absolute_path
from e2graphrag_integrations.protocols import Embedder, Summarizer
from e2graphrag_integrations.reports import (
    CostEstimate,
    DeleteReport,
    DocumentStatus,
    Freshness,
    IndexReport,
    LevelEstimate,
    ProgressListener,
    Stats,
    VerifyReport,
)
from e2graphrag_integrations.retrieval.strategies.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.strategy import Strategy, check_strategy
from e2graphrag_integrations.settings import checked_path, resolve_settings
from e2graphrag_integrations.shards.calls import (
    Request,
    ShardCalls,
    ShardEngine,
    UnavailableError,
)
from e2graphrag_integrations.shards.host import ShardSpec, Written
from e2graphrag_integrations.shards.merging import shard_of
from e2graphrag_integrations.shards.session import ShardedSession
from e2graphrag_integrations.shards.shards_file import ShardsFile
from e2graphrag_integrations.shards.store import ShardedStore, unsupported
from e2graphrag_integrations.shards.threads import ThreadShards
from e2graphrag_integrations.store.index_state import IndexState
from e2graphrag_integrations.store.location import shown_path
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.text.tags import Tag, Tags
from e2graphrag_integrations.types import Node, Segment, SourceDocument

T = TypeVar("T")


def open_shards(
    shards: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    engine: ShardEngine | None = None,
    partial: bool = False,
    embedder: Embedder | str | None = None,
    summarizer: Summarizer | Any | None = None,
    settings: IndexSettings | None = None,
    models: Models | None = None,
    writes: WriteOptions | None = None,
    freshness: FreshnessPolicy | None = None,
    strategy: Strategy | None = None,
) -> ShardedIndex:
    """Open an index in several files or schemas, which answers as one index does.

    Args:
        shards: The file that `create_shards` created, or the locations of all shards in the order
            in which they were created.
        engine: Where the shards are held: `ThreadShards()`, the default, in this process, or
            `RayShards()` in actors of a Ray cluster (extra `ray`).
        partial: Whether questions are answered without the shards that cannot be asked. The trace
            of an answer then names them in `missing_shards`. By default, an error is raised.
        embedder: As in `E2GraphRAG.open`; None means the one that the file or the shards name.
        summarizer: As in `E2GraphRAG.open`.
        settings: As in `E2GraphRAG.open`; those in the file need not be repeated.
        models: As in `E2GraphRAG.open`.
        writes: As in `E2GraphRAG.open`. A limit applies to each shard.
        freshness: As in `E2GraphRAG.open`.
        strategy: As in `E2GraphRAG.open`.

    Raises:
        InvalidInputError: If an argument is invalid, or if `writes` has an enricher.
        NotAnIndexError: If the file does not list shards, or a shard is not an index.
        SettingsMismatchError: If shards were built with different settings or models, or enriched.
        ShardUnavailableError: If a shard cannot be opened, unless `partial` is true.
    """
    options = Options.of(settings, models, writes, freshness)
    if options.writes.enricher is not None:
        raise unsupported("an enricher")
    if isinstance(shards, str | os.PathLike):
        listed = ShardsFile.read(shards)
        path, locations = str(checked_path(shards)), listed.locations(shards)
        given = {key: one for key, one in options.settings.recorded().items() if one is not None}
        own = replace(options.settings, **{**listed.settings, **given})
        options = replace(options, settings=own)
        embedder = embedder or listed.embedder or None
    else:
        locations = [checked_path(one) for one in shards]
        if not locations or len(set(locations)) < len(locations):
            raise InvalidInputError("shards must be different locations, at least one")
        path = shown_path(locations[0])
    arguments = {
        "embedder": embedder,
        "summarizer": summarizer,
        "settings": options.settings,
        "models": options.models,
        "writes": options.writes,
    }
    check_bool("partial", partial)
    strategy = HybridStrategy() if strategy is None else strategy
    check_strategy(strategy)
    actors = (ThreadShards() if engine is None else engine).start(
        [ShardSpec(absolute_path(one), arguments) for one in locations]
    )
    names = [shown_path(one) for one in locations]
    calls = ShardCalls(actors, names, partial=partial)
    with on_error(lambda _: calls.close()):
        store = ShardedStore(path, calls)
        manifest = calls.partially(store.manifest)
        components = Components(
            path,
            manifest,
            embedder=embedder,
            extractor=options.models.extractor,
            summarizer=summarizer,
            token_counter=options.models.token_counter,
            llm_id=options.models.llm_id,
            prompts=options.models.prompts,
            language_notices=LanguageNotices(path),
        )
        components.check_embedder()
        requested = options.settings.recorded()
        resolved = resolve_settings(
            {key: one for key, one in requested.items() if one is not None}, manifest, path
        )
        planner = DocumentPlanner(
            resolved, components.counter, options.settings.splitter, options.settings.split_segments
        )
        index = OpenIndex(store, resolved, components, planner, options.writes, requested=requested)
        return ShardedIndex(IndexParts(index, strategy, options), calls)


class ShardWrite(functools.partial[IndexReport]):
    """A write of a run, that the shards do."""


class ShardedIndex(E2GraphRAG):
    """An index in several files or schemas; `open_shards` opens it.

    It answers as an `E2GraphRAG` with the same documents does. Writes go to the shards of the
    documents, at the same time. If a shard fails, the documents of the others are written, and the
    same call continues. In reports, an entity counts once for each shard that has it, and only
    copies in the same shard are copies. `max_llm_calls`, `progress` and `engine` must be None.

    What needs one file or schema, such as entity edits, reports of communities by a language model
    and exports, raises an `InvalidInputError`: open the shard with `E2GraphRAG.open` for it. A
    `ShardUnavailableError` says which shards cannot be asked.
    """

    def __init__(self, parts: IndexParts, calls: ShardCalls) -> None:
        super().__init__(parts)
        self._shards = calls
        store: Any = parts.index.store
        session = ShardedSession(store, parts.index.components, parts.options.freshness, calls)
        self._session = session
        self._index.after_write = session.note_write

    @property
    def shards(self) -> tuple[str, ...]:
        """The locations of the shards, in order."""
        return self._shards.names

    # Writes

    def _adding(
        self, documents: Documents, on_duplicate: OnDuplicate, on_copy: OnCopy
    ) -> ShardWrite:
        checked = as_documents(documents, on_duplicate)

        def add(run: IndexingRun) -> IndexReport:
            if on_duplicate == "error":
                self._check_unchanged(checked)
            options = {"on_duplicate": on_duplicate, "on_copy": on_copy, "wait": run.wait}
            return self._write("add", checked, options)

        return ShardWrite(add)

    def _updating(self, documents: Documents) -> ShardWrite:
        checked = as_documents(documents)

        def update(run: IndexingRun) -> IndexReport:
            self._check_known([one.id for one in checked])
            return self._write("update", checked, {"wait": run.wait})

        return ShardWrite(update)

    def _resuming(self) -> ShardWrite:
        request = Request("resume", ({},), writes=True)
        every = dict.fromkeys(range(len(self.shards)), request)
        return ShardWrite(lambda _: self._reported(every))

    def _run_options(
        self,
        max_llm_calls: int | None,
        progress: ProgressListener | None,
        engine: EngineArgument | None = None,
        *,
        wait: bool = True,
    ) -> IndexingRun:
        given = {"max_llm_calls": max_llm_calls, "progress": progress, "engine": engine}
        for name, value in given.items():
            if value is not None:
                raise unsupported(f"{name}=")
        return IndexingRun(wait=check_bool("wait", wait))

    def _run(self, work: Callable[[IndexingRun], IndexReport], run: IndexingRun) -> IndexReport:
        return work(run) if isinstance(work, ShardWrite) else super()._run(work, run)

    async def _arun(
        self, work: Callable[[IndexingRun], IndexReport], run: IndexingRun
    ) -> IndexReport:
        return await run_in_thread(lambda: self._run(work, run), self.stop)

    def delete(self, ids: str | Iterable[str]) -> DeleteReport:
        """Delete documents in their shards: all of them, or after an error only some.

        If some were deleted, the message of the error names those that were not.

        Raises:
            UnknownDocumentError: If an id is neither indexed nor queued. Nothing was deleted.
            ShardUnavailableError: If a shard cannot be asked. Its documents are still there.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        checked = as_ids(ids)
        self._check_known(checked)
        requests = {
            shard: Request("delete", (own,), writes=True)
            for shard, own in self._by_shard({id_: id_ for id_ in checked}).items()
        }
        results = self._asked(requests)
        failed = {shard: one for shard, one in results.items() if isinstance(one, Exception)}
        if not failed:
            reports: list[DeleteReport] = list(results.values())
            return _summed(DeleteReport(), reports)
        error = self._error_of(failed)
        if len(failed) < len(results):
            left = ", ".join(repr(id_) for shard in failed for id_ in requests[shard].arguments[0])
            message = f"{error}. The other documents were deleted, but not {left}"
            error.args = message, *error.args[1:]
        raise error

    def set_tags(self, tags: Tags | None) -> None:
        """Set the tags of all shards; see `E2GraphRAG.set_tags`.

        After an error, call it again: some shards may have the new tags.
        """
        tag_set = self._embedded(tags)
        try:
            self._store.put_tag_set(tag_set)
        finally:
            self._session.note_write()

    def estimate(
        self,
        documents: Documents = (),
        *,
        update: Documents | None = None,
        communities: object = None,
    ) -> CostEstimate:
        """Return the cost of `add` and `update`, summed over the shards.

        A shard uses summaries of its own only, so copies in several shards cost calls in each.

        Raises:
            InvalidInputError: If `communities` is given.
            UnknownDocumentError: If a document in `update` is not in the index.
            ShardUnavailableError: If a shard cannot be asked.
        """
        if communities is not None:
            raise unsupported("communities=")
        added = as_documents(documents, "replace")
        updated = as_documents(() if update is None else update)
        self._check_known([one.id for one in updated])
        parts = [self._by_shard({one.id: one for one in given}) for given in (added, updated)]
        requests = {
            # As a write: splitting many documents takes longer than a question may.
            shard: Request("estimate", tuple(own.get(shard, []) for own in parts), writes=True)
            for shard in {**parts[0], **parts[1]}
        }
        results = self._shards.ask_each(requests)
        failed = {shard: one for shard, one in results.items() if isinstance(one, Exception)}
        if failed:
            raise self._error_of(failed)
        costs: list[CostEstimate] = list(results.values())
        levels: dict[int, list[LevelEstimate]] = {}
        for cost in costs:
            for level in cost.levels:
                levels.setdefault(level.level, []).append(level)
        return replace(
            _summed(CostEstimate(0, 0, 0, 0, 0, 0), costs),
            levels=tuple(
                replace(_summed(LevelEstimate(0, 0, 0, 0, 0), own), level=level)
                for level, own in sorted(levels.items())
            ),
        )

    def stop(self) -> None:
        """Stop indexing in all shards."""
        self._shards.all("stop")

    def _write(
        self, method: str, documents: Sequence[SourceDocument], options: Mapping[str, Any]
    ) -> IndexReport:
        by_shard = self._by_shard({one.id: one for one in documents})
        return self._reported(
            {shard: Request(method, (own, options), writes=True) for shard, own in by_shard.items()}
        )

    def _reported(self, requests: Mapping[int, Request]) -> IndexReport:
        results = self._asked(requests)
        failed = {shard: one for shard, one in results.items() if isinstance(one, Exception)}
        if failed:
            raise self._with_written(self._error_of(failed), failed, results)
        written: list[Written] = list(results.values())
        reports = [one.report for one in written]
        merged = _summed(IndexReport(), reports)
        error = next((one.error for one in written if one.error is not None), None)
        if error is not None and not merged.documents:
            raise error
        totals = [one.seconds.get("total", 0.0) for one in reports]
        return replace(merged, seconds={**merged.seconds, "total": max(totals, default=0.0)})

    def _asked(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        try:
            return self._shards.ask_each(requests)
        finally:
            self._session.note_write()

    def _error_of(self, failed: Mapping[int, Exception]) -> Exception:
        """Return the error for writes that failed in some shards."""
        lost = {one: error for one, error in failed.items() if isinstance(error, UnavailableError)}
        return self._shards.unavailable(lost) if lost else next(iter(failed.values()))

    def _with_written(
        self, error: Exception, failed: Mapping[int, Exception], results: Mapping[int, Any]
    ) -> Exception:
        """Return an error whose message says what became of the documents of other shards."""
        if len(failed) < len(results):
            names = ", ".join(self.shards[shard] for shard in failed)
            written: list[Written] = [one for one in results.values() if isinstance(one, Written)]
            lost = {id_ for one in written for id_ in one.report.failed}
            others = "those of the other shards were"
            if lost:
                others = (
                    f"of those of the other shards, {', '.join(map(repr, sorted(lost)))} failed"
                )
            message = f"{error}. Documents of {names} were not written; {others}"
            error.args = message, *error.args[1:]
        return error

    def _by_shard(self, items: Mapping[str, Any]) -> dict[int, list[Any]]:
        parts: dict[int, list[Any]] = {}
        for id_, item in items.items():
            parts.setdefault(shard_of(id_, len(self.shards)), []).append(item)
        return parts

    def _check_unchanged(self, documents: Sequence[SourceDocument]) -> None:
        hashes, _ = self._store.hashes_and_languages([one.id for one in documents])
        for one in documents:
            if hashes.get(one.id, "") not in ("", content_hash(one)):
                raise DuplicateDocumentError(
                    f"document {one.id!r} is already indexed with different content: call "
                    "update(), or pass on_duplicate='replace' or 'skip'"
                )

    def _check_known(self, ids: Sequence[str]) -> None:
        hashes, _ = self._store.hashes_and_languages(ids)
        unknown = [id_ for id_ in ids if id_ not in hashes]
        if unknown and (lost := set(unknown) - self.queued_ids()):
            raise UnknownDocumentError(f"no document {min(lost)!r} in {self.path}", min(lost))

    # State

    @property
    def made_with(self) -> Mapping[str, str]:
        """The settings and the model fingerprints; see `E2GraphRAG.made_with`."""
        return self._shards.partially(self._store.manifest)

    def stats(self) -> Stats:
        """Return the sizes of all shards together; see `E2GraphRAG.stats`."""
        return self._shards.partially(super().stats)

    def status(self) -> list[DocumentStatus]:
        """Return the state of every indexed or queued document, sorted by id."""
        parts = self._shards.partially(lambda: self._shards.all("read_index", "status")).values()
        return sorted((one for own in parts for one in own), key=lambda one: one.id)

    def state_of(self, shard: str) -> IndexState:
        """Return the state of one of the `shards`; see `E2GraphRAG.state`.

        Raises:
            InvalidInputError: If it is not one of them.
            ShardUnavailableError: If it cannot be asked.
        """
        if shard not in self.shards:
            raise InvalidInputError(f"{shard} is not one of {', '.join(self.shards)}")
        state: IndexState = self._shards.one(self.shards.index(shard), "read_index", "state")
        return state

    def state(self, *, is_writing: bool = False) -> IndexState:
        """Return how many documents are in which state, and who writes; see `E2GraphRAG.state`."""
        del is_writing  # each shard knows whether it is written
        found = self._shards.partially(lambda: self._shards.all("read_index", "state"))
        parts: list[IndexState] = list(found.values())
        writer = next((one.writer for one in parts if one.writer), None)
        total = _summed(IndexState(0), [replace(one, writer=None) for one in parts])
        return replace(total, writer=writer)

    def with_missing(self, read: Callable[[], T]) -> tuple[T, tuple[str, ...]]:
        """Return the result of a function, and the shards that it did without, for servers."""
        with self._shards.noting() as noted:
            result = read()
        return result, tuple(self.shards[one] for one in sorted(noted))

    def verify(self) -> VerifyReport:
        """Check all shards for damage; see `VerifyReport.problems`."""
        # As a write: reading all rows of a large shard takes longer than a question may.
        request = Request("read_index", ("verify",), writes=True)
        found = self._shards.ask(dict.fromkeys(range(len(self.shards)), request))
        reports: list[VerifyReport] = list(found.values())
        return _summed(VerifyReport({}, ()), reports)

    def edits(self) -> EntityEdits:
        """Return the entity edits, which are the same in all shards."""
        return self.read_snapshot(lambda snapshot, _: snapshot.edits)

    def queued_ids(self) -> set[str]:
        """Return the ids of the documents in the queues."""
        found = self._shards.partially(lambda: self._shards.all("read_index", "queued_ids"))
        return set().union(*found.values())

    def refresh(self) -> None:
        """Prepare the newest state of all shards for questions now; see `E2GraphRAG.refresh`."""
        self._shards.partially(super().refresh)

    def freshness(self) -> Freshness:
        """Return how old the next answer would be; see `E2GraphRAG.freshness`."""
        return self._shards.partially(super().freshness)

    @property
    def graph(self) -> EntityGraph:
        """The current entity graph."""
        return self._shards.partially(lambda: self._session.snapshot().graph)

    @property
    def document_ids(self) -> list[str]:
        """The ids of all indexed documents, sorted."""
        return self._shards.partially(lambda: sorted(self._store.content_hashes()))

    def nodes(self, ids: str | Iterable[str]) -> dict[str, Node]:
        """Return nodes by id; unknown ids are left out."""
        checked = as_ids(ids)
        return self._shards.partially(lambda: self._store.nodes(checked))

    def document_segments(self, ids: Sequence[str] | None = None) -> dict[str, tuple[Segment, ...]]:
        """Return the segments of indexed documents by id; None returns those of all."""
        segments = super().document_segments
        return self._shards.partially(lambda: segments(ids))

    def tag_set(self) -> tuple[Tag, ...]:
        """Return the tags; see `E2GraphRAG.tag_set`."""
        return self._shards.partially(super().tag_set)

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        """Refuse to be copied; see `__reduce__`."""
        del memo
        self.__reduce__()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: the actors cannot be copied.

        Raises:
            NotPicklableError: Always.
        """
        raise NotPicklableError(f"{self!r} cannot be copied or pickled: call open_shards() again")

    def __repr__(self) -> str:
        return f"ShardedIndex({self.path!r}, {len(self.shards)} shards)"


def _summed(start: T, reports: Iterable[T]) -> T:
    """Return the sum of reports: numbers, sequences and mappings of numbers or texts add up."""
    total: Any = start
    for report in reports:
        values = {}
        for one in fields(total):
            own, more = getattr(total, one.name), getattr(report, one.name)
            if isinstance(own, Mapping):
                values[one.name] = {
                    key: _plus(own.get(key), more.get(key)) for key in {**own, **more}
                }
            else:
                values[one.name] = _plus(own, more)
        total = replace(total, **values)
    summed: T = total
    return summed


def _plus(own: Any, more: Any) -> Any:
    if own is None or more is None:
        return more if own is None else own
    return own + more
