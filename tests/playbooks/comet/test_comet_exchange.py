"""The key exchange and sealed content: sections 4 and 7 of `docs/decisions/comet.md`.

The vectors' transcript (auth, auth_success_x25519, exchange_key_x25519, message_encrypted) goes
through real sessions, byte for byte. All tokens, keys and secrets are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.comet.peer import (
    ASKED,
    AUTH,
    EPH_PRIVATE,
    HELLO,
    KEY,
    PRIVATE,
    SECRET,
    SIGNED_ON,
    VECTORS,
    arrive,
    client_book,
    client_keyed,
    closed,
    exchange,
    failed,
    keyed,
    online,
    online_pair,
    opened,
    pair,
    sealed,
    server_book,
    vector,
    welcome,
)
from tests.playbooks.playbook import Emits, EmitsKind, rule

from wirelake.protocols.comet import codec_seed
from wirelake.protocols.comet.layout import (
    Auth,
    AuthSuccess,
    Error,
    ErrorCode,
    ExchangeKey,
    GetMessageList,
    MessageList,
    Notification,
    Ok,
)
from wirelake.protocols.comet.limits import ClientOptions, ServerOptions
from wirelake.protocols.comet.sealing import MAX_SEALED, RsaServerKey, ServerKey, X25519ServerKey
from wirelake.protocols.comet.session import (
    Authenticated,
    AuthRequested,
    ClientSession,
    KeyExchanged,
    Notified,
    Replied,
    Requested,
    ServerSession,
)
from wirelake.protocols.sansio import Side

STATIC = bytes(range(1, 33))
PINNED = X25519ServerKey(STATIC).encrypt_key[-32:]
RSA = RsaServerKey(
    bytes.fromhex(VECTORS["exchange_key_rsa2048_oaep"]["expect"]["rsa_private_pkcs8_hex"])
)
BAD_KEY = Error(error_code=4, reason="bad key")


def frame(message: Any) -> bytes:
    """The bytes of a message, in the document's dialect."""
    data: bytes = codec_seed.encode_frame(message)
    return data


# -- the transcript of the vectors -----------------------------------------------------------


def test_the_transcript_at_a_server() -> None:
    server = ServerSession(server_key=X25519ServerKey(PRIVATE))
    server.receive(vector("auth"), 0.0)
    server.accept()
    assert server.to_send() == vector("auth_success_x25519")
    server.receive(vector("exchange_key_x25519"), 0.0)
    assert server.to_send() == vector("ok")
    server.send(HELLO)
    assert server.to_send() == vector("message_encrypted")


def test_the_transcript_at_a_client() -> None:
    client = ClientSession()
    client.send(AUTH)
    assert client.to_send() == vector("auth")
    client.receive(vector("auth_success_x25519"), 0.0)
    secret = bytes.fromhex(VECTORS["exchange_key_x25519"]["expect"]["unwrapped_hex"])
    client.exchange_key(secret=secret, eph_private=EPH_PRIVATE)
    assert client.to_send() == vector("exchange_key_x25519")
    client.receive(vector("ok") + vector("message_encrypted"), 0.0)
    *_, last = client.events()
    assert isinstance(last, Notified)
    assert last.content == VECTORS["message_encrypted"]["expect"]["decrypted_content"].encode()


def test_the_rsa_transcript_at_a_server() -> None:
    """The wrapped secret of the vector, whose auth it is not tied to."""
    book = online(key=RSA) >> vector("exchange_key_rsa2048_oaep") << Ok()
    (book << Emits(KeyExchanged())).done()
    assert frame(AuthSuccess(encrypt_key=RSA.encrypt_key)) == vector("auth_success_rsa2048")


# -- both suites, back to back ---------------------------------------------------------------


@pytest.mark.parametrize("key", [KEY, RSA], ids=["x25519", "rsa-oaep"])
def test_sealed_from_the_ok_on(key: ServerKey) -> None:
    """In lists and in pushes; what was pushed before was in clear."""
    both = online_pair(key=key)
    server: Any = both.server
    server.send(HELLO)
    assert both.run().take()[0] == [Notified(HELLO, b"hello")]
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    both.run().take()
    for _ in range(2):
        both.client.send(GetMessageList())
        both.run().take()
        server.send(MessageList(messages=(HELLO, HELLO)))
        replied: Any = both.run().take()[0][0]
        assert replied.reply == MessageList(messages=(HELLO, HELLO))
        server.send(HELLO)
        notified: Any = both.run().take()[0][0]
        assert (notified.content, len(notified.notification.content)) == (b"hello", 30)


def test_pushes_cross_the_exchange() -> None:
    """A push that left before the ok is in clear; the client reads it so."""
    both = online_pair()
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    both.server.send(HELLO)
    both.server.receive(both.client.to_send(), 0.0)
    both.server.send(HELLO)
    client, _ = both.run().take()
    kinds = [type(event) for event in client]
    assert kinds == [Notified, KeyExchanged, Replied, Notified]
    assert [e.content for e in client if isinstance(e, Notified)] == [b"hello", b"hello"]


