"""`DocumentInput`: a user's documents and nodes as input for the insert pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.schema import BaseNode, Document

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from e2graphrag_integrations.indexing.grouping import may_share_chunk
from e2graphrag_integrations.indexing.inputs import as_list
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.llama_index.indexing.pages import (
    Page,
    PageTree,
    plain_metadata,
    user_exclusions,
)
from e2graphrag_integrations.llama_index.storage.nodes import (
    LEVEL,
    TREE,
    InheritedFields,
    NodeSource,
    check_has_text,
    decode_parts,
    node_text,
)
from e2graphrag_integrations.pages import PAGE_ID, PAGE_KEYS, merge_metadata
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.text.joining import join_chunks
from e2graphrag_integrations.tree import (
    ContentGroups,
    FixedGroups,
    Grouping,
    Tree,
    tree_from_chunks,
)
from e2graphrag_integrations.types import Node, SourceDocument, Span


@dataclass(frozen=True)
class DocumentInput:
    """One document to insert.

    Attributes:
        source: Id, text and title of the document.
        hash: LlamaIndex's hash of the document.
        metadata: Metadata of the document as plain JSON values.
        inherited: Fields that its nodes inherit.
        tree: Tree over the user's nodes; None if the document is not chunked yet.
        user_nodes: The user's nodes by id; the index stores copies of them.
        leaf_metadata: Distinct metadata of the chunks; empty if all are equal to `metadata`.
        leaf_metadata_rows: For each chunk, its rows in `leaf_metadata`.
        segments: `(start, end, metadata)` of the pages, or of a document from an index file.
        page_tree: The documents that share the tree; None if it is that of the document `id`.
        keeps_chunks: Whether a change of another page keeps the user's chunks.
        previous: Ids of the stored trees that the document or its pages come from.
    """

    source: SourceDocument
    hash: str
    metadata: Mapping[str, Any]
    inherited: InheritedFields
    tree: Tree | None = None
    user_nodes: Mapping[str, BaseNode] = field(default_factory=dict)
    leaf_metadata: Sequence[Mapping[str, Any]] = ()
    leaf_metadata_rows: Sequence[Sequence[int]] = ()
    segments: Sequence[tuple[int, int, Mapping[str, Any]]] = ()
    page_tree: PageTree | None = None
    keeps_chunks: bool = False
    previous: Sequence[str] = ()

    @property
    def id(self) -> str:
        """The document id."""
        return self.source.id

    def planned(self, settings: Settings, counter: TokenCounter) -> Tree:
        """Return the tree; summaries that the user did not pass have no text yet."""
        if self.tree is not None:
            return self.tree
        return plan_document(self.source, settings, counter, self.segments, may_share_chunk)


# Documents


def as_documents(documents: Any) -> list[Document]:
    """Return an iterable of documents as a list.

    Raises:
        InvalidInputError: If it is not an iterable.
    """
    if isinstance(documents, Document):  # iterating over a pydantic model yields its fields
        raise InvalidInputError(f"documents={short_repr(documents)} must be a list of Document")
    return as_list(documents, "documents")


def distinct_documents(documents: Any, *, need_text: bool = True) -> dict[str, Document]:
    """Return documents by id, merging identical ones.

    Args:
        documents: LlamaIndex documents.
        need_text: Whether to reject images and other media without text. A transformation may
            still describe them.

    Raises:
        InvalidInputError: If an item is not a document, has only content other than text, or its id
            or text cannot be stored.
        DuplicateDocumentError: If two different documents have the same id.
    """
    distinct: dict[str, Document] = {}
    for document in as_documents(documents):
        if not isinstance(document, Document):
            raise InvalidInputError(
                f"{short_repr(document)} is not a Document: wrap text in Document(text=...), and "
                "pass nodes to E2GraphRAGIndex(nodes=...) or insert_nodes()"
            )
        # Raises on lone surrogates and blank ids; LlamaIndex cannot hash such texts.
        SourceDocument(document.node_id, node_text(document))
        if need_text:
            check_has_text(document)
        first = distinct.setdefault(document.node_id, document)
        if first.hash != document.hash:
            raise DuplicateDocumentError(
                f"document id {document.node_id!r} is given twice with different contents: "
                "give each document its own id_"
            )
    return distinct


def input_from_page(page: Page, inherited: InheritedFields) -> DocumentInput:
    """Return the input for a document with a tree of its own."""
    return DocumentInput(
        SourceDocument(page.id, page.text, page.title), page.hash, page.metadata, inherited
    )


def input_from_page_tree(tree: PageTree) -> DocumentInput:
    """Return the input for documents that share a tree and are split together."""
    return DocumentInput(
        SourceDocument(tree.id, tree.text, tree.title),
        tree.hash,
        {},
        tree.fields(),
        page_tree=tree,
        segments=tree.segments,
    )


# Nodes


def group_by_document(nodes: Iterable[BaseNode]) -> dict[str, dict[str, BaseNode]]:
    """Return the distinct nodes of each document, by document id and node id.

    Raises:
        DuplicateDocumentError: If two different nodes have the same id.
        InvalidInputError: If a node has content, but no text.
    """
    distinct: dict[str, BaseNode] = {}
    groups: dict[str, dict[str, BaseNode]] = {}
    for node in nodes:
        check_has_text(node)
        first = distinct.setdefault(node.node_id, node)
        if first.ref_doc_id != node.ref_doc_id or node_text(first) != node_text(node):
            raise DuplicateDocumentError(
                f"node id {node.node_id!r} is given twice with different texts or documents: give "
                "each node its own id_"
            )
        groups.setdefault(node.ref_doc_id or node.node_id, {})[node.node_id] = first
    return groups


def input_from_nodes(
    document_id: str, group: Sequence[BaseNode], grouping: Grouping
) -> DocumentInput:
    """Return the input for the nodes of one document.

    Nodes from a `SummaryTreeNodeParser` keep their tree and summaries. All other nodes become the
    chunks of a new tree.

    Raises:
        InvalidInputError: If the metadata of a node is not JSON.
    """
    texts = {n.node_id: text for n in group if (text := node_text(n)).strip()}
    leaves = _in_text_order([n for n in group if not n.metadata.get(LEVEL) and n.node_id in texts])
    summary_ids = {n.node_id for n in group if n.metadata.get(LEVEL) and n.node_id in texts}
    text, spans = _join_leaves(_offsets(leaves), [texts[n.node_id] for n in leaves])
    chunks = [
        Node(n.node_id, document_id, 0, position, start, end, texts[n.node_id])
        for position, (n, (start, end)) in enumerate(zip(leaves, spans, strict=True))
    ]
    tree = _matching_tree(document_id, chunks, summary_ids, group, grouping)
    tree_ids = {node.id for node in tree.nodes}
    metadata = [plain_metadata(node.metadata, f"node {node.node_id!r}") for node in leaves]
    shared = shared_metadata(metadata)
    differs = any(own != shared for own in metadata)
    leaf_metadata, rows = _distinct_metadata([[own] for own in metadata] if differs else [])
    metadata_of_node = _metadata_of_nodes(tree, [[own] for own in metadata])
    first = leaves[0] if leaves else group[0]
    source = first.source_node
    hash_ = (source.hash if source is not None else first.hash) or ""
    page = Page(document_id, hash_, text, shared, first.excluded_embed_metadata_keys)
    return DocumentInput(
        SourceDocument(document_id, text, page.title),
        hash_,
        shared,
        InheritedFields(
            lambda _: NodeSource(document_id, hash_),
            lambda node: metadata_of_node.get(node.id, shared),
            first.excluded_embed_metadata_keys,
            first.excluded_llm_metadata_keys,
        ),
        tree=tree,
        user_nodes={node.node_id: node for node in group if node.node_id in tree_ids},
        leaf_metadata=leaf_metadata,
        leaf_metadata_rows=rows,
    )


def input_from_page_nodes(
    tree_id: str, pages: Sequence[Page], summaries: Mapping[str, BaseNode], grouping: Grouping
) -> DocumentInput:
    """Return the input for documents that share a tree and whose chunks the user passed.

    Args:
        tree_id: Id of the tree.
        pages: The documents in text order, with nodes.
        summaries: Summaries to keep if they fit the tree, by id.
        grouping: Groups the chunks under summaries.

    Raises:
        InvalidInputError: If the metadata of a node is not JSON.
    """
    joined: list[Page] = []
    spans_of_pages: list[list[Span]] = []
    for page in pages:
        leaves = _in_text_order([node for node in page.nodes if node_text(node).strip()])
        text, own_spans = _join_leaves(_offsets(leaves), [node_text(node) for node in leaves])
        # The text before the first chunk is unknown and may be long.
        skipped = own_spans[0].start if own_spans else 0
        joined.append(replace(page, nodes=leaves, text=text[skipped:]))
        spans_of_pages.append([Span(s - skipped, e - skipped) for s, e in own_spans])
    tree = PageTree.join(tree_id, joined)
    chunks: list[Node] = []
    metadata: list[dict[str, Any]] = []
    for page, page_span, own_spans in zip(joined, tree.spans, spans_of_pages, strict=True):
        for node, (start, end) in zip(page.nodes, own_spans, strict=True):
            first, last = page_span.start + start, page_span.start + end
            text = node_text(node)
            chunks.append(Node(node.node_id, tree_id, 0, len(chunks), first, last, text))
            own = plain_metadata(node.metadata, f"node {node.node_id!r}")
            metadata.append({**own, PAGE_ID: page.id})
    nodes = {node.node_id: node for page in joined for node in page.nodes} | dict(summaries)
    return _input_from_chunks(
        tree,
        tree_from_chunks(tree_id, chunks, grouping),
        [[own] for own in metadata],
        nodes,
        keeps_chunks=True,
    )


def parsed_pages(nodes: Sequence[BaseNode]) -> tuple[PageTree, Sequence[BaseNode], list[Span]]:
    """Return the documents that parsed chunks come from, the chunks in text order, and their spans.

    Args:
        nodes: Chunks of one tree from a `SummaryTreeNodeParser`, in any order.

    Raises:
        InvalidInputError: If the metadata of a node is damaged.
    """
    leaves = sorted(nodes, key=lambda node: decode_parts(node)[0].start)
    texts = [node_text(node) for node in leaves]
    parts = [decode_parts(node) for node in leaves]
    offsets = [
        (own[0].start, own[0].start + len(text)) for own, text in zip(parts, texts, strict=True)
    ]
    text, spans = _join_leaves(offsets, texts)
    bounds: dict[str, list[int]] = {}
    pages: dict[str, Page] = {}
    for node, own, span in zip(leaves, parts, spans, strict=True):
        for part in own:
            start, end = (max(0, at - own[0].start) + span.start for at in (part.start, part.end))
            first, last = bounds.get(part.document_id, (start, end))
            bounds[part.document_id] = [min(first, start), max(last, end)]
            if part.document_id not in pages:
                plain = plain_metadata(part.metadata, f"node {node.node_id!r}")
                excluded_embed, excluded_llm = user_exclusions(node)
                pages[part.document_id] = Page(
                    part.document_id, part.hash, "", plain, excluded_embed, excluded_llm
                )
    page_spans: list[Span] = []
    for first, last in bounds.values():
        previous = page_spans[-1].end if page_spans else 0
        page_spans.append(Span(max(first, previous), max(last, previous)))
    filled = [
        replace(page, text=text[start:end])
        for page, (start, end) in zip(pages.values(), page_spans, strict=True)
    ]
    return PageTree(leaves[0].metadata[TREE], text, filled, page_spans), leaves, spans


def input_from_parsed_nodes(
    nodes: Sequence[BaseNode], summaries: Mapping[str, BaseNode], grouping: Grouping
) -> DocumentInput:
    """Return the input for a tree of several documents from a `SummaryTreeNodeParser`.

    Args:
        nodes: The chunks.
        summaries: The summaries by id.
        grouping: Groups the chunks if the parser's groups cannot be recognized.
    """
    tree, leaves, spans = parsed_pages(nodes)
    chunks = [
        Node(node.node_id, tree.id, 0, position, *span, node_text(node))
        for position, (node, span) in enumerate(zip(leaves, spans, strict=True))
    ]
    group = [*leaves, *summaries.values()]
    metadata = [
        [
            {
                **plain_metadata(part.metadata, f"node {node.node_id!r}"),
                PAGE_ID: part.document_id,
            }
            for part in decode_parts(node)
        ]
        for node in leaves
    ]
    return _input_from_chunks(
        tree,
        _matching_tree(tree.id, chunks, {*summaries}, group, grouping),
        metadata,
        {node.node_id: node for node in group},
        keeps_chunks=False,
    )


def _input_from_chunks(
    page_tree: PageTree,
    tree: Tree,
    metadata: Sequence[Sequence[Mapping[str, Any]]],
    nodes: Mapping[str, BaseNode],
    *,
    keeps_chunks: bool,
) -> DocumentInput:
    """Return the input for the chunks of several documents.

    Args:
        page_tree: The documents.
        tree: The tree over the chunks.
        metadata: For each chunk, the metadata of its part on each page.
        nodes: Chunks and summaries by id.
        keeps_chunks: Whether a change of another page keeps the chunks.
    """
    leaf_metadata, rows = _distinct_metadata(metadata)
    of_pages = {json.dumps(own, sort_keys=True) for *_, own in page_tree.segments}
    is_of_page = all(json.dumps(own, sort_keys=True) in of_pages for own in leaf_metadata)
    metadata_of_node = _metadata_of_nodes(tree, metadata)
    tree_ids = {node.id for node in tree.nodes}
    kept = {id_: node for id_, node in nodes.items() if id_ in tree_ids}
    if not keeps_chunks:  # a parser joins lists of pages to strings
        kept = {
            node.id: _with_page_lists(kept[node.id], metadata_of_node[node.id])
            for node in tree.nodes
            if node.id in kept
        }
    return DocumentInput(
        SourceDocument(page_tree.id, page_tree.text, page_tree.title),
        page_tree.hash,
        {},
        replace(page_tree.fields(), metadata=lambda node: metadata_of_node[node.id]),
        tree=tree,
        user_nodes=kept,
        leaf_metadata=leaf_metadata,
        leaf_metadata_rows=rows,
        segments=page_tree.segments if is_of_page else (),
        page_tree=page_tree,
        keeps_chunks=keeps_chunks,
    )


def _metadata_of_nodes(
    tree: Tree, metadata: Sequence[Sequence[Mapping[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Return the metadata of all nodes by id, given those of each chunk, one for each page."""
    chunks = tree.levels[0] if tree.levels else ()
    below = {chunk.id: list(own) for chunk, own in zip(chunks, metadata, strict=True)}
    for node in tree.nodes:  # children come before their parents
        if node.level:
            below[node.id] = [one for child in node.child_ids for one in below[child]]
    merged = {id_: merge_metadata(records) for id_, records in below.items()}
    return {
        id_: {key: value for key, value in own.items() if key != PAGE_ID}
        for id_, own in merged.items()
    }


