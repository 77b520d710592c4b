"""Goals of a benchmark: a figure each, and the most or least that it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Goal:
    """What a figure should be."""

    what: str
    figure: float
    most: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool:
        over = self.most is not None and self.figure > self.most
        return not over and not (self.least is not None and self.figure < self.least)

    def told(self) -> dict[str, Any]:
        return {name: v for name, v in asdict(self).items() if v is not None} | {"met": self.met}


def end_by(goals: Sequence[Goal]) -> None:
    """End the program with an error that names the goals that were missed, if some were."""
    missed = [f"{goal.what}: {goal.figure}" for goal in goals if not goal.met]
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))
