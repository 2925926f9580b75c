"""Cells of truth: a value that all casts share, or something that each cast has of its own.

A `Sheet` has the rows of one table for one scene. `filled` makes an Arrow table of it, with the
rows of every cast: what the casts share is repeated, the rest is taken from what was cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wirelake.records.schema import schema

from ..packets import hosts
from ..packets.numbers import (
    FORMS,
    WIDTHS,
    shown,
)
from ..packets.packet_template import Cast

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
    "Sheet",
    "Time",
    "Tunnel",
    "filled",
]


class Time(NamedTuple):
    """When an item was captured."""

    item: int


class Pause(NamedTuple):
    """The time from one item to another."""

    start: int
    stop: int


class Id(NamedTuple):
    """An id out of the cast's numbers."""

    form: str
    place: int


class Conn(NamedTuple):
    """The id of a connection."""

    place: int


class Tunnel(NamedTuple):
    """The id of a tunnel, by the places of its two numbers."""

    instance: int
    tunnel: int


class Address(NamedTuple):
    """The client's address on a connection."""

    place: int


class Port(NamedTuple):
    """The client's port on a connection."""

    place: int


class Published(NamedTuple):
    """When an item was captured, as a protocol tells it: in whole milliseconds."""

    item: int


class File(NamedTuple):
    """The name of the file that an item is in."""

    item: int


Cell: TypeAlias = (
    Time | Pause | Published | Id | Conn | Tunnel | Address | Port | File | str | int | bool | None
)
Row: TypeAlias = dict[str, Cell]
Sheet: TypeAlias = list[Row]
"""The rows of one table; a column that a row lacks is null."""

_Numbers: TypeAlias = Callable[[Cast, list[Any]], npt.NDArray[np.int64]]
_MILLION: Final = 1_000_000


def filled(table: str, parts: Sequence[tuple[Sheet, Cast]], files: Sequence[str]) -> pa.Table:
    """The rows of all casts, cast by cast; `files` are the names of the shard's files."""
    columns = schema(table)
    which = _which(parts)
    arrays = [_column(field, parts, which, files) for field in columns]
    return pa.Table.from_arrays(arrays, schema=columns)


def _which(parts: Sequence[tuple[Sheet, Cast]]) -> pa.Array:
    """For each row of the table, the row of all sheets that it comes from."""
    found: list[npt.NDArray[np.int64]] = []
    at = 0
    for sheet, cast in parts:
        found.append(np.tile(np.arange(at, at + len(sheet)), len(cast.times)))
        at += len(sheet)
    return pa.array(np.concatenate(found))


def _column(
    field: pa.Field, parts: Sequence[tuple[Sheet, Cast]], which: pa.Array, files: Sequence[str]
) -> pa.Array:
    name = field.name
    cells = [[row.get(name) for row in sheet] for sheet, _ in parts]
    own = [any(isinstance(cell, tuple) for cell in each) for each in cells]
    if not any(own):
        values = pa.array([cell for each in cells for cell in each], field.type)
        return values.take(which)
    found: list[pa.Array] = []
    for each, its_own, (_, cast) in zip(cells, own, parts, strict=True):
        if not its_own:
            repeated = np.tile(np.arange(len(each)), len(cast.times))
            found.append(pa.array(each, field.type).take(pa.array(repeated)))
        elif pa.types.is_string(field.type):
            found.append(_texts(each, cast, files))
        else:
            found.append(_integers(field, each, cast))
    return pa.chunked_array(found, field.type)


# -- integers ----------------------------------------------------------------------------------


def _integers(field: pa.Field, cells: Sequence[Cell], cast: Cast) -> pa.Array:
    values = np.zeros((len(cast.times), len(cells)), np.int64)
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
        values[:, places] = _NUMBERS[kind](cast, [cells[n] for n in places])
    mask = np.tile(missing, len(values)) if missing.any() else None
    return pa.array(values.ravel(), mask=mask).cast(field.type)


def _times(cast: Cast, cells: list[Time]) -> npt.NDArray[np.int64]:
    return cast.times[:, [cell.item for cell in cells]]


def _pauses(cast: Cast, cells: list[Pause]) -> npt.NDArray[np.int64]:
    stops = cast.times[:, [cell.stop for cell in cells]]
    return stops - cast.times[:, [cell.start for cell in cells]]


def _published(cast: Cast, cells: list[Published]) -> npt.NDArray[np.int64]:
    return cast.times[:, [cell.item for cell in cells]] // _MILLION * _MILLION


def _ids(cast: Cast, cells: list[Id]) -> npt.NDArray[np.int64]:
    places = np.array([cell.place for cell in cells], np.uint64)
    found: npt.NDArray[np.int64] = shown(cells[0].form, cast.first[:, None] + places)
    return found


def _connections(cast: Cast, cells: list[Conn]) -> npt.NDArray[np.int64]:
    return cast.connections[:, [cell.place for cell in cells]]


def _tunnels(cast: Cast, cells: list[Tunnel]) -> npt.NDArray[np.int64]:
    ids = [
        shown("i64le", cast.first[:, None] + np.array(places, np.uint64)).astype(np.uint64)
        for places in zip(*cells, strict=True)
    ]
    return hosts.tunnel_ids(ids[0], ids[1])


def _ports(cast: Cast, cells: list[Port]) -> npt.NDArray[np.int64]:
    return cast.ports[:, [cell.place for cell in cells]].astype(np.int64)


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


def _texts(cells: Sequence[Cell], cast: Cast, files: Sequence[str]) -> pa.Array:
    """Texts of one width each: ids and addresses; a column of these has no shared texts."""
    if any(isinstance(cell, File) for cell in cells):
        return _file_names(cells, cast, files)
    width = max(_width(cell) for cell in cells if cell is not None)
    data = np.zeros((len(cast.times), len(cells), width), np.uint8)
    present = np.array([cell is not None for cell in cells])
    forms: dict[str, list[int]] = {}
    ids: dict[str, list[int]] = {}
    for n, cell in enumerate(cells):
        if isinstance(cell, Id):
            forms.setdefault(cell.form, []).append(n)
            ids.setdefault(cell.form, []).append(cell.place)
        elif isinstance(cell, Address):
            text = hosts.address_text(cast.hosts[:, cell.place])
            data[:, n] = text
    for form, places in forms.items():
        data[:, places] = FORMS[form](cast.first[:, None] + np.array(ids[form], np.uint64))
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


def _file_names(cells: Sequence[Cell], cast: Cast, files: Sequence[str]) -> pa.Array:
    items = [cell.item for cell in cells if isinstance(cell, File)]
    return pa.array(files).take(pa.array(cast.files[:, items].ravel()))


def _width(cell: Cell) -> int:
    if isinstance(cell, Id):
        return WIDTHS[cell.form]
    if isinstance(cell, Address):
        return 14
    raise TypeError(f"{cell!r} is no text of the cast's own")
