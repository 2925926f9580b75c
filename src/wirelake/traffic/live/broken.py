"""Broken clients: each does what others do, and then sends bytes that no rule allows.

The hub says what its protocol lets it say, and closes. A reader of the recording finds one fault
with the code below, and a connection that the server closed for that reason.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from .connection import Line

__all__ = ["FLAWS", "Flaw", "break_off"]


@dataclass(frozen=True, slots=True)
class Flaw:
    """Bytes that do not decode."""

    protocol: str
    code: str
    """What is wrong, as `docs/reference/errors.md` has it."""
    data: bytes


def _comet(kind: int, body: bytes = b"") -> bytes:
    return struct.pack(">HB", len(body) + 1, kind) + body


def _relay(kind: int, arguments: bytes = b"") -> bytes:
    rest = struct.pack("<iBq", 9_999, kind, 0) + arguments
    return b"rpk" + struct.pack("<i", len(rest)) + rest


def _magline(first: int, version: int, command: int, seq: int, size: int) -> bytes:
    return struct.pack(">BBHHHII", first, version, command, 0, 0, seq, size)


FLAWS: Final = (
    Flaw("comet", "unknown_type", _comet(0x77)),
    Flaw("comet", "short", _comet(8, b"\x01")),
    Flaw("comet", "trailing_bytes", _comet(6, b"??")),
    Flaw("comet", "length_overrun", _comet(3, b"\x01\x00\x09@a")),
    Flaw("esnp", "bad_end", b"\x00\x00\x00\x02??"),
    Flaw("esnp", "bad_end", b"\x1f\x00\x00\x02ok\x00\x00\x00\x01?"),
    Flaw("tny", "bad_magic", b"what?"),
    Flaw("tny", "too_large", b"tny.\x00" + struct.pack("<i", 1 << 24)),
    Flaw("relay", "bad_magic", b"gateway, are you there?"),
    Flaw("relay", "unknown_type", _relay(0x1F)),
    Flaw("relay", "varint_truncated", _relay(0x11, b"\xff\xff")),
    Flaw("magline", "bad_magic", bytes(16)),
    Flaw("magline", "bad_version", _magline(0x7E, 0x11, 4, 2, 0)),
)
"""One broken client for each."""


async def break_off(line: Line, flaw: Flaw) -> None:
    """Sends the bytes, and hears the hub out."""
    contact = line.contact
    contact.faults.append(flaw.code)
    contact.closed_by, contact.close_reason = "server", flaw.code
    line.leaving = True
    line.transport.write(flaw.data)
    await line.ended()
