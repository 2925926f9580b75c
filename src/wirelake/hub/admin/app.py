"""The HTTP application: routes, error responses, and its OpenAPI description.

`endpoints.py` says which role each endpoint needs, and `access.py` checks it. An error is JSON:
`{"error": code, "message": text}`, with the HTTP status of its code (`wirelake.hub.errors`).

`GET /v1/openapi.json` is generated from the entries of `endpoints.py` for the routes that exist.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from wirelake import __version__
from wirelake.protocols.hub_calls import ADMIN_PORT

from ..config import meanings
from ..errors import ERRORS, HubError
from . import notifications, pages, top
from .access import Access, HostCheck, Page
from .endpoints import ENDPOINTS, Endpoint, Query
from .http import JsonResponse, error_response
from .metrics import metrics_page
from .schemas import Refusal

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = [
    "addresses",
    "document",
    "make_app",
    "openapi_page",
]

_STATUS_CODES = {404: "not_found", 405: "bad_method"}


def make_app(hub: Hub, token: str) -> Starlette:
    """Return the application of a hub; `token` is the administrator's."""
    access = Access(hub, token)
    roles = {(each.method, each.path): each.role for each in ENDPOINTS}
    routes = [
        # An id may contain "/": the last parameter of a path is the rest of it.
        Route(
            path.replace("}", ":path}"),
            access.guard(roles[method, path], page),
            methods=[method],
        )
        for (method, path), page in _pages().items()
    ]
    handlers: dict[Any, Any] = {
        HubError: _hub_error,
        HTTPException: _http_error,
        ClientDisconnect: _disconnected,
        Exception: _exception,
    }
    middleware = [Middleware(HostCheck, hub=hub)]
    app = Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)
    app.state.hub = hub
    app.state.readers = set()
    return app


def _pages() -> dict[tuple[str, str], Page]:
    """Return what serves each endpoint, by method and path."""
    return {
        ("GET", "/healthz"): pages.healthz,
        ("GET", "/readyz"): pages.readyz,
        ("GET", "/varz"): pages.varz,
        ("GET", "/metrics"): metrics_page,
        ("GET", "/v1/openapi.json"): openapi_page,
        ("GET", "/connz"): pages.connz,
        ("GET", "/topicz"): pages.topicz,
        ("GET", "/clientz"): pages.clientz,
        ("GET", "/v1/services"): pages.services,
        ("GET", "/v1/top"): top.top,
        ("POST", "/v1/publish"): notifications.publish,
        ("GET", "/v1/inbox/{client}"): notifications.inbox,
        ("GET", "/v1/dead"): notifications.dead,
        ("POST", "/v1/dead/redrive"): notifications.redrive,
        ("GET", "/v1/tables/{table}"): _import_later("live", "table"),
        ("GET", "/v1/tail"): _import_later("live", "tail"),
    }


def _import_later(module: str, name: str) -> Page:
    """Return a page whose module needs pyarrow; it is imported on the first request."""
    # In a thread, so that the event loop goes on; and not at the start, because most hubs
    # serve neither live tables nor `/v1/tail`.

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


async def _disconnected(_: Request, __: ClientDisconnect) -> Response:
    """Answer a request whose body ended early; nobody may read it."""
    return error_response(HubError("bad_arguments", "body: ended early"))


async def _exception(_: Request, __: Exception) -> Response:
    """Answer without details; the server logs them."""
    return error_response(HubError("internal", "internal error; see the hub's log"))


# -- OpenAPI -------------------------------------------------------------------------------------

_REFERENCE: Final = "#/components/schemas/{name}"
_DOCS: Final = "The same is on the reference page HTTP."
_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "The content of `admin.token` in the hub's data directory, a user's token, or a"
    " signed token with a role.",
}
_ANY: Final = ("forbidden", "too_busy", "internal")
"""Errors of every endpoint."""


async def openapi_page(request: Request) -> Response:
    """Answer with the description of this app."""
    return JsonResponse(document(addresses(request.app.routes)))


def addresses(routes: Iterable[BaseRoute]) -> list[tuple[str, str]]:
    """Return method and path of each route, without the HEAD of every GET."""
    return [
        (method, route.path_format)
        for route in routes
        if isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]


def document(known: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the description of these paths."""
    existing = set(known)
    paths: dict[str, dict[str, Any]] = {}
    for each in ENDPOINTS:
        if (each.method, each.path) in existing:
            paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wirelake hub",
            "version": __version__,
            "summary": "Publish, health, metrics, state.",
            "description": _DOCS,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": f"http://127.0.0.1:{ADMIN_PORT}", "description": "The default."}],
        "paths": paths,
        "components": {
            "schemas": _components(),
            "securitySchemes": {"adminToken": _TOKEN},
        },
    }


def _operation(each: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _operation_id(each),
        "summary": each.summary,
        # An empty requirement: open endpoints need no token on loopback.
        "security": [{}, {"adminToken": []}] if each.open else [{"adminToken": []}],
        "x-role": each.role.label,
    }
    if each.text:
        found["description"] = each.text
    parameters = [*map(_place, each.places), *map(_query, each.queries)]
    if parameters:
        found["parameters"] = parameters
    if each.body is not None:
        content = {"application/json": {"schema": _schema(each.body)}}
        found["requestBody"] = {"required": True, "content": content}
    found["responses"] = _responses(each)
    return found


def _operation_id(each: Endpoint) -> str:
    words = each.path.replace("{", "").replace("}", "").replace(".", "/").split("/")
    return "_".join([each.method.lower(), *(word for word in words if word)])


def _place(place: tuple[str, str]) -> dict[str, Any]:
    name, meaning = place
    schema = {"type": "string"}
    return {"name": name, "in": "path", "required": True, "description": meaning, "schema": schema}


def _query(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if query.default is not None:
        schema = {"type": "integer", "minimum": 0, "maximum": query.most, "default": query.default}
    return {"name": query.name, "in": "query", "description": query.meaning, "schema": schema}


def _responses(each: Endpoint) -> dict[str, Any]:
    """Return the answer and, by HTTP status, the errors."""
    schema = {"type": "string"} if each.answer is None else _schema(each.answer)
    found = {"200": {"description": each.summary, "content": {each.media: {"schema": schema}}}}
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(("auth_required", *each.refusals, *_ANY)):
        by_status.setdefault(ERRORS[code].http, []).append(code)
    for status, codes in sorted(by_status.items()):
        words = "; ".join(f"`{code}`: {ERRORS[code].meaning}" for code in codes)
        content = {"application/json": {"schema": _schema(Refusal)}}
        found[str(status)] = {"description": words, "content": content}
    return found


def _schema(kind: Any) -> dict[str, Any]:
    (found,), _ = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    return found


@cache
def _components() -> dict[str, Any]:
    """Return the schema of every type, with descriptions of its fields."""
    kinds = list(_kinds())
    _, found = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    structs = {each.__name__: each for each in _structs(kinds)}
    for name, schema in found.items():
        texts = meanings(structs[name])
        for field, described in schema["properties"].items():
            if field in texts:
                described["description"] = texts[field]
    return dict(sorted(found.items()))


def _kinds() -> Iterator[Any]:
    for each in ENDPOINTS:
        yield from (kind for kind in (each.answer, each.body) if kind is not None)
    yield Refusal


def _structs(kinds: Iterable[Any]) -> Iterator[type]:
    """Yield the structs among these types and in their fields."""
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield kind
            yield from _structs(field.type for field in msgspec.structs.fields(kind))
        else:
            yield from _structs(getattr(kind, "__args__", ()))
