"""A scene: real protocol sessions that talk in memory, in virtual time, beside a packet tap.

    scene = Scene(random.Random(1), Numbers(0))
    connection = scene.connect("comet", client, server)
    scene.start(actor(scene, connection))   # a generator that yields the seconds it waits
    scene.run()

The tap stands next to the server: it sees client data when it arrives and server data when it
leaves. `scene.events` lists what it saw in order of time; the bytes are in `connection.streams`.
Nothing reads a clock, so an hour of silence costs nothing, and a scene follows from its seed alone.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal, Protocol, TypeAlias

from wirelake.wire import protocol as wire
from wirelake.wire.errors import NeedMore
from wirelake.wire.model import Direction

from ..packets.numbers import Numbers

__all__ = [
    "C2S",
    "EPOCH_MS",
    "EPOCH_NS",
    "PERIOD_NS",
    "S2C",
    "SECOND_NS",
    "Actor",
    "Closing",
    "CodecSession",
    "Scene",
    "SceneConnection",
    "SceneEvent",
    "SceneSession",
    "blob",
    "sentence",
]


SECOND_NS: Final = 1_000_000_000
EPOCH_NS: Final = 1_767_621_600 * SECOND_NS
"""Start of the simulated day: 2026-01-05 14:00:00 UTC."""
EPOCH_MS: Final = EPOCH_NS // 1_000_000
PERIOD_NS: Final = 1_800 * SECOND_NS
"""Time covered by one shard: half an hour, long enough for a client to sleep and reconnect."""

C2S: Final = 0
"""Direction: client to server."""
S2C: Final = 1
"""Direction: server to client."""

Actor: TypeAlias = Generator[float, None, None]
"""Behaviour of one participant; yields the seconds until it continues."""
Closing: TypeAlias = Literal["client", "server", "reset"]
"""How a connection ends: FIN by the client, FIN by the server, or RST by the client."""
Kind: TypeAlias = Literal["open", "data", "close", "fact", "keys"]


@dataclass(slots=True)
class SceneEvent:
    """Something the tap saw, or something the server reported to its recorder."""

    at: float
    """Seconds since the start of the scene."""
    kind: Kind
    connection: SceneConnection | None
    direction: int = C2S
    start: int = 0
    """data: offset in the stream."""
    stop: int = 0
    how: Closing = "client"
    """close: who closed."""
    reason: str = ""
    """close: the reason that the server reports to its recorder."""
    facts: dict[str, Any] = field(default_factory=dict)
    """fact: its content."""
    protocol: str = ""
    """fact: the protocol it is about."""
    text: str = ""
    """keys: one key log line."""


class SceneSession(Protocol):
    """What a scene needs of a sans-IO session; every `wirelake.protocols` session has it."""

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes from the peer."""

    def events(self) -> list[Any]:
        """Return what happened since the last call."""

    def to_send(self) -> bytes:
        """Return bytes for the peer."""

    def next_timer(self) -> float | None:
        """Return when `on_timer` is due."""

    def on_timer(self, now: float) -> None:
        """Let time pass."""


class CodecSession:
    """A session without state, for a protocol that has no session: it encodes and decodes.

    Its events are the decoded messages. `sends` is the direction of what it sends.
    """

    def __init__(self, protocol: wire.Protocol, sends: Direction):
        self._protocol = protocol
        receives: Direction = "s2c" if sends == "c2s" else "c2s"
        self._receives = receives if protocol.directed else None
        self._received = b""
        self._out: list[bytes] = []

    def send(self, message: Any) -> None:
        """Encode a message for the peer."""
        self._out.append(self._protocol.encode(message))

    def receive(self, data: bytes, now: float) -> None:  # noqa: ARG002 - time is of no interest
        """Take bytes from the peer."""
        self._received += data

    def events(self) -> list[Any]:
        """Return the messages that are complete."""
        found: list[Any] = []
        while self._received:
            try:
                message, stop = self._protocol.decode(self._received, direction=self._receives)
            except NeedMore:
                break
            found.append(message)
            self._received = self._received[stop:]
        return found

    def to_send(self) -> bytes:
        """Return the encoded messages."""
        data, self._out = b"".join(self._out), []
        return data

    def next_timer(self) -> float | None:
        """Return None: there are no timers."""
        return None

    def on_timer(self, now: float) -> None:
        """Do nothing."""


