"""A tny Message without its packet: bytes, headers, result codes, and requests in flight.

`transform.PacketContext.open` yields the bytes of a Message, `decode_message` the Message;
`encode_message` and `PacketContext.seal` do the reverse (Message编码 in seed 002).

Headers exist in dialect upstream (§2 of the tny rules): a type, 4 bytes little-endian, and a
protobuf message. Headers of other types than the three known ones are carried unchanged. The seed
dialect has one header, opaque bytes.

Result codes implement the closing rule of §6: there is no close packet, so a result code announces
why a connection closes. Codes that are not listed here belong to applications and never close.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, cast

import msgspec

from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.types import Layout

from . import codec_seed as codec
from .layout import (
    SUCCESS,
    ForwardHeader,
    HeaderType,
    Message,
    Mode,
    OriginalMessageIdHeader,
    TracingHeader,
)
from .protocol import PROTOCOL
from .transform import Dialect

__all__ = [
    "CLOSING",
    "KEYS",
    "Calls",
    "Header",
    "OpaqueHeader",
    "ResultCode",
    "answered_id",
    "closes",
    "decode_header",
    "decode_message",
    "encode_header",
    "encode_message",
    "in_dialect",
    "response_to",
    "type_of",
]


# -- result codes ----------------------------------------------------------------------------------


class ResultCode(IntEnum):
    """Result codes of the protocol; an application may use any other number."""

    SUCCESS = SUCCESS
    DECODE_ERROR = 153
    """The peer's bytes break a rule."""
    ENCODE_ERROR = 154
    """A response could not be encoded."""
    VERIFY_FAILED = 156
    """A check code does not match: that packet is dropped, the connection goes on."""
    SERVER_ERROR = 200
    """The server cannot handle this request now."""
    NO_SUCH_PROTOCOL = 205
    """No handler has this protocol number; the answer has no body."""
    AUTH_FAILED = 210
    """The peer is not authenticated."""
    SESSION_LOST = 216
    """The session that a client wants to resume does not exist any more."""
    SESSION_TIMEOUT = 217
    """The session was silent for too long."""
    NO_LINK = 225
    """A gateway has no link to the service that a request is for."""


# 220, 221, 224 and 226 are the original's cluster errors; nothing here sends them, but its peers
# do.
CLOSING: Final = frozenset(
    {
        ResultCode.DECODE_ERROR,
        ResultCode.ENCODE_ERROR,
        ResultCode.AUTH_FAILED,
        ResultCode.SESSION_LOST,
        ResultCode.SESSION_TIMEOUT,
        220,
        221,
        224,
        ResultCode.NO_LINK,
        226,
    }
)
"""Codes of level ERROR: a server that sends one closes the connection after the write (§6)."""


def closes(code: int) -> bool:
    """Return whether a server closes the connection once it has sent this code."""
    return code in CLOSING


# -- headers ---------------------------------------------------------------------------------------


KEYS: Final[dict[int, str]] = {
    HeaderType.RPC_FORWARD: "Rpc-Forward",
    HeaderType.RPC_ORIGINAL_MESSAGE_ID: "Rpc-Original-Message-Id",
    HeaderType.RPC_TRACING: "Rpc-Tracing",
}
"""The original's names of the known types."""

_TYPE_SIZE: Final = 4


class OpaqueHeader(Layout):
    """A header of an unknown type, carried as bytes."""

    type_id: int
    """The type, a signed number."""
    data: bytes = b""
    """The protobuf message."""


Header = ForwardHeader | OriginalMessageIdHeader | TracingHeader | OpaqueHeader
"""A decoded header."""

_READERS: Final[dict[int, Callable[[bytes, int, int], tuple[Any, int]]]] = {
    HeaderType.RPC_FORWARD: codec.read_forward_header,
    HeaderType.RPC_ORIGINAL_MESSAGE_ID: codec.read_original_message_id_header,
    HeaderType.RPC_TRACING: codec.read_tracing_header,
}
_WRITERS: Final[dict[type, tuple[int, Callable[[Any], bytes]]]] = {
    ForwardHeader: (HeaderType.RPC_FORWARD, codec.write_forward_header),
    OriginalMessageIdHeader: (
        HeaderType.RPC_ORIGINAL_MESSAGE_ID,
        codec.write_original_message_id_header,
    ),
    TracingHeader: (HeaderType.RPC_TRACING, codec.write_tracing_header),
}


def type_of(header: Header) -> int:
    """Return the type number of a header."""
    return header.type_id if isinstance(header, OpaqueHeader) else int(_WRITERS[type(header)][0])


