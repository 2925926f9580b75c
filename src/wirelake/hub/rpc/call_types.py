"""The types of a call: what a service gets, what it returns, and how an answer is deferred.

A result is one of these, whatever the protocol of the call:

    dict, msgspec.Struct   ESNP: DATA rows by name; elsewhere: a JSON object
    bytes                  ESNP: a PAYLOAD row; elsewhere: the body as it is
    None                   an empty answer
    Reply                  both, or ESNP rows as they are
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from ..errors import HubError
from ..pubsub.subscriptions import Client

__all__ = ["Answerer", "Call", "DeferredReply", "Reply", "Result", "ServiceError", "json_body"]

_log = logging.getLogger(__name__)


class ServiceError(HubError):
    """Raised by a service to report a failure; the caller gets the text."""

    def __init__(self, text: str):
        super().__init__("failed", text)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with several parts."""

    data: dict[str, Any] | None = None
    """Values by name."""
    payload: bytes | None = None
    """Bytes. Beside `data`, a JSON body has them as `payload_base64`."""
    rows: tuple[Any, ...] = ()
    """Rows for ESNP callers; others do not get them."""


Result: TypeAlias = Mapping[str, Any] | list[Any] | bytes | Reply | msgspec.Struct | None
"""What a service may return. A stream becomes a list where the protocol cannot stream."""
Answerer: TypeAlias = Callable[[Result | HubError], None]
"""Called with the outcome of a call."""


class Call(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A call of a service: the connection, its protocol, and what was sent."""

    protocol: str
    """The name of the protocol."""
    connection: Any
    """The connection of the caller."""
    body: bytes = b""
    """The body; in ESNP, all PAYLOAD rows joined."""
    rows: tuple[Any, ...] = ()
    """ESNP: the rows of all messages of the request."""
    is_info: bool = False
    """ESNP: an INFO, not a REQUEST."""
    is_event: bool = False
    """Whether the caller expects no answer."""
    part: Callable[[Result], Awaitable[None]] | None = None
    """Sends one part of a stream; None where the parts are collected into one answer."""

    @property
    def client(self) -> Client | None:
        """The client of the caller; None before it has signed on."""
        client: Client | None = self.connection.client
        return client

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """ESNP: the data of each PAYLOAD row."""
        return ()

    @property
    def echo(self) -> Result:
        """A result that is the same as what was sent."""
        return self.body


class DeferredReply:
    """The answer to a request on a listener's fast path: known at once, or sent later.

    `take` is called with the outcome. If that happens before the listener returns, the answer is
    `known` and is written with those of other requests; otherwise the listener sets `late`, and
    the outcome goes to `answer_later`.
    """

    __slots__ = ("_answer_later", "known", "late", "outcome")

    def __init__(self, answer_later: Answerer):
        self._answer_later = answer_later
        self.known = False
        """Whether `outcome` is set."""
        self.late = False
        """Whether the listener has returned without the answer."""
        self.outcome: Result | HubError = None

    def take(self, outcome: Result | HubError) -> None:
        """Accept the outcome."""
        if self.late:
            self._answer_later(outcome)
        else:
            self.outcome, self.known = outcome, True


_encoder: Final = msgspec.json.Encoder()


def json_body(result: Result) -> bytes:
    """Return the JSON body of an answer; HubError when the result cannot be encoded."""
    if result is None:
        return b""
    if isinstance(result, bytes):
        return result
    if isinstance(result, Reply):
        return _reply_body(result)
    try:
        return _encoder.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        _log.error("the result of a service cannot be encoded as JSON: %s", error)
        raise HubError("internal") from error


def _reply_body(reply: Reply) -> bytes:
    if reply.data is None:
        return reply.payload or b""
    if reply.payload is None:
        return json_body(reply.data)
    return json_body({**reply.data, "payload_base64": reply.payload})
