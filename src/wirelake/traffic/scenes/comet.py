"""Phones on comet: they sign on, subscribe, sleep, reconnect, and acknowledge late or never.

A phone has an inbox at the hub. A notification is pushed at once while the phone is connected, and
queued otherwise; until the phone has acknowledged it, every message list repeats it. So a
notification may be sent several times, acknowledged hours later, or never.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wirelake.protocols.comet import layout
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
from wirelake.protocols.comet.sealing import (
    ContentOpener,
    ContentSealer,
    X25519ServerKey,
    content_key,
    derive_wrap_key,
    transcript_1,
)
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

from ..packets.numbers import Bytes
from ..packets.packet_template import (
    Draw,
    KeyLogColumns,
    PacketTemplate,
    Resealer,
    State,
    StreamColumns,
)
from .provider import Frame, MessageInfo, ProtocolScenes, Scenario
from .scene import C2S, EPOCH_MS, S2C, Actor, Scene, SceneConnection, sentence

__all__ = ["SCENES", "phone"]

_PROTOCOL: Final = "comet"
_TOPICS: Final = (
    "@news",
    "@sport",
    "@weather/today",
    "@city/42",
    "@game/raid",
    "@game/guild",
    "@shop/sale",
    "@alerts",
)
_LATENCY_S: Final[dict[type, float]] = {
    Auth: 0.012,
    GetTopicList: 0.004,
    Subscribe: 0.006,
    Unsubscribe: 0.005,
    GetMessageList: 0.009,
    MessageAck: 0.002,
    ReportEnviron: 0.003,
}
"""Median response time of the hub, by command."""
_MODELS: Final = ("Pixel 8", "iPhone15,3", "MI 6", "Nokia 3310", "SM-S918B", "PLUS 9 Pro")


def phone(scene: Scene, *, sealed: bool = False) -> None:
    """Play one phone and the hub."""
    _Phone(scene, sealed).begin()


class _Phone:
    """A phone, its inbox, and its successive connections."""

    def __init__(self, scene: Scene, sealed: bool):
        self.scene = scene
        self.sealed = sealed
        self.client_id = scene.numbers.text("client")
        self.token = scene.numbers.text("token")
        self.topics = _topics(scene.rng)
        self.inbox: dict[str, Notification] = {}
        self.to_ack: list[str] = []
        self.connection: SceneConnection | None = None
        self.forgetful = scene.chance(0.35)
        """Whether it never acknowledges some notifications."""
        self.careless = scene.chance(0.15)
        """Whether its first token is wrong."""
        self.awake_s = scene.delay(60.0)

    def begin(self) -> None:
        """Start the phone, and publish for it."""
        count = self.scene.rng.choice((1, 1, 2, 2, 3))
        span_s = count * (self.awake_s + 40.0)
        self.scene.start(self._run(count))
        for _ in range(self.scene.rng.randint(2, 14)):
            self.scene.after(self.scene.rng.uniform(0.5, 0.8 * span_s), self._publish)

    def _run(self, count: int) -> Actor:
        for n in range(count):
            yield from self._connected(n, last=n == count - 1)
            yield self.scene.delay(20.0)

    # -- a connection ------------------------------------------------------------------------

    def _connected(self, n: int, *, last: bool) -> Actor:
        scene, rng = self.scene, self.scene.rng
        private = rng.randbytes(32)
        key = X25519ServerKey(private) if self.sealed else None
        client = ClientSession(ClientOptions(allow_plaintext=not self.sealed), now=scene.now)
        server = ServerSession(server_key=key, now=scene.now)
        connection = scene.connect(_PROTOCOL, client, server, delay_s=scene.delay(0.025, 0.5))
        connection.secrets["private"] = private
        connection.on_client = lambda event: self._on_client(connection, client, event)
        connection.on_server = lambda event: self._on_server(connection, server, event)
        yield connection.round_trip_s
        if n == 0 and self.careless:
            connection.act(lambda: client.send(Auth(client_id=self.client_id, token="t-expired")))
            yield connection.round_trip_s + 0.5
        connection.act(lambda: client.send(Auth(client_id=self.client_id, token=self.token)))
        while not client.authenticated:
            yield 0.02
        if self.sealed:
            yield from self._exchange(connection, client)
        self.connection = connection
        yield from self._settle(connection, client, n)
        yield from self._sleep(connection, client)
        self.connection = None
        yield from self._leave(connection, client, last=last)

    def _exchange(self, connection: SceneConnection, client: ClientSession) -> Actor:
        """Exchange keys; from here on content is sealed, and the hub logs the key."""
        secret, eph_private = (self.scene.rng.randbytes(32) for _ in range(2))
        connection.secrets |= {"secret": secret, "eph_private": eph_private}
        connection.act(lambda: client.exchange_key(secret=secret, eph_private=eph_private))
        while client.state != "keyed":
            yield 0.02

    def _log_key(self, connection: SceneConnection) -> None:
        up, down = (bytes(stream) for stream in connection.streams)
        frames = _exchange_frames(up, down)
        key = content_key(connection.secrets["secret"], *frames)
        entry = {"protocol": _PROTOCOL, "client_id": self.client_id, "content_key": key.hex()}
        self.scene.record_keys(connection, json.dumps(entry))

    def _settle(self, connection: SceneConnection, client: ClientSession, n: int) -> Actor:
        """Send the commands of a phone that has just signed on; several may be in flight."""
        rng = self.scene.rng
        extra = (f"os={rng.randint(9, 15)}", f"app=4.{rng.randint(0, 40)}")
        environ = ReportEnviron(
            network_type=rng.randint(0, 3),
            isp=rng.randint(0, 3),
            phone_type=rng.choice(_MODELS),
            extra=extra[: rng.randint(0, 2)],
        )
        connection.act(lambda: client.send(environ))
        yield self.scene.delay(0.05)
        connection.act(lambda: client.send(GetTopicList()))
        if n == 0:
            connection.act(lambda: client.send(Subscribe(topics=self.topics)))
        connection.act(lambda: client.send(GetMessageList()))
        yield self.scene.delay(0.3)
        if n and self.scene.chance(0.3):
            connection.act(lambda: client.send(Unsubscribe(topics=self.topics[:1])))

    def _sleep(self, connection: SceneConnection, client: ClientSession) -> Actor:
        """Stay connected; acknowledge from time to time."""
        until = self.scene.now + self.awake_s
        while self.scene.now < until:
            yield self.scene.delay(14.0)
            if self.to_ack and not client.closed and self.scene.chance(0.5):
                connection.act(partial(self._acknowledge, client, self.to_ack))
                self.to_ack = []

    def _leave(self, connection: SceneConnection, client: ClientSession, *, last: bool) -> Actor:
        ending = self.scene.rng.random()
        if ending < 0.08:
            connection.act(lambda: client.send(GetMessageList()))
            connection.close("reset")
        elif ending < 0.14 and last:
            connection.go_silent()
        else:
            yield 1.0
            connection.act(client.close)
            connection.close("client" if ending < 0.85 else "server")
        yield connection.round_trip_s

    # -- phone -------------------------------------------------------------------------------

    def _on_client(self, connection: SceneConnection, client: ClientSession, event: Event) -> None:
        if isinstance(event, Notified):
            self._on_notifications(connection, client, (event.notification.msg_id,))
        elif isinstance(event, Replied) and isinstance(event.reply, MessageList):
            self._on_notifications(
                connection, client, tuple(n.msg_id for n in event.reply.messages)
            )

    def _on_notifications(
        self, connection: SceneConnection, client: ClientSession, ids: tuple[str, ...]
    ) -> None:
        """Acknowledge most notifications at once, some later, some never."""
        prompt = [each for each in ids if self.scene.chance(0.6)]
        late = [each for each in ids if each not in prompt]
        self.to_ack += [each for each in late if not self.forgetful or self.scene.chance(0.4)]
        if prompt:
            connection.later(self.scene.delay(0.04), partial(self._acknowledge, client, prompt))

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
        self.scene.record_fact(_PROTOCOL, "publish", id=msg_id, topic=topic, client=self.client_id)
        self.inbox[msg_id] = note
        connection = self.connection
        if connection is not None:
            connection.later(self.scene.delay(0.001), lambda: self._push(connection, note))

    def _push(self, connection: SceneConnection, note: Notification) -> None:
        server = connection.server
        assert isinstance(server, ServerSession)
        if server.can_push and (not self.sealed or server.state == "keyed"):
            server.send(note)

    def _on_server(self, connection: SceneConnection, server: ServerSession, event: Event) -> None:
        if isinstance(event, KeyExchanged):
            self._log_key(connection)
        if isinstance(event, AuthRequested):
            good = event.token == self.token
            answer = server.accept if good else lambda: server.refuse(ErrorCode.TOKEN_ILLEGAL)
            connection.later(self.scene.delay(_LATENCY_S[Auth], 0.5), answer)
        elif isinstance(event, Requested):
            command = event.command
            delay_s = self.scene.delay(_LATENCY_S[type(command)], 0.5)
            connection.later(delay_s, lambda: server.send(self._answer(server, command)))

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


def _topics(rng: random.Random) -> tuple[str, ...]:
    """Return the topics that a phone subscribes to."""
    return tuple(rng.sample(_TOPICS, rng.randint(1, 4)))


# -- reading back ------------------------------------------------------------------------------

_MESSAGES: Final[dict[type, tuple[str, str]]] = {
    layout.Auth: ("request", "auth"),
    layout.ExchangeKey: ("request", "exchange_key"),
    layout.GetTopicList: ("request", "get_topic_list"),
    layout.Subscribe: ("request", "subscribe"),
    layout.Unsubscribe: ("request", "unsubscribe"),
    layout.GetMessageList: ("request", "get_message_list"),
    layout.Heartbeat: ("request", "heartbeat"),
    layout.MessageAck: ("request", "message_ack"),
    layout.ReportEnviron: ("request", "report_environ"),
    layout.Ok: ("response", "ok"),
    layout.Error: ("response", "error"),
    layout.AuthSuccess: ("response", "auth_success"),
    layout.TopicList: ("response", "topic_list"),
    layout.MessageList: ("response", "message_list"),
    layout.Notification: ("push", "message"),
}


def _describe(_: ProtocolScenes, frame: Frame) -> None:
    message = frame.message
    kind, name = _MESSAGES[type(message)]
    info = frame.info = MessageInfo(kind, name)
    if kind == "request":
        info.target = name
    elif kind == "response":
        info.status = "ok"
    match message:
        case layout.Auth():
            info.client = message.client_id
            frame.ids += [message.client_id.encode(), message.token.encode()]
        case layout.Error():
            info.status, info.reason = str(int(message.error_code)), message.reason
        case layout.MessageAck():
            info.ids = message.msg_ids
            frame.ids += [each.encode() for each in message.msg_ids]
        case layout.Heartbeat():
            info.heartbeat = True
        case layout.ReportEnviron():
            info.device = {
                "network_type": layout.NetworkType(message.network_type).name.lower(),
                "isp": layout.Isp(message.isp).name.lower(),
                "phone_type": message.phone_type,
            }
        case layout.Notification():
            info.body_bytes = len(message.content)
            _describe_notifications(frame, (message,))
        case layout.MessageList():
            _describe_notifications(frame, message.messages)


def _describe_notifications(frame: Frame, found: tuple[Notification, ...]) -> None:
    frame.info.ids = tuple(each.msg_id for each in found)
    frame.ids += [each.msg_id.encode() for each in found]
    for each in found:
        frame.times.append(("i64be", each.ts.to_bytes(8, "big"), each.msg_id))


# -- encrypting instances ----------------------------------------------------------------------

_KEY_BYTES: Final = 32
_WRAPPED_BYTES: Final = 80
"""Size of a wrapped secret: an ephemeral key, the secret, a tag."""


class _SealedContent(NamedTuple):
    """A sealed notification in a stream."""

    head: int
    """Offset of its type; id and time follow and belong to the instance."""
    content: int
    """Offset of the sealed content."""
    size: int
    plain: bytes


class _Resealer:
    """Another secret in exchange_key, and all content sealed with the key derived from it."""

    def __init__(self, packets: PacketTemplate, place: int):
        connection = packets.template.connections[place]
        secrets = connection.scene.secrets
        self.key_log = KeyLogColumns(packets, place)
        self.streams = [StreamColumns.of(packets, place, direction) for direction in (C2S, S2C)]
        up, down = (stream.data for stream in connection.streams)
        frames = _exchange_frames(up, down)
        self.auth, self.success, self.exchange = (
            _find(data, frame) for data, frame in zip((up, down, up), frames, strict=True)
        )
        self.secret_at = self.exchange[1] - _WRAPPED_BYTES
        self.eph_public = up[self.secret_at : self.secret_at + _KEY_BYTES]
        private = X25519PrivateKey.from_private_bytes(secrets["private"])
        self.shared = private.exchange(X25519PublicKey.from_public_bytes(self.eph_public))
        opener = ContentOpener(content_key(secrets["secret"], *frames))
        self.contents = [
            each
            for frame in connection.streams[S2C].frames
            for each in _sealed_contents(frame.start, frame.message, opener)
        ]

    def seal(self, row: Bytes, draw: Draw, state: State) -> None:  # noqa: ARG002
        """Encrypt the connection of one instance."""
        # The shared X25519 secret stays that of the template: an exchange takes 70 µs, and the
        # wrapped secret alone makes all keys of an instance its own. Auth and its reply are read
        # from the row, because ids and tokens in them are the instance's and part of the key.
        up, down = self.streams
        secret = draw(_KEY_BYTES)
        auth, success = up.read(row, *self.auth), down.read(row, *self.success)
        key = derive_wrap_key(transcript_1(auth, success), self.shared)
        wrapped = AESGCM(key).encrypt(bytes(12), secret, self.eph_public)
        up.write(row, self.secret_at + _KEY_BYTES, wrapped)
        content = content_key(secret, auth, success, up.read(row, *self.exchange))
        sealer = ContentSealer(content)
        for each in self.contents:
            head = down.read(row, each.head, each.content)
            end = each.content + each.size
            ts = int.from_bytes(down.read(row, end, end + 8), "big")
            sealed = sealer.seal(each.plain, msg_type=head[0], msg_id=head[3:-2], ts=ts)
            down.write(row, each.content, sealed)
        up.repeat(row)
        down.repeat(row)
        self.key_log.write(row, content_key=content)


def _reseal(packets: PacketTemplate, place: int) -> Resealer | None:
    is_sealed = "secret" in packets.template.connections[place].scene.secrets
    return _Resealer(packets, place) if is_sealed else None


def _exchange_frames(up: bytes, down: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the frames that a content key depends on: the auth that succeeded, its response, and
    the exchange_key."""
    scenes = SCENES[0]
    asked = list(scenes.frames(C2S, up))
    answered = [frame for frame in scenes.frames(S2C, down) if frame.info.kind == "response"]
    n = next(n for n, frame in enumerate(answered) if frame.info.name == "auth_success")
    key = next(frame for frame in asked if frame.info.name == "exchange_key")
    auth, success = asked[n], answered[n]
    return up[auth.start : auth.stop], down[success.start : success.stop], up[key.start : key.stop]


