"""`wirelake read` believes a recording, unless its user knows better."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.capture.frames_made import frames, talk

from wirelake.capture.record.recorder import Recorder

from .conftest import Run

ODD_PORT, COMETS_PORT = 4_444, 9_620


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Two connections that speak tny; the first thing that comes looks like esnp."""
    recorder = Recorder(tmp_path, source="edge")
    for number, port in enumerate((ODD_PORT, COMETS_PORT), 1):
        recorder.open(number, ("10.0.0.9", 50_000 + number), ("10.0.0.1", port), "tny", number)
        recorder.record(number, "c2s", frames("esnp", "c2s")[0], 10 + number)
        for at, (way, frame) in enumerate(talk("tny")):
            recorder.record(number, way, frame, 20 + at)
        recorder.close(number, 100 + number, "eof")
    path = recorder.stop()
    assert path is not None
    return str(path)


def protocols_of(run: Run, *args: str) -> dict[int, set[str | None]]:
    """What the messages of each connection are, and its bytes that are none."""
    found: dict[int, set[str | None]] = {}
    for line in run("read", *args, "--json").lines:
        row = json.loads(line)
        found.setdefault(int(row["connection"]), set()).add(row["protocol"])
    return found


@pytest.mark.parametrize("table", ["messages", "coverage", "connections", "faults"])
def test_the_protocol_in_a_recording_is_used(run: Run, recording: str, table: str) -> None:
    assert protocols_of(run, recording, "--table", table) == {1: {"tny"}, 2: {"tny"}}


def test_its_reader_knows_better(run: Run, recording: str) -> None:
    coverage = (recording, "--table", "coverage")
    assert protocols_of(run, *coverage, "--port", f"{ODD_PORT}=esnp") == {1: {"esnp"}, 2: {"tny"}}
    assert protocols_of(run, *coverage, "--port", f"{COMETS_PORT}=esnp") == {
        1: {"tny"},
        2: {"esnp"},
    }
    assert protocols_of(run, *coverage, "--as", "relay") == {1: {"relay"}, 2: {"relay"}}
