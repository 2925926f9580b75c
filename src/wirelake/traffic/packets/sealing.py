"""Encrypting instances anew: every instance has its own keys.

New ids cannot be written into ciphertext, nor into bytes that a key was derived from. So an
encrypted connection is instantiated in three steps, by the declaration of its protocol: randoms,
session ids and secrets are drawn anew; keys are derived from them by the protocol's own key
schedule; every encrypted frame is encrypted again, by the protocol's own ciphers. Instances share
the application's plaintext and the template's ephemeral X25519 keys, which saves two key agreements
per instance.

`StreamColumns` and `KeyLogColumns` tell a `Resealer` where the bytes of its connection are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .numbers import Bytes
from .packet_template import PacketTemplate

__all__ = ["Draw", "KeyLogColumns", "Resealer", "State", "StreamColumns", "resealers"]

Draw: TypeAlias = Callable[[int], bytes]
"""Returns that many random bytes."""
State: TypeAlias = dict[int, tuple[bytes, bytes]]
"""Session id and resumption secret of earlier connections of the same instance, by connection."""


class Resealer(Protocol):
    """Encrypts one connection of an instance."""

    def seal(self, row: Bytes, draw: Draw, state: State) -> None:
        """Encrypt the connection in the row of an instance; its ids are already written."""


def resealers(packets: PacketTemplate) -> list[Resealer]:
    """Return one resealer for each encrypted connection, in order."""
    made = [
        connection.scenes.reseal(packets, place)
        for place, connection in enumerate(packets.template.connections)
        if connection.scenes.reseal is not None
    ]
    return [each for each in made if each is not None]


@dataclass(slots=True)
class StreamColumns:
    """The column of each byte of a stream, and of its retransmitted copies."""

    columns: npt.NDArray[np.int64]
    copies: list[tuple[slice, slice]]

    @classmethod
    def of(cls, packets: PacketTemplate, place: int, direction: int) -> StreamColumns:
        """Locate one direction of a connection in the rows of a packet template."""
        stream = packets.template.connections[place].streams[direction]
        columns = np.full(len(stream.data), -1, np.int64)
        copies: list[tuple[slice, slice]] = []
        for n in packets.carriers[place][direction]:
            start, stop = packets.items[n].payload
            column = int(packets.starts[n]) + packets.items[n].payload_at
            if (columns[start:stop] >= 0).any():
                copies.append((slice(column, column + stop - start), slice(start, stop)))
            fresh = columns[start:stop] < 0
            columns[start:stop][fresh] = np.arange(column, column + stop - start)[fresh]
        return cls(columns, copies)

    def read(self, row: Bytes, start: int, stop: int) -> bytes:
        """Read bytes of the stream from a row."""
        return row[self.columns[start:stop]].tobytes()

    def write(self, row: Bytes, start: int, data: bytes) -> None:
        """Write bytes of the stream to a row."""
        row[self.columns[start : start + len(data)]] = np.frombuffer(data, np.uint8)

    def repeat(self, row: Bytes) -> None:
        """Make the retransmitted copies equal to the first."""
        for columns, positions in self.copies:
            row[columns] = row[self.columns[positions]]


class KeyLogColumns:
    """The columns of a connection's key log line."""

    def __init__(self, packets: PacketTemplate, place: int):
        self._at: dict[str, tuple[int, int]] = {}
        for n, item in enumerate(packets.items):
            event = packets.template.events[item.event] if item.event >= 0 else None
            if event is None or event.kind != "keys" or event.connection is None:
                continue
            if packets.template.places[event.connection.number] == place:
                base = int(packets.starts[n])
                for name, text in json.loads(event.text).items():
                    at = item.data.index(f'"{name}": "'.encode()) + len(name) + 5
                    self._at[name] = (base + at, base + at + len(text))

    def write(self, row: Bytes, **keys: bytes) -> None:
        """Write keys, in hexadecimal, to a row."""
        for name, key in keys.items():
            start, stop = self._at[name]
            row[start:stop] = np.frombuffer(key.hex().encode(), np.uint8)
