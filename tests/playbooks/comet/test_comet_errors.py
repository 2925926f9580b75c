"""The error codes 0 to 7, and the classes of bad input (section 5 of `docs/decisions/comet.md`).

All tokens, keys and secrets are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.comet.peer import (
    ASKED,
    AUTH,
    FORMAT_ILLEGAL,
    HELLO,
    KEY,
    VECTORS,
    arrive,
    client_book,
    client_keyed,
    closed,
    exchange,
    failed,
    online,
    sealed,
    server_book,
    vector,
    welcome,
)
from tests.playbooks.playbook import Emits, EmitsKind, Eof, rule

from wirelake.protocols.comet.layout import (
    Error,
    ErrorCode,
    ExchangeKey,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    MessageList,
    Notification,
    Ok,
    Subscribe,
)
from wirelake.protocols.comet.limits import ServerOptions
from wirelake.protocols.comet.session import REASONS, HeartbeatAnswered, Notified, Requested
from wirelake.protocols.sansio import Closed, Failed, Side
from wirelake.wire.errors import CODES

TOLD_APART = ServerOptions(tell_unknown_clients=True)


# -- codes -----------------------------------------------------------------------------------


@rule("comet.error.0")
def test_error_0_token_illegal() -> None:
    book = server_book() >> AUTH << ASKED >> (lambda s: s.refuse(ErrorCode.TOKEN_ILLEGAL))
    welcome(book << (lambda e: e == _of("error_token_expired"))).done()


@rule("comet.error.1")
def test_error_1_client_not_found() -> None:
    book = server_book(TOLD_APART) >> AUTH << ASKED
    book = book >> (lambda s: s.refuse(ErrorCode.CLIENT_NOT_FOUND))
    welcome(book << (lambda e: e == _of("error_client_not_found"))).done()


@rule("comet.error.2")
def test_error_2_already_online() -> None:
    """It is always final."""
    book = server_book() >> AUTH << ASKED >> (lambda s: s.refuse(ErrorCode.ALREADY_ONLINE))
    book = book << (lambda e: e == _of("error_client_dup"))
    (book << failed("auth_failed") << closed("auth_failed")).done()


@rule("comet.error.3")
def test_error_3_server_error() -> None:
    """The application's to say, in its own words, to any command."""
    command = Subscribe(topics=("@news",))
    sorry = Error(error_code=3, reason="subscribe failed")
    book = online() >> command << Emits(Requested(command)) >> (lambda s: s.send(sorry)) << sorry
    (book >> Heartbeat() << Emits(HeartbeatAnswered()) << Ok()).done()


@rule("comet.error.4", "comet.class.bad_args")
@pytest.mark.parametrize(
    "name",
    [
        "args_subscribe_count_0",
        "args_subscribe_topic_without_at",
        "args_report_environ_isp_4",
        "args_subscribe_bad_utf8",
        "unsubscribe_0",
    ],
)
def test_error_4_bad_arguments(name: str) -> None:
    """Answered, and the connection stays."""
    reply = VECTORS[name]["expect"]["reply"]
    wanted = Error(error_code=reply["error_code"], reason=reply["reason"])
    book = online() >> vector(name) << failed("bad_args", fatal=False, side=Side.REMOTE) << wanted
    (book >> Heartbeat() << Emits(HeartbeatAnswered()) << Ok()).done()


@rule("comet.error.5")
def test_error_5_auth_required() -> None:
    book = server_book() >> GetTopicList() << failed("bad_state", fatal=False)
    welcome(book << (lambda e: e == _of("error_5_auth_required"))).done()


@rule("comet.error.4")
def test_every_code_has_a_description() -> None:
    assert set(REASONS) == set(ErrorCode)
    assert all(REASONS.values())


def test_custom_texts_and_custom_codes() -> None:
    book = server_book() >> AUTH << ASKED >> (lambda s: s.refuse(ErrorCode.TOO_BUSY, "later"))
    book = book << Error(error_code=6, reason="later")
    book = book >> AUTH << ASKED >> (lambda s: s.refuse(200))
    welcome(book << Error(error_code=200, reason="")).done()


def _of(name: str) -> Error:
    fields = VECTORS[name]["expect"]["fields"]
    return Error(error_code=fields["error_code"], reason=fields["reason"])


# -- classes of a decoder --------------------------------------------------------------------


@rule("comet.class.incomplete")
@pytest.mark.parametrize("name", ["bad_length_only_8000", "incomplete_length", "empty_input"])
def test_an_incomplete_frame_is_waited_for(name: str) -> None:
    session = (online() >> vector(name)).done()
    assert session.buffered == len(vector(name))
    assert not session.closed


@rule("comet.class.incomplete")
def test_an_incomplete_frame_at_the_end_is_an_error() -> None:
    book = online() >> vector("auth")[:-1] >> Eof() << failed("short")
    (book << closed("eof", clean=False, side=Side.REMOTE)).done()


@rule("comet.class.frame_error")
def test_a_frame_without_a_type() -> None:
    _refused_by_a_server("bad_length_0", "bad_length")
    _refused_by_a_client(b"\x00\x00", "bad_length")


