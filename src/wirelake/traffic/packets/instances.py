"""Instances: a matrix of a packet template, with one row per instance.

Every row has the bytes of the template and, in the columns that vary, the instance's own addresses,
ids and times. NumPy writes them for all rows at once; only encryption is done row by row. Sessions
that talk for real reach some ten thousand messages a second, so this is what makes a large run
possible.

Times vary too: each pause between two packets of the scene is stretched or shortened at random. The
order within a scene stays as it was, and every latency differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..scenes.scene import PERIOD_NS
from . import numbers as numbering
from .numbers import FORMS, Bytes, Ints, block, decimal, varint6
from .packet_template import Columns, PacketTemplate, State, resealers

__all__ = ["Instances", "instantiate"]

_SPREAD: Final = 0.3
"""How much pauses vary: standard deviation of the logarithm."""
_SHORTEST: Final = 0.35
"""Smallest factor of a pause."""
_LONGEST: Final = 3.0
"""Largest factor of a pause."""
_MS: Final = np.uint64(1_000_000)


@dataclass(slots=True)
class Instances:
    """All instances of one packet template."""

    packets: PacketTemplate
    rows: Bytes
    times: npt.NDArray[np.int64]
    """Capture time of each item, by instance and item."""
    first: Ints
    """First number in the block of each instance."""
    hosts: npt.NDArray[Any]
    """Client address, by instance and connection."""
    ports: npt.NDArray[Any]
    connections: npt.NDArray[np.int64]
    """Connection ids."""
    files: npt.NDArray[np.int64]
    """File of the shard that has each item, by instance and item."""
    offsets: npt.NDArray[np.int64]
    """Offset of each item in its file."""

    def only(self, some: list[int]) -> Instances:
        """Return a selection of the instances."""
        return Instances(
            self.packets,
            self.rows,
            self.times[some],
            self.first[some],
            self.hosts[some],
            self.ports[some],
            self.connections[some],
            self.files[some],
            self.offsets[some],
        )


def instantiate(
    packets: PacketTemplate,
    rows: Bytes,
    numbers: Ints,
    rng: np.random.Generator,
    *,
    begin_ns: int,
    resolution_ns: int,
    numbered: bool,
) -> Instances:
    """Write the instances of a template into the rows of a matrix.

    `numbers` identify the instances; no other instances of the run have the same. All times are in
    the period that begins at `begin_ns`. `numbered`: connections have recorded ids; otherwise their
    ids are those that readers derive.
    """
    # Cut to the resolution of the file format at once: truth has the times that a reader sees.
    times = _times(packets, len(rows), rng) + begin_ns
    times = times // resolution_ns * resolution_ns
    connections = packets.template.connections
    host = np.array([each.host for each in connections])
    addresses = numbering.addresses(numbers, host)
    ports = numbering.ports(numbers, host, np.array([each.port for each in connections]))
    if numbered:
        ids = numbering.connection_ids(numbers, len(connections))
    else:
        ids = _hashed(packets, addresses, ports, times)
    unset = np.zeros((0, 0), np.int64)
    made = Instances(packets, rows, times, block(numbers), addresses, ports, ids, unset, unset)
    _write(made, rng.integers(0, 1 << 32, (len(rows), 2 * len(connections)), np.int64))
    _seal(packets, rows, rng)
    return made


def _times(packets: PacketTemplate, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return when each item of each instance is captured, relative to the period."""
    # Pauses are stretched, not times: the order of packets within a scene stays, and with it the
    # outcome of every call. float32 halves the memory of the largest array here.
    factors = np.exp(rng.standard_normal((count, len(packets.pauses)), np.float32) * _SPREAD)
    np.clip(factors, _SHORTEST, _LONGEST, out=factors)
    times = np.cumsum(factors * packets.pauses, axis=1).astype(np.int64)
    room = np.maximum(1, PERIOD_NS - times[:, -1])
    begins: npt.NDArray[np.int64] = (rng.random(count) * room).astype(np.int64)
    return times + begins[:, None]