def _find(data: bytes, frame: bytes) -> tuple[int, int]:
    at = data.index(frame)
    return at, at + len(frame)


def _sealed_contents(start: int, message: Any, opener: ContentOpener) -> Iterator[_SealedContent]:
    """Locate the sealed notifications of a frame that begins at `start`."""
    listed = isinstance(message, MessageList)
    found = message.messages if listed else (message,)
    at = start + (4 if listed else 3)  # length, type and, of a list, the count
    for each in found:
        if not isinstance(each, Notification):
            return
        content = at + 1 + 2 + len(each.msg_id) + 2
        plain = opener.open(each.content, msg_type=each.msg_type, msg_id=each.msg_id, ts=each.ts)
        yield _SealedContent(at, content, len(each.content), plain)
        at = content + len(each.content) + 8


def _break_head(raw: Bytes) -> None:
    """Write a length of zero: no frame is that short."""
    raw[:2] = 0


SCENES: Final = (
    ProtocolScenes(
        _PROTOCOL,
        scenarios=(
            Scenario("phone", phone, (_PROTOCOL,), 1.0, 1.5, position=1),
            Scenario(
                "sealed_phone", partial(phone, sealed=True), (_PROTOCOL,), 0.12, 0.4, position=2
            ),
        ),
        describe=_describe,
        reseal=_reseal,
        required=frozenset({"auth", "auth_success", "exchange_key"}),
        head_bytes=3,
        break_head=_break_head,
    ),
)
"""Simulated comet traffic."""
