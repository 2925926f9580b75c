"""A tny Message by itself, as it is once the transforms of its packet are undone.

`transform.PacketContext.open` gives the bytes, `decode_message` what they mean; `encode_message`
and `PacketContext.seal` go the other way. See Message编码 in seed 002.
"""

from __future__ import annotations

from typing import cast

from wirelake.wire.errors import DecodeError, EncodeError

from .layout import Message
from .protocol import PROTOCOL
from .transform import Dialect

__all__ = ["decode_message", "encode_message"]


def decode_message(data: bytes, dialect: Dialect = "seed") -> Message:
    """The message that these bytes are, all of them. Raises DecodeError only."""
    message, stop = PROTOCOL.codec(dialect).read_message(data, 0, len(data))
    if stop != len(data):
        raise DecodeError("trailing_bytes", "message", stop, f"{len(data) - stop} left")
    return cast(Message, message)


def encode_message(message: Message, dialect: Dialect = "seed") -> bytes:
    """The bytes of a message. Raises EncodeError only."""
    try:
        return cast(bytes, PROTOCOL.codec(dialect).write_message(message))
    except (AttributeError, TypeError, ValueError) as error:
        raise EncodeError("bad_value", "message", None, str(error)) from error
