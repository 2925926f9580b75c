"""The rows of a window: messages in order of arrival, packets, faults, beginnings and ends.

`WindowRows` collects batches of messages. Kernels yield them in the order of packets; rows of the
scalar path come later, in batches of their own. Where there are some, all rows of the protocol are
sorted once more. `packet_batch` makes rows of `packets`, `FaultRows` collects rows of `faults`, and
`Lifecycle` derives `Opened` and `Closed` events of connections for the engines and the fold.
"""

from __future__ import annotations

import functools
import itertools
import socket
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.capture.decode.streams import Fault
from wirelake.capture.format.constants import FAULT_BYTES
from wirelake.capture.format.items import FileFault, Secrets
from wirelake.capture.tcp.assembly import FIN, RST, SYN
from wirelake.records.rows import Closed, Opened
from wirelake.records.schema import schema

from ..decode.meaning import Coded, repeated
from ..decode.messages import Slices
from ..decode.scalar import Outcome
from ..decode.texts import coded
from ..tcp.window import DIRECTIONS, ENDINGS, NOTES, Streams, Window

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "FaultRows",
    "Lifecycle",
    "WindowRows",
    "chunks",
    "packet_batch",
]


BATCH_ROWS: Final = 32_768
"""Maximum rows of a batch. Larger batches gain nothing and take more memory: Spark read 2k, 20k and
100k rows per batch in 0.96, 1 and 1.24 of the time."""
BATCH_BYTES: Final = 8 << 20
"""Maximum bytes of frames in a batch, unless a single frame has more: Arrow's offsets are int32."""

Places = NDArray[np.int64]
"""Two rows: the packet with which each message could be read, and where the message begins. One
packet may complete several messages, some of which went through the scalar path."""


def chunks(slices: Slices) -> Iterator[tuple[int, int]]:
    """Yield ranges of slices, each for one batch."""
    sizes = np.cumsum(slices.stops - slices.starts)
    begin = 0
    while begin < len(slices):
        before = sizes[begin - 1] if begin else 0
        # Cumulative sizes ascend, so the end of a batch is found by bisection.
        end = int(np.searchsorted(sizes, before + BATCH_BYTES, side="right"))
        end = max(begin + 1, min(end, begin + BATCH_ROWS))
        yield begin, end
        begin = end


