"""`wirelake follow`: one connection of a capture as a conversation.

       0.090424  → request    request           1001                             398 B
       0.102435  ← response   response          1001                  ok         112 B
       0.340297  ✗ gap from the server, 1,448 bytes missing

Seconds count from the first packet of the connection. Rows are printed while the capture is being
read, one window after another; those of a live input as they become final.

In files, an address is looked up first: if several connections have it, they are listed. A live
input is read once, so the first connection that has it is printed, and the others are counted.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from ..errors import BAD_USAGE, CommandError
from ..live_inputs import find_inputs, live_inputs, open_inputs, report_problems
from ..main import COMMANDS
from ..options import CONTEXT, MOST, Reading, follow_option, open_option, reading_options
from ..output.sources import CUT_OFF, report_cut_off, report_other_files
from ..output.text import counted, json_text, print_notice, printable, time_text

if TYPE_CHECKING:
    import pyarrow as pa

    from wirelake.columnar.pipeline.pipeline import Item
    from wirelake.columnar.read.options import ReadOptions
    from wirelake.columnar.scan.live import LiveInputs

__all__ = ["ConversationView", "EventOrder", "command"]

_HELP = f"""{COMMANDS["follow"]}

Prints one line per message, with the seconds since the connection began, and one for everything
else that happened: open, close, gaps and other faults, facts of a recorder. CONNECTION is the
number in column `connection` of any table, which may be that of a tunnel; or IP:PORT, the address
of one of its ends, or of the user of a tunnel.

FILE may also be a pipe, or - for standard input; with --follow, files are read on as they grow.
Lines are then printed as they become final, until the pipe ends or Ctrl-C. IP:PORT is then the
first connection with such an end; a tunnel has only its number.

\b
Examples:
  wirelake read edge.pcapng --table connections
  wirelake follow edge.pcapng 1633322457575350528
  wirelake follow edge.pcapng 10.210.132.157:36608
  wirelake follow captures/ 1633322457575350528 --fields --hex
  sudo tcpdump -U --immediate-mode -i eth0 -w - | wirelake follow - 10.20.0.9:9620
  wirelake follow --follow growing.pcap 10.210.132.157:36608
