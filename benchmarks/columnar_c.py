"""The hand-written C of `benchmarks/c`: compiled into a temporary folder, called like kernels.

`library(name)` has the functions of the kernels' module under the same names, with the same
arguments: what the one fills, the other can.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COMPILER", "Library", "library"]

COMPILER = (
    "gcc",
    *("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"),
    *("-O3", "-march=native", "-shared", "-fPIC"),
)
SOURCES = Path(__file__).parent / "c"

Array = NDArray[Any]


class Library:
    """The functions of one compiled file."""

    def __init__(self, path: Path):
        self._functions = ctypes.CDLL(str(path))

    def scan(self) -> Callable[..., int]:
        """As `scan_<frame>` of a kernel."""
        function = self._function("scan", 9)

        def call(buf: Array, starts: Array, stops: Array, *written: Array) -> int:
            return int(
                function(*map(_pointer, (buf, starts, stops)), len(starts), *map(_pointer, written))
            )

        return call

    def decode(self, layout: str) -> Callable[..., int]:
        """As `decode_<layout>` of a kernel."""
        function = self._function(f"decode_{layout}", 8)

        def call(
            buf: Array,
            starts: Array,
            stops: Array,
            ways: Array,
            bad: Array,
            counts: Array,
            _stack: Array,
            *columns: Array,
        ) -> int:
            pointers = (ctypes.c_void_p * len(columns))(*map(_pointer, columns))
            slices = *map(_pointer, (buf, starts, stops)), len(starts)
            return int(function(*slices, *map(_pointer, (ways, bad, counts)), pointers))

        return call

    def _function(self, name: str, arguments: int) -> Callable[..., int]:
        function = getattr(self._functions, name)
        function.restype = ctypes.c_int64
        function.argtypes = [ctypes.c_void_p] * arguments
        function.argtypes[3] = ctypes.c_int64
        return function  # type: ignore[no-any-return]


def _pointer(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


@functools.cache
def library(name: str) -> Library:
    """The C of a protocol, compiled."""
    if shutil.which(COMPILER[0]) is None:
        raise RuntimeError("the comparison with C needs gcc")
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / f"{name}.so"
        subprocess.run([*COMPILER, "-o", built, SOURCES / f"{name}.c"], check=True)
        return Library(built)  # stays loaded when its file is gone


def junk(array: Array, byte: int) -> None:
    """Fills an array with what nobody wrote."""
    array.view(np.uint8)[:] = byte
