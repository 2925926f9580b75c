"""What the parts of `benchmarks.lake` share: sizes, captures, a worker, and taking turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wirelake.traffic import simulate

from .lake_worker import Taken, Worker

__all__ = ["MB", "Plan", "turns"]

MB = 1_000_000
_WARM_BYTES = 400_000


@dataclass(frozen=True)
class Plan:
    """Where to work, and how much."""

    folder: Path
    """Of this part alone; removed after it."""
    shared: Path
    """For captures that several parts read."""
    scale: float = 1.0
    """Of all sizes; 1 is the full run."""
    rounds: int = 3
    seconds: float = 20.0
    """How long captures arrive at each rate."""

    def size(self, megabytes: float) -> int:
        """A size of the full run, as this run has it."""
        return max(int(megabytes * MB * self.scale), 100_000)

    def captures(self, megabytes: float) -> Path:
        """A folder with simulated captures of both styles and their keys, made once in a run."""
        return self._simulated(f"{megabytes:g}", self.size(megabytes))

    @contextmanager
    def worker(self, cores: int = 2, conf: Mapping[str, str] | None = None) -> Iterator[Worker]:
        """A Spark of its own in a process of its own, which has read something."""
        own = {"spark.local.dir": str(self.folder / f"spark-{cores}")}
        with Worker(cores, {**own, **(conf or {})}) as worker:
            warm = self._simulated("warm", _WARM_BYTES)
            worker.do("lake", captures=str(warm), to=str(self.folder / f"warm-{cores}"))
            yield worker

    def _simulated(self, name: str, size: int) -> Path:
        folder = self.shared / name
        if not folder.exists():
            simulate(folder, size=size, seed=1)
        return folder


def turns(passes: Mapping[str, Callable[[], Taken]], rounds: int) -> dict[str, Taken]:
    """The quickest of some passes of each contender, which take turns in changing order."""
    found: dict[str, list[Taken]] = {name: [] for name in passes}
    names = list(passes)
    for turn in range(rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            found[name].append(passes[name]())
    return {name: min(each, key=lambda taken: taken.seconds) for name, each in found.items()}
