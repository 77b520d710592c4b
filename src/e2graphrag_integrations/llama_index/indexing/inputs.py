"""`DocumentInput`: a user's documents and nodes as input for the insert pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.schema import BaseNode, Document

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_list
from e2graphrag_integrations.llama_index.storage.nodes import (
    LEVEL,
    OWN_KEYS,
    InheritedFields,
    check_has_text,
    node_text,
)
from e2graphrag_integrations.text.joining import join_chunks
from e2graphrag_integrations.tree import (
    ContentGroups,
    FixedGroups,
    Grouping,
    Tree,
    tree_from_chunks,
)
from e2graphrag_integrations.types import Node, SourceDocument, Span

_TITLE = "title"
"""Metadata key of a document's title."""


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
        segments: `(start, end, metadata)` of a document from an index file.
        extends: Whether the input adds nodes to a document that is already in the index.
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
    extends: bool = False

    @property
    def id(self) -> str:
        """The document id."""
        return self.source.id


# Documents


def as_documents(documents: Any) -> list[Document]:
    """Return an iterable of documents as a list.

    Raises:
        InvalidInputError: If it is not an iterable.
    """
    if isinstance(documents, Document):  # iterating over a pydantic model yields its fields
        raise InvalidInputError(f"documents={short_repr(documents)} must be a list of Document")
    return as_list(documents, "documents")


def inputs_from_documents(documents: Any, *, need_text: bool = True) -> list[DocumentInput]:
    """Convert documents to inputs, merging identical documents.

    Args:
        documents: LlamaIndex documents.
        need_text: Whether to reject images and other media without text. A transformation may
            still describe them.

    Raises:
        InvalidInputError: If an item is not a document, has only content other than text, or its
            metadata is not JSON.
        DuplicateDocumentError: If two different documents have the same id.
    """
    inputs: dict[str, DocumentInput] = {}
    for document in as_documents(documents):
        converted = _input_from_document(document)
        if need_text:
            check_has_text(document)
        first = inputs.setdefault(converted.id, converted)
        if first.hash != converted.hash:
            raise DuplicateDocumentError(
                f"document id {converted.id!r} is given twice with different contents: "
                "give each document its own id_"
            )
    return list(inputs.values())


def _input_from_document(document: Any) -> DocumentInput:
    if not isinstance(document, Document):
        raise InvalidInputError(
            f"{short_repr(document)} is not a Document: wrap text in Document(text=...), and pass "
            "nodes to E2GraphRAGIndex(nodes=...) or insert_nodes()"
        )
    metadata = _plain_metadata(document.metadata, f"document {document.node_id!r}")
    return DocumentInput(
        SourceDocument(document.node_id, node_text(document), _title(metadata, document)),
        document.hash,
        metadata,
        InheritedFields.from_document(document),
    )


def _title(metadata: Mapping[str, Any], node: BaseNode) -> str | None:
    """Return the title to embed with each chunk."""
    title = metadata.get(_TITLE)
    is_excluded = _TITLE in node.excluded_embed_metadata_keys
    return title if isinstance(title, str) and not is_excluded else None


# Nodes


def inputs_from_nodes(nodes: Sequence[BaseNode], grouping: Grouping) -> list[DocumentInput]:
    """Convert nodes, grouped by document; a node without a document becomes its own document.

    Nodes from a `SummaryTreeNodeParser` keep their tree and summaries. All other nodes become the
    chunks of a new tree.

    Args:
        nodes: LlamaIndex nodes.
        grouping: Groups the chunks under summaries.

    Raises:
        DuplicateDocumentError: If two different nodes have the same id.
        InvalidInputError: If the metadata of a node is not JSON.
    """
    return [
        _input_from_nodes(document_id, list(group.values()), grouping)
        for document_id, group in group_by_document(nodes).items()
    ]


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


def _input_from_nodes(
    document_id: str, group: Sequence[BaseNode], grouping: Grouping
) -> DocumentInput:
    texts = {n.node_id: text for n in group if (text := node_text(n)).strip()}
    leaves = _in_text_order([n for n in group if not n.metadata.get(LEVEL) and n.node_id in texts])
    summary_ids = {n.node_id for n in group if n.metadata.get(LEVEL) and n.node_id in texts}
    text, spans = _join_leaves(leaves, [texts[n.node_id] for n in leaves])
    chunks = [
        Node(n.node_id, document_id, 0, position, start, end, texts[n.node_id])
        for position, (n, (start, end)) in enumerate(zip(leaves, spans, strict=True))
    ]
    tree = _matching_tree(document_id, chunks, summary_ids, group, grouping)
    tree_ids = {node.id for node in tree.nodes}
    metadata = [_plain_metadata(node.metadata, f"node {node.node_id!r}") for node in leaves]
    shared = _shared_metadata(metadata)
    leaf_metadata, leaf_metadata_rows = _distinct_metadata(metadata, shared)
    metadata_of_node = {n.node_id: own for n, own in zip(leaves, metadata, strict=True)}
    for node in tree.nodes:  # children come before their parents
        if node.level:
            below = [metadata_of_node[child] for child in node.child_ids]
            metadata_of_node[node.id] = _shared_metadata(below)
    first = leaves[0] if leaves else group[0]
    source = first.source_node
    hash_ = (source.hash if source is not None else first.hash) or ""
    return DocumentInput(
        SourceDocument(document_id, text, _title(shared, first)),
        hash_,
        shared,
        InheritedFields(
            document_id,
            hash_,
            lambda node: metadata_of_node.get(node.id, shared),
            first.excluded_embed_metadata_keys,
            first.excluded_llm_metadata_keys,
        ),
        tree=tree,
        user_nodes={node.node_id: node for node in group if node.node_id in tree_ids},
        leaf_metadata=leaf_metadata,
        leaf_metadata_rows=leaf_metadata_rows,
    )


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


def _join_leaves(leaves: Sequence[BaseNode], texts: Sequence[str]) -> tuple[str, list[Span]]:
    """Return a document text that contains the chunks, and their spans in it.

    The spans are the nodes' own offsets, unless these contradict the texts.
    """
    starts = []
    for node, text in zip(leaves, texts, strict=True):
        start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
        is_known = start is not None and end is not None and end - start == len(text)
        starts.append(start if is_known else None)
    joined = join_chunks(texts, starts)
    return joined.text, joined.spans


# Metadata


def _plain_metadata(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return metadata as plain JSON values, without the keys of this package.

    Raises:
        InvalidInputError: If the metadata cannot be stored as UTF-8 JSON.
    """
    own = {str(key): value for key, value in metadata.items() if key not in OWN_KEYS}
    try:
        text = json.dumps(own, default=str, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"metadata of {where} is not plain JSON ({error}): use str, int, float, bool, None, "
            "lists and dicts"
        ) from error
    plain: dict[str, Any] = json.loads(text)
    return plain


def _shared_metadata(metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the key-value pairs that all the metadata have in common."""
    if not metadata:
        return {}
    first, *others = metadata
    return {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)}


def _distinct_metadata(
    metadata: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], list[list[int]]]:
    """Return the distinct metadata of chunks, and each chunk's rows in that list."""
    if all(own == shared for own in metadata):
        return [], []
    keys = [json.dumps(own, sort_keys=True) for own in metadata]
    distinct: dict[str, Mapping[str, Any]] = {}
    for key, own in zip(keys, metadata, strict=True):
        distinct.setdefault(key, own)
    row_of = {key: row for row, key in enumerate(distinct)}
    return list(distinct.values()), [[row_of[key]] for key in keys]
