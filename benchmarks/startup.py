"""How long a person waits for `wirelake --help`, beside a Python that does nothing."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Startup", "startup"]

_SCRIPT = Path(sys.executable).with_name("wirelake")
_SAME = "import sys; from wirelake.cli.main import main; sys.exit(main())"
"""What the script does, for a checkout that is not installed."""
_COMMANDS = {
    "wirelake --help": [
        *([str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-c", _SAME]),
        "--help",
    ],
    "python -c pass": [sys.executable, "-c", "pass"],
}


@dataclass(frozen=True)
class Startup:
    """Medians of one command, in milliseconds: on the wall clock and of its CPU."""

    wall_ms: float
    cpu_ms: float


def startup(runs: int) -> dict[str, Startup]:
    """Both commands, in turns; empty when the command is not installed or fails."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in _COMMANDS}
    for _ in range(runs):
        for name, command in _COMMANDS.items():
            spent = _run(command)
            if spent is None:
                return {}
            found[name].append(spent)
    return {
        name: Startup(
            *(round(1e3 * statistics.median(times), 2) for times in zip(*all_, strict=True))
        )
        for name, all_ in found.items()
    }


def _run(command: list[str]) -> tuple[float, float] | None:
    environment = {**os.environ, "COLUMNS": "100"}
    cpu, wall = _children_cpu(), time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
    except OSError:
        return None
    wall, cpu = time.perf_counter() - wall, _children_cpu() - cpu
    return None if done.returncode else (wall, cpu)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
