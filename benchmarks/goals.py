"""Goals of a benchmark: limits on its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runs import write_result


@dataclass(frozen=True)
class Goal:
    """A figure with an upper limit, a lower limit or both.

    Attributes:
        name: The figure and its unit.
        value: The measured figure.
        max: Upper limit; None for no limit.
        min: Lower limit; None for no limit.
    """

    name: str
    value: float
    max: float | None = None
    min: float | None = None

    @property
    def met(self) -> bool:
        too_high = self.max is not None and self.value > self.max
        too_low = self.min is not None and self.value < self.min
        return not (too_high or too_low)

    def to_dict(self) -> dict[str, Any]:
        return {key: v for key, v in asdict(self).items() if v is not None} | {"met": self.met}


def finish(result: Mapping[str, Any], goals: Sequence[Goal], out: Path | None) -> None:
    """Write the result with its goals; exit with an error if one is missed."""
    write_result({**result, "goals": [goal.to_dict() for goal in goals]}, out)
    exit_if_missed(goals)


def exit_if_missed(goals: Sequence[Goal]) -> None:
    """Exit with an error that lists the missed goals, if there are any."""
    missed = [f"{goal.name}: {goal.value}" for goal in goals if not goal.met]
    if missed:
        raise SystemExit("missed goals: " + "; ".join(missed))
