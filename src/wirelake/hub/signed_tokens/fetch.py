"""Reads a JWKS over HTTP, within limits of time and size.

The time limit is for everything together: name lookup, connection, TLS, and a server that sends a
byte per second. Redirects are not followed: the configured address alone decides who is trusted.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

import h11

__all__ = ["FETCH_S", "MAX_KEYS_BYTES", "FetchError", "fetch"]

FETCH_S: Final = 10.0
"""Time for one request."""
MAX_KEYS_BYTES: Final = 262_144
"""Maximum size of a document with keys: a hundred RSA keys with certificates have 200 KB."""
_MAX_HEAD_BYTES: Final = 32_768
_READ_BYTES: Final = 16_384


class FetchError(Exception):
    """An address cannot be read; the message says why."""


async def fetch(url: str, tls: ssl.SSLContext | None) -> bytes:
    """Return what is at an https:// or http:// address; FetchError."""
    try:
        async with asyncio.timeout(FETCH_S):
            return await _fetch(url, tls)
    except TimeoutError:
        raise FetchError(f"no complete answer within {FETCH_S:.0f} s") from None
    except h11.ProtocolError as error:  # whose text may be a header of 30 KB
        raise FetchError("the answer is not valid HTTP, or incomplete") from error
    except (OSError, UnicodeError) as error:
        raise FetchError(str(error) or type(error).__name__) from error


async def _fetch(url: str, tls: ssl.SSLContext | None) -> bytes:
    address = urlsplit(url)
    secure = address.scheme == "https"
    host, port = address.hostname or "", address.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(
        host, port, ssl=(tls or ssl.create_default_context()) if secure else None
    )
    try:
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        target = (address.path or "/") + (f"?{address.query}" if address.query else "")
        request = h11.Request(
            method="GET",
            target=target,
            headers=[
                ("Host", address.netloc),
                ("Accept", "application/jwk-set+json, application/json"),
                ("Accept-Encoding", "identity"),
                ("User-Agent", "wirelake"),
                ("Connection", "close"),
            ],
        )
        writer.write(
            (connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b"")
        )
        return await _body(connection, reader)
    finally:
        # Not `close`, which would wait for the peer.
        writer.transport.abort()


async def _body(connection: h11.Connection, reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            _check_head(event)
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_KEYS_BYTES:
                raise FetchError(f"more than {MAX_KEYS_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return bytes(body)
        elif not isinstance(event, h11.InformationalResponse):
            raise FetchError("the connection was closed")


def _check_head(response: h11.Response) -> None:
    status = response.status_code
    if 300 <= status < 400:
        raise FetchError(f"status {status}: redirects are not followed; configure the new address")
    if status != 200:
        raise FetchError(f"status {status}; expected 200")
    for name, value in response.headers:
        if name == b"content-encoding" and value.lower() != b"identity":
            raise FetchError("the content is compressed")
