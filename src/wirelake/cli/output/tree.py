"""The spans of a message as text: one line per field, with its offset, bytes and value.

    0000  00 3a                    length       58
    0003  00 10 63 30 31 30 30 3…  client_id    'c01000010000abcd'

Secrets are masked both in the bytes and in the value, unless `reveal` is set.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.wire.views._trace_layouts import Span

from .text import json_line

__all__ = [
    "bytes_value",
    "json_text",
    "print_table",
    "rows_of",
    "tree_lines",
    "values_of",
]


_MAX_BYTES = 8
"""Bytes shown of a field."""
_BYTES_WIDTH = 3 * _MAX_BYTES
_NAME_WIDTH = 18
_MAX_TEXT = 72
"""Characters shown of a value."""


def tree_lines(root: Span, data: bytes, *, reveal: bool = False) -> Iterator[str]:
    """Yield the lines of a tree; `data` is the buffer that the offsets refer to."""
    for child in root.children:
        yield from _lines(child, data, 0, reveal)
    if root.error is not None and not any(c.error is root.error for c in root.children):
        yield _error_line(root, 0)


def _lines(span: Span, data: bytes, depth: int, reveal: bool) -> Iterator[str]:
    if span.inner and span.error is None and span.name != "end":
        return
    masked = span.secret and not reveal
    yield _line(span, data, depth, masked)
    if not masked:
        for child in span.children:
            yield from _lines(child, data, depth + 1, reveal)
    if span.error is not None and (
        masked or not any(child.error is span.error for child in span.children)
    ):
        yield _error_line(span, depth)
    if span.stage is not None:
        yield from _stage_lines(span, span.stage, depth, reveal)


def _stage_lines(span: Span, stage: Span, depth: int, reveal: bool) -> Iterator[str]:
    yield f"{'':6}{'':{_BYTES_WIDTH}}{'  ' * (depth + 1)}{click.style(stage.layout, bold=True)}"
    for child in stage.children:
        yield from _lines(child, span.plaintext, depth + 2, reveal)
    if stage.error is not None and not any(c.error is stage.error for c in stage.children):
        yield _error_line(stage, depth + 1)


def _line(span: Span, data: bytes, depth: int, masked: bool) -> str:
    place = click.style(f"{span.start:04x}", dim=True)
    column = f"{_bytes_column(span, data, masked):<{_BYTES_WIDTH}}"
    name = "  " * depth + span.name
    value = _value(span, masked)
    if value:
        name = f"{name:<{_NAME_WIDTH + 2 * (depth // 2)}} "
    return f"{place}  {column}{click.style(name, fg='cyan')}{value}"


def _bytes_column(span: Span, data: bytes, masked: bool) -> str:
    if span.bits is not None:
        return _bit_pattern(span)
    if masked:
        return "**" if span.size else ""
    if any(not child.inner and child.bits is None for child in span.children):
        return ""
    shown = data[span.start : min(span.stop, span.start + _MAX_BYTES)].hex(" ")
    return f"{shown[:-1]}…" if span.size > _MAX_BYTES else shown


def _bit_pattern(span: Span) -> str:
    """Return the position of the bits in their bytes: `...1 ....`."""
    assert span.bits is not None
    shift, width = span.bits
    total = span.size * 8
    value = int(span.value) if isinstance(span.value, int) else 0
    digits = ["."] * total
    for index in range(width):
        digits[total - 1 - shift - index] = str(value >> index & 1)
    text = "".join(digits)
    return " ".join(text[i : i + 4] for i in range(0, total, 4))


def _value(span: Span, masked: bool) -> str:
    if masked:
        return click.style(f"<secret, {span.size} bytes>", fg="yellow")
    text = _value_text(span.value)
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}…"
    layout = click.style(span.layout, bold=True) if span.layout else ""
    label = f"({span.label})" if span.label else ""
    return " ".join(filter(None, (layout, text, label)))


def _value_text(value: object) -> str:
    match value:
        case bool() | int() | float() | str():
            return repr(value)
        case bytes():
            if value and all(0x20 <= byte < 0x7F for byte in value):
                return repr(value)
            return f"{len(value)} bytes" if len(value) > _MAX_BYTES else ""
        case tuple():
            return f"{len(value)} item{'s' if len(value) != 1 else ''}"
        case _:  # of nested layouts only a self-describing value has text
            inner = getattr(value, "value", None)
            return _value_text(inner) if isinstance(getattr(value, "type", None), int) else ""


def _error_line(span: Span, depth: int) -> str:
    mark = click.style(f"^ {span.error}", fg="red")
    return f"{'':6}{'':{_BYTES_WIDTH}}{'  ' * depth}{mark}"


# A text table that fits the terminal: numbers are never truncated, names may be.


_PIPE_WIDTH: Final = 200
"""Width when the output is not a terminal."""
_GAP: Final = 2
"""Characters between two columns."""
_MIN_NAME_WIDTH: Final = 12
"""Narrowest column of names."""


def print_table(
    headings: Sequence[str],
    numbers: Sequence[bool],
    rows: Sequence[Sequence[str]],
    minor: Collection[str] = (),
) -> list[str]:
    """Print a table and return the columns that did not fit.

    Minor columns are dropped first, starting with the last.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)
    widths = [_width(headings, rows, at) for at in range(len(headings))]
    shown = _fitting(widths, numbers, [each in minor for each in headings], console.width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for at, width in shown.items():
        table.add_column(
            headings[at],
            justify="right" if numbers[at] else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=width,
        )
    for row in rows:
        table.add_row(*(Text(row[at]) for at in shown))
    console.print(table)
    return [heading for at, heading in enumerate(headings) if at not in shown]


def _fitting(
    widths: Sequence[int], numbers: Sequence[bool], minor: Sequence[bool], room: int
) -> dict[int, int]:
    """Return the columns that fit, and their widths."""
    shown = {
        at: width if numbers[at] else min(width, _MIN_NAME_WIDTH) for at, width in enumerate(widths)
    }
    for at in reversed(range(len(widths))):
        if _left(shown, room) >= 0:
            break
        if minor[at]:
            del shown[at]
    for at, narrow in shown.items():  # names share the remaining width
        shown[at] = min(widths[at], narrow + max(0, _left(shown, room)))
    return shown


def _left(shown: Mapping[int, int], room: int) -> int:
    return room - sum(shown.values()) - _GAP * (len(shown) - 1)


def _width(headings: Sequence[str], rows: Sequence[Sequence[str]], at: int) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, [headings[at], *(row[at] for row in rows)]))


