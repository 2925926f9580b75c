"""What `wirelake follow` does: finds everything about one connection, in order, and prints it.

What happened is printed as it is read, one window of the capture after the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, Final

import click
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.columnar.pipeline.pipeline import Item
from wirelake.columnar.read.reader import ReadOptions
from wirelake.columnar.read.workers import open_windows
from wirelake.records.protocol_rules import rules_of
from wirelake.records.rows import Closed, Opened
from wirelake.records.tunnels import tunnel_connection, tunnel_of

from ..errors import BAD_USAGE, CommandError
from ..read.inputs import Reading, captures
from ..read.values import json_text, rows_of
from .follow_view import View

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
            f"no connection {connection} there; wirelake read {named} --table connections lists"
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
        force_protocol=reading.force_protocol,
        ports=reading.ports,
        keys=reading.keys,
        dialects=reading.dialects,
        reveal=reading.reveal,
    )
    order = _Order(connection)
    with closing(open_windows(files, options)) as windows:
        for window in windows:
            yield from order.passed(_found(window, connection, order))
    yield from order.rest()


class _Order:
    """Holds back what was captured after bytes that are not known yet, those behind a hole."""

    def __init__(self, connection: int):
        self._mine: set[int | None] = {connection}
        """The connection; of a tunnel, its links as well."""
        self._held: list[Happening] = []
        self.waiting: dict[int, int] = {}
        """Connections of which more is known than was told, and the time from which on."""

    def passed(self, happenings: Iterable[Happening]) -> Iterator[Happening]:
        """What can be told now, in order."""
        self._held += happenings
        self._held.sort(key=_place)
        for each in self._held:
            self._mine |= {each["connection"], each.get("tunnel_link")}
        since = [ts_ns for one, ts_ns in self.waiting.items() if one in self._mine]
        count = len(self._held)
        if since:
            count = bisect_left(self._held, min(since), key=lambda each: _place(each)[0])
        ready, self._held = self._held[:count], self._held[count:]
        yield from ready

    def rest(self) -> list[Happening]:
        """What is still held."""
        return self._held


def _place(happening: Happening) -> tuple[int, int]:
    return happening["ts_ns"] or 0, _RANKS[happening["event"]]


def _found(window: Iterable[Item], connection: int, order: _Order) -> Iterator[Happening]:
    order.waiting = {}
    for table, found in window:
        if table == "waiting":
            order.waiting = dict(found)
        elif isinstance(found, pa.RecordBatch):
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
    # Every batch of `messages` has one protocol.
    tunnels = rules_of(messages.column("protocol")[0].as_py()).tunnels if len(messages) else None
    if tunnels is None:
        return pa.repeat(pa.scalar(False), len(messages))
    about = pc.not_equal(messages.column("name"), tunnels.carrier)
    targets = [
        target
        for target in pc.unique(messages.column("target").filter(about)).to_pylist()
        if (ids := tunnel_of(target)) is not None and tunnel_connection(*ids) == connection
    ]
    return pc.and_(about, pc.is_in(messages.column("target"), pa.array(targets, pa.string())))
