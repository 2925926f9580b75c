"""Rules 12 to 23 of `docs/decisions/comet.md`: who may say what when, and what is answered.

All tokens, keys and secrets are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.comet.peer import (
    ASKED,
    AUTH,
    EPH_PRIVATE,
    FORMAT_ILLEGAL,
    HELLO,
    KEY,
    LET_IN,
    SECRET,
    SIGNED_ON,
    arrive,
    client_book,
    closed,
    exchange,
    failed,
    keyed,
    online,
    online_pair,
    opened,
    server_book,
    vector,
    welcome,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, rule

from wirelake.protocols.comet.layout import (
    Auth,
    AuthSuccess,
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
    ReportEnviron,
    Subscribe,
    TopicList,
    Unsubscribe,
)
from wirelake.protocols.comet.limits import ClientOptions, ServerOptions
from wirelake.protocols.comet.session import (
    AuthRequested,
    HeartbeatAnswered,
    KeyExchanged,
    Notified,
    Replied,
    Requested,
    ServerSession,
)
from wirelake.protocols.sansio import Closed, SessionError, Side

AUTH_REQUIRED = Error(error_code=5, reason="auth required")
KEY_REQUIRED = Error(error_code=7, reason="key required")
ALREADY_ONLINE = Error(error_code=2, reason="clientId already online")
ILLEGAL_TOKEN = Error(error_code=0, reason="token expired or illegal")
TOO_BUSY = Error(error_code=6, reason="too busy")
ENVIRON = ReportEnviron(network_type=0, isp=0, phone_type="x")
LIST = GetMessageList()


# -- 12: before auth -------------------------------------------------------------------------


@rule("comet.12", "comet.error.5")
@pytest.mark.parametrize(
    "command",
    [
        ExchangeKey(secret_key=bytes(80)),
        GetTopicList(),
        Subscribe(topics=("@news",)),
        Subscribe(topics=()),
        Unsubscribe(topics=("@news",)),
        LIST,
        MessageAck(msg_ids=()),
    ],
    ids=lambda command: type(command).__name__,
)
def test_commands_before_auth_are_refused(command: Any) -> None:
    """Also those whose arguments are wrong: nothing of a stranger is looked at."""
    book = server_book(key=KEY) >> command << failed("bad_state", fatal=False) << AUTH_REQUIRED
    welcome(book, KEY).done()


@rule("comet.12")
def test_a_heartbeat_and_an_environment_are_answered_before_auth() -> None:
    book = server_book() >> Heartbeat() << Emits(HeartbeatAnswered()) << Ok()
    book = book >> ENVIRON << Ok()
    bad = ReportEnviron(network_type=0, isp=4, phone_type="x")
    welcome(book >> bad << failed("bad_args") << FORMAT_ILLEGAL).done()


@rule("comet.12", "comet.error.5")
def test_a_client_does_not_even_ask_before_auth() -> None:
    book = client_book() >> (lambda s: s.send(Heartbeat())) << Heartbeat() >> Ok()
    book = book << EmitsKind.of(Replied) >> (lambda s: s.send(ENVIRON)) << ENVIRON
    session: Any = (book >> Ok() << EmitsKind.of(Replied)).done()
    with pytest.raises(SessionError, match="requires authentication"):
        session.send(LIST)
    with pytest.raises(SessionError, match="not allowed in state new"):
        session.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)


# -- 13, 14: already online ------------------------------------------------------------------


@rule("comet.13", "comet.error.2")
@pytest.mark.parametrize("auth", [AUTH, Auth(client_id="", token="")], ids=["good", "bad"])
def test_auth_on_an_authenticated_connection_ends_it(auth: Auth) -> None:
    book = online() >> auth << failed("bad_state") << ALREADY_ONLINE
    (book << closed("bad_state", clean=False)).done()


@rule("comet.14")
def test_a_new_connection_replaces_the_old() -> None:
    old = online().done()
    assert isinstance(old, ServerSession)
    book = server_book() >> AUTH << ASKED >> (lambda s: s.accept(elsewhere=old))
    (book << SIGNED_ON << AuthSuccess(encrypt_key=b"")).done()
    assert old.events() == [Closed("replaced", Side.LOCAL)]
    assert old.to_send() == b""


@rule("comet.14", "comet.error.2")
def test_a_new_connection_can_be_rejected() -> None:
    old = online().done()
    assert isinstance(old, ServerSession)
    options = ServerOptions(on_duplicate="reject")
    book = server_book(options) >> AUTH << ASKED
    book = book >> (lambda s: s.accept(elsewhere=old)) << ALREADY_ONLINE
    (book << failed("auth_failed") << closed("auth_failed")).done()
    assert not old.closed
    old.close("gone")
    book = server_book(options) >> AUTH << ASKED >> (lambda s: s.accept(elsewhere=old))
    (book << SIGNED_ON << AuthSuccess(encrypt_key=b"")).done()


# -- 15: failed auth -------------------------------------------------------------------------


@rule("comet.15")
def test_a_failed_auth_keeps_the_connection() -> None:
    book = server_book() >> AUTH << ASKED >> (lambda s: s.refuse()) << ILLEGAL_TOKEN
    welcome(book).done()
    book = client_book() >> (lambda s: s.send(AUTH)) << AUTH
    book = book >> ILLEGAL_TOKEN << Emits(Replied(AUTH, ILLEGAL_TOKEN))
    arrive(book).done()


@rule("comet.15")
def test_the_third_failure_ends_it() -> None:
    """A bad id counts; what the server could not do does not."""
    book = server_book() >> AUTH << ASKED >> (lambda s: s.refuse()) << ILLEGAL_TOKEN
    book = book >> AUTH << ASKED >> (lambda s: s.refuse(ErrorCode.SERVER_ERROR))
    book = book << Error(error_code=3, reason="server error")
    book = book >> Auth(client_id="", token="x") << failed("bad_args") << FORMAT_ILLEGAL
    book = book >> AUTH << ASKED >> (lambda s: s.refuse()) << ILLEGAL_TOKEN
    (book << failed("auth_failed", fatal=True) << closed("auth_failed")).done()


@rule("comet.15")
def test_three_bad_ids_end_it() -> None:
    nobody, book = Auth(client_id="", token="x"), server_book()
    for _ in range(3):
        book = book >> nobody << failed("bad_args") << FORMAT_ILLEGAL
    (book << failed("auth_failed") << closed("auth_failed")).done()


@rule("comet.15")
def test_ten_seconds_to_authenticate() -> None:
    """Failures, and a decision that takes its time, do not stretch it."""
    book = server_book() >> AUTH << ASKED >> (lambda s: s.refuse()) << ILLEGAL_TOKEN
    book = book >> At(9.9) >> AUTH << ASKED >> At(10.0)
    (book << failed("timeout") << closed("timeout", clean=False)).done()
    welcome(server_book()).done()
    (welcome(server_book()) >> At(119.9)).done()


# -- 16: malformed frames --------------------------------------------------------------------


@rule("comet.16")
@pytest.mark.parametrize("state", ["new", "online"])
def test_a_malformed_frame_is_answered_with_an_error_and_closes(state: str) -> None:
    book = server_book() if state == "new" else online()
    book = book >> b"\x00\x01\x09" << failed("unknown_type", fatal=True) << FORMAT_ILLEGAL
    session = (book << closed("unknown_type", clean=False, side=Side.REMOTE)).done()
    session.receive(b"\x00\x01\x06", 1.0)
    assert (session.events(), session.to_send()) == ([], b"")


@rule("comet.16", "comet.17")
def test_complete_earlier_requests_are_answered_first() -> None:
    """Otherwise the client would take the error for the answer to its subscription."""
    command = Subscribe(topics=("@news",))
    book = online() >> command << Emits(Requested(command))
    book = book >> Heartbeat() >> b"\x00\x01\x09\x00\x01\x06" << failed("unknown_type")
    book = book >> Heartbeat()  # nothing is read any more
    book = (
        book
        >> (lambda s: s.send(Ok()))
        << Ok()
        << Emits(HeartbeatAnswered())
        << Ok()
        << FORMAT_ILLEGAL
    )
    (book << closed("unknown_type", clean=False)).done()


# -- 17: order -------------------------------------------------------------------------------


@rule("comet.17")
def test_replies_keep_the_order_of_commands() -> None:
    """Notifications come in between; a heartbeat does not overtake."""
    topics, news = GetTopicList(), Subscribe(topics=("@news",))
    book = online() >> topics << Emits(Requested(topics)) >> Heartbeat() >> news
    book = book >> (lambda s: s.send(HELLO)) << HELLO
    book = book >> (lambda s: s.send(TopicList(topics=()))) << TopicList(topics=())
    book = book << Emits(HeartbeatAnswered()) << Ok() << Emits(Requested(news))
    (book >> (lambda s: s.send(Ok())) << Ok()).done()


@rule("comet.17")
def test_a_client_matches_by_order() -> None:
    topics, news = GetTopicList(), Subscribe(topics=("@news",))
    book = arrive(client_book()) >> (lambda s: s.send(topics)) << topics
    book = book >> (lambda s: s.send(news)) << news
    book = book >> HELLO << Emits(Notified(HELLO, b"hello"))
    book = book >> TopicList(topics=("@a",)) << Emits(Replied(topics, TopicList(topics=("@a",))))
    (book >> Ok() << Emits(Replied(news, Ok()))).done()


@rule("comet.17")
@pytest.mark.parametrize("reply", [Ok(), MessageList(messages=()), LET_IN], ids=repr)
def test_a_reply_to_something_else_ends_it(reply: Any) -> None:
    book = arrive(client_book()) >> (lambda s: s.send(GetTopicList())) << GetTopicList()
    session: Any = (
        book >> reply << failed("unexpected_reply") << closed("unexpected_reply")
    ).done()
    assert session.unanswered == (GetTopicList(),)


@rule("comet.17")
def test_a_notification_is_never_a_reply() -> None:
    book = arrive(client_book()) >> (lambda s: s.send(LIST)) << LIST
    book = book >> HELLO << Emits(Notified(HELLO, b"hello"))
    none = MessageList(messages=())
    (book >> none << Emits(Replied(LIST, none))).done()


@rule("comet.17")
@pytest.mark.parametrize(
    "options",
    [ClientOptions(one_at_a_time=True), ClientOptions(dialect="auto")],
    ids=["asked for", "with the original"],
)
def test_towards_the_original_one_command_at_a_time(options: ClientOptions) -> None:
    topics, news = GetTopicList(), Subscribe(topics=("@news",))
    book = arrive(client_book(options)) >> (lambda s: s.send(topics)) << topics
    book = book >> (lambda s: s.send(news)) >> (lambda s: s.send(LIST))
    none = TopicList(topics=())
    book = book >> none << Emits(Replied(topics, none)) << news
    book = book >> Ok() << Emits(Replied(news, Ok())) << LIST
    session: Any = book.done()
    assert session.unanswered == (LIST,)


# -- 18, 19: pushes and lists ----------------------------------------------------------------


@rule("comet.18")
def test_pushes_begin_with_authentication() -> None:
    server: Any = (server_book() >> AUTH << ASKED).done()
    with pytest.raises(SessionError, match="cannot push a notification"):
        server.send(HELLO)
    (online() >> (lambda s: s.send(HELLO)) << HELLO).done()


@rule("comet.18")
def test_a_notification_before_auth_is_refused() -> None:
    book = client_book() >> (lambda s: s.send(AUTH)) << AUTH >> HELLO
    (book << failed("bad_state") << closed("bad_state")).done()


@rule("comet.18")
def test_pushes_begin_with_the_key_where_one_is_required() -> None:
    options = ServerOptions(require_encryption=True)
    server: Any = online(options, key=KEY).done()
    assert not server.can_push
    book, opener = keyed(options)
    book = book >> (lambda s: s.send(HELLO)) << (lambda n: opened(opener, n) == b"hello")
    assert book.done().can_push  # type: ignore[attr-defined]


@rule("comet.18")
def test_pushes_can_wait_for_the_list() -> None:
    """The original's way."""
    book = online(ServerOptions(push_after="list"))
    server: Any = book.session
    assert not server.can_push
    book = book >> LIST << Emits(Requested(LIST))
    assert not server.can_push
    none = MessageList(messages=())
    book = book >> (lambda s: s.send(none)) << none
    (book >> (lambda s: s.send(HELLO)) << HELLO).done()


