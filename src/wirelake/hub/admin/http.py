"""Reading requests and writing responses: JSON by msgspec, bounded bodies, query parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from wirelake.protocols import registry
from wirelake.wire.errors import unknown

from ..errors import ERRORS, HubError

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = [
    "JsonResponse",
    "body_of",
    "error_response",
    "hub_of",
    "known_protocol",
    "known_queries",
    "number",
]

Body = TypeVar("Body", bound=msgspec.Struct)


class JsonResponse(Response):
    """A response with any value that msgspec can encode."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return msgspec.json.encode(content)


def error_response(error: HubError) -> Response:
    """Return the response for an error."""
    status = ERRORS[error.code].http
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JsonResponse(
        {"error": error.code, "message": error.text},
        status_code=status,
        headers=headers,
    )


def hub_of(request: Request) -> Hub:
    """Return the hub of the application."""
    hub: Hub = request.app.state.hub
    return hub


async def body_of(request: Request, kind: type[Body], limit: int) -> Body:
    """Decode the JSON body of a request; HubError when it is too large or has unknown keys."""
    # Read in pieces: the declared length may be missing or wrong.
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > limit:
            raise HubError("too_large", f"body exceeds {limit} bytes")
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise HubError("bad_arguments", "body: nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HubError("bad_arguments", f"body: {error}") from error


def number(request: Request, name: str, default: int, maximum: int) -> int:
    """Return an integer query parameter from 0 to `maximum`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text[:12]) > maximum or len(text) > 12:
        raise HubError("bad_arguments", f"{name}: expected an integer from 0 to {maximum}")
    return int(text)


def known_queries(request: Request, *names: str) -> None:
    """Raise HubError for query parameters other than these."""
    for name in request.query_params:
        if name not in names:
            raise HubError("bad_arguments", unknown("parameter", name[:40], names))


def known_protocol(request: Request) -> str | None:
    """Return the query parameter `protocol`; None without it."""
    name = request.query_params.get("protocol")
    if name is not None and name not in registry.names():
        raise HubError("bad_arguments", unknown("protocol", name[:40], registry.names()))
    return name
