"""Live inputs give the rows of the finished file, whatever arrives when."""

from __future__ import annotations

import gzip
import random
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from tests.capture.small_captures import small_pcap
from tests.columnar import made_captures
from tests.columnar.arriving import Pieces, bag, cut, live_rows

from wirelake.capture.format.constants import Limits
from wirelake.capture.live import feed
from wirelake.capture.live.inputs import open_input
from wirelake.columnar.read.parallel import read_live
from wirelake.columnar.read.reader import TABLES, ReadOptions, read_batches
from wirelake.columnar.scan.live import LiveInputs
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window ends as soon as the next piece must be waited for."""
    monkeypatch.setattr(feed, "GATHER_S", 0.0)
    monkeypatch.setattr(feed, "_PAUSE_S", 0.0)


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of all protocols, with faults."""
    folder = tmp_path_factory.mktemp("traffic")
    simulate(folder, size=300_000, seed=8, faults=0.005, jobs=1)
    return folder


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["edge-a-00000000.pcapng", "tap-a-00000000.pcap"])
def test_rows_are_those_of_the_finished_file(traffic: Path, name: str, table: str) -> None:
    path, options = traffic / name, ReadOptions(table=table)
    pieces = cut(path.read_bytes(), random.Random(table), 3_000)
    windows = live_rows(options, Pieces("-", pieces))
    assert bag(batch for window in windows for batch in window) == bag(
        read_batches([str(path)], options)
    )


@pytest.mark.parametrize("window_bytes", [300, 700, 3_300])
def test_a_key_may_come_in_a_later_window_than_the_name_it_is_for(
    traffic: Path, window_bytes: int
) -> None:
    """A recording has a client's key behind its sign-on; both need not arrive together."""
    path = str(traffic / "edge-a-00000000.pcapng")
    options = ReadOptions(columns=("offset", "name", "sealed"))
    small = replace(options, window_bytes=window_bytes)
    assert bag(read_batches([path], small)) == bag(read_batches([path], options))


def _captures() -> Iterator[bytes]:
    """Both byte orders and resolutions, sections, link types and damage, at random."""
    for seed in range(12):
        rng = random.Random(seed)
        made = made_captures.talks(rng, 12, 0.1)
        yield made_captures.pcap(rng, made)
        yield made_captures.pcapng(rng, made, 0.05)
        yield made_captures.chopped(rng, made_captures.pcapng(rng, made))


@pytest.mark.parametrize("table", ["messages", "packets", "faults", "coverage", "calls"])
def test_every_kind_of_capture(tmp_path: Path, table: str) -> None:
    options = ReadOptions(table=table, ports=made_captures.PORTS)
    for number, data in enumerate(_captures()):
        path = tmp_path / "made"
        path.write_bytes(data)
        windows = live_rows(options, Pieces("-", cut(data, random.Random(number), 400)))
        found = bag(batch for window in windows for batch in window)
        assert found == bag(read_batches([str(path)], options)), number


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_inputs(traffic: Path, pack: made_captures.Press) -> None:
    path = traffic / "tap-a-00000000.pcap"
    packed = pack(path.read_bytes())
    windows = live_rows(ReadOptions(), Pieces("-", cut(packed, random.Random(1), 3_000)))
    found = bag(batch for window in windows for batch in window)
    assert found == bag(read_batches([str(path)]))


@pytest.mark.parametrize("table", TABLES)
def test_several_inputs_at_once_are_one_capture(traffic: Path, table: str) -> None:
    """Two recordings by turns: what one says about its connections does not concern the other."""
    names = ("edge-a-00000000.pcapng", "edge-a-00000001.pcapng")
    options = ReadOptions(table=table)
    inputs = [
        Pieces(name, cut((traffic / name).read_bytes(), random.Random(name), 3_000))
        for name in names
    ]
    windows = live_rows(options, *inputs)
    after = read_batches([str(traffic / name) for name in names], options)
    assert bag(batch for window in windows for batch in window) == bag(after)


def test_inputs_are_taken_in_the_order_of_their_times(traffic: Path) -> None:
    """Files of one tap that are followed in any order: each is read up to its end in turn."""
    names = [str(traffic / f"tap-a-0000000{number}.pcap") for number in (1, 0)]
    inputs = LiveInputs([open_input(name, follow=True) for name in names])
    windows = read_live(inputs, ReadOptions(table="packets", columns=("file",)))
    files = []
    for window in windows:
        files += [name for batch in window for name in batch.column("file").to_pylist()]
        if len(set(files)) == 2:
            inputs.stop()
    assert files == sorted(files)