def _ignore(event: Any) -> None:
    """Ignore an event: the default handler."""


@dataclass(eq=False)
class SceneConnection:
    """One connection of a scene: both sessions and the bytes between them."""

    scene: Scene
    number: int
    """Index among all connections of the scene."""
    protocol: str
    client: SceneSession
    server: SceneSession
    host: int
    """Index of the client host."""
    delay_s: float
    """One-way delay between tap and client."""
    captured: bool = True
    """Whether the tap sees it."""
    streams: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    on_client: Callable[[Any], None] = _ignore
    on_server: Callable[[Any], None] = _ignore
    closed: bool = False
    secrets: dict[str, Any] = field(default_factory=dict)
    """Secrets of both ends; instances derive their own keys from them."""
    _timer_at: float = float("inf")

    @property
    def round_trip_s(self) -> float:
        """Round-trip time."""
        return 2 * self.delay_s

    def flush(self) -> None:
        """Deliver pending events to both applications and send pending bytes."""
        self._dispatch(self.client, self.on_client)
        self._dispatch(self.server, self.on_server)
        if up := self.client.to_send():
            self.scene.after(self.delay_s, lambda: self._arrive(C2S, up))
        # The tap stands at the server: it sees the server's bytes when they leave, and the
        # client's when they arrive (`_arrive`). So its latencies are those of the server alone.
        if down := self.server.to_send():
            if not self.closed:
                self._capture(S2C, down)
            self.scene.after(self.delay_s, lambda: self._arrive(S2C, down))
        self._set_timer()

    def later(self, delay_s: float, action: Callable[[], object]) -> None:
        """Run an action on this connection after a delay, unless it is closed by then."""

        def act() -> None:
            if not self.closed:
                self.act(action)

        self.scene.after(delay_s, act)

    def act(self, action: Callable[[], object]) -> None:
        """Run an action on this connection now."""
        for session in (self.client, self.server):
            session.receive(b"", self.scene.now)  # only tells the session the time
        action()
        self.flush()

    def close(self, how: Closing, reason: str = "") -> None:
        """Close the connection; bytes in flight still arrive."""
        reason = reason or ("shutdown" if how == "server" else "reset" if how == "reset" else "eof")
        if how == "server":
            self._close(how, reason)
        else:
            self.scene.after(self.delay_s, lambda: self._close(how, reason))

    def go_silent(self) -> None:
        """Stop all traffic without a close, like a phone that lost its network."""
        self.closed = True

    def _close(self, how: Closing, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        if self.captured:
            self.scene.record(SceneEvent(self.scene.now, "close", self, how=how, reason=reason))

    def _dispatch(self, session: SceneSession, handler: Callable[[Any], None]) -> None:
        while events := session.events():
            for event in events:
                handler(event)

    def _arrive(self, direction: int, data: bytes) -> None:
        if self.closed and direction == C2S:
            return
        if direction == C2S:
            self._capture(C2S, data)
            self.server.receive(data, self.scene.now)
        else:
            self.client.receive(data, self.scene.now)
        self.flush()

    def _capture(self, direction: int, data: bytes) -> None:
        stream = self.streams[direction]
        start = len(stream)
        stream += data
        if self.captured:
            self.scene.record(
                SceneEvent(self.scene.now, "data", self, direction, start, len(stream))
            )

    def _set_timer(self) -> None:
        """Schedule the earliest session timer."""
        if self.closed:
            return
        due = [at for s in (self.client, self.server) if (at := s.next_timer()) is not None]
        if due and (soonest := min(due)) < self._timer_at:
            self._timer_at = soonest
            self.scene.after(max(0.0, soonest - self.scene.now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer_at = float("inf")
        if self.closed:
            return
        for session in (self.client, self.server):
            session.on_timer(self.scene.now)
        self.flush()


class Scene:
    """An event loop with a virtual clock, and everything that it captured."""

    def __init__(self, rng: random.Random, numbers: Numbers):
        self.rng = rng
        self.numbers = numbers
        """Source of all ids in the scene."""
        self.now = 0.0
        self.connections: list[SceneConnection] = []
        self.events: list[SceneEvent] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        # Breaks ties: actions due at the same time run in the order they were scheduled.
        self._order: Iterator[int] = count()

    def connect(
        self,
        protocol: str,
        client: SceneSession,
        server: SceneSession,
        *,
        host: int = 0,
        delay_s: float = 0.02,
        captured: bool = True,
    ) -> SceneConnection:
        """Open a connection; the first bytes may follow one round trip later."""
        connection = SceneConnection(
            self, len(self.connections), protocol, client, server, host, delay_s, captured
        )
        self.connections.append(connection)
        if captured:
            self.after(delay_s, lambda: self.record(SceneEvent(self.now, "open", connection)))
        return connection

    def record_fact(self, protocol: str, kind: str, **facts: Any) -> None:
        """Record a fact that the server reports to its recorder."""
        facts = {"kind": kind, **facts}
        self.record(SceneEvent(self.now, "fact", None, facts=facts, protocol=protocol))

    def record_keys(self, connection: SceneConnection, text: str) -> None:
        """Record one key log line."""
        self.record(SceneEvent(self.now, "keys", connection, text=text))

    def record(self, event: SceneEvent) -> None:
        """Append an event; callers do so in order of time."""
        self.events.append(event)

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Schedule an action."""
        heapq.heappush(self._queue, (self.now + delay_s, next(self._order), action))

    def start(self, actor: Actor) -> None:
        """Start an actor now."""

        def resume() -> None:
            delay_s = next(actor, None)
            if delay_s is not None:
                self.after(delay_s, resume)

        self.after(0.0, resume)

    def run(self) -> None:
        """Run until nothing is scheduled."""
        while self._queue:
            at, _, action = heapq.heappop(self._queue)
            self.now = max(self.now, at)
            action()

    # -- random choices ----------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < share

    def delay(self, median_s: float, spread: float = 0.8) -> float:
        """Return a log-normal duration."""
        return median_s * self.rng.lognormvariate(0.0, spread)

    def pick(self, *choices: Any) -> Any:
        """Return one of the choices."""
        return self.rng.choice(choices)


# -- random content ----------------------------------------------------------------------------

_ENGLISH: Final = """
order parcel invoice meeting gold sword guild raid harvest storm bridge ticket train gate seat
score match winner friend photo comment reply thanks welcome update battery signal router sensor
valve pump meter window ready late soon today tomorrow nine eleven paid sent open shut
"""
_WORDS: Final = _ENGLISH.split()
_CHINESE: Final = "您的快递已到达请尽快取件今日签到奖励系统维护通知好友上线新消息"


def sentence(rng: random.Random, median: int = 60) -> str:
    """Return text of about `median` bytes, sometimes in Chinese."""
    size = max(8, min(600, int(median * rng.lognormvariate(0.0, 0.6))))
    if rng.random() < 0.15:
        return "".join(rng.choices(_CHINESE, k=size // 3))
    return " ".join(rng.choices(_WORDS, k=max(1, size // 6)))


def blob(rng: random.Random, median: int = 60, most: int = 20_000) -> bytes:
    """Return opaque bytes, about `median` and never more than `most`."""
    return rng.randbytes(max(1, min(most, int(median * rng.lognormvariate(0.0, 0.7)))))
