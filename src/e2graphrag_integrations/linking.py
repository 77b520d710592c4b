"""From the names in a question to the entities of the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from e2graphrag_integrations.normalize import normal_form, sub_spans, without_honorifics
from e2graphrag_integrations.types import Mention


@dataclass(frozen=True, slots=True)
class Link:
    """A mention of the question and the entity it stands for.

    `how` says which rule found it: `exact` normal form, `stripped` of honorifics and articles, or
    the longest `part` of the mention that is an entity. `score` is 1 for the first two, for a part
    the share of the mention's letters that it covers.
    """

    mention: str
    entity: str
    how: Literal["exact", "stripped", "part"]
    score: float


@dataclass(frozen=True, slots=True)
class Linking:
    """The links of a question, one an entity, and the mentions that found none."""

    links: tuple[Link, ...]
    unlinked: tuple[str, ...]


def link(mentions: Iterable[Mention], entities: Mapping[str, int]) -> Linking:
    """Link each mention by the first rule that finds an entity in the index."""
    links: dict[str, Link] = {}
    unlinked: dict[str, None] = {}
    for mention in mentions:
        found = _link_one(mention.entity, entities)
        if found is None:
            unlinked[mention.entity] = None
        elif found.entity not in links or links[found.entity].score < found.score:
            links[found.entity] = found
    return Linking(tuple(links.values()), tuple(unlinked))


def _link_one(mention: str, entities: Mapping[str, int]) -> Link | None:
    form = normal_form(mention)
    if not form:
        return None
    if form in entities:
        return Link(mention, form, "exact", 1.0)
    stripped = without_honorifics(form)
    if stripped in entities:
        return Link(mention, stripped, "stripped", 1.0)
    for part in sub_spans(stripped):
        if part in entities:
            return Link(mention, part, "part", round(len(part) / len(stripped), 4))
    return None
