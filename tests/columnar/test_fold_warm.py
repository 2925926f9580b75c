"""Kernels of folds are compiled for one signature each, and `warm_folds` calls them all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.columnar.folding import fold_rows, windows_of
from tests.columnar.folding_scenes import window_of
from tests.records.scenes import ask

from wirelake.columnar.fold import calls, kernels, memory, tables, tunnel_kernels
from wirelake.columnar.read.options import ReadOptions
from wirelake.columnar.read.reader import read_batches
from wirelake.columnar.read.warm import sample_protocol, small_captures, warm_folds
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow

CALLED: list[Any] = [
    *(tables.index_calls, tables.index_slots, memory._calls_in_order, memory._link),
    *(kernels.fold, kernels.end, kernels.slot_of, calls.expire_idle),
    *(tunnel_kernels.fold_tunnels, tunnel_kernels.end_all_calls, tunnel_kernels.forget_tunnels),
]
"""All that Python calls; the others are called by these."""
_THREADS = """
import threading
from wirelake.columnar.read.warm import warm_folds
warm_folds()
assert threading.active_count() == 1, "nothing may run when a process is forked"
"""


def test_warm_calls_every_kernel_and_a_capture_needs_no_more(tmp_path: Path) -> None:
    warm_folds()
    assert [len(each.signatures) for each in CALLED] == [1] * len(CALLED)
    simulate(tmp_path, size=300_000, seed=1, faults=0.01, jobs=1)
    windows = windows_of(sorted(map(str, tmp_path.glob("*.pcap*"))), window_bytes=50_000)
    silent = {"name": "report_environ", "fields": {"isp": None}, "protocol": "comet"}
    windows.append(window_of([ask(1 << 62, **silent)]))
    fold_rows(windows, [(len(windows) // 2, 2), (len(windows), 1)])
    assert [len(each.signatures) for each in CALLED] == [1] * len(CALLED)


def test_warm_starts_no_thread() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _THREADS], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_each_of_the_small_captures_is_one_message(tmp_path: Path) -> None:
    for path in small_captures(tmp_path):
        batches = read_batches([path], ReadOptions(force_protocol=sample_protocol()))
        assert sum(batch.num_rows for batch in batches) == 1, path.name
