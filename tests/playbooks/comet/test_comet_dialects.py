"""Rule 6 of `docs/decisions/comet.md`: the original's layout and cipher, and telling layouts apart.

The keys are the vectors'; all of them are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.playbooks.comet.peer import (
    AUTH,
    CODECS,
    HELLO,
    VECTORS,
    CometPair,
    arrive,
    client_book,
    closed,
    failed,
    online,
    pair,
    vector,
)
from tests.playbooks.playbook import Emits, EmitsKind, rule

from wirelake.protocols.comet.layout import (
    AuthSuccess,
    GetMessageList,
    MessageList,
    Notification,
    Ok,
)
from wirelake.protocols.comet.limits import ClientOptions, ServerOptions
from wirelake.protocols.comet.sealing import HipushContent, RsaServerKey
from wirelake.protocols.comet.session import (
    ClientSession,
    KeyExchanged,
    Notified,
    Replied,
    ServerSession,
)
from wirelake.protocols.sansio import SessionError

LEGACY = VECTORS["legacy_exchange_key_rsa512_des"]
WEAK = RsaServerKey(bytes.fromhex(LEGACY["expect"]["rsa_private_pkcs8_hex"]), legacy_hipush=True)
DES_KEY = bytes.fromhex("0123456789abcdef")
SERVER = ServerOptions(dialect="hipush", legacy_hipush=True)
CLIENT = ClientOptions(dialect="hipush", legacy_hipush=True)
JOB = Notification(
    msg_type=1, msg_id="p0100001000abcde", job_id="j0100001000abcde", content=b"hello", ts=17
)
LIST = GetMessageList()


def legacy_pair(client: ClientOptions = CLIENT) -> CometPair:
    """Both ends as the original has them, after the key exchange."""
    both = pair(SERVER, client, WEAK)
    both.client.send(AUTH)
    both.run()
    both.server.accept()
    both.run()
    both.client.exchange_key(secret=DES_KEY)
    both.run()
    client_events, server_events = both.take()
    assert KeyExchanged() in client_events
    assert KeyExchanged() in server_events
    return both


# -- the original's suite --------------------------------------------------------------------


@rule("comet.6")
def test_the_original_s_key_exchange_at_a_server() -> None:
    """Its own frame, and its own notification, byte for byte."""
    book = online(SERVER, key=WEAK) >> vector("legacy_exchange_key_rsa512_des") << Ok()
    server: Any = (book << Emits(KeyExchanged())).done()
    fields = VECTORS["hipush_message"]["expect"]["fields"]
    notification = Notification(**{**fields, "content": fields["content"].encode()})
    server.send(notification)
    assert server.to_send() == vector("hipush_message")
    many = [
        Notification(**{**each, "content": each["content"].encode()})
        for each in VECTORS["hipush_message_list_3"]["expect"]["fields"]["messages"]
    ]
    server.receive(b"\x00\x01\x05", 0.0)
    server.send(MessageList(messages=server.page(many)))
    assert server.to_send() == vector("hipush_message_list_3")


@rule("comet.6")
@pytest.mark.parametrize("dialect", ["hipush", "auto"])
def test_the_original_s_notifications_at_a_client(dialect: Any) -> None:
    options = ClientOptions(dialect=dialect, legacy_hipush=True)
    book = arrive(client_book(options), AuthSuccess(encrypt_key=WEAK.encrypt_key))
    assert book.session.dialect == "hipush"  # type: ignore[attr-defined]
    book = book >> (lambda s: s.exchange_key(secret=DES_KEY)) << (lambda c: len(c.secret_key) == 64)
    book = book >> Ok() << Emits(KeyExchanged()) << EmitsKind.of(Replied)
    book = book >> vector("hipush_message") << EmitsKind.of(Notified, content=b"hello")
    book = book >> (lambda s: s.send(LIST)) << LIST >> vector("hipush_message_list_3")
    client: Any = book.session
    (book << EmitsKind.of(Replied)).done()
    assert client.dialect == "hipush"


@rule("comet.6")
@pytest.mark.parametrize("dialect", ["hipush", "auto"])
def test_the_original_s_suite_back_to_back(dialect: Any) -> None:
    both = legacy_pair(ClientOptions(dialect=dialect, legacy_hipush=True))
    both.server.send(JOB)
    ((notified,), _) = both.run().take()
    assert isinstance(notified, Notified)
    assert (notified.content, notified.notification.job_id) == (b"hello", JOB.job_id)
    both.client.send(LIST)
    both.run().take()
    both.server.send(MessageList(messages=(JOB, JOB)))
    assert both.run().take()[0] == [Replied(LIST, MessageList(messages=(JOB, JOB)))]


@rule("comet.6", "comet.class.bad_record")
def test_content_that_is_no_des_ends_a_client() -> None:
    both = legacy_pair()
    bad = Notification(msg_type=1, msg_id="p0", content=b"1234567", ts=0)
    both.client.receive(CODECS["hipush"].encode_frame(bad), 0.0)
    assert [event.code for event in both.client.events()[:1]] == ["bad_record"]  # type: ignore[attr-defined]
    assert both.client.closed


@rule("comet.6")
def test_a_page_of_the_original_s_fits() -> None:
    """Padding and job ids count."""
    both = legacy_pair()
    server: Any = both.server
    each = Notification(msg_type=1, msg_id="p" * 16, job_id="j" * 16, content=b"x" * 5_000, ts=1)
    both.client.send(LIST)
    both.run().take()
    taken = server.page([each] * 20)
    server.send(MessageList(messages=taken))
    assert len(taken) == 32_765 // (31 + 16 + 5_000 + 8 - 16)
    ((replied,), _) = both.run().take()
    assert replied == Replied(LIST, MessageList(messages=taken))


@rule("comet.6")
def test_the_weak_suite_is_never_offered_by_accident() -> None:
    with pytest.raises(SessionError, match="bad_config"):
        ServerSession(server_key=WEAK)
    with pytest.raises(SessionError, match="bad_config"):
        ServerSession(ServerOptions(dialect="hipush"), server_key=WEAK)
    with pytest.raises(SessionError, match="requires dialect hipush"):
        ServerOptions(legacy_hipush=True)
    with pytest.raises(SessionError, match="requires dialect hipush or auto"):
        ClientOptions(legacy_hipush=True)


@rule("comet.6")
def test_the_layout_without_the_weak_suite() -> None:
    """Modern sealing inside the original's layout, for peers that know both."""
    both = pair(ServerOptions(dialect="hipush"), ClientOptions(dialect="hipush"))
    both.client.send(AUTH)
    both.run()
    both.server.accept()
    both.run().take()
    both.server.send(JOB)
    assert both.run().take()[0] == [Notified(JOB, b"hello")]
    assert HipushContent(DES_KEY, legacy_hipush=True).seal(b"hello") != b"hello"


