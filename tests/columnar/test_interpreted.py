"""Interpreted kernels read what compiled ones read, and the choice between them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from wirelake.cli.read import kernels
from wirelake.columnar.jit import mode
from wirelake.columnar.read.options import ReadOptions
from wirelake.columnar.read.reader import read_batches
from wirelake.traffic import simulate
from wirelake.wire.generate.dynamic import temporary_cache_folder

pytestmark = pytest.mark.slow

_TABLES = (
    *("messages", "packets", "calls", "deliveries", "connections", "tunnels", "faults"),
    "coverage",
)
_READ = """
import sys
from wirelake.columnar.read.options import ReadOptions
from wirelake.columnar.read.reader import read_batches
for table in sys.argv[2:]:
    for batch in read_batches(sys.argv[1:2], ReadOptions(table=table)):
        for row in batch.to_pylist():
            print(table, row)
assert "numba" not in sys.modules
"""


def test_the_rows_are_those_of_compiled_kernels(tmp_path: Path) -> None:
    simulate(tmp_path, size=120_000, seed=3, faults=0.01, jobs=1)
    for path in sorted(tmp_path.glob("*-00000000.pcap*")):
        found = subprocess.run(
            # A warning would reach users of the command.
            [sys.executable, "-W", "error", "-c", _READ, str(path), *_TABLES],
            env={**os.environ, mode.VARIABLE: "interpreted"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        rows = [
            f"{table} {row}"
            for table in _TABLES
            for batch in read_batches([path], ReadOptions(table=table))
            for row in batch.to_pylist()
        ]
        assert found.stdout.splitlines() == rows
        assert len(rows) > 500


class _Started(NamedTuple):
    """What `prepare_kernels` started: a program to wait for, or one in the background."""

    waited: list[list[str]]
    background: list[list[str]]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Started:
    """An empty cache, a process in which no kernels were imported, and no real compiler."""
    found = _Started([], [])
    monkeypatch.delenv(mode.VARIABLE)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(mode, "_chosen", [])
    monkeypatch.setattr(subprocess, "run", lambda words, **_: found.waited.append(words))
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: found.background.append(words))
    return found


def _capture(folder: Path, name: str, size: int) -> str:
    path = folder / name
    path.write_bytes(bytes(size))
    return str(path)


def test_at_first_use_a_small_capture_is_interpreted_and_kernels_are_compiled_meanwhile(
    tmp_path: Path, started: _Started, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels.prepare_kernels([_capture(tmp_path, "a.pcap", kernels.SMALL_BYTES)])
    assert mode.interpreted()
    assert (len(started.waited), len(started.background)) == (0, 1)
    assert "--background" in started.background[0]
    assert "first use: compiling" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "size"), [("a.pcap", kernels.SMALL_BYTES + 1), ("a.pcap.gz", kernels.SMALL_BYTES // 2)]
)
def test_at_first_use_a_large_capture_waits_for_the_compiler(
    tmp_path: Path, started: _Started, name: str, size: int
) -> None:
    kernels.prepare_kernels([_capture(tmp_path, name, size)])
    assert not mode.interpreted()
    assert (len(started.waited), len(started.background)) == (1, 0)


@pytest.mark.parametrize("taken", ["file", "/proc/none"])
def test_a_cache_that_cannot_be_written_is_replaced(
    tmp_path: Path, started: _Started, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / taken))
    kernels.prepare_kernels([_capture(tmp_path, "a.pcap", 10)])
    assert mode.interpreted()
    assert len(started.background) == 1
    mode.mark_ready()
    assert mode.is_ready()
    assert mode.kernel_folder() == temporary_cache_folder() / "kernels"
    assert mode.kernel_folder().is_relative_to(tmp_path)


def test_nobody_else_may_write_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code in it is run."""
    cache = tmp_path / "home" / "cache"
    monkeypatch.setenv("WIRELAKE_CACHE", str(cache))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        assert mode.kernel_folder() == cache / "kernels"
    finally:
        os.umask(before)
    for folder in (cache / "kernels", cache, cache.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (cache / "kernels").chmod(0o777)
    assert mode.kernel_folder() == temporary_cache_folder() / "kernels"


def test_compiled_kernels_are_used_from_then_on(
    tmp_path: Path, started: _Started, capsys: pytest.CaptureFixture[str]
) -> None:
    mode.mark_ready()
    kernels.prepare_kernels([_capture(tmp_path, "a.pcap", 10)])
    assert not mode.interpreted()
    assert (started.waited, started.background, capsys.readouterr().err) == ([], [], "")


@pytest.mark.parametrize("chosen", ["compiled", "interpreted"])
def test_the_variable_decides(
    tmp_path: Path, started: _Started, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    monkeypatch.setenv(mode.VARIABLE, chosen)
    kernels.prepare_kernels([_capture(tmp_path, "a.pcap", 10)])
    assert mode.interpreted() == (chosen == "interpreted")
    assert (started.waited, started.background) == ([], [])


def test_imported_kernels_stay_as_they_are(tmp_path: Path, started: _Started) -> None:
    assert not mode.interpreted()
    kernels.prepare_kernels([_capture(tmp_path, "a.pcap", 10)])
    assert not mode.interpreted()
    assert started.background == []
