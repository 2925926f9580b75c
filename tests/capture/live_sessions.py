"""Real sessions of every protocol that talk over sockets, and what their applications hear.

A `Talk` has two sessions and a script. `Line` carries its bytes over a TCP connection of the
loopback interface, in one thread: what one end sends, the other end reads before anything else
happens. All keys are throw-away values.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wirelake.capture.format.items import Direction
from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet import sealing
from wirelake.protocols.comet import session as comet_session
from wirelake.protocols.comet.limits import ClientOptions as CometOptions
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp import session as esnp_session
from wirelake.protocols.magline import session as magline
from wirelake.protocols.sansio import Event, Failed, Role, Session
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny import limits as tny_limits
from wirelake.protocols.tny import session as tny_session
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import Relayed
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink
from wirelake.protocols.tny.transform import TransformConfig

__all__ = ["TALKS", "Heard", "Line", "Talk"]

CHUNK = 16_384
"""What one end sends before the other reads: fits every socket buffer."""
BODIES = [b"", b"a", bytes(range(256)), b"middling " * 300, b"long " * 40_000]

Heard = tuple[str, dict[str, Any]]
"""The protocol of a message, and some of its columns."""


@dataclass
class Talk:
    """Two sessions and what their applications do."""

    protocol: str
    client: Session
    server: Session
    script: list[Callable[[], Any]]
    """What happens, step by step; after each step bytes are carried until both ends are silent."""
    serve: Callable[[Event], Any]
    """What the server does when it hears something."""
    columns: Callable[[Event], Heard | None]
    """What a row must say of a message that was heard."""
    hear: Callable[[Event], Any] = lambda _: None
    """What the client does when it hears something."""
    keys: Callable[[Line], str | None] = lambda _: None
    """The line of a key log, once the talk is over."""


@dataclass
class Line:
    """A TCP connection that carries a talk."""

    talk: Talk
    listener: socket.socket
    heard: dict[Direction, list[Heard]] = field(default_factory=lambda: {"c2s": [], "s2c": []})
    received: dict[Direction, bytearray] = field(
        default_factory=lambda: {"c2s": bytearray(), "s2c": bytearray()}
    )

    def __post_init__(self) -> None:
        self.port = int(self.listener.getsockname()[1])

    def run(self) -> None:
        """Connects, talks, and closes."""
        talk = self.talk
        with socket.create_connection(self.listener.getsockname()[:2]) as near:
            far, _ = self.listener.accept()
            with far:
                for step in talk.script:
                    step()
                    while self._carry(near, far):
                        pass
                near.shutdown(socket.SHUT_WR)
                assert far.recv(1) == b""
                far.shutdown(socket.SHUT_WR)
                assert near.recv(1) == b""

    def _carry(self, near: socket.socket, far: socket.socket) -> bool:
        """What both ends have to say; whether it was anything."""
        talk = self.talk
        up, down = talk.client.to_send(), talk.server.to_send()
        self._send(up, near, far, "c2s", talk.server)
        self._send(down, far, near, "s2c", talk.client)
        return bool(up or down)

    def _send(
        self, data: bytes, source: socket.socket, target: socket.socket, way: Direction, to: Session
    ) -> None:
        for at in range(0, len(data), CHUNK):
            piece = data[at : at + CHUNK]
            source.sendall(piece)
            left = len(piece)
            while left:
                got = target.recv(left)
                assert got
                left -= len(got)
                self.received[way] += got
                to.receive(got, 0.0)
        for event in to.events():
            assert not isinstance(event, Failed), event
            (self.talk.serve if way == "c2s" else self.talk.hear)(event)
            columns = self.talk.columns(event)
            if columns is not None:
                self.heard[way].append(columns)


# -- comet -----------------------------------------------------------------------------------


def _comet(sealed: bool) -> Talk:
    key = sealing.X25519ServerKey(bytes([7]) * 32) if sealed else None
    options = CometOptions(allow_plaintext=not sealed)
    client = comet_session.ClientSession(options)
    server = comet_session.ServerSession(server_key=key)
    name = "phone-sealed" if sealed else "phone-clear"
    secret = bytes([9]) * 32

    def serve(event: Event) -> None:
        if isinstance(event, comet_session.AuthRequested):
            server.accept()
        elif isinstance(event, comet_session.Requested):
            server.send(comet.Ok())

    def columns(event: Event) -> Heard | None:
        match event:
            case comet_session.AuthRequested():
                return "comet", {"name": "auth", "kind": "request", "client": event.client_id}
            case comet_session.Requested():
                return "comet", {"name": "subscribe", "kind": "request"}
            case comet_session.Notified():
                row = {"name": "message", "body": event.content, "kind": "push", "sealed": False}
                return "comet", {**row, "ids": [event.notification.msg_id]}
            case _:
                return None

    def push(number: int) -> Callable[[], None]:
        body = BODIES[number] if number < 4 else bytes(1_000)
        return lambda: server.send(
            comet.Notification(msg_type=1, msg_id=f"note{number:012}", content=body, ts=number)
        )

    def keys(line: Line) -> str:
        up, down = line.received["c2s"], line.received["s2c"]
        first = 2 + int.from_bytes(up[:2], "big")
        second = first + 2 + int.from_bytes(up[first : first + 2], "big")
        answer = 2 + int.from_bytes(down[:2], "big")
        found = sealing.content_key(
            secret, bytes(up[:first]), bytes(down[:answer]), bytes(up[first:second])
        )
        return json.dumps({"protocol": "comet", "client_id": name, "content_key": found.hex()})

    script: list[Callable[[], Any]] = [
        lambda: client.send(comet.Auth(client_id=name, token="throw-away"))
    ]
    if sealed:
        script.append(lambda: client.exchange_key(secret=secret, eph_private=bytes([5]) * 32))
    script += [lambda: client.send(comet.Subscribe(topics=("@news", "@天气")))]
    script += [push(number) for number in range(5)]
    return Talk(
        "comet",
        client,
        server,
        script,
        serve,
        columns,
        keys=keys if sealed else lambda _: None,
    )


# -- ESNP ------------------------------------------------------------------------------------


def _payload(message: esnp.Message) -> bytes | None:
    return next((row.data for row in message.rows if isinstance(row, esnp.Payload)), None)


def _esnp() -> Talk:
    client = esnp_session.EsnpSession(Role.CLIENT, first_id=70_000)
    server = esnp_session.EsnpSession(Role.SERVER)
    where = (
        esnp.Address(kind=esnp.AddressKind.SERVICE, value="room"),
        esnp.Address(kind=esnp.AddressKind.OP, value="join"),
    )

    def serve(event: Event) -> None:
        if isinstance(event, esnp_session.Requested):
            body = _payload(event.call.message)
            server.answer(event.call, (esnp.Payload(data=(body or b"") + b"!"),))

    def columns(event: Event) -> Heard | None:
        match event:
            case esnp_session.Requested():
                row = {"kind": "request", "message_id": event.call.id, "target": "room/join"}
                return "esnp", {**row, "body": _payload(event.call.message)}
            case esnp_session.Answered():
                row = {"kind": "response", "reply_to": event.id, "status": "ok"}
                return "esnp", {**row, "body": _payload(event.message)}
            case esnp_session.Announced():
                return "esnp", {"kind": "event", "body": _payload(event.message)}
            case _:
                return None

    def ask(body: bytes) -> Callable[[], Any]:
        return lambda: client.request((*where, esnp.Payload(data=body)))

    def tell(body: bytes) -> Callable[[], Any]:
        return lambda: server.announce((*where, esnp.Payload(data=body)))

    script = [step(body) for body in BODIES for step in (ask, tell)]
    return Talk("esnp", client, server, script, serve, columns)


# -- tny and its relay -----------------------------------------------------------------------

SECURITY = ("one throw-away key", "another", "a third")


def _tny(secure: bool) -> Talk:
    config = TransformConfig(
        security_keys=SECURITY if secure else (), verify=secure, encrypt=secure, waste=secure
    )
    drawn = iter(range(1 << 30))

    def random(size: int) -> bytes:
        return bytes([next(drawn) & 0xFF]) * size

    client = tny_session.ClientSession(
        tny_limits.ClientOptions(reading=config, writing=config), access_id=12_345, random=random
    )
    server = tny_session.ServerSession(
        tny_limits.ServerOptions(reading=config, writing=config), random=random
    )

    def serve(event: Event) -> None:
        if isinstance(event, tny_session.Requested):
            server.respond(event.message, event.message.body)
            server.push(2003, event.message.body)

    def columns(event: Event) -> Heard | None:
        match event:
            case tny_session.Requested():
                return "tny", _tny_columns(event.message)
            case tny_session.Replied():
                said = {"reply_to": event.request.id, "status": "ok"}
                return "tny", {**_tny_columns(event.response), **said}
            case tny_session.Pushed():
                return "tny", _tny_columns(event.message)
            case _:
                return None

    def ask(body: bytes) -> Callable[[], Any]:
        return lambda: client.request(2002, body)

    script = [ask(body) for body in BODIES]
    line = json.dumps({"protocol": "tny", "security_keys": SECURITY})
    return Talk(
        "tny",
        client,
        server,
        [*script, client.ping],
        serve,
        columns,
        keys=lambda _: line if secure else None,
    )


def _tny_columns(message: tny.Message) -> dict[str, Any]:
    kind = ("request", "response", "push")[message.mode]
    number = {"message_id": message.id, "target": str(message.protocol)}
    return {"kind": kind, **number, "body": message.body, "sealed": False}


def _relay() -> Talk:
    users, registry = GatewayTunnels(1001), LinkRegistry()
    opening = tny.LinkOpen(service="gate", instance=1001, key="throw-away")
    client = GatewayLink(users, service="game", opening=opening)
    server = ServerLink(registry)

    def serve(event: Event) -> None:
        if isinstance(event, Relayed):
            answer = tny.Message(
                id=event.message.id + 1,
                mode=tny.Mode.RESPONSE,
                protocol=event.message.protocol,
                to_message=event.message.id,
                body=event.message.body,
            )
            registry.relay(event.key, answer)

    def columns(event: Event) -> Heard | None:
        if not isinstance(event, Relayed):
            return None
        return "tny", _tny_columns(event.message)

    def ask(number: int, body: bytes) -> Callable[[], Any]:
        message = tny.Message(id=number, protocol=2002, body=body)
        return lambda: users.relay("game", 12_345, message)

    script: list[Callable[[], Any]] = [lambda: None]
    script.append(lambda: users.connect("game", 12_345, ip=bytes(4), port=8080))
    script += [ask(number, body) for number, body in enumerate(BODIES, 1)]
    return Talk("relay", client, server, script, serve, columns)


# -- magline ---------------------------------------------------------------------------------


def _entropy(start: int) -> Callable[[int], bytes]:
    drawn = [start]

    def draw(size: int) -> bytes:
        drawn[0] += 1
        return bytes([drawn[0]]) * size

    return draw


def _magline() -> Talk:
    keys = magline.ServerKeys(allow_anonymous=True)
    client = magline.ClientSession(
        key=magline.ClientKey(allow_anonymous=True), entropy=_entropy(40)
    )
    server = magline.ServerSession(keys=keys, entropy=_entropy(140))

    def serve(event: Event) -> None:
        if isinstance(event, magline.Requested):
            server.send(magline.Reply(event.seq, event.data + b"!"))

    def columns(event: Event) -> Heard | None:
        match event:
            case magline.Requested():
                row = {"kind": "request", "message_id": event.seq, "body": event.data}
            case magline.Replied():
                row = {"kind": "response", "reply_to": event.seq, "body": event.data}
            case magline.Pushed():
                row = {"kind": "push", "body": event.data}
            case _:
                return None
        return "magline", {**row, "target": str(event.business_cmd), "sealed": False}

    def ask(body: bytes) -> Callable[[], Any]:
        return lambda: client.send(magline.Request(7, body))

    def tell(body: bytes) -> Callable[[], Any]:
        return lambda: server.send(magline.Push(8, body))

    script: list[Callable[[], Any]] = [client.connect]
    script += [step(body) for body in BODIES for step in (ask, tell)]
    return Talk("magline", client, server, script, serve, columns, keys=lambda _: client.key_log())


TALKS: dict[str, Callable[[], Talk]] = {
    "comet in clear": lambda: _comet(sealed=False),
    "comet sealed": lambda: _comet(sealed=True),
    "esnp": _esnp,
    "tny": lambda: _tny(secure=False),
    "tny with all options": lambda: _tny(secure=True),
    "relay": _relay,
    "magline": _magline,
}