class WindowRows:
    """Batches by protocol, with the places of their rows."""

    def __init__(self) -> None:
        self._batches_by_protocol: dict[str, list[tuple[pa.RecordBatch, Places]]] = {}

    def add(self, protocol: str, batch: pa.RecordBatch, places: Places) -> None:
        """Add rows that kernels decoded."""
        if batch.num_rows:
            self._batches_by_protocol.setdefault(protocol, []).append((batch, places))

    def add_outcomes(self, outcomes: list[Outcome]) -> None:
        """Add rows of the scalar path."""
        rows: dict[str, tuple[list[dict[str, Any]], list[tuple[int, int]]]] = {}
        for outcome in outcomes:
            for row in outcome.rows:
                own, places = rows.setdefault(row["protocol"], ([], []))
                own.append(row)
                places.append((outcome.arrival, outcome.start))
        for name, (own, places) in rows.items():
            # Slow for many rows, and there are few.
            batch = pa.RecordBatch.from_pylist(own, schema=schema("messages", [name]))
            self.add(name, coded(batch), np.array(places, np.int64).T)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, those of a protocol in the order of packets."""
        for batches in self._batches_by_protocol.values():
            yield from _in_order(batches)


def _in_order(batches: list[tuple[pa.RecordBatch, Places]]) -> Iterator[pa.RecordBatch]:
    # Usually nothing has to be moved. Checking costs one pass over the numbers, sorting copies
    # every column.
    ends = [(tuple(places[:, 0]), tuple(places[:, -1])) for _, places in batches]
    between = all(one[1] <= other[0] for one, other in itertools.pairwise(ends))
    within = all((places[0, 1:] >= places[0, :-1]).all() for _, places in batches)
    if between and within:
        yield from (batch for batch, _ in batches)
        return
    table = pa.Table.from_batches([batch for batch, _ in batches]).unify_dictionaries()
    arrivals, starts = np.concatenate([places for _, places in batches], axis=1)
    sequence = np.lexsort((starts, arrivals))
    whole = table.take(pa.array(sequence)).combine_chunks()
    yield from whole.to_batches(max_chunksize=BATCH_ROWS)


# -- packets ---------------------------------------------------------------------------------


def packet_batch(window: Window) -> pa.RecordBatch:
    """Return the rows of `packets` for a window."""
    segment = window.note == 0
    columns = {
        "ts_ns": pa.array(window.ts_ns),
        "file": repeated(window.path, len(window)),
        "offset": pa.array(window.offset),
        "interface": pa.array(window.interface),
        "link": pa.array(window.link),
        "captured_bytes": pa.array(window.captured),
        "original_bytes": pa.array(window.original),
        "src": _addresses(window, 0),
        "src_port": _where(segment, window.src_port),
        "dst": _addresses(window, 2),
        "dst_port": _where(segment, window.dst_port),
        "seq": _where(segment, window.seq),
        "ack": _where(segment, window.ack),
        "flags": _where(segment, window.flags),
        "payload_bytes": _where(segment, window.payload_len),
        "connection": _where(segment, window.connection),
        "direction": _direction(window),
        "note": Coded(window.note.astype(np.int32) - 1, tuple(NOTES[1:])).array(),
    }
    found = schema("packets")
    arrays = [columns[field.name].cast(field.type) for field in found]
    return pa.RecordBatch.from_arrays(arrays, schema=found)


def _where(segment: NDArray[np.bool_], values: NDArray[Any]) -> pa.Array:
    return pa.array(values, mask=~segment)


def _direction(window: Window) -> pa.Array:
    codes = window.direction.astype(np.int32)
    # 255, no direction, becomes null.
    codes[codes >= len(DIRECTIONS)] = -1
    return Coded(codes, DIRECTIONS).array()


def _addresses(window: Window, row: int) -> pa.Array:
    """Return addresses as text; each distinct address is formatted once."""
    high, low = window.addresses[row], window.addresses[row + 1]
    # The family is part of the key: ::1.2.3.4 and 1.2.3.4 have the same halves.
    keys = np.stack([window.family.astype(np.uint64), high, low], axis=1)
    distinct, codes = np.unique(keys, axis=0, return_inverse=True)
    texts: list[str] = []
    places = np.full(len(distinct), -1, np.int32)
    for at, (family, upper, lower) in enumerate(distinct.tolist()):
        if family:
            places[at] = len(texts)
            texts.append(_ip_text(int(family), int(upper), int(lower)))
    return Coded(places[codes.reshape(-1)], tuple(texts)).array()


# -- faults ----------------------------------------------------------------------------------


class FaultRows:
    """Collects the faults of files and streams."""

    def __init__(self, files: list[str]):
        self._files = files
        self._rows: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self) -> pa.RecordBatch:
        """Return the rows collected since the last call."""
        rows, self._rows = self._rows, []
        return pa.RecordBatch.from_pylist(rows, schema=schema("faults"))

    def of_file(self, file: int, fault: FileFault) -> None:
        """Add a damaged part of a file."""
        self._rows.append(
            {
                "ts_ns": fault.ts_ns,
                "file": self._files[file],
                "offset": fault.offset,
                "present_bytes": fault.present_bytes,
                "missing_bytes": 0,
                "code": fault.code,
                "detail": fault.detail,
                "bytes": fault.bytes,
            }
        )

    def of_secrets(self, file: int, secrets: Secrets, problem: str) -> None:
        """Add an invalid line of keys."""
        first = secrets.text.encode("utf-8", "surrogateescape")[:FAULT_BYTES]
        self.of_file(file, FileFault(secrets.offset, 0, "bad_fact", problem, first))

    def of_stream(self, streams: Streams, stream: int, protocol: str | None, fault: Fault) -> None:
        """Add bytes of a stream that do not decode."""
        self._rows.append(
            {
                "ts_ns": fault.place.ts_ns,
                "file": self._files[fault.place.file],
                "offset": fault.place.offset,
                "connection": int(streams.connection[stream]),
                "direction": DIRECTIONS[int(streams.direction[stream])],
                "protocol": protocol,
                "stream_offset": fault.start,
                "present_bytes": fault.present_bytes,
                "missing_bytes": fault.missing_bytes,
                "code": fault.code,
                "field": fault.field,
                "detail": fault.detail,
                "bytes": fault.bytes,
            }
        )


# -- beginnings and ends of connections --------------------------------------------------------

_REPLACED: Final = ENDINGS.index("replaced")
_ADDRESSES: Final = 16_384
"""Maximum number of addresses cached as text: servers, and clients that come again."""
_BOTH: Final = 3
"""FIN was seen in both directions (1: c2s, 2: s2c), or RST was seen."""


class Lifecycle:
    """Follows connections through all windows."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        """Connections, and the directions in which FIN was seen."""

    def events(self, window: Window, streams: Streams) -> list[Opened | Closed]:
        """Return the connections that begin and end in a window, in the order of its packets."""
        found: list[Opened | Closed] = []
        present, first = np.unique(window.connection, return_index=True)
        fresh = [
            at
            for connection, at in zip(present.tolist(), first.tolist(), strict=True)
            if connection and connection not in self._known
        ]
        opened = dict(zip(fresh, _opened(window, np.array(fresh, np.intp)), strict=True))
        # Only packets that can change something are visited in Python: the first of a connection,
        # and those with FIN or RST. The others are most of a capture.
        ending = np.flatnonzero((window.flags & (FIN | RST)) * (window.note == 0))
        places = np.union1d(np.array(fresh, np.intp), ending)
        columns = (window.ts_ns, window.connection, window.direction, window.flags)
        for at, ts_ns, connection, direction, flags in zip(
            places.tolist(), *(column[places].tolist() for column in columns), strict=True
        ):
            if at in opened:
                self._known[connection] = 0
                found.append(opened[at])
            if flags & (FIN | RST):
                found += self._closed(ts_ns, connection, direction, flags)
        found += self._gone(window, streams)
        return found

    def save(self, connections: list[int]) -> NDArray[np.uint8]:
        """Return the state of connections, as a number for each; 0 for unknown ones."""
        known = self._known.get
        return np.array([known(each, -1) + 1 for each in connections], np.uint8)

    def restore(self, connections: list[int], saved: list[int]) -> None:
        """Continue from what `save` returned."""
        found = zip(connections, saved, strict=True)
        self._known.update({connection: seen - 1 for connection, seen in found if seen})

    def _closed(self, ts_ns: int, connection: int, direction: int, flags: int) -> list[Closed]:
        seen = self._known.get(connection)
        if seen is None or seen == _BOTH:
            return []
        if flags & RST:
            self._known[connection] = _BOTH
            return [Closed(ts_ns, connection, DIRECTIONS[direction], "rst")]
        # 0 is c2s and 1 is s2c, so the bits are 1 and 2.
        self._known[connection] = seen | 1 << direction
        if seen | 1 << direction != _BOTH:
            return []
        # The second FIN completes the close, but the side that sent the first one closed the
        # connection.
        return [Closed(ts_ns, connection, DIRECTIONS[1 - direction], "fin")]

    def _gone(self, window: Window, streams: Streams) -> list[Closed]:
        """Forget dropped connections; a replaced one was closed with its last packet.

        A connection has two streams. One of them may have ended by FIN before: only the other one
        has the ending "replaced".
        """
        last_ns: dict[int, int] = {}
        replaced = set()
        columns = (streams.connection, streams.ending, streams.last_ns)
        for connection, ending, last in zip(
            *(column[window.retired].tolist() for column in columns), strict=True
        ):
            last_ns[connection] = max(last, last_ns.get(connection, last))
            if ending == _REPLACED:
                replaced.add(connection)
        return [
            Closed(last, connection, None, "anew")
            for connection, last in last_ns.items()
            if self._known.pop(connection, _BOTH) != _BOTH and connection in replaced
        ]


def _opened(window: Window, places: NDArray[np.intp]) -> Iterator[Opened]:
    """Yield the events of connections that begin, by their first packets."""
    columns = (window.ts_ns, window.connection, window.flags, window.direction, window.family)
    endpoint_columns = (*window.addresses, window.src_port, window.dst_port)
    for ts_ns, connection, flags, direction, family, *endpoints in zip(
        *(column[places].tolist() for column in (*columns, *endpoint_columns)), strict=True
    ):
        source, target = _ip_text(family, *endpoints[0:2]), _ip_text(family, *endpoints[2:4])
        source_port, target_port = endpoints[4:]
        whole = bool(flags & SYN)
        if direction == 0:
            ports = source, source_port, target, target_port
        else:
            ports = target, target_port, source, source_port
        yield Opened(ts_ns, connection, None, *ports, whole)


@functools.lru_cache(_ADDRESSES)
def _ip_text(family: int, high: int, low: int) -> str:
    if family == 4:
        return socket.inet_ntop(socket.AF_INET, low.to_bytes(4, "big"))
    return socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16, "big"))