def _with_page_lists(node: BaseNode, metadata: Mapping[str, Any]) -> BaseNode:
    lists = {k: v for k, v in metadata.items() if k in PAGE_KEYS.values() and k in node.metadata}
    copy = node.model_copy(deep=True)
    copy.metadata = {**copy.metadata, **lists}
    return copy


def _in_text_order(leaves: Sequence[BaseNode]) -> Sequence[BaseNode]:
    """Return the chunks of a parsed tree in text order, because stores do not preserve order.

    Other nodes keep the order in which the user passed them.
    """
    starts = {n.node_id: getattr(n, "start_char_idx", None) or 0 for n in leaves}
    is_parsed = all(LEVEL in node.metadata for node in leaves)
    if not is_parsed or len(set(starts.values())) < len(leaves):
        return leaves
    return sorted(leaves, key=lambda node: starts[node.node_id])


def _matching_tree(
    document_id: str,
    chunks: Sequence[Node],
    summary_ids: set[str],
    group: Sequence[BaseNode],
    grouping: Grouping,
) -> Tree:
    """Return the tree over the chunks.

    If a different grouping yields exactly the given summaries, the parser must have used it, so
    that grouping replaces `grouping`.
    """
    tree = tree_from_chunks(document_id, chunks, grouping)
    widest = max((len(n.child_nodes or ()) for n in group if n.metadata.get(LEVEL) == 1), default=0)
    candidates: list[Grouping] = []
    if summary_ids and widest > 1:
        # Content-defined groups of size g contain (g + 1) // 2 to 2 g nodes.
        sizes = range(max(2, (widest + 1) // 2), 2 * widest)
        candidates = [FixedGroups(widest), *(ContentGroups(size) for size in sizes)]
    for candidate in candidates:
        other = tree_from_chunks(document_id, chunks, candidate)
        if candidate != grouping and {n.id for n in other.nodes if n.level} == summary_ids:
            return other
    return tree


def _offsets(leaves: Sequence[BaseNode]) -> list[tuple[int | None, int | None]]:
    return [
        (getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None))
        for node in leaves
    ]


def _join_leaves(
    offsets: Sequence[tuple[int | None, int | None]], texts: Sequence[str]
) -> tuple[str, list[Span]]:
    """Return a document text that contains the chunks, and their spans in it.

    The spans are the given offsets, unless these contradict the texts.
    """
    starts = [
        None if start is None or end is None or end - start != len(text) else start
        for (start, end), text in zip(offsets, texts, strict=True)
    ]
    joined = join_chunks(texts, starts)
    return joined.text, joined.spans


# Metadata


def shared_metadata(metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the key-value pairs that all the metadata have in common."""
    if not metadata:
        return {}
    first, *others = metadata
    return {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)}


def _distinct_metadata(
    metadata: Sequence[Sequence[Mapping[str, Any]]],
) -> tuple[list[Mapping[str, Any]], list[list[int]]]:
    """Return the distinct metadata of chunks, and each chunk's rows in that list."""
    keys = [[json.dumps(one, sort_keys=True) for one in own] for own in metadata]
    distinct: dict[str, Mapping[str, Any]] = {}
    for own_keys, own in zip(keys, metadata, strict=True):
        for key, one in zip(own_keys, own, strict=True):
            distinct.setdefault(key, one)
    row_of = {key: row for row, key in enumerate(distinct)}
    return list(distinct.values()), [[row_of[key] for key in own] for own in keys]
