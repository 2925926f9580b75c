"""TCP segments of a connection: segmentation, acknowledgements, and small disorders.

`segments_of` turns what the tap saw of one connection into packets. Writes in quick succession are
sent together and long ones are cut, so that frames cross segments and segments hold several frames.
Acknowledgements travel with data where they can and alone where they must. Occasionally a segment
is retransmitted although it arrived, or overtaken by its successor; an idle connection is probed.
Reassembly removes all of this.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from wirelake.capture.tcp.synthesis import ACK, FIN, PSH, RST, SYN

from ..scenes.scene import C2S, S2C, SceneEvent
from .packet_template import SPACING_S

__all__ = ["Segment", "segments_of"]

_TOGETHER_S: Final = 0.003
"""Writes within this time may share a segment."""
_DELAYED_ACK_S: Final = 0.04
_KEEP_ALIVE_S: Final = 45.0
_AGAIN_S: Final = 0.21
"""Retransmission timeout."""
_AGAIN: Final = 0.004
"""Share of segments that are retransmitted."""
_SWAPPED: Final = 0.08
"""Share of pairs within a burst that arrive in the other order."""


@dataclass(slots=True)
class Segment:
    """One packet of a connection; numbers are relative to the first byte after the SYN."""

    at: float
    direction: int
    flags: int
    start: int
    stop: int
    """Range of the stream that it carries; empty without payload."""
    ack: int = 0
    event: int = -1

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self.stop - self.start


@dataclass(slots=True)
class _Write:
    at: float
    direction: int
    start: int
    stop: int
    event: int


def segments_of(
    events: list[tuple[int, SceneEvent]], round_trip_s: float, rng: random.Random
) -> list[Segment]:
    """Return the packets of one connection, in order of time."""
    mss = rng.choice((1448, 1448, 1380, 1220, 536))
    opened = next(each for _, each in events if each.kind == "open")
    closed = next((each for _, each in events if each.kind == "close"), None)
    found = [
        Segment(opened.at, C2S, SYN, -1, -1),
        Segment(opened.at + 0.000_03, S2C, SYN | ACK, -1, -1),
        Segment(opened.at + round_trip_s, C2S, ACK, 0, 0),
    ]
    clock = found[-1].at
    for write in _writes(events, rng):
        burst = list(_cut(write, mss))
        for segment in burst:
            clock = segment.at = max(segment.at, clock + SPACING_S)
        found += _swapped(burst, rng)
    data = found[3:]
    end = clock if closed is None else max(closed.at, clock + SPACING_S)
    found += _acknowledgements(data, round_trip_s, end)
    found += _again(data, rng, end)
    found += _probes(data, end)
    if closed is not None:
        found += _ending(closed, end, round_trip_s)
    found.sort(key=lambda each: each.at)
    _acknowledge(found, round_trip_s)
    return found


def _writes(events: list[tuple[int, SceneEvent]], rng: random.Random) -> Iterator[_Write]:
    """Yield what each end writes, joining writes in quick succession."""
    held: _Write | None = None
    for n, each in events:
        if each.kind != "data":
            continue
        follows = (
            held is not None
            and held.direction == each.direction
            and each.at - held.at < _TOGETHER_S
            and rng.random() < 0.6
        )
        if held is not None and follows:
            held.at, held.stop = each.at, each.stop
        else:
            if held is not None:
                yield held
            held = _Write(each.at, each.direction, each.start, each.stop, n)
    if held is not None:
        yield held


def _cut(write: _Write, mss: int) -> Iterator[Segment]:
    for start in range(write.start, write.stop, mss):
        stop = min(start + mss, write.stop)
        flags = ACK | PSH if stop == write.stop else ACK
        yield Segment(write.at, write.direction, flags, start, stop, event=write.event)


def _swapped(burst: list[Segment], rng: random.Random) -> list[Segment]:
    """Swap some neighbours of a burst."""
    for one, two in pairwise(burst):
        if one.at < two.at and rng.random() < _SWAPPED:
            one.at, two.at = two.at, one.at
    return sorted(burst, key=lambda each: each.at)


def _acknowledgements(data: list[Segment], round_trip_s: float, end: float) -> list[Segment]:
    """Return pure acknowledgements, where no data goes the other way in time."""
    found: list[Segment] = []
    for n, segment in enumerate(data):
        other = 1 - segment.direction
        due = segment.at + (_DELAYED_ACK_S if other == S2C else round_trip_s)
        following = data[n + 1] if n + 1 < len(data) else None
        in_time = following is not None and following.at <= due
        if not in_time and due < end:
            found.append(Segment(due, other, ACK, -2, -2))
    return found


def _again(data: list[Segment], rng: random.Random, end: float) -> list[Segment]:
    """Return spurious retransmissions, some of them joined with their successor."""
    found: list[Segment] = []
    for n, segment in enumerate(data):
        at = segment.at + _AGAIN_S
        if at >= end or rng.random() >= _AGAIN:
            continue
        stop = segment.stop
        following = data[n + 1] if n + 1 < len(data) else None
        joins = (
            following is not None
            and following.start == stop
            and following.direction == segment.direction
            and following.size + segment.size < 1448
        )
        if following is not None and joins and rng.random() < 0.3:
            stop = following.stop
        found.append(Segment(at, segment.direction, ACK | PSH, segment.start, stop))
    return found


def _probes(data: list[Segment], end: float) -> list[Segment]:
    """Return keep-alive probes of idle connections, and their answers."""
    found: list[Segment] = []
    for one, two in pairwise(data):
        at = one.at + _KEEP_ALIVE_S
        if at < two.at - 1.0 and at < end - 1.0:
            found.append(Segment(at, S2C, ACK, -3, -3))
            found.append(Segment(at + 0.05, C2S, ACK, -2, -2))
    return found


def _ending(closed: SceneEvent, end: float, round_trip_s: float) -> list[Segment]:
    if closed.how == "reset":
        return [Segment(end, C2S, RST | ACK, -2, -2)]
    first = C2S if closed.how == "client" else S2C
    pause = 0.000_06 if first == C2S else round_trip_s
    return [
        Segment(end, first, FIN | ACK, -2, -2),
        Segment(end + pause, 1 - first, FIN | ACK, -2, -2),
        Segment(end + pause + 0.000_08 + round_trip_s, first, ACK, -4, -4),
    ]


def _acknowledge(found: list[Segment], round_trip_s: float) -> None:
    """Fill in sequence and acknowledgement numbers."""
    sent = [0, 0]
    arrived: list[list[tuple[float, int]]] = [[], []]
    fins = [0, 0]
    for segment in found:
        direction, other = segment.direction, 1 - segment.direction
        if segment.start < -1:
            here = sent[direction] + (fins[direction] if segment.start == -4 else 0)
            here -= 1 if segment.start == -3 else 0
            segment.start = segment.stop = here
        if segment.flags & FIN:
            fins[direction] = 1
        delay = round_trip_s if direction == C2S else 0.0
        known = [stop for at, stop in arrived[other][-64:] if at + delay <= segment.at]
        segment.ack = max(known, default=0) + (fins[other] if segment.flags & (FIN | RST) else 0)
        if segment.stop > sent[direction]:
            sent[direction] = segment.stop
            arrived[direction].append((segment.at, segment.stop))
