"""`SummaryTreeNodeParser`: split documents into chunks and summaries in any LlamaIndex pipeline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_index.core.bridge.pydantic import Field, SerializeAsAny
from llama_index.core.llms import LLM
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, Document
from llama_index.core.utils import get_tqdm_iterable

from e2graphrag_integrations._utils.event_loop import (
    AwaitableRunner,
    CallerLoop,
    ContextThreads,
    OwnLoop,
)
from e2graphrag_integrations._utils.fingerprints import object_fingerprint
from e2graphrag_integrations._utils.validation import check_items, reject_unknown_arguments
from e2graphrag_integrations.indexing.grouping import may_share_chunk
from e2graphrag_integrations.indexing.llm_calls import announce_llm_calls, plan_llm_calls
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.indexing.summaries import SummaryBuilder, summarize_trees
from e2graphrag_integrations.llama_index.indexing.pages import (
    Page,
    PageTree,
    TreePer,
    check_tree_per,
    page_of,
    sort_pages,
    tree_id,
)
from e2graphrag_integrations.llama_index.models import summarizer_for
from e2graphrag_integrations.llama_index.storage.nodes import (
    InheritedFields,
    check_has_text,
    tree_to_nodes,
)
from e2graphrag_integrations.settings import Cut, Settings
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from e2graphrag_integrations.types import SourceDocument


class SummaryTreeNodeParser(NodeParser):
    """Split each document into chunks and build a tree of summaries above them.

    The result contains all chunks and summaries, with their SOURCE, PARENT, CHILD, PREVIOUS and
    NEXT relationships. The metadata keys `e2_level` (0 for chunks), `e2_kind` and `e2_tree` are
    hidden from embeddings and prompts. The ids are UUIDs derived from the text, so the same input
    gives the same ids.

    Use the parser alone, in an `IngestionPipeline` (with `run`, `arun` or several workers), or
    with `get_leaf_nodes` and `AutoMergingRetriever`.

    Each document has a tree of its own by default, so that an `IngestionPipeline` with upserts
    replaces exactly the nodes of a changed document in a vector store. With `tree_per="source"`,
    the pages of a file share a tree; `tree_per` has the values of `E2GraphRAGIndex`. A chunk over
    several pages has the first page's `page_label`, and `page_labels` lists all of them, such as
    `"2, 3"`. Its SOURCE is the file, and `pages_of` returns its pages. A pipeline with a docstore
    passes only the changed pages to the parser: insert the nodes of such trees into an
    `E2GraphRAGIndex`, which adds the other pages of the file.

    Raises:
        InvalidInputError: If a field is unknown, a size is out of range, or an image has no text.
        LLMCallLimitError: If the summaries need more than `max_llm_calls` calls.
        SummaryError: If a summary fails; finished summaries remain in `summary_cache`.
    """

    chunk_size: int = Field(default=1200, description="Maximum number of tokens per chunk.")
    chunk_overlap: int | None = Field(
        default=None,
        description="Maximum tokens shared by neighboring chunks; None means 100, or 0 for "
        "`content` chunks.",
    )
    group_size: int = Field(default=5, description="Number of nodes under one summary.")
    summary_tokens: int = Field(default=300, description="Maximum number of tokens per summary.")
    chunking: Cut = Field(
        default="fixed", description="`content` chooses chunk boundaries from the text."
    )
    grouping: Cut = Field(
        default="fixed", description="`content` groups the nodes under a summary by their text."
    )
    tree_per: Any = Field(
        default="document",
        description="Documents that share a tree: `source`, `document`, `corpus` or a function.",
    )
    llm: SerializeAsAny[LLM] | None = Field(
        default=None,
        description="Writes the summaries, for example `llm=Settings.llm`. None extracts them from "
        "the text without an LLM.",
    )
    chunk_prompt: str = Field(
        default=Prompts().chunks,
        description="Prompt for summaries of chunks; contains {text} and {words}.",
    )
    summary_prompt: str = Field(
        default=Prompts().summaries, description="Prompt for summaries of summaries."
    )
    num_workers: int = Field(default=4, gt=0, description="Number of concurrent LLM calls.")
    max_llm_calls: int | None = Field(
        default=None,
        ge=0,
        description="Maximum number of LLM calls of one run, without retries; None means no limit.",
    )
    max_attempts: int = Field(default=5, gt=0, description="Maximum LLM calls for one summary.")
    summary_cache: str = Field(
        default=":memory:", description="Path of a file that stores finished summaries."
    )

    if not TYPE_CHECKING:  # type checkers read the signature from the fields

        def __init__(self, **fields: Any) -> None:
            known = {*type(self).model_fields, "class_name"}  # LlamaIndex serializes the class name
            reject_unknown_arguments(
                {k: v for k, v in fields.items() if k not in known}, type(self)
            )
            super().__init__(**fields)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which pipelines store this parser."""
        return "SummaryTreeNodeParser"

    def _parse_nodes(
        self,
        nodes: Sequence[BaseNode],
        show_progress: bool = False,
        **kwargs: Any,  # noqa: ARG002 - pipelines pass the arguments of all transformations
    ) -> list[BaseNode]:
        with closing(OwnLoop()) as loop:
            return self._build(nodes, loop, is_async=False, show_progress=show_progress)

    async def _aparse_nodes(
        self,
        nodes: Sequence[BaseNode],
        show_progress: bool = False,
        **kwargs: Any,  # noqa: ARG002 - pipelines pass the arguments of all transformations
    ) -> list[BaseNode]:
        loop = CallerLoop(asyncio.get_running_loop())
        return await asyncio.to_thread(
            self._build, nodes, loop, is_async=True, show_progress=show_progress
        )

    def _postprocess_parsed_nodes(
        self,
        nodes: list[BaseNode],
        parent_doc_map: dict[str, Document],  # noqa: ARG002 - the signature of the base class
    ) -> list[BaseNode]:
        # The base class would link the last chunk to the first summary and search the document's
        # text for the summaries.
        return nodes

    def _build(
        self,
        documents: Sequence[BaseNode],
        runner: AwaitableRunner,
        *,
        is_async: bool,
        show_progress: bool,
    ) -> list[BaseNode]:
        settings = Settings(
            self.chunk_size,
            self.chunk_overlap,
            self.group_size,
            self.summary_tokens,
            self.chunking,
            self.grouping,
        )
        counter = ApproximateTokenCounter()
        check_items("nodes", documents, BaseNode)
        for document in documents:
            check_has_text(document)
        # Use only the texts: metadata would leak into the summaries.
        parsed = _trees(documents, self.tree_per)
        trees = [
            plan_document(source, settings, counter, source.segments, may_share_chunk)
            for source, _ in parsed
        ]
        prompts = Prompts(self.chunk_prompt, self.summary_prompt)
        if prompts == Prompts():
            prompts = DefaultPrompts()
        summarizer = summarizer_for(self.llm, prompts, counter, is_async=is_async)
        total = sum(node.level > 0 for tree in trees for node in tree.nodes)
        steps = iter(get_tqdm_iterable(range(total), show_progress, "Summarizing"))
        with (
            closing(Store(self.summary_cache)) as store,
            ContextThreads(self.num_workers, "e2graphrag-llm") as pool,
        ):
            builder = SummaryBuilder(
                summarizer,
                object_fingerprint(summarizer),
                counter,
                self.summary_tokens,
                RetryPolicy(attempts=self.max_attempts),
                store,
                runner,
            )
            cost = plan_llm_calls(trees, lambda tree: tree, builder, self.max_llm_calls)
            announce_llm_calls(cost, builder)
            summaries: Sequence[Any] = summarize_trees(
                trees, builder, pool, lambda: next(steps, None) and None, threading.Event()
            )
        next(steps, None)  # closes the bar
        return [
            node
            for (_, inherited), tree, texts in zip(parsed, trees, summaries, strict=True)
            for node in tree_to_nodes(
                inherited, [replace(n, text=texts.get(n.id, n.text)) for n in tree.nodes]
            )
        ]


def _trees(
    documents: Sequence[BaseNode], tree_per: TreePer
) -> list[tuple[SourceDocument, InheritedFields]]:
    """Return the text of each tree, and the fields that its nodes inherit."""
    check_tree_per(tree_per)
    groups: dict[str, list[Page]] = {}
    by_id = {document.node_id: document for document in documents}
    for document in documents:
        page = page_of(document)
        groups.setdefault(tree_id(tree_per, page), []).append(page)
    trees: list[tuple[SourceDocument, InheritedFields]] = []
    for id_, pages in groups.items():
        tree = PageTree.join(id_, sort_pages(pages))
        trees.append(
            (
                SourceDocument(id_, tree.text, segments=tree.segments),
                InheritedFields.from_document(by_id[id_])
                if tree.is_document
                else tree.fields(flat=True),
            )
        )
    return trees
