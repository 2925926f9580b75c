"""comet sessions in each of their states. All tokens and keys are throw-away test values."""

from __future__ import annotations

from typing import Any

from tests.playbooks.comet.peer import AUTH, EPH_PRIVATE, KEY, LET_IN, SECRET, exchange

from wirelake.protocols.comet import codec_seed
from wirelake.protocols.comet.layout import Ok
from wirelake.protocols.comet.limits import ServerOptions
from wirelake.protocols.comet.session import ClientSession, ServerSession


def frame(message: Any) -> bytes:
    """The bytes of a message."""
    data: bytes = codec_seed.encode_frame(message)
    return data


def server_in(state: str, options: ServerOptions | None = None) -> ServerSession:
    """A server in this state, with nothing left to take."""
    server = ServerSession(options, server_key=KEY)
    if state != "new":
        server.receive(frame(AUTH), 0.0)
    if state in {"authenticated", "keyed"}:
        server.accept()
    if state == "keyed":
        server.receive(frame(exchange()[0]), 0.0)
    server.events()
    server.to_send()
    assert server.state == state
    return server


def client_in(state: str) -> ClientSession:
    """A client in this state, with nothing left to take."""
    client = ClientSession()
    if state != "new":
        client.send(AUTH)
    if state in {"authenticated", "exchanging", "keyed"}:
        client.receive(frame(LET_IN), 0.0)
    if state in {"exchanging", "keyed"}:
        client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    if state == "keyed":
        client.receive(frame(Ok()), 0.0)
    client.events()
    client.to_send()
    assert client.state == state
    return client
