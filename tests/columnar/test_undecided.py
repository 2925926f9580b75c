"""Connections whose protocol is not known for a while: what happens meanwhile waits with them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.capture.frames_made import talk
from tests.columnar.differential import _Talk, differences
from tests.columnar.steps import check_steps
from tests.lake.lakes import columnar_rows, reference_rows, unlike

from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tcp import headers as make
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.columnar.pipeline.state import PipelineState
from wirelake.columnar.read.reader import ReadOptions, read_batches

pytestmark = pytest.mark.slow

CALL = bytes.fromhex(
    "1e00000108170000052806616464170000063c08746573741100000811223344"
    "556677881500000402610502150000040262050400000000"
)
"""An ESNP call."""
QUIET, BUSY = 77, 78
SECOND = 1_000_000_000


@pytest.fixture
def recorded(tmp_path: Path) -> list[str]:
    """Two files that do not say what is spoken: a connection asks something and signs on in the
    first, and says nothing more until the end of the second; in between another one talks."""
    recorder = Recorder(tmp_path, source="edge")
    for number in (QUIET, BUSY):
        recorder.open(number, ("10.0.0.1", number), ("10.0.0.2", 5_000), None, number)
    recorder.record(QUIET, "c2s", CALL, SECOND)
    for at in range(100):
        recorder.record(BUSY, "c2s", CALL, SECOND + 1 + at)
    recorder.fact("sign_on", 2 * SECOND, QUIET, client="ann")
    recorder.rotate()
    for at in range(100):
        recorder.record(BUSY, "c2s", CALL, 3 * SECOND + at)
    recorder.record(QUIET, "c2s", CALL, 4 * SECOND)
    recorder.close(QUIET, 5 * SECOND, "eof")
    recorder.stop()
    return sorted(str(path) for path in tmp_path.glob("*.pcapng"))


@pytest.mark.parametrize("window_bytes", [1, 500, 1 << 20])
def test_a_fact_waits_for_the_protocol(recorded: list[str], window_bytes: int) -> None:
    options = ReadOptions(table="connections", window_bytes=window_bytes)
    rows = [row for batch in read_batches(recorded, options) for row in batch.to_pylist()]
    found = {row["connection"]: (row["protocol"], row["client"]) for row in rows}
    assert found == {QUIET: ("esnp", "ann"), BUSY: ("esnp", None)}


def test_waiting_continues_after_a_restore(recorded: list[str]) -> None:
    def waiting(pipeline: CapturePipeline) -> list[Any]:
        windows = [dict(window) for window in pipeline.windows(last=False)]
        return [QUIET in window["waiting"] for window in windows]

    tables = ("messages", "connections", "facts")
    first = CapturePipeline(recorded[:1], tables=tables, window_bytes=500)
    assert waiting(first)[-1]
    state = PipelineState.from_bytes(first.save().to_bytes())
    second = CapturePipeline(recorded[1:], tables=tables, window_bytes=500, state=[state])
    found = waiting(second)
    assert found[0]
    assert not found[-1]


# -- both directions -------------------------------------------------------------------------


def segment(each: _Talk, way: int, payload: bytes, flags: int = make.ACK) -> bytes:
    ends = (each.client, each.server) if way == 0 else (each.server, each.client)
    (src, src_port), (dst, dst_port) = ends
    found = make.tcp(src_port, dst_port, seq=each.seq[way], flags=flags, payload=payload)
    each.seq[way] += len(payload)
    return make.ip(src, dst, found)


def written(folder: Path, files: list[list[bytes]]) -> list[str]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.pcap" for number in range(len(files))]
    for number, packets in enumerate(files):
        with paths[number].open("wb") as out:
            writer = PcapWriter(out, link=f.LINK_RAW)
            for at, packet in enumerate(packets):
                writer.packet((1 + number) * SECOND + at * 1_000, packet)
    return [str(path) for path in paths]


@pytest.mark.parametrize("flags", [make.ACK, make.FIN | make.ACK])
def test_events_of_one_direction_wait_for_the_other(tmp_path: Path, flags: int) -> None:
    """The first to speak tells what is spoken, also when it takes longer than the answer does."""
    each = _Talk(1, 5_000)
    first = [segment(each, 0, CALL[:3]), segment(each, 1, CALL, flags)]
    files = written(tmp_path, [first, [segment(each, 0, CALL[3:])]])
    assert differences(files) == []
    found = CapturePipeline(files, tables=("messages",)).batches()
    rows = [row for _, batch in found for row in batch.to_pylist()]  # type: ignore[union-attr]
    assert sorted((row["direction"], row["protocol"]) for row in rows) == [
        ("c2s", "esnp"),
        ("s2c", "esnp"),
    ]
    check_steps([(files[:1], 2), (files[1:], 1)])


_LOSSY = {
    "the first bytes are late": [(0, CALL), (1, CALL), "late", (0, CALL)],
    "the first bytes are lost": [(0, CALL), (1, CALL), "lost", (0, CALL), (0, CALL), (0, CALL)],
    "those of the other end are lost": [(0, CALL[:9]), (1, CALL), "lost", (1, CALL), (0, CALL[9:])],
    "the rest waits": [
        (0, CALL[:5]),
        (1, b"\0\0\0\4abcd" * 9),
        (0, CALL[5:9]),
        "lost",
        (0, CALL[9:]),
    ],
    "nothing is said for long": [(0, bytes(50)), (1, bytes(9)), (0, bytes(50)), "lost", (0, CALL)],
    "nothing is said at first": [(0, bytes(4)), (1, CALL), (0, bytes(4) + CALL[:9]), (0, CALL[9:])],
    "a copy differs": [(0, CALL[:3]), (0, CALL[3:9]), (0, CALL[9:12]), "copy", (0, CALL[12:])],
}
"""What two ends say on a port that nobody knows, and what happens to the packet before or after."""


def lossy(what: str) -> list[bytes]:
    each = _Talk(1, 5_000)
    packets = [segment(each, 0, b"", make.SYN), segment(each, 1, b"", make.SYN | make.ACK)]
    each.seq = [number + 1 for number in each.seq]
    late: list[bytes] = []
    for step in _LOSSY[what]:
        if isinstance(step, tuple):
            packets.append(segment(each, *step))
        elif step == "late":
            late.append(packets.pop(2))
        elif step == "lost":
            packets.pop(2 if "first" in what else -1)
        else:  # of the last packet, which came before the one before it
            each.seq[0] -= 3
            packets[3:] = [packets[4], packets[3], segment(each, 0, b"...")]
    return packets + late


@pytest.mark.parametrize("what", _LOSSY)
def test_the_choice_does_not_depend_on_the_cut(tmp_path: Path, what: str) -> None:
    packets = lossy(what)
    [whole] = written(tmp_path / "whole", [packets])
    files = written(tmp_path / "files", [[each] for each in packets])
    wanted = reference_rows([Path(whole)], [])
    assert unlike(columnar_rows([Path(whole)], []), wanted) == []
    assert unlike(columnar_rows([Path(whole)], [], 1), wanted) == []
    if what == "a copy differs":
        [conflict] = [row for row in wanted["faults"] if "conflict" in row]
        assert "'protocol': 'esnp'" in conflict
    check_steps([([file], 1 + at % 3) for at, file in enumerate(files)])


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (3, 4, 5))]
)
def test_talks_in_small_pieces(tmp_path: Path, seed: int) -> None:
    """Any protocol or none, on ports that nobody knows, ended at any time, in several files."""
    rng = random.Random(seed)
    left = []
    for number in range(25):
        said = list(talk(rng.choice(["comet", "esnp", "tny", "magline"]), 1))
        if rng.random() < 0.3:
            said.insert(0, (rng.choice(["c2s", "s2c"]), rng.randbytes(rng.randrange(1, 40))))
        left.append((_Talk(number, 5_000), said))
    packets: list[bytes] = []
    while left:
        each, said = rng.choice(left)
        way, data = said.pop(0) if said else (rng.choice(["c2s", "s2c"]), b"")
        size = rng.choice([2, 30, 9_999])
        flags = make.ACK | rng.choice([0, 0, 0, make.FIN, make.RST] if not said else [0])
        packets.append(segment(each, int(way == "s2c"), data[:size], flags))
        if data[size:]:
            said.insert(0, (way, data[size:]))
        elif not said:
            left.remove((each, said))
    cuts = sorted(rng.sample(range(1, len(packets)), 3))
    parts = [packets[a:b] for a, b in zip([0, *cuts], [*cuts, len(packets)], strict=True)]
    files = written(tmp_path, parts)
    assert differences(files) == []
    steps = [([file], 1 + at % 3) for at, file in enumerate(files)]
    check_steps(steps, window_bytes=rng.choice([1, 300, 1 << 20]))
