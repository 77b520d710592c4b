"""The state of a graph store: all nodes and relations that it contains, as compressed pages.

The state is kept in the graph store itself, so that a dropped or restored store is noticed. Nodes
are divided into pages by a hash of their id, and relations by that of their source, so that a small
change of the index changes few pages.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from e2graphrag_integrations._utils.decoding import decompress
from e2graphrag_integrations.errors import GraphStoreError
from e2graphrag_integrations.portability.property_graph import RELATION_LABELS

T = TypeVar("T")

FORMAT = 1
"""Version of the format of the state."""

HEADER, WRITING = "header", "writing"
"""Names of the entries that are not pages."""

_NODES, _RELATIONS = _KINDS = "nodes", "relations"
"""Kinds of pages."""

_PAGE_NODES = 1_000
"""Number of nodes per page when the pages are divided."""

_MAX_PAGES = 1 << 24
"""Bound on the number of pages, which a damaged header exceeds."""

_MAX_GROWTH = 8
"""The pages are divided again when they are so many times larger or smaller."""

_ADVICE = "update with rebuild=True, which writes the graph again"


class NodeEntry(NamedTuple):
    """A node in the graph store.

    Attributes:
        label: Its label.
        shape: Digest of the names of its properties.
        version: Digest of its properties and the stamp of its text.
        digest: Digest of its properties and its text.
    """

    label: str
    shape: str
    version: str
    digest: str


RelationKey = tuple[str, str, str]
"""Label, source and target of a relation."""

NodePage = dict[str, NodeEntry]
RelationPage = dict[RelationKey, float | None]


class StoreTraits(NamedTuple):
    """How a graph store behaves where stores differ.

    Attributes:
        changes_relations: Whether writing a relation again changes its property.
        deletes_neighbors: Whether deleting a node also deletes its neighbors.
    """

    changes_relations: bool
    deletes_neighbors: bool


class StateEntries(Protocol):
    """Reads and writes the entries of a state, which are texts with a name."""

    def read_state(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the entries with these names that exist."""

    def write_state(self, entries: Mapping[str, str]) -> None:
        """Add or replace entries."""

    def delete_state(self, names: Iterable[str]) -> None:
        """Delete entries."""


@dataclass(frozen=True, slots=True)
class Header:
    """What the pages of a state belong to.

    Attributes:
        owner: Name of the index.
        pages: Number of pages of each kind.
        traits: How the graph store behaves.
        rewritten: Ids of nodes that an unfinished update deletes and writes again.
    """

    owner: str
    pages: int
    traits: StoreTraits
    rewritten: tuple[str, ...] = ()


