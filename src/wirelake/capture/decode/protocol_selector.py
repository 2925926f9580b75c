"""Selects the protocol of a connection: by configuration, recording, port, or its first bytes.

A reader is configured with one protocol for all connections, or with ports. A recording takes
precedence over default ports, because the recorder knew the protocol, but not over the
configuration: recordings can be wrong, and users need a way to overrule them.

Sniffing takes the first stream of a connection that has bytes, from its beginning, and tries every
protocol on it. The protocol whose first frame decodes is selected. A frame that says nothing, such
as four zero bytes in ESNP, does not count: one of the next must. A protocol whose frame is
incomplete is waited for, up to `SNIFFED_BYTES` of that stream (a longer first frame is not found),
or up to its first gap or its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple

from wirelake.protocols import registry
from wirelake.wire.model import Direction
from wirelake.wire.protocol import Protocol

from ..format.items import Fact
from ..tcp.connections import LIMIT
from .framing import Framing, Incomplete, ValidFrame

__all__ = [
    "OPEN_FACT",
    "SNIFFED_BYTES",
    "KnownProtocol",
    "ProtocolChooser",
    "RecordedProtocols",
    "Sniffer",
    "default_ports",
]


SNIFFED_BYTES: Final = 1 << 16
"""How much of a stream is examined: a longer first frame is not found."""
_SILENT_FRAMES: Final = 16
"""Frames that may say nothing before a protocol is rejected. A stream of zeros has thousands."""


def default_ports() -> dict[int, str]:
    """Return the default port of every protocol that has one."""
    found, _ = registry.load_all()
    return {each.port: each.name for each in found if each.port is not None}


class ProtocolChooser:
    """Selects the protocol and dialect of connections."""

    def __init__(
        self,
        *,
        ports: Mapping[int, str] | None = None,
        force_protocol: str | None = None,
        dialects: Mapping[str, str] | None = None,
    ):
        """`force_protocol` applies to every connection; else `ports` decides, else the first bytes.
        A recording takes precedence over the default ports."""
        # An empty port map switches default ports off.
        default = default_ports() if ports is None or ports else {}
        chosen = default if ports is None else ports
        self._ports = {port: registry.find(name) for port, name in chosen.items()}
        # A configured port that only repeats a default is weaker than a recording, like the default
        # itself.
        self._overridden = {port for port, name in chosen.items() if default.get(port) != name}
        self._forced = None if force_protocol is None else registry.find(force_protocol)
        self._dialects = {
            name: registry.find(name).dialect(dialect)
            for name, dialect in ({} if dialects is None else dialects).items()
        }
        self._framings: dict[tuple[str, Direction], Framing] = {}

    @property
    def ports(self) -> frozenset[int]:
        """The known server ports."""
        return frozenset(self._ports)

    def known(
        self, server_port: int, recorded: KnownProtocol | None = None
    ) -> KnownProtocol | None:
        """Return the protocol of a connection if it is known without its bytes. `recorded` is what
        a recording names."""
        configured = self.configured(server_port)
        if configured is not None:
            return KnownProtocol(configured)
        if recorded is not None:
            return recorded
        default = self.default(server_port)
        return None if default is None else KnownProtocol(default)

    def configured(self, server_port: int) -> Protocol | None:
        """Return the protocol that `force_protocol` or a non-default port determines."""
        if self._forced is not None or server_port not in self._overridden:
            return self._forced
        return self._ports[server_port]

    def default(self, server_port: int) -> Protocol | None:
        """Return the default protocol of a port, unless ports were given without this one."""
        return None if server_port in self._overridden else self._ports.get(server_port)

    def dialect(self, protocol: Protocol) -> str:
        """Return the dialect of a protocol."""
        return self._dialects.get(protocol.name) or protocol.dialect(None)

    def framing(self, protocol: Protocol, direction: Direction) -> Framing:
        """Return the framing of a protocol."""
        key = (protocol.name, direction)
        if key not in self._framings:
            self._framings[key] = Framing(protocol, self.dialect(protocol), direction)
        return self._framings[key]

    def sniffer(self, direction: Direction) -> Sniffer:
        """Return a sniffer of all protocols for a stream."""
        found, _ = registry.load_all()
        return Sniffer([self.framing(each, direction) for each in found])


class Sniffer:
    """Finds the only protocol whose first frame decodes and says something."""

    def __init__(self, framings: list[Framing]):
        self._open = framings
        self._good: list[Protocol] = []
        self._buffer = bytearray()
        self.decided = False
        """Whether `chosen` is final."""

    @property
    def chosen(self) -> Protocol | None:
        """The protocol; None when none fits or several do."""
        return self._good[0] if len(self._good) == 1 else None

    def feed(self, data: bytes) -> None:
        """Add bytes of the stream."""
        self._buffer += data[: SNIFFED_BYTES - len(self._buffer)]
        self._judge(final=len(self._buffer) == SNIFFED_BYTES)

    def end(self) -> None:
        """End the stream: decide now."""
        self._judge(final=True)

    def _judge(self, *, final: bool) -> None:
        if self.decided:
            return
        undecided: list[Framing] = []
        for framing in self._open:
            fits = self._fits(framing, final)
            if fits:
                self._good.append(framing.protocol)
            elif fits is None:
                undecided.append(framing)
        self._open = undecided
        # Two that fit are ambiguous, whatever the others turn out to be. A guess would give rows
        # that look right; bytes that are counted as ignored show in `coverage`.
        self.decided = not undecided or len(self._good) > 1
        if self.decided:
            self._buffer.clear()

    def _fits(self, framing: Framing, final: bool) -> bool | None:
        """Return whether the bytes are those of a protocol; None when more are needed."""
        at = 0
        for _ in range(_SILENT_FRAMES + 1):
            if at == len(self._buffer):
                return False if final else None
            verdict = framing.classify(self._buffer, at, final=final)
            if isinstance(verdict, Incomplete) and not final:
                return None
            if not isinstance(verdict, ValidFrame):
                return False
            if framing.speaks(verdict):
                return True
            at += len(verdict.raw)
        return False


# -- recordings ------------------------------------------------------------------------------

OPEN_FACT: Final = "open"
"""The kind of fact that opens a connection."""


class KnownProtocol(NamedTuple):
    """The protocol that a recording names for a connection."""

    protocol: Protocol | None
    """None for a protocol that is not installed."""


_UNKNOWN: Final = KnownProtocol(None)


class RecordedProtocols:
    """The protocols that the facts `open` of one file name.

    Of one file only: in every file that a connection reaches the recorder writes the fact again.
    """

    def __init__(self, *, limit: int = LIMIT):
        self._limit = limit
        self._protocols: dict[int, KnownProtocol] = {}

    def __len__(self) -> int:
        return len(self._protocols)

    def begin_file(self) -> None:
        """Forget the facts of the previous file."""
        self._protocols.clear()

    def add(self, fact: Fact) -> None:
        """Add a fact, if it opens a connection and names its protocol."""
        name = fact.data.get("protocol")
        if fact.kind != OPEN_FACT or fact.connection is None or not isinstance(name, str):
            return
        self._protocols.pop(fact.connection, None)
        self._protocols[fact.connection] = self._installed.get(name, _UNKNOWN)
        if len(self._protocols) > self._limit:
            del self._protocols[next(iter(self._protocols))]

    def of(self, connection: int | None) -> KnownProtocol | None:
        """Return what a recording names for a connection, by the recorder's id, or None."""
        return None if connection is None else self._protocols.get(connection)

    @cached_property
    def _installed(self) -> dict[str, KnownProtocol]:
        return {each.name: KnownProtocol(each) for each in registry.load_all()[0]}
