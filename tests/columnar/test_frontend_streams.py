"""Long streams: waiting, giving up, held bytes and carries, through windows of many sizes."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from wirelake.capture.format.constants import LINK_RAW
from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.tcp import headers as make
from wirelake.columnar.tcp.frontend import FrontEnd

from .reference_streams import FrontEndResult, by_front_end, by_reference

pytestmark = pytest.mark.slow

_CLIENT, _SERVER = (b"\x0a\x00\x00\x01", 50_000), (b"\x0b\x00\x00\x01", 7300)
_S = 1_000_000_000

Sent = tuple[int, int, bytes]
"""When, the place in the stream, the payload."""


def capture(path: Path, sent: list[Sent], cut: int = 1 << 16) -> Path:
    """One direction of one connection; packets are captured up to `cut` bytes."""
    stream = io.BytesIO()
    writer = PcapWriter(stream, link=LINK_RAW, nano=True)
    for ts_ns, at, payload in sent:
        tcp = make.tcp(_CLIENT[1], _SERVER[1], seq=4_294_967_000 + at, payload=payload)
        packet = make.ipv4(_CLIENT[0], _SERVER[0], tcp)
        writer.packet(ts_ns, packet[:cut], len(packet))
    path.write_bytes(stream.getvalue())
    return path


def segments(rng: random.Random, size: int, most: int, step_ns: int) -> list[Sent]:
    """A stream, cut into segments."""
    found: list[Sent] = []
    at = 0
    while at < size:
        payload = rng.randbytes(rng.randrange(1, most))
        found.append((_S + len(found) * step_ns, at, payload))
        at += len(payload)
    return found


def check(path: Path) -> FrontEndResult:
    expected = by_reference([path], {7300})
    for window_bytes in (999, 20_000, 300_000, 1 << 24):
        found = by_front_end(
            [path], {7300}, window_bytes=window_bytes, tail=lambda stream, size: size * stream // 3
        )
        assert found == expected
        found = by_front_end([path], {7300}, window_bytes=window_bytes, tail=_quarter)
        assert found == expected
    return expected


def _quarter(stream: int, size: int) -> int:
    return size // 4 + stream


def test_a_stream_in_order(tmp_path: Path) -> None:
    sent = segments(random.Random(1), 600_000, 1_400, 1_000)
    result = check(capture(tmp_path / "c", sent))
    assert result.streams[0].counters[1] == sum(len(payload) for _, _, payload in sent)


@pytest.mark.parametrize(("lost", "size"), [(0.002, 900_000), (0.1, 200_000)])
def test_lost_segments_are_gaps_when_too_much_waits(tmp_path: Path, lost: float, size: int) -> None:
    rng = random.Random(2)
    sent = [each for each in segments(rng, size, 1_400, 1_000) if rng.random() > lost]
    assert check(capture(tmp_path / "c", sent)).streams[0].gaps


def test_lost_segments_are_gaps_when_they_are_waited_for_too_long(tmp_path: Path) -> None:
    rng = random.Random(3)
    sent = [each for each in segments(rng, 100_000, 1_400, _S) if rng.random() > 0.02]
    assert len(check(capture(tmp_path / "c", sent)).streams[0].gaps) > 1


def test_late_copies(tmp_path: Path) -> None:
    """Copies of recent and of long gone segments, some of them changed."""
    rng = random.Random(4)
    first = segments(rng, 500_000, 1_400, 1_000)
    sent = []
    for number, each in enumerate(first):
        sent.append(each)
        if rng.random() < 0.03:
            _, at, payload = first[max(0, number - rng.choice([0, 1, 5, 40, 90, 300]))]
            changed = rng.random() < 0.3
            sent.append((each[0], at, payload[::-1] if changed else payload))
    result = check(capture(tmp_path / "c", sent))
    assert len(result.streams[0].conflicts) > 3


def test_reordered_segments(tmp_path: Path) -> None:
    rng = random.Random(5)
    sent = segments(rng, 400_000, 1_400, 1_000)
    for _ in range(20):
        at = rng.randrange(len(sent) - 10)
        some = sent[at : at + 10]
        rng.shuffle(some)
        sent[at : at + 10] = some
    result = check(capture(tmp_path / "c", sent))
    assert not result.streams[0].gaps
    assert result.streams[0].counters[2] == 0


def test_packets_that_were_not_captured_whole(tmp_path: Path) -> None:
    sent = segments(random.Random(6), 100_000, 300, 1_000)
    assert check(capture(tmp_path / "c", sent, cut=200)).streams[0].gaps


def test_what_waits_is_known(tmp_path: Path) -> None:
    sent = segments(random.Random(7), 20_000, 300, 1_000)
    lost = capture(tmp_path / "c", sent[:20] + sent[21:])
    front = FrontEnd(lost, ports={7300}, window_bytes=2_000)
    seen = []
    for window in front.windows():
        seen.append(front.waiting())
        assert set(seen[-1]) <= set(window.stream.tolist()) | {0}
    assert seen[0] == {}
    assert {0: sent[21][0]} in seen
    assert seen[-1] == {}
