"""An issuer for tests: throw-away keys, made in memory, the tokens that it signs, and its address.

it = Signer(tmp_path)
it.settings                    what `[[auth.issuers]]` has for it
it.token("alice")              a valid token
it.token("alice", exp=None)    one without the claim `exp`
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://id.example.com"
AUDIENCE = "wirelake"
NEW_KEYS = {
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ES512": lambda: ec.generate_private_key(ec.SECP521R1()),
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
}
JWK_OF = {"EdDSA": OKPAlgorithm, "ES256": ECAlgorithm, "RS256": RSAAlgorithm}


class Signer:
    """Signs tokens with a throw-away key."""

    def __init__(
        self, folder: Path, algorithm: str = "EdDSA", key_id: str | None = None, iss: str = ISSUER
    ):
        self.algorithm = algorithm
        self.key_id = key_id
        self.iss = iss
        self.key: Any = NEW_KEYS[algorithm]()
        self.file = folder / f"{algorithm}-{id(self)}.pub"
        self.file.write_bytes(self.pem)

    @property
    def pem(self) -> bytes:
        """The public key."""
        return bytes(
            self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key in a JWKS."""
        found = JWK_OF[self.algorithm].to_jwk(self.key.public_key(), as_dict=True)
        return {**found, **({} if self.key_id is None else {"kid": self.key_id})}

    @property
    def settings(self) -> dict[str, Any]:
        """The issuer in the configuration, with the key in a file."""
        return {
            "issuer": self.iss,
            "audience": AUDIENCE,
            "keys": str(self.file),
            "algorithms": [self.algorithm],
        }

    def token(
        self, client: str | None = "alice", *, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token for a minute; a claim that is None is left out."""
        now = int(time.time())
        given = {"iss": self.iss, "aud": AUDIENCE, "sub": client, "iat": now, "exp": now + 60}
        given = {k: v for k, v in {**given, **claims}.items() if v is not None}
        more = {"kid": self.key_id, **(header or {})}
        more = {k: v for k, v in more.items() if v is not None}
        return jwt.encode(given, self.key, self.algorithm, headers=more)

    def signed(self, header: bytes, payload: bytes) -> str:
        """A token of any bytes, with a valid signature."""
        text = f"{part(header)}.{part(payload)}"
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        return f"{text}.{part(algorithm.sign(text.encode(), self.key))}"


def part(data: bytes) -> str:
    """A part of a token."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwks(*signers: Signer) -> bytes:
    """The document with their keys."""
    return json.dumps({"keys": [each.jwk for each in signers]}).encode()


class KeyServer:
    """A server of keys."""

    def __init__(self) -> None:
        self.answer = b""
        """What is sent to each request, as it is."""
        self.requests: list[bytes] = []
        self.hold = False
        """Whether to send nothing after it, and to keep the connection open."""
        self.port = 0
        self.tasks: set[asyncio.Task[Any]] = set()
        self.ends = False

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/jwks.json"

    def serve(self, body: bytes) -> None:
        """Answer with this document from now on."""
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        self.answer = head.encode() + body

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.answer)
            if self.hold:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            if self.ends:
                writer.transport.abort()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.tasks.discard(task)

    async def end(self) -> None:
        """Close the connections that are still open."""
        self.ends = True
        for task in (tasks := tuple(self.tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def key_server(tls: Any = None) -> AsyncIterator[KeyServer]:
    """A server of keys on a loopback address."""
    made = KeyServer()
    server = await asyncio.start_server(made.connected, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.end()