# Arrow batches as plain values, for JSON and CSV.


_SLICE: Final = 1_024
"""Rows converted at a time, so that `--limit 10` does not convert a whole batch."""
_WHITE: Final = str.maketrans("", "", "\t\n\r")


def rows_of(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, with the given columns."""
    for start in range(0, batch.num_rows, _SLICE):
        part = batch.slice(start, _SLICE)
        columns = [
            (name, pa.types.is_struct(part.column(name).type), values_of(part.column(name)))
            for name in names
        ]
        for at in range(part.num_rows):
            yield {
                name: values[at]
                for name, optional, values in columns
                if not optional or values[at] is not None
            }


def values_of(array: pa.Array) -> list[Any]:
    """Return the values of an array; None for null."""
    if not array.null_count:
        return _present(array)
    values: list[Any] = [None] * len(array)
    for place, value in _indexed(array):
        values[place] = value
    return values


def bytes_value(data: bytes) -> str | dict[str, str]:
    """Return bytes as text, or as hexadecimal digits."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return text if text.isprintable() or _printable(text) else {"hex": data.hex()}


def json_text(value: Any) -> str:
    """Return a value as JSON on one line, with control characters escaped."""
    import msgspec

    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else json_line(value)


def _printable(text: str) -> bool:
    return text.translate(_WHITE).isprintable()


def _float(value: float) -> float | dict[str, str]:
    return value if math.isfinite(value) else {"float": str(value)}


def _present(array: pa.Array) -> list[Any]:
    """Return the values of an array without nulls."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array)
    values: list[Any] = array.to_pylist()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [bytes_value(value) for value in values]
    if pa.types.is_floating(kind):
        return [_float(value) for value in values]
    return values


def _indexed(array: pa.Array) -> Iterator[tuple[int, Any]]:
    """Return the values that are not null, each with its index."""
    if array.null_count == len(array):
        return iter(())
    if not array.null_count:
        return enumerate(_present(array))
    places = pc.indices_nonzero(pc.is_valid(array))
    return zip(places.to_pylist(), _present(pc.take(array, places)), strict=True)


def _structs(array: pa.StructArray) -> list[Any]:
    rows: list[dict[str, Any]] = [{} for _ in range(len(array))]
    for field, column in zip(array.type, array.flatten(), strict=True):
        name = field.name
        for place, value in _indexed(column):
            rows[place][name] = value
    return rows


def _lists(array: pa.ListArray) -> list[Any]:
    flat = values_of(array.flatten())
    found: list[Any] = []
    start = 0
    for length in pc.list_value_length(array).to_pylist():
        found.append(flat[start : start + length])
        start += length
    return found
