"""Settings to compare: the arguments of `retrieve`, under a name."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.failures import CodedText, text_of
from e2graphrag_integrations._utils.files import unread_reason
from e2graphrag_integrations._utils.validation import check_bool, check_name, short_repr
from e2graphrag_integrations.errors import EvaluationError, InvalidInputError
from e2graphrag_integrations.retrieval.filters.where import Where, metadata_filter
from e2graphrag_integrations.retrieval.ranking.boosts import Boost, as_boosts
from e2graphrag_integrations.retrieval.strategies.by_name import STRATEGIES, make_strategy
from e2graphrag_integrations.retrieval.strategy import (
    DEFAULT_K,
    Expand,
    Mode,
    Query,
    Strategy,
    check_strategy,
)
from e2graphrag_integrations.retrieval.validity.options import AsOf, as_validity

_MAX_FILE = 10_000_000
"""Maximum number of bytes in a file of settings."""


@dataclass(frozen=True)
class Setting:
    """Arguments of `E2GraphRAG.retrieve`, which describes them.

    Args:
        k: Maximum number of nodes; None means 10, or with `token_budget`, as many as fit.
        mode: `auto`, `local` or `global`.
        strategy: A strategy; None means that of the index.
        where: Metadata filter.
        token_budget: Maximum tokens in the context.
        expand: `none`, `children` or `leaves`.
        fill: Whether to fill the result up to `k` nodes.
        boost: Preferred tags, documents, dates or values.
        min_relevance: Leaves out nodes with a lower relevance.
        as_of: A date, or `Validity`, to find only what held then.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    k: int | None = None
    mode: Mode = "auto"
    strategy: Strategy | None = None
    where: Where | None = None
    token_budget: int | None = None
    expand: Expand = "none"
    fill: bool = False
    boost: Boost | None = None
    min_relevance: float | None = None
    as_of: AsOf | None = None

    def __post_init__(self) -> None:
        query = Query(
            "?",
            DEFAULT_K if self.k is None else self.k,
            self.mode,
            None,
            self.token_budget,
            self.expand,
            min_relevance=self.min_relevance,
        )
        object.__setattr__(self, "k", None if self.k is None else query.k)
        object.__setattr__(self, "token_budget", query.token_budget)
        object.__setattr__(self, "min_relevance", query.min_relevance)
        check_bool("fill", self.fill)
        if self.strategy is not None:
            check_strategy(self.strategy)
        if self.where is not None:
            metadata_filter(self.where)
        if self.boost is not None:
            object.__setattr__(self, "boost", as_boosts(self.boost))
        if self.as_of is not None:
            object.__setattr__(self, "as_of", as_validity(self.as_of))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `retrieve`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def describe(self) -> dict[str, str | float | bool]:
        """Return the arguments that are not the default ones, for reports."""
        return {
            field.name: value if isinstance(value, str | int | float) else short_repr(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        }


def parse_settings(arguments: Sequence[str]) -> dict[str, Setting]:
    """Parse settings of the form `NAME KEY=VALUE KEY=VALUE`, as the command line has them.

    A value is JSON, or else a string. White space in a value must be part of a JSON string, list or
    object.

    >>> parse_settings(["five k=5", "names k=5 mode=local"])["names"].mode
    'local'

    Raises:
        EvaluationError: If a setting is invalid, or a name is given twice.
    """
    settings: dict[str, Setting] = {}
    for argument in arguments:
        name, *rest = check_name("setting", argument).split(None, 1)
        if "=" in name:
            raise EvaluationError(
                f"setting {short_repr(argument)} must begin with a name of your choice, as in "
                f"'mine {name}'"
            )
        if name in settings:
            raise EvaluationError(f"the setting {name!r} is given twice")
        settings[name] = make_setting(name, _parse_values(name, rest[0] if rest else ""))
    return settings


def _parse_values(setting: str, text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        key, separator, text = text.partition("=")
        if not separator or not key.isidentifier():
            raise EvaluationError(
                f"setting {setting!r}: {short_repr(key)} must be KEY=VALUE, such as k=5"
            )
        if key in values:
            raise EvaluationError(f"setting {setting!r}: {key} is given twice")
        word = text.split(None, 1)[0] if text.strip() and not text[0].isspace() else ""
        try:
            values[key], end = decoder.raw_decode(text)
            if text[end : end + 1].strip():  # for example the date 2024-01-01
                values[key], end = word, len(word)
        except RecursionError:
            raise EvaluationError(f"setting {setting!r}: {key} is nested too deeply") from None
        except ValueError:
            values[key], end = word, len(word)
        text = text[end:]
    return values


def read_settings(path: str | os.PathLike[str]) -> dict[str, Setting]:
    """Read settings from a JSON or TOML file that maps each name to the arguments.

    `strategy` is `hybrid`, `paper` or `tree`. Keys that are not arguments of `Setting`, such as
    `bm25_weight`, are parameters of the strategy.

    Raises:
        EvaluationError: If the file cannot be read, or a setting is invalid.
    """
    try:
        file = Path(path)
        if file.stat().st_size > _MAX_FILE:
            raise EvaluationError(f"the settings {file} have more than {_MAX_FILE:,} bytes")
        text = file.read_text(encoding="utf-8-sig")
        if file.suffix.lower() == ".toml":
            values = tomllib.loads(text)
        else:
            values = json.loads(text, object_pairs_hook=_without_duplicates)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, EvaluationError):
            raise
        raise EvaluationError(
            f"the settings {path!s} cannot be read: {unread_reason(error)}"
        ) from error
    if not isinstance(values, dict) or not all(isinstance(v, dict) for v in values.values()):
        raise EvaluationError(
            f'the settings {file} must map names to arguments, such as {{"five": {{"k": 5}}}}'
        )
    if not values:
        raise EvaluationError(f"the settings {file} are empty")
    return {name: make_setting(name, options) for name, options in values.items()}


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise EvaluationError(f"the key {short_repr(twice)} is given twice")
    return values


def make_setting(name: str, values: Mapping[str, Any]) -> Setting:
    """Return a setting from JSON values.

    Args:
        name: Name of the setting, for error messages; empty if there is only one.
        values: The arguments; `strategy` is a name. Other keys are parameters of the strategy.

    Raises:
        EvaluationError: If a value is invalid; the message names the setting.
    """
    known = {field.name for field in fields(Setting)}
    own = {key: value for key, value in values.items() if key in known}
    parameters = {key: value for key, value in values.items() if key not in known}
    try:
        if parameters or "strategy" in own:
            own["strategy"] = make_strategy(own.get("strategy", next(iter(STRATEGIES))), parameters)
        return Setting(**own)
    except InvalidInputError as error:
        problem = text_of(error)
        if not name:
            raise EvaluationError(problem) from error
        text = CodedText(
            "in_setting", "setting {setting!r}: {problem}", setting=name, problem=problem
        )
        raise EvaluationError(text) from error
