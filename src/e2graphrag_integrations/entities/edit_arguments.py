"""Checks of the arguments that edit entities, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from e2graphrag_integrations._utils.validation import check_text, short_repr
from e2graphrag_integrations.entities.edits import EntityEdit
from e2graphrag_integrations.errors import InvalidInputError


@runtime_checkable
class Separation(Protocol):
    """A proposal that can be accepted; see `HomonymProposal`."""

    @property
    def separation(self) -> tuple[str, Mapping[str, Iterable[str]]]:
        """The name, and the documents in which it means another entity, by its new name."""


AliasArgument = Mapping[str, str]
"""The name that each alias means."""

SeparateArgument = Iterable[
    "tuple[str, str] | tuple[str, Mapping[str, Iterable[str]]] | Separation"
]
"""Pairs of names that never mean the same entity; and homonyms, each a name with the documents in
which it means another entity, by the new name of that entity."""

StopArgument = str | Iterable[str]
"""Names that mean no entity."""

UndoArgument = str | EntityEdit | Iterable[str | EntityEdit]
"""Edits to undo, or their ids."""


def new_edits(
    alias: AliasArgument | None, separate: SeparateArgument | None, stop: StopArgument | None
) -> list[EntityEdit]:
    """Return the edits in arguments of `edit_entities`.

    Raises:
        InvalidInputError: If an argument has the wrong type, or a name is empty.
    """
    if alias is not None and not isinstance(alias, Mapping):
        raise InvalidInputError(
            f"alias={short_repr(alias)} must map each alias to a name, such as "
            '{"Bob": "Robert Smith"}'
        )
    names = [stop] if isinstance(stop, str) else _items("stop", stop, "a list of names")
    return [
        *(
            EntityEdit("alias", (_name("alias", k), _name("alias", v)))
            for k, v in (alias or {}).items()
        ),
        *_separations(separate),
        *(EntityEdit("stop", (_name("stop", name),)) for name in names),
    ]


def edit_ids(undo: UndoArgument | None) -> list[str]:
    """Return the ids of edits to undo.

    Raises:
        InvalidInputError: If one is neither an edit nor an id.
    """
    given = [undo] if isinstance(undo, str | EntityEdit) else _items("undo", undo, "ids of edits")
    ids = (one.id if isinstance(one, EntityEdit) else check_text("undo", one) for one in given)
    return list(dict.fromkeys(ids))


def _separations(separate: Any) -> Iterator[EntityEdit]:
    for given in _items("separate", separate, 'pairs of names, such as [("Bob", "Rob")]'):
        one = given.separation if isinstance(given, Separation) else given
        is_pair = isinstance(one, tuple | list) and len(one) == 2  # noqa: PLR2004 - a pair has two items
        if not is_pair:
            raise InvalidInputError(
                f"separate contains {short_repr(one)}: pass pairs of names, such as "
                '[("Bob", "Rob")], or proposals of homonyms'
            )
        name, other = _name("separate", one[0]), one[1]
        if not isinstance(other, Mapping):
            yield EntityEdit("separate", (name, _name("separate", other)))
            continue
        for meaning, documents in other.items():
            what = f"the ids of the documents in which {name!r} means {meaning!r}"
            ids = _items("separate", documents, what)
            yield EntityEdit("homonym", (name, _name("separate", meaning), *ids))


def _items(argument: str, given: Any, what: str) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{argument}={short_repr(given)} must be {what}")
    return list(given)


def _name(argument: str, name: object) -> str:
    return check_text(f"a name in {argument}", name)
