"""Requests to the admin API of a hub that runs in this loop, over a real socket.

async with running(clients=["alice"]) as it, admin_client(it.hub) as admin:
    answer = await admin.get("/varz")
    answer.status, answer.json
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from wirelake.hub.admin import AdminServer, admin_token
from wirelake.hub.hub import Hub

TIMEOUT_S = 20


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AdminClient:
    """Sends requests, with the administrator's token by default."""

    def __init__(self, hub: Hub, server: AdminServer, tls: ssl.SSLContext | None):
        self.server = server
        self.token = admin_token(hub.data) if hub.config.admin.enabled else ""
        self._tls = tls

    @property
    def address(self) -> tuple[str, int]:
        return self.server.addresses[0]

    async def get(self, path: str, *, token: str | None = "") -> Answer:
        return await self.ask("GET", path, token=token)

    async def post(self, path: str, body: Any, *, token: str | None = "") -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", path, data, token=token)

    async def ask(
        self, method: str, path: str, body: bytes | None = None, *, token: str | None = ""
    ) -> Answer:
        """`token`: None shows none, empty shows the right one."""
        return await asyncio.to_thread(self._ask, method, path, body, token)

    def _ask(self, method: str, path: str, body: bytes | None, token: str | None) -> Answer:
        host, port = self.address
        if self._tls is None:
            line = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        else:
            line = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self._tls)
        headers = {} if token is None else {"Authorization": f"Bearer {token or self.token}"}
        try:
            line.request(method, path, body, headers)
            answer = line.getresponse()
            shown = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, shown, answer.read())
        finally:
            line.close()


@asynccontextmanager
async def admin_client(hub: Hub, tls: ssl.SSLContext | None = None) -> AsyncIterator[AdminClient]:
    """Serves the admin pages meanwhile."""
    server = AdminServer(hub)
    await server.start()
    try:
        yield AdminClient(hub, server, tls)
    finally:
        await server.stop()


class Events:
    """A stream of server-sent events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer

    async def next(self) -> tuple[str, Any]:
        """The next event: its name and its data."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                text = await self._reader.readuntil(b"\n\n")
                lines = [line for line in text.decode().split("\n") if line]
                fields = dict(line.split(": ", 1) for line in lines if ": " in line)
                if "event" in fields:
                    return fields["event"], json.loads(fields["data"])

    async def rest(self) -> bytes:
        """Everything up to the end of the stream."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self._reader.read()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def tailing(admin: AdminClient, query: str = "") -> AsyncIterator[Events]:
    """Reads `/v1/tail`; it has begun when this yields."""
    reader, writer = await asyncio.open_connection(*admin.address)
    head = f"GET /v1/tail{query} HTTP/1.0\r\nAuthorization: Bearer {admin.token}\r\n\r\n"
    writer.write(head.encode())
    events = Events(reader, writer)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            status = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in status.split(b"\r\n")[0], status
            await reader.readuntil(b"\n\n")
        yield events
    finally:
        await events.close()
