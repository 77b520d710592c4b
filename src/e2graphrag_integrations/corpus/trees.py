"""Which documents of a framework share a summary tree, as the user says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from e2graphrag_integrations._utils.validation import short_repr, wrap_errors
from e2graphrag_integrations.corpus.page import Page
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.grouping import Tree, tree_of
from e2graphrag_integrations.indexing.scope_keys import scoped_tree_name
from e2graphrag_integrations.options import TREE_PER_VALUES, TreePer
from e2graphrag_integrations.pages import PAGE_KEYS

D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)


class DocumentFormat(Protocol[D_co]):
    """How the documents of a framework become pages, and pages become documents."""

    @property
    def source_keys(self) -> Sequence[str]:
        """Metadata keys that name the source of a document, in order of preference."""

    def to_page(self, document: Any) -> Page:
        """Return a document as a page.

        Raises:
            InvalidInputError: If it is not a document, or cannot be stored.
        """

    def to_document(self, page: Page) -> D_co:
        """Return a page as it was added."""

    def own_tree(self, page: Page, scope_keys: Sequence[str]) -> str:
        """Return the id of the tree of a document that shares it with no other."""

    def problem(
        self, sources: Sequence[tuple[str, Sequence[Page]]], tree_per: TreePer
    ) -> str | None:
        """Return what is wrong with the pages of some sources, if anything, for a warning."""


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


def page_tree(
    format_: DocumentFormat[D],
    document: D | Page,
    page: Page,
    tree_per: TreePer,
    scope_keys: Sequence[str] = (),
) -> Tree:
    """Return the summary tree of a document.

    Args:
        format_: The framework of the document.
        document: The document.
        page: The same as a page.
        tree_per: Decides which documents share a tree.
        scope_keys: Metadata keys on which all documents of a tree agree.

    Raises:
        InvalidInputError: If the user's function fails, or does not return a non-empty string.
    """
    if callable(tree_per):
        with wrap_errors(InvalidInputError, f"tree_per failed on document {page.id!r}"):
            name = tree_per(
                format_.to_document(document) if isinstance(document, Page) else document
            )
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(
                f"tree_per returned {short_repr(name)} for document {page.id!r}: return the name "
                "of its source as a non-empty string"
            )
        return Tree(scoped_tree_name(name, page.metadata, scope_keys))
    if tree_per == "corpus":
        return Tree(scoped_tree_name("corpus", page.metadata, scope_keys))
    if tree_per == "document":
        return Tree(page.source)
    metadata = page.metadata
    if "parts" in page.fields:  # it lists its pages
        metadata = {k: v for k, v in metadata.items() if k not in PAGE_KEYS.values()}
    tree = tree_of(page.source, metadata, format_.source_keys, scope_keys)
    return tree if tree.reasons else Tree(format_.own_tree(page, scope_keys))