def test_a_message_comes_with_its_packet(traffic: Path) -> None:
    """The input goes on, and the rows of what came are there."""
    data = (traffic / "tap-a-00000000.pcap").read_bytes()
    inputs = LiveInputs([Pieces("-", [data], held=True)])
    windows = read_live(inputs, ReadOptions())
    first = list(next(windows))
    assert sum(map(len, first)) > 100
    inputs.stop()
    assert sum(len(batch) for window in windows for batch in window) < 100


def test_a_call_comes_with_its_answer_if_its_columns_are_final(traffic: Path) -> None:
    path = traffic / "tap-a-00000000.pcap"
    columns = ("connection", "target", "message_id", "outcome", "latency_ns", "request_ns")
    some, all_of_it = ReadOptions(table="calls", columns=columns), ReadOptions(table="calls")
    early, late = (
        live_rows(options, Pieces("-", cut(path.read_bytes(), random.Random(2), 2_000)))
        for options in (some, all_of_it)
    )
    after = bag(read_batches([str(path)], some))
    assert bag(batch for window in early for batch in window) == after

    def half(windows: list[list[object]]) -> int:
        part = windows[: len(windows) // 2]
        return sum(len(batch) for window in part for batch in window)  # type: ignore[arg-type]

    assert half(early) >= half(late)  # type: ignore[arg-type]
    # A filter that reads a column which may still change waits for it.
    filtered = ReadOptions(table="calls", columns=columns, filter="duplicates == 0")
    windows = live_rows(filtered, Pieces("-", cut(path.read_bytes(), random.Random(2), 2_000)))
    assert bag(batch for window in windows for batch in window) == bag(
        read_batches([str(path)], filtered)
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty: no capture was written to it"),
        (b"hello, world\n" * 99, "not a capture: neither pcap nor pcapng"),
        (small_pcap()[0][:-3], "ends in the middle of a packet: the rest of the capture is"),
        (small_pcap()[0][:20], "ends in the middle of a packet: the rest of the capture is"),
        (gzip.compress(small_pcap()[0])[:-9], "ends in the middle of a packet: the rest of"),
    ],
)
def test_problems_of_an_input(data: bytes, problem: str) -> None:
    inputs = LiveInputs([Pieces("-", [data] if data else [])])
    for window in read_live(inputs, ReadOptions()):
        list(window)
    assert inputs.problems["-"].startswith(problem)


def test_an_endless_input_that_is_no_capture_ends_at_once() -> None:
    def yes() -> Iterator[bytes]:
        while True:
            yield b"y\n" * 100

    inputs = LiveInputs([Pieces("-", yes())])
    for window in read_live(inputs, ReadOptions()):
        list(window)
    assert list(inputs.problems) == ["-"]


def test_a_stopped_input_has_no_fault_for_where_it_stopped() -> None:
    data = small_pcap()[0][:-3]
    inputs = LiveInputs([Pieces("-", [data], held=True)])
    windows = read_live(inputs, ReadOptions(table="faults"))
    inputs.stop()
    assert [list(window) for window in windows if list(window)] == []
    assert inputs.problems == {}


def test_a_thread_that_fails_while_the_reader_is_busy_is_not_the_end_of_its_input() -> None:
    def failing() -> Iterator[bytes]:
        yield small_pcap()[0]
        raise RuntimeError("defect")

    windows = LiveInputs([Pieces("failing", failing())]).windows(limits=Limits(), facts=True)
    next(windows)
    for thread in threading.enumerate():
        if thread.name == "scan failing":
            thread.join()
    with pytest.raises(RuntimeError, match="defect"):
        list(windows)


def test_memory_does_not_grow_with_what_has_arrived(traffic: Path) -> None:
    """The same packets again and again, with later times: what is held stays what it is."""
    data = (traffic / "tap-a-00000000.pcap").read_bytes()
    repeated = 30

    def pieces() -> Iterator[bytes]:
        yield data[:24]
        for number in range(repeated):
            yield _later(data, 3_600 * number)

    inputs = LiveInputs([Pieces("-", pieces())])
    sizes: list[int] = []
    tracemalloc.start()
    try:
        for window in read_live(inputs, ReadOptions()):
            for _ in window:
                pass
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # Single windows vary, because the next one is scanned meanwhile.
    third = repeated // 3
    assert min(sizes[-third:-1]) < max(sizes[third : 2 * third]) + len(data)


def _later(data: bytes, seconds: int) -> bytes:
    """The records of a pcap file, with later times."""
    found, at = bytearray(data[24:]), 0
    while at < len(found):
        time_s = int.from_bytes(found[at : at + 4], "little") + seconds
        found[at : at + 4] = time_s.to_bytes(4, "little")
        at += 16 + int.from_bytes(found[at + 8 : at + 12], "little")
    return bytes(found)
