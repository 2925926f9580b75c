"""The client's end of comet beside its rules: misuse, and what a caller can rely on.

What the rules say is in `tests/playbooks/comet`. All tokens and keys are throw-away test values.
"""

from __future__ import annotations

import pytest
from tests.playbooks.comet.peer import AUTH, EPH_PRIVATE, HELLO, SECRET
from tests.protocols.comet.states import client_in, frame

from wirelake.protocols.comet.layout import Auth, ExchangeKey, GetTopicList, Heartbeat, MessageAck
from wirelake.protocols.comet.limits import ClientOptions
from wirelake.protocols.comet.session import ClientSession
from wirelake.protocols.sansio import SessionError


def test_a_client_after_the_end() -> None:
    client = client_in("authenticated")
    client.close()
    with pytest.raises(SessionError, match="requires authentication"):
        client.send(GetTopicList())
    with pytest.raises(SessionError, match="the connection is closed"):
        client.send(Heartbeat())
    with pytest.raises(SessionError, match="not allowed in state closed"):
        client.send(AUTH)
    with pytest.raises(SessionError, match="not allowed in state closed"):
        client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    assert client.to_send() == b""


def test_auth_while_another_is_pending() -> None:
    client = client_in("authenticating")
    with pytest.raises(SessionError, match="send auth is not allowed in state authenticating"):
        client.send(AUTH)
    with pytest.raises(SessionError, match="send auth is not allowed in state authenticated"):
        client_in("authenticated").send(AUTH)


def test_an_auth_that_does_not_encode_changes_nothing() -> None:
    client = client_in("new")
    with pytest.raises(SessionError, match="too_large"):
        client.send(Auth(client_id="x" * 33_000, token="throw-away"))
    assert (client.state, client.client_id, client.to_send()) == ("new", "", b"")
    client.send(AUTH)


@pytest.mark.parametrize(
    ("secret", "eph_private"),
    [(b"short", EPH_PRIVATE), (SECRET, b""), (SECRET, b"short")],
    ids=["secret", "no private", "private"],
)
def test_a_key_that_does_not_wrap_changes_nothing(secret: bytes, eph_private: bytes) -> None:
    client = client_in("authenticated")
    with pytest.raises(SessionError, match="bad_config"):
        client.exchange_key(secret=secret, eph_private=eph_private)
    assert (client.state, client.to_send()) == ("authenticated", b"")
    with pytest.raises(SessionError, match="use exchange_key"):
        client.send(ExchangeKey(secret_key=b""))
    client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)


def test_more_commands_than_the_limit() -> None:
    client = ClientSession(ClientOptions(max_pending=2))
    client.send(Heartbeat())
    client.send(Heartbeat())
    with pytest.raises(SessionError, match="too_busy"):
        client.send(AUTH)
    assert client.state == "new"
    assert client.to_send() == frame(Heartbeat()) * 2


def test_acknowledging_is_the_application_s() -> None:
    client = client_in("authenticated")
    client.receive(frame(HELLO), 0.0)
    assert client.to_send() == b""
    client.send(MessageAck(msg_ids=(HELLO.msg_id,)))
    assert client.to_send() == frame(MessageAck(msg_ids=(HELLO.msg_id,)))
