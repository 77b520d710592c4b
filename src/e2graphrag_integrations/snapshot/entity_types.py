"""The types of the entities of a snapshot: the most frequent types of their mentions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.entity_types import (
    COMMON_NOUN,
    OTHER,
    type_of_label,
)

if TYPE_CHECKING:
    from e2graphrag_integrations.graph.builder import MentionTable


@dataclass(frozen=True, eq=False)
class EntityTypes:
    """The type of each entity.

    Attributes:
        names: The types.
        numbers: For each entity, the place of its type in `names`.
    """

    names: Sequence[str]
    numbers: IntArray

    @classmethod
    def of(cls, mentions: MentionTable, is_name: NDArray[np.bool_]) -> EntityTypes:
        """Return the types of entities.

        Mentions of an unknown type have no vote, since rules find names without their types. The
        first type by name wins ties.

        Args:
            mentions: The mentions of the entities after the edits.
            is_name: Whether each entity is a name; the others are common nouns. Entities that no
                text mentions follow those that texts mention.
        """
        by_label = [type_of_label(label) for label in mentions.labels]
        names = [COMMON_NOUN, OTHER, *sorted({*by_label} - {OTHER})]
        places = np.asarray([0, *(names.index(type_) for type_ in by_label)])
        types = places[mentions.label_numbers]
        votes = types > names.index(OTHER)
        pairs, counts = np.unique(
            mentions.entities[votes] * len(names) + types[votes], return_counts=True
        )
        entities, types = pairs // len(names), pairs % len(names)
        order = np.lexsort((types, -counts, entities))
        winners = order[np.flatnonzero(np.diff(entities[order], prepend=-1))]
        numbers = np.full(len(is_name), names.index(OTHER))
        numbers[entities[winners]] = types[winners]
        numbers[~is_name] = names.index(COMMON_NOUN)
        return cls(names, numbers)

    def of_row(self, row: int) -> str:
        """Return the type of an entity."""
        return self.names[int(self.numbers[row])]

    def of_rows(self, rows: IntArray) -> list[str]:
        """Return the types of entities."""
        return [self.names[number] for number in self.numbers[rows].tolist()]

    def are(self, types: Collection[str]) -> NDArray[np.bool_]:
        """Return whether each entity has one of some types; upper and lower case do not matter."""
        wanted = {type_.casefold() for type_ in types}
        chosen = np.asarray([name.casefold() in wanted for name in self.names])
        mask: NDArray[np.bool_] = chosen[self.numbers]
        return mask
