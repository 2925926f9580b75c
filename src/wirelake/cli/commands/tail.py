"""`wirelake tail`: live messages of a hub.

12:34:56.123456  esnp     →  phone-1             request   test/add  a=1 b=2
12:34:56.124012  esnp     ←  phone-1             response  test/add  ok  c=3

A response has no target of its own: the view remembers that of the request.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from ..connect import AdminHub, HubUnavailableError, RequestRefusedError, admin_hub, admin_options
from ..errors import BAD_DATA, BAD_USAGE
from ..main import COMMANDS
from ..options import CONTEXT
from ..output.text import (
    counted,
    json_line,
    print_notice,
    printable,
    time_text,
    unsigned,
    unsigned_values,
)

__all__ = ["MessageView", "command"]

_HELP = f"""{COMMANDS["tail"]}

URL is the hub's admin address; the token is in the hub's data directory. Prints one line per
message: time, protocol, direction (→ is to the hub), client, kind, name, target (of a response:
that of its request), status and reason, a summary of its fields, and ids. Tokens and keys are
masked. If the output is too slow, messages are skipped and counted. While a tail runs, the hub
decodes all messages, which costs CPU time.

\b
Examples:
  wirelake tail --data hub-data
  wirelake tail --protocol comet --hex -n 3
  wirelake tail --filter 'kind == "response" and status != "ok"' --json

