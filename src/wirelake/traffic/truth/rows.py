"""Rows of truth: constants, and values that each instance has of its own.

The rows of a table are made once per scene template. A cell is a constant, or one of the named
tuples below, which stands for a value that varies (a time, an id, an address). `expand` turns the
rows into an Arrow table with the rows of every instance: constants are repeated, the other values
are looked up in the arrays of the instances, a column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wirelake.records.schema import schema

from ..packets import numbers as numbering
from ..packets.instances import Instances
from ..packets.numbers import FORMS, TUNNEL_FORM, WIDTHS, shown

__all__ = [
    "Address",
    "Cell",
    "Conn",
    "File",
    "Id",
    "Pause",
    "Port",
    "Published",
    "Row",
    "Rows",
    "Time",
    "Tunnel",
    "expand",
]


class Time(NamedTuple):
    """Capture time of an item."""

    item: int


class Pause(NamedTuple):
    """Time from one item to another."""

    start: int
    stop: int


class Id(NamedTuple):
    """An id out of the instance's block of numbers."""

    form: str
    place: int


class Conn(NamedTuple):
    """Id of a connection."""

    place: int


class Tunnel(NamedTuple):
    """Id of a tunnel, by the offsets of its two numbers."""

    instance: int
    tunnel: int


class Address(NamedTuple):
    """Client address of a connection."""

    place: int


class Port(NamedTuple):
    """Client port of a connection."""

    place: int


class Published(NamedTuple):
    """Capture time of an item in whole milliseconds, as protocols carry it."""

    item: int


class File(NamedTuple):
    """Name of the file that has an item."""

    item: int


Cell: TypeAlias = (
    Time | Pause | Published | Id | Conn | Tunnel | Address | Port | File | str | int | bool | None
)
Row: TypeAlias = dict[str, Cell]
Rows: TypeAlias = list[Row]
"""Rows of one table; a column that a row lacks is null."""

_Numbers: TypeAlias = Callable[[Instances, list[Any]], npt.NDArray[np.int64]]
_MILLION: Final = 1_000_000


def expand(table: str, parts: Sequence[tuple[Rows, Instances]], files: Sequence[str]) -> pa.Table:
    """Return the rows of all instances, instance by instance; `files` are those of the shard."""
    columns = schema(table)
    which = _which(parts)
    arrays = [_column(field, parts, which, files) for field in columns]
    return pa.Table.from_arrays(arrays, schema=columns)


def _which(parts: Sequence[tuple[Rows, Instances]]) -> pa.Array:
    """Return, for each row of the table, the row of the scenes that it comes from."""
    found: list[npt.NDArray[np.int64]] = []
    at = 0
    for rows, instances in parts:
        found.append(np.tile(np.arange(at, at + len(rows)), len(instances.times)))
        at += len(rows)
    return pa.array(np.concatenate(found))


def _column(
    field: pa.Field, parts: Sequence[tuple[Rows, Instances]], which: pa.Array, files: Sequence[str]
) -> pa.Array:
    # Column by column: a constant column is one `take`, a column that varies one array operation
    # for each kind of cell.
    name = field.name
    cells = [[row.get(name) for row in rows] for rows, _ in parts]
    own = [any(isinstance(cell, tuple) for cell in each) for each in cells]
    if not any(own):
        values = pa.array([cell for each in cells for cell in each], field.type)
        return values.take(which)
    found: list[pa.Array] = []
    for each, varies, (_, instances) in zip(cells, own, parts, strict=True):
        if not varies:
            repeated = np.tile(np.arange(len(each)), len(instances.times))
            found.append(pa.array(each, field.type).take(pa.array(repeated)))
        elif pa.types.is_string(field.type):
            found.append(_texts(each, instances, files))
        else:
            found.append(_integers(field, each, instances))
    return pa.chunked_array(found, field.type)


# -- integers ----------------------------------------------------------------------------------


