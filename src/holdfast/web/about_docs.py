"""Endpoints that describe the API: an OpenAPI document for programs, and a self-contained page for people.

Both are made from the table of endpoints.
"""

import re
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from typing import Any, Final

import msgspec
from starlette.responses import Response

from holdfast.web.context import WebContext
from holdfast.web.endpoint import ALWAYS, Asked, Endpoint, Reply
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


PAGE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}"
    "code{font-family:ui-monospace,monospace}h2{font-size:1rem;margin:2rem 0 0}p{margin:.3rem 0}"
    ".method{display:inline-block;min-width:4rem;font-weight:bold}dt{float:left;clear:left;min-width:12rem}"
    "dd{margin-left:12.5rem}.dim{color:#666}"
)
_HEAD: Final = (
    f"<!doctype html><html lang=en><meta charset=utf-8><title>Holdfast</title><style>{_STYLE}</style>"
    "<h1>Holdfast, over HTTP</h1>"
    "<p>One host of a domain answers here; any other would say the same. Errors are "
    "<code>{&quot;error&quot;: {&quot;code&quot;, &quot;text&quot;, &quot;advice&quot;}}</code>. For "
    "programs: <a href=/openapi.json>/openapi.json</a>.</p>"
)


class _Docs:
    """Describes *endpoints* and its own two endpoints."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = (*endpoints, *self._own())

    async def openapi(self, site: WebContext, asked: Asked) -> Reply:
        return Reply(describe(self.endpoints, version("holdfast")))

    async def page(self, site: WebContext, asked: Asked) -> Response:
        sections = "".join(map(_section, self.endpoints))
        text = f"{_HEAD}{sections}</html>"
        return Response(
            text, media_type="text/html", headers={**ALWAYS, "content-security-policy": PAGE_POLICY}
        )

    def _own(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint(
                "GET",
                "/openapi.json",
                "openapi",
                "This API, for programs",
                "OpenAPI 3.1.",
                self.openapi,
                dict[str, Any],
                None,
            ),
            Endpoint(
                "GET",
                "/docs",
                "docs",
                "This API, for people",
                "A page without scripts or outside resources.",
                self.page,
                None,
                None,
                media="text/html",
            ),
        )


def documented(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """*endpoints*, plus the endpoints that describe all of them."""
    return _Docs(endpoints).endpoints


def _section(endpoint: Endpoint) -> str:
    parameters = "".join(
        f"<dt><code>{escape(each.name)}</code></dt><dd>{escape(each.text)}</dd>"
        for each in endpoint.parameters
    )
    who = f"for grade {endpoint.grade}" if endpoint.grade is not None else "for anybody"
    return (
        f"<h2><span class=method>{endpoint.method}</span> <code>{escape(endpoint.path)}</code></h2>"
        f"<p>{escape(endpoint.summary)}. {escape(endpoint.text)} <span class=dim>({who})</span></p>"
        f"<dl>{parameters}</dl>"
    )