Exit codes: 0 interrupted or COUNT reached, 1 cannot reach the hub or lost it, 2 bad usage.
"""
_RETRY_INTERVAL_S: Final = 1.0


@click.command(name="tail", help=_HELP, context_settings=CONTEXT)
@admin_options
@click.option(
    "--filter",
    "condition",
    metavar="EXPR",
    help="Filter expression (docs/guides/filters.md).",
)
@click.option("--protocol", metavar="NAME", help="Only this protocol.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--hex", "as_hex", is_flag=True, help="Show the bytes of each field.")
@click.option(
    "-n", "--count", type=click.IntRange(min=1), metavar="COUNT", help="Exit after COUNT messages."
)
@click.option("--retry", is_flag=True, help="Reconnect when the hub goes away.")
def command(
    url: str | None,
    condition: str | None,
    protocol: str | None,
    as_json: bool,
    as_hex: bool,
    count: int | None,
    retry: bool,
    **admin: Any,
) -> int:
    """Print messages."""
    hub = admin_hub(url, **admin)
    printer = _Printer(count, as_json=as_json, as_hex=as_hex)
    query = {"filter": condition, "protocol": protocol, "bytes": 1 if as_hex else None}
    # The filter is compiled by the hub, which knows its protocols; an error in it is bad usage.
    try:
        while not _read(hub, query, printer, retry=retry):
            time.sleep(_RETRY_INTERVAL_S)
    except KeyboardInterrupt:
        return 0
    except RequestRefusedError as error:
        if not error.reason.startswith("filter: "):
            raise
        print_notice(f"--{error.reason}")
        return BAD_USAGE
    return 0


def _read(hub: AdminHub, query: dict[str, Any], printer: _Printer, *, retry: bool) -> bool:
    """Print messages until the hub goes away; return whether COUNT is reached."""
    try:
        for event in hub.events("/v1/tail", **query):
            if event.name == "dropped":
                printer.dropped(event.data["count"])
            elif event.name == "message" and printer.message(event.data):
                return True
        raise HubUnavailableError(f"{hub.url}: the hub closed the connection", BAD_DATA)
    except HubUnavailableError as error:
        if not retry:
            raise
        print_notice(f"{error}; reconnecting")
        return False


class _Printer:
    """Prints messages, up to a count."""

    def __init__(self, count: int | None, *, as_json: bool, as_hex: bool):
        self._remaining = count
        self._json = as_json
        self._hex = as_hex
        self._view: MessageView | None = None

    def message(self, row: dict[str, Any]) -> bool:
        """Print a message; return whether it was the last."""
        for line in self._lines(row):
            click.echo(line)
        sys.stdout.flush()
        if self._remaining is not None:
            self._remaining -= 1
        return self._remaining == 0

    def dropped(self, count: int) -> None:
        """Report skipped messages."""
        if self._json:
            click.echo(json_line({"dropped": count}))
        else:
            are = "was" if count == 1 else "were"
            click.echo(f"… {counted(count, 'message')} {are} skipped")
        sys.stdout.flush()

    def _lines(self, row: dict[str, Any]) -> Iterator[str]:
        if self._json:
            yield json_line(unsigned_values(row))
            return
        if self._view is None:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            self._view = MessageView(width, as_hex=self._hex)
        yield from self._view.lines(row)


# -- text ------------------------------------------------------------------------------------

_INDENT: Final = " " * 17
_CLIENT_WIDTH: Final = 18
_NARROW: Final = 100
"""Width of a terminal below which client and time are shorter."""
_NARROW_CLIENT_WIDTH: Final = 12
_MAX_REQUESTS: Final = 10_000
"""Requests whose targets are remembered for their responses."""
_DEFAULT_WIDTH: Final = 1_000
"""Longest line when the output is not a terminal."""
_ROUTINE: Final = frozenset(
    {
        *("auth", "body", "business_cmd", "code", "envelope", "hmac", "id", "line", "message_id"),
        *("mode", "msg_id", "msg_ids", "number", "protocol", "reply_to", "reserved", "seq"),
        *("time", "to_message", "type"),
    }
)
"""Fields that the columns already show, or that mean nothing to people."""
_ROUTINE_ROWS: Final = frozenset(
    {"address", "error", "flag", "message_id", "source_message_id", "types", "version"}
)
"""The same for rows of ESNP."""
_VALUE_KEYS: Final = ("float", "text")
"""Keys of a typed ESNP value, besides integers and bytes."""


class MessageView:
    """The lines of a message."""

    def __init__(self, width: int | None, *, as_hex: bool):
        self._width = width
        self._hex = as_hex
        self._narrow = width is not None and width < _NARROW
        self._targets: dict[tuple[int, int], str] = {}
        """Targets of requests without a response yet, by connection and message id."""

    def lines(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Yield the lines of a message."""
        yield self._line(row)
        if self._hex:
            for line in _bytes_lines(row):
                yield f"{_INDENT}{line}"

    def _line(self, row: Mapping[str, Any]) -> str:
        inward = row["direction"] == "c2s"
        status, kind, name = row["status"] or "", row["kind"] or "", row["name"] or ""
        room = _NARROW_CLIENT_WIDTH if self._narrow else _CLIENT_WIDTH
        time = time_text(row["ts_ns"]).partition(" ")[2]
        head = [
            (time[:-3] if self._narrow else time, "dim"),
            (f"{row['protocol']:<7}", "bold"),
            ("→" if inward else "←", "cyan" if inward else "green"),
            (f"{_cut(_client(row), room):<{room}}", ""),
            (f"{kind:<8}", ""),
        ]
        # What matters most comes first: a narrow terminal cuts the end.
        rest = [
            ("" if name == kind else printable(name), "cyan"),
            (printable(self._target(row)), "bold"),
            (printable(status), "green" if status == "ok" else "red"),
            (printable(row["reason"] or ""), "red"),
            (_summary(row), ""),
            (", ".join(map(printable, _ids(row))), "dim"),
        ]
        return self._fitting([*head, *(each for each in rest if each[0])])

    def _target(self, row: Mapping[str, Any]) -> str:
        """Return the target of a message, or of the request that it answers."""
        target, connection = row["target"] or "", row["connection"]
        if row["kind"] == "request" and target and row["message_id"] is not None:
            self._targets[connection, row["message_id"]] = target
            if len(self._targets) > _MAX_REQUESTS:  # requests that were never answered
                del self._targets[next(iter(self._targets))]
        elif not target and row["reply_to"] is not None:
            key = connection, row["reply_to"]
            # A part is not the last answer: the request stays.
            found = self._targets.get(key) if row["kind"] == "part" else self._targets.pop(key, "")
            target = found or ""
        return target

    def _fitting(self, cells: list[tuple[str, str]]) -> str:
        left = _DEFAULT_WIDTH if self._width is None else self._width
        shown: list[str] = []
        for text, style in cells:
            if left <= 1:
                # A gap of two was left for this cell, unless the line is full.
                return "  ".join(shown) + "…" * (left > -2)
            cell = _cut(text, left)
            shown.append(_styled(cell, style))
            left -= len(cell) + 2
        return "  ".join(shown).rstrip()


