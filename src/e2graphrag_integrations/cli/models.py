"""Language models for the options of the command line."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from e2graphrag_integrations.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from e2graphrag_integrations.enrichment import Enricher
    from e2graphrag_integrations.server.web import AnswerOptions
    from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer


def make_summarizer(
    model: str | None, base_url: str | None, api_key_env: str | None, *, estimate: bool = False
) -> OpenAISummarizer | None:
    """Return a summarizer for the `--llm-*` options; None means no LLM.

    Args:
        model: Name of the model.
        base_url: Address of an OpenAI-compatible server; None means OpenAI.
        api_key_env: Environment variable that contains the API key; None means `OPENAI_API_KEY`.
        estimate: Whether the summarizer only identifies the model and makes no calls.

    Raises:
        InvalidInputError: If the API key is missing, or an option is given without `--llm-model`.
        MissingDependencyError: If the openai package is not installed.
    """
    return _openai("llm", model, base_url, api_key_env, is_called=not estimate)


def make_enricher(
    model: str | None, base_url: str | None, api_key_env: str | None, *, estimate: bool = False
) -> Enricher | None:
    """Return an enricher for the `--enrich-*` options; see `make_summarizer`."""
    llm = _openai("enrich", model, base_url, api_key_env, is_called=not estimate)
    if llm is None:
        return None
    from e2graphrag_integrations.enrichment import Enricher

    return Enricher(llm)


def _openai(
    prefix: str,
    model: str | None,
    base_url: str | None,
    api_key_env: str | None,
    *,
    is_called: bool,
) -> OpenAISummarizer | None:
    key = _api_key(prefix, model, base_url, api_key_env, is_needed=is_called)
    if model is None:
        return None
    from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer

    return OpenAISummarizer(model, base_url=base_url, api_key=key)


def make_answers(
    model: str | None,
    base_url: str | None,
    api_key_env: str | None,
    **limits: float | None,
) -> AnswerOptions | None:
    """Return the model of a server for the `--answer-*` options; None means that there is none.

    Args:
        model: Name of the model.
        base_url: Address of an OpenAI-compatible server; None means OpenAI.
        api_key_env: Environment variable that contains the API key; None means `OPENAI_API_KEY`.
        limits: Limits of `AnswerOptions` by name; None means the default.

    Raises:
        InvalidInputError: If the API key is missing, an option is given without `--answer-model`,
            or a limit is invalid.
        MissingDependencyError: If the openai package is not installed.
    """
    given = {name: value for name, value in limits.items() if value is not None}
    key = _api_key("answer", model, base_url, api_key_env, is_needed=True)
    if model is None:
        if given:
            raise InvalidInputError("the limits of answers require --answer-model")
        return None
    from e2graphrag_integrations.server.web import AnswerOptions

    return AnswerOptions(model, base_url, key, **given)  # type: ignore[arg-type]  # by the command


def _api_key(
    prefix: str,
    model: str | None,
    base_url: str | None,
    api_key_env: str | None,
    *,
    is_needed: bool,
) -> str:
    """Return the API key for a model, or a word that servers without keys accept.

    Args:
        prefix: What the names of the options begin with.
        model: Name of the model; None if the option is not given.
        base_url: Address of the server; None means OpenAI, which needs a key.
        api_key_env: Environment variable that contains the API key; None means `OPENAI_API_KEY`.
        is_needed: Whether the model is called.

    Raises:
        InvalidInputError: If the API key is missing, or an option is given without a model.
        MissingDependencyError: If the openai package is not installed.
    """
    if model is None:
        if base_url or api_key_env:
            raise InvalidInputError(
                f"--{prefix}-base-url and --{prefix}-api-key-env require --{prefix}-model"
            )
        return ""
    if is_needed and importlib.util.find_spec("openai") is None:
        raise MissingDependencyError(
            f"--{prefix}-model needs the package openai: "
            "pip install 'e2graphrag-integrations[openai]'"
        )
    variable = api_key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable)
    if not key and is_needed and (api_key_env or not base_url):
        if api_key_env and variable not in os.environ:  # it may be the key, so do not print it
            raise InvalidInputError(
                f"--{prefix}-api-key-env names no environment variable: pass the name of the "
                "variable that contains the key, not the key itself"
            )
        raise InvalidInputError(f"the environment variable {variable} contains no API key")
    return key or "none"
