"""Who may come in: ids and tokens, and patience with addresses that guess."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from ..errors import HubError
from ..pubsub.clients import Client
from ..store.accounts import token_hash
from ..store.rows import ClientRow

if TYPE_CHECKING:
    from ..hub import Hub
    from .connection import Connection

__all__ = ["FORGET_S", "LONGEST_S", "SHORTEST_S", "Authority"]

SHORTEST_S: Final = 0.25
"""What an address waits after its first failure; each further one doubles it."""
LONGEST_S: Final = 4.0
"""What it waits at most: half of what it has to sign on."""
FORGET_S: Final = 60.0
"""How long a failure is remembered after the last one."""
_ADDRESSES: Final = 10_000
"""Addresses that are remembered; beyond that the one that failed longest ago is forgotten."""
_NOBODY: Final = bytes(32)


class Authority:
    """Checks tokens. The store is asked each time: another process may have changed it."""

    def __init__(self, hub: Hub):
        self._hub = hub
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, client_id: str, token: str) -> bool:
        """Whether this is the client's token; takes as long when there is no such client."""
        return self._known(client_id, token) is not None

    def _known(self, client_id: str, token: str) -> ClientRow | None:
        try:
            client_id.encode()
        except UnicodeEncodeError:
            client_id = ""
        row = self._hub.store.client(client_id)
        right = hmac.compare_digest(token_hash(token), _NOBODY if row is None else row.token)
        return row if right else None

    def delay(self, address: str) -> float:
        """How long the next attempt from this address has to wait."""
        count, last = self._failures.get(address, (0, 0.0))
        if not count or self._hub.loop.time() - last > FORGET_S:
            return 0.0
        return min(SHORTEST_S * 2.0 ** min(count - 1, 10), LONGEST_S)

    async def sign_on(self, connection: Connection, client_id: str, token: str) -> Client:
        """The client, after the delay that its address has earned; HubError `auth_failed`."""
        delay = self.delay(connection.peer[0])
        if delay:
            await asyncio.sleep(delay)
        client = self.try_sign_on(connection, client_id, token) if connection.open else None
        if client is None:
            raise HubError("auth_failed")
        return client

    def try_sign_on(self, connection: Connection, client_id: str, token: str) -> Client | None:
        """The client, at once; None when the id or the token is wrong. Call it when `delay` is 0.

        HubError `storage_failed` when the store cannot be read.
        """
        row = self._known(client_id, token)
        if row is None:
            self._hub.counts.auth_failures[connection.protocol] += 1
            self._failed(connection.peer[0])
            return None
        client = self._hub.topics.client_of(row)
        self._hub.signed_on(connection, client)
        return client

    def anonymous(self, connection: Connection) -> Client:
        """A client for a connection that needs no token; nothing of it is stored."""
        client = self._hub.topics.anonymous(connection)
        self._hub.signed_on(connection, client)
        return client

    def recheck(self) -> None:
        """Ends the connections of clients that were removed."""
        there = {row.number for row in self._hub.store.clients()}
        for connection in tuple(self._hub.connections.values()):
            client = connection.client
            if client is not None and client.durable and client.number not in there:
                connection.end("revoked")
        for client in tuple(self._hub.topics.registry.clients.values()):
            if client.number not in there:
                self._hub.topics.forget(client)

    def _failed(self, address: str) -> None:
        now = self._hub.loop.time()
        count, last = self._failures.pop(address, (0, now))
        if now - last > FORGET_S:
            count = 0
        self._failures[address] = (count + 1, now)
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)
