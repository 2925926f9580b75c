"""How every kernel is compiled: the one place that knows Numba's options.

    @kernel     a function that Python calls
    @inline     a helper that kernels call; its body is put into theirs

The options, and what each is for:

- `cache`: compiled once for each machine, not once for each process. (Numba looks at the file of
  the kernel alone to see whether the cache is stale: after editing a helper that another file's
  kernels call, remove the `__pycache__` of this room.)
- `nogil`: a kernel runs beside Python, such as the thread that writes Parquet.
- `error_model="numpy"`: no test for a division by zero, which would have to raise.
- `boundscheck=False`: kernels check what the bytes say; a right index needs no second look.
- `_nrt=False`: no reference counting of array arguments, which costs a factor of five and more.
  Private to Numba, and the reason why its version is pinned. A kernel so compiled cannot allocate:
  whoever calls it brings the arrays.

Habits that go with them:

- Numbers are int64; what indexes is cast to uint64 (`U`) where it indexes, which spares the test
  for a negative index and lets neighbouring bytes be loaded at once. The two are never mixed in
  arithmetic: their sum is a float.
- Bytes that are read come in read-only arrays (`readonly`), whatever they came from; everything
  else is writable. So each kernel is compiled for one signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import config
from numpy.typing import NDArray

from wirelake.wire.generate.load import temporary_cache_folder

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
"""What a number is cast to that came out of a narrower array."""
U: Any = np.uint64
"""What an index is cast to, and what hashes are computed in."""


def kernel(function: _Function) -> _Function:
    """Compile a function that Python calls, at its first call or from the cache."""
    return cast(_Function, _compile(function, _OPTIONS))


def inline(function: _Function) -> _Function:
    """Compile a helper of kernels, whose body is put into theirs."""
    return cast(_Function, _compile(function, {**_OPTIONS, "forceinline": True}))


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return njit(**options)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        # Neither the folder of the source nor the user's cache folder can be written.
        setattr(config, "CACHE_DIR", str(temporary_cache_folder() / "numba"))  # noqa: B010
        return njit(**options)(function)


def readonly(data: NDArray[np.uint8] | bytes | memoryview) -> NDArray[np.uint8]:
    """Bytes as kernels want those that they read: an array that cannot be written."""
    array = np.frombuffer(data, dtype=np.uint8) if not isinstance(data, np.ndarray) else data.view()
    array.flags.writeable = False
    return array
