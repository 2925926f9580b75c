"""A program that records while its disk is full for a while, reads what it has recorded, and tells.

    python -m tests.capture.outage FOLDER disk|limit

With `disk`, the folder gets a disk of its own, so it must be run where that may be (`unshare -rm`);
with `limit`, no file may grow instead.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.capture.frames_made import frames

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format.writer import OPEN_SUFFIX, sealed_files
from wirelake.capture.record.recorder import Recorder

__all__ = ["FRAME", "LOST", "main"]

FRAME = frames("tny", "c2s")[0]
LOST = 5
"""Frames that cross while the disk is full."""
SECOND = 1_000_000_000
CLIENT, SERVER = ("10.0.0.9", 51_000), ("10.0.0.1", 4_444)


class Disk:
    """A small disk, filled with a file."""

    def __init__(self, folder: Path):
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=True
        )
        self._filler = folder / "filler"

    def fill(self) -> None:
        with suppress(OSError), self._filler.open("wb", buffering=0) as out:
            while out.write(bytes(4096)):
                pass

    def clear(self) -> None:
        self._filler.unlink()


class Limit:
    """Files that may not grow."""

    def __init__(self, _: Path):
        self._most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._most[1]))

    def clear(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._most)


def fails(step: Callable[[], object]) -> str:
    """Why a step raises OSError; empty when it does not."""
    try:
        step()
    except OSError as error:
        return error.strerror or "?"
    return ""


def record(folder: Path, disk: Disk | Limit) -> dict[str, Any]:
    """Connection 1 is there all the time; 2 is closed and 3 opened during the outage."""
    recorder = Recorder(folder, source="edge", flush_bytes=1)
    for number in (1, 2):
        recorder.open(number, CLIENT, SERVER, "tny", SECOND)
        recorder.record(number, "c2s", FRAME, 2 * SECOND)
    disk.fill()
    crossed = 0
    reason = ""
    while not reason:
        crossed += 1
        reason = fails(lambda: recorder.record(1, "c2s", FRAME, 3 * SECOND))
    recorder.suspend(3 * SECOND, reason)
    still_open = fails(lambda: recorder.resume(3 * SECOND))
    for _ in range(LOST):
        recorder.record(1, "c2s", FRAME, 4 * SECOND)
    recorder.fact("publish", 4 * SECOND, None, id=1)
    recorder.secrets("{}")
    recorder.close(2, 4 * SECOND, "eof", "client")
    recorder.open(3, CLIENT, SERVER, "tny", 4 * SECOND)
    recorder.tick(5 * SECOND)
    assert recorder.rotate() is None
    again = fails(lambda: recorder.resume(5 * SECOND))
    disk.clear()
    recorder.resume(6 * SECOND)
    for number in (1, 3):
        recorder.record(number, "c2s", FRAME, 7 * SECOND)
        recorder.close(number, 8 * SECOND, "eof", "client")
    recorder.stop()
    return {"crossed": crossed, "reasons": [reason, still_open, again]}


def main() -> None:
    """As the module says."""
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    result = record(folder, {"disk": Disk, "limit": Limit}[kind](folder))
    tables: dict[str, list[dict[str, Any]]] = {}
    for table, row in read_tables(sealed_files(folder), tables=["messages", "faults", "facts"]):
        tables.setdefault(table, []).append(row)
    result |= {
        "files": [path.name for path in sealed_files(folder)],
        "open": len(list(folder.glob(f"*{OPEN_SUFFIX}"))),
        "messages": [row["connection"] for row in tables["messages"]],
        "faults": [
            (row["connection"], row["code"], row["missing_bytes"])
            for row in tables.get("faults", [])
        ],
        "lost": [row["data"] for row in tables["facts"] if row["kind"] == "lost"],
        "closed": [
            (row["connection"], row["ts_ns"]) for row in tables["facts"] if row["kind"] == "close"
        ],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
