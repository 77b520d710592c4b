"""Pages: LlamaIndex documents that share a summary tree, such as the pages of a PDF."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from llama_index.core.schema import BaseNode, Document

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import short_repr, wrap_errors
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.indexing.grouping import Tree, tree_of
from e2graphrag_integrations.indexing.scope_keys import scoped_tree_name
from e2graphrag_integrations.llama_index.storage.nodes import (
    OWN_KEYS,
    PAGES,
    InheritedFields,
    NodeSource,
    PagePart,
    encode_parts,
    node_text,
)
from e2graphrag_integrations.llama_index.storage.record import PageRecord
from e2graphrag_integrations.pages import PAGE_ID, PAGE_KEYS, merge_metadata
from e2graphrag_integrations.types import Node, Span

TREE_PER_VALUES = ("source", "document", "corpus")
"""The named values of `TreePer`."""

TreePer = Literal["source", "document", "corpus"] | Callable[[Document], str]
"""A named rule for sharing summary trees, or a function that returns a document's source."""

FUNCTION = "function"
"""Name under which an index records that `tree_per` is a function."""

_SOURCE_KEYS = ("file_path", "source")
"""Metadata keys that name the source of a document, in order of preference."""

_TITLE = "title"
"""Metadata key of a document's title."""

_SEPARATOR = "\n\n"
"""Separates the texts of two pages in the text of their tree."""

_PLURALS = tuple(PAGE_KEYS.values())


@dataclass(frozen=True, slots=True)
class Page:
    """A LlamaIndex document as a part of a tree.

    Attributes:
        id: Id of the document.
        hash: LlamaIndex's hash of the document.
        text: Text of the document.
        metadata: Metadata of the document as plain JSON values.
        excluded_embed: Metadata keys that are not embedded.
        excluded_llm: Metadata keys that are not shown to an LLM.
        nodes: The chunks of the document, if the user passed them; the text then consists of them.
    """

    id: str
    hash: str
    text: str
    metadata: Mapping[str, Any]
    excluded_embed: Sequence[str] = ()
    excluded_llm: Sequence[str] = ()
    nodes: Sequence[BaseNode] = ()

    @property
    def title(self) -> str | None:
        """The title to embed with each chunk."""
        title = self.metadata.get(_TITLE)
        is_hidden = _TITLE in self.excluded_embed
        return title if isinstance(title, str) and not is_hidden else None


def page_of(document: BaseNode) -> Page:
    """Return a LlamaIndex document as a page.

    Raises:
        InvalidInputError: If its metadata is not JSON.
    """
    metadata = plain_metadata(document.metadata, f"document {document.node_id!r}")
    return Page(
        document.node_id,
        document.hash,
        node_text(document),
        _with_page_label(metadata),
        document.excluded_embed_metadata_keys,
        document.excluded_llm_metadata_keys,
    )


