"""`SummaryTreeNodeParser`: split documents into chunks and summaries in any LlamaIndex pipeline."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from llama_index.core.bridge.pydantic import (
    Field,
    SerializeAsAny,
    ValidationError,
    field_serializer,
)
from llama_index.core.llms import LLM
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, Document, NodeRelationship
from llama_index.core.utils import get_tqdm_iterable

from e2graphrag_integrations._utils.concurrency import (
    AwaitableRunner,
    CallerLoop,
    ContextThreads,
    OwnLoop,
)
from e2graphrag_integrations._utils.typed_errors import checked_fields
from e2graphrag_integrations._utils.validation import check_items
from e2graphrag_integrations.corpus.page import Page, join_pages, sort_pages
from e2graphrag_integrations.corpus.trees import check_tree_per, page_tree
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.grouping import may_share_chunk
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.indexing.stages.llm_calls import (
    announce_llm_calls,
    models_of,
    plan_llm_calls,
)
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder, summarize_trees
from e2graphrag_integrations.llama_index.documents import LlamaIndexDocuments
from e2graphrag_integrations.llama_index.hits import NodeIds, node_of
from e2graphrag_integrations.llama_index.models import summarizer_for
from e2graphrag_integrations.llama_index.nodes import check_has_text
from e2graphrag_integrations.options import TreePer
from e2graphrag_integrations.pages import PAGE_ID, PAGE_KEYS, merge_metadata
from e2graphrag_integrations.protocols import object_fingerprint
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.settings import Cut, Settings
from e2graphrag_integrations.snapshot.metadata import MetadataSections
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import Node, Segment, SourceDocument, Span

_INHERITED = ("excluded_embed", "excluded_llm", "templates", "media", "source")
"""Fields of a page that its chunks inherit."""


class SummaryTreeNodeParser(NodeParser):
    """Split each document into chunks and build a tree of summaries above them.

    The result contains all chunks and summaries, with their SOURCE, PARENT, CHILD, PREVIOUS and
    NEXT relationships. The metadata keys `e2_level` (0 for chunks), `e2_kind` and `e2_tree` are
    hidden from embeddings and prompts. The ids are UUIDs derived from the text, so the same input
    gives the same ids. `include_prev_next_rel=False` leaves out PREVIOUS and NEXT.

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
        InvalidInputError: If a field is unknown, invalid or without effect here (`id_func`,
            `include_metadata`), or an image has no text.
        LLMCallLimitError: If the summaries need more than `max_llm_calls` calls.
        SummaryError: If a summary fails; finished summaries remain in `summary_cache`.
    """

    chunk_size: int = Field(default=1200, description="Maximum number of tokens per chunk.")
    chunk_overlap: int | None = Field(
        default=None,
        description="Maximum tokens shared by neighboring chunks; None means 100, but at most "
        "half of `chunk_size`, or 0 for `content` chunks.",
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
            with checked_fields(type(self), fields, ValidationError):
                super().__init__(**fields)
            self._settings()  # raises for a number out of range
            check_tree_per(self.tree_per)
            if self.id_func is not type(self).model_fields["id_func"].default:
                raise InvalidInputError(
                    "id_func has no effect: the ids are derived from the texts, so that equal "
                    "texts keep their ids; leave it out"
                )
            if not self.include_metadata:
                raise InvalidInputError(
                    "include_metadata=False has no effect: chunks keep the metadata of their "
                    "documents; delete it from the nodes, or list the keys in "
                    "excluded_embed_metadata_keys and excluded_llm_metadata_keys of the documents"
                )

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
        if not self.include_prev_next_rel:
            for node in nodes:
                node.relationships.pop(NodeRelationship.PREVIOUS, None)
                node.relationships.pop(NodeRelationship.NEXT, None)
        return nodes

    @field_serializer("tree_per")
    def _named(self, tree_per: Any) -> Any:
        """Return the name of a function, by which a cache of a pipeline tells it from others.

        A function inside another one has no such name, because it may depend on variables.
        """
        if not callable(tree_per):
            return tree_per
        name = f"{getattr(tree_per, '__module__', '')}.{getattr(tree_per, '__qualname__', '<')}"
        code = getattr(tree_per, "__code__", None)
        if "<" in name or code is None:
            return f"{name} {uuid.uuid4()}"
        return f"{name} {hashlib.sha256(_code_bytes(code)).hexdigest()}"

    def _settings(self) -> Settings:
        return Settings(
            self.chunk_size,
            self.chunk_overlap,
            self.group_size,
            self.summary_tokens,
            self.chunking,
            self.grouping,
        )

    def _build(
        self,
        documents: Sequence[BaseNode],
        runner: AwaitableRunner,
        *,
        is_async: bool,
        show_progress: bool,
    ) -> list[BaseNode]:
        settings = self._settings()
        counter = ApproximateTokenCounter()
        check_items("nodes", documents, BaseNode)
        for document in documents:
            check_has_text(document)
        # Use only the texts: metadata would leak into the summaries.
        sources = _sources(documents, self.tree_per)
        trees = [
            plan_document(source, settings, counter, source.segments, may_share_chunk)
            for source in sources
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
            planned = {tree.document_id: tree for tree in trees}
            cost = plan_llm_calls(
                sources, lambda source: planned[source.id], builder, self.max_llm_calls
            )
            announce_llm_calls(cost, models_of(builder))
            summaries: Sequence[Any] = summarize_trees(
                trees, builder, pool, lambda: next(steps, None) and None, threading.Event()
            )
        next(steps, None)  # closes the bar
        hashes = {
            one.node_id: one.hash or ""
            for document in documents
            for one in (document, document.source_node)
            if one is not None
        }
        starts = {
            document.node_id: getattr(document, "start_char_idx", None)
            for document in documents
            if document.source_node is not None
        }
        return [
            node
            for source, tree, texts in zip(sources, trees, summaries, strict=True)
            for node in _Nodes(source, tree, texts, hashes, starts).all()
        ]


def _code_bytes(code: CodeType) -> bytes:
    """Return bytes that change with the code of a function, but not with the process."""
    parts = [code.co_code, repr(code.co_names).encode()]
    for value in code.co_consts:
        if isinstance(value, CodeType):
            parts.append(_code_bytes(value))
        else:  # a frozen set has another order in each process
            ordered = sorted(map(repr, value)) if isinstance(value, frozenset) else value
            parts.append(repr(ordered).encode())
    return b"\0".join(parts)


def _sources(documents: Sequence[BaseNode], tree_per: TreePer) -> list[SourceDocument]:
    """Return the text of each tree, with a segment for each document."""
    check_tree_per(tree_per)
    format_ = LlamaIndexDocuments()
    groups: dict[str, list[Page]] = {}
    for document in documents:
        page = format_.to_page(document)
        # The nodes of another parser are split like the pages of a document.
        page = page._replace(fields={k: v for k, v in page.fields.items() if k in _INHERITED})
        groups.setdefault(page_tree(format_, document, page, tree_per).id, []).append(page)
    return [join_pages(id_, sort_pages(pages)) for id_, pages in groups.items()]


@dataclass(frozen=True)
class _Nodes:
    """The nodes of one tree.

    Attributes:
        source: The text of the tree.
        tree: The tree.
        texts: The summaries, by id.
        hashes: LlamaIndex's hashes of the documents, by id.
        starts: Where the nodes of another parser start in their documents, by id; None if unknown.
    """

    source: SourceDocument
    tree: Tree
    texts: Mapping[str, str]
    hashes: Mapping[str, str]
    starts: Mapping[str, int | None]

    def all(self) -> list[BaseNode]:
        """Return the nodes, chunks first."""
        own = [self.hashes[str(segment.metadata[PAGE_ID])] for segment in self._segments]
        joined = hashlib.sha256("".join(own).encode()).hexdigest()
        nodes = []
        for level in self.tree.levels:
            for position in range(len(level)):
                hit = self._hit(level, position)
                node = node_of(hit, NodeIds(), lambda id_: self.hashes.get(id_, joined))
                self._move(node, hit)
                nodes.append(node)
        for node in nodes:  # many vector stores refuse lists
            for key in PAGE_KEYS.values():
                if isinstance(pages := node.metadata.get(key), list):
                    node.metadata[key] = ", ".join(map(str, pages))
        return nodes

    def _move(self, node: Any, hit: RetrievedNode) -> None:
        """Let the offsets of a node refer to the document that another parser has split."""
        ids = [str(one.metadata[PAGE_ID]) for one in hit.segments]
        if self.starts.keys().isdisjoint(ids):
            return
        start = self.starts.get(ids[0]) if len(ids) == 1 else None
        length = node.end_char_idx - node.start_char_idx
        node.start_char_idx = None if start is None else start + node.start_char_idx
        node.end_char_idx = None if start is None else node.start_char_idx + length

    @property
    def _segments(self) -> list[Segment]:
        """The documents that are not blank."""
        segments = [Segment(*one) for one in self.source.segments]
        text = self.source.text
        return [one for one in segments if text[one.start : one.end].strip()] or segments

    def _hit(self, level: Sequence[Node], position: int) -> RetrievedNode:
        node, segments = level[position], self._segments
        sections = MetadataSections.of((0, one.start, row) for row, one in enumerate(segments))
        own = [
            Segment(start, end, segments[row].metadata)
            for start, end, row in sections.within(0, node.start, node.end)
        ]
        return RetrievedNode(
            node_id=node.id,
            text=self.texts.get(node.id, node.text),
            level=node.level,
            document_id=self.source.id,
            start=node.start,
            end=node.end,
            spans=(Span(node.start, node.end),),
            score=0.0,
            found_by="",
            reasons=(),
            metadata=merge_metadata([one.metadata for one in own]),
            segments=tuple(own),
            parent_id=node.parent_id,
            child_ids=node.child_ids,
            previous_id=level[position - 1].id if position else None,
            next_id=level[position + 1].id if position + 1 < len(level) else None,
            segment_start=sections.start_at(0, node.start),
        )
