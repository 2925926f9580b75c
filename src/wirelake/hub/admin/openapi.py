"""`GET /v1/openapi.json`: the HTTP side, described for programs (OpenAPI 3.1).

Which addresses there are comes from the routes of the app, what they mean from `described.py`, and
how bodies look from types, whose docstrings are the descriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from wirelake import __version__

from ..config import meanings
from ..errors import ERRORS
from .answers import JsonResponse
from .described import (
    DESCRIBED,
    Described,
    Query,
)
from .shapes import Refusal

__all__ = ["addresses", "document", "openapi_page"]

_REFERENCE: Final = "#/components/schemas/{name}"
_DOCS: Final = "The reference has a page with the same for people: HTTP."
_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "The text of `admin.token` in the hub's data directory.",
}
_ANY: Final = ("internal",)
"""What any page may refuse with."""


async def openapi_page(request: Request) -> Response:
    """The description of the app that is asked."""
    return JsonResponse(document(addresses(request.app.routes)))


def addresses(routes: Iterable[BaseRoute]) -> list[tuple[str, str]]:
    """Method and path of each route; HEAD comes with GET and is not told apart."""
    return [
        (method, route.path)
        for route in routes
        if isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]


def document(known: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The whole description of these addresses."""
    wanted = set(known)
    paths: dict[str, dict[str, Any]] = {}
    for each in DESCRIBED:
        if (each.method, each.path) in wanted:
            paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wirelake hub",
            "version": __version__,
            "summary": "Publish, health, metrics, a look inside.",
            "description": _DOCS,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "http://127.0.0.1:9680", "description": "The default."}],
        "paths": paths,
        "components": {
            "schemas": _components(),
            "securitySchemes": {"adminToken": _TOKEN},
        },
    }


def _operation(each: Described) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _operation_id(each),
        "summary": each.summary,
        # On loopback nothing is wanted of the first kind; an empty requirement says so.
        "security": [{}, {"adminToken": []}] if each.open else [{"adminToken": []}],
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


def _operation_id(each: Described) -> str:
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


def _responses(each: Described) -> dict[str, Any]:
    """The answer, and by HTTP status the refusals with it."""
    schema = {"type": "string"} if each.answer is None else _schema(each.answer)
    found = {"200": {"description": each.summary, "content": {each.media: {"schema": schema}}}}
    by_status: dict[int, list[str]] = {}
    for code in ("auth_required", *each.refusals, *_ANY):
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
    """Every type by name, with what its fields mean."""
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
    for each in DESCRIBED:
        yield from (kind for kind in (each.answer, each.body) if kind is not None)
    yield Refusal


def _structs(kinds: Iterable[Any]) -> Iterator[type]:
    """The structs among types, and those in their fields."""
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield kind
            yield from _structs(field.type for field in msgspec.structs.fields(kind))
        else:
            yield from _structs(getattr(kind, "__args__", ()))
