"""Kernels of the front end are compiled for one signature each."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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
    assert len(several) == 19


_TUPLE = """
from typing import NamedTuple
import numpy as np
from wirelake.columnar.jit.options import kernel
class {name}(NamedTuple):
    {first}: np.ndarray
    {second}: np.ndarray
@kernel
def add(given):
    return given.first[0] + 1
print(add({name}(first=np.zeros(1, np.int64), second=np.ones(1, np.int64))))
"""


def test_a_cached_kernel_is_not_used_for_a_tuple_with_another_name_or_order(tmp_path: Path) -> None:
    for name, fields in (
        ("Before", "first second"),
        ("After", "first second"),
        ("After", "second first"),
    ):
        first, second = fields.split()
        text = _TUPLE.format(name=name, first=first, second=second)
        (tmp_path / "main_part.py").write_text(text, encoding="utf-8")
        assert _run(tmp_path) == "1\n"


_KERNEL = """
from wirelake.columnar.jit.compiler import digest
from wirelake.columnar.jit.options import kernel
import other
from other import helper
@kernel
def add(number):
    return below(number)
@kernel
def below(number):
    return helper(number) + other.CONSTANT
print(add(1), len(add.stats.cache_hits), digest(add.py_func))
"""
_OTHER = """
from wirelake.columnar.jit.options import inline
CONSTANT = {constant}
@inline
def helper(number):
    return number * {factor}
"""


def test_a_cached_kernel_is_used_until_a_helper_or_constant_changes(tmp_path: Path) -> None:
    (tmp_path / "main_part.py").write_text(_KERNEL, encoding="utf-8")
    digests = []
    for constant, factor, hits in ((10, 2, 0), (10, 2, 1), (10, 3, 0), (20, 3, 0), (20, 3, 1)):
        text = _OTHER.format(constant=constant, factor=factor)
        (tmp_path / "other.py").write_text(text, encoding="utf-8")
        result, found, digest = _run(tmp_path).split()
        assert (int(result), int(found)) == (factor + constant, hits)
        digests.append(digest)
    assert len(set(digests)) == 3


_ENDED = """
import os
from pathlib import Path
def end_at(number, of=os.replace):
    def replace(*names):
        left.append(0)
        if len(left) > number:
            os._exit(0)
        of(*names)
    left = []
    os.replace = Path.replace = replace
"""


@pytest.mark.parametrize("number", [0, 1])
def test_a_process_that_is_ended_while_it_saves_leaves_no_old_kernel(
    tmp_path: Path, number: int
) -> None:
    """Numba saved an index of the new kernel before its machine code."""
    main, other = tmp_path / "main_part.py", tmp_path / "other.py"
    main.write_text(_KERNEL, encoding="utf-8")
    other.write_text(_OTHER.format(constant=10, factor=2), encoding="utf-8")
    assert _run(tmp_path).startswith("12 ")
    other.write_text(_OTHER.format(constant=10, factor=3), encoding="utf-8")
    for ended in (f"{_ENDED}end_at({number})\n", ""):
        main.write_text(ended + _KERNEL, encoding="utf-8")
        printed = _run(tmp_path)
    assert printed.startswith("13 ")


def test_a_damaged_file_is_compiled_again_and_old_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "main_part.py").write_text(_KERNEL, encoding="utf-8")
    names = []
    for factor in (2, 3):
        (tmp_path / "other.py").write_text(
            _OTHER.format(constant=10, factor=factor), encoding="utf-8"
        )
        assert _run(tmp_path).split()[:2] == [str(10 + factor), "0"]
        names.append({path.name for path in (tmp_path / "cache").rglob("*.*")})
    assert len(names[0]) == len(names[1]) == len(names[0] | names[1]) / 2 > 0
    for damage in (_emptied, _changed):
        for path in (tmp_path / "cache").rglob("*.nbc"):
            path.write_bytes(damage(path.read_bytes()))
        assert _run(tmp_path).split()[:2] == ["13", "0"]
        assert _run(tmp_path).split()[:2] == ["13", "1"]


def _emptied(_: bytes) -> bytes:
    return b""


def _changed(data: bytes) -> bytes:
    """Return other machine code: the process crashed, or the kernel gave another result."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def _run(folder: Path) -> str:
    """Run `main_part.py` in a new process, and return what it prints."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import main_part"
    words = [sys.executable, "-B", "-c", code]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout
