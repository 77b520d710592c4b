"""From the names in a question to the entities of the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from e2graphrag_integrations.entities.aliases import Aliases
from e2graphrag_integrations.entities.normalize import normal_form, sub_spans, without_honorifics
from e2graphrag_integrations.types import NOUN, Mention

_MOST_LOOKUPS = 32
"""Names looked up by their aliases: a 100 kB question stays quick."""


@dataclass(frozen=True, slots=True)
class Link:
    """A mention of the question and the entity it stands for.

    `how` says which rule found it: `exact` normal form, `stripped` of honorifics and articles, an
    `alias`, a `similar` spelling, or the longest `part` of the mention that is an entity. `score`
    is 1 for the first two, for an alias the share of its bearers' chunks that are this one's, for
    a spelling how similar it is, for a part the share of the mention's letters that it covers.
    """

    mention: str
    entity: str
    how: Literal["exact", "stripped", "alias", "similar", "part"]
    score: float


@dataclass(frozen=True, slots=True)
class Linking:
    """The links of a question, one an entity, and the mentions that found none."""

    links: tuple[Link, ...]
    unlinked: tuple[str, ...]


def link(
    mentions: Iterable[Mention], entities: Mapping[str, int], aliases: Aliases | None = None
) -> Linking:
    """Link each mention by the first rule that finds an entity in the index.

    Args:
        mentions: In the question.
        entities: Normal forms of those there are.
        aliases: Tells other ways to write names; None looks for none, as the paper does.
    """
    links: dict[str, Link] = {}
    unlinked: dict[str, None] = {}
    lookups = 0
    for mention in mentions:
        found = _as_it_is(mention, entities)
        if found is None and aliases is not None and mention.label != NOUN:
            lookups += 1
            found = _by_alias(mention, aliases) if lookups <= _MOST_LOOKUPS else None
        if found is None:
            found = _by_part(mention, entities)
        if found is None:
            unlinked[mention.entity] = None
        elif found.entity not in links or links[found.entity].score < found.score:
            links[found.entity] = found
    return Linking(tuple(links.values()), tuple(unlinked))


def _as_it_is(mention: Mention, entities: Mapping[str, int]) -> Link | None:
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
            share = max(0.0001, round(len(part) / len(form), 4))  # a link of no weight is none
            return Link(mention.entity, part, "part", share)
    return None
