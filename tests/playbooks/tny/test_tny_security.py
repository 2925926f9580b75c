"""Verify, encrypt and waste on live connections (§4, §8.3 to §8.5 of the rules).

The keys are throw-away test values.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.playbooks.playbook import Emits, EmitsKind, Pair, rule
from tests.playbooks.tny.peer import (
    DIALECTS,
    KEYS,
    USER,
    Numbered,
    Peer,
    client_book,
    filler,
    push,
    request,
    response,
    server_book,
)

from wirelake.protocols.sansio import Closed, Failed, SessionError, Side
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.session import ClientSession, Pushed, Replied, Requested, ServerSession
from wirelake.protocols.tny.transform import Dialect, TransformConfig, xor_crypt

MOVE = 2002
OPTIONS = [
    {"verify": verify, "encrypt": encrypt, "waste": waste}
    for verify, encrypt, waste in product((False, True), repeat=3)
]

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)
every_option = pytest.mark.parametrize(
    "bits", OPTIONS, ids=lambda bits: "+".join(name for name, on in bits.items() if on) or "none"
)


def config(**bits: bool) -> TransformConfig:
    return TransformConfig(security_keys=KEYS, **bits)


@rule("tny.4.verify", "tny.4.encrypt", "tny.4.waste")
@both_dialects
@every_option
def test_a_conversation_under_every_option(dialect: Dialect, bits: dict[str, bool]) -> None:
    peer = Peer(dialect, reading=config(**bits), writing=config(**bits))
    asked = request(1, MOVE, b"body")
    (
        server_book(peer, reading=config(**bits), writing=config(**bits))
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.respond(asked, b"answer"))
        << response(1, asked, b"answer")
    ).done()
    answer = response(1, asked, b"answer")
    peer = Peer(dialect, reading=config(**bits), writing=config(**bits))
    (
        client_book(peer, reading=config(**bits), writing=config(**bits))
        >> (lambda s: s.request(MOVE, b"body"))
        << asked
        >> answer
        << Emits(Replied(asked, answer))
    ).done()


@rule("tny.4.verify", "tny.4.encrypt", "tny.4.waste")
@both_dialects
@every_option
def test_forty_messages_back_to_back(dialect: Dialect, bits: dict[str, bool]) -> None:
    client = ClientSession(
        ClientOptions(dialect=dialect, writing=config(**bits), reading=config(**bits)),
        access_id=USER,
        random=filler,
    )
    server = ServerSession(
        ServerOptions(dialect=dialect, writing=config(**bits), reading=config(**bits)),
        random=filler,
    )
    both = Pair(client, server)
    bodies = [b"x" * n for n in range(40)]
    for body in bodies:
        client.push(MOVE, body)
        server.push(MOVE, body)
    both.run()
    for events in both.take():
        assert [event.message.body for event in events if isinstance(event, Pushed)] == bodies


@rule("tny.4.honoured")
@both_dialects
@every_option
def test_a_receiver_with_an_option_off_honours_its_bit(
    dialect: Dialect, bits: dict[str, bool]
) -> None:
    peer = Peer(dialect, writing=config(**bits))
    (
        server_book(peer, reading=config())
        >> push(1, MOVE, b"body")
        << Emits(Pushed(push(1, MOVE, b"body")))
    ).done()


@rule(
    "tny.4.required",
    "tny.error.verify_required",
    "tny.error.encrypt_required",
    "tny.error.waste_required",
)
@both_dialects
@pytest.mark.parametrize("option", ["verify", "encrypt", "waste"])
@pytest.mark.parametrize("book", [server_book, client_book])
def test_a_receiver_with_an_option_on_refuses_packets_without_it(
    book: Any, option: str, dialect: Dialect
) -> None:
    others = {"verify", "encrypt", "waste"} - {option}
    peer = Peer(dialect, writing=config(**dict.fromkeys(others, True)))
    playbook = (
        book(peer, reading=config(**{option: True}))
        >> push(1, MOVE)
        << EmitsKind.of(Failed, code=f"{option}_required", fatal=True)
    )
    if book is server_book:
        playbook << push(1, 0, code=ResultCode.DECODE_ERROR)
    (playbook << Emits(Closed(f"{option}_required", Side.LOCAL, clean=False))).done()


@rule("tny.error.verify_failed", "tny.6.warn_level")
@both_dialects
def test_a_wrong_check_code_costs_the_packet_and_not_the_connection(dialect: Dialect) -> None:
    peer = Peer(dialect, writing=config(verify=True))
    spoilt = bytearray(peer.encode(push(1, MOVE, b"body")))
    spoilt[-1] ^= 1
    (
        server_book(peer, reading=config(verify=True))
        >> bytes(spoilt)
        << EmitsKind.of(Failed, code="verify_failed", fatal=False)
        << push(1, 0, code=ResultCode.VERIFY_FAILED)
        >> push(2, MOVE)
        << Emits(Pushed(push(2, MOVE)))
    ).done()
    peer = Peer(dialect, writing=config(verify=True))
    peer.encode(push(1, MOVE, b"body"))
    (
        client_book(peer, reading=config(verify=True))
        >> bytes(spoilt)
        << EmitsKind.of(Failed, code="verify_failed", fatal=False)
        >> push(2, MOVE)
        << Emits(Pushed(push(2, MOVE)))
    ).done()


@rule("tny.4.verify")
def test_thirty_wrong_codes_in_a_row_are_too_many() -> None:
    peer = Peer(writing=config(verify=True))
    session = ServerSession(ServerOptions(reading=config(verify=True)))
    codes = []
    while not session.closed:
        spoilt = bytearray(peer.encode(push(1, MOVE)))
        spoilt[-1] ^= 1
        session.receive(bytes(spoilt), 0.0)
        codes += [event.code for event in session.events() if isinstance(event, Failed)]
    assert codes == ["verify_failed"] * 30 + ["number_skipped"]


@rule("tny.4.encrypt", "tny.8.5")
@both_dialects
def test_the_cipher_is_the_same_in_both_dialects(dialect: Dialect) -> None:
    peer = Peer(dialect, reading=config(encrypt=True))
    (
        client_book(peer, writing=config(encrypt=True))
        >> (lambda s: s.push(MOVE, b"body"))
        << push(1, MOVE, b"body")
    ).done()
    plain = peer.codec.write_message(push(1, MOVE, b"body"))
    sealed = xor_crypt(plain, KEYS[1].encode(), peer.reader.packet_code)
    assert peer.raw[0].endswith(sealed)


@rule("tny.4.encrypt")
@both_dialects
def test_encryption_without_a_key_is_refused(dialect: Dialect) -> None:
    (
        server_book(Peer(dialect, writing=config(encrypt=True)))
        >> push(1, MOVE)
        << EmitsKind.of(Failed, code="bad_key", fatal=True)
        << push(1, 0, code=ResultCode.DECODE_ERROR)
        << EmitsKind.of(Closed, reason="bad_key")
    ).done()


@rule("tny.8.3")
def test_the_check_code_is_4_bytes_in_seed_and_8_in_upstream() -> None:
    sizes = {}
    for dialect in DIALECTS:
        peer = Peer(dialect, reading=config(verify=True))
        message = push(1, MOVE, b"body")
        (
            client_book(peer, writing=config(verify=True))
            >> (lambda s: s.push(MOVE, b"body"))
            << message
        ).done()
        unchecked = peer.encode(Numbered(1, message))
        sizes[dialect] = len(peer.raw[0]) - len(unchecked)
    assert sizes == {"seed": 4, "upstream": 8}


@rule("tny.8.4", "tny.4.waste")
def test_waste_is_whole_bytes_in_seed_and_shifts_bits_in_upstream() -> None:
    shifted = set()
    for dialect in DIALECTS:
        peer = Peer(dialect, reading=config(waste=True))
        book = client_book(peer, writing=config(waste=True))
        for n in range(1, 20):
            book >> (lambda s: s.push(MOVE, b"body")) << push(n, MOVE, b"body")
            plain = peer.codec.write_message(push(n, MOVE, b"body"))
            if plain not in peer.raw[-1]:
                shifted.add(dialect)
    assert shifted == {"upstream"}


def test_waste_needs_a_source_of_random_bytes() -> None:
    with pytest.raises(SessionError) as error:
        ClientSession(ClientOptions(writing=config(waste=True)))
    assert error.value.code == "bad_config"
