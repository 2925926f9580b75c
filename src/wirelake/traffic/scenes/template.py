"""A mould: one scene that was performed, read, and is ready to be cast many times.

    mould = make("phone", seed)         perform and read
    mould.lines                         connections, their streams and frames
    mould.happenings                    what the tap saw, in order

Everything that differs between casts is found here once: where ids and times stand in the streams.
What the packets look like is the business of a style (`recorded.py`, `sniffed.py`), which makes a
plate of the mould.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ..packets.numbers import Numbers
from .comet import phone
from .esnp import service
from .frames import Frame, frames_of
from .magline import device
from .scene import (
    C2S,
    S2C,
    Happening,
    Line,
    Scene,
)
from .tny import game, gateway

__all__ = ["SCENARIOS", "Mould", "Spot", "Stream", "make"]

_TIME_WIDTHS: Final = {"varint": 6, "i64be": 8, "i64le": 8}

SCENARIOS: Final[dict[str, tuple[tuple[str, ...], Callable[[Scene], None]]]] = {
    "phone": (("comet",), phone),
    "sealed_phone": (("comet",), lambda scene: phone(scene, sealed=True)),
    "service": (("esnp",), service),
    "game": (("tny",), game),
    "gateway": (("relay", "tny"), gateway),
    "device": (("magline",), device),
    "link": (("relay",), lambda scene: gateway(scene, users_seen=False)),
}
"""Every kind of scene: the protocols that are seen in it, and what performs it."""


@dataclass(slots=True)
class Spot:
    """A place in a stream where every cast has something of its own."""

    start: int
    form: str
    place: int = -1
    """Of an id: its place in the block of numbers."""
    happening: int = -1
    """Of a time: the happening that it tells the time of; -1 the one that brought these bytes."""
    is_time: bool = False


@dataclass(slots=True)
class Stream:
    """One direction of a connection."""

    data: bytes
    frames: list[Frame]
    spots: list[Spot] = field(default_factory=list)


@dataclass(slots=True)
class Connection:
    """A connection that the tap saw."""

    line: Line
    protocol: str
    host: int
    port: int
    """Its place among the connections of that host."""
    streams: tuple[Stream, Stream]


@dataclass(slots=True)
class Mould:
    """A performed scene."""

    scenario: str
    seed: str
    numbers: Numbers
    connections: list[Connection]
    happenings: list[Happening]
    places: dict[int, int]
    """The place of a connection in `connections`, by the number of its line."""
    published: dict[str, int]
    """The happening that is the publication of a notification, by its id."""


def make(scenario: str, seed: str) -> Mould:
    """Performs a scene and reads what was said."""
    rng = random.Random(seed)
    scene = Scene(rng, Numbers(rng.getrandbits(28)))
    SCENARIOS[scenario][1](scene)
    scene.run()
    happenings = [each for each in scene.happenings if each.line is None or each.line.seen]
    published = {
        each.facts["id"]: n
        for n, each in enumerate(happenings)
        if each.kind == "fact" and each.facts["kind"] == "publish"
    }
    ports: dict[int, int] = {}
    connections: list[Connection] = []
    places: dict[int, int] = {}
    for line in scene.lines:
        if line.seen:
            port = ports[line.host] = ports.get(line.host, -1) + 1
            streams = (
                _stream(line, C2S, scene.numbers, published),
                _stream(line, S2C, scene.numbers, published),
            )
            places[line.number] = len(connections)
            connections.append(Connection(line, line.protocol, line.host, port, streams))
    return Mould(scenario, seed, scene.numbers, connections, happenings, places, published)


def _stream(line: Line, direction: int, numbers: Numbers, published: dict[str, int]) -> Stream:
    data = bytes(line.streams[direction])
    stream = Stream(data, list(frames_of(line.protocol, direction, data)))
    for frame in stream.frames:
        _find(stream, frame, numbers, published)
    return stream


def _find(stream: Stream, frame: Frame, numbers: Numbers, published: dict[str, int]) -> None:
    """Where the ids and times of a frame stand; the same id may stand in it twice."""
    data, stop = stream.data, frame.stop
    for each in dict.fromkeys(frame.fields):
        found = numbers.used.get(each)
        at = data.find(each, frame.start, stop) if found is not None else -1
        while at >= 0 and found is not None:
            stream.spots.append(Spot(at, found[0], place=found[1]))
            at = data.find(each, at + len(each), stop)
    reached: dict[bytes, int] = {}
    for form, each, dated in frame.times:
        at = data.find(each, reached.get(each, frame.start), stop)
        reached[each] = at + len(each)
        happening = published[dated] if dated else -1
        stream.spots.append(Spot(at, form, happening=happening, is_time=True))
