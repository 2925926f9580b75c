"""`info`: a summary of a capture file.

Connections are those of `tcp/connections.py`, counted by server port. Memory is bounded as in
reading: only counters grow, with ports, kinds and codes.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Final

import msgspec

from ..decode.protocol_selector import default_ports
from ..format.constants import Limits
from ..format.items import Element, Fact, FileFault, Interface, Packet, Secrets, Section, Segment
from ..format.reader import elements
from ..tcp.connections import Connection, ConnectionTable
from ..tcp.headers import segment

__all__ = ["LINK_NAMES", "Info", "InterfaceInfo", "ServerInfo", "info"]

_DEFAULT: Final = Limits()
LINK_NAMES: Final = {
    0: "null",
    1: "ethernet",
    12: "raw",
    14: "raw",
    101: "raw",
    108: "loopback",
    113: "cooked",
    228: "ipv4",
    229: "ipv6",
    276: "cooked2",
}
"""Names of the supported link types."""


class InterfaceInfo(msgspec.Struct, kw_only=True):
    """One interface of one section."""

    section: int
    number: int
    link: int
    link_name: str | None
    snap_length: int
    ticks_per_s: int
    packets: int = 0


class ServerInfo(msgspec.Struct, kw_only=True):
    """Connections to one port."""

    port: int
    protocol: str | None
    """As the recorder names it, or the protocol with this default port."""
    connections: int = 0
    packets: int = 0
    payload_bytes: int = 0


class Info(msgspec.Struct, kw_only=True):
    """A summary of a file."""

    path: str
    size_bytes: int
    """Size on disk."""
    format: str | None = None
    """pcap or pcapng; None if neither."""
    sources: list[tuple[str, int]] = []
    """For recordings: source and sequence of each section."""
    sections: int = 0
    interfaces: list[InterfaceInfo] = []
    packets: int = 0
    captured_bytes: int = 0
    original_bytes: int = 0
    first_ns: int | None = None
    """The earliest time of a packet, except packets without a time."""
    last_ns: int | None = None
    """The latest time of a packet."""
    segments: int = 0
    """Packets that are TCP segments."""
    notes: dict[str, int] = {}
    """Why the other packets have no segment, with counts."""
    servers: list[ServerInfo] = []
    """Busiest first."""
    facts: dict[str, int] = {}
    """Counts by kind."""
    key_lines: int = 0
    """Key log lines in the file."""
    faults: dict[str, int] = {}
    """Counts by code."""
    faulty_bytes: int = 0

    def to_json(self) -> bytes:
        """Return the summary as JSON."""
        return msgspec.json.encode(self)


def info(path: str | os.PathLike[str], *, limits: Limits = _DEFAULT) -> Info:
    """Return the summary of a file. Raises OSError when it cannot be opened or read."""
    result = _Tally(Info(path=os.fspath(path), size_bytes=os.stat(path).st_size))
    for element in elements(path, limits=limits):
        result.add(element)
    return result.finished()


class _Tally:
    """Counts the elements of a file."""

    def __init__(self, result: Info):
        self._result = result
        self._notes: Counter[str] = Counter()
        self._facts: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._interfaces: list[InterfaceInfo] = []
        self._servers: dict[int, ServerInfo] = {}
        self._ports = default_ports()
        self._table = ConnectionTable(self._ports)
        self._held: set[Connection] = set()

    def add(self, element: Element) -> None:
        """Count an element."""
        result = self._result
        if not isinstance(element, FileFault | Section):
            # Without a valid section before it: a pcapng file whose first header is damaged.
            result.format = result.format or "pcapng"
        match element:
            case Packet():
                self._packet(element)
            case Fact():
                self._facts[element.kind] += 1
                self._opened(element.data)
            case Secrets():
                result.key_lines += sum(1 for line in element.text.splitlines() if line.strip())
            case FileFault():
                self._faults[element.code] += 1
                result.faulty_bytes += element.present_bytes
            case Section():
                self._section(element)
            case Interface():
                self._interface(element)

    def finished(self) -> Info:
        """Return the summary."""
        result = self._result
        result.notes = dict(self._notes.most_common())
        result.facts = dict(self._facts.most_common())
        result.faults = dict(self._faults.most_common())
        result.servers = sorted(
            self._servers.values(), key=lambda server: (-server.packets, server.port)
        )
        return result

    # -- structure ---------------------------------------------------------------------------

    def _section(self, section: Section) -> None:
        self._result.format = section.format
        self._result.sections += 1
        self._interfaces = []
        if section.source is not None and section.sequence is not None:
            self._result.sources.append((section.source, section.sequence))

    def _interface(self, interface: Interface) -> None:
        found = InterfaceInfo(
            section=max(self._result.sections - 1, 0),
            number=interface.number,
            link=interface.link,
            link_name=LINK_NAMES.get(interface.link),
            snap_length=interface.snap_length,
            ticks_per_s=interface.ticks_per_s,
        )
        self._interfaces.append(found)
        self._result.interfaces.append(found)

    # -- packets -----------------------------------------------------------------------------

    def _packet(self, packet: Packet) -> None:
        result = self._result
        result.packets += 1
        result.captured_bytes += len(packet.data)
        result.original_bytes += packet.original
        self._interfaces[packet.interface].packets += 1
        # Simple packet blocks have no time; 1970 would be the earliest otherwise.
        if packet.ts_ns:
            result.first_ns = min(result.first_ns or packet.ts_ns, packet.ts_ns)
            result.last_ns = max(result.last_ns or packet.ts_ns, packet.ts_ns)
        found = segment(packet)
        if isinstance(found, Segment):
            result.segments += 1
            self._segment(found)
        else:
            self._notes[found] += 1

    def _segment(self, found: Segment) -> None:
        connection, _, dropped = self._table.assign(found)
        self._held.difference_update(dropped)
        server = self._server(connection.server.port)
        # Connections that were dropped are forgotten, or the set would grow with the capture.
        server.connections += connection not in self._held
        server.packets += 1
        server.payload_bytes += len(found.payload)
        self._held.add(connection)

    def _opened(self, data: dict[str, Any]) -> None:
        port, protocol = data.get("server_port"), data.get("protocol")
        if isinstance(port, int) and isinstance(protocol, str):
            self._server(port).protocol = protocol

    def _server(self, port: int) -> ServerInfo:
        if port not in self._servers:
            self._servers[port] = ServerInfo(port=port, protocol=self._ports.get(port))
        return self._servers[port]
