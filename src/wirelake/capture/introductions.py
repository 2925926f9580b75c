"""What a recording says that its connections speak: its facts `open`.

A recorder introduces every connection, in each file that it reaches, before its first packet there.
So what a file says holds for that file, and each can be read by itself. Of a file at most `LIMIT`
introductions are remembered, the last ones: as many as connections are held.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

from wirelake.protocols import registry
from wirelake.wire.protocol import Protocol

from .connections import LIMIT
from .items import Fact

__all__ = ["INTRODUCTION", "Introductions", "Said"]

INTRODUCTION: Final = "open"
"""The kind of fact that introduces a connection."""


class Said(NamedTuple):
    """What somebody says that a connection speaks."""

    protocol: Protocol | None
    """None: one that is not installed."""


_UNKNOWN: Final = Said(None)


class Introductions:
    """The introductions of one file after the other."""

    def __init__(self, *, limit: int = LIMIT):
        self._limit = limit
        self._said: dict[int, Said] = {}

    def __len__(self) -> int:
        return len(self._said)

    def begin_file(self) -> None:
        """Another file begins: nothing is said yet."""
        self._said.clear()

    def add(self, fact: Fact) -> None:
        """A fact; counts when it introduces a connection and names its protocol."""
        name = fact.data.get("protocol")
        if fact.kind != INTRODUCTION or fact.connection is None or not isinstance(name, str):
            return
        self._said.pop(fact.connection, None)
        self._said[fact.connection] = self._installed.get(name, _UNKNOWN)
        if len(self._said) > self._limit:
            del self._said[next(iter(self._said))]

    def of(self, connection: int | None) -> Said | None:
        """What is said of a connection, by the recorder's id; None when that is nothing."""
        return None if connection is None else self._said.get(connection)

    @cached_property
    def _installed(self) -> dict[str, Said]:
        return {each.name: Said(each) for each in registry.load_all()[0]}