def test_a_second_exchange_is_refused() -> None:
    book, _ = keyed()
    command, _ = exchange()
    book = book >> command << failed("bad_key") << BAD_KEY
    (book << closed("bad_key", clean=False)).done()


def test_a_server_without_a_key_has_nothing_to_exchange() -> None:
    book = online() >> ExchangeKey(secret_key=bytes(80)) << failed("bad_key") << BAD_KEY
    (book << closed("bad_key")).done()


def test_the_aad_binds_the_other_fields() -> None:
    book, sealer = client_keyed()
    right = sealed(sealer, HELLO)
    wrong = Notification(msg_type=2, msg_id=right.msg_id, content=right.content, ts=right.ts)
    (book >> wrong << failed("bad_record") << closed("bad_record")).done()


def test_at_two_to_the_32_the_connection_ends() -> None:
    book, opener = keyed()
    server: Any = book.session
    server._sealer.counter = opener.counter = MAX_SEALED - 1
    book = book >> (lambda s: s.send(HELLO)) << (lambda n: opened(opener, n) == b"hello")
    (book << closed("counter_limit", side=Side.LOCAL)).done()


def test_a_list_that_uses_the_last_counter_is_the_last() -> None:
    book, opener = keyed()
    server: Any = book.session
    server._sealer.counter = opener.counter = MAX_SEALED - 2
    book = book >> GetMessageList() << Emits(Requested(GetMessageList()))
    book = book >> (lambda s: s.send(MessageList(messages=(HELLO, HELLO))))
    book = book << (lambda m: [opened(opener, n) for n in m.messages] == [b"hello"] * 2)
    (book << closed("counter_limit", clean=True)).done()


def test_a_list_that_would_go_beyond_is_not_sent() -> None:
    book, _ = keyed()
    server: Any = book.session
    server._sealer.counter = MAX_SEALED - 1
    book = book >> GetMessageList() << Emits(Requested(GetMessageList()))
    book = book >> (lambda s: s.send(MessageList(messages=(HELLO, HELLO))))
    (book << closed("counter_limit", clean=False)).done()


# -- 7.1: pinned keys, and what is no key ----------------------------------------------------


@rule("comet.7.1")
@pytest.mark.parametrize("key", [RSA.encrypt_key, b"", b"no key"], ids=["rsa", "empty", "unknown"])
def test_a_pinning_client_takes_x25519_alone(key: bytes) -> None:
    """An attacker's RSA key would pass the pin unseen."""
    book = client_book(ClientOptions(pinned=PINNED)) >> (lambda s: s.send(AUTH)) << AUTH
    book = book >> AuthSuccess(encrypt_key=key) << failed("bad_key")
    (book << closed("bad_key", clean=False)).done()


@rule("comet.7.1")
def test_a_pinned_key_on_both_sides() -> None:
    key = X25519ServerKey(PRIVATE, static_private=STATIC)
    both = online_pair(client=ClientOptions(pinned=PINNED), key=key)
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    client, server = both.run().take()
    assert (type(client[0]), server) == (KeyExchanged, [KeyExchanged()])
    both.server.send(HELLO)
    ((notified,), _) = both.run().take()
    assert isinstance(notified, Notified)
    assert notified.content == b"hello"


@rule("comet.7.1")
@pytest.mark.parametrize(
    ("static", "pinned"),
    [(None, PINNED), (STATIC, None), (bytes(range(2, 34)), PINNED)],
    ids=["client only", "server only", "another"],
)
def test_a_pin_that_does_not_fit_the_server(static: bytes | None, pinned: bytes | None) -> None:
    """Nobody but the owner of the pinned key can unwrap what the client sends."""
    key = X25519ServerKey(PRIVATE, static_private=static)
    both = online_pair(client=ClientOptions(pinned=pinned), key=key)
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    client, server = both.run().take()
    assert [e.code for e in client if hasattr(e, "code")] == ["bad_key"]
    assert [e.code for e in server if hasattr(e, "code")] == ["bad_key"]
    assert both.client.closed
    assert both.server.closed


@rule("comet.7.1")
@pytest.mark.parametrize("kind", ["empty", "unknown", "weak"])
def test_no_usable_key_ends_a_client(kind: str) -> None:
    """Downgrade protection: never a fallback."""
    key = {"empty": b"", "unknown": b"\x30\x03\x02\x01\x00", "weak": _weak_key()}[kind]
    answer = AuthSuccess(encrypt_key=key)
    book = client_book() >> (lambda s: s.send(AUTH)) << AUTH >> answer
    (book << failed("bad_key") << closed("bad_key")).done()
    book = arrive(client_book(ClientOptions(allow_plaintext=True)), answer)
    (book >> HELLO << Emits(Notified(HELLO, b"hello"))).done()


