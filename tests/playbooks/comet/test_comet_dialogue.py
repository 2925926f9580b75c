"""The dialogue of seed 004, line by line: as server, as client, and back to back.

Each test is named after its C line; the S line is what it must bring about. All tokens and keys
are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.comet.peer import (
    ASKED,
    AUTH,
    CLIENT_ID,
    EPH_PRIVATE,
    HELLO,
    KEY,
    LET_IN,
    SECRET,
    SIGNED_ON,
    arrive,
    client_book,
    exchange,
    online,
    online_pair,
    pair,
    server_book,
)
from tests.playbooks.playbook import Emits, rule

from wirelake.protocols.comet.layout import (
    GetMessageList,
    GetTopicList,
    Heartbeat,
    Isp,
    MessageAck,
    MessageList,
    NetworkType,
    Notification,
    Ok,
    ReportEnviron,
    Subscribe,
    TopicList,
    Unsubscribe,
)
from wirelake.protocols.comet.session import (
    Authenticated,
    AuthRequested,
    HeartbeatAnswered,
    KeyExchanged,
    Notified,
    Replied,
    Requested,
)

ENVIRON = ReportEnviron(
    network_type=NetworkType.G4, isp=Isp.UNICOM, phone_type="MI NOTE", extra=("os=5.0",)
)
ASKED_AND_ANSWERED = {
    "get_topic_list": (GetTopicList(), TopicList(topics=("@news", "@sport/nba"))),
    "subscribe": (Subscribe(topics=("@news", "@sport/nba")), Ok()),
    "unsubscribe": (Unsubscribe(topics=("@news",)), Ok()),
    "get_message_list": (GetMessageList(), MessageList(messages=(HELLO,))),
    "get_message_list, none": (GetMessageList(), MessageList(messages=())),
    "message_ack": (MessageAck(msg_ids=("p0100001000abcde",)), Ok()),
    "report_environ": (ENVIRON, Ok()),
}
"""The lines that the application answers."""

dialogue = pytest.mark.parametrize(
    ("command", "reply"), ASKED_AND_ANSWERED.values(), ids=ASKED_AND_ANSWERED
)


# -- C. auth, S. auth_success ----------------------------------------------------------------


def test_server_auth() -> None:
    book = server_book(key=KEY) >> AUTH << ASKED
    (book >> (lambda s: s.accept()) << SIGNED_ON << LET_IN).done()


def test_client_auth() -> None:
    book = client_book() >> (lambda s: s.send(AUTH)) << AUTH >> LET_IN
    (book << SIGNED_ON << Emits(Replied(AUTH, LET_IN))).done()


def test_auth_back_to_back() -> None:
    both = pair()
    both.client.send(AUTH)
    assert both.run().take() == ([], [AuthRequested(AUTH.client_id, AUTH.token)])
    both.server.accept()
    assert both.run().take() == (
        [Authenticated(CLIENT_ID), Replied(AUTH, LET_IN)],
        [Authenticated(CLIENT_ID)],
    )


# -- C. exchange_key, S. ok ------------------------------------------------------------------


def test_server_exchange_key() -> None:
    command, _ = exchange()
    (online(key=KEY) >> command << Ok() << Emits(KeyExchanged())).done()


def test_client_exchange_key() -> None:
    command, _ = exchange()
    book = arrive(client_book())
    book = book >> (lambda s: s.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)) << command
    (book >> Ok() << Emits(KeyExchanged()) << Emits(Replied(command, Ok()))).done()


def test_exchange_key_back_to_back() -> None:
    both = online_pair()
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    client, server = both.run().take()
    assert client == [KeyExchanged(), Replied(exchange()[0], Ok())]
    assert server == [KeyExchanged()]
    both.server.send(HELLO)
    (notified,) = both.run().take()[0]
    assert isinstance(notified, Notified)
    assert notified.content == b"hello"
    assert notified.notification.content != b"hello"


# -- the lines in between --------------------------------------------------------------------


@dialogue
def test_server(command: Any, reply: Any) -> None:
    book = online() >> command << Emits(Requested(command))
    (book >> (lambda s: s.send(reply)) << reply).done()


@dialogue
def test_client(command: Any, reply: Any) -> None:
    book = arrive(client_book()) >> (lambda s: s.send(command)) << command
    (book >> reply << Emits(Replied(command, reply))).done()


@dialogue
@pytest.mark.parametrize("sealed", [False, True], ids=["clear", "sealed"])
def test_back_to_back(command: Any, reply: Any, sealed: bool) -> None:
    both = online_pair()
    if sealed:
        both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
        both.run().take()
    both.client.send(command)
    assert both.run().take() == ([], [Requested(command)])
    both.server.send(reply)
    assert both.run().take() == ([Replied(command, reply)], [])


# -- C. heatbeat, S. ok ----------------------------------------------------------------------


@rule("comet.24")
def test_server_heartbeat() -> None:
    """Rule 24: the document spells it heatbeat and heartbeat; both are type 6."""
    (online() >> b"\x00\x01\x06" << Ok() << Emits(HeartbeatAnswered())).done()


def test_client_heartbeat() -> None:
    book = arrive(client_book()) >> (lambda s: s.send(Heartbeat())) << Heartbeat()
    (book >> Ok() << Emits(Replied(Heartbeat(), Ok()))).done()


def test_heartbeat_back_to_back() -> None:
    both = online_pair()
    both.client.send(Heartbeat())
    assert both.run().take() == ([Replied(Heartbeat(), Ok())], [HeartbeatAnswered()])


# -- S. message, C. message_ack, S. ok -------------------------------------------------------


def test_server_pushes() -> None:
    ack = MessageAck(msg_ids=(HELLO.msg_id,))
    book = online() >> (lambda s: s.send(HELLO)) << HELLO >> ack << Emits(Requested(ack))
    (book >> (lambda s: s.send(Ok())) << Ok()).done()


def test_client_is_pushed_to() -> None:
    ack = MessageAck(msg_ids=(HELLO.msg_id,))
    book = arrive(client_book()) >> HELLO << Emits(Notified(HELLO, b"hello"))
    book = book >> (lambda s: s.send(ack)) << ack
    (book >> Ok() << Emits(Replied(ack, Ok()))).done()


def test_pushes_back_to_back() -> None:
    both = online_pair()
    second = Notification(msg_type=255, msg_id="m01000020000abcd", content=b"", ts=-1)
    both.server.send(HELLO)
    both.server.send(second)
    assert both.run().take() == ([Notified(HELLO, b"hello"), Notified(second, b"")], [])
    ack = MessageAck(msg_ids=(HELLO.msg_id, second.msg_id))
    both.client.send(ack)
    assert both.run().take() == ([], [Requested(ack)])
    both.server.send(Ok())
    assert both.run().take() == ([Replied(ack, Ok())], [])
