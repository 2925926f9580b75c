"""Scenes by protocol: what a protocol declares so that its traffic can be simulated.

A `ProtocolScenes` says which scenarios there are, how the frames of a scene are read back, and what
differs between the instances of a scene. Everything else in `wirelake.traffic` works through it and
names no protocol. The scenes of a built-in protocol are in the module of this package that has the
name of the protocol's own package, as `SCENES`, a tuple.

Another package adds scenes through the entry point group `wirelake.traffic`. The value names a
`ProtocolScenes`, or a tuple of them; the protocol itself is registered in `wirelake.protocols`:

    [project.entry-points."wirelake.traffic"]
    thermo = "thermo.scenes:SCENES"

    def station(scene: Scene) -> None:
        client, server = CodecSession(PROTOCOL, "c2s"), CodecSession(PROTOCOL, "s2c")
        connection = scene.connect("thermo", client, server)
        scene.start(behaviour(scene, connection))

    SCENES = ProtocolScenes("thermo", scenarios=(Scenario("station", station, ("thermo",)),))

`wirelake simulate --protocols thermo` then plays them. A protocol with a session of its own uses
that in place of `CodecSession`. Without further declarations, frames are
read back by the protocol's `Meaning`, faults are placed by its layout, and all instances share the
ids in its messages; `id_form` and `describe` make ids differ.

The built-in protocols have a `describe` that states kinds, names, targets and status again, on
purpose: the truth is compared with what readers make of `Meaning`, and must not come from there.
"""

from __future__ import annotations

import functools
import importlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wirelake.protocols import registry
from wirelake.wire.model import Direction

from ..packets.numbers import Bytes, Numbers, encode_integer
from .scene import C2S, S2C, Scene, SceneConnection, SceneEvent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from wirelake.wire.protocol import Protocol

    from ..packets.packet_template import PacketTemplate, Resealer

__all__ = [
    "DIRECTIONS",
    "GROUP",
    "Connection",
    "Frame",
    "MessageInfo",
    "ProtocolScenes",
    "Scenario",
    "SceneTemplate",
    "ScenesError",
    "Slot",
    "Stream",
    "Tunnelled",
    "built_in",
    "describe_by_meaning",
    "make",
    "names",
    "scenario",
    "scenarios",
    "scenes_of",
]


GROUP: Final = "wirelake.traffic"
"""The entry point group."""
DIRECTIONS: Final[tuple[Direction, Direction]] = ("c2s", "s2c")
"""Both directions, the client's first."""
_OTHERS: Final = 1_000


class ScenesError(LookupError):
    """A protocol has no scenes, or its scenes do not load."""


# -- what is in a frame ------------------------------------------------------------------------


@dataclass(slots=True)
class MessageInfo:
    """What a message says: the values that truth is made of."""

    kind: str
    name: str
    id: int | None = None
    reply_to: int | None = None
    target: str | None = None
    status: str | None = None
    reason: str | None = None
    client: str | None = None
    ids: tuple[str, ...] = ()
    """Notifications that it carries or acknowledges."""
    body_bytes: int | None = None
    heartbeat: bool = False
    """Whether `connections.heartbeats` counts it."""
    device: Mapping[str, str] = field(default_factory=dict)
    """Columns of `connections` that it fills."""
    resumes: bool = False
    """Whether it is a handshake that asks to resume a session."""
    tunnel: tuple[int, int] | None = None
    """Instance and tunnel that it names."""
    tunnel_event: str | None = None
    """What happens to that tunnel: connect, connected or disconnect."""
    tunnel_user: tuple[str, int] | None = None
    """connect: address and port of the user."""


class Tunnelled(NamedTuple):
    """A message of another protocol that a frame carries in a tunnel."""

    protocol: str
    info: MessageInfo
    size: int


@dataclass(slots=True)
class Frame:
    """One frame of a stream."""

    start: int
    stop: int
    message: Any
    info: MessageInfo
    inner: Tunnelled | None = None
    ids: list[bytes] = field(default_factory=list)
    """Ids in it, as encoded; each instance writes its own in their place."""
    times: list[tuple[str, bytes, str]] = field(default_factory=list)
    """Times in it, in milliseconds: form, encoded bytes, and the notification that was published
    then (empty: the time of the packet itself)."""


