"""What a capture file is and holds, in figures: `info`.

Connections are told apart as `connections.py` does it, and counted by the port of their server.
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
"""What the link types are called that are read."""


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
    """As the recorder says, else the one whose usual port it is."""
    connections: int = 0
    packets: int = 0
    payload_bytes: int = 0


class Info(msgspec.Struct, kw_only=True):
    """What a file holds."""

    path: str
    size_bytes: int
    """On disk."""
    format: str | None = None
    """pcap or pcapng; None when it is neither."""
    sources: list[tuple[str, int]] = []
    """Of recordings: source and sequence of each section."""
    sections: int = 0
    interfaces: list[InterfaceInfo] = []
    packets: int = 0
    captured_bytes: int = 0
    original_bytes: int = 0
    first_ns: int | None = None
    """The earliest time of a packet; packets without a time do not count."""
    last_ns: int | None = None
    """The latest time of a packet."""
    segments: int = 0
    """Packets that are TCP segments."""
    notes: dict[str, int] = {}
    """Why the others are none."""
    servers: list[ServerInfo] = []
    """Busiest first."""
    facts: dict[str, int] = {}
    """By their kind."""
    key_lines: int = 0
    """Lines of key logs in it."""
    faults: dict[str, int] = {}
    """By their code."""
    faulty_bytes: int = 0

    def to_json(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self)


def info(path: str | os.PathLike[str], *, limits: Limits = _DEFAULT) -> Info:
    """Reads a file and tells. Raises OSError when it cannot be opened or read, nothing else."""
    told = _Tally(Info(path=os.fspath(path), size_bytes=os.stat(path).st_size))
    for element in elements(path, limits=limits):
        told.add(element)
    return told.finished()


class _Tally:
    """Counts as it reads."""

    def __init__(self, told: Info):
        self._told = told
        self._notes: Counter[str] = Counter()
        self._facts: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._interfaces: list[InterfaceInfo] = []
        self._servers: dict[int, ServerInfo] = {}
        self._ports = default_ports()
        self._table = ConnectionTable(self._ports)
        self._held: set[Connection] = set()

    def add(self, element: Element) -> None:
        """Counts an element."""
        told = self._told
        if not isinstance(element, FileFault | Section):
            told.format = told.format or "pcapng"  # whose first section header is broken
        match element:
            case Packet():
                self._packet(element)
            case Fact():
                self._facts[element.kind] += 1
                self._opened(element.data)
            case Secrets():
                told.key_lines += sum(1 for line in element.text.splitlines() if line.strip())
            case FileFault():
                self._faults[element.code] += 1
                told.faulty_bytes += element.present_bytes
            case Section():
                self._section(element)
            case Interface():
                self._interface(element)

    def finished(self) -> Info:
        """All that was counted."""
        told = self._told
        told.notes = dict(self._notes.most_common())
        told.facts = dict(self._facts.most_common())
        told.faults = dict(self._faults.most_common())
        told.servers = sorted(
            self._servers.values(), key=lambda server: (-server.packets, server.port)
        )
        return told

    # -- structure ---------------------------------------------------------------------------

    def _section(self, section: Section) -> None:
        self._told.format = section.format
        self._told.sections += 1
        self._interfaces = []
        if section.source is not None and section.sequence is not None:
            self._told.sources.append((section.source, section.sequence))

    def _interface(self, interface: Interface) -> None:
        found = InterfaceInfo(
            section=max(self._told.sections - 1, 0),
            number=interface.number,
            link=interface.link,
            link_name=LINK_NAMES.get(interface.link),
            snap_length=interface.snap_length,
            ticks_per_s=interface.ticks_per_s,
        )
        self._interfaces.append(found)
        self._told.interfaces.append(found)

    # -- packets -----------------------------------------------------------------------------

    def _packet(self, packet: Packet) -> None:
        told = self._told
        told.packets += 1
        told.captured_bytes += len(packet.data)
        told.original_bytes += packet.original
        self._interfaces[packet.interface].packets += 1
        if packet.ts_ns:
            told.first_ns = min(told.first_ns or packet.ts_ns, packet.ts_ns)
            told.last_ns = max(told.last_ns or packet.ts_ns, packet.ts_ns)
        found = segment(packet)
        if isinstance(found, Segment):
            told.segments += 1
            self._segment(found)
        else:
            self._notes[found] += 1

    def _segment(self, found: Segment) -> None:
        connection, _, dropped = self._table.assign(found)
        self._held.difference_update(dropped)
        server = self._server(connection.server.port)
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
