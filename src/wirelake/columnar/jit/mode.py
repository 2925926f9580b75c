"""Whether kernels are compiled or interpreted: decided once per process, before they are imported.

Compiling all kernels takes about a minute on two cores. Interpreted by Python, they read some
150 kB/s and need no compiler: the first answer from a small capture comes in about two seconds,
while another process compiles (`wirelake.columnar.read.warm`).
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from wirelake.wire.generate.dynamic import (
    cache_folder,
    make_cache_folder,
    others_may_write,
    temporary_cache_folder,
)

__all__ = [
    "VARIABLE",
    "chosen_folder",
    "interpret",
    "interpreted",
    "is_ready",
    "kernel_folder",
    "mark_ready",
]

VARIABLE: Final = "WIRELAKE_KERNELS"
"""`compiled` or `interpreted`; otherwise `interpret` decides."""

_COLUMNAR: Final = Path(__file__).parents[1]
_chosen: list[bool] = []


def interpreted() -> bool:
    """Return whether kernels are interpreted. The first call decides for the whole process."""
    if not _chosen:
        _chosen.append(os.environ.get(VARIABLE) == "interpreted")
    return _chosen[0]


def interpret() -> bool:
    """Use interpreted kernels unless they were imported or `VARIABLE` says otherwise.

    Returns whether they are.
    """
    if not _chosen:
        _chosen.append(os.environ.get(VARIABLE) != "compiled")
    return _chosen[0]


def chosen_folder() -> Path:
    """Return the folder for compiled kernels: `$NUMBA_CACHE_DIR`, or a part of the user's cache."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else cache_folder() / "kernels"


def kernel_folder() -> Path:
    """Return the folder of compiled kernels: the chosen one, if it can be written.

    Numba reads no kernels from a folder that it cannot write, as in a read-only container. One that
    everybody may write is not used: machine code in it is run.
    """
    chosen = chosen_folder()
    try:
        make_cache_folder(chosen)
        if os.access(chosen, os.W_OK | os.X_OK) and not others_may_write(chosen):
            return chosen
    except OSError:
        pass
    temporary = temporary_cache_folder() / "kernels"
    temporary.mkdir(exist_ok=True)
    return temporary


def is_ready() -> bool:
    """Return whether all kernels of this version were compiled."""
    return _stamp().exists()


def mark_ready() -> None:
    """Mark all kernels of this version as present in the cache."""
    _stamp().touch()


def _stamp() -> Path:
    # A wrong answer costs time, not correctness: the cache itself compares every kernel.
    found = hashlib.sha256(repr((sys.version, platform.machine(), version("numba"))).encode())
    for path in sorted(_COLUMNAR.rglob("*.py")):
        state = path.stat()
        found.update(repr((path.name, state.st_size, state.st_mtime_ns)).encode())
    return kernel_folder() / f"ready-{found.hexdigest()[:16]}"
