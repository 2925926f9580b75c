"""Phones on comet: they sign on, subscribe, sleep, come back, and acknowledge late or never.

A phone has an inbox at the hub. What is published for it goes out at once while it is connected,
and waits otherwise; until the phone has acknowledged a notification it comes again with every
message list. So a notification may be sent several times, acknowledged after hours, or not at all.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Final

from wirelake.protocols.comet.layout import (
    Auth,
    ErrorCode,
    GetMessageList,
    GetTopicList,
    MessageAck,
    MessageList,
    Notification,
    Ok,
    ReportEnviron,
    Subscribe,
    TopicList,
    Unsubscribe,
)
from wirelake.protocols.comet.limits import ClientOptions
from wirelake.protocols.comet.sealing import X25519ServerKey, content_key
from wirelake.protocols.comet.session import (
    AuthRequested,
    ClientSession,
    KeyExchanged,
    Notified,
    Replied,
    Requested,
    ServerSession,
)
from wirelake.protocols.sansio import Event

from ..clock import EPOCH_MS
from .frames import frames_of
from .scene import (
    C2S,
    S2C,
    Actor,
    Line,
    Scene,
)
from .vocabulary import sentence, topics

__all__ = ["exchange_frames", "phone"]

_LATENCY_S: Final[dict[type, float]] = {
    Auth: 0.012,
    GetTopicList: 0.004,
    Subscribe: 0.006,
    Unsubscribe: 0.005,
    GetMessageList: 0.009,
    MessageAck: 0.002,
    ReportEnviron: 0.003,
}
"""Median times of the hub, by command."""
_MODELS: Final = ("Pixel 8", "iPhone15,3", "MI 6", "Nokia 3310", "SM-S918B", "PLUS 9 Pro")


def phone(scene: Scene, *, sealed: bool = False) -> None:
    """One phone and the hub's half of its life."""
    Phone(scene, sealed).begin()


def exchange_frames(up: bytes, down: bytes) -> tuple[bytes, bytes, bytes]:
    """The frames that a content key depends on: the auth that succeeded, its answer, and the
    exchange_key; from both streams of a connection."""
    asked = list(frames_of("comet", C2S, up))
    answered = [frame for frame in frames_of("comet", S2C, down) if frame.means.kind == "response"]
    n = next(n for n, frame in enumerate(answered) if frame.means.name == "auth_success")
    key = next(frame for frame in asked if frame.means.name == "exchange_key")
    auth, success = asked[n], answered[n]
    return up[auth.start : auth.stop], down[success.start : success.stop], up[key.start : key.stop]


