"""What one would write without Wirelake's reader: dpkt, a simple reassembly, the scalar codec.

dpkt reads the packets of a pcap file. Segments are put in order by connection: what comes early
waits, what was seen is cut off; there are no gaps, limits or faults. Frames are decoded one by one,
described one by one, and a batch is made from the dicts. The rows are those of `messages`, without
their offset in the file, which dpkt does not tell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import dpkt  # type: ignore[import-untyped]
import pyarrow as pa

from wirelake.capture.decode.decryption import Decryptor, KeyRing
from wirelake.capture.decode.protocol_selector import default_ports
from wirelake.capture.tcp.connections import Endpoint, connection_id
from wirelake.protocols import registry
from wirelake.records.message import Describer
from wirelake.records.structs import messages_schema
from wirelake.records.tunnels import tunnel_connection
from wirelake.wire.errors import NeedMore
from wirelake.wire.model import Direction
from wirelake.wire.protocol import Protocol
from wirelake.wire.walk import offset_in_frame

__all__ = ["read_with_dpkt"]

BATCH_ROWS: Final = 32_768
_SYN: Final = 2
_MASK32: Final = (1 << 32) - 1


def read_with_dpkt(path: str | os.PathLike[str]) -> Iterator[pa.RecordBatch]:
    """The messages of a pcap file, in batches of one protocol each."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in _Reader(os.fspath(path)).rows():
        held = rows.setdefault(row["protocol"], [])
        held.append(row)
        if len(held) == BATCH_ROWS:
            yield _batch(row["protocol"], rows.pop(row["protocol"]))
    for protocol, held in rows.items():
        yield _batch(protocol, held)


def _batch(protocol: str, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=messages_schema([protocol]))


class _Stream:
    """One direction of a connection."""

    def __init__(self, connection: _Connection, direction: Direction):
        self.connection = connection
        self.direction = direction
        self.wire_direction = direction if connection.protocol.directed else None
        self.next_seq: int | None = None
        self.early: dict[int, tuple[bytes, int]] = {}
        self.buffer = b""
        self.first_ns: list[tuple[int, int]] = []
        """Times of packets, each with the bytes of the buffer up to its end."""
        self.latest_ns = 0

    def feed(self, seq: int, flags: int, payload: bytes, ts_ns: int) -> bool:
        """A segment; whether the buffer has grown."""
        if flags & _SYN:
            self.next_seq = (seq + 1) & _MASK32
            return False
        if self.next_seq is None:
            self.next_seq = seq
        self.latest_ns = ts_ns
        if not payload:
            return False
        ahead = (seq - self.next_seq) & _MASK32
        if ahead == 0:
            self._append(payload, ts_ns)
        elif ahead < 1 << 31:
            self.early.setdefault(seq, (payload, ts_ns))
            return False
        else:
            self._append(payload[(1 << 32) - ahead :], ts_ns)
        while self.early and self.next_seq in self.early:
            self._append(*self.early.pop(self.next_seq))
        return True

    def _append(self, payload: bytes, ts_ns: int) -> None:
        if payload:
            assert self.next_seq is not None
            self.buffer += payload
            self.first_ns.append((len(self.buffer), ts_ns))
            self.next_seq = (self.next_seq + len(payload)) & _MASK32

    def started(self, place: int) -> int:
        """When the byte at a place of the buffer was captured."""
        return next(ts_ns for stop, ts_ns in self.first_ns if place < stop)

    def consume(self, size: int) -> None:
        """Forgets what was read."""
        self.buffer = self.buffer[size:]
        self.first_ns = [(stop - size, ts_ns) for stop, ts_ns in self.first_ns if stop > size]


class _Connection:
    """Two endpoints that speak a protocol."""

    def __init__(self, protocol: Protocol, client: Endpoint, server: Endpoint, first_ns: int):
        self.protocol = protocol
        self.client = client
        self.id = connection_id(client, server, first_ns)
        self.describer = _describer(protocol)
        self.decryptor = Decryptor(KeyRing(), self.describer, self.id)
        self.c2s, self.s2c = _Stream(self, "c2s"), _Stream(self, "s2c")


