"""The streams of connections: which payload is next in line, in kernels (captures.md, Streams).

The rules are those of `capture.assembly.StreamAssembler`, as far as everything is in order: then
all that matters is where the stream stands. At the first segment that is not, the stream is *odd*
for the rest of the window, and its segments go to the reference's assembler (`patching.py`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.tcp.assembly import FIN, RST, SYN

from ..jit.options import Int, S, U, inline, kernel
from ..scan.blocks import TS
from ..scan.headers import FLAGS, MISSING, PAYLOAD_BYTES, SEQ

__all__ = [
    "CLOSED",
    "ENDED",
    "ENDINGS",
    "EVICTED",
    "FINISHED",
    "HELD",
    "IGNORED",
    "LOOSE",
    "ODD",
    "OPEN",
    "OVER",
    "REPLACED",
    "RESET",
    "STARTED",
    "STREAM",
    "follow",
    "follow_run",
    "peek",
    "poke",
]

STREAM: Final = np.dtype(
    [
        ("connection", "i8"),
        ("first_ns", "i8"),
        ("last_ns", "i8"),
        ("packets", "i8"),
        ("payload", "i8"),
        ("new", "i8"),
        ("duplicate", "i8"),
        ("gap", "i8"),
        ("ignored", "i8"),
        ("position", "i8"),
        ("bytes", "i8"),
        ("cursor", "i8"),
        ("piece", "i8"),
        ("next_seq", "u4"),
        ("file", "i4"),
        ("window", "i4"),
        ("pieces", "i4"),
        ("last", "i4"),
        ("carry", "i4"),
        ("state", "u1"),
        ("direction", "u1"),
        ("ending", "u1"),
    ],
    align=True,
)
"""A stream: what is counted; `position` and `next_seq`, where it stands; its row in the carry, or
-1; how it ended. And of the window whose number is `window`: the bytes and pieces that are new,
where the next of them goes, and the last packet with payload (of a stream that is held)."""

STARTED: Final = 1
FINISHED: Final = 2
OVER: Final = 4
LOOSE: Final = 8
HELD: Final = 16
IGNORED: Final = 32
ENDED: Final = 64
ODD: Final = 128
"""Bits of `state`: its beginning is known; FIN was reached; it was reset; something waits in an
assembler, which gets every segment; an assembler holds the last bytes; nobody wants its bytes; its
end was reported; something in this window is out of order."""

ENDINGS: Final = ("", "closed", "reset", "expired", "replaced", "evicted", "open")
"""How a stream ended, by the code in `ending`. Open: the last file ended first."""
CLOSED, RESET, EXPIRED, REPLACED, EVICTED, OPEN = range(1, 7)
"""Codes of endings."""

_NOTHING, _DATA, _STRANGE = range(3)

ACTIVE, ENDING, STRANGE = range(3)
"""Places in `counts`: the lengths of the lists that `follow` fills."""

Table = NDArray[Any]


@kernel
def follow(
    count: int,
    window: int,
    file: int,
    wide: NDArray[np.int64],
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    numbers: NDArray[np.uint32],
    octets: NDArray[np.uint8],
    connection: NDArray[np.int64],
    stream: NDArray[np.int32],
    table: Table,
    taken: NDArray[np.uint8],
    before: NDArray[np.int32],
    active: NDArray[np.int32],
    ending: NDArray[np.int32],
    strange: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> None:
    """Follow the streams through the packets of a window.

    `taken` marks the packets whose payload is next in its stream; `before` links those of a held
    stream, backwards. `active` gets the streams for which something happened, `ending` those that
    ended, `strange` the packets of odd streams from the first one on that is out of order.
    """
    for i in range(count):
        taken[i] = 0
        number = S(stream[i])
        if number < 0:
            continue
        found = table[U(number)]
        payload = S(sizes[PAYLOAD_BYTES, i])
        if found.packets == 0:
            found.connection = connection[i]
            found.direction = number & 1
            found.first_ns = wide[TS, i]
            found.file = file
            found.carry = -1
        found.packets += 1
        found.last_ns = wide[TS, i]
        found.payload += payload
        if found.state & ODD:
            strange[U(counts[STRANGE])] = i
            counts[STRANGE] += 1
            continue
        was = found.state
        step = _step(found, numbers[SEQ, i], octets[FLAGS, i], payload, places[MISSING, i])
        if step == _NOTHING and found.state == was:
            continue
        if found.window != window:
            found.window = window
            found.bytes = 0
            found.pieces = 0
            found.last = -1
            active[U(counts[ACTIVE])] = number
            counts[ACTIVE] += 1
        if step == _DATA:
            if found.state & HELD:
                before[i] = found.last
                found.last = i
            if found.state & IGNORED:
                found.ignored += payload
            else:
                taken[i] = 1
                found.bytes += payload
                found.pieces += 1
        elif step == _STRANGE:
            found.state |= ODD
            strange[U(counts[STRANGE])] = i
            counts[STRANGE] += 1
        if found.state & (FINISHED | OVER) and not found.state & ENDED:
            found.state |= ENDED
            found.ending = RESET if found.state & OVER else CLOSED
            ending[U(counts[ENDING])] = number
            counts[ENDING] += 1


@kernel
def follow_run(
    packets: NDArray[np.int64],
    first: int,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    numbers: NDArray[np.uint32],
    octets: NDArray[np.uint8],
    table: Table,
    number: int,
) -> int:
    """Follow one stream through its packets, as long as they are in order: where that stops."""
    found = table[U(number)]
    for k in range(first, len(packets)):
        i = U(packets[k])
        payload = S(sizes[PAYLOAD_BYTES, i])
        step = _step(found, numbers[SEQ, i], octets[FLAGS, i], payload, places[MISSING, i])
        if step == _STRANGE:
            return k
    return len(packets)


@kernel
def peek(table: Table, number: int, values: NDArray[np.int64]) -> None:
    """Read what an assembler has to know of a stream."""
    found = table[U(number)]
    values[0] = found.position
    values[1] = found.next_seq
    values[2] = found.new
    values[3] = found.duplicate
    values[4] = found.gap
    values[5] = found.ignored
    values[6] = found.state
    values[7] = found.last


@kernel
def poke(table: Table, number: int, values: NDArray[np.int64]) -> None:
    """Write what `peek` reads."""
    found = table[U(number)]
    found.position = values[0]
    found.next_seq = values[1]
    found.new = values[2]
    found.duplicate = values[3]
    found.gap = values[4]
    found.ignored = values[5]
    found.state = values[6]
    found.last = values[7]


@inline
def _step(found: Any, seq: Int, flags: Int, payload: Int, missing: Int) -> Int:
    """What a segment means for its stream; a strange one changes nothing but the beginning."""
    if found.state & LOOSE:
        return _STRANGE
    if found.state & OVER or flags & RST:
        found.state |= OVER
        found.new += payload
        found.ignored += payload
        return _NOTHING
    at = (S(seq) + 1) & 0xFFFFFFFF if flags & SYN else S(seq)
    empty = payload == 0 and missing == 0
    if not found.state & STARTED:
        if empty and not flags & (SYN | FIN):
            return _NOTHING
        found.next_seq = at
        found.state |= STARTED
    if empty and (found.state & FINISHED or not flags & FIN):
        return _NOTHING
    if missing or found.state & FINISHED or at != found.next_seq:
        return _STRANGE
    found.next_seq = np.uint32(at + payload)
    found.position += payload
    found.new += payload
    if flags & FIN:
        found.state |= FINISHED
    return _DATA if payload else _NOTHING
