"""`SummaryTreeNodeParser`: documents to chunks and summaries, in any LlamaIndex pipeline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.bridge.pydantic import Field, SerializeAsAny
from llama_index.core.llms import LLM
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, Document, MetadataMode
from llama_index.core.utils import get_tqdm_iterable

from e2graphrag_integrations._utils.event_loop import (
    AwaitableRunner,
    CallerLoop,
    ContextThreads,
    OwnLoop,
)
from e2graphrag_integrations.embedders.fingerprints import object_fingerprint
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.indexing.summaries import SummaryBuilder, summarize_trees
from e2graphrag_integrations.llama_index.adapters.llm import settings_llm, summarizer_for
from e2graphrag_integrations.llama_index.storage.nodes import Origin, tree_to_nodes
from e2graphrag_integrations.settings import Cut, Settings
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.callable import Prompts, RetryPolicy
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import SourceDocument


class SummaryTreeNodeParser(NodeParser):
    """Cuts each document into chunks and builds the tree of their summaries.

    Returns the chunks and all summaries, with SOURCE, PARENT, CHILD, PREVIOUS and NEXT set, in
    metadata `e2_level` (0 for chunks), `e2_kind` and `e2_tree`, which embeddings and prompts do not
    see. Ids are UUIDs derived from the text: running again gives the same nodes.

    Works alone, in an `IngestionPipeline` (run, arun, several workers), and with `get_leaf_nodes`
    and `AutoMergingRetriever`. One tree a document, so that a document can be replaced alone.

    Raises:
        InvalidInputError: For sizes that make no sense.
        SummaryError: When a summary could not be made; finished ones stay in `summary_cache`.
    """

    chunk_size: int = Field(default=1200, description="Most tokens in a chunk.")
    chunk_overlap: int | None = Field(
        default=None, description="Most tokens that neighbors share; None: 100, for content 0."
    )
    group_size: int = Field(default=5, description="Nodes under one summary.")
    summary_tokens: int = Field(default=300, description="Most tokens in a summary.")
    chunking: Cut = Field(default="fixed", description="`content` cuts where the text says.")
    grouping: Cut = Field(default="fixed", description="The same for nodes under a summary.")
    llm: SerializeAsAny[LLM] | None = Field(
        default=None, description="Summarizes; None takes Settings.llm where set, else extracts."
    )
    chunk_prompt: str = Field(default=Prompts().chunks, description="Has {text} and {words}.")
    summary_prompt: str = Field(default=Prompts().summaries, description="For upper levels.")
    num_workers: int = Field(default=4, gt=0, description="Summaries in the making at once.")
    max_attempts: int = Field(default=5, gt=0, description="Calls for one summary, at most.")
    summary_cache: str = Field(
        default=":memory:", description="File that keeps finished summaries; none by default."
    )

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which pipelines store this parser."""
        return "SummaryTreeNodeParser"

    def _parse_nodes(
        self,
        nodes: Sequence[BaseNode],
        show_progress: bool = False,
        **kwargs: Any,  # noqa: ARG002 - pipelines hand everyone's arguments to everyone
    ) -> list[BaseNode]:
        loop = OwnLoop()
        try:
            return self._build(nodes, loop, is_async=False, show_progress=show_progress)
        finally:
            loop.close()

    async def _aparse_nodes(
        self,
        nodes: Sequence[BaseNode],
        show_progress: bool = False,
        **kwargs: Any,  # noqa: ARG002 - pipelines hand everyone's arguments to everyone
    ) -> list[BaseNode]:
        bridge = CallerLoop(asyncio.get_running_loop())
        return await asyncio.to_thread(
            self._build, nodes, bridge, is_async=True, show_progress=show_progress
        )

    def _postprocess_parsed_nodes(
        self,
        nodes: list[BaseNode],
        parent_doc_map: dict[str, Document],  # noqa: ARG002 - the hook's signature
    ) -> list[BaseNode]:
        # The default would link the last chunk to the first summary and look for summaries in the
        # document's text.
        return nodes

    def _build(
        self,
        sources: Sequence[BaseNode],
        bridge: AwaitableRunner,
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
        trees = [plan_document(_document(source), settings, counter) for source in sources]
        store = Store(self.summary_cache)
        try:
            maker = self._maker(store, bridge, counter, is_async=is_async)
            summaries = self._fill(trees, maker, show_progress=show_progress)
        finally:
            store.close()
        return [
            node
            for source, tree, made in zip(sources, trees, summaries, strict=True)
            for node in tree_to_nodes(
                Origin.of(source), [replace(n, text=made.get(n.id, n.text)) for n in tree.nodes]
            )
        ]

    def _fill(self, trees: list[Tree], maker: SummaryBuilder, *, show_progress: bool) -> list[Any]:
        total = sum(node.level > 0 for tree in trees for node in tree.nodes)
        steps = iter(get_tqdm_iterable(range(total), show_progress, "Summarizing"))
        with ContextThreads(self.num_workers, "e2graphrag-llm") as pool:
            summaries = summarize_trees(
                trees, maker, pool, lambda: next(steps, None) and None, threading.Event()
            )
        next(steps, None)  # closes the bar
        return summaries

    def _maker(
        self,
        store: Store,
        bridge: AwaitableRunner,
        counter: ApproximateTokenCounter,
        *,
        is_async: bool,
    ) -> SummaryBuilder:
        prompts = Prompts(self.chunk_prompt, self.summary_prompt)
        summarizer = summarizer_for(self.llm or settings_llm(), prompts, counter, is_async=is_async)
        return SummaryBuilder(
            summarizer=summarizer,
            fingerprint=object_fingerprint(summarizer),
            counter=counter,
            max_tokens=self.summary_tokens,
            retry=RetryPolicy(attempts=self.max_attempts),
            store=store,
            bridge=bridge,
        )


def _document(source: BaseNode) -> SourceDocument:
    # Summaries are made of the text alone: metadata would leak into every one of them.
    return SourceDocument(source.node_id, source.get_content(metadata_mode=MetadataMode.NONE))