def page_count(nodes: int, now: int = 0) -> int:
    """Return the number of pages for so many nodes, a power of two.

    Args:
        nodes: Number of nodes.
        now: The number of pages now, which remains unless it is far from the best one.
    """
    best = 1 << max(0, (nodes // _PAGE_NODES - 1)).bit_length()
    return now if now and now <= best * _MAX_GROWTH and best <= now * _MAX_GROWTH else best


def page_of(id_: str, pages: int) -> int:
    """Return the page of a node, or of the relations that start at it."""
    return zlib.crc32(id_.encode()) & (pages - 1)


class GraphState:
    """Reads and writes the state of a graph store.

    Args:
        entries: The graph store.
        where: Name of the graph store in error messages.
    """

    def __init__(self, entries: StateEntries, where: str) -> None:
        self._entries = entries
        self._where = where

    def read_header(self, *, ignore_damage: bool = False) -> Header | None:
        """Return the header, or None if there is no state.

        Raises:
            GraphStoreError: If the state is damaged or has another format version.
        """
        found = self._entries.read_state([HEADER])
        if HEADER not in found:
            return None
        try:
            header = self._decode(HEADER, found[HEADER], _parse_header)
        except GraphStoreError:
            if ignore_damage:
                return None
            raise
        if isinstance(header, int):
            raise GraphStoreError(
                f"the graph in {self._where} has format version {header}, but this version of "
                f"e2graphrag-integrations reads only version {FORMAT}: delete the graph, and write "
                "it again"
            )
        return header

    def write_header(self, header: Header) -> None:
        """Write the header, and check that the graph store keeps it.

        Raises:
            GraphStoreError: If the graph store lost it.
        """
        text = _encode([FORMAT, header.owner, header.pages, header.traits, list(header.rewritten)])
        self._entries.write_state({HEADER: text})
        if self._entries.read_state([HEADER]).get(HEADER) != text:
            raise GraphStoreError(
                f"{self._where} does not keep the properties of nodes, so it cannot contain this "
                "graph: use another graph store, or export files with export_graph()"
            )

    def read_writing(self) -> tuple[str, ...]:
        """Return the ids of the nodes whose writing may have been interrupted."""
        found = self._entries.read_state([WRITING])
        return self._decode(WRITING, found[WRITING], _parse_ids) if WRITING in found else ()

    def write_writing(self, ids: Iterable[str]) -> None:
        """Record that these nodes, and relations that start at them, are being written."""
        self._entries.write_state({WRITING: _encode(sorted(ids))})

    def create(self, header: Header) -> None:
        """Write an empty state.

        Raises:
            GraphStoreError: If the graph store does not keep it.
        """
        pages = (_page_name(kind, n, header.pages) for n in range(header.pages) for kind in _KINDS)
        self._entries.write_state(dict.fromkeys(pages, _encode([])))
        self.write_writing(())
        self.write_header(header)

    def known_ids(self, header: Header) -> set[str]:
        """Return the ids of all nodes, without those on damaged pages."""
        known: set[str] = set()
        for page in range(header.pages):
            with suppress(GraphStoreError):
                known |= self.read_nodes(header, page).keys()
        return known

    def read_nodes(self, header: Header, page: int) -> NodePage:
        """Return the nodes of a page."""
        return self._read(_NODES, page, header.pages, _parse_nodes)

    def read_relations(self, header: Header, page: int) -> RelationPage:
        """Return the relations of a page."""
        return self._read(_RELATIONS, page, header.pages, _parse_relations)

    def write_nodes(self, header: Header, page: int, nodes: NodePage) -> None:
        """Write the nodes of a page."""
        rows = sorted((id_, *entry) for id_, entry in nodes.items())
        self._entries.write_state({_page_name(_NODES, page, header.pages): _encode(rows)})

    def write_relations(self, header: Header, page: int, relations: RelationPage) -> None:
        """Write the relations of a page."""
        rows = sorted(
            (source, RELATION_LABELS.index(label), target, value)
            for (label, source, target), value in relations.items()
        )
        self._entries.write_state({_page_name(_RELATIONS, page, header.pages): _encode(rows)})

    def divide(self, header: Header, pages: int) -> Header:
        """Divide the state into another number of pages, and return the new header.

        The new pages have other names, so an interruption leaves the old state intact.
        """
        divided = replace(header, pages=pages)
        # Both numbers are powers of two, so pages with one remainder share no entry with others.
        step = min(pages, header.pages)
        for first in range(step):
            nodes: dict[int, NodePage] = {page: {} for page in range(first, pages, step)}
            relations: dict[int, RelationPage] = {page: {} for page in nodes}
            for page in range(first, header.pages, step):
                for id_, entry in self.read_nodes(header, page).items():
                    nodes[page_of(id_, pages)][id_] = entry
                for key, value in self.read_relations(header, page).items():
                    relations[page_of(key[1], pages)][key] = value
            for page, entries in nodes.items():
                self.write_nodes(divided, page, entries)
                self.write_relations(divided, page, relations[page])
        self.write_header(divided)
        self._entries.delete_state(
            [_page_name(kind, n, header.pages) for n in range(header.pages) for kind in _KINDS]
        )
        return divided

    def _read(self, kind: str, page: int, pages: int, parse: Callable[[Any], T]) -> T:
        name = _page_name(kind, page, pages)
        found = self._entries.read_state([name])
        if name not in found:
            raise GraphStoreError(
                f"part of the state of the graph in {self._where} is missing ({name}): {_ADVICE}"
            )
        return self._decode(name, found[name], parse)

    def _decode(self, name: str, text: str, parse: Callable[[Any], T]) -> T:
        try:
            return parse(json.loads(decompress(base64.b64decode(text, validate=True))))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise GraphStoreError(
                f"the state of the graph in {self._where} is damaged ({name}: {error}): {_ADVICE}"
            ) from error


def _page_name(kind: str, page: int, pages: int) -> str:
    return f"{kind}-{page}-of-{pages}"


def _encode(value: object) -> str:
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(plain.encode())).decode()


def _parse_header(fields: Any) -> Header | int:
    """Return the header, or its format version if that is another one."""
    if fields[0] != FORMAT:
        return int(fields[0])
    _, owner, pages, traits, rewritten = fields
    if not 0 < pages <= _MAX_PAGES:
        raise ValueError(f"{pages} pages")
    return Header(owner, pages, StoreTraits(*traits), _parse_ids(rewritten))


def _parse_ids(ids: Any) -> tuple[str, ...]:
    return tuple(str(id_) for id_ in ids)


def _parse_nodes(rows: Any) -> NodePage:
    return {id_: NodeEntry(*entry) for id_, *entry in rows}


def _parse_relations(rows: Any) -> RelationPage:
    return {
        (RELATION_LABELS[label], source, target): value for source, label, target, value in rows
    }