@rule("comet.19")
def test_a_list_removes_nothing() -> None:
    """Only an acknowledgement does: until then the application lists the same again."""
    both, inbox = online_pair(), [HELLO]
    server: Any = both.server
    for _ in range(2):
        both.client.send(LIST)
        both.run()
        server.send(MessageList(messages=server.page(inbox)))
        ((replied,), _) = both.run().take()
        assert replied == Replied(LIST, MessageList(messages=(HELLO,)))
    both.client.send(MessageAck(msg_ids=(HELLO.msg_id,)))
    both.run()
    inbox.clear()
    server.send(Ok())
    both.client.send(LIST)
    both.run().take()
    server.send(MessageList(messages=server.page(inbox)))
    assert both.run().take()[0] == [Replied(LIST, MessageList(messages=()))]


# -- 20: no key ------------------------------------------------------------------------------


@rule("comet.20")
def test_without_a_key_exchange_content_is_in_clear() -> None:
    (online(key=KEY) >> (lambda s: s.send(HELLO)) << HELLO).done()


@rule("comet.20", "comet.error.7")
def test_a_key_can_be_required() -> None:
    book = online(ServerOptions(require_encryption=True), key=KEY)
    book = book >> LIST << failed("encrypt_required", fatal=False) << KEY_REQUIRED
    command, _ = exchange()
    book = book >> command << Ok() << Emits(KeyExchanged())
    (book >> LIST << Emits(Requested(LIST))).done()


