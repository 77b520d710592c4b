"""`E2GraphRAGIndex`: a summary tree and an entity graph as a LlamaIndex index."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS
from llama_index.core.ingestion import arun_transformations, run_transformations
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, Document, IndexNode, TransformComponent
from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from e2graphrag_integrations._utils.event_loop import CallerLoop, OwnLoop, run_in_thread
from e2graphrag_integrations._utils.validation import (
    check_int,
    instance_or_default,
    reject_unknown_arguments,
)
from e2graphrag_integrations.errors import FilterError, InvalidInputError
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.indexing.inputs import as_ids
from e2graphrag_integrations.llama_index.adapters.models import (
    EmbedModelType,
    ExtractorType,
    Models,
)
from e2graphrag_integrations.llama_index.indexing.sources import (
    Source,
    as_documents,
    of_documents,
    of_nodes,
)
from e2graphrag_integrations.llama_index.indexing.writer import IndexWriter, Write
from e2graphrag_integrations.llama_index.property_graph import export_property_graph
from e2graphrag_integrations.llama_index.retriever import E2GraphRAGRetriever, RetrieverMode
from e2graphrag_integrations.llama_index.storage.e2g_files import read_e2g, write_e2g
from e2graphrag_integrations.llama_index.storage.index_struct import TYPE, E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.loading import find_struct, load_context
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.protocols import FloatArray, TokenCounter
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.retrieval.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.pipeline import Request, check_strategy
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategy import Strategy
from e2graphrag_integrations.settings import Cut, checked_path, resolve_settings
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.callable import Prompts, RetryPolicy
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter

logger = logging.getLogger(__name__)

_OF_VECTOR_INDEX = ("insert_batch_size", "use_async", "store_nodes_override")
_MEANT = {"top_k": "similarity_top_k", "k": "similarity_top_k"}
_FILTERS = ("where", "filter", "metadata_filters", "store_filter")
_NOT_HERE = ("vector_store_query_mode", "alpha", "sparse_top_k", "hybrid_top_k")


class E2GraphRAGIndex(BaseIndex[E2GraphRAGIndexStruct]):
    """An index of documents as summary trees and an entity graph.

    It takes the place of a `VectorStoreIndex`, but cuts texts itself: `Settings.chunk_size` and
    `Settings.transformations` are not read.

    Texts live in the docstore, vectors in the vector store, trees and graph in the index struct of
    its `StorageContext`; any docstore and any vector store will do. Make it with `from_documents`,
    load it with `load_index_from_storage` or `from_persist_dir`. Neither LLM nor embedding model is
    needed to load it, nor for a local retrieval.

    Each insert, update and delete is done whole or not at all: when a model fails midway nothing
    has changed, and finished summaries are kept for the next try. Where a store fails to remove
    what is old the change stands, and the next write removes it.
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
        prompts: Prompts | None = None,
        token_counter: TokenCounter | None = None,
        chunk_size: int | None = None,
        chunk_overlap: int | None = None,
        group_size: int | None = None,
        summary_tokens: int | None = None,
        chunking: Cut | None = None,
        grouping: Cut | None = None,
        strategy: Strategy | None = None,
        num_workers: int = 4,
        retry: RetryPolicy | None = None,
        summary_cache: str | os.PathLike[str] = ":memory:",
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        **unknown: Any,
    ) -> None:
        """Make an index of nodes, or open one by its struct.

        Args:
            nodes: Those of a `SummaryTreeNodeParser` are taken as they are; over others a tree is
                built for each document they come from.
            objects: Index nodes that lead to other retrievers or query engines.
            index_struct: Of an index that is there.
            storage_context: Its docstore, vector store and index store.
            llm: Summarizes. None takes `Settings.llm` where the user set it, else, or with
                `"extractive"`, summaries are made without one.
            embed_model: A LlamaIndex embedding, or a sentence-transformers name. None takes
                `Settings.embed_model` where the user set it, else all-MiniLM-L6-v2.
            embed_max_tokens: Longest text that a LlamaIndex embedding reads, if it does not tell;
                longer ones are embedded in windows, never cut.
            extractor: A spaCy pipeline's name or path, or an `EntityExtractor`; None takes the
                bundled English pipeline.
            prompts: For summaries.
            token_counter: Counts tokens for sizes; None counts by rule.
            chunk_size: Most tokens in a chunk, 1200 by default; fixed with the first document, as
                the five that follow.
            chunk_overlap: Most tokens that neighboring chunks share, 100 by default.
            group_size: Nodes under one summary, 5 by default.
            summary_tokens: Most tokens in a summary, 300 by default.
            chunking: `"fixed"`, or `"content"` to cut where the text itself says: an edit of a long
                document then makes few summaries anew.
            grouping: The same for the nodes under a summary.
            strategy: Ranks; None is `HybridStrategy()`. `PaperStrategy()` is the paper's own.
            num_workers: Summaries in the making at once.
            retry: Patience with transient errors of the LLM.
            summary_cache: File that keeps finished summaries beyond this object.
            show_progress: Draw a bar while indexing.
            callback_manager: LlamaIndex's.
            transformations: Run on documents that are new or changed, before anything else; None
                cuts and summarizes only. The sizes above do not reach them: give a parser the same.
            **unknown: Nothing but the names of `VectorStoreIndex` that mean nothing here; refused
                with the name that may have been meant.

        Raises:
            InvalidInputError: For an argument that makes no sense.
            SettingsMismatchError: If the index was made with other settings or models.
        """
        reject_unknown_arguments(
            {k: v for k, v in unknown.items() if k not in _OF_VECTOR_INDEX}, type(self).__init__
        )
        struct = E2GraphRAGIndexStruct() if index_struct is None else index_struct
        context = storage_context or StorageContext.from_defaults()
        # All of these before super().__init__(), which builds the index.
        self._storage = IndexStorage(struct, context)
        asked = {
            "chunk_size": chunk_size,
            "chunk_overlap": chunk_overlap,
            "group_size": group_size,
            "summary_tokens": summary_tokens,
            "chunking": chunking,
            "grouping": grouping,
        }
        settings = resolve_settings(asked, struct.made_with, self._storage.where)
        models = Models(
            llm,
            embed_model,
            embed_max_tokens,
            extractor,
            instance_or_default("prompts", prompts, Prompts),
            ApproximateTokenCounter() if token_counter is None else token_counter,
            callback_manager,
        )
        self._strategy = HybridStrategy() if strategy is None else strategy
        check_strategy(self._strategy)
        self._writer = IndexWriter(
            self._storage,
            settings,
            models,
            check_int("num_workers", num_workers),
            instance_or_default("retry", retry, RetryPolicy),
            Store(checked_path(summary_cache)),
        )
        self._user_transformations = list(transformations or ())
        self._show_progress = show_progress
        self._object_map: dict[str, Any] = {}
        self._is_built = index_struct is not None
        super().__init__(
            nodes=list(nodes) if nodes is not None else [] if index_struct is None else None,
            objects=list(objects) if objects is not None else None,
            index_struct=index_struct,
            storage_context=context,
            callback_manager=callback_manager,
            transformations=self._user_transformations or [_Nothing()],
            show_progress=show_progress,
        )
        self._is_built = True

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Index documents, with the options of the constructor.

        With `transformations` those make the nodes; else documents are cut into chunks here.

        Raises:
            InvalidInputError: For a document or an option that cannot be used.
            IndexingError: If a model failed; nothing is in the storage context.
        """
        index = cls(
            [],
            storage_context=storage_context,
            show_progress=show_progress,
            callback_manager=callback_manager,
            transformations=transformations,
            **options,
        )
        with index._or_nothing(), index._callback_manager.as_trace("index_construction"):
            index._insert_sources(index._sources(as_documents(documents)))
        return index

    @classmethod
    async def afrom_documents(
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Index like `from_documents`; summaries are awaited in the caller's event loop."""
        index = cls([], storage_context=storage_context, **options)
        with index._or_nothing(), index._callback_manager.as_trace("index_construction"):
            await index._ainsert_sources(await index._asources(as_documents(documents)))
        return index

    # Writing

    def insert(self, document: Document, **insert_kwargs: Any) -> None:
        """Index one document; unchanged, it is skipped.

        Raises:
            DuplicateDocumentError: If it is there with another content: use `update_ref_doc`.
            IndexingError: If a model failed; nothing has changed.
        """
        del insert_kwargs  # LlamaIndex hands on options of transformations
        with self._callback_manager.as_trace("insert"):
            self._insert_sources(self._sources([document]))

    async def ainsert(self, document: Document, **insert_kwargs: Any) -> None:
        """Index one document like `insert`, without blocking the event loop."""
        del insert_kwargs
        with self._callback_manager.as_trace("ainsert"):
            await self._ainsert_sources(await self._asources([document]))

    def insert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Index nodes; those of a document that is there are added to its tree.

        Nodes of another version of it, by the hash of their SOURCE, take the place of the old ones:
        what an `IngestionPipeline` returns for changed documents can be inserted as it is.

        Raises:
            IndexingError: If a model failed; nothing has changed.
        """
        del insert_kwargs
        with self._callback_manager.as_trace("insert_nodes"):
            self._insert_sources(lambda: self._node_sources(nodes), replacing=True)

    async def ainsert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Index nodes like `insert_nodes`, without blocking the event loop."""
        del insert_kwargs
        with self._callback_manager.as_trace("ainsert_nodes"):
            await self._ainsert_sources(lambda: self._node_sources(nodes), replacing=True)

    def delete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete nodes, and the summaries that were made of them; unknown ids are passed over."""
        del delete_kwargs
        with self._writer.lock:
            self._storage.begin()
            self._storage.delete_nodes(
                frozenset(as_ids(node_ids)), from_docstore=delete_from_docstore
            )

    async def adelete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete nodes like `delete_nodes`, in a thread."""
        del delete_kwargs
        await asyncio.to_thread(self.delete_nodes, node_ids, delete_from_docstore)

    def delete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete a document with everything that came from it; an unknown one is passed over.

        LlamaIndex's own indexes leave the text in the docstore unless asked; this one leaves no
        trace, unless asked.
        """
        del delete_kwargs
        with self._writer.lock:
            self._storage.begin()
            if ref_doc_id not in self._storage.struct.payloads:
                logger.warning("ref_doc_id %s is not in the index, nothing deleted", ref_doc_id)
                return
            self._storage.delete([ref_doc_id], from_docstore=delete_from_docstore)

    async def adelete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = True, **delete_kwargs: Any
    ) -> None:
        """Delete a document like `delete_ref_doc`, in a thread."""
        del delete_kwargs
        await asyncio.to_thread(self.delete_ref_doc, ref_doc_id, delete_from_docstore)

    def update_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Put a document in the place of its old version, which stays if a model fails.

        Raises:
            IndexingError: If a model failed; nothing has changed.
        """
        self.refresh_ref_docs([document], **update_kwargs)

    async def aupdate_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Update a document like `update_ref_doc`, without blocking the event loop."""
        await self.arefresh_ref_docs([document], **update_kwargs)

    def refresh_ref_docs(self, documents: Sequence[Document], **update_kwargs: Any) -> list[bool]:
        """Insert documents that are new and update those that changed, all of them or none.

        Returns:
            For each document whether it was new or changed.

        Raises:
            IndexingError: If a model failed; nothing has changed.
        """
        del update_kwargs
        documents = as_documents(documents)
        with self._callback_manager.as_trace("refresh_ref_docs"):
            sources = self._sources(documents)
            done = self._insert_sources(sources, replacing=True)
        return [document.node_id in done for document in documents]

    async def arefresh_ref_docs(
        self, documents: Sequence[Document], **update_kwargs: Any
    ) -> list[bool]:
        """Refresh like `refresh_ref_docs`, without blocking the event loop."""
        del update_kwargs
        documents = as_documents(documents)
        with self._callback_manager.as_trace("refresh_ref_docs"):
            sources = await self._asources(documents)
            done = await self._ainsert_sources(sources, replacing=True)
        return [document.node_id in done for document in documents]

    # What the base class asks for

    def build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> E2GraphRAGIndexStruct:
        """Build the index; unlike the base class, no node is stored before all are ready."""
        return self._build_index_from_nodes(nodes, **build_kwargs)

    def _build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> E2GraphRAGIndexStruct:
        del build_kwargs
        self._insert_sources(self._node_sources(nodes))
        return self._storage.struct

    def _insert(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        self.insert_nodes(nodes, **insert_kwargs)

    def _delete_node(self, node_id: str, **delete_kwargs: Any) -> None:
        self.delete_nodes([node_id], **delete_kwargs)

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """The nodes and the metadata of each document, by its id."""
        return {
            record.id: RefDocInfo([node.id for node in record.nodes], dict(record.metadata))
            for record in self._storage.struct.records()
        }

    def as_retriever(
        self, retriever_mode: str | RetrieverMode = RetrieverMode.ADAPTIVE, **kwargs: Any
    ) -> E2GraphRAGRetriever:
        """Return a retriever; options of others, which LlamaIndex hands on, are passed over.

        Args:
            retriever_mode: `adaptive`, `local` or `global`.
            **kwargs: Those of `E2GraphRAGRetriever`.

        Raises:
            FilterError: For a filter under a name that nothing would read.
        """
        known = inspect.signature(E2GraphRAGRetriever).parameters
        own = [name for name in known if name not in ("index", "unknown")]
        for name, value in kwargs.items():
            if name in _FILTERS:
                raise FilterError(
                    f"as_retriever({name}=) would filter nothing: pass filters=MetadataFilters(...)"
                )
            near = difflib.get_close_matches(name, own, 1, 0.8) if name not in own else []
            near = [_MEANT[name]] if name in _MEANT else near
            if near:
                logger.warning("as_retriever(%s=) is not known: did you mean %s?", name, near[0])
            elif name in _NOT_HERE and value not in (None, "default"):
                logger.warning("as_retriever(%s=) has no meaning here: see strategy=", name)
        given = {name: value for name, value in kwargs.items() if name in own}
        given.setdefault("mode", retriever_mode)
        given.setdefault("object_map", self._object_map)
        given.setdefault("callback_manager", self._callback_manager)
        return E2GraphRAGRetriever(self, **given)

    # Beyond the base class

    @property
    def vector_store(self) -> BasePydanticVectorStore:
        """The vector store of the storage context."""
        return self._storage.context.vector_store

    @property
    def storage(self) -> IndexStorage:
        """The index struct and the stores around it."""
        return self._storage

    @property
    def graph(self) -> EntityGraph:
        """The entity graph of the present state."""
        return self._storage.snapshot().graph

    @property
    def strategy(self) -> Strategy:
        """Ranks, where a retriever has none of its own."""
        return self._strategy

    @property
    def last_report(self) -> IndexReport:
        """What the last insert or update did: nodes, LLM calls, tokens, seconds."""
        return self._writer.report

    @property
    def made_with(self) -> Mapping[str, str]:
        """Settings and fingerprints of the models that the index was made with."""
        return self._storage.struct.made_with

    def answer(self, request: Request) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
        """Return what a request gets from this index, with the docstore's nodes by id.

        Raises:
            CorruptStoreError: If the stores have lost nodes of the index.
            SettingsMismatchError: If a model is not the one the index was made with.
        """
        components = self._writer.reading_components()
        return self._storage.answer(request, components, self._writer.lock)

    def estimate_cost(self, documents: Sequence[Document]) -> CostEstimate:
        """Return what inserting documents would cost: exact LLM calls, bounds of their tokens.

        Nothing is called and nothing is written.
        """
        return self._writer.estimate(of_documents(documents))

    def to_e2g(self, path: str | os.PathLike[str]) -> None:
        """Write the index as an index file of the core, which gives equal answers.

        Vectors are copied; where the vector store does not give them out they are made again. Nodes
        of the user's own making get ids of the file's.

        Raises:
            InvalidInputError: If the file is there, or a tree is one that a file cannot hold.
        """

        def embed(texts: Sequence[str], title: str | None) -> FloatArray:
            embedder = self._writer.components().embedder
            return embedder.embed([embedder.prefix(title) + text for text in texts])

        write_e2g(self._storage, path, embed)

    @classmethod
    def from_e2g(
        cls,
        path: str | os.PathLike[str],
        storage_context: StorageContext | None = None,
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Read an index file of the core into a storage context; answers are equal.

        Nothing is embedded or summarized. The models are those of the file, by name, unless given.

        Raises:
            InvalidInputError: If there is no such file.
            StoreError: If it is no index, or damaged.
        """
        built, made_with = read_e2g(path)
        struct = E2GraphRAGIndexStruct(made_with=made_with)
        index = cls(index_struct=struct, storage_context=storage_context, **options)
        with index._or_nothing():
            if "dimension" in made_with:
                index.storage.vectors.check(int(made_with["dimension"]))
            index.storage.put(built, made_with, save=True)
        return index

    @classmethod
    def from_storage(
        cls, storage_context: StorageContext, index_id: str | None = None, **options: Any
    ) -> E2GraphRAGIndex:
        """Open an index of a storage context, like `load_index_from_storage`.

        Raises:
            InvalidInputError: If there is none, or several and no `index_id`.
            StoreError: If it is damaged, or was made with other settings or models.
        """
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
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Open an index that `index.storage_context.persist(persist_dir)` has written.

        Args:
            persist_dir: The folder.
            index_id: Which, where there are several.
            vector_store: The one that it was made with; None finds LlamaIndex's own and FAISS's in
                the folder.
            **options: Those of the constructor.

        Raises:
            InvalidInputError: If there is no such folder or no index in it.
            StoreError: If a file is missing or damaged.
        """
        return cls.from_storage(load_context(persist_dir, vector_store), index_id, **options)

    def persist(self, persist_dir: str | os.PathLike[str]) -> None:
        """Write the storage context to a folder."""
        self._storage_context.persist(str(persist_dir))

    def export_property_graph(
        self, store: PropertyGraphStore, min_weight: float = 0.0
    ) -> dict[str, int]:
        """Write the index into a property graph store, such as Neo4j's: a copy to browse and query.

        Chunks and summaries become chunk nodes, entities become entity nodes; `CO_OCCURS` joins
        entities (with `weight`), `MENTIONS` chunks and entities (with `count`), `PART_OF` nodes and
        the summaries above them. Retrieval does not read it.

        Args:
            store: Any `PropertyGraphStore`.
            min_weight: Least weight of a co-occurrence.

        Returns:
            How many of each kind were written.
        """
        return export_property_graph(self._storage, self.graph, store, min_weight)

    def _sources(self, documents: Sequence[Document]) -> list[Source]:
        """Return documents as sources, each once."""
        if not self._user_transformations:
            return of_documents(documents)
        nodes = run_transformations(
            self._changed(documents), self._user_transformations, show_progress=self._show_progress
        )
        return of_nodes(nodes, self._writer.settings.groups)

    async def _asources(self, documents: Sequence[Document]) -> list[Source]:
        if not self._user_transformations:
            return of_documents(documents)
        nodes = await arun_transformations(
            self._changed(documents), self._user_transformations, show_progress=self._show_progress
        )
        return of_nodes(list(nodes), self._writer.settings.groups)

    def _changed(self, documents: Sequence[Document]) -> list[Document]:
        """Return documents that are new or changed: transformations may cost a call each."""
        of_documents(documents)  # refuses what is no document, or is there twice
        once = {document.node_id: document for document in documents}.values()
        return [d for d in once if not self._writer.has(d.node_id, d.hash)]

    def _node_sources(self, nodes: Sequence[BaseNode]) -> list[Source]:
        for number, node in enumerate(nodes):
            if not isinstance(node, BaseNode):
                raise InvalidInputError(
                    f"node {number} is a {type(node).__name__}, not a LlamaIndex node"
                )
            if isinstance(node, IndexNode) and node.obj is not None:
                self._object_map[node.index_id] = node.obj
                node.obj = None  # it cannot be stored
        return self._writer.with_known(nodes)

    def _insert_sources(
        self,
        sources: Sequence[Source] | Callable[[], Sequence[Source]],
        *,
        replacing: bool = False,
    ) -> set[str]:
        loop = OwnLoop()
        try:
            return self._writer.write(
                sources,
                Write(
                    loop,
                    replacing=replacing,
                    show_progress=self._show_progress,
                    save=self._is_built,
                ),
            )
        finally:
            loop.close()

    async def _ainsert_sources(
        self,
        sources: Sequence[Source] | Callable[[], Sequence[Source]],
        *,
        replacing: bool = False,
    ) -> set[str]:
        run = Write(
            CallerLoop(asyncio.get_running_loop()),
            is_async=True,
            replacing=replacing,
            show_progress=self._show_progress,
        )
        return await run_in_thread(lambda: self._writer.write(sources, run), run.stop.all)

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """Take the index out of the index store again if it cannot be filled."""
        try:
            yield
        except BaseException:
            # A cancelled build may have been finished before it could be stopped.
            self._storage.delete(list(self._storage.struct.payloads), from_docstore=True)
            self._storage.context.index_store.delete_index_struct(self.index_id)
            raise


class _Nothing(TransformComponent):
    """Keeps LlamaIndex from loading the splitter of its `Settings`, which nothing here uses."""

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Return the nodes."""
        del kwargs
        return nodes


def register() -> None:
    """Make `load_index_from_storage` know the index; LlamaIndex has no other way for plug-ins."""
    from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS

    structs: dict[Any, type[IndexStruct]] = INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
    indices: dict[Any, Any] = INDEX_STRUCT_TYPE_TO_INDEX_CLASS
    structs[TYPE] = E2GraphRAGIndexStruct
    indices[TYPE] = E2GraphRAGIndex
