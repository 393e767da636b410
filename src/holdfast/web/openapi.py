"""The description of the API that programs read, made from the table of endpoints."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.web.endpoint import Endpoint
from holdfast.web.problems import ErrorBody

VERSION: Final = "3.1.0"
_REF: Final = "#/components/schemas/{name}"
_IN_PATH: Final = re.compile(r"\{(\w+)\}")


def describe(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The OpenAPI document of *endpoints*."""
    types = [each.answers for each in endpoints if each.answers is not None]
    types += [each.body for each in endpoints if each.body is not None]
    schemas, components = msgspec.json.schema_components([*types, ErrorBody], ref_template=_REF)
    schema_of = {str(kind): schema for kind, schema in zip([*types, ErrorBody], schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schema_of)
    return {
        "openapi": VERSION,
        "info": {"title": "Holdfast", "version": version, "description": "One host of a domain."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, schema_of: dict[str, Any]) -> dict[str, Any]:
    problem = {"application/json": {"schema": schema_of[str(ErrorBody)]}}
    good: dict[str, Any] = {endpoint.media: {}}
    if endpoint.answers is not None:
        good = {endpoint.media: {"schema": schema_of[str(endpoint.answers)]}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": endpoint.text,
        "parameters": _parameters(endpoint),
        "responses": {
            str(endpoint.status): {"description": endpoint.summary, "content": good},
            "default": {"description": "A problem", "content": problem},
        },
        "security": [{"token": []}, {}] if endpoint.grade is not None else [{}],
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": schema_of[str(endpoint.body)]}}
        operation["requestBody"] = {"required": endpoint.body_default is None, "content": content}
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": endpoint.path_schemas.get(name, {})}
        for name in _IN_PATH.findall(endpoint.path)
    ]
    others = [
        {
            "name": each.name,
            "in": each.where,
            "required": False,
            "schema": dict(each.schema),
            "description": each.text,
        }
        for each in endpoint.parameters
    ]
    return in_path + others
