"""Kernels of the front end are compiled for one signature each."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from pathlib import Path

import numpy as np

from wirelake.columnar.tcp import pieces

from . import made_captures as made
from .reference_streams import by_front_end

_MODULES = (
    *("scan.blocks", "scan.headers", "tcp.flows"),
    *("tcp.stream_order", "tcp.pieces", "tcp.packets"),
)


def kernels() -> dict[str, object]:
    """Every kernel of the front end, by its name."""
    found = {}
    for each in _MODULES:
        module = importlib.import_module(f"wirelake.columnar.{each}")
        for name, value in vars(module).items():
            own = getattr(getattr(value, "py_func", None), "__module__", "") == module.__name__
            if own and not value.targetoptions.get("forceinline"):
                found[f"{each}.{name}"] = value
    return found


def _half(_stream: int, size: int) -> int:
    return size // 2


def test_a_real_capture_needs_no_other_signature(tmp_path: Path) -> None:
    rng = random.Random(7)
    path = tmp_path / "capture"
    for make in (made.pcap, made.pcapng):
        path.write_bytes(make(rng, made.talks(rng, 12, 0.3)))
        by_front_end([path], made.PORTS, window_bytes=3_000, tail=_half)
    # These are called by decoders.
    nowhere, none = pieces.Pieces.empty(0), np.empty(0, np.int64)
    pieces.delivered(nowhere, none)
    pieces.ascending_pieces(nowhere, none)
    pieces.completion_order(np.zeros(1, np.int64))
    several = {name: kernel.signatures for name, kernel in kernels().items()}
    assert {name: found for name, found in several.items() if len(found) != 1} == {}
    assert len(several) == 18


def test_a_stale_cache_that_names_a_missing_class_is_ignored(tmp_path: Path) -> None:
    source = """
from typing import NamedTuple
import numpy as np
from wirelake.columnar.jit.options import kernel
class {name}(NamedTuple):
    numbers: np.ndarray
@kernel
def add(given):
    return given.numbers[0] + 1
print(add({name}(np.zeros(1, np.int64))))
"""
    for name in ("Before", "After"):
        (tmp_path / "renamed.py").write_text(source.format(name=name), encoding="utf-8")
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import renamed"
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stdout) == (0, "1\n"), run.stderr
