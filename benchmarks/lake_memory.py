"""What a run of Spark holds and spills: memory of its processes, and what its event log says.

Memory is anonymous memory: what a process has allocated. Pages of files that are mapped are not
part of it. A worker counts as its own what it shares with the process from which it was forked.
Linux keeps no peak of it, so it is looked at ten times a second.
"""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Memory", "event_log", "spilled"]

_EVERY_S = 0.1
_NAME = re.compile(rb"Name:\s+(\S+)")
_PARENT = re.compile(rb"PPid:\s+(\d+)")
_ANONYMOUS = re.compile(rb"RssAnon:\s+(\d+) kB")


class Memory:
    """Looks at a process and all below it for a while."""

    def __init__(self, pid: int):
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peaks_mb: dict[str, float] = {}
        """The most that one process had, by what it is: driver, JVM, worker; and all together."""

    def __enter__(self) -> Memory:
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.look()

    def look(self) -> None:
        """Looks once."""
        total = 0.0
        for pid, (name, held) in _below(self._pid, _processes()).items():
            role = "driver" if pid == self._pid else "JVM" if name == "java" else "worker"
            self._note(role, held)
            total += held
        self._note("all", total)

    def _note(self, role: str, held: float) -> None:
        self.peaks_mb[role] = max(held, self.peaks_mb.get(role, 0.0))


def _processes() -> dict[int, tuple[int, str, float]]:
    """Parent, name and anonymous megabytes of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            text = path.read_bytes()
        except OSError:
            continue  # it has just ended
        name, parent, held = (each.search(text) for each in (_NAME, _PARENT, _ANONYMOUS))
        if name and parent and held:
            megabytes = int(held[1]) * 1024 / 1e6
            found[int(path.parent.name)] = int(parent[1]), name[1].decode(), megabytes
    return found


def _below(root: int, processes: dict[int, tuple[int, str, float]]) -> dict[int, tuple[str, float]]:
    """A process and its children, and theirs."""
    chosen = {root} & processes.keys()
    while more := {pid for pid, each in processes.items() if each[0] in chosen} - chosen:
        chosen |= more
    return {pid: processes[pid][1:] for pid in chosen}


# -- what was spilled --------------------------------------------------------------------------


def event_log(folder: Path) -> dict[str, str]:
    """Settings with which Spark writes its log of events, as plain JSON, to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def spilled(folder: Path) -> tuple[int, int]:
    """Bytes that tasks took from memory, and what that came to on disk."""
    memory = disk = 0
    for path in folder.iterdir():
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                metrics: dict[str, Any] = {}
                if '"SparkListenerTaskEnd"' in line:
                    metrics = json.loads(line).get("Task Metrics") or {}
                memory += metrics.get("Memory Bytes Spilled", 0)
                disk += metrics.get("Disk Bytes Spilled", 0)
    return memory, disk
