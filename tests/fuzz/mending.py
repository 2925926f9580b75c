"""Makes random bytes look like a frame: magic values and lengths that fit, the rest as it came."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MENDERS"]


def _comet(data: bytes) -> bytes:
    body = data[2:] or b"\x06"
    kind = body[0] if body[0] < 9 or body[0] % 5 == 0 else body[0] % 9
    return len(body).to_bytes(2, "big") + bytes([kind]) + body[1:]


def _tny(data: bytes) -> bytes:
    option, payload = (data[4] if len(data) > 4 else 0), data[9:]
    if option & 3 == 3:
        option -= 3
    if option & 3:
        return b"tny." + bytes([option]) + bytes(4)
    return b"tny." + bytes([option]) + len(payload).to_bytes(4, "little") + payload


_RELAY_TYPES = (0x01, 0x02, 0x03, 0x05, 0x06, 0x11, 0x12, 0x13, 0x14, 0x15)


def _relay(data: bytes) -> bytes:
    rest = data[7:].ljust(13, b"\0")
    kind = rest[4] & 0x1F
    if kind not in _RELAY_TYPES and kind % 3:
        kind = _RELAY_TYPES[kind % len(_RELAY_TYPES)]
    rest = rest[:4] + bytes([rest[4] & 0xE0 | kind]) + rest[5:]
    return b"rpk" + len(rest).to_bytes(4, "little") + rest


_BODY_SIZE = {1: 64, 2: 96, 3: 8, 4: 4, 5: 4, 9: 4}
_OPTIONS = {
    1: 0x03FC,
    2: 0x00FC,
    3: 0x00FF,
    4: 0x00FD,
    5: 0x00FD,
    6: 0x00FC,
    7: 0x00FE,
    8: 0x00FC,
    9: 0x00FD,
}
_OPTION_SIZE = {0x0001: 16, 0x0002: 4, 0x0100: 32, 0x0200: 8}


def _magline(data: bytes) -> bytes:
    data = data.ljust(16, b"\0")
    cmd = data[3] % 10 or 6
    bits = int.from_bytes(data[4:6], "big") & _OPTIONS[cmd]
    content, area = data[16:], b""
    for shift in range(16):
        bit = 1 << shift
        if bits & bit:
            size = _OPTION_SIZE.get(bit, content[0] % 8 if content else 0)
            area += size.to_bytes(2, "big") + content[:size].ljust(size, b"\0")
            content = content[size:]
    size = _BODY_SIZE.get(cmd)
    body = content.ljust(20, b"\0") if size is None else content[:size].ljust(size, b"\0")
    magic = 0x7E if cmd in (6, 7, 8) else 0x7F
    head = bytes([magic, 0x66, 0, cmd]) + bits.to_bytes(2, "big") + len(area).to_bytes(2, "big")
    return head + data[8:12] + (len(area) + len(body)).to_bytes(4, "big") + area + body


_ROW_TYPES = (0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F, 0x80)


def _esnp(data: bytes) -> bytes:
    rows, pos = b"", 0
    while pos + 4 <= len(data) and len(rows) < 500:
        kind = data[pos]
        if kind == 0 or kind > 0x1F:
            kind = _ROW_TYPES[kind % len(_ROW_TYPES)]
        size = min(data[pos + 3], len(data) - pos - 4)
        rows += bytes([kind, 0, 0, size]) + data[pos + 4 : pos + 4 + size]
        pos += 4 + size
    return rows + bytes(4)


MENDERS: dict[str, Callable[[bytes], bytes]] = {
    "comet": _comet,
    "esnp": _esnp,
    "magline": _magline,
    "relay": _relay,
    "tny": _tny,
}
"""How each protocol's frames are mended."""