def _weak_key() -> bytes:
    """The original's kind of key: RSA with 512 bits."""
    pkcs8 = VECTORS["legacy_exchange_key_rsa512_des"]["expect"]["rsa_private_pkcs8_hex"]
    return RsaServerKey(bytes.fromhex(pkcs8), legacy_hipush=True).encrypt_key


# -- 7.2: TH1 --------------------------------------------------------------------------------


@rule("comet.7.2")
def test_the_successful_auth_counts() -> None:
    """A refused attempt before it is not part of the transcript, at either end."""
    both = pair()
    wrong = Auth(client_id=AUTH.client_id, token="stale, throw-away")
    both.client.send(wrong)
    both.run()
    both.server.refuse()
    both.run()
    both.client.send(AUTH)
    both.run()
    both.server.accept()
    both.run().take()
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    assert both.run().take()[1] == [KeyExchanged()]
    command, _ = exchange()  # made from AUTH and its answer alone
    book = server_book(key=KEY) >> wrong << EmitsKind.of(AuthRequested)
    book = book >> (lambda s: s.refuse()) << (lambda e: e.error_code == 0)
    (welcome(book, KEY) >> command << Ok() << Emits(KeyExchanged())).done()


@rule("comet.7.2")
def test_another_auth_does_not_unwrap() -> None:
    command, _ = exchange()
    other = Auth(client_id=AUTH.client_id, token="another, throw-away")
    book = server_book(key=KEY) >> other << EmitsKind.of(AuthRequested)
    book = book >> (lambda s: s.accept()) << Emits(Authenticated(other.client_id))
    book = book << AuthSuccess(encrypt_key=KEY.encrypt_key)
    (book >> command << failed("bad_key") << BAD_KEY << closed("bad_key")).done()


@rule("comet.7.2")
def test_the_pinned_key_is_in_the_transcript() -> None:
    key = X25519ServerKey(PRIVATE, static_private=STATIC)
    command, _ = exchange(PINNED, key)
    (online(key=key) >> command << Ok() << Emits(KeyExchanged())).done()
    assert command != exchange()[0]


# -- 7.3: the counter ------------------------------------------------------------------------


@rule("comet.7.3")
def test_the_counter_goes_up_by_exactly_one() -> None:
    """In list order, resends included."""
    book, opener = keyed()
    messages = (HELLO, HELLO)
    book = book >> (lambda s: s.send(HELLO)) << (lambda n: opened(opener, n) == b"hello")
    book = book >> GetMessageList() << Emits(Requested(GetMessageList()))
    book = book >> (lambda s: s.send(MessageList(messages=messages)))
    book = book << (lambda m: [opened(opener, n) for n in m.messages] == [b"hello"] * 2)
    (book >> (lambda s: s.send(HELLO)) << (lambda n: opened(opener, n) == b"hello")).done()
    assert opener.counter == 4


@rule("comet.7.3")
@pytest.mark.parametrize("what", ["deleted", "repeated"])
def test_a_deleted_or_repeated_notification_shows(what: str) -> None:
    book, sealer = client_keyed()
    first, second, third = (sealed(sealer, HELLO) for _ in range(3))
    book = book >> first << EmitsKind.of(Notified, content=b"hello")
    book = book >> second << EmitsKind.of(Notified, content=b"hello")
    wrong = second if what == "repeated" else sealed(sealer, HELLO)
    assert third.content != wrong.content
    (book >> wrong << failed("bad_record") << closed("bad_record")).done()


# -- 7.4: ids cannot be probed ---------------------------------------------------------------


@rule("comet.7.4")
def test_errors_0_and_1_get_the_same_answer() -> None:
    answers = []
    for code in (ErrorCode.TOKEN_ILLEGAL, ErrorCode.CLIENT_NOT_FOUND):
        server = ServerSession()
        server.receive(frame(AUTH), 0.0)
        server.refuse(code, "no such client, in words of its own")
        answers.append((server.to_send(), server.state))
    assert answers[0] == answers[1] == (vector("error_token_expired"), "new")


@rule("comet.7.4")
def test_the_token_is_judged_before_the_other_connection() -> None:
    """Who is refused never learns whether the client is online."""
    old = online().done()
    book = server_book(ServerOptions(on_duplicate="reject")) >> AUTH << ASKED
    (book >> (lambda s: s.refuse()) << (lambda e: e.error_code == 0)).done()
    assert isinstance(old, ServerSession)
    assert not old.closed
    book = server_book() >> AUTH << ASKED >> (lambda s: s.accept(elsewhere=old))
    (book << SIGNED_ON << AuthSuccess(encrypt_key=b"")).done()
    assert old.closed
