"""What `wirehouse follow` does: finds everything about one connection, in order, and prints it.

What happened is printed as it is read, one window of the capture after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, Final

import click
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from wirehouse.columnar.pipeline import Item
from wirehouse.columnar.read import ReadOptions
from wirehouse.columnar.workers import open_windows
from wirehouse.records.rows import Closed, Opened
from wirehouse.records.tunnel_ids import tunnel_connection, tunnel_of

from .errors import BAD_USAGE, CommandError
from .follow_view import View
from .read_inputs import Reading, captures
from .read_values import json_text, rows_of

__all__ = ["Happening", "follow", "happenings"]

_RANKS: Final = {"opened": 0, "fact": 1, "fault": 2, "message": 3, "closed": 4}
"""What comes first when two things happen at the same time."""
_EVENTS: Final[dict[type, str]] = {Opened: "opened", Closed: "closed"}

Happening = dict[str, Any]
"""What happened: a row of a table, or an event, with its kind as `event`."""


def follow(
    paths: tuple[str, ...],
    connection: int,
    reading: Reading,
    *,
    fields: bool,
    as_hex: bool,
    as_json: bool,
) -> None:
    """Prints a connection."""
    files = captures(paths)
    view = View(connection, fields=fields, as_hex=as_hex)
    found = False
    try:
        for each in happenings(files, connection, reading):
            found = True
            for line in [json_text(each)] if as_json else view.lines(each):
                click.echo(line)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if not found:
        named = paths[0] if len(paths) == 1 else "…"
        raise CommandError(
            f"no connection {connection} there; wirehouse read {named} --table connections lists"
            " them, --table tunnels those inside of links",
            BAD_USAGE,
        )
    if not as_json:
        for line in view.end():
            click.echo(line)


def happenings(files: list[str], connection: int, reading: Reading) -> Iterator[Happening]:
    """Everything about a connection, in order."""
    options = ReadOptions(
        table="connections",  # whose sources are all that is known of a connection
        speaks=reading.speaks,
        ports=reading.ports,
        keys=reading.keys,
        dialects=reading.dialects,
        reveal=reading.reveal,
    )
    with closing(open_windows(files, options)) as windows:
        for window in windows:
            yield from sorted(_found(window, connection), key=_place)


def _place(happening: Happening) -> tuple[int, int]:
    return happening["ts_ns"] or 0, _RANKS[happening["event"]]


def _found(window: Iterable[Item], connection: int) -> Iterator[Happening]:
    for table, found in window:
        if isinstance(found, pa.RecordBatch):
            event = "message" if table == "messages" else "fault"
            mine = pc.equal(found.column("connection"), connection)
            if event == "message":
                mine = pc.or_(mine, _about_tunnel(found, connection))
            chosen = found.filter(mine)
            yield from ({"event": event, **row} for row in rows_of(chosen, chosen.schema.names))
        else:
            for each in found:
                if each.connection == connection:
                    event = _EVENTS.get(type(each), "fact")
                    yield {"event": event, **msgspec.structs.asdict(each)}


def _about_tunnel(messages: pa.RecordBatch, connection: int) -> pa.Array:
    """Which messages of a link open, move or close the tunnel of this id."""
    about = pc.and_(
        pc.equal(messages.column("protocol"), "relay"),
        pc.not_equal(messages.column("name"), "tunnel_relay"),
    )
    targets = [
        target
        for target in pc.unique(messages.column("target").filter(about)).to_pylist()
        if (ids := tunnel_of(target)) is not None and tunnel_connection(*ids) == connection
    ]
    return pc.and_(about, pc.is_in(messages.column("target"), pa.array(targets, pa.string())))
