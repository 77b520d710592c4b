"""Copies and pickles of an open index: both mean "open this index again".

A pickle contains the arguments of `open`, not the models, because a model may hold an API key, a
connection or gigabytes of weights. This module only writes pickles; loading one is the user's own
decision.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from pickle import PicklingError, dumps
from types import FunctionType
from typing import Any

from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations._utils.validation import type_name
from e2graphrag_integrations.errors import InvalidInputError, NotPicklableError
from e2graphrag_integrations.options import ungrouped
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.location import index_exists, shown_path

CALLBACKS = frozenset({"callback_manager", "show_progress"})
"""Arguments that change no result. They are left out of a pickle."""

WRITERS = frozenset({"enricher", "llm", "splitter", "summarizer", "transformations"})
"""Arguments that only writes need. A pickle without them can only be read."""

MODELS = {
    "embedder": "embedder_model",
    "embeddings": "embedder_model",
    "embed_model": "embedder_model",
    "extractor": "extractor_model",
    "vector_store": "",
    "objects": "",
}
"""Parts that a search needs and that may hold a key, and the entries in the manifest that name
them, if any."""


def picklable_arguments(
    what: str, arguments: Mapping[str, Any], manifest: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments to pickle, and the names of those that only writes need.

    Fields of option objects are returned as arguments of their own; `grouped` reverses this.

    A model is included if it is given by name, or if its class defines `__reduce__`. Otherwise, the
    name in the manifest replaces it. A splitter may also be a function.

    Args:
        what: Name of the pickled object, for error messages.
        arguments: The arguments with which it was opened.
        manifest: The manifest of the index.

    Raises:
        NotPicklableError: If a search needs an argument that cannot be pickled. The message names
            every such argument.
    """
    included: dict[str, Any] = {}
    not_recorded: list[str] = []
    problems: list[str] = []
    for name, value in ungrouped(arguments):
        if value is None or name in CALLBACKS:
            continue
        is_model = name in MODELS or name in WRITERS
        reranker = getattr(value, "reranker", None) if name == "strategy" else None
        if reranker is not None and not reduces_itself(reranker):
            problems.append(_describe("reranker", reranker))
            continue
        if name == "splitter" and isinstance(value, FunctionType):
            is_model = False
        if not is_model or _is_reproducible(value):
            if is_picklable(value):
                included[name] = value
            else:
                problems.append(_describe(name, value))
        elif name in WRITERS:
            not_recorded.append(_describe(name, value))
        elif not manifest.get(MODELS[name]):
            problems.append(_describe(name, value))
    reject(what, problems)
    return included, tuple(not_recorded)


def check_fields(what: str, fields: Mapping[str, Any]) -> None:
    """Check that every field of a retriever can be pickled.

    Raises:
        NotPicklableError: If one cannot. The message names every such field.
    """
    problems = [_describe(name, value) for name, value in fields.items() if not is_picklable(value)]
    reranker = getattr(fields.get("strategy"), "reranker", None)
    if reranker is not None and not reduces_itself(reranker):
        problems.append(_describe("reranker", reranker))
    reject(what, problems)


def reject(what: str, problems: Collection[str]) -> None:
    """Raise an error that names the parts that cannot be pickled, if there are any.

    Raises:
        NotPicklableError: If there are any.
    """
    if problems:
        raise NotPicklableError(
            f"{what} cannot be pickled because of {', '.join(problems)}: pass models by name, "
            "define functions and classes at the top of a module, or open the index again in the "
            "other process"
        )


def _is_reproducible(value: object) -> bool:
    """Return whether a model is given by name, or defines what a pickle of it contains."""
    if isinstance(value, Mapping):  # extractors by language
        return all(map(_is_reproducible, value.values()))
    return isinstance(value, str | os.PathLike) or reduces_itself(value)


def reduces_itself(value: object) -> bool:
    """Return whether the class of an object defines what a pickle of it contains."""
    cls = type(value)
    return cls.__reduce__ is not object.__reduce__ or cls.__reduce_ex__ is not object.__reduce_ex__


def is_picklable(value: object) -> bool:
    """Return whether `pickle` accepts an object."""
    try:
        dumps(value)
    except NotPicklableError:
        raise
    except (PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        return False
    return True


def _describe(name: str, value: object) -> str:
    function = getattr(value, "__qualname__", None)
    return f"{name} ({type_name(value) if function is None else function})"


def absolute_path(path: str) -> str:
    """Return the absolute path of an index file; ":memory:" and URLs remain."""
    return path if path == MEMORY or is_postgres_url(path) else str(Path(path).absolute())


def check_exists(path: str) -> None:
    """Check that a copied or pickled index exists, so that no new one is created.

    Raises:
        InvalidInputError: If it does not exist.
        StoreError: If it is in a database that cannot be read.
    """
    if is_postgres_url(path):
        if not index_exists(path):
            raise InvalidInputError(f"the pickled index {shown_path(path)} does not exist")
        return
    if path != MEMORY and not Path(path).is_file():
        raise InvalidInputError(
            f"the pickled index {path} does not exist here: a pickle contains the path of an index "
            "file, not its content, so make the file available under this path"
        )
