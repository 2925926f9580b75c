"""Section 4 of the magline decisions on live sessions: modes, keys, records, limits, downgrade.

Resumption (4.10) and section 6 have a file of their own. All keys, secrets and session ids here are
throw-away test values.
"""

from __future__ import annotations

import hmac
import json

import pytest
from tests.playbooks.magline.peer import (
    ANONYMOUS,
    PINNED,
    PSK,
    SHARED,
    STATIC,
    Bare,
    ServerPeer,
    To,
    an_ack,
    err,
    fin,
    head,
    new_client,
    new_server,
    open_client,
    open_server,
    psh,
    refused,
    refused_bare,
    rep,
    req,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, Eof, Playbook, rule

from wirelake.protocols.magline.codec_seed import decode_frame
from wirelake.protocols.magline.handshake import psk_key_id, server_key_id, x25519_public
from wirelake.protocols.magline.layout import ErrorNumber, Pin, Pon, Reason
from wirelake.protocols.magline.limits import ClientOptions, ServerOptions
from wirelake.protocols.magline.records import DIRECTION_BYTES_LIMIT, SEQ_LIMIT, Opener
from wirelake.protocols.magline.session import (
    ClientKey,
    ClientSession,
    Established,
    MemoryStore,
    Pinged,
    Pushed,
    Refused,
    Replied,
    Request,
    Requested,
    RequestLost,
    ServerKeys,
    ServerSession,
)
from wirelake.protocols.sansio import Closed, Failed, SessionError, Side
from wirelake.wire.errors import EncodeError

DAY = 24 * 3600.0


def silently(book: Playbook) -> None:
    """The client closes without a word."""
    book << EmitsKind.of(Failed, code="handshake_failed")
    book << Emits(Closed("handshake_failed", Side.LOCAL, clean=False))
    book.done()


@rule("magline.4.1")
def test_4_1_there_is_no_plaintext_after_the_handshake() -> None:
    plain = head(magic=0x7E, cmd=6, seq=2, length=25) + bytes(3) + b"\1" + bytes(16) + b"hello"
    refused(open_server()[1], plain, "bad_record", ErrorNumber.BAD_RECORD)


@rule("magline.4.2")
def test_4_2_anonymous_must_be_asked_for() -> None:
    with pytest.raises(EncodeError, match="allow_anonymous"):
        ClientKey()
    with pytest.raises(EncodeError, match="allow_anonymous"):
        ServerKeys()
    peer, book = new_server(keys=ServerKeys(static=[STATIC], psks=[PSK]))
    refused_bare(book, peer.syn(), "handshake_failed", ErrorNumber.HANDSHAKE, Reason.HANDSHAKE)


@rule("magline.4.2")
@pytest.mark.parametrize("psk", [b"correct horse battery staple", b"", bytes(31), bytes(33)])
def test_4_2_a_passphrase_is_no_shared_key(psk: bytes) -> None:
    with pytest.raises(EncodeError, match="32 bytes"):
        ClientKey(psk=psk)
    with pytest.raises(EncodeError, match="32 bytes"):
        ServerKeys(psks=[psk])


@rule("magline.4.2")
@pytest.mark.parametrize(
    ("client", "server"), [(PINNED, ANONYMOUS), (SHARED, ANONYMOUS), (ANONYMOUS, PINNED)]
)
def test_4_2_a_mismatch_of_modes_fails_at_the_ack(client: ClientKey, server: ClientKey) -> None:
    """A server that answers as if it were configured otherwise."""
    peer, book = new_client(key=client)
    other = ServerPeer(server)
    other.hello = peer.hello
    book >> other.ack()
    silently(book)


@rule("magline.4.3")
def test_4_3_a_public_key_that_forces_a_zero_secret_is_refused() -> None:
    zero = head(length=64) + bytes(64)
    refused_bare(new_server()[1], zero, "handshake_failed", ErrorNumber.HANDSHAKE, Reason.HANDSHAKE)
    peer, book = new_client()
    ack = peer.ack()
    book >> ack[:48] + bytes(32) + ack[80:]
    silently(book)


@rule("magline.4.3")
def test_4_3_key_ids_find_the_key_so_that_keys_can_be_rotated() -> None:
    """The new key is added, clients move over, the old one is removed."""
    fresh, spare = bytes([0x66]) * 32, bytes([0x77]) * 32
    moved = ClientKey(pinned=x25519_public(fresh))
    both = ServerKeys(static=[STATIC, fresh], psks=[PSK, spare])
    for key in (PINNED, moved, SHARED, ClientKey(psk=spare)):
        peer, book = new_server(keys=both, key=key)
        book >> peer.syn() << an_ack << EmitsKind.of(Established, mode=key.mode)
        session = book.done()
        assert isinstance(session, ServerSession)
        assert session.key_id == key.key_id
    only_new = ServerKeys(static=[fresh], psks=[spare])
    for key in (PINNED, SHARED):
        peer, book = new_server(keys=only_new, key=key)
        refused_bare(book, peer.syn(), "handshake_failed", ErrorNumber.HANDSHAKE, Reason.HANDSHAKE)
    assert PINNED.key_id == server_key_id(x25519_public(STATIC))
    assert SHARED.key_id == psk_key_id(PSK)


@rule("magline.4.3")
def test_4_3_every_connection_has_keys_of_its_own() -> None:
    keys = {open_server(seed=str(n))[0].keys for n in range(3)}
    assert len({k.prk for k in keys if k is not None}) == 3


@rule("magline.4.4")
@pytest.mark.parametrize("at", [10, 20, 60, 80, 95, 96, 111])
def test_4_4_an_ack_that_does_not_verify_closes_without_an_answer(at: int) -> None:
    peer, book = new_client(key=PINNED)
    ack = bytearray(peer.ack())
    ack[at] ^= 1
    book >> bytes(ack)
    silently(book)


@rule("magline.4.4")
def test_4_4_only_the_owner_of_the_pinned_key_can_answer() -> None:
    peer, book = new_client(key=PINNED)
    impostor = ServerPeer(PINNED, static=bytes([0x99]) * 32)
    impostor.hello = peer.hello
    book >> impostor.ack()
    silently(book)


@rule("magline.4.5")
def test_4_5_data_of_any_size_and_none_is_sealed() -> None:
    peer, book = open_client()
    for size in (0, 1, 15, 16, 17, 5000):
        data = bytes(size)
        book >> psh(1, data) << Emits(Pushed(1, data))
        book >> (lambda s, d=data: s.send(Request(2, d))) << req(2, data)
        assert size < 15 or data not in peer.frames[-1]
    empty = bytearray(peer.encode(psh(1)))
    empty[-1] ^= 1
    book >> bytes(empty) << err(ErrorNumber.BAD_RECORD) << fin(Reason.PROTOCOL)
    book << EmitsKind.of(Failed, code="bad_record")
    for seq in range(2, 8):
        book << Emits(RequestLost(seq, 2, "connection_lost"))
    book << Emits(Closed("bad_record", Side.LOCAL, clean=False))
    book.done()


@rule("magline.4.6")
@pytest.mark.parametrize("at", [8, 11, 18, 33, 34, 37])
def test_4_6_the_tag_covers_the_whole_control_frame(at: int) -> None:
    peer, book = open_server()
    frame = bytearray(peer.encode(Pin(ping_number=1)))
    frame[at] ^= 1
    refused(book, bytes(frame), "bad_record", ErrorNumber.BAD_RECORD)


@rule("magline.4.6")
def test_4_6_a_command_cannot_be_turned_into_another() -> None:
    """A PIN that is made a FIN: same sizes, same options, another head."""
    peer, book = open_server()
    frame = bytearray(peer.encode(Pin(ping_number=0)))
    frame[3] = 9
    refused(book, bytes(frame), "bad_record", ErrorNumber.BAD_RECORD)


@rule("magline.4.7")
def test_4_7_replay_reorder_and_drop_show() -> None:
    for order, heard in (((0, 0), 1), ((1,), 0), ((0, 2), 1), ((2, 1, 0), 0)):
        peer, book = open_server()
        sent = [peer.encode(req(n, bytes([n]))) for n in (1, 2, 3)]
        for at in order:
            book.session.receive(sent[at], 0.0)
        events = book.session.events()
        assert [type(event) for event in events] == [Requested] * heard + [Failed, Closed]
        assert events[-1] == Closed("bad_record", Side.LOCAL, clean=False)


@rule("magline.4.7")
def test_4_7_a_frame_of_another_connection_or_direction_does_not_verify() -> None:
    other, _ = open_server(seed="other")
    refused(open_server()[1], other.encode(req(1)), "bad_record", ErrorNumber.BAD_RECORD)
    peer, book = open_client()
    assert peer.keys is not None
    peer.sealer = peer.opener  # the client's own keys, turned back on it
    refused(book, peer.encode(rep(1)), "bad_record", ErrorNumber.BAD_RECORD)


@rule("magline.4.7")
def test_4_7_an_end_without_an_authenticated_fin_is_abnormal() -> None:
    for _, book in (open_server(), open_client(), new_server(), new_client()):
        book >> Eof() << Emits(Closed("eof", Side.REMOTE, clean=False))
        book.done()
    peer, book = open_server()
    book >> peer.encode(req(1, b"cut"))[:30] >> Eof() << EmitsKind.of(Failed, code="short")
    book << Emits(Closed("eof", Side.REMOTE, clean=False))
    book.done()


@rule("magline.4.8")
def test_4_8_one_outcome_for_hmac_tag_and_seq() -> None:
    """The peer sees the same bytes' worth of answer, and the application nothing but the fault."""
    answers = []
    for broken in ("hmac", "tag", "seq"):
        store = MemoryStore()
        peer, book = open_server(store=store)
        frame = bytearray(peer.encode(Pin(ping_number=1) if broken == "tag" else req(1, b"x")))
        frame[{"hmac": 20, "tag": 18, "seq": 11}[broken]] ^= 1
        refused(book, bytes(frame), "bad_record", ErrorNumber.BAD_RECORD, detail="")
        answers.append([found[:4] + found[12:18] for found in peer.frames[1:]])
        assert isinstance(book.session, ServerSession)
        assert store.find(book.session.session_id, 0.0) is not None  # the session lives on
    assert answers[0] == answers[1] == answers[2]


@rule("magline.4.9")
def test_4_9_keys_are_changed_before_seq_runs_out() -> None:
    options = ClientOptions(rekey_seq=20)
    _, book = open_client(options)
    for seq in range(2, 17):
        book >> (lambda s: s.send(Request(1))) << req(1)
        book >> To(seq, rep(1)) << Emits(Replied(seq, 1, b""))
    book >> (lambda s: s.send(Request(1))) << req(1) << fin(Reason.REKEY)
    book << Emits(RequestLost(17, 1, "connection_lost"))
    book << Emits(Closed("rekey", Side.LOCAL, clean=False))
    session = book.done()
    assert isinstance(session, ClientSession)
    assert session.ticket is not None
    assert ClientOptions().rekey_seq == SEQ_LIMIT == 0xFFFF_0000


@rule("magline.4.9")
def test_4_9_the_receiver_ends_what_the_sender_does_not() -> None:
    peer, book = new_server()
    peer.seq = 0x7FFF_FFFE
    book >> peer.syn() << an_ack << EmitsKind.of(Established)
    book.session._seq_in.last = peer.seq = SEQ_LIMIT - 2  # type: ignore[attr-defined]
    book >> Pin(ping_number=1) << Pon(ping_number=1) << fin(Reason.REKEY) << Emits(Pinged(1))
    book << Emits(Closed("rekey", Side.LOCAL))
    book.done()


@rule("magline.4.9")
def test_4_9_and_before_2_to_the_38_bytes_in_one_direction() -> None:
    assert ServerOptions().rekey_bytes == DIRECTION_BYTES_LIMIT == 1 << 38
    for name in ("sent_bytes", "received_bytes"):
        _, book = open_server()
        setattr(book.session, name, (1 << 38) - (1 << 20) - 256)
        if name == "received_bytes":
            book >> Pin(ping_number=1) << Pon(ping_number=1) << Emits(Pinged(1))
            book.session.received_bytes = (1 << 38) - 1
        book >> Pin(ping_number=2) << Pon(ping_number=2) << fin(Reason.REKEY)
        book << Emits(Pinged(2)) << Emits(Closed("rekey", Side.LOCAL))
        book.done()


@rule("magline.4.9")
def test_4_9_and_after_24_hours() -> None:
    _, book = open_client(ClientOptions(heartbeat_s=2 * DAY))
    book >> At(DAY - 1) >> At(DAY) << fin(Reason.REKEY) << Emits(Closed("rekey", Side.LOCAL))
    book.done()
    _, book = open_server(ServerOptions(idle_limit_s=2 * DAY))
    book >> At(DAY - 1) >> At(DAY) << fin(Reason.REKEY) << Emits(Closed("rekey", Side.LOCAL))
    book.done()


@rule("magline.4.9")
def test_4_9_the_handshake_has_10_seconds() -> None:
    for _, book in (new_server(), new_client()):
        book >> At(9.9)
        book >> At(10) << Bare(err(ErrorNumber.TIMEOUT)) << Bare(fin(Reason.HANDSHAKE))
        book << EmitsKind.of(Failed, code="timeout")
        book << Emits(Closed("timeout", Side.LOCAL, clean=False))
        book.done()


@rule("magline.4.9")
def test_4_9_frames_are_small_before_the_handshake_is_over() -> None:
    for cmd, magic in ((1, 0x7F), (9, 0x7F), (6, 0x7E)):
        frame = head(magic=magic, cmd=cmd, length=513)
        refused_bare(new_server()[1], frame, "too_large", ErrorNumber.TOO_LARGE)
    refused_bare(
        new_client()[1], head(magic=0x7E, cmd=8, length=513), "too_large", ErrorNumber.TOO_LARGE
    )
    _, book = open_client()
    book >> psh(1, bytes(2000)) << Emits(Pushed(1, bytes(2000)))
    book.done()


@rule("magline.4.11")
@pytest.mark.parametrize("number", [int(number) for number in ErrorNumber])
def test_4_11_an_err_before_keys_ends_an_attempt_and_changes_nothing(number: int) -> None:
    _, book = new_client(key=PINNED)
    book >> err(number) << Emits(Refused(number, trusted=False))
    book >> Eof() << Emits(Closed("refused", Side.REMOTE, clean=False))
    session = book.done()
    assert isinstance(session, ClientSession)
    after = session.again(now=1.0)
    assert (after.key, after.options) == (PINNED, session.options)


@rule("magline.4.11")
def test_4_11_a_session_is_not_resumed_in_another_mode() -> None:
    _, book = open_client(key=PINNED)
    assert isinstance(book.session, ClientSession)
    ticket = book.session.ticket
    for weaker in (ANONYMOUS, SHARED, ClientKey(pinned=bytes([1]) * 32)):
        with pytest.raises(EncodeError, match="began with"):
            ClientSession(key=weaker, entropy=bytes, ticket=ticket)


@rule("magline.4.12")
def test_4_12_the_exporter_is_known_to_both_ends_and_to_no_one_between() -> None:
    """A man in the middle has two connections, and so two exporters."""
    for peer, book in (open_server(), open_client()):
        assert peer.keys is not None
        assert book.session.exporter == peer.keys.exporter  # type: ignore[attr-defined]
    near, far = open_server(seed="near")[1], open_server(seed="far")[1]
    proof = hmac.digest(near.session.exporter, b"login", "sha256")  # type: ignore[attr-defined]
    assert proof != hmac.digest(far.session.exporter, b"login", "sha256")  # type: ignore[attr-defined]
    with pytest.raises(SessionError, match="no keys"):
        _ = new_server()[1].session.exporter  # type: ignore[attr-defined]


@rule("magline.4.13")
def test_4_13_ephemeral_keys_are_dropped_and_nothing_shows_secrets() -> None:
    peer, book = open_client(key=SHARED)
    session = book.session
    assert isinstance(session, ClientSession)
    assert session._private == session._syn == b""
    assert peer.keys is not None
    shown = repr(session.ticket) + repr(session.key) + repr(peer.keys)
    assert session.ticket is not None
    for secret in (PSK, peer.keys.res, peer.keys.prk, session.ticket.sid):
        assert repr(secret) not in shown
        assert secret.hex() not in shown


@rule("magline.6.3")
def test_6_3_a_key_log_reads_and_never_forges() -> None:
    peer, book = open_client()
    assert isinstance(book.session, ClientSession)
    line = book.session.key_log()
    logged = json.loads(line)
    assert peer.keys is not None
    for secret in (peer.keys.c2s_mac, peer.keys.s2c_mac, peer.keys.res, peer.keys.exporter):
        assert secret.hex() not in line
    frame = peer.encode(psh(5, b"read me"))
    opened = Opener(logged, "s2c", "seed").open(decode_frame(frame, 0, len(frame))[0], frame)
    assert opened == {"data": b"read me", "hmac_state": "unverified"}
    with pytest.raises(SessionError, match="no keys"):
        new_client()[1].session.key_log()  # type: ignore[attr-defined]


@rule("magline.6.4")
def test_6_4_one_cipher_context_per_direction() -> None:
    """The same objects seal and open every frame of a connection."""
    _, book = open_server()
    session = book.session
    assert isinstance(session, ServerSession)
    kept = session._sealer, session._opener
    for number in range(3):
        book >> Pin(ping_number=number) << Pon(ping_number=number) << Emits(Pinged(number))
    assert (session._sealer, session._opener) == kept
