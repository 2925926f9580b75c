"""A scene: real sessions that talk in memory, in virtual time, with a tap beside the server.

    scene = Scene(random.Random(1))
    line = scene.dial("comet", client, server)
    scene.play(actor(scene, line))      # a generator that yields how many seconds it waits
    scene.run()

The tap sees what the edge would: what the client says when it arrives, what the server says when it
leaves. What it saw is in `scene.happenings`, in order of time; the bytes are in `line.streams`.
Nothing here reads a clock: an hour of a phone's sleep takes no time at all.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal, TypeAlias

from wirelake.protocols.sansio import Event, Session

from ..packets.numbers import Numbers

__all__ = ["C2S", "S2C", "Actor", "Closing", "Happening", "Line", "Scene"]

C2S: Final = 0
"""From the client."""
S2C: Final = 1
"""From the server."""

Actor: TypeAlias = Generator[float, None, None]
"""What somebody does; yields the seconds until it goes on."""
Closing: TypeAlias = Literal["client", "server", "reset"]
"""Who ends a connection: one of the two with FIN, or the client with RST."""
Kind: TypeAlias = Literal["open", "data", "close", "fact", "keys"]


@dataclass(slots=True)
class Happening:
    """Something that the tap saw, or that the server told its recorder."""

    at: float
    """Seconds since the scene began."""
    kind: Kind
    line: Line | None
    direction: int = C2S
    start: int = 0
    """Of data: where in the stream."""
    stop: int = 0
    how: Closing = "client"
    """Of a close: who ended it."""
    reason: str = ""
    """Of a close: what the server tells its recorder."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Of a fact: what it says."""
    text: str = ""
    """Of keys: a line of a key log."""


def _ignore(event: Event) -> None:
    """Nobody listens."""


@dataclass(eq=False)
class Line:
    """One connection of a scene."""

    scene: Scene
    number: int
    """Its place among the connections of the scene."""
    protocol: str
    client: Session
    server: Session
    host: int
    """Which of the scene's client machines dials."""
    delay_s: float
    """From the tap to the client, one way."""
    seen: bool = True
    """Whether the tap sees it."""
    streams: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    on_client: Callable[[Event], None] = _ignore
    on_server: Callable[[Event], None] = _ignore
    over: bool = False
    backstage: dict[str, Any] = field(default_factory=dict)
    """Secrets of the two ends, from which casts make secrets of their own."""
    _armed: float = float("inf")

    @property
    def round_trip_s(self) -> float:
        """There and back."""
        return 2 * self.delay_s

    def tick(self) -> None:
        """Tells both sessions what time it is."""
        for session in (self.client, self.server):
            session.receive(b"", self.scene.now)

    def flush(self) -> None:
        """Lets both applications hear what happened, and carries what the sessions have to say."""
        self._listen(self.client, self.on_client)
        self._listen(self.server, self.on_server)
        if up := self.client.to_send():
            self.scene.after(self.delay_s, lambda: self._arrive(C2S, up))
        if down := self.server.to_send():
            if not self.over:
                self._saw(S2C, down)
            self.scene.after(self.delay_s, lambda: self._arrive(S2C, down))
        self._arm()

    def later(self, delay_s: float, action: Callable[[], object]) -> None:
        """Does something on this connection after a while, unless it is over by then."""

        def act() -> None:
            if not self.over:
                self.act(action)

        self.scene.after(delay_s, act)

    def act(self, action: Callable[[], object]) -> None:
        """Does something on this connection now."""
        self.tick()
        action()
        self.flush()

    def close(self, how: Closing, reason: str = "") -> None:
        """Ends the connection; what is under way still arrives."""
        reason = reason or ("shutdown" if how == "server" else "reset" if how == "reset" else "eof")
        if how == "server":
            self._closed(how, reason)
        else:
            self.scene.after(self.delay_s, lambda: self._closed(how, reason))

    def fall_silent(self) -> None:
        """Nothing is heard of this connection any more, not even an end."""
        self.over = True

    def _closed(self, how: Closing, reason: str) -> None:
        if self.over:
            return
        self.over = True
        if self.seen:
            self.scene.happen(Happening(self.scene.now, "close", self, how=how, reason=reason))

    def _listen(self, session: Session, application: Callable[[Event], None]) -> None:
        while events := session.events():
            for event in events:
                application(event)

    def _arrive(self, direction: int, data: bytes) -> None:
        if self.over and direction == C2S:
            return
        if direction == C2S:
            self._saw(C2S, data)
            self.server.receive(data, self.scene.now)
        else:
            self.client.receive(data, self.scene.now)
        self.flush()

    def _saw(self, direction: int, data: bytes) -> None:
        stream = self.streams[direction]
        start = len(stream)
        stream += data
        if self.seen:
            self.scene.happen(
                Happening(self.scene.now, "data", self, direction, start, len(stream))
            )

    def _arm(self) -> None:
        """Wakes the sessions when their next timer is due."""
        if self.over:
            return
        due = [at for s in (self.client, self.server) if (at := s.next_timer()) is not None]
        if due and (soonest := min(due)) < self._armed:
            self._armed = soonest
            self.scene.after(max(0.0, soonest - self.scene.now), self._wake)

    def _wake(self) -> None:
        self._armed = float("inf")
        if self.over:
            return
        for session in (self.client, self.server):
            session.on_timer(self.scene.now)
        self.flush()


class Scene:
    """A stage with a clock of its own."""

    def __init__(self, rng: random.Random, numbers: Numbers):
        self.rng = rng
        self.numbers = numbers
        """Where all ids of the scene come from."""
        self.now = 0.0
        self.lines: list[Line] = []
        self.happenings: list[Happening] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order: Iterator[int] = count()

    def dial(
        self,
        protocol: str,
        client: Session,
        server: Session,
        *,
        host: int = 0,
        delay_s: float = 0.02,
        seen: bool = True,
    ) -> Line:
        """A client connects; the first bytes may follow a round trip later."""
        line = Line(self, len(self.lines), protocol, client, server, host, delay_s, seen)
        self.lines.append(line)
        if seen:
            self.after(delay_s, lambda: self.happen(Happening(self.now, "open", line)))
        return line

    def tell(self, kind: str, **facts: Any) -> None:
        """What the server tells its recorder."""
        self.happen(Happening(self.now, "fact", None, facts={"kind": kind, **facts}))

    def keys(self, line: Line, text: str) -> None:
        """A line for the key log."""
        self.happen(Happening(self.now, "keys", line, text=text))

    def happen(self, happening: Happening) -> None:
        """Notes something; calls come in order of time."""
        self.happenings.append(happening)

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Does something later."""
        heapq.heappush(self._queue, (self.now + delay_s, next(self._order), action))

    def play(self, actor: Actor) -> None:
        """Lets somebody act, from now on."""

        def go_on() -> None:
            delay_s = next(actor, None)
            if delay_s is not None:
                self.after(delay_s, go_on)

        self.after(0.0, go_on)

    def run(self) -> None:
        """Until nobody has anything left to do."""
        while self._queue:
            at, _, action = heapq.heappop(self._queue)
            self.now = max(self.now, at)
            action()

    # -- chance ------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        """Whether something happens that happens in this share of cases."""
        return self.rng.random() < share

    def think(self, median_s: float, spread: float = 0.8) -> float:
        """A log-normal time."""
        return median_s * self.rng.lognormvariate(0.0, spread)

    def pick(self, *choices: Any) -> Any:
        """One of these."""
        return self.rng.choice(choices)
