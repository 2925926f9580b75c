"""Instances say what their template says, with ids, times and keys of their own."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest

from wirelake.protocols.comet.layout import MessageList, Notification
from wirelake.protocols.comet.sealing import ContentOpener
from wirelake.protocols.magline.records import Opener
from wirelake.protocols.magline.session import ServerSession
from wirelake.traffic.packets.instances import Instances, instantiate
from wirelake.traffic.packets.numbers import shown
from wirelake.traffic.packets.recorded import RecordedStyle
from wirelake.traffic.packets.sniffed import SniffedStyle
from wirelake.traffic.packets.writer import Style
from wirelake.traffic.scenes.provider import Frame, built_in, make, scenarios, scenes_of
from wirelake.traffic.scenes.scene import EPOCH_NS, PERIOD_NS, S2C

COUNT = 4
SCENARIOS = (*scenarios(built_in()), "link")
STYLES: dict[str, Style] = {
    "recorder": RecordedStyle(),
    "micro": SniffedStyle(1_000),
    "nano": SniffedStyle(1),
}
pairs = pytest.mark.parametrize(
    ("scenario", "style"), [(each, style) for each in SCENARIOS for style in STYLES]
)


@functools.cache
def instances(scenario: str, style: str, seed: int = 0) -> Instances:
    """A few instances of one scene."""
    look = STYLES[style]
    packets = look.packets(make(scenario, f"instances/{seed}"))
    return instantiate(
        packets,
        np.empty((COUNT, len(packets.row)), np.uint8),
        np.arange(100, 100 + COUNT, dtype=np.uint64),
        np.random.default_rng(5),
        begin_ns=EPOCH_NS,
        resolution_ns=look.resolution_ns,
        numbered=look.numbered,
    )


def stream(made: Instances, k: int, place: int, direction: int) -> bytes:
    """A stream of an instance, put together from its packets; copies must agree."""
    packets = made.packets
    found = bytearray(len(packets.template.connections[place].streams[direction].data))
    seen = bytearray(len(found))
    for n in packets.carriers[place][direction]:
        item = packets.items[n]
        start, stop = item.payload
        column = int(packets.starts[n]) + item.payload_at
        piece = made.rows[k, column : column + stop - start].tobytes()
        for at, byte in enumerate(piece, start):
            assert not seen[at] or found[at] == byte
            found[at], seen[at] = byte, 1
    assert all(seen)
    return bytes(found)


def read(made: Instances, k: int, place: int, direction: int) -> list[Frame]:
    """The frames of a stream of an instance."""
    protocol = made.packets.template.connections[place].protocol
    return list(scenes_of(protocol).frames(direction, stream(made, k, place, direction)))


@pairs
def test_instances_decode_as_their_template(scenario: str, style: str) -> None:
    made = instances(scenario, style)
    for place, connection in enumerate(made.packets.template.connections):
        for direction, original in enumerate(connection.streams):
            for k in range(COUNT):
                found = read(made, k, place, direction)
                assert [_same(frame) for frame in found] == [
                    _same(frame) for frame in original.frames
                ]


def _same(frame: Frame) -> Any:
    """What all instances of a frame have in common."""
    info = frame.info
    target = None if info.tunnel else info.target
    inner = None if frame.inner is None else (frame.inner.info.kind, frame.inner.info.target)
    return (
        *(frame.start, frame.stop, info.kind, info.name, target, info.status, info.reason),
        *(info.body_bytes, len(info.ids), inner),
    )


@pytest.mark.parametrize("scenario", ["service", "game", "link"])
def test_ids_are_those_of_the_instance(scenario: str) -> None:
    made = instances(scenario, "recorder")
    numbers = made.packets.template.numbers
    form = "u64be" if scenario == "service" else "varint"
    for place, connection in enumerate(made.packets.template.connections):
        for direction, original in enumerate(connection.streams):
            for k in range(COUNT):
                for before, after in zip(
                    original.frames, read(made, k, place, direction), strict=True
                ):
                    old = before.info if before.inner is None else before.inner.info
                    new = after.info if after.inner is None else after.inner.info
                    if old.id is not None and old.kind in {"request", "response"}:
                        asked = old.id if old.kind == "request" else old.reply_to
                        mine = new.id if new.kind == "request" else new.reply_to
                        assert asked is not None
                        place_of = np.uint64(numbers.place(form, asked))
                        assert mine == shown(form, made.first[k : k + 1] + place_of)[0]


@pairs
def test_times_keep_their_order_and_differ(scenario: str, style: str) -> None:
    made = instances(scenario, style)
    assert (np.diff(made.times, axis=1) >= 0).all()
    assert made.times.min() >= EPOCH_NS
    assert made.times.max() <= EPOCH_NS + PERIOD_NS
    assert (made.times % STYLES[style].resolution_ns == 0).all()
    pauses = np.diff(made.times, axis=1)
    assert not (pauses[0] == pauses[1]).all()
    for lines in made.packets.carriers:
        items = sorted([*lines[0], *lines[1]])
        assert (np.diff(made.times[:, items], axis=1) > 0).all()


def test_messages_have_the_time_of_their_instance() -> None:
    made = instances("game", "micro")
    for k in range(COUNT):
        for frame in read(made, k, 0, S2C):
            for _, data, _ in frame.times:
                result = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(data))
                item = made.times[k] // 1_000_000
                assert result in item


def _keys(made: Instances, k: int) -> list[dict[str, str]]:
    packets = made.packets
    found = []
    for n, item in enumerate(packets.items):
        if item.event >= 0 and packets.template.events[item.event].kind == "keys":
            start = int(packets.starts[n])
            text = made.rows[k, start : start + len(item.data)].tobytes()
            found.append(json.loads(text[text.index(b"{") : text.index(b"}") + 1]))
    return found


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(3))
def test_devices_seal_with_keys_of_their_own(style: str, seed: int) -> None:
    made = instances("device", style, seed)
    logs = [_keys(made, k) for k in range(COUNT)]
    randoms = [log["client_random"] for each in logs for log in each]
    assert len(set(randoms)) == COUNT * len(made.packets.template.connections)
    for place, connection in enumerate(made.packets.template.connections):
        assert isinstance(connection.scene.server, ServerSession)
        streams = [each.data for each in connection.streams]
        wanted = _plaintexts(json.loads(connection.scene.server.key_log()), streams)
        for k in range(COUNT):
            streams = [stream(made, k, place, direction) for direction in (0, 1)]
            log = next(log for log in logs[k] if bytes.fromhex(log["client_random"]) in streams[0])
            assert _plaintexts(log, streams) == wanted
            assert not any(plain and plain in each for plain in wanted[3:] for each in streams)


def _plaintexts(keys: dict[str, str], streams: list[bytes]) -> list[Any]:
    """What the frames of both directions hold, opened."""
    opener = Opener(keys, None, "seed")
    return [
        opener.open(frame.message, data[frame.start : frame.stop]).get("data")
        for direction, data in enumerate(streams)
        for frame in scenes_of("magline").frames(direction, data)
    ]


@pytest.mark.parametrize("style", STYLES)
def test_sealed_content_opens_with_the_key_of_its_instance(style: str) -> None:
    sealed = 0
    for seed in range(4):
        made = instances("sealed_phone", style, seed)
        for k in range(COUNT):
            logs = _keys(made, k)
            assert len({log["content_key"] for log in logs}) == len(logs)
            for place, log in enumerate(logs):
                opener = ContentOpener(bytes.fromhex(log["content_key"]))
                for frame in read(made, k, place, S2C):
                    for note in _notes(frame.message):
                        plain = opener.open(
                            note.content, msg_type=note.msg_type, msg_id=note.msg_id, ts=note.ts
                        )
                        assert plain.decode()
                        sealed += 1
    assert sealed


def _notes(message: Any) -> tuple[Notification, ...]:
    if isinstance(message, MessageList):
        return message.messages
    return (message,) if isinstance(message, Notification) else ()
