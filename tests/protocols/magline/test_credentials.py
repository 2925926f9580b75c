"""Which keys a client and a server may have, and how a server finds the one that a SYN names.

All keys here are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.protocols.magline.handshake import Mode, psk_key_id, server_key_id, x25519_public
from wirelake.protocols.magline.resumption import Chosen, ClientKey, ServerKeys
from wirelake.wire.errors import DecodeError, EncodeError

OLD, NEW, PSK = (bytes([n]) * 32 for n in (1, 2, 3))


def test_a_clients_key_decides_its_mode_and_key_id() -> None:
    public = x25519_public(OLD)
    assert ClientKey(pinned=public).mode == Mode.PINNED
    assert ClientKey(pinned=public).key_id == server_key_id(public)
    assert ClientKey(psk=PSK).mode == Mode.PSK
    assert ClientKey(psk=PSK).key_id == psk_key_id(PSK)
    assert ClientKey(allow_anonymous=True).mode == Mode.ANONYMOUS
    assert ClientKey(allow_anonymous=True).key_id is None


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"pinned": OLD, "psk": PSK},
        {"pinned": OLD, "allow_anonymous": True},
        {"psk": PSK, "allow_anonymous": True},
        {"pinned": b"short"},
        {"psk": b"a passphrase is not a key"},
    ],
    ids=str,
)
def test_a_client_has_exactly_one_key_of_32_bytes(wrong: dict[str, Any]) -> None:
    with pytest.raises(EncodeError) as caught:
        ClientKey(**wrong)
    assert caught.value.code == "bad_config"


def test_a_server_finds_each_of_its_keys() -> None:
    keys = ServerKeys(static=[OLD, NEW], psks=[PSK], allow_anonymous=True)
    for private in (OLD, NEW):
        found = keys.find(server_key_id(x25519_public(private)))
        assert found == Chosen(Mode.PINNED, static_private=private)
    assert keys.find(psk_key_id(PSK)) == Chosen(Mode.PSK, psk=PSK)
    assert keys.find(None) == Chosen(Mode.ANONYMOUS)


@pytest.mark.parametrize("key_id", [None, bytes(8), psk_key_id(NEW)])
def test_what_it_does_not_have_fails_the_handshake(key_id: bytes | None) -> None:
    with pytest.raises(DecodeError) as caught:
        ServerKeys(static=[OLD], psks=[PSK]).find(key_id)
    assert caught.value.code == "handshake_failed"


@pytest.mark.parametrize("wrong", [{}, {"static": [b"short"]}, {"psks": [b"short"]}], ids=str)
def test_bad_keys_of_a_server_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(EncodeError) as caught:
        ServerKeys(**wrong)
    assert caught.value.code == "bad_config"


def test_a_shared_key_does_not_show() -> None:
    assert repr(PSK) not in repr(ClientKey(psk=PSK))
    assert repr(PSK) not in repr(ServerKeys(psks=[PSK]))