@rule("comet.class.unknown_type")
def test_an_unknown_type() -> None:
    _refused_by_a_server("bad_type_255", "unknown_type")
    _refused_by_a_client(vector("bad_s2c_type_8"), "unknown_type")


@rule("comet.class.unknown_type")
def test_earlier_messages_are_delivered() -> None:
    """The first heartbeat is answered; of the rest nothing is read."""
    book = online() >> vector("bad_good_then_bad") << Emits(HeartbeatAnswered()) << Ok()
    book = book << failed("unknown_type", offset=len(vector("auth")) + 3 + 2) << FORMAT_ILLEGAL
    (book << closed("unknown_type")).done()


@rule("comet.class.truncated")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bad_report_environ_nocount", "short"),
        ("bad_report_environ_extra_overrun", "length_overrun"),
    ],
)
def test_a_field_that_runs_past_its_frame(name: str, code: str) -> None:
    _refused_by_a_server(name, code)


@rule("comet.class.truncated")
@pytest.mark.parametrize(
    "name",
    [
        "bad_message_short_ts",
        "bad_message_list_count",
        "bad_error_no_reason",
        "bad_auth_success_empty",
    ],
)
def test_a_field_that_runs_past_its_frame_at_a_client(name: str) -> None:
    _refused_by_a_client(vector(name), None)


@rule("comet.class.trailing")
def test_bytes_left_over() -> None:
    _refused_by_a_server("bad_count_underrun", "trailing_bytes")
    _refused_by_a_client(vector("bad_ok_trailing"), "trailing_bytes")


@rule("comet.class.bad_key")
@pytest.mark.parametrize(
    "secret_key", [b"", bytes(79), bytes(80), bytes(81), b"\x09" + bytes(79)], ids=len
)
def test_a_key_that_does_not_unwrap(secret_key: bytes) -> None:
    """Whatever is wrong: the same answer, and the end."""
    book = online(key=KEY) >> ExchangeKey(secret_key=secret_key) << failed("bad_key")
    book = book << Error(error_code=4, reason="bad key")
    (book << closed("bad_key", clean=False)).done()


@rule("comet.class.bad_key")
def test_the_vector_of_a_bad_key() -> None:
    book = online(key=KEY) >> vector("bad_exchange_key_x25519") << failed("bad_key")
    (book << Error(error_code=4, reason="bad key") << closed("bad_key")).done()


@rule("comet.class.bad_key")
def test_a_key_that_the_server_refuses_ends_a_client() -> None:
    command, _ = exchange()
    book = arrive(client_book())
    book = book >> (lambda s: s.exchange_key(secret=bytes(32), eph_private=bytes(range(32))))
    book = book << (lambda c: type(c) is type(command))
    book = (
        book
        >> Error(error_code=4, reason="bad key")
        << failed("bad_key", detail="error 4: bad key")
    )
    (book << closed("bad_key")).done()


@rule("comet.class.bad_record")
def test_content_that_does_not_open_ends_a_client_without_an_acknowledgement() -> None:
    book, _ = client_keyed()
    book = book >> vector("bad_message_encrypted_tag") << failed("bad_record", side=Side.REMOTE)
    (book << closed("bad_record", clean=False)).done()


@rule("comet.class.bad_record")
def test_of_a_list_with_one_bad_record_nothing_is_delivered() -> None:
    book, sealer = client_keyed()
    good = sealed(sealer, HELLO)
    bad = Notification(msg_type=1, msg_id="p1", content=b"\x01" + bytes(40), ts=0)
    ask = GetMessageList()
    book = book >> (lambda s: s.send(ask)) << ask
    book = book >> MessageList(messages=(good, bad)) << failed("bad_record")
    session: Any = (book << closed("bad_record")).done()
    assert session.unanswered == (ask,)


@rule("comet.class.bad_record")
def test_after_a_key_exchange_content_in_clear_is_refused() -> None:
    book, sealer = client_keyed()
    book = book >> sealed(sealer, HELLO) << EmitsKind.of(Notified, content=b"hello")
    (book >> HELLO << failed("bad_record") << closed("bad_record")).done()


def test_every_code_is_in_the_one_list() -> None:
    used = "short bad_length unknown_type length_overrun trailing_bytes bad_args bad_key bad_record"
    used += " bad_state too_busy auth_failed timeout idle unexpected_reply encrypt_required"
    assert set(used.split()) <= set(CODES)


def _refused_by_a_server(name: str, code: str) -> None:
    before = len(vector("auth"))
    book = online() >> vector(name) << EmitsKind.of(Failed, code=code, fatal=True)
    session = (book << FORMAT_ILLEGAL << closed(code, clean=False)).done()
    assert session.received_bytes == before + len(vector(name))


def _refused_by_a_client(data: bytes, code: str | None) -> None:
    book = arrive(client_book()) >> data
    having = {} if code is None else {"code": code}
    book = book << EmitsKind.of(Failed, fatal=True, **having)
    (book << EmitsKind.of(Closed, clean=False)).done()
