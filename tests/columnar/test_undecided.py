"""Connections whose protocol is not known for a while: what happens meanwhile waits with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wirehouse.capture.recorder import Recorder
from wirehouse.columnar.pipeline import CapturePipeline
from wirehouse.columnar.read import ReadOptions, read_batches
from wirehouse.columnar.state import PipelineState

CALL = bytes.fromhex(
    "1e00000108170000052806616464170000063c08746573741100000811223344"
    "556677881500000402610502150000040262050400000000"
)
"""An ESNP call."""
QUIET, BUSY = 77, 78
SECOND = 1_000_000_000


@pytest.fixture
def recorded(tmp_path: Path) -> list[str]:
    """Two files: a connection asks something and signs on in the first, and says nothing more until
    the end of the second; in between another one talks."""
    recorder = Recorder(tmp_path, source="edge")
    for number in (QUIET, BUSY):
        recorder.open(number, ("10.0.0.1", number), ("10.0.0.2", 5_000), "esnp", number)
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


def test_it_still_waits_when_somebody_goes_on_later(recorded: list[str]) -> None:
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
