"""magline's key agreement: the vectors, two sides that meet, and what must be refused.

All keys, secrets and session ids here and in the vectors are throw-away test values.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.magline.handshake import (
    RESUME_OPTION,
    SEALED_SID_SIZE,
    Mode,
    SessionKeys,
    bind_syn,
    client_keys,
    derive_keys,
    open_sid,
    psk_key_id,
    resume_sid,
    seal_sid,
    server_key_id,
    server_keys,
    verify_binder,
    x25519_public,
    x25519_shared,
)
from wirelake.wire.errors import DecodeError, EncodeError

VECTORS = Path(__file__).parents[2] / "vectors" / "magline.jsonl"


def load() -> dict[str, dict[str, Any]]:
    with VECTORS.open(encoding="utf-8") as lines:
        return {vector["name"]: vector for vector in map(json.loads, lines)}


V = load()


def frame(name: str) -> bytes:
    return bytes.fromhex(V[name]["hex"])


def hex_of(vector: str, key: str) -> bytes | None:
    value = V[vector]["expect"].get(key)
    return None if value is None else bytes.fromhex(value)


def ephemeral(ack: str, side: str) -> bytes:
    """The pinned and psk lines reuse the ephemeral keys of the anonymous one."""
    value = hex_of(ack, f"{side}_private") or hex_of("ack", f"{side}_private")
    assert value is not None
    return value


AGREEMENTS = [
    ("syn", "ack", Mode.ANONYMOUS, None),
    ("syn_pinned", "ack_pinned", Mode.PINNED, None),
    ("syn_psk", "ack_psk", Mode.PSK, None),
    ("resyn", "ack_resumed", Mode.RESUME, "resyn"),
]


def both_sides(
    syn: str, ack: str, mode: Mode, resumed: str | None
) -> tuple[SessionKeys, SessionKeys]:
    secrets = {
        "psk": hex_of(ack, "psk_hex"),
        "resumption": hex_of(resumed, "resumption_secret") if resumed else None,
    }
    client = client_keys(
        mode=mode,
        private=ephemeral(ack, "client"),
        syn=frame(syn),
        ack=frame(ack),
        server_public=hex_of(ack, "server_static_public"),
        **secrets,
    )
    server = server_keys(
        mode=mode,
        private=ephemeral(ack, "server"),
        syn=frame(syn),
        ack_clear=frame(ack)[:-SEALED_SID_SIZE],
        static_private=hex_of(ack, "server_static_private"),
        **secrets,
    )
    return client, server


@pytest.mark.parametrize(("syn", "ack", "mode", "resumed"), AGREEMENTS)
def test_agreement_vector(syn: str, ack: str, mode: Mode, resumed: str | None) -> None:
    expect = V[ack]["expect"]
    assert expect["mode"] == mode
    client, server = both_sides(syn, ack, mode, resumed)
    assert client == server
    for label, value in expect["keys"].items():
        assert getattr(client, label.lower()).hex() == value, label
    sid = bytes.fromhex(expect["sid"])
    assert open_sid(client, frame(ack)) == sid
    ack_clear = frame(ack)[:-SEALED_SID_SIZE]
    assert seal_sid(server, ack_clear, sid).hex() == expect["fields"]["sealed_sid"]


def test_every_ack_vector_is_run() -> None:
    with_keys = {name for name, vector in V.items() if "keys" in vector["expect"]}
    assert with_keys == {ack for _, ack, _, _ in AGREEMENTS}


def test_x25519_vectors() -> None:
    expect = V["x25519_public_from_private"]["expect"]
    assert x25519_public(bytes.fromhex(expect["private"])).hex() == expect["public"]
    for name in ("ack", "ack_resumed"):
        fields = V[name]["expect"]["fields"]
        assert x25519_public(ephemeral(name, "server")).hex() == fields["public_key"]
    pinned = V["ack_pinned"]["expect"]
    static = x25519_public(bytes.fromhex(pinned["server_static_private"]))
    assert static.hex() == pinned["server_static_public"]


def test_zero_public_key_vector() -> None:
    vector = V["sess_zero_public_key"]
    with pytest.raises(DecodeError) as caught:
        server_keys(
            mode=Mode.ANONYMOUS,
            private=ephemeral("ack", "server"),
            syn=frame("sess_zero_public_key"),
            ack_clear=frame("ack")[:-SEALED_SID_SIZE],
        )
    assert caught.value.code == vector["expect"]["error"]


def test_key_id_vectors() -> None:
    static = hex_of("ack_pinned", "server_static_public")
    psk = hex_of("ack_psk", "psk_hex")
    assert static is not None
    assert psk is not None
    assert server_key_id(static).hex() == V["syn_pinned"]["expect"]["fields"]["key_id"]
    assert psk_key_id(psk).hex() == V["syn_psk"]["expect"]["fields"]["key_id"]


def test_binder_vectors() -> None:
    good, bad = frame("resyn"), frame("sess_resyn_bad_binder")
    expect = V["resyn"]["expect"]
    secret = bytes.fromhex(expect["resumption_secret"])
    assert secret.hex() == V["ack"]["expect"]["keys"]["res"]
    sid = resume_sid(good)
    assert sid is not None
    assert sid.hex() == expect["fields"]["resume_sid"]
    at = good.index(bytes.fromhex(expect["fields"]["binder"]))
    assert bind_syn(secret, good[:at] + b"\xff" * 16 + good[at + 16 :]) == good
    verify_binder(secret, good)
    with pytest.raises(DecodeError) as caught:
        verify_binder(bytes.fromhex(V["sess_resyn_bad_binder"]["expect"]["resumption_secret"]), bad)
    assert caught.value.code == V["sess_resyn_bad_binder"]["expect"]["error"]


# -- what must not work -----------------------------------------------------------------------


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def read_ack(syn: bytes, ack: bytes) -> bytes:
    private = ephemeral("ack", "client")
    return open_sid(client_keys(mode=Mode.ANONYMOUS, private=private, syn=syn, ack=ack), ack)


def test_every_flipped_bit_of_an_ack_is_refused() -> None:
    # Even the top bit of the public key, which the curve ignores: the transcript has it.
    ack = frame("ack")
    for bit in range(8 * len(ack)):
        with pytest.raises(DecodeError) as caught:
            read_ack(frame("syn"), flipped(ack, bit))
        assert caught.value.code == "handshake_failed"


def test_every_flipped_bit_of_a_syn_is_refused() -> None:
    syn = frame("syn")
    for bit in range(8 * len(syn)):
        with pytest.raises(DecodeError, match="handshake_failed"):
            read_ack(flipped(syn, bit), frame("ack"))


def test_every_flipped_bit_of_a_resyn_is_refused() -> None:
    secret, syn = hex_of("resyn", "resumption_secret"), frame("resyn")
    for bit in range(8 * len(syn)):
        with pytest.raises(DecodeError) as caught:
            verify_binder(secret, flipped(syn, bit))
        # Damage to Head Optional, Head Length or the option's length shows before the binder.
        assert caught.value.code in {"session_unknown", "bad_header", "bad_option"}


@pytest.mark.parametrize("mode", [Mode.PINNED, Mode.PSK, Mode.RESUME, Mode(3)])
def test_a_mode_that_differs_fails_at_the_tag(mode: Mode) -> None:
    """An attacker who knows every secret but the mode's still cannot make an ACK for it."""
    ack = frame("ack")
    keys = client_keys(
        mode=mode,
        private=ephemeral("ack", "client"),
        syn=frame("syn"),
        ack=ack,
        server_public=hex_of("ack_pinned", "server_static_public") if mode & Mode.PINNED else None,
        psk=bytes(32) if mode & Mode.PSK else None,
        resumption=bytes(32) if mode & Mode.RESUME else None,
    )
    with pytest.raises(DecodeError, match="handshake_failed"):
        open_sid(keys, ack)


