"""Requests that wait for a response: who waits for what, and until when.

Implements the matching of §6 of the tny rules. A response names its request in ToMessage: by the
request's id, or, where an upstream request carries header 101, by the id in that header. Several
forwarded requests may carry the same original id; the oldest is answered first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wirelake.wire.errors import DecodeError

from .layout import HeaderType, Message, Mode, OriginalMessageIdHeader
from .message import decode_header

__all__ = ["Calls", "answered_id", "response_to"]

_ORIGINAL_ID: Final = int(HeaderType.RPC_ORIGINAL_MESSAGE_ID).to_bytes(4, "little")


def answered_id(request: Message) -> int:
    """What ToMessage of the response to this request is."""
    for data in request.headers or ():
        if data.startswith(_ORIGINAL_ID):
            try:
                header = decode_header(data)
            except DecodeError:
                continue  # other headers are unaffected (§2)
            if isinstance(header, OriginalMessageIdHeader):
                return header.message_id
    return request.id


def response_to(
    request: Message,
    *,
    id: int,  # noqa: A002 - the document's own word
    code: int,
    time: int,
    upstream: bool,
    body: bytes | None = None,
    headers: tuple[bytes, ...] | None = None,
) -> Message:
    """The response to a request, on its line; headers go back as they came, unless others are
    given. `upstream` says in which dialect: a connection in `auto` may have changed it since."""
    return Message(
        id=id,
        mode=Mode.RESPONSE,
        protocol=request.protocol,
        code=code,
        to_message=request.id if request.headers is None else answered_id(request),
        time=time,
        body=body,
        line=request.line,
        forward_header=None if upstream else request.forward_header,
        headers=headers if headers is not None or not upstream else request.headers,
    )


class _Call(NamedTuple):
    request: Message
    deadline: float


class Calls:
    """Own requests under way, by the id that their response will name."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, list[_Call]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, request: Message, deadline: float) -> None:
        """A request was sent."""
        self._waiting.setdefault(answered_id(request), []).append(_Call(request, deadline))
        self._count += 1

    def take(self, response: Message, *, same_protocol: bool) -> Message | None:
        """The request that a response answers, which waits no more; None when there is none."""
        calls = self._waiting.get(response.to_message, [])
        for index, call in enumerate(calls):
            if not same_protocol or call.request.protocol == response.protocol:
                del calls[index]
                if not calls:
                    del self._waiting[response.to_message]
                self._count -= 1
                return call.request
        return None

    def expire(self, now: float) -> list[Message]:
        """Return the requests whose time is up, oldest deadline first; they wait no more."""
        expired: list[_Call] = []
        for key, calls in list(self._waiting.items()):
            left = [call for call in calls if call.deadline > now]
            if len(left) == len(calls):
                continue
            expired += [call for call in calls if call.deadline <= now]
            if left:
                self._waiting[key] = left
            else:
                del self._waiting[key]
        self._count -= len(expired)
        expired.sort(key=lambda call: (call.deadline, call.request.id))
        return [call.request for call in expired]

    def next_deadline(self) -> float | None:
        """Return the earliest deadline."""
        return min(
            (call.deadline for calls in self._waiting.values() for call in calls), default=None
        )

    def drain(self) -> list[Message]:
        """Return all requests, in the order of their ids; none waits any more."""
        left = [call.request for calls in self._waiting.values() for call in calls]
        self._waiting.clear()
        self._count = 0
        return sorted(left, key=lambda request: request.id)
