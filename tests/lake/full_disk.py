"""Run a lake on a disk that is temporarily full; started by tests as a program.

    unshare -rm python -m tests.lake.full_disk ORDER STEP disk      a small disk of its own
    python -m tests.lake.full_disk ORDER STEP limit                 files may not grow, instead

The disk is full before the second STEP, so the run fails. Then space is freed and another run
continues. Prints an `Outcome`. The lake is in a folder of its own, which is the disk. With the
master `here` the engine runs without a JVM.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from tests.lake.lake_driver import Order, perform
from tests.lake.lakes import unlike_engines

from wirelake.cli.errors import CommandError
from wirelake.tables.log import Log
from wirelake.tables.paths import LakeError

__all__ = ["Outcome", "command"]

_SIZE = "24m"
_CHUNK = bytes(4096)


class Outcome(msgspec.Struct):
    """The result."""

    error: str
    """Error of the run on the full disk."""
    commit: int | None
    """The last commit after that."""
    problems: list[str]
    """Differences between the lake and its captures after the second run."""


def command(order: Order, step: str) -> list[str]:
    """How to start the program."""
    program = [sys.executable, "-m", "tests.lake.full_disk", msgspec.json.encode(order).decode()]
    alone = ["unshare", "-rm"]
    with suppress(OSError):
        mounting = [*alone, "mount", "-t", "tmpfs", "tmpfs", str(Path(order.lake).parent)]
        if subprocess.run(mounting, check=False, capture_output=True).returncode == 0:
            return [*alone, *program, step, "disk"]
    return [*program, step, "limit"]


class _Disk:
    """A disk of its own, filled with a file."""

    def __init__(self, folder: Path):
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
        subprocess.run(mounting, check=True)
        self._filler = folder / "filler"

    def fill(self) -> None:
        with suppress(OSError), self._filler.open("wb", buffering=0) as out:
            while out.write(_CHUNK):
                pass

    def clear(self) -> None:
        self._filler.unlink(missing_ok=True)


class _Limit:
    """No file of this process and those below it may be larger than this."""

    def fill(self) -> None:
        self._set(len(_CHUNK))

    def clear(self) -> None:
        self._set(resource.RLIM_INFINITY)

    def _set(self, most: int) -> None:
        for process in (int(each) for each in os.listdir("/proc") if each.isdecimal()):
            with suppress(OSError):
                if os.getsid(process) == os.getsid(0):
                    resource.prlimit(process, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def _run(order: Order, on_step: Callable[[str], None]) -> str:
    """What went wrong."""
    try:
        perform(order, on_step)
    except (LakeError, CommandError, OSError) as error:
        return str(error)
    return ""


def main(text: str, step: str, how: str) -> None:
    """Run on the full disk, then with free space."""
    order = msgspec.json.decode(text, type=Order)
    lake = Path(order.lake)
    disk = _Disk(lake.parent) if how == "disk" else _Limit()
    times = 0

    def before(name: str) -> None:
        nonlocal times
        times += name == step
        if times == 2:
            disk.fill()

    error = _run(order, before)
    disk.clear()
    commit = Log(lake).last()
    again = _run(order, lambda _: None)
    problems = unlike_engines(lake, sorted(Path(order.captures).glob("*.pcap*")), order.keys)
    outcome = Outcome(error, commit, [again, *problems] if again else problems)
    print(msgspec.json.encode(outcome).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
