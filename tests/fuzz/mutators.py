"""Mutations that know the frames: what is changed at random gets a head that fits it.

Without this, most executions would end at a wrong magic value or a wrong length. One in five keeps
its head as chance made it, so that heads are fuzzed too.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from wirelake.protocols.esnp.layout import RowType
from wirelake.protocols.magline.layout import CONTROL, DATA, VERSION, Cmd
from wirelake.protocols.registry import find
from wirelake.protocols.tny.layout import RelayType

Change = Callable[[bytes, int], bytes]
Fix = Callable[[bytes, Random], bytes]

RAW = 0.2
"""How often nothing is repaired."""
GENTLE = 0.3
"""How often the others keep their size: then most of what they hold stays whole."""
MOST = 4096
"""Bytes of an input; large enough for every length to grow a byte."""


def mutated(name: str, data: bytes, change: Change, most: int, rng: Random) -> bytes:
    """Bytes changed at random, with a head that fits them four times out of five."""
    if rng.random() < RAW:
        return change(data, most)
    head = HEADS[name]
    if rng.random() < GENTLE and len(data) > head:
        return FIXES[name](_touched(data, head, rng), rng)[:most]
    if rng.random() < 0.7 and len(data) > head:
        # the head stays as it was, but for what must follow from the rest
        data = data[:head] + change(data[head:], max(1, most - head))
    else:
        data = change(data, most)
    return FIXES[name](data, rng)[:most]


def _touched(data: bytes, head: int, rng: Random) -> bytes:
    """One to three bytes behind the head altered; nothing moves, so lengths still fit."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        out[rng.randrange(head, len(out))] = rng.randrange(256)
    return bytes(out)


def fix_comet(data: bytes, rng: Random) -> bytes:
    """A length, and mostly a command that there is."""
    body = data[3:]
    kind = data[2] if len(data) > 2 else 0
    if kind > 8 or rng.random() < 0.1:
        kind = rng.randrange(9)
    return (len(body) + 1).to_bytes(2, "big") + bytes([kind]) + body


def fix_tny(data: bytes, rng: Random) -> bytes:
    """The magic, a type, and a length behind the type where one belongs."""
    option = data[4] if len(data) > 4 else 0
    if option & 3 == 3 or rng.random() < 0.1:
        option = option & 0xFC | rng.choice((0, 0, 0, 0, 1, 2))
    head = b"tny." + bytes([option])
    if option & 3:
        return head + bytes(4) + data[9:]
    return head + len(data[9:]).to_bytes(4, "little") + data[9:]


def fix_relay(data: bytes, rng: Random) -> bytes:
    """The magic, a length, and mostly a packet that there is."""
    rest = bytearray(data[7:].ljust(13, b"\0"))
    if rest[4] & 0x1F not in _RELAY_TYPES or rng.random() < 0.1:
        rest[4] = rest[4] & 0xE0 | rng.choice(_RELAY_TYPES)
    return b"rpk" + len(rest).to_bytes(4, "little") + rest


def fix_magline(data: bytes, rng: Random) -> bytes:
    """A head that agrees with its options and its body, whose size may be fixed."""
    head = data[:16].ljust(16, b"\0")
    cmd = int.from_bytes(head[2:4], "big")
    if cmd not in _BODIES or rng.random() < 0.1:
        cmd = rng.choice(list(_BODIES))
    allowed, size = _BODIES[cmd]
    bits = int.from_bytes(head[4:6], "big") & (allowed | 0x00FC)
    if rng.random() < 0.3:
        bits = rng.choice((0, allowed, allowed | 0x0040, allowed & -allowed))
    options = _options(bits, data[16:], rng)
    body = data[16 + len(options) :]
    body = body[:size].ljust(size, b"\0") if size >= 0 else body.ljust(20, b"\0")
    magic = DATA if cmd in (Cmd.REQ, Cmd.REP, Cmd.PSH) else CONTROL
    numbers = ((cmd, 2), (bits, 2), (len(options), 2))
    fixed = bytes([magic, VERSION]) + b"".join(n.to_bytes(k, "big") for n, k in numbers)
    return fixed + head[8:12] + (len(options) + len(body)).to_bytes(4, "big") + options + body


def _options(bits: int, data: bytes, rng: Random) -> bytes:
    """An option area for a bitmap, filled with bytes that were there."""
    area = b""
    for shift in range(16):
        if not bits >> shift & 1:
            continue
        size = _OPTION_SIZES.get(1 << shift, rng.randrange(4))
        if rng.random() < 0.02:
            size += 1
        value = data[len(area) : len(area) + size].ljust(size, b"\0")
        area += size.to_bytes(2, "big") + value
    return area


def fix_esnp(data: bytes, rng: Random) -> bytes:
    """Rows whose sizes fit what is there, and an end row."""
    out, pos = b"", 0
    while pos + 4 < len(data):
        tag, left = data[pos], len(data) - pos - 4
        size = int.from_bytes(data[pos + 1 : pos + 4], "big")
        if size > left or rng.random() < 0.02:
            size = left if rng.random() < 0.7 else rng.randrange(left + 1)
        if tag == 0 and size == 0 and pos:
            break
        if tag not in _ROW_TYPES and (tag < 0x80 or rng.random() < 0.5):
            tag = rng.choice(_ROW_TYPES)
        out += bytes([tag]) + size.to_bytes(3, "big") + data[pos + 4 : pos + 4 + size]
        pos += 4 + size
    return out + bytes(4)


_RELAY_TYPES = [int(kind) for kind in RelayType]
_ROW_TYPES = [int(kind) for kind in RowType if kind is not RowType.END]
_OPTION_SIZES = {0x0001: 16, 0x0002: 4, 0x0100: 32, 0x0200: 8}


def _bodies() -> dict[int, tuple[int, int]]:
    """For each command of magline: the options that it may have, and its size (-1 for any)."""
    found = {}
    body = find("magline").model().body
    options = {Cmd.SYN: 0x0300, Cmd.ERR: 0x0003, Cmd.REP: 0x0002}
    options |= dict.fromkeys((Cmd.PIN, Cmd.PON, Cmd.FIN), 0x0001)
    for alternative in body.alternatives if body is not None else ():
        size = alternative.layout.fixed_size
        allowed = options.get(Cmd(alternative.tag), 0)
        found[alternative.tag] = (allowed, -1 if size is None else size)
    return found


_BODIES = _bodies()

FIXES: dict[str, Fix] = {
    "comet": fix_comet,
    "tny": fix_tny,
    "relay": fix_relay,
    "magline": fix_magline,
    "esnp": fix_esnp,
}
HEADS = {"comet": 3, "tny": 9, "relay": 20, "magline": 16, "esnp": 4}
"""Bytes at the start that are better left alone most of the time."""
