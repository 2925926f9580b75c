"""The server's end of comet beside its rules: misuse, cuts, offsets, and what a caller can rely on.

What the rules say is in `tests/playbooks/comet`. All tokens and keys are throw-away test values.
"""

from __future__ import annotations

import pytest
from tests.playbooks.comet.peer import EPH_PRIVATE, HELLO, KEY, SECRET, online_pair, vector
from tests.protocols.comet.states import frame, server_in

from wirelake.protocols.comet.layout import (
    Error,
    ErrorCode,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    MessageList,
    Notification,
    Ok,
    Subscribe,
    TopicList,
)
from wirelake.protocols.comet.limits import ServerOptions
from wirelake.protocols.comet.session import (
    AuthRequested,
    HeartbeatAnswered,
    Requested,
    ServerSession,
)
from wirelake.protocols.sansio import Closed, Event, SessionError, Side


@pytest.mark.parametrize("state", ["new", "deciding", "authenticated", "keyed"])
def test_a_reply_without_a_request(state: str) -> None:
    server = server_in(state)
    for reply in (Ok(), Error(error_code=3), TopicList(topics=()), MessageList(messages=())):
        with pytest.raises(SessionError, match="bad_state"):
            server.send(reply)
    assert (server.to_send(), server.state) == (b"", state)


@pytest.mark.parametrize("state", ["new", "authenticated", "keyed"])
def test_no_sign_on_is_pending(state: str) -> None:
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


def test_nothing_can_be_sent_after_the_end() -> None:
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
    assert {"KeyExchanged", "HeartbeatAnswered", "Authenticated"} <= set(out)
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


def test_a_beat_is_one_event_per_heartbeat() -> None:
    server = server_in("authenticated")
    server.receive(frame(Heartbeat()) * 3, 0.0)
    assert server.events() == [HeartbeatAnswered()] * 3
    assert server.to_send() == frame(Ok()) * 3


def test_a_long_queue_is_worked_off_without_depth() -> None:
    server = server_in("authenticated", ServerOptions(max_pending=100_000))
    server.receive(frame(GetTopicList()) + frame(Heartbeat()) * 20_000, 0.0)
    server.send(TopicList(topics=()))
    assert len(server.to_send()) == len(frame(TopicList(topics=()))) + 3 * 20_000
    assert server.pending == 0
