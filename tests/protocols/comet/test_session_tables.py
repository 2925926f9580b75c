"""The tables of comet's sessions are what happens: each line of them, brought about.

All tokens and keys are throw-away test values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.playbooks.comet.peer import AUTH, EPH_PRIVATE, HELLO, LET_IN, SECRET, exchange, vector
from tests.protocols.comet.states import client_in, frame, server_in

from wirelake.protocols.comet.layout import (
    Auth,
    AuthSuccess,
    Error,
    ErrorCode,
    ExchangeKey,
    GetTopicList,
    Heartbeat,
    Ok,
    TopicList,
)
from wirelake.protocols.comet.session import ClientSession, ServerSession
from wirelake.protocols.sansio import CLOSED, Closed, Role

BAD_AUTH = Auth(client_id="", token="x")


def too_busy(server: ServerSession) -> None:
    """More commands than the limit, while one is under way."""
    for _ in range(server.options.max_pending + 2):
        server.receive(frame(GetTopicList()), 0.0)
    while not server.closed:
        if server.state == "deciding":
            server.accept()
        elif server.pending:
            server.send(TopicList(topics=()))


def too_busy_first(server: ServerSession) -> None:
    """The same of a stranger, whose auth is under way."""
    if server.state == "new":
        server.receive(frame(AUTH), 0.0)
    too_busy(server)


def give_up(server: ServerSession) -> None:
    """The last attempt fails."""
    if server.state == "deciding":
        server.refuse(ErrorCode.ALREADY_ONLINE)
        return
    for _ in range(3):
        server.receive(frame(BAD_AUTH), 0.0)


def wear_out(server: ServerSession) -> None:
    """The key has sealed all it may."""
    sealer: Any = server._sealer
    sealer.counter = 2**32 - 1
    server.send(HELLO)


def _broken(server: ServerSession) -> None:
    server.receive(b"\x00\x00", 0.0)
    if server.state == "deciding":
        server.accept()  # what came before is answered first


SERVER_TRIGGERS: dict[str, Callable[[ServerSession], object]] = {
    "receive auth": lambda s: s.receive(frame(AUTH), 0.0),
    "receive bad auth": lambda s: s.receive(frame(BAD_AUTH), 0.0),
    "accept": lambda s: s.accept(),
    "refuse": lambda s: s.refuse(),
    "give up": give_up,
    "auth deadline": lambda s: s.on_timer(10.0),
    "receive exchange_key": lambda s: s.receive(frame(exchange()[0]), 0.0),
    "bad key": lambda s: s.receive(frame(ExchangeKey(secret_key=b"x")), 0.0),
    "replaced": lambda s: s.replaced(),
    "counter limit": wear_out,
    "too busy": too_busy_first,
    "idle": lambda s: s.on_timer(120.0),
    "eof": lambda s: s.receive_eof(),
    "broken frame": _broken,
    "close": lambda s: s.close("enough"),
}


def _message(client: ClientSession) -> bytes:
    return vector("message_encrypted") if client.state == "keyed" else frame(HELLO)


def _no_reply(client: ClientSession) -> None:
    client.send(Heartbeat())
    client.on_timer(30.0)


CLIENT_TRIGGERS: dict[str, Callable[[ClientSession], object]] = {
    "send auth": lambda c: c.send(AUTH),
    "receive auth_success": lambda c: c.receive(frame(LET_IN), 0.0),
    "refuse key": lambda c: c.receive(frame(AuthSuccess(encrypt_key=b"")), 0.0),
    "receive error": lambda c: c.receive(frame(Error(error_code=4, reason="")), 0.0),
    "send exchange_key": lambda c: c.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE),
    "receive ok": lambda c: c.receive(frame(Ok()), 0.0),
    "receive message": lambda c: c.receive(_message(c), 0.0),
    "bad record": lambda c: c.receive(frame(HELLO), 0.0),
    "no reply in time": _no_reply,
    "eof": lambda c: c.receive_eof(),
    "broken frame": lambda c: c.receive(b"\x00\x00", 0.0),
    "close": lambda c: c.close(),
}


def lines(cls: Any, role: Role) -> list[tuple[str, str, str]]:
    """The lines of a table."""
    return [
        (state, trigger, after)
        for state, triggers in cls.TABLES[role].items()
        for trigger, after in triggers.items()
    ]


@pytest.mark.parametrize(("state", "trigger", "after"), lines(ServerSession, Role.SERVER))
def test_a_line_of_the_server_s_table(state: str, trigger: str, after: str) -> None:
    server = server_in(state)
    SERVER_TRIGGERS[trigger](server)
    assert server.state == after
    ends = [event for event in server.events() if isinstance(event, Closed)]
    assert len(ends) == (after == CLOSED)


@pytest.mark.parametrize(("state", "trigger", "after"), lines(ClientSession, Role.CLIENT))
def test_a_line_of_the_client_s_table(state: str, trigger: str, after: str) -> None:
    client = client_in(state)
    CLIENT_TRIGGERS[trigger](client)
    assert client.state == after
    ends = [event for event in client.events() if isinstance(event, Closed)]
    assert len(ends) == (after == CLOSED)
