"""Reads one capture in a process of its own, and says what it took: CPU, memory, rows.

    python -m benchmarks.captures_reader CAPTURE [WARM]

WARM is a small capture that is read first, so that loading code is not counted. Anonymous memory
is what the process has allocated; pages of files that are mapped are not part of it. Linux keeps no
peak of it, so it is looked at after every batch.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Reading", "reading"]

_ANONYMOUS = re.compile(rb"RssAnon:\s+(\d+) kB")


@dataclass(frozen=True)
class Reading:
    """What reading a capture took."""

    bytes: int
    rows: int
    cpu_s: float
    wall_s: float
    peak_anonymous_mb: float

    @property
    def mb_per_s(self) -> float:
        """Megabytes of capture for each second of CPU."""
        return self.bytes / self.cpu_s / 1e6


def reading(capture: Path, warm: Path) -> Reading:
    """Reads the messages of a capture in a new process."""
    command = [sys.executable, "-m", "benchmarks.captures_reader", str(capture), str(warm)]
    here = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=here, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace"))
    return Reading(**json.loads(done.stdout))


def measured(capture: str, warm: str | None = None) -> Reading:
    """Reads the messages of a capture here."""
    if warm is not None:
        _read(warm)
    wall, cpu = time.perf_counter(), time.process_time()
    rows, peak = _read(capture)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Reading(os.path.getsize(capture), rows, round(cpu, 4), round(wall, 4), peak)


def _read(capture: str) -> tuple[int, float]:
    from wirelake.columnar.read.reader import read_batches

    rows, peak = 0, 0.0
    for batch in read_batches([capture]):
        rows += batch.num_rows
        peak = max(peak, anonymous_mb())
    return rows, peak


def anonymous_mb() -> float:
    """Anonymous memory of this process, in megabytes."""
    found = _ANONYMOUS.search(Path("/proc/self/status").read_bytes())
    return int(found[1]) * 1024 / 1e6 if found else 0.0


if __name__ == "__main__":
    print(json.dumps(asdict(measured(*sys.argv[1:]))))
