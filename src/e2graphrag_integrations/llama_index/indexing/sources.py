"""What a user gives to an index, documents or nodes, as sources of its trees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    Document,
    MetadataMode,
)

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_list
from e2graphrag_integrations.llama_index.storage.nodes import (
    LEVEL,
    OWN_KEYS,
    Origin,
    link_levels,
    set_place,
    tree_to_nodes,
)
from e2graphrag_integrations.tree import (
    ContentGroups,
    FixedGroups,
    Grouping,
    Tree,
    tree_from_chunks,
)
from e2graphrag_integrations.types import Node, SourceDocument, Span

_TITLE = "title"
_WIDEST_GAP = 1_000_000
"""Characters between two given nodes beyond which their offsets make no sense."""


@dataclass(frozen=True)
class Source:
    """One document to index.

    Attributes:
        document: Its id, text and title, for the core.
        hash: LlamaIndex's hash of the document.
        metadata: Its own, as plain JSON values.
        origin: What its nodes have from it.
        tree: Over the nodes it came as; None where it is still to be cut.
        summaries: Of those, the texts that came along.
        given: The user's own nodes, by id.
        leaf_metadata: Distinct metadata of the chunks, where it differs from the document's.
        leaf_rows: For each chunk its rows in `leaf_metadata`.
        segments: As the core has them.
        grown: Whether something was added to a document that is there.
    """

    document: SourceDocument
    hash: str
    metadata: Mapping[str, Any]
    origin: Origin
    tree: Tree | None = None
    summaries: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, BaseNode] = field(default_factory=dict)
    leaf_metadata: Sequence[Mapping[str, Any]] = ()
    leaf_rows: Sequence[Sequence[int]] = ()
    segments: Sequence[tuple[int, int, Mapping[str, Any]]] = ()
    grown: bool = False

    def of_leaf(self, nodes: Sequence[Node]) -> Sequence[Sequence[int]]:
        """Return for each chunk the rows of `leaf_metadata` it stands under."""
        return self.leaf_rows or [()] * sum(node.level == 0 for node in nodes)

    def to_nodes(self, nodes: Sequence[Node]) -> list[BaseNode]:
        """Return the finished tree as LlamaIndex nodes; the user's own stay what they were."""
        made = tree_to_nodes(self.origin, nodes)
        for row, node in enumerate(nodes):
            own = self.given.get(node.id)
            if own is not None:
                made[row] = own.model_copy(deep=True)
                set_place(made[row], node)
        if self.given:
            link_levels(made, nodes)
        return made


def of_document(document: Any) -> Source:
    """Return a LlamaIndex document as a source.

    Raises:
        InvalidInputError: If it is no document, or has no usable id or text.
    """
    if not isinstance(document, Document):
        raise InvalidInputError(
            f"{short_repr(document)} is no Document: wrap text as Document(text=...), and give nodes to "
            "E2GraphRAGIndex(nodes=...) or insert_nodes()"
        )
    metadata = plain_metadata(document.metadata, f"document {document.node_id!r}")
    title = metadata.get(_TITLE)
    hidden = _TITLE in document.excluded_embed_metadata_keys
    return Source(
        SourceDocument(
            document.node_id,
            document.get_content(metadata_mode=MetadataMode.NONE),
            title if isinstance(title, str) and not hidden else None,
        ),
        document.hash,
        metadata,
        Origin.of(document),
    )


def as_documents(given: Any) -> list[Document]:
    """Return what was given as documents as a list.

    Raises:
        InvalidInputError: If it cannot be one.
    """
    if isinstance(given, Document):  # pydantic would iterate over its fields
        raise InvalidInputError(f"documents={short_repr(given)} must be a list of Document")
    return as_list(given, "documents")


def of_documents(documents: Any) -> list[Source]:
    """Return documents as sources, each once.

    Raises:
        InvalidInputError: For something that is no document.
        DuplicateDocumentError: For an id given twice with different contents.
    """
    sources: dict[str, Source] = {}
    for document in as_documents(documents):
        source = of_document(document)
        before = sources.setdefault(source.document.id, source)
        if before.hash != source.hash:
            raise DuplicateDocumentError(
                f"document id {source.document.id!r} is given twice with different contents: give "
                "each an id_ of its own"
            )
    return list(sources.values())


def of_nodes(nodes: Sequence[BaseNode], grouping: Grouping) -> list[Source]:
    """Return nodes as sources, grouped by their documents; a node without one is its own.

    Nodes of a `SummaryTreeNodeParser` bring their summaries along; over any other a tree is built.
    """
    groups: dict[str, list[BaseNode]] = {}
    for node in once(nodes):
        groups.setdefault(node.ref_doc_id or node.node_id, []).append(node)
    return [_of_group(document_id, group, grouping) for document_id, group in groups.items()]


def once(nodes: Sequence[BaseNode]) -> list[BaseNode]:
    """Return nodes, each once.

    Raises:
        DuplicateDocumentError: If two different ones have one id.
    """
    seen: dict[str, BaseNode] = {}
    for node in nodes:
        before = seen.setdefault(node.node_id, node)
        if before.ref_doc_id != node.ref_doc_id or _text(before) != _text(node):
            raise DuplicateDocumentError(
                f"node id {node.node_id!r} is given twice with different texts or documents: give "
                "each an id_ of its own"
            )
    return list(seen.values())


