"""Devices on magline: they agree on keys, ask, are told, lose their connection and resume it.

A device knows its server by a pinned key, by a shared one, or not at all. What is pushed while it
is away waits with its session and follows when that is resumed.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from wirelake.protocols.magline.credentials import ClientKey, ServerKeys
from wirelake.protocols.magline.handshake import x25519_public
from wirelake.protocols.magline.resumption import MemoryStore
from wirelake.protocols.magline.session import (
    ClientSession,
    Established,
    Failure,
    Push,
    Reply,
    Request,
    Requested,
    ServerSession,
)
from wirelake.protocols.sansio import Event

from .scene import (
    Actor,
    Line,
    Scene,
)
from .vocabulary import blob

__all__ = ["Draws", "device"]

_COMMANDS: Final = {101: 0.004, 102: 0.011, 205: 0.030, 310: 0.002}
"""Business commands, and the median time that each takes."""
_PUSHES: Final = (501, 502)
_BUSY: Final = 0x10001
"""An error number of the application."""


class Draws:
    """Random bytes for one session, remembered: casts derive keys of their own from them."""

    def __init__(self, scene: Scene):
        self._scene = scene
        self.drawn: list[bytes] = []

    def __call__(self, size: int) -> bytes:
        self.drawn.append(self._scene.rng.randbytes(size))
        return self.drawn[-1]


def device(scene: Scene) -> None:
    """One device, and the server's half of its life."""
    scene.play(_Device(scene).live(scene.rng.choice((1, 2, 2, 3))))


class _Device:
    """A device and the connections that it makes one after the other."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.static, self.psk = scene.rng.randbytes(32), scene.rng.randbytes(32)
        mode = scene.pick("pinned", "pinned", "psk", "anonymous")
        self.key = ClientKey(
            pinned=x25519_public(self.static) if mode == "pinned" else None,
            psk=self.psk if mode == "psk" else None,
            allow_anonymous=mode == "anonymous",
        )
        self.keys = ServerKeys(static=[self.static], psks=[self.psk], allow_anonymous=True)
        self.store = MemoryStore()
        self.line: Line | None = None
        self.last_session = b""

    def live(self, lives: int) -> Actor:
        """Connections, each but the first resuming the session of the one before."""
        session: ClientSession | None = None
        for life in range(lives):
            draws = Draws(self.scene)
            ticket = None if session is None else session.ticket
            session = ClientSession(key=self.key, entropy=draws, ticket=ticket, now=self.scene.now)
            yield from self._connected(session, draws, last=life == lives - 1)
            if self.last_session and self.scene.chance(0.6):
                push = Push(self.scene.pick(*_PUSHES), blob(self.scene.rng, 40))
                self.store.queue(self.last_session, push, self.scene.now)
            yield self.scene.think(8.0)

    def _connected(self, client: ClientSession, draws: Draws, *, last: bool) -> Actor:
        scene = self.scene
        answers = Draws(scene)
        server = ServerSession(keys=self.keys, entropy=answers, store=self.store, now=scene.now)
        line = scene.dial("magline", client, server, delay_s=scene.think(0.03, 0.5))
        line.backstage = {
            "client": draws,
            "server": answers,
            "static": self.static if self.key.pinned is not None else None,
            "psk": self.psk if self.key.psk is not None else None,
            "mode": self.key.mode,
        }
        line.on_server = lambda event: self._asked(line, server, event)
        yield line.round_trip_s
        line.act(client.connect)
        while client.state != "open":
            yield 0.02
        yield from self._work(line, client, server)
        if last or scene.chance(0.3):
            line.act(client.close)
            line.close("client")
        else:
            line.close("reset")
        yield line.round_trip_s
        server.receive_eof()

    def _work(self, line: Line, client: ClientSession, server: ServerSession) -> Actor:
        """Requests, several under way; pushes in between; silence, with heartbeats."""
        scene = self.scene
        for _ in range(scene.rng.randint(4, 24)):
            request = Request(scene.pick(*_COMMANDS), blob(scene.rng, 48))
            line.act(partial(client.send, request))
            if scene.chance(0.25):
                push = Push(scene.pick(*_PUSHES), blob(scene.rng, 60))
                line.later(scene.think(0.2), partial(self._say, server, push))
            if scene.chance(0.6):
                yield scene.think(1.5)
        yield scene.pick(1.0, 2.0, 35.0, 70.0)

    def _say(self, server: ServerSession, message: Push | Reply | Failure) -> None:
        if server.state == "open":
            server.send(message)

    def _asked(self, line: Line, server: ServerSession, event: Event) -> None:
        scene = self.scene
        if isinstance(event, Established):
            self.last_session = event.session_id
            scene.keys(line, server.key_log())
        elif isinstance(event, Requested):
            chance = scene.rng.random()
            delay_s = scene.think(_COMMANDS[event.business_cmd], 0.5)
            answer: Reply | Failure = Reply(event.seq, blob(scene.rng, 64, 8_000))
            if chance < 0.05:
                answer = Failure(event.seq, _BUSY)
            if chance > 0.02:
                line.later(delay_s, partial(self._say, server, answer))
