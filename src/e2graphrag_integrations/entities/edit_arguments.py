"""Checks of the arguments that edit entities, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from e2graphrag_integrations._utils.validation import check_text, short_repr
from e2graphrag_integrations.entities.edits import EntityEdit
from e2graphrag_integrations.errors import InvalidInputError

AliasArgument = Mapping[str, str]
"""The name that each alias means."""

SeparateArgument = Iterable[tuple[str, str]]
"""Pairs of names that never mean the same entity."""

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
        *(EntityEdit("separate", pair) for pair in _pairs(separate)),
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


def _pairs(separate: Any) -> list[tuple[str, str]]:
    pairs = []
    for one in _items("separate", separate, 'pairs of names, such as [("Bob", "Rob")]'):
        is_pair = isinstance(one, tuple | list) and len(one) == 2  # noqa: PLR2004 - a pair has two items
        if not is_pair:
            raise InvalidInputError(
                f"separate contains {short_repr(one)}: pass pairs of names, such as "
                '[("Bob", "Rob")]'
            )
        pairs.append((_name("separate", one[0]), _name("separate", one[1])))
    return pairs


def _items(argument: str, given: Any, what: str) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{argument}={short_repr(given)} must be {what}")
    return list(given)


def _name(argument: str, name: object) -> str:
    return check_text(f"a name in {argument}", name)
