"""The other end of a comet playbook: frames by hand, and none of the rules.

`server_book` talks to a `ServerSession`, `client_book` to a `ClientSession`; `welcome` and `arrive`
take either through auth. `exchange` is a client's side of the key exchange, made of functions of
`sealing.py` alone, so that a playbook never proves a session by another session.

All ids, tokens, keys and secrets here are throw-away test values.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.playbooks.playbook import Emits, EmitsKind, Pair, Playbook

from wirelake.protocols.comet import codec_seed
from wirelake.protocols.comet.layout import Auth, AuthSuccess, Error, ExchangeKey, Notification, Ok
from wirelake.protocols.comet.limits import ClientOptions, ServerOptions
from wirelake.protocols.comet.protocol import PROTOCOL
from wirelake.protocols.comet.sealing import (
    ContentOpener,
    ContentSealer,
    ServerKey,
    X25519ServerKey,
    content_key,
    wrap_secret,
)
from wirelake.protocols.comet.session import (
    Authenticated,
    AuthRequested,
    ClientSession,
    KeyExchanged,
    Replied,
    ServerSession,
)
from wirelake.protocols.sansio import Closed, Failed

CODECS: dict[str, Any] = {name: PROTOCOL.codec(name) for name in PROTOCOL.dialects}
VECTORS = {
    line["name"]: line
    for line in map(
        json.loads,
        (Path(__file__).parents[2] / "vectors" / "comet.jsonl").read_text("utf-8").splitlines(),
    )
}

CLIENT_ID = "c01000010000abcd"
TOKEN = "t550e8400-e29b-41d4-a716-446655440000"
AUTH = Auth(client_id=CLIENT_ID, token=TOKEN)
ASKED = Emits(AuthRequested(CLIENT_ID, TOKEN))
SIGNED_ON = Emits(Authenticated(CLIENT_ID))

PRIVATE = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
EPH_PRIVATE = bytes.fromhex("b8023ae2fde9f544066bcf9704cd01cd03f717b8987fb41ad2818b37e8edd94f")
SECRET = bytes(range(0x40, 0x60))
KEY = X25519ServerKey(PRIVATE)
LET_IN = AuthSuccess(encrypt_key=KEY.encrypt_key)

HELLO = Notification(msg_type=1, msg_id="p0100001000abcde", content=b"hello", ts=1_438_848_000_123)
FORMAT_ILLEGAL = Error(error_code=4, reason="message format illegal")


def vector(name: str) -> bytes:
    """The bytes of a vector."""
    return bytes.fromhex(VECTORS[name]["hex"])


def failed(code: str, **having: Any) -> EmitsKind:
    """A `Failed` with this code."""
    return EmitsKind.of(Failed, code=code, **having)


def closed(reason: str, **having: Any) -> EmitsKind:
    """A `Closed` with this reason."""
    return EmitsKind.of(Closed, reason=reason, **having)


# -- a server under test ---------------------------------------------------------------------


def server_book(
    options: ServerOptions | None = None, *, key: ServerKey | None = None, now: float = 0.0
) -> Playbook:
    """A dialogue with a server that has just accepted a connection."""
    session = ServerSession(options, server_key=key, now=now)
    codec = CODECS[session.options.dialect]
    return Playbook(session, decode=codec.decode_frame_s2c, encode=codec.encode_frame, now=now)


def welcome(book: Playbook, key: ServerKey | None = None) -> Playbook:
    """The client signs on and is let in."""
    answer = AuthSuccess(encrypt_key=key.encrypt_key if key else b"")
    return book >> AUTH << ASKED >> (lambda s: s.accept()) << SIGNED_ON << answer


def online(
    options: ServerOptions | None = None, *, key: ServerKey | None = None, now: float = 0.0
) -> Playbook:
    """A dialogue with a server whose client is signed on."""
    return welcome(server_book(options, key=key, now=now), key)


def exchange(
    pinned: bytes | None = None, key: ServerKey = KEY
) -> tuple[ExchangeKey, ContentOpener]:
    """What a client says for the X25519 suite, and what opens content after it."""
    auth = codec_seed.encode_frame(AUTH)
    success = codec_seed.encode_frame(AuthSuccess(encrypt_key=key.encrypt_key))
    wrapped = wrap_secret(
        key.encrypt_key,
        SECRET,
        auth=auth,
        auth_success=success,
        eph_private=EPH_PRIVATE,
        pinned=pinned,
    )
    command = ExchangeKey(secret_key=wrapped)
    frame = codec_seed.encode_frame(command)
    return command, ContentOpener(content_key(SECRET, auth, success, frame))


def keyed(options: ServerOptions | None = None) -> tuple[Playbook, ContentOpener]:
    """A dialogue with a server after the key exchange."""
    command, opener = exchange()
    book = online(options, key=KEY) >> command << Ok() << Emits(KeyExchanged())
    return book, opener


def opened(opener: ContentOpener, sealed: Notification) -> bytes:
    """The content of a sealed notification, which must be the next one."""
    return opener.open(sealed.content, msg_type=sealed.msg_type, msg_id=sealed.msg_id, ts=sealed.ts)


# -- a client under test ---------------------------------------------------------------------


def client_book(options: ClientOptions | None = None, *, now: float = 0.0) -> Playbook:
    """A dialogue with a client that has just connected."""
    session = ClientSession(options, now=now)
    dialect = "seed" if session.options.dialect == "auto" else session.options.dialect
    codec = CODECS[dialect]
    return Playbook(session, decode=codec.decode_frame_c2s, encode=codec.encode_frame, now=now)


def arrive(book: Playbook, answer: AuthSuccess = LET_IN) -> Playbook:
    """The client signs on and is let in."""
    book = book >> (lambda s: s.send(AUTH)) << AUTH >> answer
    return book << SIGNED_ON << Emits(Replied(AUTH, answer))


def client_keyed(options: ClientOptions | None = None) -> tuple[Playbook, ContentSealer]:
    """A dialogue with a client after the key exchange, and what seals content for it."""
    command, _ = exchange()
    book = arrive(client_book(options))
    book = book >> (lambda s: s.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)) << command
    book = book >> Ok() << Emits(KeyExchanged()) << Emits(Replied(command, Ok()))
    auth, success = codec_seed.encode_frame(AUTH), codec_seed.encode_frame(LET_IN)
    key = content_key(SECRET, auth, success, codec_seed.encode_frame(command))
    return book, ContentSealer(key)


def sealed(sealer: ContentSealer, notification: Notification) -> Notification:
    """A notification with its content sealed."""
    content = sealer.seal(
        notification.content,
        msg_type=notification.msg_type,
        msg_id=notification.msg_id,
        ts=notification.ts,
    )
    return Notification(
        msg_type=notification.msg_type,
        msg_id=notification.msg_id,
        content=content,
        ts=notification.ts,
    )


# -- both ------------------------------------------------------------------------------------


class CometPair(Pair):
    """A client and a server, by their own classes."""

    client: ClientSession
    server: ServerSession


def pair(
    server: ServerOptions | None = None,
    client: ClientOptions | None = None,
    key: ServerKey | None = KEY,
) -> CometPair:
    """A client and a server back to back, not yet signed on."""
    return CometPair(ClientSession(client), ServerSession(server, server_key=key))


def online_pair(
    server: ServerOptions | None = None,
    client: ClientOptions | None = None,
    key: ServerKey | None = KEY,
) -> CometPair:
    """A client and a server back to back, signed on; what happened so far is taken."""
    both = pair(server, client, key)
    both.client.send(AUTH)
    both.run()
    both.server.accept()
    both.run().take()
    assert both.client.authenticated
    return both
