"""Headers of a tny message in dialect upstream: bytes to values and back.

Implements the header list of §2 of the tny rules. A header is a type, 4 bytes little-endian, and a
protobuf message; three types are known, others are carried. The seed dialect has one header, whose
bytes mean nothing to the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.types import Layout

from . import codec_seed as codec
from .layout import (
    ForwardHeader,
    HeaderType,
    OriginalMessageIdHeader,
    TracingHeader,
)

__all__ = ["KEYS", "Header", "OpaqueHeader", "decode_header", "encode_header", "type_of"]

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
    """The type number of a header."""
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
    """The bytes of a header. Raises EncodeError only."""
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
