"""Conversion of LlamaIndex documents and nodes to pages, and of pages to nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.constants import DATA_KEY, TYPE_KEY
from llama_index.core.schema import BaseNode, Document, ImageNode, TextNode
from llama_index.core.storage.docstore.utils import json_to_doc

from e2graphrag_integrations._utils.validation import plain_json, short_repr
from e2graphrag_integrations.corpus.page import Page
from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_list
from e2graphrag_integrations.llama_index.nodes import (
    MEDIA,
    OWN_KEYS,
    TREE,
    check_has_text,
    decode_parts,
    level_of,
    node_text,
)
from e2graphrag_integrations.options import TreePer
from e2graphrag_integrations.pages import PAGE_KEYS, page_values
from e2graphrag_integrations.types import SourceDocument

_EXCLUDED = {
    "excluded_embed": "excluded_embed_metadata_keys",
    "excluded_llm": "excluded_llm_metadata_keys",
}
"""Fields of a page with the metadata keys that are not embedded or not shown to an LLM."""

_TEMPLATES = ("metadata_template", "metadata_separator", "text_template")
"""Fields of a node that say how its text and metadata are joined."""

_PLAIN = TextNode()


class LlamaIndexDocuments:
    """LlamaIndex documents and nodes as pages; see `DocumentFormat`.

    A document becomes a page, which the index splits. Any other node becomes a chunk, which keeps
    its id.
    """

    source_keys = ("file_path", "source")

    def to_page(self, document: Any) -> Page:
        """Return a document or a node as a page.

        Raises:
            InvalidInputError: If it is neither, its text or id cannot be stored, or its metadata
                is not JSON.
        """
        if not isinstance(document, BaseNode):
            raise InvalidInputError(
                f"{short_repr(document)} is not a Document: wrap text in Document(text=...)"
            )
        check_has_text(document)
        # Raises on lone surrogates and blank ids.
        SourceDocument(document.node_id, node_text(document))
        is_document = isinstance(document, Document)
        kind = "document" if is_document else "node"
        metadata = _plain_metadata(document.metadata, f"{kind} {document.node_id!r}")
        fields = _document_fields(document) if is_document else _chunk_fields(document)
        metadata |= _page_lists(metadata, fields.get("parts", ()))
        return Page(
            document.node_id,
            node_text(document),
            _with_page_label(metadata),
            fields | _shown_fields(document),
        )

    def to_document(self, page: Page) -> BaseNode:
        """Return a page as it was added."""
        if page.is_chunk:
            return restored_chunk(page.fields, id_=page.id, text=page.text, metadata=page.metadata)
        own = {name: page.fields[key] for key, name in _EXCLUDED.items() if key in page.fields}
        own |= page.fields.get("media", {})
        return Document(id_=page.id, text=page.text, metadata=dict(page.metadata), **own)

    def own_tree(self, page: Page, scope_keys: Sequence[str]) -> str:
        """Return the id of the document, whose tree contains no other."""
        del scope_keys
        return page.source

    def problem(
        self, sources: Sequence[tuple[str, Sequence[Page]]], tree_per: TreePer
    ) -> str | None:
        """Return None: LlamaIndex's node parsers set the offsets of all nodes."""
        del sources, tree_per
        return None


def restored_chunk(fields: Mapping[str, Any], **values: Any) -> BaseNode:
    """Return a chunk as a node of the class that the user passed.

    A chunk of a document with an image is an `ImageNode`, as with LlamaIndex's node parsers.

    Args:
        fields: The fields of its page.
        values: Fields of the node, with the names of `TextNode`.
    """
    text = values.pop("text")
    hidden = {name: list(fields.get(key, ())) for key, name in _EXCLUDED.items()}
    values = hidden | dict(fields.get("templates", ())) | values
    node: Any = TextNode()
    if "node" in fields:
        type_, data = fields["node"]
        node = json_to_doc({TYPE_KEY: type_, DATA_KEY: data})
    elif image := fields.get("media", {}).get("image_resource"):
        node = ImageNode(
            image=image.get("data"),
            image_path=image.get("path"),
            image_url=image.get("url"),
            image_mimetype=image.get("mimetype"),
        )
    for name, value in values.items():
        if hasattr(node, name):
            setattr(node, name, value)
    node.set_content(text)
    restored: BaseNode = node
    return restored


def is_same(page: Page, other: Page) -> bool:
    """Return whether two pages differ at most in the hash, which the order of keys changes."""
    return _unhashed(page) == _unhashed(other)


def _unhashed(page: Page) -> Page:
    return page._replace(fields={k: v for k, v in page.fields.items() if k != "hash"})


