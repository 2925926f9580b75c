"""What the hub does for somebody who speaks tny, over a connection of its own or through a tunnel.

    protocol   10 to 14   the hub's own calls (`calls.py`)
    protocol   20         pushes: notifications
    any other             a service; code 205 when there is none

Bodies are JSON. Success is code 100; a refusal has the code of `errors.py` and, as its body,
`{"code", "text"}`. A push of the peer is an event: the service is called, and nobody is answered.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import ClassVar, Final

import msgspec

from wirelake.hub.calls import CALL_NUMBERS, HubCalls, notification_json
from wirelake.hub.errors import HubError
from wirelake.hub.notification import Notification
from wirelake.hub.serving import Call, Result, json_body
from wirelake.protocols.tny.layout import Message
from wirelake.protocols.tny.plain import Answer
from wirelake.protocols.tny.results import ResultCode

from .connection import Connection
from .door import Door

__all__ = ["BEFORE_AUTH_BYTES", "PushBodies", "TnyPeer", "refusal", "refusal_body"]

BEFORE_AUTH_BYTES: Final = 4_096
"""The largest payload of who has not signed on: an id and a token, ten times over."""

_AUTH: Final = 10
_KEPT_BODIES: Final = 512
_OK: Final = ("tny", "ok")
_SUCCESS: Final = int(ResultCode.SUCCESS)
_encode: Final = msgspec.json.Encoder().encode


class PushBodies:
    """The bodies of pushes: each is made once, however many subscribe."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[int, bytes] = {}

    def of(self, notification: Notification) -> bytes:
        """The body for a notification."""
        body = self._kept.get(notification.number)
        if body is None:
            if len(self._kept) >= _KEPT_BODIES:
                self._kept.clear()
            body = self._kept[notification.number] = notification_json(notification)
        return body


class TnyPeer(Connection):
    """Somebody who speaks tny: serves what it asks."""

    protocol: ClassVar[str] = "tny"

    __slots__ = ("_auth_by", "_calls", "_running")

    def __init__(self, door: Door, calls: HubCalls):
        super().__init__(door)
        self._calls = calls
        self._running = 0
        self._auth_by = 0.0

    @abstractmethod
    def answer(
        self, request: Message, code: int, body: bytes | None, *, late: bool = False
    ) -> None:
        """Sends the response to a request; does nothing when it cannot be sent any more. `late`:
        the clock has gone on since the request came."""

    def serve(self, request: Message) -> None:
        """Acts on a request."""
        service = self.hub.services.tny(request.protocol)
        if service is None or self.client is None:
            self._serve_other(request)
            return
        body = request.body or b""
        if service.immediate:
            call = Call("tny", self, body) if service.wants_call else None
            self._respond(request, service.now(call, body))
        elif self._running >= self.hub.limits.calls:
            self._respond(request, HubError("too_busy", "too many calls are under way"))
        else:
            self._running += 1
            service.run(Call("tny", self, body), body, partial(self._respond_later, request))

    def _quick_answer(self, outcome: Result | HubError) -> bytes | Answer:
        """What is said, in its shortest form."""
        if type(outcome) is bytes:
            self.hub.counts.calls[_OK] += 1
            return outcome
        answer = self._answer_of(outcome)
        return answer if answer.body is None or answer.code != _SUCCESS else answer.body

    def _answer_of(self, outcome: Result | HubError) -> Answer:
        try:
            if not isinstance(outcome, HubError):
                body = None if outcome is None else json_body(outcome)
                self.hub.counts.calls[_OK] += 1
                return Answer(_SUCCESS, body)
        except HubError as error:
            outcome = error
        self._count(outcome)
        return refusal(outcome)

    def heed(self, push: Message) -> None:
        """Acts on a push: an event for a service, if there is one."""
        if self.client is None:
            self.refuse()
            return
        service = self.hub.services.tny(push.protocol)
        if service is None or self._running >= self.hub.limits.calls:
            self.hub.counts.calls["tny", "not_found" if service is None else "too_busy"] += 1
            return
        body = push.body or b""
        self._running += 1
        service.run(Call("tny", self, body, is_event=True), body, self._event_done)

    @abstractmethod
    def refuse(self) -> None:
        """Says that nothing goes without signing on, and closes."""

    def _event_done(self, outcome: Result | HubError) -> None:
        self._running -= 1
        self._count(outcome)

    def _serve_other(self, request: Message) -> None:
        name = CALL_NUMBERS.get(request.protocol)
        if self.client is None and request.protocol != _AUTH:
            self._respond(request, HubError("auth_required"))
        elif name is None:
            self.hub.counts.calls["tny", "not_found"] += 1
            self.answer(request, ResultCode.NO_SUCH_PROTOCOL, None)
        elif self._running >= self.hub.limits.calls:
            self._respond(request, HubError("too_busy", "too many calls are under way"))
        else:
            self._running += 1
            answer = partial(self._respond_later, request)
            self._calls.run(self, name, request.body or b"", answer)

    def _respond_later(self, request: Message, outcome: Result | HubError) -> None:
        self._running -= 1
        if self.open:
            self._respond(request, outcome, late=True)
            self.react()

    def _respond(self, request: Message, outcome: Result | HubError, *, late: bool = False) -> None:
        code, body = self._answer_of(outcome)
        self.answer(request, code, body, late=late)

    def _count(self, outcome: Result | HubError) -> None:
        code = outcome.code if isinstance(outcome, HubError) else "ok"
        self.hub.counts.calls["tny", code] += 1


def refusal(error: HubError) -> Answer:
    """How a refusal is answered."""
    return Answer(error.answer.tny, refusal_body(error))


def refusal_body(error: HubError) -> bytes:
    """What the body of a refusal says."""
    return _encode({"code": error.code, "text": error.text})
