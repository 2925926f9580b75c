"""A scene template: a scene that was played once and is ready to be instantiated many times.

    template = make("phone", seed)      play a scene and read it back
    template.connections                connections, their streams and frames
    template.events                     what the tap saw, in order

Everything that differs between instances is located here once: the slots of ids and times in the
streams. What the packets look like is up to a capture style (`packets/recorded.py`,
`packets/sniffed.py`), which makes a `PacketTemplate` of it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from ..packets.numbers import Numbers
from .provider import Frame, ProtocolScenes, scenario, scenes_of
from .scene import C2S, S2C, Scene, SceneConnection, SceneEvent

__all__ = ["Connection", "SceneTemplate", "Slot", "Stream", "make"]


@dataclass(slots=True)
class Slot:
    """A place in a stream where every instance has a value of its own."""

    start: int
    form: str
    place: int = -1
    """Id: its offset in the block of numbers."""
    event: int = -1
    """Time: the event whose time it is; -1 for the one that carried these bytes."""
    is_time: bool = False


@dataclass(slots=True)
class Stream:
    """One direction of a connection."""

    data: bytes
    frames: list[Frame]
    slots: list[Slot] = field(default_factory=list)


@dataclass(slots=True)
class Connection:
    """A connection that the tap saw."""

    scene: SceneConnection
    scenes: ProtocolScenes
    """The declaration of its protocol."""
    host: int
    port: int
    """Index among the connections of that host."""
    streams: tuple[Stream, Stream]

    @property
    def protocol(self) -> str:
        """The name of its protocol."""
        return self.scenes.protocol


@dataclass(slots=True)
class SceneTemplate:
    """A scene that was played."""

    scenario: str
    seed: str
    numbers: Numbers
    connections: list[Connection]
    events: list[SceneEvent]
    places: dict[int, int]
    """Index in `connections`, by the number of the scene's connection."""
    published: dict[str, int]
    """The event that published a notification, by its id."""


def make(name: str, seed: str) -> SceneTemplate:
    """Play a scenario and decode what was sent."""
    rng = random.Random(seed)
    scene = Scene(rng, Numbers(rng.getrandbits(28)))
    scenario(name).play(scene)
    scene.run()
    events = [each for each in scene.events if each.connection is None or each.connection.captured]
    published = {
        each.facts["id"]: n
        for n, each in enumerate(events)
        if each.kind == "fact" and each.facts["kind"] == "publish"
    }
    ports: dict[int, int] = {}
    connections: list[Connection] = []
    places: dict[int, int] = {}
    for each in scene.connections:
        if each.captured:
            port = ports[each.host] = ports.get(each.host, -1) + 1
            scenes = scenes_of(each.protocol)
            up, down = (
                _stream(scenes, direction, bytes(each.streams[direction]), scene.numbers, published)
                for direction in (C2S, S2C)
            )
            places[each.number] = len(connections)
            connections.append(Connection(each, scenes, each.host, port, (up, down)))
    return SceneTemplate(name, seed, scene.numbers, connections, events, places, published)


def _stream(
    scenes: ProtocolScenes,
    direction: int,
    data: bytes,
    numbers: Numbers,
    published: dict[str, int],
) -> Stream:
    stream = Stream(data, list(scenes.frames(direction, data)))
    for frame in stream.frames:
        _find_slots(stream, frame, numbers, published)
    return stream


def _find_slots(stream: Stream, frame: Frame, numbers: Numbers, published: dict[str, int]) -> None:
    """Locate the ids and times of a frame; the same id may occur in it twice."""
    data, stop = stream.data, frame.stop
    for each in dict.fromkeys(frame.ids):
        found = numbers.used.get(each)
        at = data.find(each, frame.start, stop) if found is not None else -1
        while at >= 0 and found is not None:
            stream.slots.append(Slot(at, found[0], place=found[1]))
            at = data.find(each, at + len(each), stop)
    reached: dict[bytes, int] = {}
    for form, each, notification in frame.times:
        at = data.find(each, reached.get(each, frame.start), stop)
        reached[each] = at + len(each)
        event = published[notification] if notification else -1
        stream.slots.append(Slot(at, form, event=event, is_time=True))