"""

ConnectionEvent: TypeAlias = dict[str, Any]
"""A row of a table, or an event of the connection; key `event` has its kind."""

_RANKS: Final = {"opened": 0, "fact": 1, "fault": 2, "message": 3, "closed": 4}
"""Order of events with the same time."""


@click.command(name="follow", help=_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.argument("connection")
@open_option
@follow_option
@reading_options
@click.option("--fields", is_flag=True, help="Show all fields of each message.")
@click.option("--hex", "as_hex", is_flag=True, help="Show the bytes of bodies and faults.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def command(
    files: tuple[str, ...],
    connection: str,
    include_open: bool,
    follow: bool,
    fields: bool,
    as_hex: bool,
    as_json: bool,
    reading: Reading,
) -> int:
    """Print a connection."""
    chosen = _chosen(connection)
    paths, live = find_inputs(files, include_open=include_open, follow=follow)
    from ..read.kernels import prepare_kernels

    prepare_kernels(paths, live=live)
    printer = _Printer(fields=fields, as_hex=as_hex, as_json=as_json)
    try:
        if live:
            with live_inputs(lambda: open_inputs(paths, follow=follow), printing=True) as inputs:
                return _follow_live(inputs, chosen, reading, printer)
        code = report_other_files(paths)
        if code and len(paths) == 1:
            return code
        number = chosen if isinstance(chosen, int) else _connection_at(paths, chosen, reading)
        cut_off: dict[str, None] = {}
        printer.print(number, connection_events(paths, number, reading, cut_off))
    except ValueError as error:
        raise CommandError(str(error)) from error
    if printer.is_empty:
        raise CommandError(f"no such connection {number}; {_lists(files)}", BAD_USAGE)
    report_cut_off(cut_off)
    return code


class _Printer:
    """Prints the events of a connection."""

    def __init__(self, *, fields: bool, as_hex: bool, as_json: bool):
        self._fields = fields
        self._hex = as_hex
        self._json = as_json
        self.is_empty = True
        """Whether nothing was printed."""

    def print(self, number: int, events: Iterable[ConnectionEvent]) -> None:
        """Print a line for each event, and a summary."""
        from wirelake.records.exact_json import exact

        view = ConversationView(number, fields=self._fields, as_hex=self._hex)
        for event in events:
            self.is_empty = False
            for line in [json_text(exact(event))] if self._json else view.lines(event):
                click.echo(line)
        if not self._json and not self.is_empty:
            for line in view.summary():
                click.echo(line)


# -- live inputs -----------------------------------------------------------------------------


def _follow_live(
    inputs: LiveInputs, chosen: int | _Address, reading: Reading, printer: _Printer
) -> int:
    """Print a connection as its packets arrive; return the exit code."""
    from wirelake.columnar.read.parallel import open_windows

    with closing(open_windows(inputs, _read_options(reading))) as windows:
        if isinstance(chosen, int):
            what = f"connection {chosen}"
            printer.print(chosen, events_of(windows, chosen, live=True))
        else:
            what = f"connection at {_address_text(chosen)}"
            first = _FirstAt(chosen, windows)
            if (number := first.number()) is not None:
                printer.print(number, events_of(first.windows, number, live=True))
            if first.others:
                print_notice(
                    f"{counted(first.others, 'further connection')} at {_address_text(chosen)}"
                    " not shown: the address of a client, or a number, names another"
                )
    if inputs.ended_empty:
        raise KeyboardInterrupt
    code = report_problems(inputs)
    if printer.is_empty and not code:
        raise CommandError(f"no {what} in {counted(inputs.packets, 'packet')}", BAD_USAGE)
    return code


class _FirstAt:
    """The first connection with an end at an address."""

    def __init__(self, address: _Address, windows: Iterable[Iterable[Item]]):
        self._address = address
        self._first: int | None = None
        self.windows: Iterator[Iterable[Item]] = self._noted(windows)
        """What is left to read: all that concerns the connection, once its number is known."""
        self.others = 0
        """How many more connections have such an end, in what was read."""

    def number(self) -> int | None:
        """Read until there is such a connection; return its number, or None if there is none."""
        for window in self.windows:
            if self._first is not None:
                self.windows = chain([window], self.windows)
                break
        return self._first

    def _noted(self, windows: Iterable[Iterable[Item]]) -> Iterator[list[Item]]:
        from wirelake.records.rows import Opened

        for window in windows:
            items = list(window)
            for table, events in items:
                for each in events if table == "connections" else ():
                    if isinstance(each, Opened) and self._address in (
                        (each.client_address, each.client_port),
                        (each.server_address, each.server_port),
                    ):
                        self.others += self._first is not None
                        self._first = self._first or each.connection
            yield items


# -- addresses -------------------------------------------------------------------------------

_Address: TypeAlias = tuple[str, int]
_MAX_LISTED: Final = 5
"""Connections that an error names."""


def _chosen(text: str) -> int | _Address:
    """Return the number or the address of a connection."""
    if text.isdecimal() and len(text) <= len(str(MOST)) and int(text) <= MOST:
        return int(text)
    return _address(text)


def _address(text: str) -> _Address:
    """Return the address and port of IP:PORT; an IPv6 address may have brackets."""
    host, _, port = text.rpartition(":")
    try:
        if not port.isdecimal() or int(port) > 0xFFFF:
            raise ValueError
        return str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))), int(port)
    except ValueError:
        raise click.UsageError(
            f"invalid connection {text!r}; expected a number from column `connection`, or IP:PORT"
        ) from None


def _address_text(address: _Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _connection_at(files: list[str], address: _Address, reading: Reading) -> int:
    """Return the connection with an end at this address; CommandError unless there is one."""
    found: dict[int, int] = {}
    for table, sides in (("connections", ("client", "server")), ("tunnels", ("user",))):
        for side in sides:
            # A server has many connections: its address is the last resort, and so are tunnels.
            if not found:
                found = _connections_of(files, address, table, side, reading)
    if len(found) == 1:
        return next(iter(found))
    where = _address_text(address)
    if not found:
        raise CommandError(f"no connection at {where}; {_lists(files)}", BAD_USAGE)
    some = [
        f"{number} ({time_text(first_ns)})"
        for number, first_ns in sorted(found.items(), key=lambda each: each[1])[:_MAX_LISTED]
    ]
    more = ", …" if len(found) > _MAX_LISTED else ""
    raise CommandError(
        f"{counted(len(found), 'connection')} at {where}; choose one: {', '.join(some)}{more}",
        BAD_USAGE,
    )


def _connections_of(
    files: list[str], address: _Address, table: str, side: str, reading: Reading
) -> dict[int, int]:
    """Return the connections or tunnels with such an end, and the time of their first packet."""
    from wirelake.columnar.read.reader import read_batches

    host, port = address
    options = reading.options(
        table,
        columns=("connection", "first_ns"),
        filter=f'{side}_address == "{host}" and {side}_port == {port}',
    )
    batches = [batch.to_pydict() for batch in read_batches(files, options)]
    return {
        number: first_ns
        for rows in batches
        for number, first_ns in zip(rows["connection"], rows["first_ns"], strict=True)
    }


def _lists(files: Sequence[str]) -> str:
    source = files[0] if len(files) == 1 else "…"
    return (
        f"wirelake read {source} --table connections lists connections, --table tunnels lists"
        " tunnels"
    )


# -- events ----------------------------------------------------------------------------------


def _read_options(reading: Reading) -> ReadOptions:
    # The sources of this table are all the sources that mention a connection.
    return reading.options("connections")


def connection_events(
    files: list[str], connection: int, reading: Reading, cut_off: dict[str, None]
) -> Iterator[ConnectionEvent]:
    """Yield everything about a connection, in order; note the files that end within a packet."""
    from wirelake.columnar.read.parallel import open_windows

    with closing(open_windows(files, _read_options(reading))) as windows:
        yield from events_of(_noting(windows, cut_off), connection)


def _noting(
    windows: Iterable[Iterable[Item]], cut_off: dict[str, None]
) -> Iterator[Iterable[Item]]:
    """Yield windows; note the files that end within a packet."""
    import pyarrow as pa

    for window in windows:
        items = list(window)
        for table, batch in items:
            if table == "faults" and isinstance(batch, pa.RecordBatch):
                codes, names = (batch.column(name).to_pylist() for name in ("code", "file"))
                found = zip(codes, names, strict=True)
                cut_off |= dict.fromkeys(file for code, file in found if code == CUT_OFF)
        yield items


def events_of(
    windows: Iterable[Iterable[Item]], connection: int, *, live: bool = False
) -> Iterator[ConnectionEvent]:
    """Yield the events of a connection from windows of the pipeline, in order."""
    order = EventOrder(connection, live=live)
    for window in windows:
        yield from order.add(_window_events(window, connection, order))
    yield from order.rest()


class EventOrder:
    """Sorts events by time across windows.

    A window ends with streams that still wait for bytes behind a hole. Their messages come with a
    later window but have earlier times, so events after the start of such a hole are held back.

    Events of the time of the last packet wait, too: the next window may have more of that time, and
    kinds of events have an order. A live input may have no next packet, so there they do not wait.
    """

    def __init__(self, connection: int, *, live: bool = False):
        self._bisect = bisect_right if live else bisect_left
        self._relevant: set[int | None] = {connection}
        """The connection; for a tunnel, its links as well."""
        self._pending: list[ConnectionEvent] = []
        self.waiting: dict[int, int] = {}
        """Connections with undecoded bytes, and the time from which on."""

    def add(self, events: Iterable[ConnectionEvent]) -> Iterator[ConnectionEvent]:
        """Add events and yield those that nothing earlier can precede."""
        self._pending += events
        self._pending.sort(key=_sort_key)
        for each in self._pending:
            self._relevant |= {each["connection"], each.get("tunnel_link")}
        # A tunnel depends on its links: bytes that wait on any of them may carry its messages.
        since = [ts_ns for one, ts_ns in self.waiting.items() if one in self._relevant]
        count = len(self._pending)
        if since:
            count = self._bisect(self._pending, min(since), key=lambda each: _sort_key(each)[0])
        ready, self._pending = self._pending[:count], self._pending[count:]
        yield from ready

    def rest(self) -> list[ConnectionEvent]:
        """Return the events that are still pending."""
        return self._pending


def _sort_key(event: ConnectionEvent) -> tuple[int, int]:
    return event["ts_ns"] or 0, _RANKS[event["event"]]


def _window_events(
    window: Iterable[Item], connection: int, order: EventOrder
) -> Iterator[ConnectionEvent]:
    import msgspec
    import pyarrow as pa
    import pyarrow.compute as pc

    from wirelake.columnar.decode.texts import plain
    from wirelake.records.rows import Closed, Opened

    from ..output.rows import rows_of

    kinds: dict[type, str] = {Opened: "opened", Closed: "closed"}
    order.waiting = {}
    for table, items in window:
        if table == "waiting":
            order.waiting = dict(items)
        elif isinstance(items, pa.RecordBatch):
            kind = "message" if table == "messages" else "fault"
            mask = pc.equal(items.column("connection"), connection)
            if kind == "message":
                mask = pc.or_(mask, _concerns_tunnel(items, connection))
            chosen = plain(items.filter(mask))
            yield from ({"event": kind, **row} for row in rows_of(chosen, chosen.schema.names))
        else:
            for each in items:
                if each.connection == connection:
                    kind = kinds.get(type(each), "fact")
                    yield {"event": kind, **msgspec.structs.asdict(each)}


def _concerns_tunnel(messages: pa.RecordBatch, connection: int) -> pa.Array:
    """Return which messages of a link open, move or close the tunnel with this number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from wirelake.records.protocol_rules import rules_of
    from wirelake.records.tunnels import tunnel_connection, tunnel_of

    # Every batch of `messages` has one protocol.
    tunnels = rules_of(messages.column("protocol")[0].as_py()).tunnels if len(messages) else None
    if tunnels is None:
        return pa.repeat(pa.scalar(False), len(messages))
    control = pc.not_equal(messages.column("name"), tunnels.carrier)
    targets = [
        target
        for target in pc.unique(messages.column("target").filter(control)).to_pylist()
        if (ids := tunnel_of(target)) is not None and tunnel_connection(*ids) == connection
    ]
    return pc.and_(control, pc.is_in(messages.column("target"), pa.array(targets, pa.string())))


