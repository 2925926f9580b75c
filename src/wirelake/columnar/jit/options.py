"""How every kernel is declared, and the conventions that kernels keep.

    @kernel     a function that Python calls
    @inline     a helper that kernels call; its body is put into theirs

Numba compiles kernels (`compiler.py`) unless they are interpreted (`mode.py`). So a kernel is also
a Python function that gives the same result, and this holds for:

- Numbers are int64. An index is cast to uint64 (`U`) where it is used: this removes the test for a
  negative index and lets LLVM load neighbouring bytes at once. The two are never mixed in
  arithmetic, because Numba makes their sum a float.
- Arithmetic of uint64 wraps around. A number that is stored in a column of another type is cast to
  that type first: NumPy refuses numbers that are out of range, machine code keeps the low bits.
- Rows of tables are `record`s, with their fields as attributes.
- Bytes to read are passed as read-only arrays (`readonly`), everything else is writable. So each
  kernel is compiled for one signature, which `tests/columnar/test_kernels.py` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .mode import interpreted

__all__ = ["Int", "S", "U", "inline", "kernel", "readonly", "record"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

Int: TypeAlias = Any
"""A number in a kernel: int64 or uint64 as Numba infers it, which type checkers cannot follow."""
S: Any = np.int64
"""Signed 64-bit: numbers read from narrower arrays are cast to it before arithmetic."""
U: Any = np.uint64
"""Unsigned 64-bit: indices are cast to it, and hashes are computed in it."""


def kernel(function: _Function) -> _Function:
    """Declare a function that Python calls."""
    if interpreted():
        return np.errstate(over="ignore")(function)
    from .compiler import compiled

    return cast(_Function, compiled(function, inline=False))


def inline(function: _Function) -> _Function:
    """Declare a helper of kernels, whose body is put into theirs."""
    if interpreted():
        return function
    from .compiler import compiled

    return cast(_Function, compiled(function, inline=True))


def record(fields: Sequence[tuple[str, str]]) -> np.dtype[np.void]:
    """Return the type of a row with these fields, aligned as in C."""
    return np.dtype((np.record, np.dtype(list(fields), align=True)))


def readonly(data: NDArray[np.uint8] | bytes | memoryview) -> NDArray[np.uint8]:
    """Return bytes as a read-only array, the only form in which kernels take their input.

    A read-only and a writable array are two types to Numba, and each kernel would be compiled for
    both (test_kernels.py).
    """
    array = np.frombuffer(data, dtype=np.uint8) if not isinstance(data, np.ndarray) else data.view()
    array.flags.writeable = False
    return array
