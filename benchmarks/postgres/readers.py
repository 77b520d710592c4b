"""Questions to an index in Postgres, compared with a file of the same content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goals import Goal
from postgres.part import Part


def measure(part: Part) -> dict[str, Any]:
    """Measure readers."""
    return {"server": part.server.url.partition(":")[0]}


def goals(result: Mapping[str, Any]) -> list[Goal]:
    """Return the goals of the figures."""
    del result
    return []
