"""Databases of both kinds for the tests of what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wirelake.hub.store.interface import (
    AddAccount,
    Append,
    Appended,
    Database,
    NewKey,
    Operation,
    Source,
    Subscribe,
    Subscribed,
)

__all__ = ["DAY_MS", "NOW_MS", "Box", "publish", "subscribe"]

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def publish(
    topic: str | None = None,
    content: bytes = b"content",
    *,
    to: str | None = None,
    ts_ms: int = NOW_MS,
    expires_ms: int = NOW_MS + DAY_MS,
    key: NewKey | None = None,
    audience: int = 0,
) -> Append:
    """A publish to a topic or to a client."""
    return Append(topic, to, content, 7, ts_ms, expires_ms, key, audience)


def subscribe(
    client: int, *names: str, id_: str = "", ack: bool = True, most: int = 100, allowance: int = 9
) -> Subscribe:
    """A subscription to topics."""
    return Subscribe(client, id_, names, ack, most, allowance)


class Box:
    """A database, and shorthand for what tests do with it."""

    def __init__(self, connect: Callable[[], Database]):
        self._connect = connect
        self.opened: list[Database] = []
        self.database = self.another()

    def another(self) -> Database:
        """Another connection."""
        self.opened.append(self._connect())
        return self.opened[-1]

    def close(self) -> None:
        """Close all connections."""
        for each in self.opened:
            each.close()

    def write(self, *operations: Operation[Any]) -> list[Any]:
        """Execute operations in one transaction."""
        return self.database.write(operations)

    def one(self, operation: Operation[Any]) -> Any:
        """Execute one operation and return its result."""
        (result,) = self.write(operation)
        return result

    def client(self, id_: str, *topics: str) -> int:
        """Add a client that subscribes to topics, and return its number."""
        number: int = self.one(AddAccount("client", id_, f"hash of {id_}".encode(), NOW_MS))
        if topics:
            assert isinstance(self.one(subscribe(number, *topics)), Subscribed)
        return number

    def topic(self, name: str) -> int:
        """Return the number of a topic."""
        row = self.database.topic(name)
        assert row is not None
        return row.number

    def published(self, *operations: Append) -> list[int]:
        """Publish, and return the numbers."""
        results = self.write(*operations)
        assert all(isinstance(each, Appended) for each in results), results
        return [each.number for each in results]

    def stored(self, target: int, after: int = 0) -> list[int]:
        """Return the numbers of the log of a target."""
        return self.database.numbers([Source(target, after)], 1 << 60, 1_000_000)

    def contents(self, numbers: Sequence[int]) -> list[bytes]:
        """Return the contents of rows of the log."""
        return [each.content for each in self.database.entries(numbers)]
