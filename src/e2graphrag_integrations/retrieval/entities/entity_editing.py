"""Changing the entity edits of an index, checked against the names that it contains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from e2graphrag_integrations.entities.edit_arguments import (
    AliasArgument,
    SeparateArgument,
    StopArgument,
    UndoArgument,
    edit_ids,
    new_edits,
)
from e2graphrag_integrations.entities.edits import EntityEdit, EntityEdits
from e2graphrag_integrations.entities.matching.aliases import Tie
from e2graphrag_integrations.entities.normalize import without_honorifics
from e2graphrag_integrations.errors import UnknownEntityError
from e2graphrag_integrations.graph.titles import title_form
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.headings import section_name

NAMES_HINT = "entities(prefix=) lists the names"
"""How a user of the Python API finds the names."""


def changed_edits(
    current: EntityEdits,
    snapshot: Callable[[], Snapshot],
    *,
    alias: AliasArgument | None,
    separate: SeparateArgument | None,
    stop: StopArgument | None,
    undo: UndoArgument | None,
) -> EntityEdits:
    """Return the edits of an index after a change; see `E2GraphRAG.edit_entities`.

    Args:
        current: The edits before the change.
        snapshot: Returns the search index. It is called only to check new names.
        alias: New aliases.
        separate: New pairs of names that never mean the same entity.
        stop: Names that mean no entity.
        undo: Edits to undo first.

    Raises:
        InvalidInputError: If an argument is invalid, or the edits contradict each other.
        UnknownEntityError: If the index does not contain the entity of an alias, or neither name of
            a pair.
    """
    added = new_edits(alias, separate, stop)
    edits = current.changed(added, edit_ids(undo))
    new = [edit for edit in added if edit in edits.edits and edit not in current.edits]
    if any(edit.kind != "stop" for edit in new):
        _check_known(new, edits, snapshot())
    return edits


def _check_known(new: Iterable[EntityEdit], edits: EntityEdits, snapshot: Snapshot) -> None:
    known = frozenset(known_forms(edits, snapshot))
    for edit in new:
        if edit.kind == "stop":
            continue
        wanted = edit.names[1:] if edit.kind == "alias" else edit.names
        wanted = edit.names[:1] if edit.kind == "homonym" else wanted
        forms = [edits.form(name) for name in wanted]
        if not any(form in known or edits.resolve(form) in known for form in forms):
            names = " nor ".join(map(repr, wanted))
            meant = names_meant(wanted[0], snapshot)
            raise UnknownEntityError(
                f"{edit.kind}: the index contains {'neither ' if len(wanted) > 1 else 'no entity '}"
                f"{names}{suggestion(meant)}",
                NAMES_HINT,
                name=wanted[0],
                meant=meant,
            )


def known_forms(edits: EntityEdits, snapshot: Snapshot) -> Iterator[str]:
    """Yield the forms of all mentions and subjects, before and after the edits."""
    names = snapshot.unedited_names
    yield from names
    if len(edits.spelled_apart) > len(snapshot.edits.spelled_apart):
        # The mentions have not been read with their capitals yet.
        in_index = frozenset(names)
        for form, spellings in edits.spelled_apart.items():
            yield from spellings if form in in_index else ()
    subjects = snapshot.subjects
    yield from subjects.subject_index
    for subject in subjects.choice.of_documents:
        for name in subject.names:
            yield edits.form(name)
            yield title_form(name)
    for _, section in subjects.choice.sections:
        yield title_form(section_name(section.name))


def names_meant(name: str, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the entities that an unknown name may mean, if there are similar ones."""
    found = snapshot.aliases.find(without_honorifics(snapshot.edits.form(name)))
    if found is None:
        return ()
    return tuple(found.entities) if isinstance(found, Tie) else (found.entity,)


def suggestion(meant: tuple[str, ...]) -> str:
    """Return the end of a message about an unknown name: similar ones, or an empty string."""
    return f": did you mean {' or '.join(map(repr, meant))}?" if meant else ""
