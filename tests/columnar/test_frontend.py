"""The front end tells what the reference tells, whatever the capture and the size of windows."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wirelake.capture.format.constants import Limits
from wirelake.columnar.tcp.frontend import FrontEnd

from . import made_captures as made
from .reference_streams import FrontEndResult, Tail, by_front_end, by_reference

pytestmark = pytest.mark.slow

_WINDOWS = [1, 100, 700, 5_000, 1 << 20]
_EXAMPLES = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_SEEDS = st.integers(0, 1 << 40)
_TROUBLE = st.sampled_from([0.0, 0.1, 0.5])


def check(
    paths: Sequence[Path],
    rng: random.Random,
    *,
    windows: Sequence[int] = _WINDOWS,
    connections: int = 1 << 18,
    limits: Limits | None = None,
) -> FrontEndResult:
    """Both tell the same, with small and large windows, whatever is kept from one to the next."""
    bounds = limits or Limits()
    expected = by_reference(paths, made.PORTS, connections=connections, limits=bounds)
    for window_bytes in rng.sample(windows, min(2, len(windows))):
        found = by_front_end(
            paths,
            made.PORTS,
            window_bytes=window_bytes,
            tail=tails(rng.randrange(1 << 30)),
            connections=connections,
            limits=bounds,
        )
        assert found.packets == expected.packets
        assert found.others == expected.others
        assert found.streams == expected.streams
    return expected


def tails(seed: int) -> Tail:
    """How much is kept of a run: nothing, one byte, half of it, all of it."""

    def tail(stream: int, size: int) -> int:
        return random.Random(seed ^ stream ^ size).choice([0, 1, size // 2, size])

    return tail


def written(folder: Path, data: bytes, name: str = "capture") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@_EXAMPLES
@given(_SEEDS, _TROUBLE)
def test_pcap(tmp_path: Path, seed: int, trouble: float) -> None:
    rng = random.Random(seed)
    check([written(tmp_path, made.pcap(rng, made.talks(rng, 12, trouble)))], rng)


@_EXAMPLES
@given(_SEEDS, _TROUBLE, st.booleans())
def test_pcapng(tmp_path: Path, seed: int, trouble: float, recorded: bool) -> None:
    rng = random.Random(seed)
    packets = made.talks(rng, 12, trouble, recorded=recorded)
    check([written(tmp_path, made.pcapng(rng, packets))], rng)


@_EXAMPLES
@given(_SEEDS, st.sampled_from([made.pcap, made.pcapng]), st.booleans())
def test_damaged_files(tmp_path: Path, seed: int, make: made.Maker, small: bool) -> None:
    rng = random.Random(seed)
    data = made.chopped(rng, make(rng, made.talks(rng, 8, 0.1)))
    limits = Limits(block_bytes=1024) if small else Limits()
    check([written(tmp_path, data)], rng, limits=limits)


@_EXAMPLES
@given(st.binary(max_size=200), st.sampled_from([b"", b"\xd4\xc3\xb2\xa1", b"\x0a\x0d\x0d\x0a"]))
def test_garbage(tmp_path: Path, data: bytes, head: bytes) -> None:
    check([written(tmp_path, head + data)], random.Random(1))


@_EXAMPLES
@given(_SEEDS, st.sampled_from([gzip.compress, zstandard.compress]), st.booleans())
def test_compressed_files(tmp_path: Path, seed: int, compress: made.Press, damaged: bool) -> None:
    rng = random.Random(seed)
    data = made.pcapng(rng, made.talks(rng, 8, 0.1), damage=0.02)
    pressed = compress(data)
    if damaged:
        pressed = pressed[: rng.randrange(len(pressed))]
    limits = Limits(chunk_bytes=rng.choice([7, 300, 1 << 18]))
    check([written(tmp_path, pressed)], rng, limits=limits)


def test_a_decompression_bomb_ends_its_file(tmp_path: Path) -> None:
    rng = random.Random(4)
    data = made.pcap(rng, made.talks(rng, 3, 0.0)) + bytes(100_000)
    limits = Limits(bomb_free_bytes=50_000, bomb_ratio=1)
    result = check([written(tmp_path, gzip.compress(data))], rng, limits=limits)
    assert [item.code for _, item in result.others] == ["bomb"]


@_EXAMPLES
@given(_SEEDS, st.integers(1, 4))
def test_connections_go_on_from_file_to_file(tmp_path: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    packets = made.talks(rng, 12, 0.2)
    cuts = sorted(rng.randrange(len(packets) + 1) for _ in range(count - 1))
    paths = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(packets)], strict=True)):
        make = rng.choice([made.pcap, made.pcapng])
        paths.append(written(tmp_path, make(rng, packets[start:stop]), f"{number}.pcap"))
    check(paths, rng)


@_EXAMPLES
@given(_SEEDS, st.integers(1, 4))
def test_the_longest_idle_is_evicted(tmp_path: Path, seed: int, connections: int) -> None:
    rng = random.Random(seed)
    data = made.pcap(rng, made.talks(rng, 12, 0.2))
    check([written(tmp_path, data)], rng, connections=connections)


@_EXAMPLES
@given(_SEEDS, st.integers(2, 4), st.sampled_from([3, 1 << 18]), st.booleans())
def test_shares_divide_everything(
    tmp_path: Path, seed: int, shares: int, connections: int, recorded: bool
) -> None:
    rng = random.Random(seed)
    packets = made.talks(rng, 12, 0.2, recorded=recorded)
    path = written(tmp_path, made.pcapng(rng, packets, damage=0.01))
    expected = by_reference([path], made.PORTS, connections=connections)
    every = [
        by_front_end(
            [path],
            made.PORTS,
            window_bytes=rng.choice(_WINDOWS),
            share=share,
            shares=shares,
            connections=connections,
        )
        for share in range(shares)
    ]
    assert sorted(chain.from_iterable(result.packets for result in every)) == sorted(
        expected.packets
    )
    result = sorted(repr(stream) for each in every for stream in each.streams)
    assert result == sorted(repr(stream) for stream in expected.streams)
    kinds = [type(item).__name__ for _, item in expected.others]
    for share, each in enumerate(every):
        here = [type(item).__name__ for _, item in each.others]
        assert here == [kind for kind in kinds if share == 0 or kind == "Secrets"]


def test_a_stream_that_is_dropped_is_counted_as_ignored(tmp_path: Path) -> None:
    rng = random.Random(11)
    path = written(tmp_path, made.pcap(rng, made.talks(rng, 30, 0.1)))
    expected = by_reference([path], made.PORTS)
    front = FrontEnd(path, ports=made.PORTS, window_bytes=500)
    delivered: dict[int, int] = {}
    counted = []
    for window in front.windows():
        sizes = window.run_stop - window.run_start
        for stream, size in zip(window.run_stream.tolist(), sizes.tolist(), strict=True):
            assert stream not in delivered, "nothing comes of a stream that was dropped"
            delivered[stream] = size
        front.drop(window.run_stream)
        for stream in window.retired.tolist():
            seen = delivered.pop(stream, 0)
            ignored = int(front.streams.ignored[stream]) + seen
            counted.append((int(front.streams.new[stream]), int(front.streams.gap[stream])))
            assert ignored == front.streams.new[stream]
    assert sorted(counted) == sorted(
        (result.counters[1], result.counters[3]) for result in expected.streams
    )


def test_slots_are_used_again(tmp_path: Path) -> None:
    """Memory is bounded by what is open at a time, not by what there ever was."""
    rng = random.Random(5)
    packets = [
        (when * 70_000_000_000 + step, *packet)
        for when in range(1500)
        for step, packet in enumerate(made.short_talk(rng, when))
    ]
    path = written(tmp_path, made.pcap(rng, packets))
    front = FrontEnd(path, ports=made.PORTS, window_bytes=4096)
    retired = sum(len(window.retired) for window in front.windows())
    assert retired == 3000
    assert len(front.streams) == 2048


@pytest.mark.parametrize("arguments", [{"share": 2, "shares": 2}, {"window_bytes": 0}])
def test_wrong_arguments_are_refused(tmp_path: Path, arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        FrontEnd(tmp_path / "none", ports=made.PORTS, **arguments)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        list(FrontEnd(tmp_path / "none", ports=made.PORTS).windows())


def test_arrays_are_what_kernels_want(tmp_path: Path) -> None:
    rng = random.Random(2)
    path = written(tmp_path, made.pcap(rng, made.talks(rng, 5, 0.0)))
    for window in FrontEnd(path, ports=made.PORTS).windows():
        assert not window.data.flags.writeable
        for name in ("run_start", "run_stop", "run_offset", "piece_start", "piece_ts", "ts_ns"):
            array = getattr(window, name)
            assert array.dtype == np.int64
            assert array.flags.c_contiguous