# -- auto ------------------------------------------------------------------------------------

AUTO = ClientOptions(dialect="auto")
notifications = st.builds(
    Notification,
    msg_type=st.integers(0, 255),
    msg_id=st.text(max_size=20),
    content=st.binary(max_size=40),
    ts=st.integers(-(2**63), 2**63 - 1),
)
jobs = st.builds(
    Notification,
    msg_type=st.integers(0, 255),
    msg_id=st.text(max_size=20),
    job_id=st.text(max_size=20),
    content=st.binary(max_size=40),
    ts=st.integers(-(2**63), 2**63 - 1),
)


@rule("comet.6")
@pytest.mark.parametrize("prefers", ["seed", "hipush"])
@pytest.mark.parametrize("sent_dialect", ["seed", "hipush"])
@given(data=st.data())
def test_a_single_notification_fits_one_layout_alone(
    sent_dialect: Any, prefers: Any, data: st.DataObject
) -> None:
    """Whatever its ts: read the wrong way it is short, or has bytes left over."""
    client = ClientSession(
        ClientOptions(dialect="auto", auto_prefers=prefers, allow_plaintext=True)
    )
    client.send(AUTH)
    client.receive(CODECS["seed"].encode_frame(AuthSuccess(encrypt_key=b"")), 0.0)
    client.events()
    sent = data.draw(notifications if sent_dialect == "seed" else jobs)
    client.receive(CODECS[sent_dialect].encode_frame(sent), 0.0)
    assert client.events() == [Notified(sent, sent.content)]
    assert client.dialect == sent_dialect


@rule("comet.6")
@pytest.mark.parametrize("sent_dialect", ["seed", "hipush"])
def test_the_layout_of_a_list_is_found_if_only_one_fits(sent_dialect: Any) -> None:
    sent = MessageList(messages=(HELLO if sent_dialect == "seed" else JOB,))
    book = arrive(client_book(AUTO)) >> (lambda s: s.send(LIST)) << LIST
    book = book >> CODECS[sent_dialect].encode_frame(sent) << Emits(Replied(LIST, sent))
    client: Any = book.done()
    assert client.dialect == sent_dialect


@rule("comet.6")
def test_a_list_that_fits_both_is_what_was_seen_before() -> None:
    """An empty list fits both, and proves nothing."""
    none = MessageList(messages=())
    for prefers in ("seed", "hipush"):
        options = ClientOptions(dialect="auto", auto_prefers=prefers)
        book = arrive(client_book(options)) >> (lambda s: s.send(LIST)) << LIST
        book = book >> none << Emits(Replied(LIST, none))
        client: Any = book.session
        assert client.dialect == prefers
        book = book >> CODECS["hipush"].encode_frame(JOB) << Emits(Notified(JOB, b"hello"))
        assert client.dialect == "hipush"
        book = book >> (lambda s: s.send(LIST)) << LIST >> none << Emits(Replied(LIST, none))
        assert client.dialect == "hipush"
        book.done()


@rule("comet.6")
def test_what_fits_neither_is_refused() -> None:
    book = arrive(client_book(AUTO)) >> vector("bad_message_short_ts") << failed("short")
    (book << closed("short")).done()
