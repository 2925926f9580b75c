"""A capture of all protocols in which packets are lost, reordered, repeated, cut and reset.

`write_lossy` takes clean traffic (the simulator's, and tunnels that move between links) as TCP
segments, splits some of them, lets connections use a port again without closing it, and then
damages what a capture would show: segments are lost, late, captured twice (also with other bytes),
cut by the snap length or corrupted, and connections are reset while the other end still sends.
Idle times of more than 10 and 60 s are inserted, because readers give up holes and forget closed
connections by capture time. Times ascend; in half of the captures they are whole microseconds, as
tcpdump writes them, so that packets have equal times. Everything follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tests.lake.tunnel_captures import write_tunnels

from wirelake.capture.format.constants import LINK_RAW
from wirelake.capture.format.items import Packet, Segment
from wirelake.capture.format.reader import read
from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.tcp.headers import ACK, FIN, RST, SYN, ip, segment, tcp
from wirelake.traffic import simulate

__all__ = ["write_lossy"]

_MASK = (1 << 32) - 1
_SECOND = 1_000_000_000
_SIZE = 60_000
"""Bytes of simulated captures: all protocols, some hundred packets."""

_End = tuple[bytes, int]


@dataclass(frozen=True)
class _Sent:
    """A segment that was on the wire."""

    ts_ns: int
    src: _End
    dst: _End
    seq: int
    ack: int
    flags: int
    payload: bytes
    captured: int | None = None
    """Captured bytes of its payload; None for all."""

    def packet(self) -> tuple[bytes, int]:
        """Return the captured bytes and the size on the wire."""
        (src, src_port), (dst, dst_port) = self.src, self.dst
        content = tcp(
            src_port,
            dst_port,
            seq=self.seq & _MASK,
            ack=self.ack,
            flags=self.flags,
            payload=self.payload,
        )
        data = ip(src, dst, content)
        missing = 0 if self.captured is None else len(self.payload) - self.captured
        return data[: len(data) - missing], len(data)


def write_lossy(path: Path, clean: Path, seed: int) -> list[str]:
    """Write a capture, and the clean traffic to a folder; return the paths of the key logs."""
    rng = random.Random(f"lossy {seed}")
    simulate(clean, size=_SIZE, seed=rng.randrange(999), faults=0, style="tcpdump", jobs=1)
    captures = sorted(clean.glob("*.pcap"))
    tunnels = clean / "tunnels.pcap"
    write_tunnels(tunnels, rng, links=3, tunnels=4, events=rng.choice([40, 120]))
    found = _split(_merged([*_sent(captures), *_sent([tunnels])]), rng)
    found = _with_idle_times(_damaged(_ports_used_again(found, rng), rng), rng)
    nano = seed % 2 == 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        writer = PcapWriter(out, link=LINK_RAW, nano=nano)
        for each in found:
            writer.packet(each.ts_ns, *each.packet())
    return [str(path) for path in sorted(clean.glob("*.keys"))]


# -- clean traffic ---------------------------------------------------------------------------


def _sent(paths: Iterable[Path]) -> list[_Sent]:
    """Read segments; times count from the first."""
    found = []
    for path in paths:
        for item in read(path):
            tcp_segment = segment(item) if isinstance(item, Packet) else None
            if isinstance(tcp_segment, Segment):
                found.append(_of(tcp_segment))
    first_ns = min(each.ts_ns for each in found)
    return [replace(each, ts_ns=each.ts_ns - first_ns) for each in found]


def _of(found: Segment) -> _Sent:
    return _Sent(
        found.packet.ts_ns,
        (found.src, found.src_port),
        (found.dst, found.dst_port),
        found.seq,
        found.ack,
        found.flags,
        found.payload,
    )


def _merged(found: Iterable[_Sent]) -> list[_Sent]:
    return sorted(found, key=lambda each: each.ts_ns)


def _split(found: Iterable[_Sent], rng: random.Random) -> list[_Sent]:
    """Cut some payloads into several segments, so that frames continue in the next packet."""
    share = rng.choice([0.1, 0.5, 0.9])
    made: list[_Sent] = []
    for each in found:
        size = len(each.payload)
        cuts = [0, size]
        if size > 1 and rng.random() < share:
            cuts = sorted({0, size, *(rng.randrange(1, size) for _ in range(rng.randint(1, 3)))})
        for number, (start, stop) in enumerate(pairwise(cuts)):
            last = stop == size
            flags = each.flags if last else each.flags & ~FIN
            flags = flags if start == 0 else flags & ~SYN
            seq = each.seq + start + (1 if start and each.flags & SYN else 0)
            part = each.payload[start:stop]
            made.append(
                replace(each, ts_ns=each.ts_ns + number, seq=seq, flags=flags, payload=part)
            )
        if not size:
            made.append(each)
    return made


def _ports_used_again(found: Sequence[_Sent], rng: random.Random) -> list[_Sent]:
    """Let clients use the port of an earlier connection again, which was never closed.

    Where the two overlap, packets of the earlier one come after the SYN of the next.
    """
    syns: dict[_End, list[_Sent]] = {}
    for each in found:
        if each.flags & (SYN | ACK) == SYN:
            syns.setdefault(each.dst, []).append(each)
    renamed: dict[_End, _End] = {}
    unclosed: set[_End] = set()
    for begun in syns.values():
        for old, new in pairwise(begun):
            if old.src not in renamed and rng.random() < 0.3:
                renamed[new.src] = old.src
                unclosed.add(old.src)
    made = []
    for each in found:
        src, dst = (renamed.get(end, end) for end in (each.src, each.dst))
        flags = each.flags
        if {each.src, each.dst} & unclosed:
            flags &= ~(FIN | RST)
        if flags == each.flags or each.payload:
            made.append(replace(each, src=src, dst=dst, flags=flags))
    return made


# -- damage ----------------------------------------------------------------------------------


def _damaged(found: Sequence[_Sent], rng: random.Random) -> list[_Sent]:
    """Lose, delay, repeat, cut, corrupt and reset."""
    lost, late, twice = (rng.choice([0, 0.01, 0.05, 0.15]) for _ in range(3))
    cut, corrupt = (rng.choice([0, 0.01, 0.04]) for _ in range(2))
    placed: list[tuple[float, _Sent]] = []
    for at, sent in enumerate(found):
        if rng.random() < lost:
            continue
        each = sent
        if each.payload and rng.random() < cut:
            each = replace(each, captured=rng.randrange(len(each.payload)))
        elif each.payload and rng.random() < corrupt:
            each = replace(each, payload=_corrupted(each.payload, rng))
        moved = at + (rng.choice([2, 5, 20, 80]) if rng.random() < late else 0)
        placed.append((moved, each))
        if rng.random() < twice:
            copy = each
            if each.payload and rng.random() < 0.3:
                copy = replace(each, payload=_corrupted(each.payload, rng))
            placed.append((moved + rng.choice([0.5, 3, 30, 150]), copy))
    for _ in range(rng.choice([0, 1, 4])):
        at = rng.randrange(len(found))
        reset = replace(found[at], payload=b"", captured=None, flags=RST | ACK)
        placed.append((at + 0.5, reset))
    return [each for _, each in sorted(placed, key=lambda entry: entry[0])]


def _corrupted(payload: bytes, rng: random.Random) -> bytes:
    changed = bytearray(payload)
    at = rng.choice([0, min(3, len(changed) - 1), rng.randrange(len(changed))])
    changed[at] = rng.choice([0, 0x7F, 0xFF, rng.randrange(256)])
    return bytes(changed)


def _with_idle_times(found: Sequence[_Sent], rng: random.Random) -> list[_Sent]:
    """Give each packet a time of its own, as it was captured; insert idle times."""
    now_ns = 1_767_225_600 * _SECOND
    idle = {rng.randrange(len(found)): rng.choice([11, 61, 130]) for _ in range(rng.choice([0, 3]))}
    before_ns = found[0].ts_ns
    made = []
    for at, each in enumerate(found):
        now_ns += max(1, min(each.ts_ns - before_ns, 5 * _SECOND)) + idle.get(at, 0) * _SECOND
        before_ns = max(before_ns, each.ts_ns)
        made.append(replace(each, ts_ns=now_ns))
    return made
