"""Servers for the load generator that are nothing but the project's own sessions on a socket."""

from __future__ import annotations

import json
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import urandom
from typing import Any

from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet import session as comet_session
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp import session as esnp_session
from wirelake.protocols.magline import session as magline
from wirelake.protocols.sansio import Event, Failed, Role, Session
from wirelake.protocols.tny import session as tny_session

__all__ = ["Heard", "listening"]

_JOIN_S = 30.0


@dataclass
class Heard:
    """What a server was asked, in order, and where it listens."""

    port: int
    asked: list[Any] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    subscribers: list[Callable[[str], None]] = field(default_factory=list)
    """Each pushes a content to its connection."""
    wrong: bool = False
    """Whether sums are wrong, and what is published arrives twice."""


Serve = Callable[[Heard], tuple[Session, Callable[[Event], None]]]
"""Makes the session of a new connection, and what acts on its events."""


# -- protocols ---------------------------------------------------------------------------------


def _comet(heard: Heard) -> tuple[Session, Callable[[Event], None]]:
    session = comet_session.ServerSession()

    def push(content: str) -> None:
        session.send(
            comet.Notification(msg_type=0, msg_id="m" * 16, content=content.encode(), ts=1)
        )

    def act(event: Event) -> None:
        if isinstance(event, comet_session.AuthRequested):
            heard.asked.append(("auth", event.client_id, event.token))
            session.accept()
        elif isinstance(event, comet_session.Requested):
            heard.asked.append(event.command)
            session.send(comet.Ok())
            heard.subscribers.append(push)

    return session, act


def _row_values(rows: tuple[Any, ...]) -> dict[str, Any]:
    return {row.name: row.value.value for row in rows if isinstance(row, esnp.Data)}


def _esnp(heard: Heard) -> tuple[Session, Callable[[Event], None]]:
    session = esnp_session.EsnpSession(Role.SERVER)

    def push(content: str) -> None:
        session.announce(
            (
                esnp.Address(kind=esnp.AddressKind.SERVICE, value="hub"),
                esnp.Address(kind=esnp.AddressKind.OP, value="notify"),
                esnp.Data(name="content", value=esnp.Var(esnp.VarType.LEN_STRING, content)),
            )
        )

    def answer(op: str, rows: tuple[Any, ...], values: dict[str, Any]) -> tuple[Any, ...]:
        if op == "add":
            found = values["a"] + values["b"] + heard.wrong
            return (esnp.Data(name="c", value=esnp.Var(esnp.VarType.INT32, found)),)
        if op == "publish":
            for each in heard.subscribers * (2 if heard.wrong else 1):
                each(values["content"])
        if op == "subscribe":
            heard.subscribers.append(push)
        return tuple(row for row in rows if isinstance(row, esnp.Payload))

    def act(event: Event) -> None:
        if isinstance(event, esnp_session.Requested):
            rows = event.call.message.rows
            names = {row.kind: row.value for row in rows if isinstance(row, esnp.Address)}
            flags = {row.value for row in rows if isinstance(row, esnp.Flag)}
            op, values = names[esnp.AddressKind.OP], _row_values(rows)
            heard.asked.append((names[esnp.AddressKind.SERVICE], op, flags, values))
            session.answer(event.call, answer(op, rows, values))

    return session, act


def _called(call: int, body: bytes) -> bytes:
    """What tny and magline answer."""
    if call & 0xFFF == 0x002 or call == 1002:
        asked = json.loads(body)
        return json.dumps({"c": asked["a"] + asked["b"]}, separators=(",", ":")).encode()
    return body


def _tny(heard: Heard) -> tuple[Session, Callable[[Event], None]]:
    session = tny_session.ServerSession()

    def act(event: Event) -> None:
        if isinstance(event, tny_session.Requested):
            message = event.message
            heard.asked.append((message.protocol, message.body))
            session.respond(message, _called(message.protocol, message.body or b""))

    return session, act


def _magline(heard: Heard) -> tuple[Session, Callable[[Event], None]]:
    session = magline.ServerSession(keys=magline.ServerKeys(allow_anonymous=True), entropy=urandom)

    def act(event: Event) -> None:
        if isinstance(event, magline.Requested):
            heard.asked.append((event.business_cmd, event.data))
            session.send(magline.Reply(event.seq, _called(event.business_cmd, event.data)))

    return session, act


SERVERS: dict[str, Serve] = {"comet": _comet, "esnp": _esnp, "tny": _tny, "magline": _magline}
"""By protocol."""


# -- sockets -----------------------------------------------------------------------------------


@contextmanager
def listening(protocol: str) -> Iterator[Heard]:
    """A server on a free port, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        waking, woken = socket.socketpair()
        heard = Heard(listener.getsockname()[1])
        thread = threading.Thread(target=_serve, args=(protocol, heard, listener, woken))
        thread.start()
        try:
            yield heard
        finally:
            waking.send(b"x")
            thread.join(_JOIN_S)
            waking.close()
            woken.close()


def _serve(protocol: str, heard: Heard, listener: socket.socket, woken: socket.socket) -> None:
    chosen = selectors.DefaultSelector()
    chosen.register(listener, selectors.EVENT_READ)
    chosen.register(woken, selectors.EVENT_READ)
    ends: dict[socket.socket, tuple[Session, Callable[[Event], None]]] = {}
    while True:
        for key, _ in chosen.select():
            if key.fileobj is woken:
                for sock in ends:
                    sock.close()
                chosen.close()
                return
            if key.fileobj is listener:
                sock, _ = listener.accept()
                ends[sock] = SERVERS[protocol](heard)
                chosen.register(sock, selectors.EVENT_READ)
                continue
            assert isinstance(key.fileobj, socket.socket)
            if not _read(key.fileobj, heard, *ends[key.fileobj]):
                chosen.unregister(key.fileobj)
                key.fileobj.close()
                del ends[key.fileobj]
        for sock, (session, _) in ends.items():
            sock.sendall(session.to_send())


def _read(
    sock: socket.socket, heard: Heard, session: Session, act: Callable[[Event], None]
) -> bool:
    """Gives what came to the session; False when the peer is gone."""
    try:
        data = sock.recv(65_536)
    except ConnectionResetError:
        return False
    if not data:
        return False
    session.receive(data, 0.0)
    while events := session.events():
        for event in events:
            if isinstance(event, Failed):
                heard.failed.append(event)
            act(event)
    return True
