"""Whatever the bytes are: a token is valid or refused, and keys can be used or cannot."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from random import Random

from wirelake.hub.auth import read_secret
from wirelake.hub.signed_tokens import Issuers, Proof, RefusedTokenError
from wirelake.hub.signed_tokens.keys import KeyFormatError, read_public_keys

from .issuing import NEW_KEYS, Signer, jwks
from .test_issuers import settings

ROUNDS = 3_000
PIECES = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\u0000", b"\\ud800", b"\xff", b"\0", b"1e999"),
    *(b"-1", b"null", b"true", b'"exp":', b'"sub":"bob"', b'"kty":"oct"', b'"d":"AA"', b"NaN"),
    *(b'"wirelake":{}', b'"call":["*"]', b'"alg":"none"', b"-----BEGIN CERTIFICATE-----", b"=="),
)


def changed(data: bytes, random: Random) -> bytes:
    """The bytes with a few changes."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(made) + 1)
        match random.randrange(4):
            case 0 if at < len(made):
                made[at] ^= 1 << random.randrange(8)
            case 1:
                made[at:at] = random.choice(PIECES)
            case 2:
                del made[at : at + random.randrange(1, 12)]
            case _:
                end = at + random.randrange(1, 40)
                made[at:at] = made[at:end]
    return bytes(made)


def test_tokens(tmp_path: Path) -> None:
    random = Random(1)
    signer = Signer(tmp_path)
    now = int(time.time())
    claims = json.dumps({
        "iss": signer.iss, "aud": ["wirelake"], "sub": "alice", "exp": now + 60, "nbf": now,
        "wirelake": {"publish": ["@a/*"], "calls_per_s": 1.5},
    }).encode()  # fmt: skip
    header = b'{"alg":"EdDSA","typ":"JWT"}'

    async def run() -> list[bool]:
        made = Issuers(read_secret, time.monotonic)
        made.prepare(settings(signer.settings))()
        found = []
        for number in range(ROUNDS):
            head, body = changed(header, random), changed(claims, random)
            token = signer.signed(*((head, claims) if number % 3 == 0 else (header, body)))
            if number % 3 == 2:
                token = changed(token.encode(), random).decode("utf-8", "surrogateescape")
            try:
                proof = await made.verify(token, "", lambda: now * 1000)
            except RefusedTokenError:
                found.append(False)
            else:
                assert isinstance(proof, Proof)
                found.append(True)
        return found

    found = asyncio.run(run())
    assert {True, False} == set(found)


def test_keys(tmp_path: Path) -> None:
    random = Random(1)
    signers = [Signer(tmp_path, each, key_id=each) for each in ("EdDSA", "ES256", "RS256")]
    documents = [*(each.pem for each in signers), *(jwks(each) for each in signers)]
    found = set()
    for number in range(ROUNDS):
        try:
            keys = read_public_keys(
                changed(documents[number % len(documents)], random), list(NEW_KEYS)
            )
        except KeyFormatError:
            found.add(False)
        else:
            assert keys
            found.add(True)
    assert found == {True, False}
