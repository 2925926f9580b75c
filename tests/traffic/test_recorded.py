"""Captures in the style of the recorder are what the recorder writes, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wirelake.capture.record.recorder import Recorder
from wirelake.traffic.packets.instances import Instances, instantiate
from wirelake.traffic.packets.numbers import SERVER, address_text
from wirelake.traffic.packets.recorded import RecordedStyle
from wirelake.traffic.packets.writer import Edits, write_captures
from wirelake.traffic.scenes.provider import built_in, make, scenarios
from wirelake.traffic.scenes.scene import EPOCH_NS

SERVER_TEXT = ".".join(map(str, SERVER))


def _instance(scenario: str) -> Instances:
    packets = RecordedStyle().packets(make(scenario, "recorded"))
    return instantiate(
        packets,
        np.empty((1, len(packets.row)), np.uint8),
        np.array([77], np.uint64),
        np.random.default_rng(1),
        begin_ns=EPOCH_NS,
        resolution_ns=1,
        numbered=True,
    )


def _record(recorder: Recorder, made: Instances, rotate_at: int | None) -> None:
    """Tells a recorder what the tap saw."""
    packets, template = made.packets, made.packets.template
    for n, event in enumerate(template.events):
        items = [k for k, item in enumerate(packets.items) if item.event == n]
        at = int(made.times[0, items[0]])
        if rotate_at == n:
            recorder.rotate()
        place = -1 if event.connection is None else template.places[event.connection.number]
        number = int(made.connections[0, place])
        item = packets.items[items[0]]
        match event.kind:
            case "open":
                client = address_text(made.hosts[0, place]).tobytes().decode()
                protocol = template.connections[place].protocol
                server = (SERVER_TEXT, template.connections[place].scenes.server_port)
                recorder.open(number, (client, int(made.ports[0, place])), server, protocol, at)
            case "data":
                column = int(packets.starts[items[0]]) + item.payload_at
                size = item.payload[1] - item.payload[0]
                frames = made.rows[0, column : column + size].tobytes()
                recorder.record(number, "s2c" if item.direction else "c2s", frames, at)
            case "close":
                recorder.close(number, at, event.reason)
            case "fact":
                recorder.fact("publish", at, **_published(made, items[0], event.facts))
            case "keys":
                start = int(packets.starts[items[0]])
                block = made.rows[0, start : start + len(item.data)].tobytes()
                line = block[block.index(b"{") : block.index(b"}") + 1].decode()
                recorder.secrets(line, number)


def _published(made: Instances, n: int, facts: dict[str, Any]) -> dict[str, Any]:
    """What a publication says in the instance."""
    start = int(made.packets.starts[n])
    template = made.packets.items[n].data
    found = {name: value for name, value in facts.items() if name != "kind"}
    for name in ("id", "client"):
        at = start + template.index(facts[name].encode())
        found[name] = made.rows[0, at : at + len(facts[name])].tobytes().decode()
    return found


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("scenario", [*scenarios(built_in()), "link"])
def test_the_recorder_writes_the_same(tmp_path: Path, scenario: str, rotated: bool) -> None:
    made = _instance(scenario)
    events = made.packets.template.events
    middle = next(
        n for n, each in enumerate(events) if n > len(events) // 2 and each.kind == "data"
    )
    recorder = Recorder(tmp_path / "wanted", source="edge-a", keys=True, rotate_s=1e6)
    _record(recorder, made, middle if rotated else None)
    recorder.stop()
    (tmp_path / "found").mkdir()
    cuts = [middle] if rotated else []
    _write_at(made, tmp_path / "found", cuts)
    wanted = sorted((tmp_path / "wanted").iterdir())
    found = sorted((tmp_path / "found").iterdir())
    assert [path.name for path in wanted] == [path.name for path in found]
    for one, two in zip(wanted, found, strict=True):
        assert one.read_bytes() == two.read_bytes()


def _write_at(made: Instances, folder: Path, cuts: list[int]) -> None:
    """Writes files that begin with certain events."""
    packets = made.packets
    firsts = [next(n for n, item in enumerate(packets.items) if item.event == cut) for cut in cuts]
    buffer = made.rows.reshape(-1)
    write_captures(
        *(RecordedStyle(), buffer, [made], folder, "edge-a", range(len(cuts) + 1), Edits()),
        begins=firsts,
    )


def test_long_frames_continue_in_marked_packets() -> None:
    template = make("service", "recorded")
    connection = template.connections[0]
    n, event = next((n, each) for n, each in enumerate(template.events) if each.kind == "data")
    stream = connection.streams[event.direction]
    stream.data = stream.data + bytes(200_000)
    event.stop = event.start + 200_000
    packets = RecordedStyle().packets(template)
    parts = [item for item in packets.items if item.event == n]
    marks = [item.data[-17] for item in parts]
    assert marks == [2, 3, 3, 1]
    assert sum(item.payload[1] - item.payload[0] for item in parts) == 200_000
