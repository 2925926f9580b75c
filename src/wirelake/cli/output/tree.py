"""The spans of a message as text: one line per field, with its offset, bytes and value.

    0000  00 3a                    length       58
    0003  00 10 63 30 31 30 30 3…  client_id    'c01000010000abcd'

Secrets are masked both in the bytes and in the value, unless `reveal` is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from wirelake.wire.views._trace_layouts import Span

__all__ = ["tree_lines"]

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