def hidden_keys(fields: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the metadata keys that embeddings, and that prompts, do not contain."""
    embed, llm = (list(fields.get(key, ())) for key in _EXCLUDED)
    return embed, llm


def distinct_documents(documents: Any, *, need_text: bool = True) -> list[Document]:
    """Return documents without those that are given twice.

    Args:
        documents: LlamaIndex documents.
        need_text: Whether to reject images and other media without text. A transformation may
            still describe them.

    Raises:
        InvalidInputError: If an item is not a document, or has only content other than text.
        DuplicateDocumentError: If two different documents have the same id.
    """
    if isinstance(documents, Document):  # iterating over a pydantic model yields its fields
        raise InvalidInputError(f"documents={short_repr(documents)} must be a list of Document")
    distinct: dict[str, Document] = {}
    for document in as_list(documents, "documents"):
        if not isinstance(document, Document):
            raise InvalidInputError(
                f"{short_repr(document)} is not a Document: wrap text in Document(text=...), and "
                "pass nodes to E2GraphRAGIndex(nodes=...) or insert_nodes()"
            )
        SourceDocument(document.node_id, node_text(document))  # LlamaIndex cannot hash some texts
        if need_text:
            check_has_text(document)
        if distinct.setdefault(document.node_id, document).hash != document.hash:
            raise DuplicateDocumentError(
                f"document id {document.node_id!r} is given twice with different contents: "
                "give each document its own id_"
            )
    return list(distinct.values())


def distinct_nodes(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Return nodes without those that are given twice.

    Raises:
        DuplicateDocumentError: If two different nodes have the same id.
    """
    distinct: dict[str, BaseNode] = {}
    for node in nodes:
        first = distinct.setdefault(node.node_id, node)
        if _content(first) != _content(node):
            raise DuplicateDocumentError(
                f"node id {node.node_id!r} is given twice with different texts, metadata or "
                "documents: give each node its own id_"
            )
    return list(distinct.values())


def _content(node: BaseNode) -> tuple[Any, ...]:
    return node.ref_doc_id, node_text(node), node.metadata


def is_summary(node: BaseNode) -> bool:
    """Return whether a node is a summary from a `SummaryTreeNodeParser`."""
    return level_of(node) > 0


def _document_fields(document: BaseNode) -> dict[str, Any]:
    media = _media(document)
    return {"hash": document.hash} | ({"media": media} if media else {})


def _media(node: BaseNode) -> dict[str, Any]:
    """Return the content of a node that is not text, by field, as JSON values."""
    media: dict[str, Any] = {}
    for name in MEDIA:
        resource = getattr(node, name, None)
        if resource is not None:
            media[name] = resource.model_dump(
                mode="json", exclude={"embeddings"}, exclude_none=True
            )
            if resource.data is not None:  # LlamaIndex never serializes it
                media[name]["data"] = resource.data.decode()
    return media


def _chunk_fields(node: BaseNode) -> dict[str, Any]:
    source = node.source_node
    fields: dict[str, Any] = {"chunk": True, "start": getattr(node, "start_char_idx", None)}
    parts = decode_parts(node)
    if parts and TREE in node.metadata:
        fields["offset"] = fields["start"]  # in its SOURCE
        fields |= {"parts": [list(part) for part in parts], "start": parts[0].start}
    if source is not None:
        fields |= {"source": source.node_id, "hash": source.hash or ""}
    if type(node) is not TextNode:
        data = {k: v for k, v in node.to_dict(mode="json").items() if k not in _TEXT_NODE_FIELDS}
        fields["node"] = [node.get_type(), data | _media(node)]
    return fields


def _page_lists(metadata: Mapping[str, Any], parts: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the lists of pages in the metadata of a parsed chunk, which has them as strings."""
    return {
        plural: page_values([own for *_, own in parts], key)
        for key, plural in PAGE_KEYS.items()
        if plural in metadata and len(parts) > 1
    }


_TEXT_NODE_FIELDS = frozenset(TextNode.model_fields) | {"text_resource"}


def _shown_fields(node: BaseNode) -> dict[str, Any]:
    fields: dict[str, Any] = {
        key: own
        for key, name in _EXCLUDED.items()
        if (own := [one for one in getattr(node, name) if one not in OWN_KEYS])
    }
    templates = {
        name: value
        for name in _TEMPLATES
        if isinstance(value := getattr(node, name, None), str) and value != getattr(_PLAIN, name)
    }
    return fields | ({"templates": templates} if templates else {})


def _plain_metadata(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return metadata as plain JSON values, without the keys of this package.

    Raises:
        InvalidInputError: If the metadata cannot be stored as UTF-8 JSON.
    """
    own = {str(key): value for key, value in metadata.items() if key not in OWN_KEYS}
    return plain_json(own, where, str)


def _with_page_label(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a page with its label, which PyMuPDFReader stores as `source`."""
    has_label = any(key in metadata for key in PAGE_KEYS)
    if has_label or not {"total_pages", "file_path", "source"} <= metadata.keys():
        return metadata
    return metadata | {"page_label": str(metadata["source"])}
