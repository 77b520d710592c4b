"""`TreePlanner`: which trees an insert, an update or a deletion has to write."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llama_index.core.schema import BaseNode, Document

from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    SettingsMismatchError,
)
from e2graphrag_integrations.indexing.grouping import describe_groups
from e2graphrag_integrations.indexing.scope_keys import check_records
from e2graphrag_integrations.llama_index.indexing.inputs import (
    DocumentInput,
    distinct_documents,
    group_by_document,
    input_from_nodes,
    input_from_page,
    input_from_page_nodes,
    input_from_page_tree,
    input_from_parsed_nodes,
    parsed_pages,
    shared_metadata,
)
from e2graphrag_integrations.llama_index.indexing.pages import (
    FUNCTION,
    Page,
    PageTree,
    TreePer,
    page_of,
    plain_metadata,
    sort_pages,
    source_tree,
    tree_id,
    user_exclusions,
)
from e2graphrag_integrations.llama_index.storage.nodes import (
    LEVEL,
    PAGES,
    TREE,
    InheritedFields,
    NodeSource,
    node_text,
    tree_to_nodes,
)
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, PageRecord
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.tree import plan_tree
from e2graphrag_integrations.types import Node

logger = logging.getLogger(__name__)

Nodes = Mapping[str, BaseNode]
"""Nodes by id."""


@dataclass(frozen=True)
class TreeChanges:
    """The trees that a write changes.

    Attributes:
        inputs: Trees to write.
        removed: Ids of the trees to remove, because all their documents were deleted or moved.
        changed: Ids of the new and changed documents.
        skipped: Ids of the unchanged documents.
        from_docstore: Whether to delete old nodes from the docstore.
    """

    inputs: Sequence[DocumentInput] = ()
    removed: Sequence[str] = ()
    changed: frozenset[str] = frozenset()
    skipped: tuple[str, ...] = ()
    from_docstore: bool = True


@dataclass(frozen=True)
class TreePlanner:
    """Merges documents and nodes into the trees of an index.

    A tree that gains, loses or changes a document is written again. Its other documents are read
    from the index.

    Args:
        storage: The storage of the index.
        tree_per: Decides which documents share a tree; None if the index was built with a function
            that the user did not pass again.
        settings: Settings for chunks and groups.
        counter: Counts tokens.
    """

    storage: IndexStorage
    tree_per: TreePer | None
    settings: Settings
    counter: TokenCounter

    @property
    def name(self) -> str:
        """The value of `tree_per` as stored in the index."""
        return self.tree_per if isinstance(self.tree_per, str) else FUNCTION

    def contains(self, document_id: str, hash_: str) -> bool:
        """Return whether the index contains this version of a document."""
        return self._stored_hash(document_id) == hash_

    def _stored_hash(self, document_id: str) -> str | None:
        tree = self.storage.struct.tree_of(document_id)
        return None if tree is None else self.storage.struct.record(tree).documents[document_id]

    # Documents

    def plan_documents(self, documents: Any, *, replace_changed: bool) -> TreeChanges:
        """Return the changes that insert or update documents.

        Raises:
            InvalidInputError: If an item is not a document, or its metadata is not JSON.
            DuplicateDocumentError: If two different documents have the same id, or a document has
                changed and `replace_changed` is false.
        """
        given = distinct_documents(documents)
        pages = [page_of(document) for document in given.values()]
        hashes = self._stored_hashes(given)
        skipped = tuple(page.id for page in pages if hashes.get(page.id) == page.hash)
        changed = [page for page in pages if hashes.get(page.id) != page.hash]
        self._check_new([page.id for page in changed], replace_changed=replace_changed)
        put: dict[str, list[Page]] = {}
        for page in changed:
            put.setdefault(self._tree_id(page), []).append(page)
        if self.tree_per == "source" and not self.storage.struct.pages:  # once for an index
            scope_keys = self.settings.scope_keys
            groups = describe_groups([source_tree(page, scope_keys) for page in changed])
            if groups:
                logger.info(groups)
        return self._rebuild(put, skipped=skipped, documents=given)

    def _stored_hashes(self, document_ids: Iterable[str]) -> dict[str, str]:
        trees = {id_: self.storage.struct.tree_of(id_) for id_ in document_ids}
        by_tree = {
            tree: self.storage.struct.record(tree).documents
            for tree in dict.fromkeys(trees.values())
            if tree is not None
        }
        return {id_: by_tree[tree][id_] for id_, tree in trees.items() if tree is not None}

    def _check_new(self, document_ids: Iterable[str], *, replace_changed: bool) -> None:
        for id_ in () if replace_changed else document_ids:
            if self.storage.struct.tree_of(id_) is not None:
                raise DuplicateDocumentError(
                    f"{self.storage.where} contains document {id_!r} with different content: "
                    "call update_ref_doc() to replace it, or give the document another id_"
                )

    def plan_deletion(self, document_id: str, *, from_docstore: bool) -> TreeChanges:
        """Return the changes that delete a document, or all documents of a tree.

        Args:
            document_id: Id of a document or a tree; an unknown id is ignored.
            from_docstore: Whether to delete the nodes from the docstore.
        """
        struct = self.storage.struct
        if struct.tree_of(document_id) is not None:
            changes = self._rebuild({}, deleted={document_id})
            return replace(changes, from_docstore=from_docstore)
        if document_id in struct.payloads:
            return TreeChanges(removed=[document_id], from_docstore=from_docstore)
        logger.warning("document %s is not in the index: nothing to delete", document_id)
        return TreeChanges()

    def _tree_id(self, page: Page) -> str:
        if self.tree_per is None:
            raise InvalidInputError(
                f"{self.storage.where} was built with a function as tree_per: pass the function "
                "when you open the index"
            )
        return tree_id(self.tree_per, page, self.settings.scope_keys)

    def check_scope_keys(self, changes: TreeChanges) -> None:
        """Check that all parts of each tree agree on the `scope_keys`.

        Raises:
            InvalidInputError: If they differ.
        """
        for document in changes.inputs:
            pages = () if document.page_tree is None else document.page_tree.segments
            parts = [metadata for *_, metadata in (*document.segments, *pages)]
            records = [*parts, *document.leaf_metadata] or [document.metadata]
            check_records(document.id, records, self.settings.scope_keys)

    def _check_tree_per(self) -> None:
        stored = self.storage.struct.tree_per
        if stored and stored != self.name:
            raise SettingsMismatchError(
                f"{self.storage.where} was built with tree_per={stored!r}, not {self.name!r}: omit "
                "tree_per, or build a new index"
            )

    # Trees

    def _rebuild(
        self,
        put: Mapping[str, Sequence[Page]],
        *,
        deleted: Collection[str] = (),
        skipped: tuple[str, ...] = (),
        documents: Mapping[str, Document] | None = None,
        summaries: Mapping[str, Nodes] | None = None,
    ) -> TreeChanges:
        """Return the changes that put and delete documents.

        Args:
            put: New and changed documents by tree.
            deleted: Ids of documents to delete.
            skipped: Ids of the unchanged documents, for the report.
            documents: The LlamaIndex documents of `put` by id.
            summaries: Summaries to keep if they fit, by tree.
        """
        self._check_tree_per()
        struct = self.storage.struct
        trees = dict.fromkeys(put)
        leaving: dict[str, set[str]] = {}  # by stored tree: deleted, or moved to another tree
        targets = {page.id: tree for tree, pages in put.items() for page in pages}
        for id_ in (*targets, *deleted):
            old = struct.tree_of(id_)
            if old is not None and old != targets.get(id_):
                trees.setdefault(old)
                leaving.setdefault(old, set()).add(id_)
        inputs: list[DocumentInput] = []
        removed: list[str] = []
        for tree in trees:
            new = {page.id: page for page in put.get(tree, ())}
            pages = self._merged(tree, new, leaving.get(tree, set()))
            if pages:
                previous = [tree]
                previous += [t for p in new if (t := struct.tree_of(p)) and t not in previous]
                own_summaries = (summaries or {}).get(tree, {})
                built = self._input(tree, pages, documents or {}, own_summaries)
                inputs.append(replace(built, previous=previous))
            elif tree in struct.payloads:
                removed.append(tree)
        return TreeChanges(inputs, removed, frozenset(targets), skipped)

    def _merged(self, tree: str, new: Mapping[str, Page], leaving: Collection[str]) -> list[Page]:
        """Return the documents of a tree: the stored ones, of which some are new, and new ones."""
        struct = self.storage.struct
        if tree not in struct.payloads:
            return list(new.values())
        order = [id_ for id_ in struct.documents_of(tree) if id_ not in leaving]
        kept = [id_ for id_ in order if id_ not in new]
        stored = self._load(struct.record(tree), kept) if kept else []
        pages = {page.id: page for page in stored} | dict(new)
        return [pages.pop(id_) for id_ in order] + list(pages.values())

    def _load(self, record: DocumentRecord, document_ids: Collection[str]) -> list[Page]:
        """Return stored documents with their texts and chunks.

        Raises:
            CorruptStoreError: If the docstore lacks a node.
        """
        found = self.storage.nodes.get(record) if record.keeps_chunks else {}
        chunks = [node for node in self.storage.tree_nodes(record) if node.level == 0]
        text = _text(record, chunks)
        stored = record.pages or [PageRecord(record.id, record.hash, 0, len(text), record.metadata)]
        return [
            Page(
                page.id,
                page.hash,
                text[page.start : page.end],
                page.metadata,
                page.excluded_embed,
                page.excluded_llm,
                [found[chunk.id] for chunk in chunks if _is_on(chunk, page)] if found else (),
            )
            for page in stored
            if page.id in document_ids
        ]

    def _input(
        self,
        tree: str,
        pages: Sequence[Page],
        documents: Mapping[str, Document],
        summaries: Nodes,
    ) -> DocumentInput:
        """Return the input for a tree."""
        pages = sort_pages(pages)
        if any(page.nodes for page in pages):
            split = [p if p.nodes else replace(p, nodes=self._split(p)) for p in pages]
            return input_from_page_nodes(tree, split, summaries, self.settings.groups)
        joined = PageTree.join(tree, pages)
        if not joined.is_document:
            return input_from_page_tree(joined)
        [page] = pages
        if page.id in documents:
            return input_from_page(page, InheritedFields.from_document(documents[page.id]))
        return input_from_page(page, _inherited(page))

    def _split(self, page: Page) -> list[BaseNode]:
        """Return the chunks of one document."""
        spans = self.settings.spans(page.text, self.counter)
        tree = plan_tree(page.id, page.text, spans, self.settings.groups)
        return tree_to_nodes(_inherited(page), tree.levels[0]) if tree.levels else []

    # Nodes

    def plan_nodes(
        self, nodes: Sequence[BaseNode], *, replace_changed: bool, extends: bool = True
    ) -> TreeChanges:
        """Return the changes that insert nodes.

        Nodes whose SOURCE has a different hash belong to a new version, which replaces the stored
        one. All other nodes extend the stored version. Nodes from a `SummaryTreeNodeParser` keep
        their tree if they contain all documents in it; otherwise, the tree is built again.

        Args:
            nodes: LlamaIndex nodes.
            replace_changed: Whether to replace documents that have changed.
            extends: Whether nodes may extend a stored document, rather than always replace it.

        Raises:
            DuplicateDocumentError: If two different nodes have the same id, or a document has
                changed and `replace_changed` is false.
            InvalidInputError: If the metadata of a node is not JSON.
        """
        self._check_tree_per()
        direct: list[DocumentInput] = []
        changed: set[str] = set()
        skipped: list[str] = []
        put: dict[str, list[Page]] = {}
        summaries: dict[str, Nodes] = {}
        for tree, group in self._group_by_tree(nodes, extends=extends).items():
            if self._is_document(tree, group):
                document, ids = self._plan_document_nodes(tree, group, extends=extends)
            else:
                document, ids = self._plan_parsed_nodes(tree, group)
            if document is not None:
                direct.append(document)
            if document is not None or ids is not None:
                changed.update(ids or ())
                skipped += [] if document is not None else self.storage.struct.documents_of(tree)
                continue
            summaries[tree] = {id_: n for id_, n in group.items() if n.metadata.get(LEVEL)}
            for target, page in self._page_nodes(tree, group, extends=extends):
                put.setdefault(target, []).append(page)
        self._check_new(
            [*changed, *(page.id for pages in put.values() for page in pages)],
            replace_changed=replace_changed,
        )
        rest = self._rebuild(put, summaries=summaries)
        return TreeChanges(
            [*direct, *rest.inputs], rest.removed, rest.changed | changed, tuple(skipped)
        )

    def _group_by_tree(
        self, nodes: Sequence[BaseNode], *, extends: bool
    ) -> dict[str, dict[str, BaseNode]]:
        """Return the distinct nodes of each tree, by the ids of tree and node."""
        trees: dict[str, dict[str, BaseNode]] = {}
        for document_id, group in group_by_document(nodes).items():
            plain: dict[str, BaseNode] = {}
            for id_, node in group.items():
                tree = _parsed_tree(node)
                (plain if tree is None else trees.setdefault(tree, {}))[id_] = node
            if plain:
                parsed = {tree for n in group.values() if (tree := _parsed_tree(n)) is not None}
                tree = self._tree_of_nodes(document_id, list(plain.values()), extends=extends)
                trees.setdefault(parsed.pop() if len(parsed) == 1 else tree, {}).update(plain)
        return trees

    def _tree_of_nodes(self, document_id: str, nodes: Sequence[BaseNode], *, extends: bool) -> str:
        """Return the tree for new nodes of a document that are not from a parser."""
        home = self.storage.struct.tree_of(document_id)
        if home is not None and extends and not self._is_new_version(document_id, nodes):
            return home
        return self._tree_id(_page_of_nodes(document_id, "", nodes))

    def _is_new_version(self, document_id: str, nodes: Iterable[BaseNode]) -> bool:
        """Return whether nodes belong to another version of a document than the stored one."""
        sources = [node.source_node for node in nodes]
        hashes = {source.hash for source in sources if source is not None and source.hash}
        return len(hashes) == 1 and hashes != {self._stored_hash(document_id)}

    def _is_document(self, tree: str, group: Nodes) -> bool:
        """Return whether nodes belong to a document with a tree of its own."""
        struct = self.storage.struct
        ids = {node.ref_doc_id or node.node_id for node in group.values()}
        has_parts = any(PAGES in node.metadata for node in group.values())
        is_new = struct.tree_of(tree) is None and tree not in struct.payloads
        is_alone = is_new or (tree in struct.payloads and tree not in struct.pages)
        return ids == {tree} and not has_parts and is_alone

    def _plan_document_nodes(
        self, tree: str, group: Nodes, *, extends: bool
    ) -> tuple[DocumentInput | None, Sequence[str] | None]:
        """Return the input for a document and its id, or no input if it is unchanged."""
        stored: list[BaseNode] = []
        is_stored = tree in self.storage.struct.payloads
        if is_stored and extends and not self._is_new_version(tree, group.values()):
            own = self.storage.nodes.get(self.storage.struct.record(tree))
            if _all_stored(group, own):
                return None, ()
            stored = [node for id_, node in own.items() if id_ not in group]
        document = input_from_nodes(tree, [*stored, *group.values()], self.settings.groups)
        extended = bool(stored) or (is_stored and extends)
        if not extended and self.contains(tree, document.hash):
            return None, ()
        return replace(document, previous=[tree]), [tree]

    def _plan_parsed_nodes(
        self, tree: str, group: Nodes
    ) -> tuple[DocumentInput | None, Sequence[str] | None]:
        """Return the input for a parsed tree that contains all of its stored documents.

        The second value contains the ids of the documents that the input changes. It is empty if
        the tree is unchanged, and None if it must be built again.
        """
        leaves = [node for node in group.values() if not node.metadata.get(LEVEL)]
        if not leaves or not all(PAGES in node.metadata for node in leaves):
            return None, None
        struct = self.storage.struct
        pages = parsed_pages(leaves)[0].pages
        hashes = {page.id: page.hash for page in pages}
        stored = struct.record(tree).documents if tree in struct.payloads else {}
        homes = {struct.tree_of(id_) for id_ in hashes} - {None, tree}
        if homes or not stored.keys() <= hashes.keys():
            return None, None
        summaries = {id_: node for id_, node in group.items() if node.metadata.get(LEVEL)}
        if stored == hashes and _all_stored(group, self.storage.nodes.get(struct.record(tree))):
            return None, ()
        document = input_from_parsed_nodes(leaves, summaries, self.settings.groups)
        changed = [id_ for id_, hash_ in hashes.items() if stored.get(id_) != hash_]
        return replace(document, previous=[tree]), changed or list(hashes)

    def _page_nodes(self, tree: str, group: Nodes, *, extends: bool) -> list[tuple[str, Page]]:
        """Return the changed documents that nodes belong to, each with its tree."""
        leaves = [n for n in group.values() if not n.metadata.get(LEVEL) and node_text(n).strip()]
        parsed = [node for node in leaves if PAGES in node.metadata]
        struct = self.storage.struct
        changed = [
            (struct.tree_of(page.id) or tree, page)
            for page in (parsed_pages(parsed)[0].pages if parsed else ())
            if not self.contains(page.id, page.hash)
        ]
        given = [node for node in leaves if PAGES not in node.metadata]
        for document_id, own in group_by_document(given).items():
            home = struct.tree_of(document_id)
            hash_ = _source_hash(next(iter(own.values())))
            is_new = home is None or self._is_new_version(document_id, own.values())
            if home is None or is_new or not extends:
                if is_new or not self.contains(document_id, hash_):
                    changed.append((tree, _page_of_nodes(document_id, hash_, list(own.values()))))
            elif not _all_stored(own, self.storage.nodes.get(struct.record(home))):
                [page] = self._load(struct.record(home), [document_id])
                stored = [n for n in page.nodes or self._split(page) if n.node_id not in own]
                changed.append((home, replace(page, nodes=[*stored, *own.values()])))
        return changed


def _parsed_tree(node: BaseNode) -> str | None:
    """Return the id of the tree that a node has from a parser or another index, if any."""
    tree = node.metadata.get(TREE)
    return tree if LEVEL in node.metadata and isinstance(tree, str) and tree else None


def _page_of_nodes(document_id: str, hash_: str, nodes: Sequence[BaseNode]) -> Page:
    metadata = [plain_metadata(node.metadata, f"node {node.node_id!r}") for node in nodes]
    text = "\n\n".join(node_text(node) for node in nodes)
    return Page(
        document_id, hash_, text, shared_metadata(metadata), *user_exclusions(nodes[0]), nodes
    )


def _source_hash(node: BaseNode) -> str:
    source = node.source_node
    return (source.hash if source is not None else node.hash) or ""


def _all_stored(group: Nodes, stored: Nodes) -> bool:
    return all(id_ in stored and node_text(n) == node_text(stored[id_]) for id_, n in group.items())


def _inherited(page: Page) -> InheritedFields:
    source = NodeSource(page.id, page.hash)
    return InheritedFields(
        lambda _: source, lambda _: page.metadata, page.excluded_embed, page.excluded_llm
    )


def _is_on(chunk: Node, page: PageRecord) -> bool:
    return page.start <= chunk.start < page.end


def _text(record: DocumentRecord, chunks: Sequence[Node]) -> str:
    """Return the text of a tree, in which deleted chunks are replaced by white space."""
    parts, end = [], 0
    has_gaps = len(record.gaps) == len(chunks) + 1
    for row, chunk in enumerate(chunks):
        missing = " " * max(0, chunk.start - end)
        parts.append(record.gaps[row] if has_gaps else missing)
        parts.append(chunk.text[max(0, end - chunk.start) :])
        end = max(end, chunk.end)
    last = max((page.end for page in record.pages), default=0)
    parts.append(record.gaps[-1] if has_gaps else " " * max(0, last - end))
    return "".join(parts)
