"""Captures to rows, in plain Python: the reference that the columnar reader must agree with.

    for table, row in read_tables(["edge.pcapng"], tables=["messages", "faults"]):
        ...

Files are read in the given order, as one capture: a connection may continue in the next file. Rows
are dicts with the columns of `wirelake.records.schema`, each yielded as soon as it is complete.
Memory is bounded by the limits of connections, streams and frames. Whatever the bytes, only OSError
is raised, when a file cannot be read; and ValueError or LookupError for invalid arguments, before
anything is read.

Two further tables are for the engines of `wirelake.records` (see `events.py`): `facts`, what a
recorder wrote, and `lifecycle`, the beginnings and ends of connections.
"""

from __future__ import annotations

import functools
import heapq
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from wirelake.wire.errors import unknown

from ..format.constants import FAULT_BYTES, Limits
from ..format.items import Fact, FileFault, Item, Packet, Secrets, Segment
from ..format.reader import read
from ..tcp.assembly import WAITING_NS, SourceClock
from ..tcp.connections import LIMIT, Assigned, Connection, ConnectionTable
from ..tcp.headers import segment
from .conversation import ConnectionDecoder, Context, TableRow
from .decryption import KeyRing
from .events import Lifecycle
from .messages import MessageRows
from .protocol_selector import ProtocolChooser, RecordedProtocols

__all__ = ["TABLES", "CaptureDecoder", "read_tables"]

TABLES: Final = ("messages", "packets", "faults", "coverage", "facts", "lifecycle")
"""The tables that can be read."""
_DEFAULT: Final = ("messages", "packets", "faults", "coverage")
_LIMITS: Final = Limits()


def read_tables(
    paths: Iterable[str | os.PathLike[str]],
    *,
    tables: Iterable[str] = _DEFAULT,
    ports: Mapping[int, str] | None = None,
    force_protocol: str | None = None,
    keys: Iterable[str | os.PathLike[str]] = (),
    dialects: Mapping[str, str] | None = None,
    reveal: bool = False,
    connections: int = LIMIT,
    limits: Limits = _LIMITS,
    select: Callable[[int], bool] | None = None,
) -> Iterator[TableRow]:
    """Yield (table, row) for everything in some files.

    `force_protocol` decodes every connection as that protocol. Without it the server's port
    decides (`ports`, or the default ports), else the first bytes. What a recording names for a
    connection takes precedence over a default port. `keys` are key logs; `dialects` maps protocols
    to dialects. `reveal` shows secret fields. `connections` and `limits` bound the memory. `select`
    chooses connections by id: the others are not decoded.
    """
    decoder = CaptureDecoder(
        tables=tables,
        ports=ports,
        force_protocol=force_protocol,
        keys=keys,
        dialects=dialects,
        reveal=reveal,
        connections=connections,
        limits=limits,
        select=select,
    )
    return _read_all(decoder, paths)


def _read_all(
    decoder: CaptureDecoder, paths: Iterable[str | os.PathLike[str]]
) -> Iterator[TableRow]:
    for path in paths:
        yield from decoder.file(path)
    yield from decoder.finish()


