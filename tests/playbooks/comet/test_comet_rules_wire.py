"""Rules 1 to 11 of `docs/decisions/comet.md`: what is on the wire, and how much of it.

All tokens, keys and secrets are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.comet.peer import (
    AUTH,
    EPH_PRIVATE,
    FORMAT_ILLEGAL,
    HELLO,
    KEY,
    LET_IN,
    SECRET,
    arrive,
    client_book,
    closed,
    exchange,
    failed,
    online,
    online_pair,
    server_book,
    vector,
    welcome,
)
from tests.playbooks.playbook import Emits, EmitsKind, rule

from wirelake.hub.config import Limits
from wirelake.protocols.comet import codec_seed
from wirelake.protocols.comet.layout import (
    Auth,
    Error,
    GetMessageList,
    GetTopicList,
    MessageAck,
    MessageList,
    Notification,
    Ok,
    ReportEnviron,
    Subscribe,
    TopicList,
)
from wirelake.protocols.comet.limits import (
    SEND_COUNT,
    SEND_FRAME,
    ClientOptions,
    ServerOptions,
    content_limit,
    page,
    topics_fit,
)
from wirelake.protocols.comet.session import (
    AuthRequested,
    HeartbeatAnswered,
    KeyExchanged,
    Notified,
    Replied,
    Requested,
)
from wirelake.protocols.sansio import SessionError
from wirelake.wire.errors import EncodeError


def note(number: int, content: bytes = b"x") -> Notification:
    """A notification with an id of 16 bytes."""
    return Notification(msg_type=1, msg_id=f"p{number:015}", content=content, ts=number)


@rule("comet.1")
def test_integers_are_big_endian() -> None:
    """A length in the other order is a longer frame, which is waited for."""
    (online() >> b"\x00\x01\x06" << Ok() << Emits(HeartbeatAnswered())).done()
    session = (online() >> b"\x01\x00\x06").done()
    assert session.buffered == 3
    (arrive(client_book()) >> vector("message") << Emits(Notified(HELLO, b"hello"))).done()


@rule("comet.2")
@pytest.mark.parametrize("name", ["message_ack_255", "message_ack_frame_65535", "len_32767_ack"])
def test_lengths_and_counts_are_read_unsigned(name: str) -> None:
    data = vector(name)
    command, _ = codec_seed.decode_frame_c2s(data, 0, len(data))
    (online() >> data << Emits(Requested(command))).done()


@rule("comet.2")
@pytest.mark.parametrize("name", ["message_list_255", "topic_list_255"])
def test_a_client_reads_them_unsigned_too(name: str) -> None:
    data = vector(name)
    reply, _ = codec_seed.decode_frame_s2c(data, 0, len(data))
    ask = GetMessageList() if isinstance(reply, MessageList) else GetTopicList()
    book = arrive(client_book()) >> (lambda s: s.send(ask)) << ask
    (book >> data << Emits(Replied(ask, reply))).done()


@rule("comet.2")
def test_what_is_sent_can_be_read_as_signed() -> None:
    ids = tuple(f"p{n:015}" for n in range(SEND_COUNT + 1))
    book = arrive(client_book()) >> (lambda s: s.send(MessageAck(msg_ids=ids[1:])))
    book = book << MessageAck(msg_ids=ids[1:])
    session: Any = (book >> Ok() << EmitsKind.of(Replied)).done()
    with pytest.raises(SessionError, match="too_large"):
        session.send(MessageAck(msg_ids=ids))
    with pytest.raises(SessionError, match="too_large"):
        session.send(MessageAck(msg_ids=("x" * (SEND_FRAME - 3),)))
    extra = tuple("abcdefgh" * 16)
    with pytest.raises(SessionError, match="too_large"):
        session.send(ReportEnviron(network_type=0, isp=0, phone_type="", extra=extra))
    assert session.to_send() == b""
    session.send(MessageAck(msg_ids=("x" * (SEND_FRAME - 4),)))
    assert session.to_send()[:2] == b"\x7f\xff"


@rule("comet.2")
def test_a_server_keeps_to_the_same() -> None:
    server: Any = (online() >> GetMessageList() << Emits(Requested(GetMessageList()))).done()
    with pytest.raises(SessionError, match="too_large"):
        server.send(MessageList(messages=tuple(map(note, range(SEND_COUNT + 1)))))
    with pytest.raises(SessionError, match="too_large"):
        server.send(note(1, b"x" * SEND_FRAME))
    assert server.to_send() == b""
    server.send(MessageList(messages=tuple(map(note, range(SEND_COUNT)))))
    assert server.pending == 0


@rule("comet.2")
def test_an_encoder_never_wraps() -> None:
    with pytest.raises(EncodeError):
        codec_seed.encode_frame(TopicList(topics=("@",) * 256))
    with pytest.raises(EncodeError):
        codec_seed.encode_frame(Error(error_code=3, reason="x" * 65_539))


@rule("comet.3")
def test_bytes_have_a_length_of_two_bytes() -> None:
    command, _ = exchange()
    assert codec_seed.encode_frame(command)[3:5] == b"\x00\x50"
    (online(key=KEY) >> command << Ok() << Emits(KeyExchanged())).done()
    book = client_book() >> (lambda s: s.send(AUTH)) << AUTH
    book = book >> vector("bad_auth_success_no_prefix") << failed("length_overrun")
    (book << closed("length_overrun")).done()


@rule("comet.4")
def test_extra_has_a_count() -> None:
    data = vector("report_environ_2")
    command, _ = codec_seed.decode_frame_c2s(data, 0, len(data))
    assert command.extra == ("os=5.0", "v=1.2")
    book = online() >> data << Emits(Requested(command)) >> (lambda s: s.send(Ok())) << Ok()
    book = book >> vector("bad_report_environ_nocount") << failed("short") << FORMAT_ILLEGAL
    (book << closed("short")).done()


@rule("comet.5")
@pytest.mark.parametrize("name", ["bad_count_underrun", "bad_exchange_key_trailing"])
def test_bytes_left_over_are_refused_by_a_server(name: str) -> None:
    book = online(key=KEY) >> vector(name) << failed("trailing_bytes", fatal=True)
    (book << FORMAT_ILLEGAL << closed("trailing_bytes", clean=False)).done()


@rule("comet.5")
@pytest.mark.parametrize("name", ["bad_ok_trailing", "bad_message_trailing"])
def test_bytes_left_over_are_refused_by_a_client(name: str) -> None:
    book = arrive(client_book()) >> vector(name) << failed("trailing_bytes")
    (book << closed("trailing_bytes")).done()


@rule("comet.6")
def test_the_layout_of_the_document_is_the_default() -> None:
    (arrive(client_book()) >> vector("message") << Emits(Notified(HELLO, b"hello"))).done()
    book = arrive(client_book()) >> vector("hipush_message") << failed("trailing_bytes")
    (book << closed("trailing_bytes")).done()


@rule("comet.7")
@pytest.mark.parametrize("sealed", [False, True], ids=["clear", "sealed"])
@pytest.mark.parametrize(
    ("waiting", "pages"),
    [
        ([note(n) for n in range(300)], [127, 127, 46, 0]),
        ([note(n, b"x" * 16_000) for n in range(5)], [2, 2, 1, 0]),
        ([note(n, b"x" * Limits().content_bytes) for n in range(3)], [1, 1, 1, 0]),
    ],
    ids=["many", "large", "largest"],
)
def test_a_list_is_read_page_by_page(
    waiting: list[Notification], pages: list[int], sealed: bool
) -> None:
    """One message_list for one get_message_list; acknowledge and ask again until none comes."""
    both, inbox, got = online_pair(), list(waiting), []
    client: Any = both.client
    server: Any = both.server
    if sealed:
        client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
        both.run().take()
    for wanted in pages:
        client.send(GetMessageList())
        both.run()
        server.send(MessageList(messages=server.page(inbox)))
        replied: Any = both.run().take()[0][0]
        reply = replied.reply
        assert len(reply.messages) == wanted
        got += reply.messages
        client.send(MessageAck(msg_ids=tuple(each.msg_id for each in reply.messages)))
        both.run().take()
        server.send(Ok())
        both.run().take()
        del inbox[:wanted]
    assert got == waiting


@rule("comet.7")
def test_a_page_has_at_least_one() -> None:
    """Publishing refuses what could not go alone, so a page is never stuck."""
    large = note(1, b"x" * content_limit(16, sealed=True))
    assert page([large, note(2)], sealed=True) == (large,)
    assert page([], sealed=False) == ()


@rule("comet.8")
def test_the_largest_content_of_one_frame() -> None:
    assert content_limit(16, sealed=False, listed=False) == 32_737
    assert content_limit(16, sealed=False) == 32_736
    assert content_limit(16, sealed=True, listed=False) == 32_712
    assert Limits().content_bytes == 16_384
    (arrive(client_book()) >> vector("message_frame_32767") << EmitsKind.of(Notified)).done()
    both = online_pair()
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    both.run().take()
    largest = note(1, b"x" * content_limit(16, sealed=True, listed=False))
    with pytest.raises(SessionError, match="too_large"):
        both.server.send(note(1, largest.content + b"x"))
    both.server.send(largest)  # and the failed attempt has not used a counter up
    (notified,) = both.run().take()[0]
    assert isinstance(notified, Notified)
    assert notified.content == largest.content


@rule("comet.9")
def test_topics_that_would_not_fit_a_list_are_refused_at_subscription() -> None:
    """The application asks `topics_fit` before it says ok."""
    have = [f"@topic/{n}" for n in range(126)]
    assert topics_fit([*have, "@one"])
    assert not topics_fit([*have, "@one", "@two"])
    assert not topics_fit([f"@{n}{'x' * 250}" for n in range(127)] + ["@"])
    assert topics_fit(["@" + "好" * 85] * 126)
    assert not topics_fit(["@" + "好" * 86] * 127)
    command = Subscribe(topics=("@one", "@two"))
    answer = Ok() if topics_fit([*have, *command.topics]) else FORMAT_ILLEGAL
    book = online() >> command << Emits(Requested(command)) >> (lambda s: s.send(answer))
    (book << FORMAT_ILLEGAL).done()


@rule("comet.10", "comet.class.bad_args")
@pytest.mark.parametrize(
    ("data", "field"),
    [
        (vector("args_subscribe_bad_utf8"), "subscribe.topics"),
        (b"\x00\x05\x07\x01\x00\x01\xff", "message_ack.msg_ids"),
        (b"\x00\x07\x08\x00\x00\x00\x01\xff\x00", "report_environ.phone_type"),
        (b"\x00\x09\x08\x00\x00\x00\x00\x01\x00\x01\xff", "report_environ.extra"),
    ],
)
def test_text_must_be_utf8(data: bytes, field: str) -> None:
    """Error 4, and the connection stays."""
    book = online() >> data << failed("bad_args", field=field, fatal=False) << FORMAT_ILLEGAL
    (book >> b"\x00\x01\x06" << Ok() << Emits(HeartbeatAnswered())).done()


@rule("comet.10")
def test_content_is_bytes() -> None:
    odd = note(1, b"\xff\xfe")
    (online() >> (lambda s: s.send(odd)) << odd).done()
    (arrive(client_book()) >> odd << Emits(Notified(odd, b"\xff\xfe"))).done()


@rule("comet.10")
def test_an_id_that_cannot_be_acknowledged_is_not_pushed() -> None:
    server: Any = online().done()
    with pytest.raises(SessionError, match="invalid_utf8"):
        server.send(Notification(msg_type=1, msg_id="\udcff", content=b"", ts=0))


@rule("comet.11")
@pytest.mark.parametrize("client_id", ["x", "phone-17", "好", "c" * 256])
def test_any_id_is_taken(client_id: str) -> None:
    auth = Auth(client_id=client_id, token="throw-away")
    (server_book() >> auth << Emits(AuthRequested(client_id, "throw-away"))).done()


@rule("comet.11")
@pytest.mark.parametrize("client_id", ["", "c" * 257])
def test_no_id_and_a_very_long_one_are_not(client_id: str) -> None:
    auth = Auth(client_id=client_id, token="throw-away")
    book = server_book() >> auth << failed("bad_args", field="auth.client_id", fatal=False)
    welcome(book << FORMAT_ILLEGAL).done()


@rule("comet.11")
def test_the_rule_for_ids_can_be_replaced() -> None:
    strict = ServerOptions(valid_id=lambda text: len(text) == 16 and text[0] == "c")
    short = Auth(client_id="phone-17", token="throw-away")
    book = server_book(strict) >> short << failed("bad_args") << FORMAT_ILLEGAL
    welcome(book).done()


@rule("comet.3", "comet.4")
def test_a_client_reads_what_a_server_writes() -> None:
    """The same frames, session to session."""
    both = online_pair(client=ClientOptions())
    environ = ReportEnviron(network_type=1, isp=2, phone_type="x", extra=("a", "b"))
    both.client.send(environ)
    assert both.run().take() == ([], [Requested(environ)])
    both.server.send(Ok())
    assert both.run().take() == ([Replied(environ, Ok())], [])
    assert both.client.encrypt_key == LET_IN.encrypt_key