def test_unknown_sid_and_bad_binder_give_the_same_error() -> None:
    messages = set()
    for secret in (None, bytes(32), b"\1" * 32):
        with pytest.raises(DecodeError) as caught:
            verify_binder(secret, frame("resyn"))
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_a_binder_made_with_the_dummy_key_does_not_pass() -> None:
    forged = bind_syn(bytes(32), frame("resyn"))
    with pytest.raises(DecodeError, match="session_unknown"):
        verify_binder(None, forged)


def test_a_plain_syn_resumes_nothing() -> None:
    assert resume_sid(frame("syn")) is None
    assert resume_sid(frame("syn_pinned")) is None
    with pytest.raises(DecodeError, match="session_unknown"):
        verify_binder(bytes(32), frame("syn"))
    with pytest.raises(EncodeError, match="bad_value"):
        bind_syn(bytes(32), frame("syn"))
    with pytest.raises(EncodeError, match="bad_value"):
        bind_syn(bytes(32), b"short")


def test_the_resume_option_is_found_behind_an_ignorable_one() -> None:
    resyn = frame("resyn")
    options = b"\0\3abc" + resyn[16:50]
    head = bytearray(resyn[:16])
    head[4:6] = (RESUME_OPTION | 0x0010).to_bytes(2, "big")
    head[6:8] = len(options).to_bytes(2, "big")
    longer = bytes(head) + options + resyn[50:]
    assert resume_sid(longer) == resume_sid(resyn)
    bound = bind_syn(bytes(32), longer)
    verify_binder(bytes(32), bound)


def test_low_order_points_are_refused() -> None:
    low_order = [
        bytes(32),
        b"\1" + bytes(31),
        bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
        bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    ]
    for point in (*low_order, b"too short"):
        with pytest.raises(DecodeError, match="handshake_failed"):
            x25519_shared(b"\7" * 32, point)


