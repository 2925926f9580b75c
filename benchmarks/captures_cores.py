"""`wirelake read -o FILE.parquet` in a process of its own, on one core or on several.

    python -m benchmarks.captures_cores CAPTURE OUT CORES [WARM]

This runs the command itself, with `--jobs CORES`, on as many cores of this process. WARM is a small
capture that is read first, so that loading code is not counted. With two cores, the main thread
decodes and another one encodes and writes Parquet; CPU seconds are those of both, so that they tell
what the overlap costs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Written", "cores_of", "written", "written_here"]


@dataclass(frozen=True)
class Written:
    """What the command took."""

    elapsed_s: float
    cpu_s: float


def cores_of(count: int) -> list[int]:
    """Return some of the cores that this process may use; fewer if it has fewer."""
    return sorted(os.sched_getaffinity(0))[:count]


def written(capture: Path, out: Path, cores: int, warm: Path) -> Written:
    """Run the command in a new process."""
    names = (str(capture), str(out), str(cores), str(warm))
    command = [sys.executable, "-m", "benchmarks.captures_cores", *names]
    here = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=here, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace"))
    return Written(**json.loads(done.stdout))


def written_here(capture: str, out: str, cores: str, warm: str | None = None) -> Written:
    """Run the command here."""
    if warm is not None:
        _read(warm, out, cores)
    elapsed, cpu = time.perf_counter(), _cpu_s()
    _read(capture, out, cores)
    elapsed, cpu = time.perf_counter() - elapsed, _cpu_s() - cpu
    return Written(round(elapsed, 4), round(cpu, 4))


def _read(capture: str, out: str, cores: str) -> None:
    from wirelake.cli.main import main

    if code := main(["read", capture, "-o", out, "--jobs", cores]):
        raise RuntimeError(f"wirelake read exits with {code}")


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    both = (resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


if __name__ == "__main__":
    os.sched_setaffinity(0, cores_of(int(sys.argv[3])))
    print(json.dumps(asdict(written_here(*sys.argv[1:]))))
