"""The OpenAPI description, made from the operations and their data classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from e2graphrag_integrations.server.web.operations import MAX_TEXT, Operation, Parameter
from e2graphrag_integrations.server.web.uploads import FIELD

_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True)
class ErrorDetails:
    """The type of an error, and its message."""

    type: str
    message: str


@dataclass(frozen=True)
class ErrorAnswer:
    """The answer to a request that is refused."""

    error: ErrorDetails


def describe(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of operations.

    Args:
        operations: The operations.
        version: Version of the package.
    """
    types: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
        (ErrorAnswer, "serialization", TypeAdapter(ErrorAnswer))
    ]
    for one in operations:
        if one.answer is not None:
            types.append((one.answer, "serialization", TypeAdapter(one.answer)))
        if one.body is not None:
            types.append((one.body, "validation", TypeAdapter(one.body)))
    unique = list({(key, mode): (key, mode, adapter) for key, mode, adapter in types}.values())
    schemas, shared = TypeAdapter.json_schemas(unique, ref_template=_REFERENCE)
    paths: dict[str, Any] = {}
    for one in operations:
        body = None if one.body is None else schemas[one.body, "validation"]
        answer = None if one.answer is None else schemas[one.answer, "serialization"]
        described = _operation(one, body, answer, schemas[ErrorAnswer, "serialization"])
        paths.setdefault(one.path, {})[one.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "e2graphrag serve",
            "version": version,
            "description": "Questions to an index, its documents, and how answers were found.",
        },
        "servers": [{"url": "."}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": shared.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Operation, body: Any, answer: Any, error: Any) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Success"}
    if one.media:
        success["content"] = {one.media: {"schema": {} if answer is None else answer}}
    described: dict[str, Any] = {
        "summary": one.summary,
        "operationId": _name(one),
        "responses": {
            str(one.status): success,
            "default": {
                "description": "The request is refused, or failed",
                "content": {"application/json": {"schema": error}},
            },
        },
    }
    if one.rights == "public":
        described["security"] = [{}]
    if one.parameters:
        described["parameters"] = [_parameter(p, one.path_names) for p in one.parameters]
    if body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    if one.uploads:
        files = {"type": "array", "items": {"type": "string", "format": "binary"}}
        fields = {field.name: _schema(field) for field in one.form}
        form = {"type": "object", "required": [FIELD], "properties": {FIELD: files, **fields}}
        described["requestBody"] = {
            "required": True,
            "content": {"multipart/form-data": {"schema": form}},
        }
    return described


def _name(one: Operation) -> str:
    words = one.path.replace("{", "").replace("}", "").replace(".", "/").split("/")
    return "_".join([one.method.lower(), *filter(None, words)])


def _parameter(one: Parameter, path_names: Sequence[str]) -> dict[str, Any]:
    in_path = one.name in path_names
    return {
        "name": one.name,
        "in": "path" if in_path else "query",
        "required": in_path or one.required,
        "schema": _schema(one),
        "description": one.description,
    }


def _schema(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any]
    if one.is_number or isinstance(one.default, int):
        schema = {"type": "integer", "minimum": one.minimum, "maximum": one.maximum}
    else:
        schema = {"type": "string", "maxLength": MAX_TEXT}
        if one.choices:
            schema["enum"] = list(one.choices)
    if one.default is not None:
        schema["default"] = one.default
    return schema
