"""Casting: a matrix of a plate, with a row for each cast.

All rows have the bytes of the plate and, in the columns that differ, the cast's own addresses, ids
and times. All of it is done by NumPy, for all rows at once; nothing is done packet by packet. What
is sealed is sealed anew, cast by cast (`sealing.py`).

The times of a cast are its own as well: the pauses between the packets of the scene, each stretched
or shortened at random, so that the order within a scene stays as it was and every latency differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..clock import PERIOD_NS
from . import hosts
from .numbers import (
    FORMS,
    Bytes,
    Ints,
    block,
    decimal,
    varint6,
)
from .packet_template import (
    Cast,
    Columns,
    Plate,
)
from .recorded import server_port
from .sealing import State, recipes

__all__ = ["cast"]

_SPREAD: Final = 0.3
"""How much the pauses of casts differ: the deviation of the logarithm."""
_SHORTEST: Final = 0.35
"""What a pause is shortened to, at most."""
_LONGEST: Final = 3.0
"""What a pause is stretched to, at most."""
_MS: Final = np.uint64(1_000_000)
_Marks: TypeAlias = dict[str, npt.NDArray[Any]]


def cast(
    plate: Plate,
    rows: Bytes,
    casts: Ints,
    rng: np.random.Generator,
    *,
    begin_ns: int,
    resolution_ns: int,
    numbered: bool,
) -> Cast:
    """Casts a plate into the rows of a matrix.

    `casts` are the numbers of the casts, which no other casts of the run have. They lie within a
    period that begins at `begin_ns`. `numbered`: connections have ids by themselves; otherwise they
    have those that readers make.
    """
    times = _times(plate, len(rows), rng) + begin_ns
    times = times // resolution_ns * resolution_ns
    connections = plate.mould.connections
    host = np.array([each.host for each in connections])
    addresses = hosts.addresses(casts, host)
    ports = hosts.ports(casts, host, np.array([each.port for each in connections]))
    if numbered:
        ids = hosts.connection_ids(casts, len(connections))
    else:
        ids = _hashed(plate, addresses, ports, times)
    nowhere = np.zeros((0, 0), np.int64)
    made = Cast(plate, rows, times, block(casts), addresses, ports, ids, nowhere, nowhere)
    _write(made, rng.integers(0, 1 << 32, (len(rows), 2 * len(connections)), np.int64))
    _seal(plate, rows, rng)
    return made


def _times(plate: Plate, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """When each item of each cast is captured, since the period began."""
    factors = np.exp(rng.standard_normal((count, len(plate.pauses)), np.float32) * _SPREAD)
    np.clip(factors, _SHORTEST, _LONGEST, out=factors)
    times = np.cumsum(factors * plate.pauses, axis=1).astype(np.int64)
    room = np.maximum(1, PERIOD_NS - times[:, -1])
    begins: npt.NDArray[np.int64] = (rng.random(count) * room).astype(np.int64)
    return times + begins[:, None]


def _hashed(
    plate: Plate, addresses: Bytes, ports: npt.NDArray[Any], times: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Ids as readers make them: from both ends and the time of the first packet."""
    first = [-1] * len(plate.mould.connections)
    for n, item in reversed(list(enumerate(plate.items))):
        if item.is_packet:
            first[item.connection] = n
    servers = np.array([server_port(each.protocol) for each in plate.mould.connections])
    return hosts.hashed_ids(addresses, ports, servers, times[:, first].astype(np.uint64))


def _seal(plate: Plate, rows: Bytes, rng: np.random.Generator) -> None:
    """Keys for every cast, where something is sealed."""
    found = recipes(plate)
    if found:
        for row in rows:
            state: State = {}
            for recipe in found:
                recipe.seal(row, rng.bytes, state)


# -- what is written -----------------------------------------------------------------------------


def _write(made: Cast, first_numbers: npt.NDArray[np.int64]) -> None:
    """The plate in every row, then what each cast has of its own."""
    plate, rows = made.plate, made.rows
    rows[:] = plate.row
    times = made.times.astype(np.uint64)
    for form, (columns, places) in plate.ids.items():
        _stamp(rows, columns, FORMS[form](made.first[:, None] + places))
    for form, (columns, items) in plate.times.items():
        _stamp(rows, columns, _TIMES[form](times[:, items]))
    for what, (columns, connections) in plate.marks.items():
        _stamp(rows, columns, _MARKS[what](made)[:, connections])
    for what, (columns, sources, added) in plate.numbers.items():
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
    """Of IP headers: all their words, those of the client's address among them."""
    total = np.ascontiguousarray(addresses).view(">u2").astype(np.int64).sum(axis=-1) + added
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return _bytes((~total & 0xFFFF).astype(np.uint16), ">u2")


def _ts_pcap(times: Ints, resolution_ns: int) -> Bytes:
    """Seconds, and what is left, as two little-endian words."""
    seconds, rest = np.divmod(times, np.uint64(1_000_000_000))
    return _bytes(seconds | (rest // np.uint64(resolution_ns)) << np.uint64(32), "<u8")


def _ts_epb(times: Ints) -> Bytes:
    """The high word, then the low one, both little-endian."""
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
_MARKS: Final[dict[str, Callable[[Cast], Bytes]]] = {
    "address": lambda made: made.hosts,
    "address_text": lambda made: hosts.address_text(made.hosts),
    "port": lambda made: _bytes(made.ports, ">u2"),
    "port_text": lambda made: decimal(made.ports.astype(np.uint64), 5),
    "connection": lambda made: _bytes(made.connections, "<u8"),
    "connection_text": lambda made: decimal(made.connections.astype(np.uint64)),
}
