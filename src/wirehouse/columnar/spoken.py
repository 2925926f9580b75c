"""Which protocol each stream speaks, and what belongs to each of the protocols.

Protocols have numbers in the ledger of a pipeline, in the order in which they occur.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirehouse.capture.choice import Chooser
from wirehouse.capture.keys import KeyRing
from wirehouse.wire.protocol import Protocol

from .frontend import FrontEnd
from .ledger import IGNORED, UNDECIDED, Ledger
from .messages import MessageBuilder
from .sealing import ConnectionKeys
from .sniffing import sniff
from .window import Window

__all__ = ["Spoken", "Told", "Tongues"]

Told = dict[str, dict[int, tuple[str, str]]]
"""By protocol and connection: what messages said about keys."""


class Spoken(NamedTuple):
    """What belongs to one protocol."""

    protocol: Protocol
    builder: MessageBuilder
    keys: ConnectionKeys | None
    needs_context: bool
    """Whether opening a message needs all earlier ones: then keys make every message scalar."""


class Tongues:
    """The protocols of a pipeline."""

    def __init__(
        self,
        chooser: Chooser,
        ring: KeyRing,
        front: FrontEnd,
        ledger: Ledger,
        *,
        reveal: bool,
    ):
        self._chooser = chooser
        self._ring = ring
        self._front = front
        self._ledger = ledger
        self._reveal = reveal
        self._by_port = np.full(65_536, UNDECIDED, np.int16)
        self.all: list[Spoken] = []
        """By number."""
        self.told: Told = {}
        """What the messages of those with keys said about them."""

    @property
    def names(self) -> tuple[str, ...]:
        """By number."""
        return tuple(each.protocol.name for each in self.all)

    def of(self, stream: int) -> Spoken | None:
        """What a stream speaks, if that is decided and known."""
        number = int(self._ledger.entries["protocol"][stream])
        return None if number < 0 else self.all[number]

    def number(self, protocol: Protocol) -> int:
        """The number of a protocol in the ledger."""
        for number, each in enumerate(self.all):
            if each.protocol is protocol:
                return number
        dialect = self._chooser.dialect(protocol)
        builder = MessageBuilder(protocol, dialect, self._front.paths, reveal=self._reveal)
        keys = ConnectionKeys(protocol, self._ring) if protocol.meaning.sealed else None
        if keys is not None:
            self.told[protocol.name] = keys.told
        self.all.append(Spoken(protocol, builder, keys, bool(protocol.meaning.transformed)))
        return len(self.all) - 1

    def choose(self, window: Window) -> None:
        """Gives every stream of the window its protocol, where that can be told."""
        entries = self._ledger.entries
        fresh = np.unique(window.run_stream[entries["protocol"][window.run_stream] == UNDECIDED])
        self.choose_by_port(fresh)
        fresh = fresh[entries["protocol"][fresh] == UNDECIDED]
        for connection in np.unique(fresh >> 1).tolist():
            decided, chosen = sniff(self._chooser, window, connection)
            if not decided:
                continue
            streams = np.array([2 * connection, 2 * connection + 1], np.int32)
            entries["protocol"][streams] = IGNORED if chosen is None else self.number(chosen)
            if chosen is None:
                self._front.drop(streams)

    def choose_by_port(self, streams: NDArray[np.int32]) -> None:
        """Gives streams their protocol where a name or the server's port tells it."""
        ports = self._front.streams.server_port(streams)
        for port in np.unique(ports).tolist():
            if self._by_port[port] == UNDECIDED:
                known = self._chooser.known(port)
                if known is not None:
                    self._by_port[port] = self.number(known)
        self._ledger.entries["protocol"][streams] = self._by_port[ports]

    def forget(self, connections: list[int]) -> None:
        """These connections are gone."""
        for each in self.all:
            if each.keys is not None:
                each.keys.forget(connections)
