"""`E2GraphRAGIndex`: LangChain documents in, a retriever out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import UpsertResponse
from langchain_core.indexing.base import DeleteResponse, DocumentIndex
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import ConfigDict, Field

from e2graphrag_integrations._utils.validation import (
    check_int,
    instance_or_default,
    short_repr,
    type_name,
)
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_ids, as_list
from e2graphrag_integrations.langchain.backends import backend_of
from e2graphrag_integrations.langchain.corpus import Corpus
from e2graphrag_integrations.langchain.embedding import LangChainEmbedder
from e2graphrag_integrations.langchain.llm import RunnableSummarizer
from e2graphrag_integrations.langchain.mirror import Mirror
from e2graphrag_integrations.langchain.pages import Scope
from e2graphrag_integrations.langchain.retriever import (
    E2GraphRAGRetriever,
    to_documents,
)
from e2graphrag_integrations.langchain.splitting import splitter_of
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.reports import CostEstimate, IndexReport, Stats
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.summarizers.prompts import Prompts

_SCOPES = ("source", "document", "corpus")


class E2GraphRAGIndex(DocumentIndex):
    """An index of LangChain documents as summary trees and an entity graph, in one file.

    Make it with `from_documents` or `from_texts`, or empty with `open` and fill it with
    `add_documents`, `upsert` or LangChain's `index()`. Give whole documents, not chunks: the index
    cuts them, and documents of one `source`, such as the pages of a file, share a tree.

    Changes are kept in the file at once and built in together: by `build`, or by the first search.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    corpus: Corpus = Field(repr=False)
    k: int = Field(default=10, gt=0)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] = ":memory:",
        *,
        llm: Runnable[Any, Any] | None = None,
        embeddings: Embeddings | Embedder | str | None = None,
        embed_max_tokens: int | None = None,
        splitter: Any = None,
        split_pages: bool = False,
        vector_store: Any = None,
        tree_scope: Scope = "source",
        prompts: Prompts | None = None,
        llm_id: str | None = None,
        max_concurrency: int = 8,
        config: RunnableConfig | None = None,
        auto_build: bool = True,
        show_progress: bool = False,
        k: int = 10,
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Open an index file, one of the CLI or of the core as well, or make a new one.

        Args:
            path: The file; `":memory:"` keeps the index in memory.
            llm: Summarizes: a model, or what `.bind()`, `.with_retry()` or `.with_fallbacks()` of
                one give. None summarizes without one.
            embeddings: LangChain's, or a sentence-transformers name. None takes the model that the
                file was made with, at first all-MiniLM-L6-v2.
            embed_max_tokens: Longest text that LangChain's embeddings read, if they do not tell;
                longer ones are embedded in windows, never cut.
            splitter: A LangChain text splitter, or a function from a text to its pieces; None cuts
                at sentences by `chunk_size`.
            split_pages: Let no chunk go from one document of a source into the next, so that each
                has the metadata of its page, such as its number; give it again when loading.
            vector_store: A LangChain vector store that is searched in the place of FAISS and kept
                what the index is: in memory, Qdrant, Chroma, PGVector.
            tree_scope: What shares a tree: documents of one `metadata["source"]`, each `document`,
                the whole `corpus`, or what a function of a document gives the same name.
            prompts: For summaries.
            llm_id: Names an `llm` that tells nothing of itself, so that its summaries are found
                again.
            max_concurrency: Summaries in the making at once.
            config: Given along with every call of the `llm`: callbacks, tags.
            auto_build: Whether a search builds in what is pending.
            show_progress: Draw a bar while building.
            k: Documents returned by searches of the index itself.
            **options: Those of `E2GraphRAG.open`: `chunk_size`, `extractor`, `strategy`, ...

        Raises:
            InvalidInputError: For an argument that makes no sense.
            StoreError: If the file is no index, damaged, or was made with other models.
        """
        if not callable(tree_scope) and tree_scope not in _SCOPES:
            names = ", ".join(_SCOPES)
            raise InvalidInputError(f"tree_scope={short_repr(tree_scope)}: choose one of {names}")
        prompts = instance_or_default("prompts", prompts, Prompts)
        k = check_int("k", k)
        summarizer = _summarizer(llm, prompts, llm_id)
        mirror = None
        if vector_store is not None:
            mirror = Mirror(backend_of(vector_store), type(vector_store).__name__)
        rag = E2GraphRAG.open(
            path,
            summarizer=summarizer,
            embedder=_embedder(embeddings, embed_max_tokens),
            splitter=None if splitter is None else splitter_of(splitter),
            split_segments=split_pages,
            concurrency=max_concurrency,
            vector_search=None if mirror is None else mirror.search,
            **options,
        )
        corpus = Corpus(
            rag,
            scope=tree_scope,
            summarizer=summarizer,
            config=config,
            auto_build=auto_build,
            show_progress=show_progress,
            mirror=mirror,
        )
        return cls(corpus=corpus, k=k)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        path: str | os.PathLike[str] = ":memory:",
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Index documents, with the options of `open`.

        Raises:
            InvalidInputError: For a document that cannot be used; nothing was indexed.
            IndexingError: If a model failed; in a file the documents wait, `open` it to go on.
        """
        index = cls.open(path, **options)
        try:
            index.add_documents(documents)
        except BaseException:
            index.close()
            raise
        return index

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        *,
        path: str | os.PathLike[str] = ":memory:",
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Index documents like `from_documents`; the model is awaited in the caller's loop."""
        index = await asyncio.to_thread(cls.open, path, **options)
        try:
            await index.aadd_documents(documents)
        except BaseException:
            await asyncio.to_thread(index.close)
            raise
        return index

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Index texts, with the options of `from_documents`."""
        return cls.from_documents(_documents(texts, metadatas, ids), **options)

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **options: Any,
    ) -> E2GraphRAGIndex:
        """Index texts like `from_texts`; the model is awaited in the caller's loop."""
        return await cls.afrom_documents(_documents(texts, metadatas, ids), **options)

    # Writing

    def add_documents(self, documents: Iterable[Document]) -> list[str]:
        """Take documents, build them in and return their ids.

        Raises:
            InvalidInputError: For a document that cannot be used; nothing has changed.
            IndexingError: If a model failed; the documents stay pending, `build` goes on.
        """
        ids = self.corpus.upsert(as_list(documents, "documents"))
        self.corpus.build()
        return ids

    async def aadd_documents(self, documents: Iterable[Document]) -> list[str]:
        """Add documents like `add_documents`; the model is awaited in the caller's loop."""
        ids = await asyncio.to_thread(lambda: self.corpus.upsert(as_list(documents, "documents")))
        await self.corpus.abuild()
        return ids

    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Take documents, in the place of those with their ids; they are built in later."""
        del kwargs
        return UpsertResponse(succeeded=self.corpus.upsert(as_list(items, "items")), failed=[])

    async def aupsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Take documents like `upsert`, in a thread."""
        return await asyncio.to_thread(self.upsert, items, **kwargs)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents; ids that are not there are no failure.

        Raises:
            ValueError: Without ids.
        """
        del kwargs
        if ids is None:
            raise ValueError(
                "delete() needs the ids of documents; all of them: delete(index.ids())"
            )
        gone = self.corpus.delete(ids)
        return DeleteResponse(num_deleted=len(gone), succeeded=gone, failed=[], num_failed=0)

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents like `delete`, in a thread."""
        return await asyncio.to_thread(self.delete, ids, **kwargs)

    def build(self, config: RunnableConfig | None = None) -> IndexReport:
        """Build in what is pending and return what was done.

        Args:
            config: Given along with every call of the `llm`, merged into the index's.

        Raises:
            IndexingError: If a model failed; what is pending stays so, finished summaries are kept.
        """
        return self.corpus.build(config)

    async def abuild(self, config: RunnableConfig | None = None) -> IndexReport:
        """Build like `build`; the model is awaited in the caller's loop."""
        return await self.corpus.abuild(config)

    def ensure_built(self, config: RunnableConfig | None = None) -> None:
        """Build in what is pending, or, with `auto_build=False`, refuse to search without it."""
        self.corpus.ensure_built(config)

    async def aensure_built(self, config: RunnableConfig | None = None) -> None:
        """Build in what is pending like `ensure_built`; the model is awaited in the loop."""
        await self.corpus.aensure_built(config)

    def estimate(self) -> CostEstimate:
        """Return what building in what is pending would cost: exact calls, bounds of tokens."""
        return self.corpus.estimate()

    # Reading

    @property
    def report(self) -> IndexReport:
        """What the last build did: nodes, LLM calls, tokens, seconds."""
        return self.corpus.report

    def stats(self) -> Stats:
        """Return what the index holds, without what is pending."""
        return self.corpus.rag.stats()

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return documents as they were given, and passages by the ids that searches gave them."""
        del kwargs
        ids = as_ids(ids)
        found = self.corpus.get(ids)
        there = {document.id for document in found}
        nodes = self.corpus.rag.nodes([id_ for id_ in ids if id_ not in there])
        return found + [
            Document(
                id=node.id,
                page_content=node.text,
                metadata={"e2_source_id": node.document_id, "e2_level": node.level},
            )
            for node in nodes.values()
        ]

    async def aget(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return documents like `get`, in a thread."""
        return await asyncio.to_thread(self.get, ids, **kwargs)

    def ids(self) -> list[str]:
        """Return the ids of all documents."""
        return self.corpus.ids()

    def retrieve(self, question: str, **options: Any) -> RetrievalResult:
        """Return nodes with scores, reasons and trace; options as `E2GraphRAG.retrieve`.

        With `store_filter` only nodes whose vectors pass a filter of the vector store's own kind.
        """
        self.corpus.ensure_built()
        return self.corpus.rag.retrieve(question, **self._filtered(options))

    async def aretrieve(self, question: str, **options: Any) -> RetrievalResult:
        """Retrieve like `retrieve`, without blocking the event loop."""
        await self.corpus.aensure_built()
        return await self.corpus.rag.aretrieve(question, **self._filtered(options))

    def _filtered(self, options: dict[str, Any]) -> dict[str, Any]:
        native = options.get("store_filter")
        rest = {name: value for name, value in options.items() if name != "store_filter"}
        if native is None:
            return rest
        if self.corpus.mirror is None:
            raise InvalidInputError(
                "store_filter= is for an index with a vector_store=: use filter="
            )
        return rest | {"where": self.corpus.mirror.allows(native, options.get("where"))}

    def search(self, query: str, **options: Any) -> RetrievalResult:
        """Return what a retriever with these options would find, with scores, reasons and trace."""
        retriever = self.as_retriever(**options)
        return self.retrieve(query, **retriever.search_options())

    def similarity_search(self, query: str, k: int | None = None, **options: Any) -> list[Document]:
        """Return documents, best first, as a retriever with these options would."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **options)]

    def similarity_search_with_score(
        self, query: str, k: int | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return documents with their scores, best first: 1/rank, or cosine from vectors."""
        result = self.search(query, k=self.k if k is None else k, **options)
        documents = to_documents(result, include_scores=False)
        return [(d, float(n.score)) for d, n in zip(documents, result.nodes, strict=True)]

    def as_retriever(self, **options: Any) -> E2GraphRAGRetriever:
        """Return a retriever with the given fields of `E2GraphRAGRetriever`."""
        return E2GraphRAGRetriever(index=self, **({"k": self.k} | options))

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **given: Any
    ) -> list[Document]:
        retriever = self.as_retriever()
        return retriever._get_relevant_documents(  # noqa: SLF001 - of the same face
            query, run_manager=run_manager, **given
        )

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **given: Any
    ) -> list[Document]:
        retriever = self.as_retriever()
        return await retriever._aget_relevant_documents(  # noqa: SLF001 - of the same face
            query, run_manager=run_manager, **given
        )

    # Files

    def save_local(self, path: str | os.PathLike[str]) -> None:
        """Build in what is pending and write the index as one file, in the place of an older one.

        Raises:
            StoreError: If it cannot be written.
        """
        self.build()
        target = Path(os.fspath(path))
        own = self.corpus.rag.path
        if own != ":memory:" and target.exists() and target.samefile(own):
            return  # it is that file
        self.corpus.rag.copy_to(target)

    @classmethod
    def load_local(cls, path: str | os.PathLike[str], **options: Any) -> E2GraphRAGIndex:
        """Open a file of `save_local`, with the options of `open`; changes go into the file.

        Raises:
            InvalidInputError: If there is no such file.
            StoreError: If it is no index, damaged, or was made with other models.
        """
        if not Path(os.fspath(path)).is_file():
            raise InvalidInputError(f"there is no index file {os.fspath(path)}")
        return cls.open(path, **options)

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        self.corpus.rag.close()

    def __enter__(self) -> E2GraphRAGIndex:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _documents(
    texts: Iterable[str], metadatas: Sequence[dict[str, Any]] | None, ids: Sequence[str] | None
) -> list[Document]:
    given = as_list(texts, "texts")
    metadatas = None if metadatas is None else as_list(metadatas, "metadatas")
    ids = None if ids is None else as_list(ids, "ids")
    for name, other in (("metadatas", metadatas), ("ids", ids)):
        if other is not None and len(other) != len(given):
            raise InvalidInputError(f"there are {len(given)} texts and {len(other)} {name}")
    return [
        Document(
            page_content=text,
            metadata=dict(metadatas[i]) if metadatas is not None else {},
            id=ids[i] if ids is not None else None,
        )
        for i, text in enumerate(given)
    ]


def _summarizer(llm: Any, prompts: Prompts, llm_id: str | None) -> RunnableSummarizer | None:
    if llm is None:
        return None
    if not isinstance(llm, Runnable):
        raise InvalidInputError(
            f"llm is a {type_name(llm)}, no LangChain model: pass one such as ChatOpenAI(...), or "
            "None to summarize without"
        )
    return RunnableSummarizer(llm, prompts, llm_id)


def _embedder(given: Any, max_tokens: int | None) -> Embedder | str | None:
    if isinstance(given, Embeddings):
        return LangChainEmbedder(given, max_tokens)
    return cast("Embedder | str | None", given)  # the core says what it cannot take