# -- 21: heartbeat, see also test_comet_timers -----------------------------------------------


@rule("comet.21")
def test_heartbeats_keep_a_connection() -> None:
    both = online_pair()
    both.at(1_000)
    client, server = both.take()
    assert client == [Replied(Heartbeat(), Ok())] * 25
    assert server == [HeartbeatAnswered()] * 25
    assert ServerOptions().idle_limit_s == 120
    assert ClientOptions().heartbeat_s == 40


# -- 22: codes -------------------------------------------------------------------------------


@rule("comet.22", "comet.error.6")
def test_too_much_at_once_is_refused() -> None:
    """What was taken is answered; then error 6, and the end."""
    book = online(ServerOptions(max_pending=2)) >> LIST << Emits(Requested(LIST))
    book = book >> Heartbeat() >> Heartbeat() << failed("too_busy") >> Heartbeat()
    none = MessageList(messages=())
    book = (
        book >> (lambda s: s.send(none)) << none << Emits(HeartbeatAnswered()) << Ok() << TOO_BUSY
    )
    (book << closed("too_busy", clean=False)).done()


@rule("comet.22", "comet.error.6")
def test_too_many_bytes_at_once_are_refused() -> None:
    book = online(ServerOptions(max_pending_bytes=40_000)) >> LIST << Emits(Requested(LIST))
    book = book >> vector("len_32767_ack") >> vector("len_32767_ack") << failed("too_busy")
    session: Any = book.done()
    assert session.pending == 2


