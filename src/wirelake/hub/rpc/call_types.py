"""What a service is given, and what it gives back.

A result is one of these, whatever the protocol of the call:

    dict, msgspec.Struct   ESNP: DATA rows by name; elsewhere: a JSON object
    bytes                  ESNP: a PAYLOAD row; elsewhere: the body as it is
    None                   an answer without content
    Reply                  both at once, or rows of ESNP as they are
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from wirelake.protocols.esnp.layout import Payload, Row

from ..errors import HubError

if TYPE_CHECKING:
    from ..pubsub.subscriptions import Client

__all__ = ["Answerer", "Call", "Reply", "Result", "ServiceError", "json_body"]

_log = logging.getLogger(__name__)


class ServiceError(HubError):
    """A service says that it failed; the caller is told the text."""

    def __init__(self, text: str):
        super().__init__("failed", text)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with several parts."""

    data: dict[str, Any] | None = None
    """Values by name."""
    payload: bytes | None = None
    """Bytes. Beside `data`, a JSON body has them as `payload_base64`."""
    rows: tuple[Row, ...] = ()
    """Rows for callers that speak ESNP; others do not get them."""


Result: TypeAlias = "Mapping[str, Any] | list[Any] | bytes | Reply | msgspec.Struct | None"
"""What a service may return. A list is what a stream becomes where nothing can be streamed."""
Answerer: TypeAlias = "Callable[[Result | HubError], None]"
"""Takes the outcome of a call."""


class Call(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A call of a service: who asks, by which protocol, and with what."""

    protocol: str
    """`esnp`, `tny` or `magline`."""
    connection: Any
    """The connection that it came by."""
    body: bytes = b""
    """The body; of ESNP, all PAYLOAD rows together."""
    rows: tuple[Row, ...] = ()
    """ESNP: the rows of all messages of the request."""
    is_info: bool = False
    """ESNP: an INFO, not a REQUEST."""
    is_event: bool = False
    """Nobody waits for an answer."""
    part: Callable[[Result], Awaitable[None]] | None = None
    """Sends one part of a stream; None where parts are collected into one answer."""

    @property
    def client(self) -> Client | None:
        """Who asks; None when nobody has signed on."""
        client: Client | None = self.connection.client
        return client

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """ESNP: each PAYLOAD row."""
        return tuple(row.data for row in self.rows if isinstance(row, Payload))


_encoder: Final = msgspec.json.Encoder()


def json_body(result: Result) -> bytes:
    """The body of an answer in JSON; HubError when a service returned what has none."""
    if result is None:
        return b""
    if isinstance(result, bytes):
        return result
    if isinstance(result, Reply):
        return _reply_body(result)
    try:
        return _encoder.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        _log.error("a service returned what is no JSON: %s", error)
        raise HubError("internal") from error


def _reply_body(reply: Reply) -> bytes:
    if reply.data is None:
        return reply.payload or b""
    if reply.payload is None:
        return json_body(reply.data)
    return json_body({**reply.data, "payload_base64": reply.payload})