def _hashed(
    packets: PacketTemplate, addresses: Bytes, ports: npt.NDArray[Any], times: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return connection ids as readers derive them."""
    first = [-1] * len(packets.template.connections)
    for n, item in reversed(list(enumerate(packets.items))):
        if item.is_packet:
            first[item.connection] = n
    servers = np.array([each.scenes.server_port for each in packets.template.connections])
    return numbering.hashed_ids(addresses, ports, servers, times[:, first].astype(np.uint64))


def _seal(packets: PacketTemplate, rows: Bytes, rng: np.random.Generator) -> None:
    """Encrypt every instance, where the scene has encrypted connections."""
    found = resealers(packets)
    if found:
        for row in rows:
            state: State = {}
            for resealer in found:
                resealer.seal(row, rng.bytes, state)


# -- writing rows --------------------------------------------------------------------------------


def _write(made: Instances, first_numbers: npt.NDArray[np.int64]) -> None:
    """Write the template to every row, then the values of each instance."""
    # All values of one form of all instances at a time: some twenty NumPy calls for each template,
    # however many instances and values there are.
    packets, rows = made.packets, made.rows
    rows[:] = packets.row
    times = made.times.astype(np.uint64)
    for form, (columns, places) in packets.ids.items():
        _stamp(rows, columns, FORMS[form](made.first[:, None] + places))
    for form, (columns, items) in packets.times.items():
        _stamp(rows, columns, _TIMES[form](times[:, items]))
    for what, (columns, connections) in packets.marks.items():
        _stamp(rows, columns, _MARKS[what](made)[:, connections])
    for what, (columns, sources, added) in packets.numbers.items():
        if what == "checksum":
            values = _checksums(made.hosts[:, sources], added)
        else:
            values = _bytes((first_numbers[:, sources] + 1 + added).astype(np.uint32), ">u4")
        _stamp(rows, columns, values)


def _stamp(rows: Bytes, columns: Columns, values: Bytes) -> None:
    rows[:, columns.ravel()] = values.reshape(len(rows), -1)


def _bytes(values: npt.NDArray[Any], kind: str) -> Bytes:
    plain = np.ascontiguousarray(values.astype(kind))
    return plain.view(np.uint8).reshape(*values.shape, int(kind[-1]))


def _checksums(addresses: Bytes, added: npt.NDArray[np.int64]) -> Bytes:
    """Return IP header checksums: `added` is the sum of all words but the client's address."""
    # The carries are added twice: adding them once may carry again.
    total = np.ascontiguousarray(addresses).view(">u2").astype(np.int64).sum(axis=-1) + added
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return _bytes((~total & 0xFFFF).astype(np.uint16), ">u2")


def _ts_pcap(times: Ints, resolution_ns: int) -> Bytes:
    """Encode pcap timestamps: seconds and fraction, as two little-endian words."""
    seconds, rest = np.divmod(times, np.uint64(1_000_000_000))
    return _bytes(seconds | (rest // np.uint64(resolution_ns)) << np.uint64(32), "<u8")


def _ts_epb(times: Ints) -> Bytes:
    """Encode pcapng timestamps: high word, then low word, both little-endian."""
    return _bytes(times >> np.uint64(32) | times << np.uint64(32), "<u8")


_TIMES: Final[dict[str, Callable[[Ints], Bytes]]] = {
    "ts_epb": _ts_epb,
    "ts_pcap_us": lambda times: _ts_pcap(times, 1_000),
    "ts_pcap_ns": lambda times: _ts_pcap(times, 1),
    "ns": decimal,
    "varint": lambda times: varint6(times // _MS),
    "i64be": lambda times: _bytes(times // _MS, ">u8"),
    "i64le": lambda times: _bytes(times // _MS, "<u8"),
}
_MARKS: Final[dict[str, Callable[[Instances], Bytes]]] = {
    "address": lambda made: made.hosts,
    "address_text": lambda made: numbering.address_text(made.hosts),
    "port": lambda made: _bytes(made.ports, ">u2"),
    "port_text": lambda made: decimal(made.ports.astype(np.uint64), 5),
    "connection": lambda made: _bytes(made.connections, "<u8"),
    "connection_text": lambda made: decimal(made.connections.astype(np.uint64)),
}
