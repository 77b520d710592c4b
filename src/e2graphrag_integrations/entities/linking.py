"""Entity linking: matching the mentions in a query to entities in the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from e2graphrag_integrations.entities.aliases import Aliases
from e2graphrag_integrations.entities.normalize import normal_form, sub_spans, without_honorifics
from e2graphrag_integrations.types import NOUN, Mention

_MAX_ALIAS_LOOKUPS = 32
"""Maximum number of alias lookups per query, which bounds the time for very long queries."""


@dataclass(frozen=True, slots=True)
class Link:
    """A mention in the query, linked to an entity.

    Attributes:
        mention: The mention as written in the query.
        entity: The normal form of the entity.
        how: The rule that matched. `exact`: the normal form is an entity. `stripped`: it is one
            without honorifics and articles. `alias`: the mention is an alias of the entity.
            `similar`: the spelling is similar. `part`: the longest part of the mention that is an
            entity.
        score: Confidence in (0, 1]. 1 for `exact` and `stripped`. For `alias`, the entity's chunks
            as a fraction of the chunks of all entities with this alias. For `similar`, the
            similarity of the spellings. For `part`, the part's fraction of the mention's length.
    """

    mention: str
    entity: str
    how: Literal["exact", "stripped", "alias", "similar", "part"]
    score: float


@dataclass(frozen=True, slots=True)
class Linking:
    """The links of a query, at most one per entity, and the mentions without a link."""

    links: tuple[Link, ...]
    unlinked: tuple[str, ...]


def link(
    mentions: Iterable[Mention],
    entities: Mapping[str, int],
    aliases: Aliases | None = None,
    noun_entities: Mapping[str, int] | None = None,
) -> Linking:
    """Link each mention by the first rule that finds an entity in the index.

    Args:
        mentions: The mentions in the query.
        entities: The normal forms of all entities in the index.
        aliases: Alternative names of the entities. None disables aliases, as in the paper.
        noun_entities: The normal forms that common nouns can link to. None allows all, as in the
            paper.
    """
    links: dict[str, Link] = {}
    unlinked: dict[str, None] = {}
    lookups = 0
    for mention in mentions:
        is_noun = mention.label == NOUN
        known = noun_entities if is_noun and noun_entities is not None else entities
        found = _by_name(mention, known)
        if found is None and aliases is not None and not is_noun:
            lookups += 1
            found = _by_alias(mention, aliases) if lookups <= _MAX_ALIAS_LOOKUPS else None
        if found is None:
            found = _by_part(mention, known)
        if found is None:
            unlinked[mention.entity] = None
        elif found.entity not in links or links[found.entity].score < found.score:
            links[found.entity] = found
    return Linking(tuple(links.values()), tuple(unlinked))


def _by_name(mention: Mention, entities: Mapping[str, int]) -> Link | None:
    form = normal_form(mention.entity)
    if form and form in entities:
        return Link(mention.entity, form, "exact", 1.0)
    stripped = without_honorifics(form)
    if stripped and stripped in entities:
        return Link(mention.entity, stripped, "stripped", 1.0)
    return None


def _by_alias(mention: Mention, aliases: Aliases) -> Link | None:
    form = without_honorifics(normal_form(mention.entity))
    found = aliases.find(form) if form else None
    return None if found is None else Link(mention.entity, *found)


def _by_part(mention: Mention, entities: Mapping[str, int]) -> Link | None:
    form = without_honorifics(normal_form(mention.entity))
    for part in sub_spans(form):
        if part in entities:
            score = max(0.0001, round(len(part) / len(form), 4))  # a link needs a positive score
            return Link(mention.entity, part, "part", score)
    return None
