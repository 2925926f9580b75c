"""comet sessions beside their rules: misuse, cuts, tables, and what a caller can rely on.

What the rules say is in `tests/playbooks/comet`. All tokens and keys are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.comet.peer import (
    AUTH,
    EPH_PRIVATE,
    HELLO,
    KEY,
    SECRET,
    VECTORS,
    exchange,
    online_pair,
    pair,
    vector,
)
from tests.protocols.comet.states import client_in, frame, server_in

from wirehouse.protocols.comet import session
from wirehouse.protocols.comet.layout import (
    Auth,
    Error,
    ErrorCode,
    ExchangeKey,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    MessageAck,
    MessageList,
    Notification,
    Ok,
    Subscribe,
    TopicList,
)
from wirehouse.protocols.comet.limits import ClientOptions, ServerOptions
from wirehouse.protocols.comet.session import (
    ANSWERS,
    AuthRequested,
    Beat,
    ClientSession,
    Replied,
    Requested,
    ServerSession,
)
from wirehouse.protocols.sansio import Closed, Event, SessionError, Side

# -- misuse raises, and changes nothing ------------------------------------------------------


@pytest.mark.parametrize("state", ["new", "deciding", "authenticated", "keyed"])
def test_a_reply_that_nobody_asked_for(state: str) -> None:
    server = server_in(state)
    for reply in (Ok(), Error(error_code=3), TopicList(topics=()), MessageList(messages=())):
        with pytest.raises(SessionError, match="bad_state"):
            server.send(reply)
    assert (server.to_send(), server.state) == (b"", state)


@pytest.mark.parametrize("state", ["new", "authenticated", "keyed"])
def test_nobody_is_waiting_to_be_let_in(state: str) -> None:
    server = server_in(state)
    with pytest.raises(SessionError, match="no client is waiting"):
        server.accept()
    with pytest.raises(SessionError, match="no client is waiting"):
        server.refuse()
    assert server.state == state


def test_a_reply_of_the_wrong_kind() -> None:
    server = server_in("authenticated")
    server.receive(frame(GetTopicList()), 0.0)
    with pytest.raises(SessionError, match="Ok does not answer GetTopicList"):
        server.send(Ok())
    server.send(TopicList(topics=()))


def test_a_reason_too_long_leaves_the_client_waiting() -> None:
    server = server_in("deciding")
    with pytest.raises(SessionError, match="too_large"):
        server.refuse(ErrorCode.TOO_BUSY, "x" * 40_000)
    with pytest.raises(SessionError, match="int_range"):
        server.refuse(256)
    server.accept()
    assert server.authenticated


@pytest.mark.parametrize("state", ["authenticated", "keyed"])
def test_a_notification_that_does_not_encode_uses_nothing_up(state: str) -> None:
    both = online_pair()
    if state == "keyed":
        both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    both.run().take()
    good = Notification(msg_type=1, msg_id="p1", content=b"", ts=0)
    for wrong in (
        Notification(msg_type=256, msg_id="p1", content=b"", ts=0),
        Notification(msg_type=1, msg_id="p1", content=b"", ts=1 << 63),
        Notification(msg_type=1, msg_id="p1", content=bytes(40_000), ts=0),
    ):
        with pytest.raises(SessionError):
            both.server.send(wrong)
        both.client.send(GetMessageList())
        both.run()
        with pytest.raises(SessionError):
            both.server.send(MessageList(messages=(good, wrong)))
        both.server.send(MessageList(messages=(good,)))
    both.server.send(good)
    both.run()
    assert not both.client.closed


def test_nothing_can_be_said_after_the_end() -> None:
    server = server_in("authenticated")
    server.receive(frame(GetTopicList()), 0.0)
    server.close("enough")
    server.close("twice")
    for misuse in (
        lambda: server.send(TopicList(topics=())),
        lambda: server.send(HELLO),
        server.accept,
        server.refuse,
    ):
        with pytest.raises(SessionError):
            misuse()
    server.receive(frame(Heartbeat()), 1.0)
    server.on_timer(1_000.0)
    server.receive_eof()
    assert server.to_send() == b""
    assert server.events() == [Requested(GetTopicList()), Closed("enough", Side.LOCAL, clean=False)]


def test_a_client_after_the_end() -> None:
    client = client_in("authenticated")
    client.close()
    with pytest.raises(SessionError, match="needs auth first"):
        client.send(GetTopicList())
    with pytest.raises(SessionError, match="the connection is closed"):
        client.send(Heartbeat())
    with pytest.raises(SessionError, match="not possible when closed"):
        client.send(AUTH)
    with pytest.raises(SessionError, match="not possible when closed"):
        client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    assert client.to_send() == b""


def test_auth_while_one_is_under_way() -> None:
    client = client_in("authenticating")
    with pytest.raises(SessionError, match="send auth is not possible when authenticating"):
        client.send(AUTH)
    with pytest.raises(SessionError, match="send auth is not possible when authenticated"):
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


def test_a_server_key_that_must_not_be_offered() -> None:
    class Odd:
        encrypt_key = b"not a key"

        def unwrap(self, secret_key: bytes, *, auth: bytes, auth_success: bytes) -> bytes:
            raise NotImplementedError

    with pytest.raises(SessionError, match="server_key"):
        ServerSession(server_key=Odd())


def test_a_connection_does_not_replace_itself() -> None:
    server = server_in("deciding")
    assert server.accept(elsewhere=server)
    assert server.authenticated


# -- cuts ------------------------------------------------------------------------------------


def answer(server: ServerSession, event: Event) -> None:
    """What an application says to the last event, if anything."""
    if isinstance(event, AuthRequested):
        server.accept()
    elif event == Requested(GetMessageList()):
        server.send(MessageList(messages=()))
    elif isinstance(event, Requested):
        server.send(Ok())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_any_cut_of_the_stream_means_the_same(size: int) -> None:
    stream = b"".join(map(vector, ["auth", "exchange_key_x25519", "two_frames", "message_ack_2"]))
    server = ServerSession(server_key=KEY)
    out = []
    for start in range(0, len(stream), size):
        server.receive(stream[start : start + size], 0.0)
        while events := server.events():
            out += [type(event).__name__ for event in events]
            answer(server, events[-1])
    assert out.count("Requested") == 2
    assert {"KeyExchanged", "Beat", "Authenticated"} <= set(out)
    assert server.pending == 0


def test_offsets_are_those_of_the_stream() -> None:
    """Also when the frame was held, or waited for its turn."""
    server = server_in("authenticated")
    before = server.received_bytes
    bad = frame(Subscribe(topics=("news",)))
    server.receive(frame(Heartbeat()) + bad[:4], 0.0)
    server.receive(bad[4:], 0.0)
    assert [event.offset for event in server.events()[1:]] == [before + 3]  # type: ignore[attr-defined]
    server.receive(frame(GetTopicList()) + bad, 0.0)
    server.send(TopicList(topics=()))
    assert server.events()[1].offset == before + 3 + len(bad) + 3  # type: ignore[attr-defined]


# -- what is told ----------------------------------------------------------------------------


def test_every_command_has_its_answers() -> None:
    wanted = "Auth ExchangeKey GetTopicList Subscribe Unsubscribe GetMessageList Heartbeat"
    assert {each.__name__ for each in ANSWERS} == {*wanted.split(), "MessageAck", "ReportEnviron"}


def test_the_public_names() -> None:
    assert set(session.__all__) <= set(dir(session))


def test_secrets_are_not_printed() -> None:
    both = pair()
    both.client.send(AUTH)
    both.run()
    both.server.accept()
    both.client.receive(both.server.to_send(), 0.0)
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    both.run()
    events = [*both.client_events, *both.server_events]
    printed = "".join(f"{event!r}{event.__rich_repr__()!r}" for event in events)
    assert AUTH.token not in printed
    assert AUTH.client_id in printed
    assert repr(exchange()[0].secret_key) not in printed
    assert Replied(AUTH, Ok()).command.token == AUTH.token


def test_the_vectors_of_a_decoder_go_through_sessions_too() -> None:
    """Every vector that decodes is handled, and every one that does not ends the session."""
    for name, each in VECTORS.items():
        if each["expect"].get("dialect") == "hipush" or name.startswith("legacy"):
            continue
        receiver: Any = server_in("keyed") if each["direction"] == "c2s" else client_in("keyed")
        receiver.receive(vector(name), 0.0)
        events = receiver.events()
        fatal = each["expect"].get("fatal", False)
        assert not fatal or receiver.closed, name
        assert all(isinstance(e, Closed) for e in events[-1:] if receiver.closed), name


def test_a_beat_is_one_event_per_heartbeat() -> None:
    server = server_in("authenticated")
    server.receive(frame(Heartbeat()) * 3, 0.0)
    assert server.events() == [Beat()] * 3
    assert server.to_send() == frame(Ok()) * 3


def test_a_long_queue_is_worked_off_without_depth() -> None:
    server = server_in("authenticated", ServerOptions(max_pending=100_000))
    server.receive(frame(GetTopicList()) + frame(Heartbeat()) * 20_000, 0.0)
    server.send(TopicList(topics=()))
    assert len(server.to_send()) == len(frame(TopicList(topics=()))) + 3 * 20_000
    assert server.pending == 0


def test_acknowledging_is_the_application_s() -> None:
    client = client_in("authenticated")
    client.receive(frame(HELLO), 0.0)
    assert client.to_send() == b""
    client.send(MessageAck(msg_ids=(HELLO.msg_id,)))
    assert client.to_send() == frame(MessageAck(msg_ids=(HELLO.msg_id,)))