def test_sizes_of_secrets_are_checked() -> None:
    """A psk is 32 random bytes; a passphrase, guessable offline, is refused with the rest."""
    for psk in (b"", b"correct horse battery staple", bytes(33)):
        with pytest.raises(EncodeError, match="bad_config"):
            psk_key_id(psk)
        with pytest.raises(EncodeError, match="bad_config"):
            derive_keys(
                mode=Mode.PSK,
                shared=bytes(32),
                syn=frame("syn_psk"),
                ack_clear=frame("ack_psk")[:-32],
                psk=psk,
            )
    with pytest.raises(EncodeError, match="bad_config"):
        server_key_id(bytes(31))
    with pytest.raises(EncodeError, match="bad_config"):
        x25519_public(bytes(31))
    keys, _ = both_sides(*AGREEMENTS[0])
    with pytest.raises(EncodeError, match="bad_config"):
        seal_sid(keys, frame("ack")[:-32], b"short")


@pytest.mark.parametrize(
    ("mode", "given_secrets"),
    [
        (0, {"psk"}),
        (0, {"resumption"}),
        (0, {"server_public", "static_shared"}),
        (1, set()),
        (1, {"server_public"}),
        (2, set()),
        (2, {"resumption"}),
        (4, set()),
        (4, {"psk", "resumption"}),
        (8, set()),
        (-1, {"psk", "resumption", "server_public", "static_shared"}),
    ],
)
def test_a_mode_that_contradicts_its_secrets_is_refused(mode: int, given_secrets: set[str]) -> None:
    secrets: dict[str, Any] = dict.fromkeys(given_secrets, bytes(32))
    with pytest.raises(EncodeError, match="bad_config"):
        derive_keys(
            mode=mode,  # type: ignore[arg-type]
            shared=bytes(32),
            syn=frame("syn"),
            ack_clear=frame("ack")[:-32],
            **secrets,
        )


def test_while_resuming_the_psk_is_not_needed() -> None:
    common: dict[str, Any] = {
        "mode": Mode.PSK | Mode.RESUME,
        "shared": bytes(32),
        "syn": frame("resyn"),
        "ack_clear": frame("ack_resumed")[:-32],
        "resumption": b"\1" * 32,
    }
    assert derive_keys(**common) == derive_keys(**common, psk=b"\2" * 32)


def test_truncated_frames_are_refused() -> None:
    for size in (0, 16, 79):
        with pytest.raises(DecodeError, match="bad_length"):
            server_keys(
                mode=Mode.ANONYMOUS,
                private=b"\7" * 32,
                syn=frame("syn")[:size],
                ack_clear=frame("ack"),
            )
        with pytest.raises(DecodeError, match="bad_length"):
            client_keys(
                mode=Mode.ANONYMOUS, private=b"\7" * 32, syn=frame("syn"), ack=frame("ack")[:size]
            )
    keys, _ = both_sides(*AGREEMENTS[0])
    with pytest.raises(DecodeError, match="handshake_failed"):
        open_sid(keys, b"")


@given(st.binary(max_size=120))
def test_any_bytes_as_a_resyn_give_an_answer(data: bytes) -> None:
    try:
        answer = resume_sid(data)
    except DecodeError as error:
        answer = error.code.encode()
    assert answer in {None, b"bad_header", b"bad_option"} or len(answer) == 16


keys32 = st.binary(min_size=32, max_size=32)


@given(keys32, keys32, keys32, st.binary(min_size=16, max_size=16), st.integers(0, 7))
def test_two_sides_meet_in_every_mode(
    client: bytes, server: bytes, static: bytes, sid: bytes, bits: int
) -> None:
    mode = Mode(bits)
    syn = frame("syn")[:-32] + x25519_public(client)
    ack_clear = frame("ack")[:-64] + x25519_public(server)
    secrets = {
        "psk": b"\1" * 32 if mode & Mode.PSK else None,
        "resumption": b"\2" * 32 if mode & Mode.RESUME else None,
    }
    ours = server_keys(
        mode=mode,
        private=server,
        syn=syn,
        ack_clear=ack_clear,
        static_private=static if mode & Mode.PINNED else None,
        **secrets,
    )
    ack = ack_clear + seal_sid(ours, ack_clear, sid)
    theirs = client_keys(
        mode=mode,
        private=client,
        syn=syn,
        ack=ack,
        server_public=x25519_public(static) if mode & Mode.PINNED else None,
        **secrets,
    )
    assert theirs == ours
    assert open_sid(theirs, ack) == sid
    assert ours.c2s != ours.s2c


def test_secrets_do_not_show() -> None:
    keys, _ = both_sides(*AGREEMENTS[0])
    shown = repr(keys) + repr(keys.c2s) + repr(keys.s2c)
    assert repr(keys) == "SessionKeys(mode=<Mode.ANONYMOUS: 0>)"
    assert "b'" not in shown
    assert 'b"' not in shown
