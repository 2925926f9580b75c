"""Routes of the HTTP interface, authorization, and error responses.

The administrator's token gives access to everything. On a loopback address health, counters and
metrics need no token; on any other address they do. An error is JSON: `{"error": code, "message":
text}`, with the HTTP status of its code (`wirelake.hub.errors`).
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
from . import notifications, pages, top
from .http import JsonResponse, error_response
from .metrics import metrics_page
from .openapi import openapi_page

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["make_app"]

Page: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Handles a request."""

_STATUS_CODES = {404: "not_found", 405: "bad_method"}


def make_app(hub: Hub, token: str) -> Starlette:
    """Return the application of a hub; `token` is the administrator's."""
    guard = _Guard(token)
    probed = _open if is_loopback(hub.config.admin.host) else guard
    routes = [
        Route("/healthz", probed(pages.healthz)),
        Route("/readyz", probed(pages.readyz)),
        Route("/varz", probed(pages.varz)),
        Route("/metrics", probed(metrics_page)),
        Route("/v1/openapi.json", probed(openapi_page)),
        Route("/connz", guard(pages.connz)),
        Route("/topicz", guard(pages.topicz)),
        Route("/clientz", guard(pages.clientz)),
        Route("/v1/top", guard(top.top)),
        Route("/v1/publish", guard(notifications.publish), methods=["POST"]),
        Route("/v1/inbox/{client}", guard(notifications.inbox)),
        Route("/v1/dead", guard(notifications.dead)),
        Route("/v1/dead/redrive", guard(notifications.redrive), methods=["POST"]),
        Route("/v1/tables/{table}", guard(_import_later("live", "table"))),
        Route("/v1/tail", guard(_import_later("live", "tail"))),
    ]
    handlers: dict[Any, Any] = {
        HubError: _hub_error,
        HTTPException: _http_error,
        Exception: _exception,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.hub = hub
    app.state.readers = set()
    return app


class _Guard:
    """Requires the administrator's token."""

    def __init__(self, token: str):
        self._token = token.encode()

    def __call__(self, page: Page) -> Page:
        async def guarded(request: Request) -> Response:
            kind, _, shown = request.headers.get("authorization", "").partition(" ")
            known = hmac.compare_digest(shown.strip().encode("latin-1"), self._token)
            if kind.lower() != "bearer" or not known:
                raise HubError(
                    "auth_required",
                    "expected the header Authorization: Bearer <content of admin.token>",
                )
            return await page(request)

        return guarded


def _open(page: Page) -> Page:
    return page


def _import_later(module: str, name: str) -> Page:
    """Return a page that needs pyarrow: imported, in a thread, on the first request."""

    async def page(request: Request) -> Response:
        found = await asyncio.to_thread(importlib.import_module, f"{__package__}.{module}")
        answer: Response = await getattr(found, name)(request)
        return answer

    return page


async def _hub_error(_: Request, error: HubError) -> Response:
    return error_response(error)


async def _http_error(_: Request, error: HTTPException) -> Response:
    code = _STATUS_CODES.get(error.status_code, "bad_arguments")
    return JsonResponse({"error": code, "message": error.detail}, status_code=error.status_code)


async def _exception(_: Request, __: Exception) -> Response:
    """Answer without details; the server logs them."""
    return error_response(HubError("internal", "internal error; see the hub's log"))
