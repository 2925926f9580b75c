"""Addresses of the HTTP side, who may ask for them, and how refusals look.

Whoever shows the administrator's token may ask for everything. On a loopback address health,
counters and metrics are for everybody; elsewhere they want the token, too. A refusal is JSON:
`{"error": code, "message": text}`, with the HTTP status of its code (`wirelake.hub.errors`).
"""

from __future__ import annotations

import asyncio
import hmac
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wirelake.protocols.binding import is_loopback

from ..errors import HubError
from . import (
    inboxes,
    pages,
    publishing,
    top,
)
from .answers import JsonResponse, refusal
from .metrics import metrics_page
from .openapi import openapi_page

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["make_app"]

Page: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Answers a request."""

_STATUS_CODES = {404: "not_found", 405: "bad_method"}


def make_app(hub: Hub, token: str) -> Starlette:
    """The pages of a hub, for who knows the token."""
    guard = _Guard(token)
    watched = _open if is_loopback(hub.config.admin.host) else guard
    routes = [
        Route("/healthz", watched(pages.healthz)),
        Route("/readyz", watched(pages.readyz)),
        Route("/varz", watched(pages.varz)),
        Route("/metrics", watched(metrics_page)),
        Route("/v1/openapi.json", watched(openapi_page)),
        Route("/connz", guard(pages.connz)),
        Route("/topicz", guard(pages.topicz)),
        Route("/clientz", guard(pages.clientz)),
        Route("/v1/top", guard(top.top)),
        Route("/v1/publish", guard(publishing.publish), methods=["POST"]),
        Route("/v1/inbox/{client}", guard(inboxes.inbox)),
        Route("/v1/dead", guard(inboxes.dead)),
        Route("/v1/dead/redrive", guard(inboxes.redrive), methods=["POST"]),
        Route("/v1/tables/{table}", guard(_later("tables", "table"))),
        Route("/v1/tail", guard(_later("tail", "tail"))),
    ]
    handlers: dict[Any, Any] = {
        HubError: _refused,
        HTTPException: _not_served,
        Exception: _broken,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.hub = hub
    app.state.readers = set()
    return app


class _Guard:
    """Lets those through who show the token."""

    def __init__(self, token: str):
        self._token = token.encode()

    def __call__(self, page: Page) -> Page:
        async def guarded(request: Request) -> Response:
            kind, _, shown = request.headers.get("authorization", "").partition(" ")
            known = hmac.compare_digest(shown.strip().encode("latin-1"), self._token)
            if kind.lower() != "bearer" or not known:
                raise HubError(
                    "auth_required", "wanted: Authorization: Bearer, and the text of admin.token"
                )
            return await page(request)

        return guarded


def _open(page: Page) -> Page:
    return page


def _later(module: str, name: str) -> Page:
    """A page that needs pyarrow: it is loaded when somebody asks, and nobody waits meanwhile."""

    async def page(request: Request) -> Response:
        found = await asyncio.to_thread(importlib.import_module, f"{__package__}.{module}")
        answer: Response = await getattr(found, name)(request)
        return answer

    return page


async def _refused(_: Request, error: HubError) -> Response:
    return refusal(error)


async def _not_served(_: Request, error: HTTPException) -> Response:
    code = _STATUS_CODES.get(error.status_code, "bad_arguments")
    return JsonResponse({"error": code, "message": error.detail}, status_code=error.status_code)


async def _broken(_: Request, __: Exception) -> Response:
    """The server logs what it was."""
    return refusal(HubError("internal", "the page broke; the hub's log says how"))
