"""Headers: the kernel agrees with `capture.links` on packets right, wrong and random."""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.capture.tcp_made import link_layer

from wirelake.capture.format.writer import PcapngWriter
from wirelake.capture.tcp import headers as make

from .reference_streams import by_front_end, by_reference

_LINKS = [0, 1, 12, 14, 101, 108, 113, 228, 229, 276, 147]
_WRITTEN = [0, 1, 12, 14, 101, 108, 113, 228, 229, 276]
_EXAMPLES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_Shown = tuple[int, bytes, int | None]
"""A link type, a packet, and its length on the wire."""


def check(folder: Path, packets: list[_Shown]) -> Counter[str]:
    """Both say the same of each packet; gives how often each note was given."""
    stream = io.BytesIO()
    writer = PcapngWriter(stream)
    for link in _LINKS:
        writer.interface(link)
    for link, data, original in packets:
        writer.packet(1_000, data, original=original, interface=_LINKS.index(link))
    path = folder / "packets.pcapng"
    path.write_bytes(stream.getvalue())
    expected = by_reference([path], {7300}).packets
    assert by_front_end([path], {7300}, window_bytes=1 << 20).packets == expected
    return Counter(row[-1] if len(row) == 8 else "segment" for row in expected)


def good(rng: random.Random) -> tuple[int, bytes]:
    """A packet with TCP in it."""
    link = rng.choice(_WRITTEN)
    tcp = make.tcp(
        rng.randrange(1 << 16),
        rng.randrange(1 << 16),
        seq=rng.randrange(1 << 32),
        ack=rng.randrange(1 << 32),
        flags=rng.randrange(256),
        payload=rng.randbytes(rng.randrange(30)),
        options=bytes(4 * rng.randrange(11)),
    )
    if link == 229 or (link != 228 and rng.random() < 0.5):
        bodies = [
            (0, b"\0" + bytes(6)),
            (60, b"\1" + bytes(14)),
            (51, b"\4" + bytes(22)),
            (43, b"\0" + bytes(6)),
            (135, b"\0" + bytes(6)),
            (44, b"\0" + bytes(6)),
        ]
        extensions = rng.sample(bodies, rng.choice([0, 0, 1, 2]))
        packet = make.ipv6(rng.randbytes(16), rng.randbytes(16), tcp, extensions=extensions)
    else:
        packet = make.ipv4(
            rng.randbytes(4),
            rng.randbytes(4),
            tcp,
            options=bytes(4 * rng.choice([0, 0, 1, 10])),
            fragment=rng.choice([0x4000, 0x4000, 0, 0x2000, 5]),
            protocol=rng.choice([6, 6, 6, 17]),
            total=rng.choice([None, None, None, 0]),
        )
    if link == 1:
        return link, make.ethernet(packet, vlans=[1] * rng.randrange(4), padded=rng.random() < 0.5)
    return link, link_layer(link, packet)


def test_right_packets(tmp_path: Path) -> None:
    rng = random.Random(1)
    notes = check(tmp_path, [(*good(rng), None) for _ in range(2_000)])
    assert notes["segment"] > 500
    assert notes["fragment"] > 100
    assert notes["not_tcp"] > 50


def test_wrong_packets(tmp_path: Path) -> None:
    """Packets with a few bytes changed, cut, or claimed to be of another length or link."""
    rng = random.Random(2)
    packets: list[_Shown] = []
    for _ in range(6_000):
        link, data = good(rng)
        changed = bytearray(data)
        for _ in range(rng.randrange(3)):
            changed[rng.randrange(min(len(changed), 80))] = rng.choice([0, 255, rng.randrange(256)])
        cut = bytes(changed[: rng.choice([len(changed), rng.randrange(len(changed))])])
        original = rng.choice([None, len(data), len(cut) + 3, 0])
        packets.append((rng.choice([link, link, link, rng.choice(_LINKS)]), cut, original))
    notes = check(tmp_path, packets)
    for note in ("not_ip", "not_tcp", "fragment", "short", "bad_header", "unknown_link", "segment"):
        assert notes[note] > 50, note


@_EXAMPLES
@given(st.lists(st.tuples(st.sampled_from(_LINKS), st.binary(max_size=90), st.none()), max_size=20))
def test_random_packets(tmp_path: Path, packets: list[_Shown]) -> None:
    check(tmp_path, packets)
