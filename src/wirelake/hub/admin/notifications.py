"""Publishing, inboxes and dead letters over HTTP.

`POST /v1/publish` answers when the notification is on disk.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..errors import HubError
from ..pubsub.notifications import Notification, Publication, Published
from ..pubsub.topics import DeadLetter
from ..rpc.call_types import Result
from .http import JsonResponse, body_of, hub_of, known_queries, number

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["PublishRequest", "RedriveRequest", "dead", "inbox", "publish", "redrive"]

_ESCAPED: Final = 6
"""Bytes of JSON for one byte of content at most: a control character is `\\u0001`."""
_OVERHEAD: Final = 4_096
"""Bytes of a body in addition to the content."""


class PublishRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A notification to publish: to a topic or a client, with text or base64 content."""

    topic: str | None = None
    """Publish to the subscribers of this topic."""
    client: str | None = None
    """Publish to this client."""
    content: str | None = None
    """Content as text."""
    content_base64: str | None = None
    """Content as base64, for any bytes."""
    type: int = 0
    """0 to 255; defined by the application."""
    id: str = ""
    """Idempotency key: the same publish again publishes nothing; another one is refused."""
    ttl_s: float | None = None
    """Time to live; 0 to not store it: only clients online get it."""


async def publish(request: Request) -> Response:
    """Publish; answer when it is on disk."""
    known_queries(request)
    hub = hub_of(request)
    # The limit of the body follows that of the content: a body of escapes is six times as long.
    limit = hub.limits.content_bytes * _ESCAPED + _OVERHEAD
    body = await body_of(request, PublishRequest, limit)
    found = await _published(hub, _publication(body))
    return JsonResponse({"id": found.id, "audience": found.audience})


def _publication(body: PublishRequest) -> Publication:
    return Publication(
        topic=body.topic,
        client=body.client,
        content=_content(body),
        type=body.type,
        key=body.id,
        ttl_s=body.ttl_s,
    )


def _content(body: PublishRequest) -> bytes:
    if (body.content is None) == (body.content_base64 is None):
        raise HubError("bad_arguments", "expected either content or content_base64")
    if body.content is not None:
        try:
            return body.content.encode()
        except UnicodeEncodeError as error:
            raise HubError("bad_arguments", "content: lone surrogate") from error
    assert body.content_base64 is not None
    try:
        return base64.b64decode(body.content_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise HubError("bad_arguments", "content_base64: invalid base64") from error


async def _published(hub: Hub, publication: Publication) -> Published:
    answer: asyncio.Future[Published] = hub.loop.create_future()

    def done(result: Result | HubError) -> None:
        if answer.done():  # the HTTP client has disconnected; the publish is stored all the same
            return
        if isinstance(result, HubError):
            answer.set_exception(result)
        else:
            assert isinstance(result, Published)
            answer.set_result(result)

    hub.context.calls.publish(None, publication, done)
    return await answer


_DEFAULT: Final = 100
_MOST: Final = 1_000
_BODY: Final = 65_536


class RedriveRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Dead letters to redrive: by id, or all of one client."""

    ids: list[str] | None = None
    """Ids of dead letters."""
    client: str | None = None
    """Redrive all dead letters of this client."""


async def inbox(request: Request) -> Response:
    """Answer with what a client has not acknowledged, oldest first."""
    known_queries(request, "limit")
    limit = number(request, "limit", _DEFAULT, _MOST)
    client = request.path_params["client"]
    rows = await hub_of(request).topics.inbox(client, limit)
    return JsonResponse({"client": client, "notifications": [_shown(row) for row in rows]})


async def dead(request: Request) -> Response:
    """Answer with dead letters, newest first."""
    known_queries(request, "limit", "client")
    limit = number(request, "limit", _DEFAULT, _MOST)
    rows = await hub_of(request).topics.dead(limit, request.query_params.get("client"))
    return JsonResponse({"dead": [_letter(row) for row in rows]})


async def redrive(request: Request) -> Response:
    """Put dead letters back into their inboxes."""
    known_queries(request)
    body = await body_of(request, RedriveRequest, _BODY)
    if (body.ids is None) == (body.client is None):
        raise HubError("bad_arguments", "expected either ids or client")
    count = await hub_of(request).topics.redrive(ids=body.ids, client=body.client)
    return JsonResponse({"redriven": count})


def _shown(notification: Notification) -> dict[str, Any]:
    """Return a notification for JSON: content as text, or as base64 if it is not UTF-8."""
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
