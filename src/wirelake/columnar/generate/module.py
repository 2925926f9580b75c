"""The module that holds the kernels of a protocol in one dialect."""

from __future__ import annotations

from collections.abc import Iterator

from wirelake.records.structs import stages
from wirelake.wire import model as m
from wirelake.wire.protocol import Protocol

from .dynamic import dynamic_function
from .frames import DecodeFrame, scan_function

__all__ = ["decoders", "kernel_source"]

_HEADER = '''"""Kernels of {name}, dialect {dialect}. Generated from {module}: do not edit.

Regenerate it with `python -m wirelake.columnar.generate`; a test fails if it is out of date.
"""
# ruff: noqa
# fmt: off
# mypy: ignore-errors

import numpy as np

from wirelake.columnar.jit.options import U, inline, kernel
from wirelake.columnar.jit.utf8 import utf8

'''


def decoders(protocol: Protocol, dialect: str) -> Iterator[DecodeFrame]:
    """The reading functions of a protocol: of its frames, and of its stages."""
    yield DecodeFrame(protocol.model(dialect))
    for stage in stages(protocol, dialect):
        yield DecodeFrame(stage, frame=False)


def kernel_source(protocol: Protocol, dialect: str) -> str:
    """The source of the module."""
    constants: set[int] = set()
    parts = [scan_function(protocol.model(dialect), constants)]
    dynamics: dict[str, m.Dynamic] = {}
    for decoder in decoders(protocol, dialect):
        source, _ = decoder.function()
        parts.append(source)
        constants |= decoder.code.constants
        dynamics |= decoder.dynamics
    helpers = [dynamic_function(kind, constants) + "\n" for kind in dynamics.values()]
    numbers = "\n".join(f"_{value} = U({value:#x})" for value in sorted(constants))
    header = _HEADER.format(name=protocol.name, dialect=dialect, module=protocol.frame.__module__)
    return f"{header}{numbers}\n\n\n" + "\n\n".join([*helpers, *parts])
