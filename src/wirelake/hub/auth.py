"""Authentication: client ids and tokens, and a delay for addresses that fail.

Every failed attempt doubles the delay of the next one from the same address, so guessing tokens
from one address is slow whatever the number of connections. Tokens have 256 random bits: this
protects the hub's time rather than the tokens.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from .errors import HubError
from .observe.counters import Counters
from .pubsub.subscriptions import Client, Receiver
from .pubsub.topics import Topics
from .store import ClientRow, Store
from .store.accounts import token_hash

__all__ = ["FORGET_S", "LONGEST_S", "SHORTEST_S", "Authority"]

SHORTEST_S: Final = 0.25
"""Delay of an address after its first failure; each further one doubles it."""
LONGEST_S: Final = 4.0
"""Maximum delay: less than half of the time to sign on."""
FORGET_S: Final = 60.0
"""How long after the last failure an address is delayed."""
_ADDRESSES: Final = 10_000
"""Addresses remembered; beyond that the one with the oldest failure is forgotten."""
_NO_CLIENT: Final = bytes(32)


class _Connection(Receiver, Protocol):
    def end(self, reason: str) -> None:
        """Close the connection as its protocol does."""


class Authority:
    """Checks tokens. Each check reads the store: another process may have changed it."""

    def __init__(
        self,
        store: Store,
        topics: Topics,
        counters: Counters,
        connections: Mapping[int, _Connection],
        clock: Callable[[], float],
        signed_on: Callable[[Any, Client], None],
    ):
        self._store = store
        self._topics = topics
        self._counters = counters
        self._connections = connections
        self._clock = clock
        self._signed_on = signed_on
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, client_id: str, token: str) -> bool:
        """Return whether this is the client's token; takes as long for an unknown client."""
        return self._known(client_id, token) is not None

    def _known(self, client_id: str, token: str) -> ClientRow | None:
        try:
            client_id.encode()
        except UnicodeEncodeError:
            client_id = ""
        row = self._store.client(client_id)
        right = hmac.compare_digest(token_hash(token), _NO_CLIENT if row is None else row.token)
        return row if right else None

    def delay(self, address: str) -> float:
        """Return how long the next attempt from this address has to wait."""
        count, last = self._failures.get(address, (0, 0.0))
        if not count or self._clock() - last > FORGET_S:
            return 0.0
        return min(SHORTEST_S * 2.0 ** min(count - 1, 10), LONGEST_S)

    async def sign_on(self, connection: Receiver, client_id: str, token: str) -> Client:
        """Return the client, after the delay of its address; HubError `auth_failed`."""
        delay = self.delay(connection.peer[0])
        if delay:
            await asyncio.sleep(delay)
        client = self.try_sign_on(connection, client_id, token) if connection.open else None
        if client is None:
            raise HubError("auth_failed")
        return client

    def try_sign_on(self, connection: Receiver, client_id: str, token: str) -> Client | None:
        """Return the client at once; None when the id or the token is wrong.

        To be called when `delay` is 0. HubError `storage_failed` when the store cannot be read.
        """
        row = self._known(client_id, token)
        if row is None:
            self._counters.auth_failures[connection.protocol] += 1
            self._failed(connection.peer[0])
            return None
        client = self._topics.client_of(row)
        self._signed_on(connection, client)
        return client

    def anonymous(self, connection: Receiver) -> Client:
        """Sign a connection on without a token; nothing of its client is stored."""
        client = self._topics.anonymous(connection)
        self._signed_on(connection, client)
        return client

    def recheck(self) -> None:
        """Close the connections of clients that were removed."""
        known = {row.number for row in self._store.clients()}
        for connection in tuple(self._connections.values()):
            client = connection.client
            if client is not None and client.durable and client.number not in known:
                connection.end("revoked")
        for client in tuple(self._topics.registry.clients.values()):
            if client.number not in known:
                self._topics.forget(client)

    def _failed(self, address: str) -> None:
        now = self._clock()
        count, last = self._failures.pop(address, (0, now))
        if now - last > FORGET_S:
            count = 0
        self._failures[address] = (count + 1, now)
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)