def _of_group(document_id: str, group: Sequence[BaseNode], grouping: Grouping) -> Source:
    texts = {node.node_id: _text(node) for node in group}
    chosen = [n for n in group if not n.metadata.get(LEVEL) and texts[n.node_id].strip()]
    leaves = {n.node_id: n for n in _in_order(chosen)}
    summaries = {
        n.node_id: texts[n.node_id]
        for n in group
        if n.metadata.get(LEVEL) and texts[n.node_id].strip()
    }
    text, spans = _joined(leaves.values(), texts)
    chunks = [
        Node(id_, document_id, 0, position, start, end, texts[id_])
        for position, (id_, (start, end)) in enumerate(zip(leaves, spans, strict=True))
    ]
    tree = _tree(document_id, chunks, summaries, group, grouping)
    there = {node.id for node in tree.nodes}
    metadata = {id_: plain_metadata(node.metadata, f"node {id_!r}") for id_, node in leaves.items()}
    common = _agreed(list(metadata.values()))
    distinct, rows = _distinct(list(metadata.values()), common)
    below = _below(tree, metadata)
    first = next(iter(leaves.values()), group[0])
    title = common.get(_TITLE)
    hidden = _TITLE in first.excluded_embed_metadata_keys
    source_node = first.source_node
    hash_ = (source_node.hash if source_node is not None else first.hash) or ""
    return Source(
        SourceDocument(document_id, text, title if isinstance(title, str) and not hidden else None),
        hash_,
        common,
        Origin(
            document_id,
            hash_,
            lambda node: below.get(node.id, common),
            first.excluded_embed_metadata_keys,
            first.excluded_llm_metadata_keys,
        ),
        tree=tree,
        summaries={id_: summary for id_, summary in summaries.items() if id_ in there},
        given={node.node_id: node for node in group if node.node_id in there},
        leaf_metadata=distinct,
        leaf_rows=rows,
    )


def _in_order(leaves: Sequence[BaseNode]) -> Sequence[BaseNode]:
    """Return the chunks of a finished tree as they stand in the text: stores keep no order."""
    starts = {n.node_id: getattr(n, "start_char_idx", None) or 0 for n in leaves}
    finished = all(LEVEL in node.metadata for node in leaves)
    if not finished or len(set(starts.values())) < len(leaves):
        return leaves  # as they were given
    return sorted(leaves, key=lambda node: starts[node.node_id])


def _tree(
    document_id: str,
    chunks: Sequence[Node],
    summaries: Mapping[str, str],
    group: Sequence[BaseNode],
    grouping: Grouping,
) -> Tree:
    """Return the tree over chunks; grouped in another way, if the summaries show it."""
    tree = tree_from_chunks(document_id, chunks, grouping)
    widest = max((len(n.child_nodes or ()) for n in group if n.metadata.get(LEVEL) == 1), default=0)
    others: list[Grouping] = []
    if summaries and widest > 1:
        # Content groups of size g hold (g + 1) // 2 to 2 g nodes.
        sizes = range(max(2, (widest + 1) // 2), 2 * widest)
        others = [FixedGroups(widest), *(ContentGroups(size) for size in sizes)]
    for other in others:
        found = tree_from_chunks(document_id, chunks, other)
        if other != grouping and {n.id for n in found.nodes if n.level} == set(summaries):
            return found
    return tree


def _text(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.NONE)


def _joined(leaves: Any, texts: Mapping[str, str]) -> tuple[str, list[Span]]:
    """Return a text with the leaves in it: at their own offsets if those make sense."""
    spans: list[Span] = []
    parts: list[str] = []
    at, before = 0, ""
    for node in leaves:
        text = texts[node.node_id]
        start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
        after = not spans or (start is not None and start > spans[-1].start)
        far = start is not None and start - at > _WIDEST_GAP
        if start is None or end is None or end - start != len(text) or not after or end < at or far:
            return _side_by_side([texts[leaf.node_id] for leaf in leaves])
        shared = max(0, at - start)
        if shared and before[-shared:] != text[:shared]:
            return _side_by_side([texts[leaf.node_id] for leaf in leaves])
        parts += [" " * max(0, start - at), text[shared:]]
        spans.append(Span(start, end))
        at, before = end, text
    return "".join(parts), spans


def _side_by_side(texts: Sequence[str]) -> tuple[str, list[Span]]:
    spans, at = [], 0
    for text in texts:
        spans.append(Span(at, at + len(text)))
        at += len(text) + 2
    return "\n\n".join(texts), spans


def plain_metadata(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return metadata as plain JSON values, without those that tell a node's place.

    Raises:
        InvalidInputError: If they cannot be stored as JSON in UTF-8.
    """
    own = {str(key): value for key, value in metadata.items() if key not in OWN_KEYS}
    try:
        text = json.dumps(own, default=str, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"metadata of {where} is not plain JSON ({error}); use str, int, float, bool, None, "
            "lists and dicts"
        ) from error
    plain: dict[str, Any] = json.loads(text)
    return plain


def _below(tree: Tree, leaves: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each node of a tree the metadata that all chunks under it agree on."""
    agreed = dict(leaves)
    for node in tree.nodes:  # children come first
        if node.level:
            agreed[node.id] = _agreed([agreed[child] for child in node.child_ids])
    return agreed


def _agreed(metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not metadata:
        return {}
    first, *others = metadata
    return {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)}


def _distinct(
    metadata: Sequence[Mapping[str, Any]], common: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], list[list[int]]]:
    if all(m == common for m in metadata):
        return [], []
    rows: dict[str, int] = {}
    distinct: list[Mapping[str, Any]] = []
    of_leaf = []
    for one in metadata:
        key = json.dumps(one, sort_keys=True)
        if key not in rows:
            rows[key] = len(distinct)
            distinct.append(one)
        of_leaf.append([rows[key]])
    return distinct, of_leaf
