"""The index: its parts leave nothing out, and each can be read by itself."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wirelake.capture.format.items import Packet
from wirelake.capture.format.reader import read
from wirelake.columnar.scan.scanner import END, Index, index
from wirelake.columnar.tcp.frontend import FrontEnd

from . import made_captures as made

_EXAMPLES = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_EXAMPLES
@given(
    st.integers(0, 1 << 40),
    st.sampled_from([made.pcap, made.pcapng]),
    st.sampled_from([1, 300, 5_000, 1 << 20]),
    st.booleans(),
    st.booleans(),
)
def test_parts_are_the_whole(
    tmp_path: Path, seed: int, make: made.Maker, part_bytes: int, damaged: bool, pressed: bool
) -> None:
    rng = random.Random(seed)
    data = make(rng, made.talks(rng, 5, 0.1))
    if damaged:
        data = made.chopped(rng, data)
    path = tmp_path / "capture"
    path.write_bytes(gzip.compress(data) if pressed else data)
    expected = list(read(path))
    found = index(path, part_bytes=part_bytes)
    times, faults = [], []
    for part in found.parts:
        windows = list(
            FrontEnd(path, ports=(), window_bytes=rng.choice([100, 9999]), part=part).windows()
        )
        here = [time for window in windows for time in window.ts_ns.tolist()]
        assert len(here) == part.packets
        assert (part.first_ns, part.last_ns) == ((min(here), max(here)) if here else (None, None))
        times += here
        faults += [fault for window in windows for _, fault in window.file_faults]
    assert times == [item.ts_ns for item in expected if isinstance(item, Packet)]
    assert found.packets == len(times)
    assert faults == [item for item in expected if type(item).__name__ == "FileFault"]
    stops = [part.stop for part in found.parts]
    assert [part.offset for part in found.parts[1:]] == stops[:-1]
    assert stops[-1] == END


def test_an_index_can_be_stored(tmp_path: Path) -> None:
    rng = random.Random(1)
    path = tmp_path / "capture"
    path.write_bytes(made.pcapng(rng, made.talks(rng, 5, 0.1)))
    found = index(path, part_bytes=1000)
    assert len(found.parts) > 2
    assert msgspec.json.decode(msgspec.json.encode(found), type=Index) == found


def test_a_part_is_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(b"")
    part = index(path).parts[0]
    with pytest.raises(ValueError, match="one file"):
        FrontEnd([path, path], ports=(), part=part)
