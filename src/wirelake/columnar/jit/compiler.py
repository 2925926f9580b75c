"""Compiles kernels with Numba, and keeps the machine code in the cache of the user.

The options, and what each is for:

- `cache`: compiled once per user, not once per process: compiling all kernels takes most of a
  minute, loading a cached one about a second with imports. A cached kernel is used as long as
  `digest` is the same: Numba's own rule, the time and size of the kernel's file, misses helpers
  and constants of other files.
- `nogil`: a kernel runs in parallel with Python, such as the thread that writes Parquet.
- `error_model="numpy"`: no test for a division by zero, which would have to raise.
- `boundscheck=False`: kernels check lengths and counts that come from the wire; indices computed
  from checked values need no second check.
- `_nrt=False`: no reference counting of array arguments. Without this option, `error_model` and
  unsigned indices, a decoding kernel had 0.13 times the speed of C, with them 0.79 times. It is
  private to Numba, and the reason why its version is pinned. Such a kernel cannot allocate: the
  caller passes all arrays.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np
from numba import njit
from numba.core import config
from numba.core.dispatcher import Dispatcher

from .mode import kernel_folder

__all__ = ["compiled", "digest"]

_OPTIONS: Final[dict[str, Any]] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "_nrt": False,
}

# Numba has no setting for the folder of one function.
setattr(config, "CACHE_DIR", str(kernel_folder()))  # noqa: B010


def compiled(function: Callable[..., Any], *, inline: bool) -> Any:
    """Return a function that is compiled at its first call, or loaded from the cache."""
    options = {**_OPTIONS, "forceinline": True} if inline else _OPTIONS
    found = njit(**options)(function)
    _check_cache_by_digest(found)
    return found


def _check_cache_by_digest(dispatcher: Any) -> None:
    """Use the cache of a kernel as long as its digest is the same."""
    cache_file = dispatcher._cache._cache_file
    load = cache_file._load_index

    def load_index() -> Any:
        # Now, not when the kernel is declared: helpers may stand below it.
        cache_file._source_stamp = digest(dispatcher.py_func)
        try:
            return load()
        except (AttributeError, ImportError):
            # Numba reads the whole index before it compares the stamp. After an upgrade in which a
            # class was renamed, a stale index would raise instead of being replaced.
            return {}

    cache_file._load_index = load_index


@functools.cache
def digest(function: Callable[..., Any]) -> str:
    """Return a digest of all that machine code depends on: bytecode, constants and helpers."""
    found = hashlib.sha256()
    code = function.__code__
    for part in (code.co_code, code.co_names, code.co_varnames):
        found.update(repr(part).encode())
    for constant in code.co_consts:
        found.update(_content(constant).encode())
    for name in code.co_names:
        value = function.__globals__.get(name)
        # Of a module, all names that the function may use; NumPy is part of Numba's own version.
        scope = vars(value) if isinstance(value, ModuleType) and value is not np else None
        for each in [value] if scope is None else map(scope.get, code.co_names):
            found.update(_content(each).encode())
    return found.hexdigest()


def _content(value: Any) -> str:
    """Return what a kernel makes of a name: the same text in every process."""
    if isinstance(value, Dispatcher):
        return digest(value.py_func)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.tobytes().hex()}"
    if isinstance(value, type) or value is np:
        return str(value.__name__)
    if value is None or isinstance(value, int | float | str | bytes | tuple | np.generic):
        return repr(value)
    raise TypeError(f"a kernel uses a {type(value).__name__}, which has no digest")
