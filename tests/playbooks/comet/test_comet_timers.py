"""Deadlines of a comet connection, without waiting for any (rules 15 and 21).

All tokens and keys are throw-away test values.
"""

from __future__ import annotations

from typing import Any

from tests.playbooks.comet.peer import (
    AUTH,
    HELLO,
    arrive,
    client_book,
    closed,
    failed,
    online,
    online_pair,
    server_book,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, Eof, rule

from wirelake.protocols.comet.layout import GetTopicList, Heartbeat, Ok, TopicList
from wirelake.protocols.comet.limits import ClientOptions, ServerOptions
from wirelake.protocols.comet.session import HeartbeatAnswered, Notified, Replied, Requested
from wirelake.protocols.sansio import Side


@rule("comet.15")
def test_sign_on_has_ten_seconds() -> None:
    book = server_book(now=100.0) >> At(109.9) >> At(110.0) << failed("timeout")
    (book << closed("timeout", side=Side.LOCAL, clean=False)).done()


@rule("comet.15")
def test_heartbeats_before_sign_on_do_not_extend_the_deadline() -> None:
    book = server_book() >> At(9) >> Heartbeat() << Emits(HeartbeatAnswered()) << Ok()
    (book >> At(10) << failed("timeout") << closed("timeout")).done()


@rule("comet.21")
def test_an_idle_connection_is_closed() -> None:
    book = online() >> At(119.9) >> At(120.0) << failed("idle", side=Side.REMOTE)
    (book << closed("idle", clean=False)).done()


@rule("comet.21")
def test_any_command_counts_and_half_a_frame_does_not() -> None:
    book = online() >> At(100) >> Heartbeat() << Emits(HeartbeatAnswered()) << Ok()
    book = book >> At(219) >> b"\x00"
    (book >> At(220) << failed("idle") << closed("idle")).done()


@rule("comet.21")
def test_pushes_of_our_own_do_not_count() -> None:
    book = online() >> At(119) >> (lambda s: s.send(HELLO)) << HELLO
    (book >> At(120) << failed("idle") << closed("idle")).done()


@rule("comet.21")
def test_a_client_sends_heartbeats() -> None:
    book = arrive(client_book()) >> At(39.9) >> At(40) << Heartbeat()
    book = book >> Ok() << Emits(Replied(Heartbeat(), Ok()))
    (book >> At(80) << Heartbeat()).done()


@rule("comet.21")
def test_a_command_is_as_good_as_a_heartbeat() -> None:
    book = arrive(client_book()) >> At(30)
    book = book >> (lambda s: s.send(GetTopicList())) << GetTopicList()
    book = book >> TopicList(topics=()) << EmitsKind.of(Replied)
    book = book >> At(69.9) >> HELLO << EmitsKind.of(Notified)
    (book >> At(70) << Heartbeat()).done()


def test_a_reply_that_does_not_come_ends_it() -> None:
    book = arrive(client_book()) >> (lambda s: s.send(GetTopicList())) << GetTopicList()
    book = book >> At(29.9) >> HELLO << EmitsKind.of(Notified)
    session: Any = (book >> At(30) << failed("timeout") << closed("timeout", clean=False)).done()
    assert session.unanswered == (GetTopicList(),)
    assert session.next_timer() is None


def test_each_reply_restarts_the_timeout() -> None:
    book = arrive(client_book()) >> (lambda s: s.send(GetTopicList())) << GetTopicList()
    book = book >> (lambda s: s.send(Heartbeat())) << Heartbeat()
    book = book >> At(20) >> TopicList(topics=()) << EmitsKind.of(Replied)
    book = book >> At(49.9) << Heartbeat()
    (book >> At(50) << failed("timeout") << closed("timeout")).done()


def test_an_unanswered_auth_ends_it() -> None:
    book = client_book() >> (lambda s: s.send(AUTH)) << AUTH
    (book >> At(30) << failed("timeout") << closed("timeout")).done()


def test_a_heartbeat_waits_for_the_command_in_flight() -> None:
    options = ClientOptions(one_at_a_time=True, reply_timeout_s=100)
    book = arrive(client_book(options)) >> (lambda s: s.send(GetTopicList())) << GetTopicList()
    book = book >> At(40) >> At(80)
    book = book >> TopicList(topics=()) << EmitsKind.of(Replied)
    (book >> At(120) << Heartbeat()).done()


def test_heartbeats_stay_within_the_limit() -> None:
    options = ClientOptions(max_pending=2, reply_timeout_s=1_000)
    book = arrive(client_book(options)) >> At(40) << Heartbeat() >> At(80) << Heartbeat()
    (book >> At(120) >> At(160)).done()


def test_the_end_stops_every_timer() -> None:
    both = online_pair()
    both.client.close()
    both.server.receive_eof()
    assert both.client.next_timer() is None
    assert both.server.next_timer() is None


def test_lost_requests_are_reported_when_the_server_closes() -> None:
    book = arrive(client_book()) >> (lambda s: s.send(GetTopicList())) << GetTopicList()
    book = book >> Eof() << failed("connection_lost") << closed("eof", clean=False)
    session: Any = book.done()
    assert session.unanswered == (GetTopicList(),)
    (arrive(client_book()) >> Eof() << closed("eof", clean=True)).done()


def test_a_server_s_application_may_take_its_time() -> None:
    """Up to the idle limit: nothing else hurries it."""
    book = (
        online(ServerOptions(idle_limit_s=50)) >> GetTopicList() << Emits(Requested(GetTopicList()))
    )
    book = book >> At(49) >> (lambda s: s.send(TopicList(topics=()))) << TopicList(topics=())
    (book >> At(50) << failed("idle") << closed("idle")).done()