# -- what a protocol declares ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of scene."""

    name: str
    play: Callable[[Scene], None]
    """Sets the scene up: connects sessions and starts actors."""
    protocols: tuple[str, ...]
    """Protocols that the tap sees in it; all of them must be asked for."""
    byte_share: float = 1.0
    """Share of the bytes of a run, relative to the other scenarios."""
    template_share: float = 1.0
    """Share of the templates, relative to the other scenarios. Low for scenes with many
    connections: one of their templates is as much work as several others."""
    position: int = _OTHERS
    """Scenarios are generated in this order. It is part of what a seed means: do not change it."""
    replaces: tuple[str, ...] = ()
    """Scenarios that are left out when this one is played."""


def _zero_first_byte(raw: Bytes) -> None:
    raw[0] = 0


@dataclass(frozen=True)
class ProtocolScenes:
    """How traffic of one protocol is simulated."""

    protocol: str
    scenarios: tuple[Scenario, ...] = ()
    describe: Callable[[ProtocolScenes, Frame], None] | None = None
    """Fills in `info`, `ids`, `times` and `inner` of a decoded frame; by default from the
    protocol's `Meaning`. The built-in protocols write it out, so that truth does not depend on the
    declaration that readers use."""
    id_form: str | None = None
    """Form of message ids (`packets/numbers.py`) where instances have their own."""
    reseal: Callable[[PacketTemplate, int], Resealer | None] | None = None
    """Makes what encrypts one connection anew for every instance; None: it is not encrypted."""
    required: frozenset[str] = frozenset()
    """Messages that no fault may hit: they say who or what a connection is, and without them the
    rest of the stream cannot be interpreted."""
    head_bytes: int | None = None
    """Bytes at the start of a frame that delimit it; faults in bodies start behind them. By default
    the layout decides."""
    break_head: Callable[[Bytes], None] = _zero_first_byte
    """Changes the start of a frame, in place, so that no frame can begin there."""
    check: Callable[[Any, bytes, Direction], None] | None = None
    """Raises WireError for a frame that decodes but whose content breaks a rule."""

    @functools.cached_property
    def declaration(self) -> Protocol:
        """The protocol."""
        return registry.find(self.protocol)

    @functools.cached_property
    def has_magic(self) -> bool:
        """Whether frames begin with a magic. Readers resume there after a fault; in other
        protocols they resume at the start of a TCP segment."""
        from wirelake.capture.decode.framing import magics

        return bool(magics(self.declaration.model()))

    @functools.cached_property
    def body_at(self) -> int:
        """Where the body of a frame begins, for faults."""
        from wirelake.capture.decode.framing import head_size

        if self.head_bytes is not None:
            return self.head_bytes
        return head_size(self.declaration.model())

    @property
    def server_port(self) -> int:
        """The port of the simulated server."""
        port = self.declaration.port
        if port is None:
            raise ScenesError(
                f"protocol {self.protocol!r} has no port; simulated traffic needs one"
            )
        return port

    def frames(self, direction: int, stream: bytes) -> Iterator[Frame]:
        """Decode all frames of a complete stream."""
        protocol = self.declaration
        sent_in = DIRECTIONS[direction] if protocol.directed else None
        describe = self.describe or describe_by_meaning
        pos = 0
        while pos < len(stream):
            message, stop = protocol.decode(stream, pos, direction=sent_in)
            frame = Frame(pos, stop, message, MessageInfo("", ""))
            describe(self, frame)
            yield frame
            pos = stop

    @functools.cached_property
    def _describer(self) -> Any:
        from wirelake.records.message import Describer

        return Describer(self.declaration)


def describe_by_meaning(scenes: ProtocolScenes, frame: Frame) -> None:
    """Describe a frame by the `Meaning` of its protocol."""
    columns = scenes._describer(frame.message)
    name = columns["name"] or scenes._describer.name_of(frame.message)
    info = frame.info = MessageInfo(columns["kind"] or "message", name)
    info.id, info.reply_to = columns["message_id"], columns["reply_to"]
    info.target, info.status = columns["target"], columns["status"]
    info.reason, info.client = columns["reason"], columns["client"]
    info.ids, info.body_bytes = tuple(columns["ids"] or ()), columns["body_bytes"]
    info.heartbeat = name in scenes.declaration.meaning.heartbeats
    if scenes.id_form is not None:
        found = (info.id, info.reply_to)
        frame.ids += [encode_integer(scenes.id_form, each) for each in found if each is not None]
    frame.ids += [each.encode() for each in (info.client, *info.ids) if each is not None]