class CaptureDecoder:
    """Reads files one after the other. Arguments are those of `read_tables`."""

    def __init__(
        self,
        *,
        tables: Iterable[str] = _DEFAULT,
        ports: Mapping[int, str] | None = None,
        force_protocol: str | None = None,
        keys: Iterable[str | os.PathLike[str]] = (),
        dialects: Mapping[str, str] | None = None,
        reveal: bool = False,
        connections: int = LIMIT,
        limits: Limits = _LIMITS,
        select: Callable[[int], bool] | None = None,
    ):
        wanted = frozenset(tables)
        for table in sorted(wanted.difference(TABLES)):
            raise ValueError(unknown("table", table, TABLES))
        chooser = ProtocolChooser(ports=ports, force_protocol=force_protocol, dialects=dialects)
        ring = KeyRing()
        for path in keys:
            ring.load(path)
        files: list[str] = []
        rows = MessageRows(chooser, files, reveal=reveal)
        self._context = Context(chooser, ring, rows, files, wanted)
        self._limits = limits
        self._table = ConnectionTable(chooser.ports, limit=connections)
        self._decoders: dict[Connection, ConnectionDecoder] = {}
        self._clock = SourceClock()
        self._holes: list[tuple[int, int, Connection]] = []
        """A heap: since when a connection has a hole, a number that decides between equal times,
        and the connection. Entries that no longer hold are skipped."""
        self._hole_ns: dict[Connection, int] = {}
        """The last entry of each connection."""
        self._entries = 0
        self._recorded = RecordedProtocols()
        self._lifecycle = Lifecycle() if "lifecycle" in wanted else None
        self._select = select

    def file(self, path: str | os.PathLike[str]) -> Iterator[TableRow]:
        """Yield the rows that a file completes."""
        self._context.files.append(os.fspath(path))
        # Facts apply to the file that they are in.
        self._recorded.begin_file()
        for item in read(path, limits=self._limits):
            yield from self._item(item)

    def finish(self) -> Iterator[TableRow]:
        """Yield the remaining rows after the last file."""
        for connection in self._table.finish():
            decoder = self._decoders.pop(connection, None)
            if decoder is None:
                continue
            yield from decoder.end(still_open=not connection.over)

    def _item(self, item: Item) -> Iterator[TableRow]:
        match item:
            case Packet():
                yield from self._packet(item)
            case Secrets():
                problems = self._context.ring.add_secrets(item.text)
                first = item.text.encode("utf-8", "surrogateescape")[:FAULT_BYTES]
                for problem in problems:
                    yield from self._fault(FileFault(item.offset, 0, "bad_fact", problem, first))
            case FileFault():
                yield from self._fault(item)
            case Fact():
                self._recorded.add(item)
                if "facts" in self._context.tables:
                    yield "facts", self._fact_row(item)

    def _packet(self, packet: Packet) -> Iterator[TableRow]:
        self._clock.advance(packet.ts_ns)
        yield from self._expire()
        found = segment(packet)
        if not isinstance(found, Segment):
            if "packets" in self._context.tables:
                yield "packets", self._packet_row(packet, note=found)
            return
        assigned = self._table.assign(found)
        for dropped in assigned.dropped:
            yield from self._dropped(dropped, assigned.connection)
        # After the table was updated: connections that are not selected still count for the limit,
        # or the selected ones would differ from those of a full read.
        if self._select is not None and not self._select(assigned.connection.id):
            return
        if "packets" in self._context.tables:
            yield "packets", self._packet_row(packet, found, assigned)
        if self._lifecycle is not None:
            for event in self._lifecycle.segment(found, assigned):
                yield "lifecycle", {"event": event}
        decoder = self._decoders.get(assigned.connection)
        if decoder is None:
            recorded = self._recorded.of(packet.connection)
            decoder = ConnectionDecoder(self._context, assigned.connection, recorded)
            self._decoders[assigned.connection] = decoder
        # Streams refer to files by number: a row may begin in one file and end in another.
        file = len(self._context.files) - 1
        yield from decoder.segment(found, assigned.direction, file)
        self._note_hole(assigned.connection, decoder)

    def _expire(self) -> Iterator[TableRow]:
        """Yield the rows behind holes for which the capture has gone on for too long."""
        now_ns = self._clock.overdue_ns
        while self._holes and now_ns - self._holes[0][0] >= WAITING_NS:
            since_ns, _, connection = heapq.heappop(self._holes)
            decoder = self._decoders.get(connection)
            if decoder is not None and decoder.hole_ns == since_ns:
                yield from decoder.expire(now_ns)
                self._note_hole(connection, decoder)

    def _note_hole(self, connection: Connection, decoder: ConnectionDecoder) -> None:
        since_ns = decoder.hole_ns
        if since_ns is None:
            self._hole_ns.pop(connection, None)
        elif self._hole_ns.get(connection) != since_ns:
            self._hole_ns[connection] = since_ns
            self._entries += 1
            heapq.heappush(self._holes, (since_ns, self._entries, connection))

    def _dropped(self, connection: Connection, by: Connection) -> Iterator[TableRow]:
        decoder = self._decoders.pop(connection, None)
        self._hole_ns.pop(connection, None)
        if decoder is not None:
            yield from decoder.end(still_open=False)
        if self._lifecycle is not None:
            for event in self._lifecycle.dropped(connection, replaced=by.replaces(connection)):
                yield "lifecycle", {"event": event}

    # -- rows --------------------------------------------------------------------------------

    def _packet_row(
        self,
        packet: Packet,
        found: Segment | None = None,
        assigned: Assigned | None = None,
        note: str | None = None,
    ) -> dict[str, Any]:
        return {
            "ts_ns": packet.ts_ns,
            "file": self._context.files[-1],
            "offset": packet.offset,
            "interface": packet.interface,
            "link": packet.link,
            "captured_bytes": len(packet.data),
            "original_bytes": packet.original,
            "src": None if found is None else _address(found.src),
            "src_port": None if found is None else found.src_port,
            "dst": None if found is None else _address(found.dst),
            "dst_port": None if found is None else found.dst_port,
            "seq": None if found is None else found.seq,
            "ack": None if found is None else found.ack,
            "flags": None if found is None else found.flags,
            "payload_bytes": None if found is None else len(found.payload),
            "connection": None if assigned is None else assigned.connection.id,
            "direction": None if assigned is None else assigned.direction,
            "note": note,
        }

    def _fault(self, fault: FileFault) -> Iterator[TableRow]:
        if "faults" not in self._context.tables:
            return
        yield (
            "faults",
            {
                "ts_ns": fault.ts_ns,
                "file": self._context.files[-1],
                "offset": fault.offset,
                "connection": None,
                "direction": None,
                "protocol": None,
                "stream_offset": None,
                "present_bytes": fault.present_bytes,
                "missing_bytes": 0,
                "code": fault.code,
                "field": None,
                "detail": fault.detail,
                "bytes": fault.bytes,
            },
        )

    def _fact_row(self, fact: Fact) -> dict[str, Any]:
        return {
            "file": self._context.files[-1],
            "offset": fact.offset,
            "ts_ns": fact.ts_ns,
            "kind": fact.kind,
            "connection": fact.connection,
            "data": fact.data,
        }


@functools.lru_cache(maxsize=4096)
def _address(address: bytes) -> str:
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, address)
