"""The API's own description: for programs, and for people a page that needs nothing from anywhere else."""

from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from typing import Any, Final

from starlette.responses import Response

from holdfast.web.answering import ALWAYS
from holdfast.web.endpoint import Asked, Endpoint, Reply
from holdfast.web.openapi import describe
from holdfast.web.site import Site

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
    """Tells of *endpoints*, and of itself."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = (*endpoints, *self._own())

    async def openapi(self, site: Site, asked: Asked) -> Reply:
        return Reply(describe(self.endpoints, version("holdfast")))

    async def page(self, site: Site, asked: Asked) -> Response:
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
    """*endpoints*, and those that tell of them all."""
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
