"""One layout that belongs to no protocol: its reading and writing functions, made on first use.

An application gives a private row or body its own layout class this way; see
`protocols/esnp/application.py`. The generated module goes to the cache folder, like the codec of a
protocol from another package (`load.py`).
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from .. import model as m
from ..declare import DeclarationError, build
from ..errors import DecodeError, EncodeError
from ..types import Layout
from ..walk import dynamics, reachable
from .load import load_source
from .module import _HEADER, _Module

__all__ = ["LayoutCodec", "compile_layout"]

L = TypeVar("L", bound=Layout)


class LayoutCodec(NamedTuple):
    """`read(bytes)` raises DecodeError only, `write(value)` EncodeError only."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


def compile_layout(cls: type[L], dialect: str = "seed") -> LayoutCodec:
    """Return the functions of one layout; reading takes the whole of its bytes, or refuses them.

    The class must be importable: generated code names it. A class that says something that has no
    meaning on the wire raises DeclarationError.
    """
    layout = build(cls, dialect)
    if layout.body is not None or any(_rows(part) for part in layout.parts):
        raise DeclarationError(f"{cls.__qualname__}: a layout with a body or rows needs a Protocol")
    stem = f"wirelake_layout_{re.sub('[^a-z0-9]', '_', layout.name)}_{dialect}"
    module = load_source(stem, _Single(layout).source())
    read = getattr(module, f"read_{layout.name}")
    write = getattr(module, f"write_{layout.name}")

    def read_all(data: bytes) -> L:
        value, stop = read(data, 0, len(data))
        if stop != len(data):
            raise DecodeError("trailing_bytes", layout.name, stop, f"{len(data) - stop} left")
        return cast("L", value)

    def write_one(value: L) -> bytes:
        if type(value) is not cls:
            raise EncodeError("bad_value", layout.name, None, f"a {cls.__name__} is wanted")
        try:
            return bytes(write(value))
        except (AttributeError, TypeError, ValueError, ArithmeticError, struct.error) as error:
            raise EncodeError("bad_value", layout.name, None, str(error)) from error

    return LayoutCodec(read_all, write_one)


def _rows(part: m.Part) -> bool:
    return isinstance(part, m.Field) and isinstance(part.type, m.Rows)


class _Single(_Module):
    """The module of one layout, whose classes may come from several modules."""

    def __init__(self, layout: m.Layout):
        super().__init__([], layout.dialect, reachable([layout]))

    def header(self) -> str:
        """Import each class from where it is defined."""
        found: dict[str, set[str]] = {}
        classes = [layout.cls for layout in self.layouts]
        for cls in [*classes, *(kind.cls for kind in dynamics(self.layouts))]:
            if getattr(sys.modules.get(cls.__module__), cls.__name__, None) is not cls:
                raise DeclarationError(f"{cls.__qualname__}: define it at the top of a module")
            found.setdefault(cls.__module__, set()).add(cls.__name__)
        imports = [f"from {name} import {', '.join(sorted(found[name]))}" for name in sorted(found)]
        layout = self.layouts[0]
        text = _HEADER.format(
            protocols=layout.name, dialect=self.dialect, module=layout.cls.__module__
        )
        return text + "\n".join(imports) + "\n"