# -- registry ----------------------------------------------------------------------------------


def built_in() -> tuple[str, ...]:
    """Return the built-in protocols that can be simulated, sorted."""
    return tuple(sorted(_built_in()))


def names() -> tuple[str, ...]:
    """Return the protocols that can be simulated, built-in ones first; no scenes are loaded."""
    others = {point.name for point in _points()} - set(_built_in())
    return (*built_in(), *sorted(others))


def scenes_of(protocol: str) -> ProtocolScenes:
    """Return the scenes of a protocol. Raises ScenesError."""
    found = _built_in().get(protocol) or _others().get(protocol)
    if found is None:
        raise ScenesError(
            f"no scenes for protocol {protocol!r}; expected one of {', '.join(names())}"
        )
    return found


def scenarios(protocols: Iterable[str]) -> dict[str, Scenario]:
    """Return the scenarios that use only these protocols, in the order of generation."""
    chosen = set(protocols)
    found: dict[str, Scenario] = {}
    for name in sorted(chosen):
        for each in scenes_of(name).scenarios:
            if found.setdefault(each.name, each) is not each or (
                name not in _built_in() and each.name in _built_in_scenarios()
            ):
                raise ScenesError(f"scenario {each.name!r} of protocol {name!r} already exists")
    fitting = [each for each in found.values() if chosen.issuperset(each.protocols)]
    replaced = {name for each in fitting for name in each.replaces}
    fitting = [each for each in fitting if each.name not in replaced]
    return {each.name: each for each in sorted(fitting, key=lambda each: each.position)}


def scenario(name: str) -> Scenario:
    """Return a scenario by name. Raises ScenesError."""
    found = _built_in_scenarios().get(name)
    if found is None:
        others = [each for scenes in _others().values() for each in scenes.scenarios]
        found = next((each for each in others if each.name == name), None)
    if found is None:
        raise ScenesError(f"unknown scenario {name!r}")
    return found


@functools.cache
def _built_in() -> dict[str, ProtocolScenes]:
    # The module of a protocol's scenes has the name of the protocol's own package: nothing here
    # has to list them.
    packages = [registry.find(name).frame.__module__.split(".")[-2] for name in registry.BUILT_IN]
    modules = [importlib.import_module(f"{__package__}.{name}") for name in dict.fromkeys(packages)]
    return {each.protocol: each for module in modules for each in module.SCENES}


@functools.cache
def _built_in_scenarios() -> dict[str, Scenario]:
    return {each.name: each for scenes in _built_in().values() for each in scenes.scenarios}


def _others() -> dict[str, ProtocolScenes]:
    return {each.protocol: each for point in _points() for each in _loaded(point)}


def _points() -> tuple[EntryPoint, ...]:
    return _points_on(tuple(sys.path))


@functools.lru_cache(maxsize=4)
def _points_on(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001 - the key
    from importlib.metadata import entry_points

    return tuple(entry_points(group=GROUP))


def _loaded(point: EntryPoint) -> tuple[ProtocolScenes, ...]:
    origin = f"scenes {point.name!r} ({point.value})"
    try:
        found = point.load()
    except Exception as error:  # a package that does not load must not break the others
        raise ScenesError(f"{origin} do not load: {type(error).__name__}: {error}") from error
    scenes = found if isinstance(found, tuple) else (found,)
    if not scenes or not all(isinstance(each, ProtocolScenes) for each in scenes):
        raise ScenesError(f"{origin}: expected a ProtocolScenes or a tuple of them")
    return scenes


# -- scene templates ---------------------------------------------------------------------------


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
    # By their bytes, which `Numbers.used` has from when the ids were handed out. They have six or
    # more bytes of numbers that nothing else uses: an accidental match is practically impossible.
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
