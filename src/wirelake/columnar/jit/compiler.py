"""Compiles kernels with Numba, and keeps the machine code in the cache of the user.

The options, and what each is for:

- `cache`: compiled once per user, not once per process: compiling all kernels takes most of a
  minute, loading a cached one about a second with imports. A cached kernel is used as long as
  `digest` is the same: Numba's own rule, the time and size of the kernel's file, misses helpers
  and constants of other files. Numba's files are replaced, too (`_KernelFiles`).
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

import contextlib
import functools
import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numba
import numpy as np
from numba import njit, types
from numba.core import config
from numba.core.caching import IndexDataCacheFile
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

_CHECKSUM_BYTES: Final = 16

# Numba has no setting for the folder of one function.
setattr(config, "CACHE_DIR", str(kernel_folder()))  # noqa: B010


def compiled(function: Callable[..., Any], *, inline: bool) -> Any:
    """Return a function that is compiled at its first call, or loaded from the cache."""
    options = {**_OPTIONS, "forceinline": True} if inline else _OPTIONS
    found = njit(**options)(function)
    found._cache._cache_file = _KernelFiles(function, found._cache.cache_path)
    return found


class _KernelFiles(IndexDataCacheFile):
    """The files of one kernel, one for each digest and signature: what Numba calls a cache file.

    Numba writes an index first, then numbered files. A process that was ended between the two, or
    that compiled the sources of before an upgrade at the same time, left old machine code under a
    new index. Here a name says all that the content depends on, and a checksum is at the end, so a
    file is right or absent. Only how a file is written and read is Numba's.
    """

    def __init__(self, function: Callable[..., Any], folder: str):
        self._function, self._folder = function, Path(folder)
        module = Path(function.__code__.co_filename).stem
        self._name = re.sub(r"[<>]", "", f"{module}.{function.__qualname__}")
        super().__init__(folder, self._name, None)  # type: ignore[no-untyped-call]

    def load(self, key: tuple[Any, ...]) -> Any:
        """Return what was saved for a signature, or None."""
        name = self._file(key)
        try:
            data = (self._folder / name).read_bytes()
            # With one wrong byte, machine code may do anything. Half of such files crashed.
            if data[-_CHECKSUM_BYTES:] != _checksum(data[:-_CHECKSUM_BYTES]):
                return None
            return self._load_data(name)  # type: ignore[no-untyped-call]
        except Exception:
            # No such file, or one that needs a class of an earlier version: any error. It is
            # compiled again, and the file replaced.
            return None

    def save(self, key: tuple[Any, ...], data: Any) -> None:
        """Save machine code for a signature, and remove that of other sources."""
        # A full disk, for example: the kernel is compiled, only not kept.
        with contextlib.suppress(OSError):
            self._save_data(self._file(key), data)  # type: ignore[no-untyped-call]
            for other in set(self._all()) - set(self._all(digest(self._function))):
                other.unlink(missing_ok=True)

    def flush(self) -> None:
        """Remove all."""
        for path in self._all():
            path.unlink(missing_ok=True)

    def _dump(self, obj: Any) -> bytes:
        # At the end: what reads the rest stops before it.
        data: bytes = super()._dump(obj)  # type: ignore[no-untyped-call]
        return data + _checksum(data)

    def _all(self, source: str = "") -> Iterator[Path]:
        return self._folder.glob(f"{self._name}-{source[:16]}*.nbc")

    def _file(self, key: tuple[Any, ...]) -> str:
        # Now, not when the kernel is declared: helpers may stand below it.
        source = digest(self._function)
        # The types of tuples with names do not contain their fields' order.
        fields = [kind.fields for each in key[0] for kind in _named_tuples(each)]
        version = (sys.version_info[:2], numba.__version__, _OPTIONS)
        call = hashlib.sha256(repr((key, fields, version)).encode()).hexdigest()
        return f"{self._name}-{source[:16]}-{call[:16]}.nbc"


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


def _named_tuples(kind: Any) -> Iterator[Any]:
    """Yield the types of named tuples in the type of an argument."""
    if isinstance(kind, types.BaseNamedTuple):
        yield kind
    for each in getattr(kind, "types", ()):
        yield from _named_tuples(each)


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