def decode_header(data: bytes) -> Header:
    """Decode a header. Raises DecodeError only; offsets count from the header's start."""
    if len(data) < _TYPE_SIZE:
        detail = f"expected {_TYPE_SIZE} bytes, {len(data)} left"
        raise DecodeError("short", "header.type_id", 0, detail)
    type_id = int.from_bytes(data[:_TYPE_SIZE], "little", signed=True)
    read = _READERS.get(type_id)
    if read is None:
        return OpaqueHeader(type_id=type_id, data=data[_TYPE_SIZE:])
    header, _ = read(data, _TYPE_SIZE, len(data))
    return header  # type: ignore[no-any-return]


def encode_header(header: Header) -> bytes:
    """Encode a header, for the `headers` of a message. Raises EncodeError only."""
    try:
        if isinstance(header, OpaqueHeader):
            type_id, data = header.type_id, bytes(header.data)
        else:
            type_id, write = _WRITERS[type(header)]
            data = write(header)
        return type_id.to_bytes(_TYPE_SIZE, "little", signed=True) + data
    except OverflowError:
        raise EncodeError("int_range", "header.type_id") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EncodeError("bad_value", "header", None, str(error)) from error


# -- the message -----------------------------------------------------------------------------------


def decode_message(data: bytes, dialect: Dialect = "seed") -> Message:
    """Decode a Message that fills these bytes exactly. Raises DecodeError only."""
    message, stop = PROTOCOL.codec(dialect).read_message(data, 0, len(data))
    if stop != len(data):
        raise DecodeError("trailing_bytes", "message", stop, f"{len(data) - stop} left")
    return cast(Message, message)


def encode_message(message: Message, dialect: Dialect = "seed") -> bytes:
    """Encode a Message. Raises EncodeError only."""
    try:
        return cast(bytes, PROTOCOL.codec(dialect).write_message(message))
    except (AttributeError, TypeError, ValueError) as error:
        raise EncodeError("bad_value", "message", None, str(error)) from error


# -- requests in flight ----------------------------------------------------------------------------


_FORWARD: Final = int(HeaderType.RPC_FORWARD).to_bytes(4, "little")
_ORIGINAL_ID: Final = int(HeaderType.RPC_ORIGINAL_MESSAGE_ID).to_bytes(4, "little")


def answered_id(request: Message) -> int:
    """Return the ToMessage of the response to this request."""
    # A forwarded request carries the id of the original sender's message in header 101; the
    # response must name that one, or the original sender could not match it (§6).
    for data in request.headers or ():
        if data.startswith(_ORIGINAL_ID):
            try:
                header = decode_header(data)
            except DecodeError:
                continue  # a header that does not decode affects no other (§2)
            if isinstance(header, OriginalMessageIdHeader):
                return header.message_id
    return request.id


def response_to(
    request: Message,
    *,
    id: int,  # noqa: A002 - the document's name
    code: int,
    time: int,
    upstream: bool,
    body: bytes | None = None,
    headers: tuple[bytes, ...] | None = None,
) -> Message:
    """Return the response to a request, on its line, with its headers unless others are given.

    `upstream`: the dialect of the connection, which in `auto` may have changed since the request.
    """
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


def in_dialect(message: Message, dialect: Dialect) -> Message:
    """Return a message with its headers in the form of a dialect, for a node between two.

    Seed has one header, upstream a list (section 8.2): one header is the same bytes in both. Of
    several, seed carries the forward header, or else the first.
    """
    if dialect == "upstream":
        if message.forward_header is None:
            return message
        headers = (message.forward_header,)
        return msgspec.structs.replace(message, forward_header=None, headers=headers)
    if message.headers is None:
        return message
    forward = (each for each in message.headers if each.startswith(_FORWARD))
    header = next(forward, next(iter(message.headers), None))
    return msgspec.structs.replace(message, forward_header=header, headers=None)


class _Call(NamedTuple):
    request: Message
    deadline: float


class Calls:
    """Own requests in flight, by the id that their response will name.

    Several requests can have the same key: header 101 carries an id that another peer chose.
    """

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, list[_Call]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, request: Message, deadline: float) -> None:
        """Add a request that was sent."""
        self._waiting.setdefault(answered_id(request), []).append(_Call(request, deadline))
        self._count += 1

    def take(self, response: Message, *, same_protocol: bool) -> Message | None:
        """Remove and return the request that a response answers; None when there is none."""
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
        """Remove and return the requests whose deadline has passed, oldest deadline first."""
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
        """Remove and return all requests, in the order of their ids."""
        left = [call.request for calls in self._waiting.values() for call in calls]
        self._waiting.clear()
        self._count = 0
        return sorted(left, key=lambda request: request.id)