def _client(row: Mapping[str, Any]) -> str:
    if row.get("tunnel_link"):
        return f"tunnel {row['connection']}"
    name = row.get("signed_on") or row.get("client") or row.get("peer")
    return printable(name or f"#{row['connection']}")


def _ids(row: Mapping[str, Any]) -> list[str]:
    """Return the ids of the message, and of the one it answers."""
    ids = [] if row["message_id"] is None else [f"#{row['message_id']}"]
    if row["reply_to"] is not None:
        ids.append(f"to #{row['reply_to']}")
    return ids + list(row["ids"] or ())


def _summary(row: Mapping[str, Any]) -> str:
    """Return the body if it is text, else the fields."""
    if row.get("masked"):
        return "(secret)"
    parts = []
    body = row.get("body")
    if isinstance(body, str) and body:
        parts.append(printable(body))
    else:
        parts += _fields(row.get(row["protocol"]))
        if row.get("body_bytes"):
            parts.append(f"{row['body_bytes']:,} bytes")
    if row["sealed"]:
        parts.append("sealed")
    return " ".join(parts)


def _fields(value: Any, name: str = "") -> Iterator[str]:
    """Yield `name=value` for each field that is set."""
    if name == "rows_by_kind" and isinstance(value, dict):
        for kind, rows in value.items():
            if kind not in _ROUTINE_ROWS:
                for each in rows:
                    yield from _row(kind, each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in _ROUTINE:
                yield from _fields(each, key)
    elif value not in (None, "", [], False, 0):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{name}={printable(text)}"


def _row(kind: str, row: Any) -> Iterator[str]:
    """Yield the text of a row of ESNP; one with a name and a value is like a field."""
    value = row.get("value") if isinstance(row, dict) else row
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = _typed_value(value[0]) if len(value) == 1 else f"{len(value)} values"
    name = row.get("name") if isinstance(row, dict) else None
    if value is None and isinstance(row, dict):
        yield from _fields(row, kind)
    else:
        yield f"{printable(str(name or kind))}={printable(str(value))}"


def _typed_value(value: Mapping[str, Any]) -> Any:
    """Return a typed ESNP value: a number, text, or bytes as text if they are UTF-8."""
    if value.get("bytes") is None:
        if value.get("int") is not None:  # large integers are text in JSON
            return unsigned(value.get("type"), int(value["int"]))
        return next((value[key] for key in _VALUE_KEYS if value.get(key) is not None), "")
    data = base64.b64decode(value["bytes"])
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"{len(data):,} bytes"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def _styled(text: str, style: str) -> str:
    if style in ("", "dim", "bold"):
        return click.style(text, **{style: True}) if style else text
    return click.style(text, fg=style)


def _bytes_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the bytes of each field."""
    from wirelake.protocols.registry import RegistryError, find
    from wirelake.wire.views._trace_layouts import trace

    from ..output.tree import tree_lines

    if row.get("masked"):
        yield "bytes masked: they contain a secret"
        return
    if "frame_hex" not in row:
        link = row.get("tunnel_link")
        yield f"bytes are part of a packet of link {link}" if link else "no bytes"
        return
    data = bytes.fromhex(row["frame_hex"])
    try:
        protocol = find(row["protocol"])
        layout = protocol.model(protocol.dialect(row.get("dialect")))
    except (RegistryError, ValueError):  # a protocol that only the hub has installed
        yield data.hex(" ")
        return
    direction = row["direction"] if protocol.directed else None
    yield from tree_lines(trace(layout, data, direction=direction), data)
