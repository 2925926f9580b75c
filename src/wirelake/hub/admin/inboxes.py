"""What waits for a client, what was given up, and giving that another chance."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..errors import HubError
from .answers import (
    JsonResponse,
    body_of,
    hub_of,
    known_queries,
    number,
)

if TYPE_CHECKING:
    from ..pubsub.notifications import Notification
    from ..pubsub.topics import DeadLetter

__all__ = ["Redrive", "dead", "inbox", "redrive"]

_DEFAULT: Final = 100
_MOST: Final = 1_000
_BODY: Final = 65_536


class Redrive(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be put back."""

    ids: list[str] | None = None
    """Dead letters by their ids; or"""
    client: str | None = None
    """all of one client."""


async def inbox(request: Request) -> Response:
    """What a client has not acknowledged, the oldest first."""
    known_queries(request, "limit")
    limit = number(request, "limit", _DEFAULT, _MOST)
    client = request.path_params["client"]
    rows = hub_of(request).topics.inbox(client, limit)
    return JsonResponse({"client": client, "notifications": [_shown(row) for row in rows]})


async def dead(request: Request) -> Response:
    """What was given up, and why; the newest first."""
    known_queries(request, "limit", "client")
    limit = number(request, "limit", _DEFAULT, _MOST)
    rows = hub_of(request).topics.dead(limit, request.query_params.get("client"))
    return JsonResponse({"dead": [_letter(row) for row in rows]})


async def redrive(request: Request) -> Response:
    """Puts dead letters back into their inboxes: some by id, or all of a client."""
    known_queries(request)
    wanted = await body_of(request, Redrive, _BODY)
    if (wanted.ids is None) == (wanted.client is None):
        raise HubError("bad_arguments", "wanted either ids or client")
    count = await hub_of(request).topics.redrive(ids=wanted.ids, client=wanted.client)
    return JsonResponse({"redriven": count})


def _shown(notification: Notification) -> dict[str, Any]:
    """A notification for JSON: content as text, or as base64 when it is none."""
    found: dict[str, Any] = {"id": notification.id, "ts_ms": notification.ts_ms}
    if notification.topic is not None:
        found["topic"] = notification.topic
    if notification.type:
        found["type"] = notification.type
    if notification.expires_ms:
        found["expires_ms"] = notification.expires_ms
    try:
        found["content"] = notification.content.decode()
    except UnicodeDecodeError:
        found["content_base64"] = base64.b64encode(notification.content).decode()
    return found


def _letter(letter: DeadLetter) -> dict[str, Any]:
    about = {"client": letter.client, "reason": letter.reason, "dead_ms": letter.dead_ms}
    return {**about, **_shown(letter.notification)}