class Phone:
    """A phone, its inbox, and the connections that it makes one after the other."""

    def __init__(self, scene: Scene, sealed: bool):
        self.scene = scene
        self.sealed = sealed
        self.client_id = scene.numbers.text("client")
        self.token = scene.numbers.text("token")
        self.topics = topics(scene.rng)
        self.inbox: dict[str, Notification] = {}
        self.to_ack: list[str] = []
        self.line: Line | None = None
        self.forgetful = scene.chance(0.35)
        """Whether it leaves some notifications unacknowledged."""
        self.careless = scene.chance(0.15)
        """Whether its first token is wrong."""
        self.awake_s = scene.think(60.0)

    def begin(self) -> None:
        """Lets the phone live, and others publish for it."""
        lives = self.scene.rng.choice((1, 1, 2, 2, 3))
        span_s = lives * (self.awake_s + 40.0)
        self.scene.play(self._live(lives))
        for _ in range(self.scene.rng.randint(2, 14)):
            self.scene.after(self.scene.rng.uniform(0.5, 0.8 * span_s), self._publish)

    def _live(self, lives: int) -> Actor:
        for life in range(lives):
            yield from self._connected(life, last=life == lives - 1)
            yield self.scene.think(20.0)

    # -- a connection ------------------------------------------------------------------------

    def _connected(self, life: int, *, last: bool) -> Actor:
        scene, rng = self.scene, self.scene.rng
        private = rng.randbytes(32)
        key = X25519ServerKey(private) if self.sealed else None
        client = ClientSession(ClientOptions(allow_plaintext=not self.sealed), now=scene.now)
        server = ServerSession(server_key=key, now=scene.now)
        line = scene.dial("comet", client, server, delay_s=scene.think(0.025, 0.5))
        line.backstage["private"] = private
        line.on_client = lambda event: self._heard(line, client, event)
        line.on_server = lambda event: self._asked(line, server, event)
        yield line.round_trip_s
        if life == 0 and self.careless:
            line.act(lambda: client.send(Auth(client_id=self.client_id, token="t-expired")))
            yield line.round_trip_s + 0.5
        line.act(lambda: client.send(Auth(client_id=self.client_id, token=self.token)))
        while not client.authenticated:
            yield 0.02
        if self.sealed:
            yield from self._exchange(line, client)
        self.line = line
        yield from self._settle(line, client, life)
        yield from self._sleep(line, client)
        self.line = None
        yield from self._leave(line, client, last=last)

    def _exchange(self, line: Line, client: ClientSession) -> Actor:
        """From here on content is sealed; the hub notes the key in its key log."""
        secret, eph_private = (self.scene.rng.randbytes(32) for _ in range(2))
        line.backstage |= {"secret": secret, "eph_private": eph_private}
        line.act(lambda: client.exchange_key(secret=secret, eph_private=eph_private))
        while client.state != "keyed":
            yield 0.02

    def _note_key(self, line: Line) -> None:
        up, down = (bytes(stream) for stream in line.streams)
        frames = exchange_frames(up, down)
        key = content_key(line.backstage["secret"], *frames)
        said = {"protocol": "comet", "client_id": self.client_id, "content_key": key.hex()}
        self.scene.keys(line, json.dumps(said))

    def _settle(self, line: Line, client: ClientSession, life: int) -> Actor:
        """What a phone asks once it is in; several commands may be under way."""
        rng = self.scene.rng
        extra = (f"os={rng.randint(9, 15)}", f"app=4.{rng.randint(0, 40)}")
        environ = ReportEnviron(
            network_type=rng.randint(0, 3),
            isp=rng.randint(0, 3),
            phone_type=rng.choice(_MODELS),
            extra=extra[: rng.randint(0, 2)],
        )
        line.act(lambda: client.send(environ))
        yield self.scene.think(0.05)
        line.act(lambda: client.send(GetTopicList()))
        if life == 0:
            line.act(lambda: client.send(Subscribe(topics=self.topics)))
        line.act(lambda: client.send(GetMessageList()))
        yield self.scene.think(0.3)
        if life and self.scene.chance(0.3):
            line.act(lambda: client.send(Unsubscribe(topics=self.topics[:1])))

    def _sleep(self, line: Line, client: ClientSession) -> Actor:
        """Until the phone is taken elsewhere; now and then it looks at its screen."""
        until = self.scene.now + self.awake_s
        while self.scene.now < until:
            yield self.scene.think(14.0)
            if self.to_ack and not client.closed and self.scene.chance(0.5):
                line.act(partial(self._acknowledge, client, self.to_ack))
                self.to_ack = []

    def _leave(self, line: Line, client: ClientSession, *, last: bool) -> Actor:
        ending = self.scene.rng.random()
        if ending < 0.08:
            line.act(lambda: client.send(GetMessageList()))
            line.close("reset")
        elif ending < 0.14 and last:
            line.fall_silent()
        else:
            yield 1.0
            line.act(client.close)
            line.close("client" if ending < 0.85 else "server")
        yield line.round_trip_s

    # -- the phone hears ---------------------------------------------------------------------

    def _heard(self, line: Line, client: ClientSession, event: Event) -> None:
        if isinstance(event, Notified):
            self._noticed(line, client, (event.notification.msg_id,))
        elif isinstance(event, Replied) and isinstance(event.reply, MessageList):
            self._noticed(line, client, tuple(n.msg_id for n in event.reply.messages))

    def _noticed(self, line: Line, client: ClientSession, ids: tuple[str, ...]) -> None:
        """Most are acknowledged at once, some when the phone is next looked at, some never."""
        prompt = [each for each in ids if self.scene.chance(0.6)]
        late = [each for each in ids if each not in prompt]
        self.to_ack += [each for each in late if not self.forgetful or self.scene.chance(0.4)]
        if prompt:
            line.later(self.scene.think(0.04), partial(self._acknowledge, client, prompt))

    def _acknowledge(self, client: ClientSession, ids: list[str]) -> None:
        if client.authenticated:
            client.send(MessageAck(msg_ids=tuple(dict.fromkeys(ids))))

    # -- the hub -----------------------------------------------------------------------------

    def _publish(self) -> None:
        private = self.scene.chance(0.4)
        msg_id = self.scene.numbers.text("private" if private else "topic")
        note = Notification(
            msg_type=1 if private else 2,
            msg_id=msg_id,
            content=sentence(self.scene.rng).encode(),
            ts=EPOCH_MS + int(self.scene.now * 1000),
        )
        topic = None if private else self.scene.rng.choice(self.topics)
        self.scene.tell("publish", id=msg_id, topic=topic, client=self.client_id)
        self.inbox[msg_id] = note
        line = self.line
        if line is not None:
            line.later(self.scene.think(0.001), lambda: self._push(line, note))

    def _push(self, line: Line, note: Notification) -> None:
        server = line.server
        assert isinstance(server, ServerSession)
        if server.can_push and (not self.sealed or server.state == "keyed"):
            server.send(note)

    def _asked(self, line: Line, server: ServerSession, event: Event) -> None:
        if isinstance(event, KeyExchanged):
            self._note_key(line)
        if isinstance(event, AuthRequested):
            good = event.token == self.token
            answer = server.accept if good else lambda: server.refuse(ErrorCode.TOKEN_ILLEGAL)
            line.later(self.scene.think(_LATENCY_S[Auth], 0.5), answer)
        elif isinstance(event, Requested):
            command = event.command
            delay_s = self.scene.think(_LATENCY_S[type(command)], 0.5)
            line.later(delay_s, lambda: server.send(self._answer(server, command)))

    def _answer(self, server: ServerSession, command: object) -> Ok | TopicList | MessageList:
        match command:
            case GetTopicList():
                return TopicList(topics=self.topics)
            case GetMessageList():
                return MessageList(messages=server.page(list(self.inbox.values())))
            case MessageAck():
                for each in command.msg_ids:
                    self.inbox.pop(each, None)
        return Ok()
