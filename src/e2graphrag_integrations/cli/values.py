"""The values of options: pairs, weights, tags, extractors, engines and tokens."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations._utils.files import unread_reason
from e2graphrag_integrations.cli.where import parse_value
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.errors import InvalidInputError

if TYPE_CHECKING:
    from e2graphrag_integrations.entities.extractor_choice import Extractors
    from e2graphrag_integrations.indexing.stages.work import IndexingEngine
    from e2graphrag_integrations.retrieval.entities.homonyms import HomonymProposal


def parse_metadata(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse `--metadata KEY=VALUE`; a value that is valid JSON is parsed.

    Raises:
        InvalidInputError: If an argument has a different form, or a key is given twice.
    """
    pairs = parse_pairs("--metadata", "KEY=VALUE", arguments)
    return {key: parse_value(f"--metadata {key}", text) for key, text in pairs.items()}


def parse_pairs(option: str, form: str, arguments: Sequence[str]) -> dict[str, str]:
    """Return the parts of each argument before and after its first equals sign.

    Raises:
        InvalidInputError: If an argument has a different form, or a name is given twice.
    """
    pairs: dict[str, str] = {}
    for argument in arguments:
        name, separator, value = argument.partition("=")
        if not separator or not name:
            raise InvalidInputError(f"{option} {argument!r} must be {form}")
        if name in pairs:
            raise InvalidInputError(f"{option} {argument!r}: {name!r} is given twice")
        pairs[name] = value
    return pairs


def parse_weights(option: str, given: Sequence[str]) -> dict[str, float]:
    """Parse weights such as `billing=2`; the last "=" separates a name from its weight.

    Raises:
        InvalidInputError: If one has another form, or a name is given twice.
    """
    weights: dict[str, float] = {}
    for text in given:
        name, separator, number = text.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            separator = ""
        if not separator or not name:
            raise InvalidInputError(f"{option} {text!r} must be NAME=WEIGHT, such as billing=2")
        if name in weights:
            raise InvalidInputError(f"{option} {text!r}: {name!r} is given twice")
        weights[name] = weight
    return weights


def read_tags(names: Sequence[str], file: str | None) -> list[Any]:
    """Return the tags in a JSON file, and those given by name.

    Raises:
        InvalidInputError: If the file cannot be read, or is not a JSON list.
    """
    if file is None:
        return list(names)
    try:
        tags = json.loads(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{file} cannot be read as JSON: {unread_reason(error)}") from error
    if not isinstance(tags, list):
        raise InvalidInputError(
            f"{file} must contain a JSON list of names or of objects with the keys name, "
            "description and examples"
        )
    return [*tags, *names]


def parse_extractors(arguments: Sequence[str] | None) -> str | dict[str, str] | None:
    """Parse `--spacy-model NAME` or `--spacy-model LANGUAGE=NAME`; None means the defaults.

    Raises:
        InvalidInputError: If there are several for the same documents.
    """
    given = arguments or ()
    if given and all(re.match("[a-z]{2,3}=", one) for one in given):
        return parse_pairs("--spacy-model", "LANGUAGE=NAME", given)
    if len(given) > 1:
        raise InvalidInputError("--spacy-model: give one pipeline, or one for each LANGUAGE=NAME")
    return given[0] if given else None


def with_entity_rules(
    extractors: str | Mapping[str, str] | None, path: str | None
) -> Extractors | None:
    """Return extractors that also find the names in the file of `--entity-rules`.

    Args:
        extractors: The pipelines of `--spacy-model`. Those for some languages restrict the rules to
            these languages.
        path: The file; None means that there are no rules.

    Raises:
        UnreadableFileError: If the file cannot be read, or a line is not JSON.
        InvalidInputError: If a rule is invalid.
    """
    if path is None:
        return extractors
    from e2graphrag_integrations.entities.entity_rules import EntityRules
    from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor

    rules = EntityRules.read(path)
    if isinstance(extractors, str):
        return rules.applied_to(SpacyEntityExtractor(extractors))
    if extractors:
        return {
            code: rules.applied_to(SpacyEntityExtractor(name)) for code, name in extractors.items()
        }
    return rules


def chosen_proposals(
    names: Sequence[str], proposals: Sequence[HomonymProposal]
) -> list[HomonymProposal]:
    """Return the proposals with the names after `--accept`.

    Raises:
        InvalidInputError: If there is no proposal for a name.
    """
    by_name = {one.name: one for one in proposals}
    forms = {name: normal_form(name) for name in names}
    for name, form in forms.items():
        if form not in by_name:
            raise InvalidInputError(
                f"--accept {name!r}: there is no proposal for this name; omit --accept to list them"
            )
    return [by_name[form] for form in forms.values()]


def make_engine(name: str, address: str | None) -> IndexingEngine | None:
    """Return the engine for the options `--engine` and `--address`; None means this process.

    Raises:
        InvalidInputError: If the address is invalid, or is given without `--engine ray`.
    """
    if name != "ray":
        if address is not None:
            raise InvalidInputError("--address requires --engine ray")
        return None
    from e2graphrag_integrations.indexing.ray.engine import RayEngine

    return RayEngine(address)


def read_token(token_env: str | None, default: str) -> str | None:
    """Return the token of a server from the environment; None if there is none.

    Args:
        token_env: The variable of `--token-env`, which must contain a token.
        default: The variable that is read without `--token-env`.

    Raises:
        InvalidInputError: If `token_env` contains no token.
    """
    token = os.environ.get(token_env or default)
    if token_env and not token:  # it may be the token, so do not print it
        raise InvalidInputError(
            "--token-env names no environment variable with a token: pass the name of the variable"
        )
    return token or None
