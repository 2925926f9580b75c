"""Plain requests that a peer keeps sending, and the answers to them: what repeats is encoded once.

A plain packet has no options, and a Message with a body and without headers:

    head, option, length | access id | number | id | bits, protocol, code, to message | time | body

The access id of a connection stays the same, and so do the bytes between id and time as long as the
same is asked. The codec makes all bytes that are kept here, by writing a Message that has a zero
wherever something varies.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import msgspec

from wirelake.wire.errors import DecodeError, NeedMore

from . import codec_seed
from .layout import (
    SUCCESS,
    Envelope,
    Message,
    Mode,
    Packet,
)
from .packets import PLAIN

__all__ = [
    "HEADS",
    "HEAD_SIZE",
    "MOST_PAYLOAD",
    "SIZES",
    "Kind",
    "access_piece",
    "learn",
    "size_at",
]

MOST_PAYLOAD: Final = 4_096
"""The largest payload whose head is kept: with more, the body itself is the work."""
_LEAST: Final = 2
"""The smallest: an access id and a number, of a byte each."""
_ZERO: Final = 1
"""Bytes of a zero, and of an empty body."""


def _packet(size: int) -> bytes:
    body = Envelope(access_id=0, number=0, content=bytes(size - _LEAST))
    return codec_seed.encode_packet(Packet(body=body))


HEAD_SIZE: Final = len(_packet(_LEAST)) - _LEAST
"""Bytes of head, option and length."""


class _Heads(dict[int, bytes]):
    """Made when they are first wanted."""

    def __missing__(self, size: int) -> bytes:
        head = self[size] = _packet(size)[:HEAD_SIZE]
        SIZES[head] = size
        return head


HEADS: Final = _Heads()
"""Head, option and length by the size of the payload; both dialects have the same."""
SIZES: Final[dict[bytes, int]] = {}
"""The size of the payload by head, option and length, of those that have been wanted."""


def size_at(buf: bytes, pos: int, end: int) -> int:
    """The size of the payload of the plain packet at `pos`, whose head is known from then on.

    0 when there is no such packet, or not all of it, or when it is large.
    """
    if not buf.startswith(PLAIN, pos):
        return 0
    try:
        stop = codec_seed.scan_envelope(buf, pos + len(PLAIN), end, MOST_PAYLOAD)
    except (DecodeError, NeedMore):
        return 0
    size = stop - pos - HEAD_SIZE
    return size if size >= _LEAST and buf.startswith(HEADS[size], pos) else 0


class Kind(msgspec.Struct, gc=False, eq=False):
    """What the requests to one protocol, on one line, have in common, and the answers to them."""

    protocol: int
    line: int
    asked: bytes
    """What a request has between its id and its time."""
    size: int
    """Bytes of `asked`."""
    answered: bytes
    """What an answer of success has between its own id and that of the request."""
    target: Any = None
    """For the application: what it has found behind the protocol."""


def access_piece(codec: ModuleType, access_id: int) -> bytes:
    """An access id as packets have it."""
    bare: bytes = codec.encode_envelope(Envelope(access_id=0, number=0, content=b""))
    whole: bytes = codec.encode_envelope(Envelope(access_id=access_id, number=0, content=b""))
    return whole[len(bare) - _LEAST : -_ZERO]


def learn(codec: ModuleType, request: Message) -> Kind | None:
    """The kind of a request; None when it is not plain."""
    if request.mode != Mode.REQUEST or request.body is None:
        return None
    if request.forward_header is not None or request.headers is not None:
        return None
    asked: bytes = codec.write_message(
        Message(
            id=0,
            reserved=request.reserved,
            line=request.line,
            protocol=request.protocol,
            code=request.code,
            to_message=request.to_message,
            body=b"",
        )
    )
    answered: bytes = codec.write_message(
        Message(
            id=0,
            line=request.line,
            mode=Mode.RESPONSE,
            protocol=request.protocol,
            code=SUCCESS,
            body=b"",
        )
    )
    asked = asked[_ZERO : -2 * _ZERO]  # without id; time, body
    answered = answered[_ZERO : -3 * _ZERO]  # without id; to message, time, body
    return Kind(request.protocol, request.line, asked, len(asked), answered)
