"""Memory that peers make the hub use: received bytes it keeps, and bytes they do not read.

Each connection is bounded by the limits of its protocol. That is not enough: 200 connections of one
token with unfinished messages of 9.8 MB held 1.9 GB. `BufferBudget` adds up what connections keep,
for each client, each address and the whole hub (`Limits.buffered_bytes` and its like).

A client or an address over its limit loses the connection that grew. When the hub is over its
limit, the connections that keep most are closed: a peer with a small frame must not pay for others
with large ones.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple, Protocol

from ..config import ActiveLimits
from ..pubsub.subscriptions import Client

__all__ = ["BufferBudget"]

_RELIEF: Final = 0.9
"""The part of the hub's limit that is left in use after connections were closed. Ten percent at
once: the largest are searched for once per 50 MB, not with every read."""


class _Connection(Protocol):
    id: int
    client: Client | None
    charged_to: str

    def drop(self, reason: str) -> None: ...


class _Charge(NamedTuple):
    connection: _Connection
    client: str
    address: str
    size: int


class BufferBudget:
    """Adds up what connections keep."""

    def __init__(self, limits: ActiveLimits):
        self._limits = limits
        self._charges: dict[int, _Charge] = {}
        self._by_client: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self.total = 0
        """Bytes kept for all connections."""

    def charge(self, connection: _Connection, size: int) -> None:
        """Record the bytes that a connection keeps; drop connections when a limit is exceeded."""
        before = self._remove(connection.id)
        if not size:
            return
        client = "" if connection.client is None else connection.client.id
        charge = _Charge(connection, client, connection.charged_to, size)
        self._charges[connection.id] = charge
        self._by_address[charge.address] += size
        if client:
            self._by_client[client] += size
        self.total += size
        if size > before:
            self._enforce(charge)

    def _remove(self, number: int) -> int:
        charge = self._charges.pop(number, None)
        if charge is None:
            return 0
        self.total -= charge.size
        _subtract(self._by_address, charge.address, charge.size)
        if charge.client:
            _subtract(self._by_client, charge.client, charge.size)
        return charge.size

    def _enforce(self, charge: _Charge) -> None:
        limits = self._limits.current
        if self._by_client[charge.client] > limits.buffered_bytes_per_client:
            self._drop(charge, "buffered_bytes_per_client")
        elif self._by_address[charge.address] > limits.buffered_bytes_per_address:
            self._drop(charge, "buffered_bytes_per_address")
        elif self.total > limits.buffered_bytes:
            enough = limits.buffered_bytes * _RELIEF
            for each in sorted(self._charges.values(), key=_size_of, reverse=True):
                if self.total <= enough:
                    break
                self._drop(each, "buffered_bytes")

    def _drop(self, charge: _Charge, reason: str) -> None:
        # Uncharged at once: the transport reports in a later turn that it is closed.
        self._remove(charge.connection.id)
        charge.connection.drop(reason)


def _size_of(charge: _Charge) -> int:
    return charge.size


def _subtract(counter: Counter[str], key: str, size: int) -> None:
    counter[key] -= size
    if counter[key] <= 0:
        del counter[key]
