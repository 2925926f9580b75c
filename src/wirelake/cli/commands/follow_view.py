"""A conversation as text: a line for each thing that happened.

       0.090424  → request    request           1001                             398 B
       0.102435  ← response   response          1001                  ok         112 B
       0.340297  ✗ gap from the server: 1,448 bytes are missing, 31 around them lost

Seconds count from the first thing that is seen of the connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from ..read.formatting import (
    counted,
    printable,
    time_text,
)
from ..read.values import json_text

__all__ = ["View"]

_INDENT: Final = " " * 17
_HEX_LINE: Final = 16
_ENDS: Final = {"c2s": "client", "s2c": "server"}
_HOW: Final = {"fin": "", "rst": ", by a reset", "anew": ", for its ends began anew"}


class View:
    """Prints one connection."""

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

    def lines(self, happening: dict[str, Any]) -> Iterator[str]:
        """What happened, as lines."""
        ts_ns = happening["ts_ns"]
        if self._first_ns is None and ts_ns is not None:
            self._first_ns = ts_ns
            yield from self._title(happening)
        if ts_ns is not None:
            self._last_ns = max(self._last_ns, ts_ns)
        match happening["event"]:
            case "message":
                yield from self._message(happening)
            case "fault":
                yield from self._fault(happening)
            case "opened":
                self._is_tcp = True
                seen = "opened" if happening["whole"] else "seen first: its beginning is missing"
                yield self._line(ts_ns, "─", seen)
            case "closed":
                self._closed = True
                yield self._line(ts_ns, "─", _closing(happening))
            case _:
                data = json_text(happening["data"])
                yield self._line(ts_ns, "·", f"fact {printable(happening['kind'])} {data}")

    def end(self) -> Iterator[str]:
        """What it was in all."""
        if self._is_tcp and not self._closed:
            yield self._line(self._last_ns, "─", "open where the capture ends")
        duration = (self._last_ns - (self._first_ns or 0)) / 1e9
        counts = ", ".join(
            f"{counted(self._messages[way], 'message')} ({self._bytes[way]:,} B) from the {end}"
            for way, end in _ENDS.items()
        )
        faults = f", {counted(self._faults, 'fault')}" if self._faults else ""
        yield f"{counts}{faults}, {duration:,.3f} s"

    # -- lines -------------------------------------------------------------------------------

    def _title(self, happening: dict[str, Any]) -> Iterator[str]:
        if happening["event"] == "opened":
            ends = "client {client_address}:{client_port}, server {server_address}:{server_port}"
            about = ends.format(**happening)
        elif happening["connection"] != self._connection:
            about = f"the tunnel {happening['target']} of the link {happening['connection']}"
        elif happening.get("tunnel_link"):
            about = f"a tunnel of the link {happening['tunnel_link']}"
        else:
            about = "of which the beginning is missing"
        yield click.style(f"connection {self._connection}", bold=True) + f", {about}"
        yield f"from {time_text(happening['ts_ns'])} UTC"

    def _message(self, row: dict[str, Any]) -> Iterator[str]:
        way = row["direction"]
        if row["connection"] == self._connection:  # else the link's, about its tunnel
            self._messages[way] += 1
            self._bytes[way] += row["size_bytes"]
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
        arrow = click.style("→", fg="cyan") if way == "c2s" else click.style("←", fg="green")
        yield self._line(row["ts_ns"], arrow, " ".join(cells[:5]) + "".join(cells[5:]))
        if self._fields and row["protocol"] in row:
            yield f"{_INDENT}{json_text(row[row['protocol']])}"
        if self._hex and row["body"] is not None:
            yield from _hex_lines(_raw(row["body"]))

    def _fault(self, row: dict[str, Any]) -> Iterator[str]:
        self._faults += 1
        parts = [f"{row['code']} from the {_ENDS[row['direction']]}"]
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


def _closing(happening: dict[str, Any]) -> str:
    side = happening["side"]
    by = f" by the {_ENDS[side]}" if side in _ENDS else ""
    return f"closed{by}{_HOW.get(happening['how'], '')}"


def _raw(value: str | dict[str, str]) -> bytes:
    """The bytes again."""
    return value.encode() if isinstance(value, str) else bytes.fromhex(value["hex"])


def _hex_lines(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), _HEX_LINE):
        part = data[start : start + _HEX_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"{_INDENT}{start:04x}  {part.hex(' '):<{3 * _HEX_LINE}} {text}"