_describers: dict[str, Describer] = {}


def _describer(protocol: Protocol) -> Describer:
    if protocol.name not in _describers:
        _describers[protocol.name] = Describer(protocol)
    return _describers[protocol.name]


class _Reader:
    """Rows of one file."""

    def __init__(self, path: str):
        self._path = path
        self._ports = {port: registry.find(name) for port, name in default_ports().items()}
        self._connections: dict[tuple[Endpoint, Endpoint], _Connection] = {}

    def rows(self) -> Iterator[dict[str, Any]]:
        """All messages, in the order of the packets that completed them."""
        with open(self._path, "rb") as file:
            for ts, data in dpkt.pcap.Reader(file):
                ip = dpkt.ethernet.Ethernet(data).data
                if isinstance(ip, dpkt.ip.IP | dpkt.ip6.IP6) and isinstance(ip.data, dpkt.tcp.TCP):
                    yield from self._segment(ip, ip.data, round(ts * 1_000_000) * 1_000)

    def _segment(self, ip: Any, tcp: Any, ts_ns: int) -> Iterator[dict[str, Any]]:
        source, target = Endpoint(ip.src, tcp.sport), Endpoint(ip.dst, tcp.dport)
        from_client = tcp.dport in self._ports
        key = (source, target) if from_client else (target, source)
        connection = self._connections.get(key)
        if connection is None or tcp.flags == _SYN:
            protocol = self._ports.get(key[1].port)
            if protocol is None:
                return
            connection = self._connections[key] = _Connection(protocol, *key, ts_ns)
        stream = connection.c2s if from_client else connection.s2c
        if stream.feed(tcp.seq, tcp.flags, tcp.data, ts_ns):
            yield from self._messages(connection, stream)

    def _messages(self, connection: _Connection, stream: _Stream) -> Iterator[dict[str, Any]]:
        at = 0
        buffer = stream.buffer
        while at < len(buffer):
            try:
                message, stop = connection.protocol.decode(
                    buffer, at, direction=stream.wire_direction
                )
            except NeedMore:
                break
            raw = buffer[at:stop]
            opened = connection.decryptor.decrypt(message, raw, stream.direction)
            said = connection.describer(
                message, opened.parts, body=opened.body, sealed=opened.sealed
            )
            yield self._row(said, connection.protocol, connection.id, stream, at, stop, None)
            carrier = connection.describer.carrier(message)
            if carrier is not None:
                yield self._tunnelled(connection, carrier, stream, at, stop)
            at = stop
        if at:
            stream.consume(at)

    def _tunnelled(
        self, link: _Connection, carrier: Any, stream: _Stream, start: int, stop: int
    ) -> dict[str, Any]:
        """The row of a message that a gateway relays."""
        tunnels = link.protocol.meaning.tunnels
        assert tunnels is not None
        carried = registry.find(tunnels.protocol)
        said = _describer(carried)(None, {tunnels.message: getattr(carrier, tunnels.message)})
        number = tunnel_connection(
            getattr(carrier, tunnels.instance_id), getattr(carrier, tunnels.tunnel_id)
        )
        at = start + offset_in_frame(link.protocol, link.protocol.dialect(None), tunnels.inner)
        return self._row(said, carried, number, stream, at, stop, link.id)

    def _row(
        self,
        said: dict[str, Any],
        protocol: Protocol,
        connection: int,
        stream: _Stream,
        start: int,
        stop: int,
        link: int | None,
    ) -> dict[str, Any]:
        return {
            **said,
            "ts_ns": stream.latest_ns,
            "first_ns": stream.started(start),
            "connection": connection,
            "direction": stream.direction,
            "protocol": protocol.name,
            "size_bytes": stop - start,
            "tunnel_link": link,
            "file": self._path,
        }