def plain_metadata(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
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


def user_exclusions(node: BaseNode) -> tuple[list[str], list[str]]:
    """Return the metadata keys that the user hides from embeddings and from prompts."""
    embed, llm = (
        [key for key in keys if key not in OWN_KEYS]
        for keys in (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys)
    )
    return embed, llm


def _with_page_label(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a page with its label, which PyMuPDFReader stores as `source`."""
    has_label = any(key in metadata for key in PAGE_KEYS)
    if has_label or not {"total_pages", "file_path", "source"} <= metadata.keys():
        return metadata
    return metadata | {"page_label": str(metadata["source"])}


# Trees


def check_tree_per(tree_per: Any) -> TreePer:
    """Return the argument `tree_per`.

    Raises:
        InvalidInputError: If it is neither a known name nor a function.
    """
    if not callable(tree_per) and tree_per not in TREE_PER_VALUES:
        raise InvalidInputError(
            f"tree_per={short_repr(tree_per)} must be one of {', '.join(TREE_PER_VALUES)}, or a "
            "function"
        )
    checked: TreePer = tree_per
    return checked


def resolve_tree_per(requested: TreePer | None, stored: str, where: str) -> TreePer | None:
    """Combine the argument `tree_per` with the name stored in an index.

    Args:
        requested: The argument; None means the stored rule, or `"source"` if none is stored.
        stored: The stored name; empty if there is none.
        where: Name of the index in error messages.

    Returns:
        The rule, or None if the index was built with a function that the user did not pass.

    Raises:
        InvalidInputError: If the argument is neither a known name nor a function.
        SettingsMismatchError: If the index was built with a different rule.
    """
    if requested is None:
        return None if stored == FUNCTION else check_tree_per(stored or "source")
    name = requested if isinstance(check_tree_per(requested), str) else FUNCTION
    if stored not in ("", name):
        raise SettingsMismatchError(
            f"{where} was built with tree_per={stored!r}, not {name!r}: omit tree_per, or build a "
            "new index"
        )
    return requested


def source_tree(page: Page, scope_keys: Sequence[str] = ()) -> Tree:
    """Return the tree that a document shares with the other parts of its source."""
    return tree_of(page.id, page.metadata, _SOURCE_KEYS, scope_keys)


def tree_id(tree_per: TreePer, page: Page, scope_keys: Sequence[str] = ()) -> str:
    """Return the id of the tree that a document belongs to.

    Args:
        tree_per: Decides which documents share a tree.
        page: The document.
        scope_keys: Metadata keys on which all documents of a tree agree.

    Raises:
        InvalidInputError: If the user's function fails or does not return a non-empty string.
    """
    if tree_per == "corpus":
        return scoped_tree_name("corpus", page.metadata, scope_keys)
    if tree_per == "document":
        return page.id
    if tree_per == "source":
        return source_tree(page, scope_keys).id
    document = Document(id_=page.id, text=page.text, metadata=dict(page.metadata))
    with wrap_errors(InvalidInputError, f"tree_per failed on document {page.id!r}"):
        name = tree_per(document)
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(
            f"tree_per returned {short_repr(name)} for document {page.id!r}: return the name of "
            "its tree as a non-empty string"
        )
    return scoped_tree_name(name, page.metadata, scope_keys)


def sort_pages(pages: Sequence[Page]) -> list[Page]:
    """Return the pages of a tree file by file, and those of a file by their numbers.

    If a page has no number, or two pages have the same one, the pages keep the given order: the
    labels of some PDFs are Roman numerals, or start again in an appendix.
    """
    files: dict[str, list[Page]] = {}
    for page in pages:
        source = next((page.metadata[key] for key in _SOURCE_KEYS if page.metadata.get(key)), None)
        files.setdefault(page.id if source is None else str(source), []).append(page)
    ordered: list[Page] = []
    for own in files.values():
        numbers = {page.id: _page_number(page) for page in own}
        known = [number for number in numbers.values() if number is not None]
        if len(set(known)) == len(own):
            own.sort(key=lambda page: numbers[page.id] or 0)
        ordered += own
    return ordered


def _page_number(page: Page) -> int | None:
    for key in PAGE_KEYS:
        value = page.metadata.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.isdecimal():
            return int(value)
    return None


@dataclass(frozen=True)
class PageTree:
    """The text of a tree, and the documents that it consists of.

    Attributes:
        id: Id of the tree.
        text: The text of all pages.
        pages: The pages in text order.
        spans: The span of each page in the text.
    """

    id: str
    text: str
    pages: Sequence[Page]
    spans: Sequence[Span]

    @classmethod
    def join(cls, id_: str, pages: Sequence[Page]) -> PageTree:
        """Return the tree of the given pages, separated by blank lines.

        The text of a blank page is empty, so that no chunk touches it.
        """
        pages = [page if page.text.strip() else replace(page, text="") for page in pages]
        spans, start = [], 0
        for page in pages:
            spans.append(Span(start, start + len(page.text)))
            start = spans[-1].end + len(_SEPARATOR)
        return cls(id_, _SEPARATOR.join(page.text for page in pages), pages, spans)

    @property
    def is_document(self) -> bool:
        """Whether the tree is that of a single document with the same id."""
        return len(self.pages) == 1 and self.pages[0].id == self.id

    @lazy
    def hash(self) -> str:
        """Return a hash of all pages."""
        if len(self.pages) == 1:
            return self.pages[0].hash
        parts = (f"{len(part)}:{part}" for page in self.pages for part in (page.id, page.hash))
        return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def title(self) -> str | None:
        """The title that all pages share."""
        titles = {page.title for page in self.pages}
        return titles.pop() if len(titles) == 1 else None

    @property
    def records(self) -> list[PageRecord]:
        """The pages as stored in the index struct."""
        return [
            PageRecord(
                page.id,
                page.hash,
                *span,
                page.metadata,
                list(page.excluded_embed),
                list(page.excluded_llm),
            )
            for page, span in zip(self.pages, self.spans, strict=True)
        ]

    @property
    def segments(self) -> list[tuple[int, int, Mapping[str, Any]]]:
        """`(start, end, metadata)` of each page; the metadata includes the id of the page."""
        return [
            (*span, {**page.metadata, PAGE_ID: page.id})
            for page, span in zip(self.pages, self.spans, strict=True)
        ]

    @lazy
    def _visible(self) -> tuple[Sequence[int], Sequence[int]]:
        """The starts and the rows of the pages that are not blank, which have no chunks."""
        rows = [
            row for row, (start, end) in enumerate(self.spans) if self.text[start:end].strip()
        ] or [0]
        return [self.spans[row].start for row in rows], rows

    def leaf_metadata(
        self, chunks: Sequence[Node]
    ) -> tuple[Sequence[Mapping[str, Any]], Sequence[Sequence[int]]]:
        """Return the metadata of the pages with text, and each chunk's rows in that list."""
        row_of = {row: number for number, row in enumerate(self._visible[1])}
        segments = self.segments
        metadata = [segments[row][2] for row in row_of]
        rows = [[row_of[row] for row in self.rows_under(chunk)] for chunk in chunks]
        return metadata, rows

    def rows_under(self, node: Node) -> Sequence[int]:
        """Return the rows of the pages that a node touches; a page extends to the next one."""
        starts, rows = self._visible
        first = max(bisect_right(starts, node.start) - 1, 0)
        return rows[first : max(bisect_left(starts, node.end), first + 1)]

    def parts(self, chunk: Node) -> list[PagePart]:
        """Return the parts of a chunk that lie on different pages."""
        rows = self.rows_under(chunk)
        starts = [chunk.start, *(self.spans[row].start for row in rows[1:])]
        ends = [*(self.spans[row].end for row in rows[:-1]), chunk.end]
        return [
            PagePart(self.pages[row].id, self.pages[row].hash, start, end, self.pages[row].metadata)
            for row, start, end in zip(rows, starts, ends, strict=True)
        ]

    def fields(self, *, flat: bool = False) -> InheritedFields:
        """Return the fields that the nodes inherit.

        Args:
            flat: Whether to join lists of pages to a string, for stores without nested metadata.
        """
        own_source = NodeSource(self.id, self.hash)

        def source(node: Node) -> NodeSource:
            first, *others = self.rows_under(node)
            page = self.pages[first]
            return own_source if others else NodeSource(page.id, page.hash, self.spans[first].start)

        def metadata(node: Node) -> Mapping[str, Any]:
            merged = self.metadata_of(node)
            if flat:
                merged = flat_pages(merged)
            return merged if node.level else merged | {PAGES: encode_parts(self.parts(node))}

        shown = {key for page in self.pages for key in page.metadata}
        added = [key for key in _PLURALS if key not in shown]
        first = self.pages[0]
        return InheritedFields(
            source, metadata, [*first.excluded_embed, *added], first.excluded_llm, added
        )

    def metadata_of(self, node: Node) -> dict[str, Any]:
        """Return the metadata of a node: that of all pages that it touches."""
        return merge_metadata([self.pages[row].metadata for row in self.rows_under(node)])


def flat_pages(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata in which a list of pages is a string."""
    return {
        key: ", ".join(map(str, value)) if key in _PLURALS and isinstance(value, list) else value
        for key, value in metadata.items()
    }