def _integers(field: pa.Field, cells: Sequence[Cell], instances: Instances) -> pa.Array:
    values = np.zeros((len(instances.times), len(cells)), np.int64)
    missing = np.zeros(len(cells), np.bool_)
    found: dict[type, list[int]] = {}
    for n, cell in enumerate(cells):
        if cell is None:
            missing[n] = True
        elif isinstance(cell, tuple):
            found.setdefault(type(cell), []).append(n)
        else:
            values[:, n] = int(cell)
    for kind, places in found.items():
        values[:, places] = _NUMBERS[kind](instances, [cells[n] for n in places])
    mask = np.tile(missing, len(values)) if missing.any() else None
    return pa.array(values.ravel(), mask=mask).cast(field.type)


def _times(instances: Instances, cells: list[Time]) -> npt.NDArray[np.int64]:
    return instances.times[:, [cell.item for cell in cells]]


def _pauses(instances: Instances, cells: list[Pause]) -> npt.NDArray[np.int64]:
    stops = instances.times[:, [cell.stop for cell in cells]]
    return stops - instances.times[:, [cell.start for cell in cells]]


def _published(instances: Instances, cells: list[Published]) -> npt.NDArray[np.int64]:
    return instances.times[:, [cell.item for cell in cells]] // _MILLION * _MILLION


def _ids(instances: Instances, cells: list[Id]) -> npt.NDArray[np.int64]:
    places = np.array([cell.place for cell in cells], np.uint64)
    found: npt.NDArray[np.int64] = shown(cells[0].form, instances.first[:, None] + places)
    return found


def _connections(instances: Instances, cells: list[Conn]) -> npt.NDArray[np.int64]:
    return instances.connections[:, [cell.place for cell in cells]]


def _tunnels(instances: Instances, cells: list[Tunnel]) -> npt.NDArray[np.int64]:
    ids = [
        shown(TUNNEL_FORM, instances.first[:, None] + np.array(places, np.uint64)).astype(np.uint64)
        for places in zip(*cells, strict=True)
    ]
    return numbering.tunnel_ids(ids[0], ids[1])


def _ports(instances: Instances, cells: list[Port]) -> npt.NDArray[np.int64]:
    return instances.ports[:, [cell.place for cell in cells]].astype(np.int64)


_NUMBERS: Final[dict[type, _Numbers]] = {
    Time: _times,
    Pause: _pauses,
    Published: _published,
    Id: _ids,
    Conn: _connections,
    Tunnel: _tunnels,
    Port: _ports,
}


# -- texts -------------------------------------------------------------------------------------


def _texts(cells: Sequence[Cell], instances: Instances, files: Sequence[str]) -> pa.Array:
    """Return a column of ids or addresses; all have one width and none is a constant."""
    if any(isinstance(cell, File) for cell in cells):
        return _file_names(cells, instances, files)
    width = max(_width(cell) for cell in cells if cell is not None)
    data = np.zeros((len(instances.times), len(cells), width), np.uint8)
    present = np.array([cell is not None for cell in cells])
    forms: dict[str, list[int]] = {}
    ids: dict[str, list[int]] = {}
    for n, cell in enumerate(cells):
        if isinstance(cell, Id):
            forms.setdefault(cell.form, []).append(n)
            ids.setdefault(cell.form, []).append(cell.place)
        elif isinstance(cell, Address):
            text = numbering.address_text(instances.hosts[:, cell.place])
            data[:, n] = text
    for form, places in forms.items():
        data[:, places] = FORMS[form](instances.first[:, None] + np.array(ids[form], np.uint64))
    sizes = np.tile(present, len(data)).astype(np.int32) * width
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    validity = (
        None if present.all() else np.packbits(np.tile(present, len(data)), bitorder="little")
    )
    return pa.StringArray.from_buffers(
        len(sizes),
        pa.py_buffer(offsets),
        pa.py_buffer(np.ascontiguousarray(data[:, present])),
        None if validity is None else pa.py_buffer(validity),
    )


def _file_names(cells: Sequence[Cell], instances: Instances, files: Sequence[str]) -> pa.Array:
    items = [cell.item for cell in cells if isinstance(cell, File)]
    return pa.array(files).take(pa.array(instances.files[:, items].ravel()))


def _width(cell: Cell) -> int:
    if isinstance(cell, Id):
        return WIDTHS[cell.form]
    if isinstance(cell, Address):
        return 14
    raise TypeError(f"{cell!r} is not text that varies by instance")
