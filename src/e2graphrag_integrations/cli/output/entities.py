"""Print entities, their edits and their communities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations.cli.output.terminal import (
    print_json,
    print_line,
    print_styled,
    print_table,
)
from e2graphrag_integrations.text.broken_words import on_one_line

if TYPE_CHECKING:
    from e2graphrag_integrations.entities.edits import EntityEdits
    from e2graphrag_integrations.retrieval.entities.communities import Community
    from e2graphrag_integrations.retrieval.entities.entity_view import EntityDetails, EntityInfo
    from e2graphrag_integrations.retrieval.entities.homonyms import HomonymProposal

_MAX_DOCUMENTS = 5
"""Maximum number of documents that are listed for a community."""

_MAX_SHOWN = 20
"""Maximum number of documents of an entity that are listed."""


def print_entities(entities: Sequence[EntityInfo], *, as_json: bool) -> None:
    """Print one line per entity with its counts."""
    if as_json:
        print_json({"entities": [asdict(one) for one in entities]})
        return
    columns = ("entity", "type", "mentions", "chunks", "documents", "degree", "aliases")
    rows = [
        (
            printable(one.name),
            printable(one.type),
            *map(str, (one.mentions, one.chunks, one.documents, one.degree)),
            printable(", ".join(one.aliases)),
        )
        for one in entities
    ]
    print_table(columns, rows, ("\t".join(row).rstrip("\t") for row in rows))
    if not entities:
        print_line("nothing found")


def print_entity(details: EntityDetails, *, as_json: bool) -> None:
    """Print an entity with its documents, neighbors and mentions."""
    if as_json:
        print_json(details.to_dict())
        return
    info = details.info
    print_styled(info.name, "bold")
    print_line(f"type: {info.type}")
    if info.aliases:
        print_line(f"aliases: {', '.join(info.aliases)}")
    print_line(
        f"{info.mentions} mention(s) in {info.chunks} chunk(s) of {info.documents} document(s)"
    )
    shown = details.documents[:_MAX_SHOWN]
    more = len(details.documents) - len(shown)
    print_line(f"documents: {', '.join(shown)}{f', {more} more' if more else ''}")
    if details.subject_of:
        print_line(f"subject of: {', '.join(details.subject_of[:_MAX_SHOWN])}")
    if details.neighbors:
        neighbors = ", ".join(f"{one.name} {one.weight:.3f}" for one in details.neighbors)
        print_line(f"neighbors ({info.degree}): {neighbors}")
    for one in details.mentions:
        print_line()
        print_styled(f"{one.document_id}  span: {one.start}-{one.end}", "bold")
        print_line(f"   {on_one_line(one.sentence)}")


def print_edits(edits: EntityEdits, *, as_json: bool) -> None:
    """Print one line per entity edit."""
    if as_json:
        values = [{"id": one.id, "kind": one.kind, "names": list(one.names)} for one in edits]
        print_json({"edits": values})
        return
    rows = [(one.id, one.kind, printable(str(one))) for one in edits]
    print_table(("id", "kind", "edit"), rows, ("\t".join(row) for row in rows))
    if not edits:
        print_line("no edits")


def print_homonyms(proposals: Sequence[HomonymProposal], *, as_json: bool) -> None:
    """Print names that seem to mean several entities, with the evidence for each."""
    if as_json:
        print_json({"homonyms": [one.to_dict() for one in proposals]})
        return
    if not proposals:
        print_line("no homonyms")
    for number, proposal in enumerate(proposals, 1):
        if number > 1:
            print_line()
        print_styled(f"{number}. {proposal.name}  similarity: {proposal.similarity:.2f}", "bold")
        for one in proposal.entities:
            documents = ", ".join(one.document_ids[:_MAX_DOCUMENTS])
            more = len(one.document_ids) - _MAX_DOCUMENTS
            documents += f" and {more} more" if more > 0 else ""
            evidence = ", ".join((*one.neighbors, *one.values))
            evidence = f" (with {evidence})" if evidence else ""
            print_line(f"   {on_one_line(one.meaning)}: {documents}{evidence}")


def print_communities(communities: Sequence[Community], *, as_json: bool) -> None:
    """Print communities with their main entities, sources and reports."""
    if as_json:
        print_json({"communities": [one.to_dict() for one in communities]})
        return
    if not communities:
        print_line("no communities")
    for number, one in enumerate(communities, 1):
        if number > 1:
            print_line()
        more = len(one.entities) - len(one.top_entities)
        names = ", ".join(one.top_entities) + (f" and {more} more" if more else "")
        print_styled(f"{number}. {names}", "bold")
        size = f"{len(one.entities)} entities, {len(one.node_ids)} chunk(s)"
        documents = ", ".join(one.document_ids[:_MAX_DOCUMENTS])
        others = len(one.document_ids) - _MAX_DOCUMENTS
        documents += f" and {others} more" if others > 0 else ""
        parts = f"  divided into {len(one.child_ids)}" if one.child_ids else ""
        print_styled(f"   {size} of {documents}{parts}", "dim")
        if one.report is not None:
            print_line(f"   {on_one_line(one.report)}")
