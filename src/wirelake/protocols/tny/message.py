"""A tny Message by itself: its bytes, its headers, and its result codes.

`transform.PacketContext.open` yields the bytes of a Message, `decode_message` the Message;
`encode_message` and `PacketContext.seal` do the reverse (Message编码 in seed 002).

Headers exist in dialect upstream (§2 of the tny rules): a type, 4 bytes little-endian, and a
protobuf message. Three types are known, others are carried. The seed dialect has one header, whose
bytes mean nothing to the protocol.

Result codes implement the closing rule of §6: there is no close packet, a code tells the reason.
Codes that are not listed here belong to applications; they never close.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, cast

from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.types import Layout

from . import codec_seed as codec
from .layout import ForwardHeader, HeaderType, Message, Mode, OriginalMessageIdHeader, TracingHeader
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
    "response_to",
    "type_of",
]


# -- result codes ----------------------------------------------------------------------------------


class ResultCode(IntEnum):
    """Codes that the rules name; an application may use any other number."""

    SUCCESS = 100
    DECODE_ERROR = 153
    """The peer's bytes break a rule."""
    ENCODE_ERROR = 154
    """An answer could not be written."""
    VERIFY_FAILED = 156
    """A check code does not match: that packet is dropped, the connection goes on."""
    SERVER_ERROR = 200
    """The server cannot handle this request now."""
    NO_SUCH_PROTOCOL = 205
    """No handler has this protocol number; the answer has no body."""
    AUTH_FAILED = 210
    """The peer did not prove who it is."""
    SESSION_LOST = 216
    """The session that a client wants to resume is gone."""
    SESSION_TIMEOUT = 217
    """The session was silent for too long."""
    NO_LINK = 225
    """A gateway has no link to the service that a request is for."""


CLOSING: Final = frozenset({153, 154, 210, 216, 217, 220, 221, 224, 225, 226})
"""Codes of level ERROR: who sends one closes the connection after the write."""


def closes(code: int) -> bool:
    """Return whether a server closes the connection once it has sent this code."""
    return code in CLOSING


# -- headers ---------------------------------------------------------------------------------------


KEYS: Final[dict[int, str]] = {
    HeaderType.RPC_FORWARD: "Rpc-Forward",
    HeaderType.RPC_ORIGINAL_MESSAGE_ID: "Rpc-Original-Message-Id",
    HeaderType.RPC_TRACING: "Rpc-Tracing",
}
"""What the original calls the types that it knows."""

_TYPE_SIZE: Final = 4


class OpaqueHeader(Layout):
    """A header of a type that is not known here: its bytes are carried."""

    type_id: int
    """The type, a signed number."""
    data: bytes = b""
    """The protobuf message."""


Header = ForwardHeader | OriginalMessageIdHeader | TracingHeader | OpaqueHeader
"""What a header can be."""

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
    """The header in its bytes. Raises DecodeError only; offsets count from the header's start."""
    if len(data) < _TYPE_SIZE:
        raise DecodeError("short", "header.type_id", 0, f"4 wanted, {len(data)} left")
    type_id = int.from_bytes(data[:_TYPE_SIZE], "little", signed=True)
    read = _READERS.get(type_id)
    if read is None:
        return OpaqueHeader(type_id=type_id, data=data[_TYPE_SIZE:])
    header, _ = read(data, _TYPE_SIZE, len(data))
    return header  # type: ignore[no-any-return]


def encode_header(header: Header) -> bytes:
    """Return the bytes of a header. Raises EncodeError only."""
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
    """Return the message that these bytes are, all of them. Raises DecodeError only."""
    message, stop = PROTOCOL.codec(dialect).read_message(data, 0, len(data))
    if stop != len(data):
        raise DecodeError("trailing_bytes", "message", stop, f"{len(data) - stop} left")
    return cast(Message, message)


def encode_message(message: Message, dialect: Dialect = "seed") -> bytes:
    """Return the bytes of a message. Raises EncodeError only."""
    try:
        return cast(bytes, PROTOCOL.codec(dialect).write_message(message))
    except (AttributeError, TypeError, ValueError) as error:
        raise EncodeError("bad_value", "message", None, str(error)) from error


# Requests that wait for a response: who waits for what, and until when.


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