# -- text ------------------------------------------------------------------------------------

_INDENT: Final = " " * 17
_HEX_LINE: Final = 16
_SIDES: Final = {"c2s": "client", "s2c": "server"}
_CLOSE_REASONS: Final = {
    "fin": "",
    "rst": " (reset)",
    "anew": " (the same ports opened a new connection)",
}


class ConversationView:
    """The lines of one connection."""

    def __init__(self, connection: int, *, fields: bool, as_hex: bool):
        self._connection = connection
        self._fields = fields
        self._hex = as_hex
        self._first_ns: int | None = None
        self._last_ns = 0
        self._messages = {"c2s": 0, "s2c": 0}
        self._bytes = {"c2s": 0, "s2c": 0}
        self._faults = 0
        self._is_tcp = False
        self._closed = False

    def lines(self, event: ConnectionEvent) -> Iterator[str]:
        """Yield the lines of an event."""
        ts_ns = event["ts_ns"]
        if self._first_ns is None and ts_ns is not None:
            self._first_ns = ts_ns
            yield from self._title(event)
        if ts_ns is not None:
            self._last_ns = max(self._last_ns, ts_ns)
        match event["event"]:
            case "message":
                yield from self._message(event)
            case "fault":
                yield from self._fault(event)
            case "opened":
                self._is_tcp = True
                text = "opened" if event["whole"] else "first packet; the beginning is missing"
                yield self._line(ts_ns, "─", text)
            case "closed":
                self._closed = True
                yield self._line(ts_ns, "─", _close_text(event))
            case _:
                data = json_text(event["data"])
                yield self._line(ts_ns, "·", f"fact {printable(event['kind'])} {data}")

    def summary(self) -> Iterator[str]:
        """Yield the last lines: counts, bytes, duration."""
        if self._is_tcp and not self._closed:
            yield self._line(self._last_ns, "─", "still open at the end of the capture")
        duration = (self._last_ns - (self._first_ns or 0)) / 1e9
        counts = ", ".join(
            f"{counted(self._messages[each], 'message')} ({self._bytes[each]:,} B) from the {side}"
            for each, side in _SIDES.items()
        )
        faults = f", {counted(self._faults, 'fault')}" if self._faults else ""
        yield f"{counts}{faults}, {duration:,.3f} s"

    # -- lines -------------------------------------------------------------------------------

    def _title(self, event: ConnectionEvent) -> Iterator[str]:
        if event["event"] == "opened":
            ends = "client {client_address}:{client_port}, server {server_address}:{server_port}"
            about = ends.format(**event)
        elif event["connection"] != self._connection:
            about = f"tunnel {event['target']} of link {event['connection']}"
        elif event.get("tunnel_link"):
            about = f"tunnel of link {event['tunnel_link']}"
        else:
            about = "the beginning is missing"
        yield click.style(f"connection {self._connection}", bold=True) + f", {about}"
        yield f"starting {time_text(event['ts_ns'])} UTC"

    def _message(self, row: dict[str, Any]) -> Iterator[str]:
        direction = row["direction"]
        if row["connection"] == self._connection:  # else a message of the link about its tunnel
            self._messages[direction] += 1
            self._bytes[direction] += row["size_bytes"]
        status = row["status"] or ""
        cells = [
            f"{row['kind']:<10}",
            f"{printable(row['name']):<18}",
            f"{printable(row['target'] or ''):<20}",
            click.style(f"{printable(status):<8}", fg="red" if status not in ("", "ok") else None),
            f"{row['size_bytes']:>8,} B",
            "  sealed" if row["sealed"] else "",
            "".join(
                f"  {name} {printable(row[name])}" for name in ("client", "reason") if row[name]
            ),
            f"  {', '.join(map(printable, row['ids']))}" if row["ids"] else "",
        ]
        arrow = click.style("→", fg="cyan") if direction == "c2s" else click.style("←", fg="green")
        yield self._line(row["ts_ns"], arrow, " ".join(cells[:5]) + "".join(cells[5:]))
        if self._fields and row["protocol"] in row:
            yield f"{_INDENT}{json_text(row[row['protocol']])}"
        if self._hex and row["body"] is not None:
            yield from _hex_lines(_raw(row["body"]))

    def _fault(self, row: dict[str, Any]) -> Iterator[str]:
        self._faults += 1
        parts = [f"{row['code']} from the {_SIDES[row['direction']]}"]
        if row["missing_bytes"]:
            parts.append(f"{row['missing_bytes']:,} bytes missing")
        if row["present_bytes"]:
            parts.append(f"{row['present_bytes']:,} bytes not decoded")
        if row["detail"] and not row["missing_bytes"]:
            parts.append(printable(row["detail"]))
        yield self._line(row["ts_ns"], click.style("✗", fg="red"), ", ".join(parts))
        if self._hex and row["bytes"]:
            yield from _hex_lines(_raw(row["bytes"]))

    def _line(self, ts_ns: int | None, mark: str, text: str) -> str:
        seconds = "" if ts_ns is None else f"{(ts_ns - (self._first_ns or ts_ns)) / 1e9:.6f}"
        return f"{seconds:>14} {mark} {text}".rstrip()


def _close_text(event: ConnectionEvent) -> str:
    side = event["side"]
    by = f" by the {_SIDES[side]}" if side in _SIDES else ""
    return f"closed{by}{_CLOSE_REASONS.get(event['how'], '')}"


def _raw(value: str | dict[str, str]) -> bytes:
    """Return the bytes that `bytes_value` made text or digits of."""
    return value.encode() if isinstance(value, str) else bytes.fromhex(value["hex"])


def _hex_lines(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), _HEX_LINE):
        part = data[start : start + _HEX_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"{_INDENT}{start:04x}  {part.hex(' '):<{3 * _HEX_LINE}} {text}"
