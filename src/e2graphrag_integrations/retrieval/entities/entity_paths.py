"""The paths of a result: chains of entities, and the sentences that prove them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from e2graphrag_integrations._utils.display import block, heading, table
from e2graphrag_integrations.text.broken_words import on_one_line


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge between two entities, with a sentence that mentions both.

    Attributes:
        source, target: Normal forms of the entities.
        weight: Weight of the edge in the entity graph.
        node_id: Id of the chunk that contains the sentence.
        document_id: Id of its document.
        start, end: Character range of the sentence in the document, `[start, end)`.
        text: The sentence.
    """

    source: str
    target: str
    weight: float
    node_id: str
    document_id: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class EntityPath:
    """A chain of entities that joins two names of the question.

    Attributes:
        hops: The edges from one name to the other.
        cost: Cost of the path; lower is better (docs/paths.md).
    """

    hops: tuple[Hop, ...]
    cost: float

    @property
    def entities(self) -> tuple[str, ...]:
        """Normal forms of the entities, from one name to the other."""
        return (self.hops[0].source, *(hop.target for hop in self.hops))

    def to_dict(self) -> dict[str, Any]:
        """Return the path as JSON values."""
        hops = [asdict(hop) for hop in self.hops]
        return {"entities": list(self.entities), "hops": hops, "cost": self.cost}

    def describe(self) -> str:
        """Return the names in one line, and one line for each hop with its sentence."""
        lines = [" - ".join(self.entities)]
        for hop in self.hops:
            place = f"{hop.document_id} {hop.start}-{hop.end}"
            lines.append(f"  {hop.source} - {hop.target} [{place}]: {on_one_line(hop.text)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (
                f"{hop.source} - {hop.target}",
                f"{hop.document_id} {hop.start}-{hop.end}",
                on_one_line(hop.text),
            )
            for hop in self.hops
        ]
        return block(heading(" - ".join(self.entities)), table(("hop", "place", "sentence"), rows))
