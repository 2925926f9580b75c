"""Connections: many at a time, so that the table of them grows, fills, collides and forgets."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from wirelake.capture.format.constants import LINK_RAW
from wirelake.capture.format.writer import PcapngWriter
from wirelake.capture.tcp import headers as make

from .reference_streams import by_front_end, by_reference

pytestmark = pytest.mark.slow

_FLAGS = [
    make.SYN,
    make.SYN | make.ACK,
    make.ACK,
    make.ACK,
    make.ACK,
    make.FIN | make.ACK,
    make.RST,
]


def crowd(rng: random.Random, count: int, pairs: int) -> bytes:
    """Packets between random endpoints, some of them recorded."""
    stream = io.BytesIO()
    writer = PcapngWriter(stream)
    writer.interface(LINK_RAW)
    now = 1_000_000_000
    for _ in range(count):
        now += rng.choice([1_000, 50_000_000])
        pair = int(pairs * rng.random() ** 2)
        version = 4 if pair % 3 else 16
        ends = [
            (bytes(version - 2) + pair.to_bytes(2, "big"), 1024 + pair),
            (b"\x0b" * version, 7300 + pair % 3),
        ]
        rng.shuffle(ends)
        (src, src_port), (dst, dst_port) = ends
        tcp = make.tcp(
            src_port,
            dst_port,
            seq=rng.choice([1, 2]),
            ack=2,
            flags=rng.choice(_FLAGS),
            payload=b"x",
        )
        options = [] if pair % 5 else writer.marks(1 + pair, rng.choice(["c2s", "s2c"]))
        writer.packet(now, make.ip(src, dst, tcp), options=options)
    return stream.getvalue()


@pytest.mark.parametrize("connections", [700, 1 << 18])
def test_a_crowd(tmp_path: Path, connections: int) -> None:
    rng = random.Random(connections)
    path = tmp_path / "crowd"
    path.write_bytes(crowd(rng, 4_000, 1_500))
    expected = by_reference([path], {7300}, connections=connections)
    for window_bytes in (10_000, 1 << 24):
        found = by_front_end([path], {7300}, window_bytes=window_bytes, connections=connections)
        assert found.packets == expected.packets
        assert found.streams == expected.streams
