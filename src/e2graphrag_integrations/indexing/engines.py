"""The engines of indexing by name: this process, or a Ray cluster."""

from __future__ import annotations

from typing import Any, Literal

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.stages.work import IndexingEngine, LocalEngine

EngineArgument = IndexingEngine | Literal["local", "ray"]
"""An engine, or the name of one with its defaults."""


def as_engine(engine: Any) -> IndexingEngine:
    """Return the engine for `"local"` or `"ray"`, or an engine unchanged.

    Raises:
        InvalidInputError: If the argument is neither.
    """
    if engine == "local":
        return LocalEngine()
    if engine == "ray":
        from e2graphrag_integrations.indexing.ray.engine import RayEngine

        return RayEngine()
    if isinstance(engine, IndexingEngine) and not isinstance(engine, type):
        return engine
    raise InvalidInputError(
        f'engine={short_repr(engine)} must be "local", "ray", or an engine such as RayEngine()'
    )
