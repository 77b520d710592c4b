"""Entity linking: matching the mentions in a query to entities in the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, Self

from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.matching.aliases import Alias, Aliases, Tie
from e2graphrag_integrations.entities.normalize import sub_spans, without_honorifics
from e2graphrag_integrations.types import NOUN, Mention

_MAX_ALIAS_LOOKUPS = 32
"""Maximum number of alias lookups per query, which bounds the time for very long queries."""

_ABBREVIATED = MappingProxyType(
    {
        one: tuple(other for other in group if other != one)
        for group in (("mount", "mt.", "mt"), ("fort", "ft.", "ft"))
        for one in group
    }
)
"""Other spellings of the first word of a name."""


@dataclass(frozen=True, slots=True)
class Link:
    """A mention in the query, linked to an entity.

    Attributes:
        mention: The mention as written in the query.
        entity: The normal form of the entity.
        how: The rule that matched. `user alias`: the user made the mention an alias of the entity.
            `homonym`: the entity is one of several with this name, which the user separated.
            `exact`: the normal form is an entity. `stripped`: it is one without honorifics and
            articles. `alias`: the mention is an alias of the entity. `similar`: the spelling is
            similar. `part`: the longest part of the mention that is an entity.
        score: Confidence in (0, 1]. 1 for `user alias`, `homonym`, `exact` and `stripped`. For
            `alias`, the entity's chunks as a fraction of the chunks of all entities with it. For
            `similar`, the similarity of the spellings. For `part`, the part's fraction of the
            mention's length.
        others: Other entities that the mention may mean, for `alias` and `similar`, at most five.
    """

    mention: str
    entity: str
    how: Literal["user alias", "homonym", "exact", "stripped", "alias", "similar", "part"]
    score: float
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Linking:
    """The links of a query, at most one per entity, and the mentions without a link.

    Mentions that the user stopped are in neither list.

    Attributes:
        links: The links.
        unlinked: The mentions without a link, as written.
        ties: The entities that some of these mean equally well, by mention.
    """

    links: tuple[Link, ...]
    unlinked: tuple[str, ...]
    ties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def link(
    mentions: Iterable[Mention],
    entities: Mapping[str, int],
    aliases: Aliases | None = None,
    noun_entities: Mapping[str, int] | None = None,
    *,
    edits: EntityEdits = NO_EDITS,
) -> Linking:
    """Link each mention by the first rule that finds an entity in the index.

    Args:
        mentions: The mentions in the query.
        entities: The normal forms of all entities in the index.
        aliases: Alternative names of the entities. None disables aliases, as in the paper.
        noun_entities: The normal forms that common nouns can link to. None allows all, as in the
            paper.
        edits: The user's edits. They precede the rules, and apply to nouns as well.
    """
    links: dict[str, Link] = {}
    unlinked: dict[str, None] = {}
    ties: dict[str, tuple[str, ...]] = {}
    lookups = 0
    for mention in mentions:
        is_noun = mention.label == NOUN
        known = noun_entities if is_noun and noun_entities is not None else entities
        name = _Name.of(mention, entities, edits)
        homonyms = _homonyms(name, entities, edits)
        links.update({one.entity: one for one in homonyms})
        found = _by_edit(name, entities, homonyms)
        if found is None and not name.is_stopped:
            found = _by_name(name, known)
            if found is None and aliases is not None and not is_noun:
                lookups += 1
                other = _by_alias(name, aliases, known) if lookups <= _MAX_ALIAS_LOOKUPS else None
                if isinstance(other, Tie):
                    ties[mention.entity] = other.entities
                else:
                    found = other
            if found is None and mention.entity not in ties:
                found = _by_part(name, known, edits)
        if found is None:
            if not name.is_stopped:
                unlinked[mention.entity] = None
        elif found.entity not in links or links[found.entity].score < found.score:
            links[found.entity] = found
    return Linking(tuple(links.values()), tuple(unlinked), ties)


class _Name(NamedTuple):
    """A mention and its forms, after the user's edits.

    Attributes:
        mention: The mention as written.
        form: The normal form, or the entity of which it is an alias.
        stripped: The same without honorifics and articles.
        is_alias: Whether the user made the mention an alias.
        is_stopped: Whether the user stopped it.
        excluded: Entities that the user separated from it.
    """

    mention: str
    form: str
    stripped: str
    is_alias: bool = False
    is_stopped: bool = False
    excluded: frozenset[str] = frozenset()

    @classmethod
    def of(cls, mention: Mention, entities: Mapping[str, int], edits: EntityEdits) -> Self:
        """Return the forms of a mention; `entities` are those in the index."""
        form = edits.form(mention.entity)
        stripped = without_honorifics(form)
        if not edits:
            return cls(mention.entity, form, stripped)
        excluded = edits.separated_from(form, stripped)
        for own in (form, stripped):
            entity = edits.resolve(own)
            if entity != own:
                return cls(mention.entity, entity, entity, bool(entity), not entity, excluded)
            if own in entities:
                break
        return cls(mention.entity, form, stripped, excluded=excluded)


def _by_edit(name: _Name, entities: Mapping[str, int], homonyms: Sequence[Link]) -> Link | None:
    if homonyms and name.form not in entities:
        return homonyms[0]  # each mention has been given another meaning
    is_known = name.is_alias and name.form in entities
    return Link(name.mention, name.form, "user alias", 1.0) if is_known else None


def _homonyms(name: _Name, entities: Mapping[str, int], edits: EntityEdits) -> list[Link]:
    """Return links to the entities that the user separated from others with the same name."""
    forms = name.form, name.stripped, edits.form(name.mention) if edits else name.form
    found = dict.fromkeys(one for form in forms for one in edits.meanings_of(form))
    return [Link(name.mention, one, "homonym", 1.0) for one in found if one in entities]


def _by_name(name: _Name, entities: Mapping[str, int]) -> Link | None:
    if name.form and name.form in entities:
        return Link(name.mention, name.form, "exact", 1.0)
    if name.stripped and name.stripped in entities and name.stripped not in name.excluded:
        return Link(name.mention, name.stripped, "stripped", 1.0)
    return None


def _by_alias(name: _Name, aliases: Aliases, entities: Mapping[str, int]) -> Link | Tie | None:
    first, _, rest = name.stripped.partition(" ")
    for other in _ABBREVIATED.get(first, ()):
        entity = f"{other} {rest}"
        if rest and entity in entities and entity not in name.excluded:
            return Link(name.mention, entity, "alias", 1.0)
    found = aliases.find(name.stripped, name.excluded) if name.stripped else None
    return Link(name.mention, *found) if isinstance(found, Alias) else found


def _by_part(name: _Name, entities: Mapping[str, int], edits: EntityEdits) -> Link | None:
    for part in sub_spans(name.stripped):
        if part in edits.spelled_apart:  # the capitals that would decide are not in the form
            continue
        entity = edits.resolve(part)
        if entity in entities and entity not in name.excluded:
            score = max(0.0001, round(len(part) / len(name.stripped), 4))  # must be positive
            return Link(name.mention, entity, "part", score)
    return None
