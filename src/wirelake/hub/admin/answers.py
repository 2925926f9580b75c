"""How requests are read and answered: JSON by msgspec, bounded bodies, numbers in queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from wirelake.protocols import registry

from ..errors import ERRORS, HubError

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = [
    "JsonResponse",
    "body_of",
    "hub_of",
    "known_protocol",
    "known_queries",
    "number",
    "refusal",
]

Body = TypeVar("Body", bound=msgspec.Struct)


class JsonResponse(Response):
    """Anything that msgspec can write."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes."""
        return msgspec.json.encode(content)


def refusal(error: HubError) -> Response:
    """How a refusal looks."""
    status = ERRORS[error.code].http
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JsonResponse(
        {"error": error.code, "message": error.text},
        status_code=status,
        headers=headers,
    )


def hub_of(request: Request) -> Hub:
    """The hub that is asked."""
    hub: Hub = request.app.state.hub
    return hub


async def body_of(request: Request, kind: type[Body], limit: int) -> Body:
    """The JSON of a request, at most so many bytes of it; keys that it should not have are
    refused."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > limit:
            raise HubError("too_large", f"the body has more than {limit} bytes")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise HubError("bad_arguments", f"the body: {error}") from error


def number(request: Request, name: str, default: int, most: int) -> int:
    """A whole number of the query, from 0 on."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text[:12]) > most or len(text) > 12:
        raise HubError("bad_arguments", f"{name}: wanted a whole number from 0 to {most}")
    return int(text)


def known_queries(request: Request, *names: str) -> None:
    """Refuses what a page does not know."""
    for name in request.query_params:
        if name not in names:
            there = f"there are {', '.join(names)}" if names else "this page takes nothing"
            raise HubError("bad_arguments", f"no such argument: {name[:40]!r}; {there}")


def known_protocol(request: Request) -> str | None:
    """The protocol that the query names; None when it names none."""
    name = request.query_params.get("protocol")
    if name is not None and name not in registry.names():
        there = ", ".join(registry.names())
        raise HubError(
            "bad_arguments", f"protocol: there is none called {name[:40]!r}; there are {there}"
        )
    return name
