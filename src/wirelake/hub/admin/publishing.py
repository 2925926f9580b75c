"""`POST /v1/publish`: to a topic or to one client, answered when it is on disk."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..errors import HubError
from ..pubsub.notifications import Publication, Published
from .answers import (
    JsonResponse,
    body_of,
    hub_of,
    known_queries,
)

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["Wanted", "publish"]

_ESCAPED: Final = 6
"""Bytes that JSON may take for one: a control character is `\\u0001`."""
_BESIDE: Final = 4_096
"""Bytes of a body for everything but the content."""


class Wanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be published."""

    topic: str | None = None
    """To everybody who subscribes to it; or"""
    client: str | None = None
    """to one client."""
    content: str | None = None
    """As text; or"""
    content_base64: str | None = None
    """as any bytes."""
    type: int = 0
    """0 to 255; the application's to give a meaning."""
    id: str = ""
    """An idempotency key: the same one again publishes nothing."""
    ttl_s: float | None = None
    """How long it is kept; 0 keeps nothing, and reaches only who is there now."""


class _Answer(msgspec.Struct):
    id: str
    audience: int


async def publish(request: Request) -> Response:
    """Publishes, and answers when that cannot be lost any more."""
    known_queries(request)
    hub = hub_of(request)
    limit = hub.limits.content_bytes * _ESCAPED + _BESIDE
    wanted = await body_of(request, Wanted, limit)
    found = await _published(hub, _publication(wanted))
    return JsonResponse(_Answer(found.id, found.audience))


def _publication(wanted: Wanted) -> Publication:
    return Publication(
        topic=wanted.topic,
        client=wanted.client,
        content=_content(wanted),
        type=wanted.type,
        key=wanted.id,
        ttl_s=wanted.ttl_s,
    )


def _content(wanted: Wanted) -> bytes:
    if (wanted.content is None) == (wanted.content_base64 is None):
        raise HubError("bad_arguments", "wanted either content or content_base64")
    if wanted.content is not None:
        try:
            return wanted.content.encode()
        except UnicodeEncodeError as error:
            raise HubError("bad_arguments", "content: half a surrogate pair") from error
    assert wanted.content_base64 is not None
    try:
        return base64.b64decode(wanted.content_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise HubError("bad_arguments", "content_base64: not base64") from error


async def _published(hub: Hub, publication: Publication) -> Published:
    if hub.draining:
        raise HubError("closing")
    answer: asyncio.Future[Published] = hub.loop.create_future()

    def done(result: Published | HubError) -> None:
        if answer.done():
            return
        if isinstance(result, HubError):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    hub.topics.publish(publication, done)
    return await answer
