"""A message of `wirelake tail` as text: one line, and its bytes below if they are wanted.

12:34:56.123456  esnp     → phone-1            request   request      test/add        a=1 b=2
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from wirelake.protocols.registry import RegistryError, find
from wirelake.wire.views.spans import trace

from ..output.tree import tree_lines
from ..read.formatting import printable, time_text

__all__ = ["TailView"]

_INDENT: Final = " " * 17
_WHO: Final = 18
_MOST: Final = 1_000
"""Characters of a line when nobody says how wide it may be."""
_ROUTINE: Final = frozenset(
    {
        *("auth", "body", "business_cmd", "code", "envelope", "hmac", "id", "line", "message_id"),
        *("mode", "msg_id", "msg_ids", "number", "protocol", "reply_to", "reserved", "seq"),
        *("time", "to_message", "type"),
    }
)
"""Fields that say nothing beside the columns, or nothing to people."""
_ROUTINE_ROWS: Final = frozenset(
    {"address", "error", "flag", "message_id", "source_message_id", "types", "version"}
)
"""The same, of ESNP's rows."""
_HELD: Final = ("int", "float", "text")
"""What a value of ESNP may be, beside bytes."""


class TailView:
    """Makes lines of messages."""

    def __init__(self, width: int | None, *, as_hex: bool):
        self._width = width
        self._hex = as_hex

    def lines(self, row: Mapping[str, Any]) -> Iterator[str]:
        """A message."""
        yield self._line(row)
        if self._hex:
            for line in _bytes_lines(row):
                yield f"{_INDENT}{line}"

    def _line(self, row: Mapping[str, Any]) -> str:
        inward = row["direction"] == "c2s"
        status = row["status"] or ""
        head = [
            (time_text(row["ts_ns"]).partition(" ")[2], "dim"),
            (f"{row['protocol']:<7}", "bold"),
            ("→" if inward else "←", "cyan" if inward else "green"),
            (f"{_cut(_who(row), _WHO):<{_WHO}}", ""),
            (f"{row['kind'] or '':<8}", ""),
            (f"{printable(row['name'] or ''):<12}", "cyan"),
        ]
        rest = [
            (printable(row["target"] or ""), "bold"),
            (printable(status), "green" if status == "ok" else "red"),
            (", ".join(map(printable, _ids(row))), "dim"),
            (_said(row), ""),
        ]
        return self._fitting([*head, *(each for each in rest if each[0])])

    def _fitting(self, cells: list[tuple[str, str]]) -> str:
        left = _MOST if self._width is None else self._width
        found = []
        for text, style in cells:
            if left <= 1:
                break
            shown = _cut(text, left)
            found.append(_styled(shown, style))
            left -= len(shown) + 2
        return "  ".join(found).rstrip()


def _who(row: Mapping[str, Any]) -> str:
    if row.get("tunnel_link"):
        return f"tunnel {row['connection']}"
    name = row.get("signed_on") or row.get("client") or row.get("peer")
    return printable(name or f"#{row['connection']}")


def _ids(row: Mapping[str, Any]) -> list[str]:
    """What the message is known by, and what it answers."""
    found = [] if row["message_id"] is None else [f"#{row['message_id']}"]
    if row["reply_to"] is not None:
        found.append(f"to #{row['reply_to']}")
    return found + list(row["ids"] or ())


def _said(row: Mapping[str, Any]) -> str:
    """What it says, in short: its reason, its body if that is a text, else its fields."""
    if row.get("masked"):
        return "(secret)"
    parts = [printable(row["reason"])] if row["reason"] else []
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
    """`name=value` for each field that has one."""
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
    """A row of ESNP: one with a name and a value is like a field."""
    value = row.get("value") if isinstance(row, dict) else row
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = _held(value[0]) if len(value) == 1 else f"{len(value)} values"
    name = row.get("name") if isinstance(row, dict) else None
    if value is None and isinstance(row, dict):
        yield from _fields(row, kind)
    else:
        yield f"{printable(str(name or kind))}={printable(str(value))}"


def _held(value: Mapping[str, Any]) -> Any:
    """What a value of ESNP is: a number, a text, or bytes, which are told as text if they are."""
    if value.get("bytes") is None:
        return next((value[key] for key in _HELD if value.get(key) is not None), "")
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
    """Which bytes are which field."""
    if row.get("masked"):
        yield "its bytes are secret"
        return
    if "frame_hex" not in row:
        link = row.get("tunnel_link")
        yield f"its bytes are in a packet of the link {link}" if link else "without bytes"
        return
    data = bytes.fromhex(row["frame_hex"])
    try:
        protocol = find(row["protocol"])
        layout = protocol.model(protocol.dialect(row.get("dialect")))
    except (RegistryError, ValueError):  # a protocol of the hub's own
        yield data.hex(" ")
        return
    way = row["direction"] if protocol.directed else None
    yield from tree_lines(trace(layout, data, direction=way), data)
