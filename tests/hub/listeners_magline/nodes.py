"""Clients for tests of the magline listener."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.hub.running import Running
from tests.hub.session_client import SessionClient, dial

from wirelake.protocols.magline.session import (
    ClientKey,
    ClientSession,
    Established,
    Pushed,
    Replied,
    Request,
    RequestFailed,
    Resumed,
    Ticket,
)

AUTH, SUBSCRIBE, UNSUBSCRIBE, PUBLISH, ACK, NOTIFY = 10, 11, 12, 13, 14, 20
ANYBODY = ClientKey(allow_anonymous=True)


def pinned(it: Running) -> ClientKey:
    """The key of a client that knows the hub."""
    return ClientKey(pinned=bytes.fromhex((it.data / "magline.pub").read_text()))


class Node(SessionClient):
    """A client of magline."""

    session: ClientSession

    def send(self, command: int, body: Any) -> int:
        """Asks; gives the Seq of the request."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        seq = self.session.send(Request(command, data))
        self.write()
        return seq

    async def raw(self, command: int, body: Any) -> bytes:
        """The bytes of the answer."""
        seq = self.send(command, body)
        return (await self.next(Replied, lambda each: each.seq == seq)).data

    async def ask(self, command: int, body: Any) -> Any:
        """The answer."""
        return json.loads(await self.raw(command, body))

    async def fail(self, command: int, body: Any) -> int:
        """The number of the error that is the answer."""
        seq = self.send(command, body)
        return (await self.next(RequestFailed, lambda each: each.seq == seq)).error_number

    async def sign_on(self, it: Running, client_id: str) -> Any:
        """Says who it is."""
        return await self.ask(AUTH, {"id": client_id, "token": it.tokens[client_id]})

    async def pushed(self) -> Any:
        """The next notification."""
        push = await self.next(Pushed)
        assert push.business_cmd == NOTIFY
        return json.loads(push.data)


@asynccontextmanager
async def node(
    it: Running,
    client_id: str | None = None,
    *,
    key: ClientKey | None = None,
    ticket: Ticket | None = None,
    tls: ssl.SSLContext | None = None,
    address: tuple[str, int] | None = None,
) -> AsyncIterator[Node]:
    """A client after the handshake or the resumption; signed on when it has an id."""
    made = await connected(it, key=key, ticket=ticket, tls=tls, address=address)
    try:
        await made.next(Established)
        if ticket is not None:
            await made.next(Resumed)
        if client_id is not None:
            await made.sign_on(it, client_id)
        yield made
    finally:
        await made.hang_up()


async def connected(
    it: Running,
    *,
    key: ClientKey | None = None,
    ticket: Ticket | None = None,
    tls: ssl.SSLContext | None = None,
    address: tuple[str, int] | None = None,
) -> Node:
    """A client that has said SYN, or reSYN."""
    reader, writer = await dial(address or it.address("magline"), tls)
    session = ClientSession(
        key=key or pinned(it), entropy=os.urandom, ticket=ticket, now=it.hub.loop.time()
    )
    made = Node(session, reader, writer)
    session.connect()
    made.write()
    return made
