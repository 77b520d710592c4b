"""What a write of LlamaIndex documents or nodes changes in an index."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from llama_index.core.schema import BaseNode, Document

from e2graphrag_integrations.corpus.corpus import Corpus
from e2graphrag_integrations.corpus.page import Page
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import DuplicateDocumentError
from e2graphrag_integrations.llama_index.documents import (
    distinct_documents,
    distinct_nodes,
    is_same,
    is_summary,
)
from e2graphrag_integrations.llama_index.nodes import decode_parts, level_of, node_text
from e2graphrag_integrations.llama_index.removed_text import rest_of
from e2graphrag_integrations.text.joined_chunks import join_chunks
from e2graphrag_integrations.tree import without_overlap
from e2graphrag_integrations.types import Node

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Change:
    """The changes of one write.

    Attributes:
        stored: Pages to add, or to replace those with the same ids.
        removed: Ids of pages to remove.
        changed: Ids of the new and changed documents.
        unchanged: Ids of the documents that are in the index already.
        summaries: Summaries of a `SummaryTreeNodeParser` to use again, and the nodes below them.
    """

    stored: Sequence[Page] = ()
    removed: Sequence[str] = ()
    changed: frozenset[str] = frozenset()
    unchanged: tuple[str, ...] = ()
    summaries: Sequence[BaseNode] = field(default=())


@dataclass(frozen=True)
class ParsedDocuments:
    """The documents that nodes were made from.

    Attributes:
        ids: Ids of those that seemed new or changed. The nodes replace their indexed versions, also
            if there are none.
        unchanged: Ids of the others, which gave no nodes.
        may_replace: Whether an indexed version may differ.
    """

    ids: frozenset[str] = frozenset()
    unchanged: tuple[str, ...] = ()
    may_replace: bool = True


NO_DOCUMENTS = ParsedDocuments()
"""For nodes that the user passed."""


def document_change(
    corpus: Corpus[BaseNode], documents: Sequence[Document], *, replace_changed: bool
) -> Change:
    """Return the change of adding documents; unchanged ones are left out.

    Raises:
        DuplicateDocumentError: If an id exists with different content, unless `replace_changed`.
        InvalidInputError: If a document is invalid.
    """
    distinct = distinct_documents(documents)
    pages = {one.node_id: corpus.format.to_page(one) for one in distinct}
    known = corpus.pages(corpus.parts_of(pages))
    old = {page.id: page for page in known}
    in_nodes = {(page.source, page.fields.get("hash")) for page in known if page.is_chunk}
    new = [
        page
        for page in pages.values()
        if not (page.id in old and is_same(old[page.id], page))
        and (page.id, page.fields["hash"]) not in in_nodes
    ]
    changed = frozenset(page.id for page in new)
    parts = corpus.pages(corpus.parts_of(changed))
    if not replace_changed:
        _check_new(changed, parts)
    rest, removed = _without(corpus, [page for page in parts if page.id not in pages], changed)
    removed = sorted(set(removed).difference(pages))
    unchanged = tuple(id_ for id_ in pages if id_ not in changed)
    return Change([*rest, *new], removed, changed, unchanged)


def node_change(
    corpus: Corpus[BaseNode],
    nodes: Iterable[BaseNode],
    documents: ParsedDocuments = NO_DOCUMENTS,
) -> Change:
    """Return the change of adding nodes.

    If the hash of the nodes' SOURCE differs from that of the indexed version, the nodes replace
    that version. If it is the same or unknown, they are added to it. A blank node is not stored,
    but replaces an indexed one with its id.

    Args:
        corpus: The documents of the index.
        nodes: The nodes.
        documents: The documents that the nodes were made from, if the user passed these.

    Raises:
        DuplicateDocumentError: If two different nodes have the same id, a node has the id of a
            document that it is not a part of, or a document has changed that may not.
        InvalidInputError: If a node is invalid.
    """
    distinct = distinct_nodes(nodes)
    given = [corpus.format.to_page(node) for node in distinct if not is_summary(node)]
    pages = [page for page in given if page.text.strip()]
    blank = {page.id for page in given}.difference(page.id for page in pages)
    covered = documents.ids.union(*map(_documents, given))
    old = [page for page in corpus.pages(corpus.parts_of(covered)) if covered & _documents(page)]
    same_version = _same_versions(documents.ids, old, given)
    pages = [page for page in pages if not _documents(page) <= same_version]
    outdated = frozenset(
        id_
        for id_ in covered
        if (before := _hashes(old, id_))
        and id_ not in same_version
        and (
            id_ in documents.ids
            or ((after := _hashes(given, id_) - {""}) and before.isdisjoint(after))
        )
    )
    if not documents.may_replace:
        _check_unchanged(outdated, old, pages)
    rest, removed = _without(corpus, old, outdated)
    removed += [page.id for page in corpus.pages(sorted(blank)) if page.is_chunk]
    rest = [page for page in rest if page.id not in blank]
    cut = {*removed, *(page.id for page in rest)}
    same = {page.id: page for page in old if page.id not in cut}
    new = [page for page in pages if not (page.id in same and is_same(same[page.id], page))]
    _check_no_document([page.id for page in new if page.id not in covered], corpus)
    kept = {page.id for page in pages}
    removed = list(dict.fromkeys(id_ for id_ in removed if id_ not in kept))
    changed = outdated.union(*map(_documents, new))
    summaries = distinct if any(map(is_summary, distinct)) else ()
    unchanged = (*documents.unchanged, *sorted(same_version))
    return Change([*rest, *new], removed, changed, unchanged, summaries)


def removal(corpus: Corpus[BaseNode], document_id: str) -> Change:
    """Return the change of removing a document, or all documents of a tree."""
    old = corpus.pages(corpus.parts_of([document_id]))
    if not any(document_id in _documents(page) for page in old):  # the id of a tree, or of nothing
        return Change(removed=corpus.parts_of_source(document_id))
    rest, removed = _without(corpus, old, frozenset([document_id]))
    return Change(rest, removed)


def seed_summaries(rag: E2GraphRAG, nodes: Sequence[BaseNode]) -> None:
    """Give the summaries of a `SummaryTreeNodeParser` to an index, which uses those that fit."""
    known = {node.node_id: _core_node(node) for node in nodes}
    below = {
        node.node_id: [known[one.node_id] for one in node.child_nodes or () if one.node_id in known]
        for node in nodes
        if is_summary(node)
    }
    rag.cache_summaries(
        (without_overlap(children), known[id_].level, known[id_].text)
        for id_, children in below.items()
        if children
    )


def warn_about_unused(corpus: Corpus[BaseNode], nodes: Sequence[BaseNode]) -> bool:
    """Log how many summaries of a parser a built index did not use; return whether there are any.

    Args:
        corpus: The corpus of the index.
        nodes: The summaries and the nodes below them.
    """
    given = [node_text(node) for node in nodes if is_summary(node)]
    used = {
        text
        for tree in corpus.trees_of(node.node_id for node in nodes)
        for (text,) in corpus.rag.store.read(
            "SELECT text FROM nodes WHERE document_id = ? AND level > 0", [tree]
        )
    }
    unused = sum(text not in used for text in given)
    if unused:
        logger.warning(
            "%d of %d summaries of SummaryTreeNodeParser do not fit the trees of the index, which "
            "has new ones instead: give parser and index the same group_size, grouping, "
            "summary_tokens and tree_per, and insert all nodes of a tree together",
            unused,
            len(given),
        )
    return bool(unused)


def _core_node(node: BaseNode) -> Node:
    parts, text = decode_parts(node), node_text(node)
    start = parts[0].start if parts else getattr(node, "start_char_idx", None) or 0
    return Node(node.node_id, "", level_of(node), 0, start, start + len(text), text)


def _documents(page: Page) -> frozenset[str]:
    """Return the ids of the LlamaIndex documents whose text a page contains."""
    parts = page.fields.get("parts")
    return frozenset(part[0] for part in parts) if parts else frozenset([page.source])


def _hashes(pages: Sequence[Page], document_id: str) -> set[str]:
    """Return the hashes of a document's version; those of chunks over several pages differ."""
    return {page.fields.get("hash", page.id) for page in pages if document_id in _documents(page)}