@rule("comet.22")
@pytest.mark.parametrize("code", [5, 6, 7, 8, 255])
def test_any_code_is_shown_with_its_reason(code: int) -> None:
    book = arrive(client_book()) >> (lambda s: s.send(LIST)) << LIST
    error = Error(error_code=code, reason="words for a person")
    (book >> error << Emits(Replied(LIST, error))).done()


@rule("comet.22")
def test_an_error_that_answers_nothing_is_shown_too() -> None:
    book = arrive(client_book()) >> Error(error_code=9, reason="words for a person")
    book = book << failed("unexpected_reply", detail="error 9: words for a person")
    (book << closed("unexpected_reply")).done()


# -- 23: acknowledgements --------------------------------------------------------------------


@rule("comet.23")
@pytest.mark.parametrize("ids", [(), ("nobody-knows-it",), ("", "\x00"), ("x" * 300,)], ids=len)
def test_any_id_may_be_acknowledged(ids: tuple[str, ...]) -> None:
    ack = MessageAck(msg_ids=ids)
    book = online() >> ack << Emits(Requested(ack))
    (book >> (lambda s: s.send(Ok())) << Ok()).done()


def test_a_token_is_in_no_event_that_is_printed() -> None:
    """Not of a rule, but of every log."""
    event = AuthRequested(AUTH.client_id, AUTH.token)
    assert AUTH.token not in repr(event)
    assert AUTH.token not in repr(Replied(AUTH, Ok()))
    assert event.token == AUTH.token


def test_an_old_notification_can_be_sent_again_at_any_time() -> None:
    """The original's 1800 s after a heartbeat are the inbox's business: `HeartbeatAnswered`."""
    old = Notification(msg_type=1, msg_id="p0", content=b"", ts=0)
    book = online() >> (lambda s: s.send(old)) << old
    book = book >> At(100) >> Heartbeat() << Emits(HeartbeatAnswered()) << Ok()
    (book >> (lambda s: s.send(old)) << old).done()
