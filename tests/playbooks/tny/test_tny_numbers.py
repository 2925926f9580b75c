"""AccessId and Number (§3 of the rules): where they start, what may be missing, how they end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.playbook import Emits, EmitsKind, Pair, rule
from tests.playbooks.tny.peer import (
    DIALECTS,
    USER,
    Numbered,
    Peer,
    client_book,
    push,
    request,
    response,
    server_book,
)

from wirelake.protocols.sansio import Closed, Failed, SessionError, Side
from wirelake.protocols.tny.layout import Ping, Pong
from wirelake.protocols.tny.limits import LAST_NUMBER, ClientOptions
from wirelake.protocols.tny.session import (
    ClientSession,
    NumbersLow,
    Pinged,
    Pushed,
    Requested,
    ServerSession,
)
from wirelake.protocols.tny.transform import Dialect, TransformConfig

MOVE = 2002

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)
both_roles = pytest.mark.parametrize("book", [server_book, client_book])


@rule("tny.3.start")
@both_dialects
def test_numbers_start_at_one_in_each_direction_and_ticks_have_none(dialect: Dialect) -> None:
    peer = Peer(dialect)
    asked = request(1, MOVE)
    (
        server_book(peer)
        >> Ping()
        << Emits(Pinged())
        << Pong()
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.respond(asked))
        << response(1, asked)
        >> (lambda s: s.ping())
        << Ping()
        >> (lambda s: s.push(MOVE))
        << push(2, MOVE)
    ).done()
    assert peer.writer.number == 1
    assert peer.numbers == [1, 2]


@rule("tny.3.start")
@both_roles
def test_number_zero_and_negative_numbers_are_replays(book: Any) -> None:
    for number in (0, -1):
        (
            book()
            >> Numbered(number, push(1, MOVE))
            << EmitsKind.of(Failed, code="number_replayed", fatal=True, side=Side.REMOTE)
            << Emits(Closed("number_replayed", Side.LOCAL, clean=False))
        ).done()


@rule("tny.3.gap")
@both_roles
@both_dialects
def test_up_to_thirty_numbers_ahead_are_legal(book: Any, dialect: Dialect) -> None:
    playbook = book(Peer(dialect))
    for number in (30, 31, 61):
        playbook >> Numbered(number, push(number, MOVE)) << Emits(Pushed(push(number, MOVE)))
    playbook.done()


@rule("tny.3.gap")
def test_a_gap_advances_the_packet_code_once_for_each_number() -> None:
    keyed = TransformConfig(security_keys=("throw-away",), verify=True, encrypt=True)
    peer = Peer("upstream", writing=keyed)
    lost = [peer.encode(push(n, MOVE)) for n in range(1, 30)]
    assert len(lost) == 29
    (
        server_book(peer, reading=keyed)
        >> push(30, MOVE, b"after 29 that were lost")
        << EmitsKind.of(Pushed)
    ).done()


@rule("tny.3.replay")
@both_roles
@both_dialects
def test_a_number_seen_before_closes_the_connection_and_nothing_is_sent(
    book: Any, dialect: Dialect
) -> None:
    (
        book(Peer(dialect))
        >> Numbered(5, push(1, MOVE))
        << Emits(Pushed(push(1, MOVE)))
        >> Numbered(5, push(2, MOVE))
        << EmitsKind.of(Failed, code="number_replayed", fatal=True)
        << Emits(Closed("number_replayed", Side.LOCAL, clean=False))
    ).done()


@rule("tny.3.skip")
@both_roles
@both_dialects
def test_a_number_more_than_thirty_ahead_closes_the_connection(book: Any, dialect: Dialect) -> None:
    (
        book(Peer(dialect))
        >> Numbered(1, push(1, MOVE))
        << Emits(Pushed(push(1, MOVE)))
        >> Numbered(32, push(2, MOVE))
        << EmitsKind.of(Failed, code="number_skipped", fatal=True)
        << Emits(Closed("number_skipped", Side.LOCAL, clean=False))
    ).done()


@rule("tny.3.skip")
def test_the_step_is_an_option() -> None:
    (
        server_book(reading=TransformConfig(skip_step=100))
        >> Numbered(100, push(1, MOVE))
        << Emits(Pushed(push(1, MOVE)))
    ).done()


@rule("tny.3.reset")
def test_a_new_connection_starts_again_at_one() -> None:
    for _ in range(2):
        peer = Peer()
        (
            server_book(peer)
            >> Numbered(1, push(1, MOVE))
            << Emits(Pushed(push(1, MOVE)))
            >> (lambda s: s.push(MOVE))
            << push(1, MOVE)
        ).done()
        assert peer.numbers == [1]


@rule("tny.3.access_id")
@both_dialects
def test_a_server_answers_with_the_access_id_of_the_first_packet(dialect: Dialect) -> None:
    peer = Peer(dialect, access_id=99)
    asked = request(1, MOVE)
    session = (
        server_book(peer)
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.respond(asked))
        << response(1, asked)
        >> Numbered(2, push(2, MOVE), access_id=100)  # read, and ignored
        << Emits(Pushed(push(2, MOVE)))
        >> (lambda s: s.push(MOVE))
        << push(2, MOVE)
    ).done()
    assert isinstance(session, ServerSession)
    assert session.peer_access_id == 99
    assert session.state == "open"
    assert peer.access_ids == [99, 99]


@rule("tny.3.access_id")
def test_a_server_that_writes_before_it_reads_has_access_id_0_for_ever() -> None:
    peer = Peer(access_id=99)
    session = (
        server_book(peer)
        >> (lambda s: s.push(MOVE))
        << push(1, MOVE)
        >> push(1, MOVE)
        << Emits(Pushed(push(1, MOVE)))
        >> (lambda s: s.push(MOVE))
        << push(2, MOVE)
    ).done()
    assert session.state == "unnamed"
    assert peer.access_ids == [0, 0]


@rule("tny.3.access_id")
def test_a_client_writes_its_own_access_id_or_0() -> None:
    peer = Peer()
    (client_book(peer) >> (lambda s: s.push(MOVE)) << push(1, MOVE)).done()
    assert peer.access_ids == [USER]
    both = Pair(ClientSession(), ServerSession())
    both.client.push(MOVE)  # type: ignore[attr-defined]
    both.run()
    assert isinstance(both.server, ServerSession)
    assert both.server.peer_access_id == 0


@rule("tny.3.end")
def test_a_connection_warns_and_then_closes_before_its_numbers_run_out() -> None:
    assert LAST_NUMBER == 2**31 - 2
    (
        client_book(max_number=4, numbers_low=2)
        >> (lambda s: s.push(MOVE))
        << push(1, MOVE)
        >> (lambda s: s.push(MOVE))
        << push(2, MOVE)
        << Emits(NumbersLow(2))
        >> (lambda s: s.push(MOVE))
        << push(3, MOVE)
        >> (lambda s: s.push(MOVE))
        << push(4, MOVE)
        << Emits(Closed("numbers_used_up", Side.LOCAL))
    ).done()


@rule("tny.3.end")
def test_a_number_beyond_31_bits_is_refused() -> None:
    with pytest.raises(SessionError) as error:
        ClientOptions(max_number=2**31)
    assert error.value.code == "bad_config"
