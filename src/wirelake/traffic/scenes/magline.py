"""Devices on magline: key agreement, requests, pushes, lost connections and resumption.

A device knows its server by a pinned key, by a pre-shared key, or not at all. Pushes for an absent
device are queued with its session and sent when it resumes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from wirelake.protocols.magline import layout
from wirelake.protocols.magline.handshake import (
    KEY_SIZE,
    SEALED_SID_SIZE,
    SID_SIZE,
    Mode,
    SessionKeys,
    bind_syn,
    derive_keys,
    resume_sid,
    seal_sid,
    x25519_public,
    x25519_shared,
)
from wirelake.protocols.magline.records import RecordCipher
from wirelake.protocols.magline.resumption import ClientKey, MemoryStore, ServerKeys
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

from ..packets.numbers import Bytes
from ..packets.packet_template import (
    Draw,
    KeyLogColumns,
    PacketTemplate,
    Resealer,
    State,
    StreamColumns,
)
from .provider import Connection, Frame, MessageInfo, ProtocolScenes, Scenario
from .scene import C2S, S2C, Actor, Scene, SceneConnection, blob

__all__ = ["SCENES", "device"]

_COMMANDS: Final = {101: 0.004, 102: 0.011, 205: 0.030, 310: 0.002}
"""Business commands, with the median time of each."""
_PUSHES: Final = (501, 502)
_BUSY: Final = 0x10001
"""An application error number."""


class Draws:
    """Random bytes for one session, kept because instances derive their own keys from them."""

    def __init__(self, scene: Scene):
        self._scene = scene
        self.drawn: list[bytes] = []

    def __call__(self, size: int) -> bytes:
        self.drawn.append(self._scene.rng.randbytes(size))
        return self.drawn[-1]


def device(scene: Scene) -> None:
    """Play one device and its server."""
    scene.start(_Device(scene).run(scene.rng.choice((1, 2, 2, 3))))


class _Device:
    """A device and its successive connections."""

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
        self.connection: SceneConnection | None = None
        self.last_session = b""

    def run(self, connections: int) -> Actor:
        """Connect several times; each connection resumes the session of the one before."""
        session: ClientSession | None = None
        for n in range(connections):
            draws = Draws(self.scene)
            ticket = None if session is None else session.ticket
            session = ClientSession(key=self.key, entropy=draws, ticket=ticket, now=self.scene.now)
            yield from self._connected(session, draws, last=n == connections - 1)
            if self.last_session and self.scene.chance(0.6):
                push = Push(self.scene.pick(*_PUSHES), blob(self.scene.rng, 40))
                self.store.queue(self.last_session, push, self.scene.now)
            yield self.scene.delay(8.0)

    def _connected(self, client: ClientSession, draws: Draws, *, last: bool) -> Actor:
        scene = self.scene
        answers = Draws(scene)
        server = ServerSession(keys=self.keys, entropy=answers, store=self.store, now=scene.now)
        connection = scene.connect("magline", client, server, delay_s=scene.delay(0.03, 0.5))
        connection.secrets = {
            "client": draws,
            "server": answers,
            "static": self.static if self.key.pinned is not None else None,
            "psk": self.psk if self.key.psk is not None else None,
            "mode": self.key.mode,
        }
        connection.on_server = lambda event: self._on_server(connection, server, event)
        yield connection.round_trip_s
        connection.act(client.connect)
        while client.state != "open":
            yield 0.02
        yield from self._work(connection, client, server)
        if last or scene.chance(0.3):
            connection.act(client.close)
            connection.close("client")
        else:
            connection.close("reset")
        yield connection.round_trip_s
        server.receive_eof()

    def _work(
        self, connection: SceneConnection, client: ClientSession, server: ServerSession
    ) -> Actor:
        """Send requests, several in flight, with pushes in between; then stay silent."""
        scene = self.scene
        for _ in range(scene.rng.randint(4, 24)):
            request = Request(scene.pick(*_COMMANDS), blob(scene.rng, 48))
            connection.act(partial(client.send, request))
            if scene.chance(0.25):
                push = Push(scene.pick(*_PUSHES), blob(scene.rng, 60))
                connection.later(scene.delay(0.2), partial(self._send, server, push))
            if scene.chance(0.6):
                yield scene.delay(1.5)
        yield scene.pick(1.0, 2.0, 35.0, 70.0)

    def _send(self, server: ServerSession, message: Push | Reply | Failure) -> None:
        if server.state == "open":
            server.send(message)

    def _on_server(self, connection: SceneConnection, server: ServerSession, event: Event) -> None:
        scene = self.scene
        if isinstance(event, Established):
            self.last_session = event.session_id
            scene.record_keys(connection, server.key_log())
        elif isinstance(event, Requested):
            chance = scene.rng.random()
            delay_s = scene.delay(_COMMANDS[event.business_cmd], 0.5)
            answer: Reply | Failure = Reply(event.seq, blob(scene.rng, 64, 8_000))
            if chance < 0.05:
                answer = Failure(event.seq, _BUSY)
            if chance > 0.02:
                connection.later(delay_s, partial(self._send, server, answer))


# -- reading back ------------------------------------------------------------------------------

_KINDS: Final[dict[type, str]] = {
    layout.Syn: "handshake",
    layout.Ack: "handshake",
    layout.Err: "response",
    layout.Pin: "heartbeat",
    layout.Pon: "heartbeat",
    layout.Req: "request",
    layout.Rep: "response",
    layout.Psh: "push",
    layout.Fin: "control",
}


def _describe(_: ProtocolScenes, frame: Frame) -> None:
    body = frame.message.body
    name = type(body).__name__.lower()
    info = frame.info = MessageInfo(_KINDS[type(body)], name, frame.message.seq)
    info.reply_to = frame.message.reply_to
    info.resumes = frame.message.resume is not None
    info.heartbeat = isinstance(body, layout.Pin)
    match body:
        case layout.Req() | layout.Rep() | layout.Psh():
            info.target, info.body_bytes = str(body.business_cmd), len(body.data)
            info.status = "ok" if isinstance(body, layout.Rep) else None
        case layout.Err():
            info.kind = "response" if body.business_cmd else "control"
            info.target, info.status = str(body.business_cmd), str(body.error_number)
        case layout.Fin():
            info.reason = layout.Reason(body.reason_number).name.lower()


# -- encrypting instances ----------------------------------------------------------------------


class _PlainFrame(NamedTuple):
    """A frame before encryption."""

    frame: bytes
    is_data: bool


class _Resealer:
    """SYN and ACK with other Randoms, another session id, and everything derived from them."""

    def __init__(self, packets: PacketTemplate, place: int, before: int | None):
        connection = packets.template.connections[place]
        secrets = connection.scene.secrets
        self.place = place
        self.key_log = KeyLogColumns(packets, place)
        self.streams = [StreamColumns.of(packets, place, direction) for direction in (C2S, S2C)]
        self.syn = _frame(connection, C2S, 0)
        self.ack = _frame(connection, S2C, 0)[:-SEALED_SID_SIZE]
        self.resumes = before if resume_sid(self.syn) is not None else None
        public, static = self.syn[-KEY_SIZE:], secrets["static"]
        # The ephemeral keys stay those of the template, so the key agreements are done once: each
        # takes 70 µs, and Randoms and session id already make all derived keys different.
        self.fixed: dict[str, Any] = {
            "shared": x25519_shared(secrets["server"].drawn[0], public),
            "server_public": None if static is None else x25519_public(static),
            "static_shared": None if static is None else x25519_shared(static, public),
        }
        self.mode, self.psk = secrets["mode"], secrets["psk"]
        old = None if self.resumes is None else packets.template.connections[self.resumes]
        keys = self._keys(self.syn, self.ack, None if old is None else old.scene.secrets["res"])
        secrets["res"] = keys.res
        self.clear = [
            _cleared(connection, direction, RecordCipher(key))
            for direction, key in ((C2S, keys.c2s), (S2C, keys.s2c))
        ]

    def _keys(self, syn: bytes, ack: bytes, res: bytes | None) -> SessionKeys:
        mode = self.mode if res is None else self.mode | Mode.RESUME
        psk = self.psk if res is None else None
        return derive_keys(mode=mode, syn=syn, ack_clear=ack, psk=psk, resumption=res, **self.fixed)

    def seal(self, row: Bytes, draw: Draw, state: State) -> None:
        """Encrypt the connection of one instance."""
        # In the order of the handshake: the keys depend on SYN and ACK as they are on the wire, and
        # a resumed session also on the id and secret of the connection before it.
        random, answer, sid = draw(KEY_SIZE), draw(KEY_SIZE), draw(SID_SIZE)
        syn = self.syn[: -2 * KEY_SIZE] + random + self.syn[-KEY_SIZE:]
        res: bytes | None = None
        if self.resumes is not None:
            old, res = state[self.resumes]
            syn = bind_syn(res, syn.replace(resume_sid(syn) or b"", old, 1))
        ack = self.ack[: -2 * KEY_SIZE] + answer + self.ack[-KEY_SIZE:]
        keys = self._keys(syn, ack, res)
        state[self.place] = sid, keys.res
        heads = (syn, ack + seal_sid(keys, ack, sid))
        ciphers = (RecordCipher(keys.c2s), RecordCipher(keys.s2c))
        for stream, head, clear, cipher in zip(
            self.streams, heads, self.clear, ciphers, strict=True
        ):
            stream.write(row, 0, head + b"".join([_sealed(each, cipher) for each in clear]))
            stream.repeat(row)
        named = {name: getattr(keys, name) for name in ("c2s_enc", "c2s_iv", "s2c_enc", "s2c_iv")}
        self.key_log.write(row, client_random=random, **named)


def _reseal(packets: PacketTemplate, place: int) -> Resealer | None:
    connections = packets.template.connections
    if not connections[place].streams[S2C].frames:
        return None  # without an ACK there are no keys
    earlier = [
        n
        for n, each in enumerate(connections[:place])
        if each.protocol == connections[place].protocol and each.streams[S2C].frames
    ]
    return _Resealer(packets, place, earlier[-1] if earlier else None)


def _frame(connection: Connection, direction: int, n: int) -> bytes:
    stream = connection.streams[direction]
    frame = stream.frames[n]
    return stream.data[frame.start : frame.stop]


def _cleared(connection: Connection, direction: int, cipher: RecordCipher) -> list[_PlainFrame]:
    """Return the frames behind the handshake in clear; ciphers overwrite their tags."""
    found: list[_PlainFrame] = []
    for n, frame in enumerate(connection.streams[direction].frames[1:], 1):
        raw, body = _frame(connection, direction, n), frame.message.body
        if isinstance(body, layout.Req | layout.Rep | layout.Psh):
            plain = cipher.open_data(raw).data
            found.append(_PlainFrame(raw[: len(raw) - len(plain)] + plain, True))
        else:
            found.append(_PlainFrame(raw, False))
    return found


def _sealed(clear: _PlainFrame, cipher: RecordCipher) -> bytes:
    return cipher.seal_data(clear.frame) if clear.is_data else cipher.seal_control(clear.frame)


SCENES: Final = (
    ProtocolScenes(
        "magline",
        scenarios=(Scenario("device", device, ("magline",), 0.4, 0.8, position=6),),
        describe=_describe,
        reseal=_reseal,
        required=frozenset({"syn", "ack"}),
        head_bytes=16,
    ),
)
"""Simulated magline traffic."""
