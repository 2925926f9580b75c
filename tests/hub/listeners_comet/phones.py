"""Phones for tests of the comet listener."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.hub.running import Running
from tests.hub.session_client import SessionClient, dial

from wirelake.protocols.comet.layout import Auth, MessageAck, MessageList, Subscribe
from wirelake.protocols.comet.limits import ClientOptions
from wirelake.protocols.comet.session import ClientSession, KeyExchanged, Notified, Replied

OPEN = ClientOptions(allow_plaintext=True)
"""For listeners that offer no key."""


class Phone(SessionClient):
    """A client of comet."""

    session: ClientSession

    async def ask(self, command: Any) -> Any:
        """Asks, and waits for the reply to it."""
        self.session.send(command)
        self.write()
        return await self.reply()

    async def reply(self) -> Any:
        """The next reply."""
        return (await self.next(Replied)).reply

    async def sign_on(self, client_id: str, token: str) -> Any:
        """Says who it is."""
        return await self.ask(Auth(client_id=client_id, token=token))

    async def exchange_key(self) -> None:
        """Contents are sealed from here on."""
        self.session.exchange_key(secret=os.urandom(32), eph_private=os.urandom(32))
        self.write()
        await self.next(KeyExchanged)
        await self.next(Replied)

    async def subscribe(self, *topics: str) -> Any:
        """Subscribes."""
        return await self.ask(Subscribe(topics=topics))

    async def content(self) -> bytes:
        """What the next notification says."""
        return (await self.next(Notified)).content

    async def ack(self, *ids: str) -> Any:
        """Acknowledges."""
        return await self.ask(MessageAck(msg_ids=ids))


def contents(reply: Any) -> list[bytes]:
    """What the notifications of a list say."""
    assert isinstance(reply, MessageList)
    return [each.content for each in reply.messages]


@asynccontextmanager
async def phone(
    it: Running,
    client_id: str | None = None,
    *,
    options: ClientOptions | None = None,
    tls: ssl.SSLContext | None = None,
    address: tuple[str, int] | None = None,
) -> AsyncIterator[Phone]:
    """A phone that is connected, and signed on when it has an id."""
    reader, writer = await dial(address or it.address("comet"), tls)
    made = Phone(ClientSession(options, now=it.hub.loop.time()), reader, writer)
    try:
        if client_id is not None:
            await made.sign_on(client_id, it.tokens[client_id])
        yield made
    finally:
        await made.hang_up()
