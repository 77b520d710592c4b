"""The methods that renew or tidy what an index contains, without new documents."""

from __future__ import annotations

from functools import partial

from e2graphrag_integrations._utils.concurrency import run_in_thread
from e2graphrag_integrations.engine.writing import DocumentWrites
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.reports import (
    CompactReport,
    CostEstimate,
    IndexReport,
    ProgressListener,
    ReembedEstimate,
)
from e2graphrag_integrations.store.records import ATTACHED


class IndexMaintenance(DocumentWrites):
    """The methods of an index that extract, embed or enrich its chunks again, and that tidy it."""

    def reindex(self, *, progress: ProgressListener | None = None) -> IndexReport:
        """Extract the entities of all chunks again, without any LLM or embedding call.

        Do this to replace the extractor: open the file with `models=Models(extractor=...)`. Nothing
        else changes.

        The file changes in one transaction. After a failure, a stop or a crash it is as before, and
        the next call reuses the finished extractions. If the file is current, nothing happens.

        Args:
            progress: Called with every `Progress` event.

        Returns:
            The numbers of documents, chunks, entities and edges, and the time. If nothing was to
            do, `skipped` contains all documents.

        Raises:
            ExtractionError: If the extractor fails.
            SettingsMismatchError: If the extractor of the file cannot be loaded by name and none
                was given.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            CorruptStoreError: If a stored row does not match its checksum.
            StoppedError: If `stop` or `close` was called.
        """
        return self._reindex(IndexingRun(progress=progress))

    async def areindex(self, *, progress: ProgressListener | None = None) -> IndexReport:
        """Run `reindex` in a thread."""
        run = IndexingRun(progress=progress)
        return await run_in_thread(lambda: self._reindex(run), run.stop.stop_all)

    def _reindex(self, run: IndexingRun) -> IndexReport:
        from e2graphrag_integrations.indexing.reindex import reindex_documents

        return self._run(partial(reindex_documents, self._index), run)

    def estimate_reembed(self, embedder: Embedder | str) -> ReembedEstimate:
        """Return what `reembed` would embed, without embedding anything.

        Args:
            embedder: As in `reembed`. It is loaded, because its tokenizer decides the windows.

        Raises:
            InvalidInputError: If the argument is not an embedder, or the index has no documents.
        """
        from e2graphrag_integrations.indexing.reembed import estimate_reembedding

        components = self._index.components
        loaded = components.loaded(self._hooks.as_embedder(embedder))
        return estimate_reembedding(self._store, components, loaded)

    def reembed(
        self, embedder: Embedder | str, *, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Replace the embedder of the index: embed all chunks, summaries and tags again.

        Nothing is extracted or summarized, so no language model is called, and entities, edits and
        tags remain. Until all vectors are written, in one transaction, questions are answered with
        the old ones. If the call fails, is stopped or the process dies, the index remains as it
        was, and the next call continues with the vectors that were finished. Other processes load
        the new embedder by its name; those that cannot need it as `embedder` when they open the
        index again.

        Args:
            embedder: An `Embedder`, or a name as in `open`. An index of LlamaIndex or LangChain
                also accepts embeddings of the framework.
            progress: Called with every `Progress` event.

        Returns:
            The numbers of documents, nodes and embedded nodes, and the time. If the index has the
            vectors of this embedder already, `skipped` contains all documents.

        Raises:
            InvalidInputError: If the argument is not an embedder, if the index has no documents,
                or if a vector store of a framework has a copy of the vectors.
            EmbeddingError: If the embedder fails.
            MissingDependencyError: If the package of the embedder is not installed.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            StoppedError: If `stop` or `close` was called.
        """
        return self._reembed(embedder, IndexingRun(progress=progress))

    async def areembed(
        self, embedder: Embedder | str, *, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Run `reembed` in a thread."""
        run = IndexingRun(progress=progress)
        return await run_in_thread(lambda: self._reembed(embedder, run), run.stop.stop_all)

    def _reembed(self, embedder: Embedder | str, run: IndexingRun) -> IndexReport:
        if self._hooks.vector_search is not None:
            raise InvalidInputError(
                "reembed() does not change the vectors in a vector store: open the index without "
                "the vector store, call reembed(), and open it again with an empty one"
            )
        embedder = self._hooks.as_embedder(embedder)
        loaded = self._index.components.loaded(embedder)
        report = self._run(partial(self._reembed_all, loaded), run)
        self._arguments["embedder"] = embedder
        return report

    def _reembed_all(self, embedder: Embedder, run: IndexingRun) -> IndexReport:
        from e2graphrag_integrations.indexing.reembed import reembed_documents

        if ATTACHED not in self._store.manifest():
            return reembed_documents(self._index, embedder, run)
        from e2graphrag_integrations.enrichment.whole_index import embedded_again

        return reembed_documents(self._index, embedder, run, embedded_again)

    @property
    def replaced_embedder(self) -> Embedder | str | None:
        """The embedder of the last `reembed` of this object; for integrations."""
        return self._arguments.get("embedder")

    def estimate_enrichment(self) -> CostEstimate:
        """Return the cost of `enrich` without calling a model.

        Raises:
            InvalidInputError: If the index was opened without an enricher.
        """
        from e2graphrag_integrations.enrichment.whole_index import estimate_enrichment

        return estimate_enrichment(self._index)

    def enrich(
        self, *, max_llm_calls: int | None = None, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Enrich all chunks of the index with the enricher of its `WriteOptions`.

        `add` and `update` enrich what they write, so this is for documents that were indexed
        without the enricher, or with another one. Chunks with a cached answer need no call. After
        a crash, a stop or a failure, the next call continues.

        Args:
            max_llm_calls: Maximum number of LLM calls, without retries; None means that of the
                `WriteOptions` of the index.
            progress: Called with every `Progress` event.

        Returns:
            The numbers of documents and enriched chunks, the calls, their tokens, and the time.

        Raises:
            InvalidInputError: If the index was opened without an enricher.
            LLMCallLimitError: If more calls are needed. No model was called.
            EnrichmentError: If all documents failed, or so many that they are not the cause.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            StoppedError: If `stop` or `close` was called.
        """
        from e2graphrag_integrations.enrichment.whole_index import enrich_index

        run = self._run_options(max_llm_calls, progress, None)
        return self._run(partial(enrich_index, self._index), run)

    async def aenrich(
        self, *, max_llm_calls: int | None = None, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Run `enrich` in a thread; an async model runs in the caller's event loop."""
        from e2graphrag_integrations.enrichment.whole_index import enrich_index

        run = self._run_options(max_llm_calls, progress, None)
        return await self._arun(partial(enrich_index, self._index), run)

    def remove_enrichment(self) -> int:
        """Remove what the enricher has added to the chunks; return the number of these chunks.

        Nothing is built, embedded or asked again: all other vectors, texts and entities remain.

        Raises:
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        from e2graphrag_integrations.enrichment.whole_index import remove_enrichment

        with self.write_lock():
            removed = remove_enrichment(self._index)
        self.follow_write()
        return removed

    def compact(self) -> CompactReport:
        """Reclaim space from deleted documents, and drop cached results that no document uses.

        Cached results are kept while queued documents may need them.

        Raises:
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        with self.write_lock():
            return self._store.compact()
