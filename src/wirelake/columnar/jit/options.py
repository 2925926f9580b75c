"""How every kernel is compiled: the one place that knows Numba's options.

    @kernel     a function that Python calls
    @inline     a helper that kernels call; its body is put into theirs

The options, and what each is for:

- `cache`: compiled once per machine, not once per process: compiling all kernels takes most of a
  minute, loading a cached one about a second with imports. (Numba looks only at the file of the
  kernel to see whether the cache is stale: after editing a helper that another file's kernels call,
  remove `columnar/*/__pycache__`.)
- `nogil`: a kernel runs in parallel with Python, such as the thread that writes Parquet.
- `error_model="numpy"`: no test for a division by zero, which would have to raise.
- `boundscheck=False`: kernels check lengths and counts that come from the wire; indices computed
  from checked values need no second check.
- `_nrt=False`: no reference counting of array arguments. Without this option, `error_model` and
  unsigned indices, a decoding kernel had 0.13 times the speed of C, with them 0.79 times. It is
  private to Numba, and the reason why its version is pinned. Such a kernel cannot allocate: the
  caller passes all arrays.

Conventions that go with them:

- Numbers are int64. An index is cast to uint64 (`U`) where it is used: this removes the test for a
  negative index and lets LLVM load neighbouring bytes at once. The two are never mixed in
  arithmetic, because Numba makes their sum a float.
- Bytes to read are passed as read-only arrays (`readonly`), everything else is writable. So each
  kernel is compiled for one signature, which `tests/columnar/test_kernels.py` checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import config
from numpy.typing import NDArray

from wirelake.wire.generate.dynamic import temporary_cache_folder

__all__ = ["Int", "S", "U", "inline", "kernel", "readonly"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS: Final[dict[str, Any]] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "_nrt": False,
}

Int: TypeAlias = Any
"""A number in a kernel: int64 or uint64 as Numba infers it, which type checkers cannot follow."""
S: Any = np.int64
"""Signed 64-bit: numbers read from narrower arrays are cast to it before arithmetic."""
U: Any = np.uint64
"""Unsigned 64-bit: indices are cast to it, and hashes are computed in it."""


def kernel(function: _Function) -> _Function:
    """Compile a function that Python calls, at its first call or from the cache."""
    return cast(_Function, _compile(function, _OPTIONS))


def inline(function: _Function) -> _Function:
    """Compile a helper of kernels, whose body is put into theirs."""
    return cast(_Function, _compile(function, {**_OPTIONS, "forceinline": True}))


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        found = njit(**options)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        # Neither the folder of the source nor the user's cache folder can be written: a system
        # package in a read-only container. Numba has no per-function setting for the folder.
        setattr(config, "CACHE_DIR", str(temporary_cache_folder() / "numba"))  # noqa: B010
        found = njit(**options)(function)
    _ignore_unreadable_index(found._cache._cache_file)
    return found


def _ignore_unreadable_index(cache_file: Any) -> None:
    """Treat a cache as empty when it names a class that is gone.

    Numba reads the whole index of a kernel before it compares the stamp of the source. So after an
    upgrade in which a class was renamed, a stale index would raise instead of being replaced.
    """
    load = cache_file._load_index

    def load_index() -> Any:
        try:
            return load()
        except (AttributeError, ImportError):
            return {}

    cache_file._load_index = load_index


def readonly(data: NDArray[np.uint8] | bytes | memoryview) -> NDArray[np.uint8]:
    """Return bytes as a read-only array, the only form in which kernels take their input.

    A read-only and a writable array are two types to Numba, and each kernel would be compiled for
    both (test_kernels.py).
    """
    array = np.frombuffer(data, dtype=np.uint8) if not isinstance(data, np.ndarray) else data.view()
    array.flags.writeable = False
    return array
