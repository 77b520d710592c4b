"""The user's corrections of entities: aliases, homonyms and stop entities.

Edits never change an extraction. They apply when the graph is computed and when the names in a
question are linked, so that each of them can be undone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import check_name, invalid_input
from e2graphrag_integrations.entities.normalize import cased_form, normal_form
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.types import Mention

EditKind = Literal["alias", "homonym", "separate", "stop"]

_NAMES_PER_EDIT: Mapping[str, int] = {"alias": 2, "separate": 2, "stop": 1}

_HOMONYM = 2
"""Number of names of a homonym. The ids of at least one document follow them."""

_ID_LENGTH = 12

_PARENTHESES = re.compile(r"\s*[(（][^()（）]*[)）]$")


@dataclass(frozen=True, slots=True, order=True)
class EntityEdit:
    """One correction.

    Attributes:
        kind: `alias`: the first name means the entity of the second one. `homonym`: so it does, but
            only in some documents. `separate`: the names never mean the same entity. `stop`: the
            name means no entity.
        names: The names, as the user wrote them; those of `separate` are sorted. Those of a homonym
            are followed by the ids of the documents, which are sorted.

    Raises:
        InvalidInputError: If the kind is unknown, or a name is not a string with a letter or digit.
    """

    kind: EditKind
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.kind == "homonym":
            self._check_homonym()
            return
        if len(self.names) != _NAMES_PER_EDIT.get(self.kind):
            raise InvalidInputError(f"{self.kind!r} with {len(self.names)} names is not an edit")
        names = [_checked_name(self.kind, one) for one in self.names]
        in_order = sorted(names) if self.kind == "separate" else names
        object.__setattr__(self, "names", tuple(in_order))

    def _check_homonym(self) -> None:
        documents = sorted(
            {check_name("a document in separate", one) for one in self.names[_HOMONYM:]}
        )
        if not documents:
            raise InvalidInputError("a homonym needs the documents in which it has another meaning")
        name, meaning = (_checked_name(self.kind, one) for one in self.names[:_HOMONYM])
        if normal_form(name) == normal_form(meaning):
            raise invalid_input(
                "homonym_same",
                "separate: {meaning!r} does not tell the entity from others with the name "
                "{text!r}: add a word, such as {example!r}",
                meaning=meaning,
                text=name,
                example=f"{name} (2)",
            )
        object.__setattr__(self, "names", (name, meaning, *documents))

    @property
    def id(self) -> str:
        """A name for the edit, derived from its content."""
        content = json.dumps([self.kind, *self.names], ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()[:_ID_LENGTH]

    def __str__(self) -> str:
        """Return the edit in words."""
        first, last = self.names[0], self.names[-1]
        if self.kind == "homonym":
            count = len(self.names) - _HOMONYM
            meaning = self.names[1]
            return f"{first!r} means {meaning!r} in {count} document{'s' if count > 1 else ''}"
        if self.kind == "alias":
            return f"{first!r} means {last!r}"
        return f"{first!r} is not {last!r}" if self.kind == "separate" else f"{first!r} is stopped"


@dataclass(frozen=True)
class EntityEdits:
    """All edits of an index, ordered by kind and names.

    Args:
        edits: The edits, in any order.

    Raises:
        InvalidInputError: If the edits contradict each other.
    """

    edits: tuple[EntityEdit, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "edits", tuple(sorted(set(self.edits))))
        self._check_aliases()
        self._check_separate()
        self._check_stop()
        self._check_homonyms()

    def __iter__(self) -> Iterator[EntityEdit]:
        """Yield the edits."""
        return iter(self.edits)

    def __len__(self) -> int:
        """Return the number of edits."""
        return len(self.edits)

    @property
    def aliases(self) -> dict[str, str]:
        """The name that each alias means, as written."""
        return {one.names[0]: one.names[1] for one in self.edits if one.kind == "alias"}

    @property
    def separate(self) -> tuple[tuple[str, str], ...]:
        """The pairs of names that never mean the same entity, as written."""
        return tuple((one.names[0], one.names[1]) for one in self.edits if one.kind == "separate")

    @property
    def stop(self) -> tuple[str, ...]:
        """The names that mean no entity, as written."""
        return tuple(one.names[0] for one in self.edits if one.kind == "stop")

    # Changes

    def changed(self, added: Iterable[EntityEdit], removed: Iterable[str] = ()) -> EntityEdits:
        """Return the edits after a change. An edit that already holds is not added again.

        Args:
            added: New edits.
            removed: Ids of edits to undo first.

        Raises:
            InvalidInputError: If there is no edit with one of the ids, or the result contradicts
                itself.
        """
        by_id = {one.id: one for one in self.edits}
        for id_ in removed:
            if by_id.pop(id_, None) is None:
                raise invalid_input(
                    "no_edit", "there is no edit {id!r}: edits() lists the ids", id=id_
                )
        everything = [*by_id.values(), *added]
        apart = _spelled_apart(everything)
        distinct: dict[tuple[str, ...], EntityEdit] = {}
        for one in everything:
            forms = [_form(name, apart) for name in one.names[:_HOMONYM]]
            forms = sorted(forms) if one.kind == "separate" else forms
            forms += one.names[_HOMONYM:]
            distinct.setdefault((one.kind, *forms), one)
        return EntityEdits(tuple(distinct.values()))

    def reading_alike(self) -> EntityEdits:
        """Return the edits that decide how mentions are read; see `spelled_apart`."""
        apart = self.spelled_apart
        return EntityEdits(
            tuple(
                one
                for one in self.edits
                if one.kind == "homonym"
                or (
                    one.kind == "separate"
                    and normal_form(one.names[0]) in apart
                    and normal_form(one.names[0]) == normal_form(one.names[1])
                )
            )
        )

    def restricted_to(self, known: Container[str], documents: Container[str]) -> EntityEdits:
        """Return the edits between known names, so that no other name shows.

        An alias of an alias means the last known name of the chain.

        Args:
            known: The forms of the known names, before the edits.
            documents: The ids of the known documents.
        """
        written = {self.form(alias): name for alias, name in self.aliases.items()}
        kept: list[EntityEdit] = []
        for one in self.edits:
            if one.kind == "homonym":
                own = [id_ for id_ in one.names[_HOMONYM:] if id_ in documents]
                if own:
                    kept.append(EntityEdit("homonym", (*one.names[:_HOMONYM], *own)))
                continue
            are_known = [
                self.form(name) in known for name in one.names[: 1 if one.kind == "alias" else 2]
            ]
            # A name of the same letters shows no other name, and decides how mentions are read.
            is_spelling = len({normal_form(name) for name in one.names}) == 1
            if not (any if is_spelling else all)(are_known):
                continue
            if one.kind != "alias":
                kept.append(one)
                continue
            alias, name = one.names
            targets = [name]
            while self.form(targets[-1]) in written:
                targets.append(written[self.form(targets[-1])])
            found = [target for target in targets if self.form(target) in known]
            if found:
                kept.append(EntityEdit("alias", (alias, found[-1])))
        return EntityEdits(tuple(kept))

    def to_json(self) -> list[list[str]]:
        """Return the edits as JSON values."""
        return [[one.kind, *one.names] for one in self.edits]

    @classmethod
    def from_json(cls, value: Any) -> EntityEdits:
        """Return the edits that `to_json` encoded.

        Raises:
            ValueError: If the value is invalid; `InvalidInputError` is a ValueError.
            TypeError: If a value has the wrong type.
        """
        if not isinstance(value, Sequence) or not all(isinstance(one, list) for one in value):
            raise TypeError("edits must be a list of lists")
        return cls(
            tuple(EntityEdit(cast("EditKind", kind), tuple(names)) for kind, *names in value)
        )

    # Application

    def form(self, name: str) -> str:
        """Return the normal form of a name; with its capitals, if only they tell it from another.

        >>> edits = EntityEdits((EntityEdit("separate", ("US", "us")),))
        >>> edits.form("the US"), edits.form("Us"), edits.form("UK")
        ('US', 'us', 'uk')
        """
        return _form(name, self.spelled_apart)

    def resolve(self, form: str) -> str:
        """Return the entity that a form means, following aliases; empty if it is stopped."""
        form = self._target(form)
        return "" if form in self._stopped else form

    def entity_of(self, name: str) -> str:
        """Return the entity that a name means; empty if it means none.

        >>> EntityEdits((EntityEdit("alias", ("Bob", "Robert Smith")),)).entity_of("Bob's")
        'robert smith'
        """
        return self.resolve(self.form(name))

    def read_in(
        self, document_id: str, sentences: Sequence[Sequence[Mention]]
    ) -> Sequence[Sequence[Mention]]:
        """Return the mentions in a document, with the meaning of each homonym as its name."""
        meanings = self._homonyms.get(document_id)
        if meanings is None:
            return sentences
        return [
            [one._replace(entity=meanings.get(self.form(one.entity), one.entity)) for one in own]
            for own in sentences
        ]

    def title_in(self, document_id: str, title: str | None) -> str | None:
        """Return the title of a document, or its meaning if it is a homonym there."""
        meanings = self._homonyms.get(document_id)
        if meanings is None or title is None:
            return title
        plain = self.form(_PARENTHESES.sub("", title))
        return meanings.get(self.form(title), meanings.get(plain, title))

    def meanings_of(self, form: str) -> tuple[str, ...]:
        """Return the further entities with a name, which have other names in the index."""
        return self._meanings.get(form, ())

    @property
    def homonyms(self) -> tuple[EntityEdit, ...]:
        """The names that have another meaning in some documents.

        These edits decide how mentions are read, while all others apply to the entities.
        """
        return tuple(one for one in self.edits if one.kind == "homonym")

    def separated_from(self, *forms: str) -> frozenset[str]:
        """Return the entities that none of the forms may mean."""
        partners = self._partners
        if not partners:
            return frozenset()
        return frozenset().union(*(partners.get(self.resolve(form), ()) for form in forms))

    def aliases_of(self, entity: str) -> tuple[str, ...]:
        """Return the aliases of an entity, as written."""
        return self._aliases_by_entity.get(entity, ())

    @property
    def alias_forms(self) -> Iterable[str]:
        """The forms of all aliases."""
        return self._targets.keys()

    @lazy
    def named_forms(self) -> frozenset[str]:
        """The forms of all names in the edits."""
        return frozenset(self.form(name) for one in self.edits for name in one.names[:_HOMONYM])

    @lazy
    def spelled_apart(self) -> Mapping[str, frozenset[str]]:
        """For each normal form of names that only capitals tell apart, their forms with capitals.

        These edits decide how mentions are read, while all others apply to the entities.
        """
        return _spelled_apart(self.edits)

    @lazy
    def _homonyms(self) -> Mapping[str, Mapping[str, str]]:
        """For each document with homonyms, the meaning of each name by its form."""
        found: dict[str, dict[str, str]] = {}
        for one in self.homonyms:
            for document_id in one.names[_HOMONYM:]:
                found.setdefault(document_id, {})[self.form(one.names[0])] = one.names[1]
        return found

    @lazy
    def _meanings(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {}
        for one in self.homonyms:
            found.setdefault(self.form(one.names[0]), {})[self.entity_of(one.names[1])] = None
        return {form: tuple(meanings) for form, meanings in found.items()}

    @lazy
    def _targets(self) -> dict[str, str]:
        return {self.form(alias): self.form(name) for alias, name in self.aliases.items()}

    @lazy
    def _stopped(self) -> frozenset[str]:
        return frozenset(self.form(name) for name in self.stop)

    @lazy
    def _partners(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for pair in self.separate:
            a, b = (self.entity_of(name) for name in pair)
            found.setdefault(a, set()).add(b)
            found.setdefault(b, set()).add(a)
        found.pop("", None)
        return {form: frozenset(others) for form, others in found.items()}

    @lazy
    def _aliases_by_entity(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for alias in self.aliases:
            found.setdefault(self.entity_of(alias), []).append(alias)
        return {entity: tuple(aliases) for entity, aliases in found.items()}

    # Checks

    def _check_aliases(self) -> None:
        targets: dict[str, str] = {}
        meanings: dict[str, tuple[str, str]] = {}  # the first alias of a form, and its name
        for alias, name in (one.names for one in self.edits if one.kind == "alias"):
            form, target = self.form(alias), self.form(name)
            _, first = meanings.setdefault(form, (alias, name))
            if form == target:
                raise invalid_input(
                    "alias_same",
                    "alias: {alias!r} and {other!r} already name the same entity",
                    alias=alias,
                    other=name,
                )
            if targets.setdefault(form, target) != target:
                raise invalid_input(
                    "alias_of_two",
                    "alias: {alias!r} cannot mean both {first!r} and {other!r}: undo one of the "
                    "edits",
                    alias=alias,
                    other=name,
                    first=first,
                )
        for form in targets:
            path = [form]
            while path[-1] in targets and len(path) <= len(targets):
                path.append(targets[path[-1]])
            if path[-1] in targets:
                names = [meanings[one][0] for one in path[path.index(path[-1]) :]]
                raise invalid_input(
                    "alias_cycle",
                    "alias: {described} is a cycle, so none of these names means an entity: "
                    "leave one of them out",
                    described=" -> ".join(map(repr, names)),
                )

    def _check_separate(self) -> None:
        for a, b in self.separate:
            if self.form(a) == self.form(b):
                raise invalid_input(
                    "separate_same",
                    "separate: {first!r} and {last!r} are the same name, so they cannot be told "
                    "apart",
                    first=a,
                    last=b,
                )
            if self._target(self.form(a)) == self._target(self.form(b)):
                chain = sorted({alias for name in (a, b) for alias in self._chain(name)})
                raise invalid_input(
                    "separate_joined",
                    "separate: {first!r} and {last!r} are kept apart, but aliases join them "
                    "({chain}): undo one of the edits",
                    first=a,
                    last=b,
                    chain="; ".join(chain),
                )

    def _check_stop(self) -> None:
        used = {
            self.form(name): (alias, n) for alias, n in self.aliases.items() for name in (alias, n)
        }
        for name in self.stop:
            if self.form(name) in used:
                alias, target = used[self.form(name)]
                raise invalid_input(
                    "stop_alias",
                    "stop: {stopped!r} is stopped, but {alias!r} is an alias of {other!r}: undo "
                    "one of the edits",
                    stopped=name,
                    alias=alias,
                    other=target,
                )

    def _check_homonyms(self) -> None:
        meanings: dict[tuple[str, str], str] = {}
        for one in self.homonyms:
            name, meaning, *documents = one.names
            for document_id in documents:
                known = meanings.setdefault((document_id, normal_form(name)), meaning)
                if normal_form(known) != normal_form(meaning):
                    raise invalid_input(
                        "homonym_of_two",
                        "separate: {text!r} cannot mean both {first!r} and {other!r} in document "
                        "{document!r}: undo one of the edits",
                        text=name,
                        first=known,
                        other=meaning,
                        document=document_id,
                    )

    def _target(self, form: str) -> str:
        """Return the form that a form means, following aliases."""
        targets = self._targets
        while form in targets:
            form = targets[form]
        return form

    def _chain(self, name: str) -> Iterator[str]:
        """Yield the aliases that lead from a name to its entity, in words."""
        written = {self.form(alias): (alias, target) for alias, target in self.aliases.items()}
        form = self.form(name)
        while form in written:
            alias, target = written[form]
            yield f"{alias!r} means {target!r}"
            form = self.form(target)


def _checked_name(kind: str, name: str) -> str:
    checked = " ".join(check_name(f"a name in {kind}", name).split())
    if not normal_form(checked):
        raise invalid_input(
            "no_entity_name",
            "{text!r} in {kind} contains no letter or digit, so it names no entity",
            text=checked,
            kind=kind,
        )
    return checked


def _spelled_apart(edits: Iterable[EntityEdit]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for one in edits:
        forms = {normal_form(name) for name in one.names}
        if one.kind == "separate" and len(forms) == 1:
            found.setdefault(forms.pop(), set()).update(cased_form(name) for name in one.names)
    return {form: frozenset(spellings) for form, spellings in found.items()}


def _form(name: str, spelled_apart: Mapping[str, frozenset[str]]) -> str:
    form = normal_form(name)
    if form in spelled_apart:
        cased = cased_form(name)
        return cased if cased in spelled_apart[form] else form
    return form


NO_EDITS = EntityEdits()
"""No edits."""
