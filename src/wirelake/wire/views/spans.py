"""Byte spans: which bytes belong to which field, for trees, hex views and tests.

`trace` reads a layout as the generated codec does, but directly from the declaration, and notes the
position of everything. It never raises for bad bytes: the tree then ends at that position, and the
span's `error` has the reason. The code is in `_reader.py` (numbers and bytes), `_trace_values.py`
(values) and `_trace_layouts.py` (heads, options, bodies, protobuf).
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import model as m
from ..errors import DecodeError, NeedMore
from ._reader import Reader
from ._trace_values import Span, Tracer, delimits_itself

__all__ = ["Span", "trace"]


def trace(
    layout: m.Layout,
    data: bytes,
    start: int = 0,
    stop: int | None = None,
    *,
    direction: m.Direction | None = None,
    stages: Mapping[str, bytes] | None = None,
    limit: int | None = None,
) -> Span:
    """Return the tree of spans of what begins at `start`; its `error` says whether reading failed.

    A layout that delimits itself is read from a stream: it stops where it ends, and bytes that are
    missing are `NeedMore`. Any other layout must fill the bytes up to `stop`. `stages` has the
    plaintext of fields that hold another layout, by the name of the field.
    """
    end = len(data) if stop is None else stop
    stream = delimits_itself(layout)
    reader = Reader(data, start, end, is_open=stream)
    root = Span(layout.name, layout.name, start, start, doc=layout.doc, layout=layout.name)
    tracer = Tracer(direction, stages, limit)
    try:
        read = tracer.layout if stream else tracer.slice
        root.value = read(layout, reader, root)
        root.stop = reader.pos
    except (DecodeError, NeedMore) as error:
        root.error = error
        root.stop = root.children[-1].stop if root.children else end
    return root
