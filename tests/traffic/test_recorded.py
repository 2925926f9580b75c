"""Captures in the style of the recorder are what the recorder writes, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wirelake.capture.record.recorder import Recorder
from wirelake.traffic.clock import EPOCH_NS
from wirelake.traffic.packets.hosts import SERVER, address_text
from wirelake.traffic.packets.instances import cast
from wirelake.traffic.packets.packet_template import Cast
from wirelake.traffic.packets.recorded import RecordedStyle, server_port
from wirelake.traffic.packets.writer import Edits, press
from wirelake.traffic.scenes.template import SCENARIOS, make

SERVER_TEXT = ".".join(map(str, SERVER))


def _cast(scenario: str) -> Cast:
    plate = RecordedStyle().plate(make(scenario, "recorded"))
    return cast(
        plate,
        np.empty((1, len(plate.row)), np.uint8),
        np.array([77], np.uint64),
        np.random.default_rng(1),
        begin_ns=EPOCH_NS,
        resolution_ns=1,
        numbered=True,
    )


def _record(recorder: Recorder, made: Cast, rotate_at: int | None) -> None:
    """Tells a recorder what the tap saw."""
    plate, mould = made.plate, made.plate.mould
    for n, happening in enumerate(mould.happenings):
        items = [k for k, item in enumerate(plate.items) if item.happening == n]
        at = int(made.times[0, items[0]])
        if rotate_at == n:
            recorder.rotate()
        place = -1 if happening.line is None else mould.places[happening.line.number]
        number = int(made.connections[0, place])
        item = plate.items[items[0]]
        match happening.kind:
            case "open":
                client = address_text(made.hosts[0, place]).tobytes().decode()
                protocol = mould.connections[place].protocol
                server = (SERVER_TEXT, server_port(protocol))
                recorder.open(number, (client, int(made.ports[0, place])), server, protocol, at)
            case "data":
                column = int(plate.starts[items[0]]) + item.payload_at
                size = item.payload[1] - item.payload[0]
                frames = made.rows[0, column : column + size].tobytes()
                recorder.record(number, "s2c" if item.direction else "c2s", frames, at)
            case "close":
                recorder.close(number, at, happening.reason)
            case "fact":
                recorder.fact("publish", at, **_published(made, items[0], happening.facts))
            case "keys":
                start = int(plate.starts[items[0]])
                block = made.rows[0, start : start + len(item.data)].tobytes()
                line = block[block.index(b"{") : block.index(b"}") + 1].decode()
                recorder.secrets(line, number)


def _published(made: Cast, n: int, facts: dict[str, Any]) -> dict[str, Any]:
    """What a publication says in the cast."""
    start = int(made.plate.starts[n])
    template = made.plate.items[n].data
    found = {name: value for name, value in facts.items() if name != "kind"}
    for name in ("id", "client"):
        at = start + template.index(facts[name].encode())
        found[name] = made.rows[0, at : at + len(facts[name])].tobytes().decode()
    return found


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_recorder_writes_the_same(tmp_path: Path, scenario: str, rotated: bool) -> None:
    made = _cast(scenario)
    happenings = made.plate.mould.happenings
    middle = next(
        n for n, each in enumerate(happenings) if n > len(happenings) // 2 and each.kind == "data"
    )
    recorder = Recorder(tmp_path / "wanted", source="edge-a", keys=True, rotate_s=1e6)
    _record(recorder, made, middle if rotated else None)
    recorder.stop()
    (tmp_path / "found").mkdir()
    cuts = [middle] if rotated else []
    _press_at(made, tmp_path / "found", cuts)
    wanted = sorted((tmp_path / "wanted").iterdir())
    found = sorted((tmp_path / "found").iterdir())
    assert [path.name for path in wanted] == [path.name for path in found]
    for one, two in zip(wanted, found, strict=True):
        assert one.read_bytes() == two.read_bytes()


def _press_at(made: Cast, folder: Path, cuts: list[int]) -> None:
    """Writes files that begin with certain happenings."""
    plate = made.plate
    firsts = [
        next(n for n, item in enumerate(plate.items) if item.happening == cut) for cut in cuts
    ]
    buffer = made.rows.reshape(-1)
    press(
        *(RecordedStyle(), buffer, [made], folder, "edge-a", range(len(cuts) + 1), Edits()),
        begins=firsts,
    )


def test_long_frames_continue_in_marked_packets() -> None:
    mould = make("service", "recorded")
    connection = mould.connections[0]
    n, happening = next((n, each) for n, each in enumerate(mould.happenings) if each.kind == "data")
    stream = connection.streams[happening.direction]
    stream.data = stream.data + bytes(200_000)
    happening.stop = happening.start + 200_000
    plate = RecordedStyle().plate(mould)
    parts = [item for item in plate.items if item.happening == n]
    marks = [item.data[-17] for item in parts]
    assert marks == [2, 3, 3, 1]
    assert sum(item.payload[1] - item.payload[0] for item in parts) == 200_000