def _same_versions(ids: frozenset[str], old: Sequence[Page], new: Sequence[Page]) -> frozenset[str]:
    """Return the ids of documents whose versions are equal, as are all that share their chunks."""
    same = frozenset(
        id_ for id_ in ids if not _hashes(old, id_).isdisjoint(_hashes(new, id_) - {""})
    )
    while True:
        shared = map(_documents, (*old, *new))
        mixed = frozenset().union(*(own for own in shared if own & same and own - same))
        if same.isdisjoint(mixed):
            return same
        same -= mixed


def _without(
    corpus: Corpus[BaseNode], pages: Sequence[Page], document_ids: frozenset[str]
) -> tuple[list[Page], list[str]]:
    """Return what remains of pages without the text of some documents, and the ids of the rest.

    In trees whose documents share chunks, chunks behind the removed text move forward.
    """
    removed = [page.id for page in pages if _documents(page) <= document_ids]
    shared = [page.id for page in pages if page.id not in removed and "parts" in page.fields]
    rest: list[Page] = []
    for tree in sorted(corpus.trees_of(shared)):
        chunks = [one for one in corpus.pages(corpus.parts_of([tree])) if "parts" in one.fields]
        chunks.sort(key=lambda one: one.start or 0)
        whole = join_chunks([one.text for one in chunks], [one.start for one in chunks])
        # Chunks that were parsed at different times do not say where they are in one text.
        for own in [chunks] if whole.is_exact else [[one] for one in chunks]:
            changed, without_text = rest_of(own, document_ids)
            rest += changed
            removed += without_text
    return rest, removed


def _check_new(document_ids: Collection[str], parts: Iterable[Page]) -> None:
    """Check that documents are new, given the pages that are, or are parts of, them."""
    known = {id_ for page in parts for id_ in (page.id, page.source, *_documents(page))}
    duplicate = next((id_ for id_ in sorted(document_ids) if id_ in known), None)
    if duplicate is not None:
        raise _changed_error(duplicate)


def _check_unchanged(document_ids: Iterable[str], old: Sequence[Page], new: Sequence[Page]) -> None:
    """Check that documents have the same nodes as before."""
    for id_ in sorted(document_ids):
        before, after = (
            {page.id: page for page in pages if id_ in _documents(page)} for pages in (old, new)
        )
        if before.keys() != after.keys() or not all(
            is_same(page, after[page.id]) for page in before.values()
        ):
            raise _changed_error(id_)


def _changed_error(document_id: str) -> DuplicateDocumentError:
    return DuplicateDocumentError(
        f"document {document_id!r} is already in the index with different content: call "
        "update_ref_doc() or refresh_ref_docs() to replace it"
    )


def _check_no_document(node_ids: Sequence[str], corpus: Corpus[BaseNode]) -> None:
    """Check that no node has the id of a document that it is not a part of."""
    document = next((page.id for page in corpus.pages(node_ids) if not page.is_chunk), None)
    if document is not None:
        raise DuplicateDocumentError(
            f"node id {document!r} is the id of a document in the index: give the node an id_ of "
            "its own"
        )
