"""Templates of the fast path: the bytes that repeat from packet to packet, encoded once.

A packet for the fast path has no options, and a Message with a body and without headers:

    head, option, length | access id | number | id | bits, protocol, code, to message | time | body

The access id of a connection stays the same (§3), and so do the bytes between id and time as long
as the same protocol is requested. The codec encodes everything that is kept here, from a Message
with a zero wherever something varies.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import msgspec

from wirelake.wire.errors import DecodeError, NeedMore

from . import codec_seed
from .layout import SUCCESS, Envelope, Message, Mode, Packet
from .packets import PLAIN

__all__ = [
    "HEADS",
    "HEAD_SIZE",
    "MOST_PAYLOAD",
    "SIZES",
    "RequestTemplate",
    "access_piece",
    "learn_template",
    "size_at",
]

MOST_PAYLOAD: Final = 4_096
"""The largest payload whose head is cached: beyond it, copying the body dominates."""
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
    """Created on first use."""

    def __missing__(self, size: int) -> bytes:
        head = self[size] = _packet(size)[:HEAD_SIZE]
        SIZES[head] = size
        return head


HEADS: Final = _Heads()
"""Head, option and length by the size of the payload; equal in both dialects."""
SIZES: Final[dict[bytes, int]] = {}
"""The size of the payload by head, option and length, as far as `HEADS` has them."""


def size_at(buf: bytes, pos: int, end: int) -> int:
    """Return the size of the payload of the packet at `pos`, and cache its head.

    0 for a packet with options, an incomplete packet, or a large one.
    """
    if not buf.startswith(PLAIN, pos):
        return 0
    try:
        stop = codec_seed.scan_envelope(buf, pos + len(PLAIN), end, MOST_PAYLOAD)
    except (DecodeError, NeedMore):
        return 0
    size = stop - pos - HEAD_SIZE
    return size if size >= _LEAST and buf.startswith(HEADS[size], pos) else 0


class RequestTemplate(msgspec.Struct, gc=False, eq=False):
    """What the requests to one protocol on one line have in common, and their replies."""

    protocol: int
    line: int
    asked: bytes
    """The bytes of a request between its id and its time."""
    size: int
    """Bytes of `asked`."""
    answered: bytes
    """The bytes of a successful reply between its own id and that of the request."""
    target: Any = None
    """For the application: the service of the protocol number."""


def access_piece(codec: ModuleType, access_id: int) -> bytes:
    """Encode an access id as in a packet."""
    bare: bytes = codec.encode_envelope(Envelope(access_id=0, number=0, content=b""))
    whole: bytes = codec.encode_envelope(Envelope(access_id=access_id, number=0, content=b""))
    return whole[len(bare) - _LEAST : -_ZERO]


def learn_template(codec: ModuleType, request: Message) -> RequestTemplate | None:
    """Return the template of a request; None if it needs the full path."""
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
    return RequestTemplate(request.protocol, request.line, asked, len(asked), answered)
