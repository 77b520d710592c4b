"""Opening an index for the documents of a framework."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, TypeVar

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations.corpus.corpus import Corpus
from e2graphrag_integrations.corpus.page import is_chunk
from e2graphrag_integrations.corpus.trees import DocumentFormat, check_tree_per
from e2graphrag_integrations.corpus.vector_store_mirror import MirrorStore, VectorStoreMirror
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.opening import FaceHooks, open_parts
from e2graphrag_integrations.indexing.grouping import may_share_chunk
from e2graphrag_integrations.options import Options
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.retrieval.strategy import Strategy
from e2graphrag_integrations.summarizers.callable import CallableSummarizer
from e2graphrag_integrations.vectors.open_vectors import VectorsArgument

D = TypeVar("D")


def open_corpus(
    location: str | os.PathLike[str],
    options: Options,
    format_: DocumentFormat[D],
    hooks: FaceHooks,
    *,
    embedder: Embedder | str | None,
    summarizer: CallableSummarizer | None,
    strategy: Strategy | None,
    vectors: VectorsArgument | None,
    vector_store: MirrorStore | None,
    auto_build: bool = True,
) -> Corpus[D]:
    """Open an index, or create it; `E2GraphRAG.open` describes the errors.

    Args:
        location: The index file or the URL.
        options: The option objects. A summarizer that is given has the prompts already.
        format_: The documents of the framework.
        hooks: What the framework adds, except what all frameworks add.
        embedder: The embedder.
        summarizer: The summarizer, if it calls a model of the framework.
        strategy: The default strategy.
        vectors: Another vector index.
        vector_store: A vector store of the framework that gets a copy of the vectors.
        auto_build: See `Corpus`.
    """
    tree_per = options.settings.tree_per
    tree_per = check_tree_per("source" if tree_per is None else tree_per)
    mirror = None if vector_store is None else VectorStoreMirror(vector_store)
    opened: list[Corpus[Any]] = []

    def drop_indexed() -> None:
        for corpus in opened:
            corpus.drop_indexed()

    hooks = replace(
        hooks,
        vector_search=None if mirror is None else mirror.search,
        is_chunk=is_chunk,
        may_share_chunk=may_share_chunk,
        drop_indexed=drop_indexed,
    )
    parts = open_parts(
        location,
        options,
        embedder=embedder,
        summarizer=summarizer,
        strategy=strategy,
        vectors=vectors,
        hooks=hooks,
    )
    rag = E2GraphRAG(parts)
    with on_error(lambda _: rag.close()):
        corpus = Corpus(
            rag,
            format_,
            tree_per=tree_per,
            summarizer=summarizer,
            writes=options.writes,
            auto_build=auto_build,
            mirror=mirror,
        )
    opened.append(corpus)
    return corpus
