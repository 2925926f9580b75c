"""Simulated traffic, as capture files with the truth beside them.

    summary = simulate("out", size="200MB", seed=1)

A run is cut into shards, each of which follows from the seed alone; processes share them, and the
result is the same however many there are. In the folder there are then

    edge-a-00000000.pcapng ...    captures in the style of our recorder
    tap-a-00000000.pcap ...       captures in the style of tcpdump, and their key logs (*.keys)
    truth/calls.parquet ...       what a reader must find, table by table
    truth.json                    a summary for people
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from .plan import (
    PROTOCOLS,
    SimulateError,
    parse_size,
    plan,
)
from .shard import (
    Made,
    Shard,
    run,
)
from .summary import Summary, gather

__all__ = ["Progress", "simulate"]

Progress = Callable[[int, int], None]
"""Is told how many bytes are made, and of how many."""

_PARTS: Final = Path("truth") / ".parts"
_ALONE_BYTES: Final = 32_000_000
"""Below this, starting processes takes longer than the work."""


def simulate(
    out: str | os.PathLike[str],
    *,
    size: int | str = "200MB",
    seed: int = 0,
    faults: float = 0.0,
    protocols: Sequence[str] = PROTOCOLS,
    style: str = "both",
    jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Makes a folder of captures and truth.

    `size` is about what the captures have together. `faults` is the share of messages that are
    spoilt. `style` is recorder, tcpdump or both. `jobs` is the number of processes, by default one
    for each processor; they are started anew, so a script that asks for several must have the usual
    `if __name__ == "__main__"`. A folder that is not empty is refused unless `force`, which empties
    it. SimulateError says what cannot be.
    """
    total = parse_size(size) if isinstance(size, str) else size
    shards = plan(size=total, seed=seed, faults=faults, protocols=protocols, style=style)
    if jobs is not None and jobs < 1:
        raise SimulateError("jobs: wanted at least 1")
    folder = _prepared(Path(out), force)
    if jobs is None:
        jobs = 1 if total < _ALONE_BYTES else os.cpu_count() or 1
    workers = min(len(shards), jobs)
    made: list[Made] = []
    for each in _made(shards, folder, workers):
        made.append(each)
        if progress is not None:
            progress(sum(one.bytes for one in made), total)
    summary = gather(folder, made)
    shutil.rmtree(folder / _PARTS)
    _describe(folder, summary, shards, protocols, style)
    return summary


def _prepared(folder: Path, force: bool) -> Path:
    """An empty folder with room for parts of truth."""
    if folder.exists() and not folder.is_dir():
        raise SimulateError(f"{folder}: not a folder")
    if folder.is_dir() and any(folder.iterdir()):
        if not force:
            raise SimulateError(f"{folder}: not empty")
        for each in folder.iterdir():
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    (folder / _PARTS).mkdir(parents=True)
    return folder


def _made(shards: list[Shard], folder: Path, workers: int) -> Iterator[Made]:
    """The shards in their order, by so many processes."""
    if workers == 1:
        for shard in shards:
            yield run(shard, folder)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(run, shards, [folder] * len(shards))


def _describe(
    folder: Path, summary: Summary, shards: list[Shard], protocols: Sequence[str], style: str
) -> None:
    asked: dict[str, Any] = {
        "seed": shards[0].seed,
        "style": style,
        "protocols": sorted(protocols),
        "faults": shards[0].faults,
    }
    text = json.dumps({"asked": asked, **summary.as_json()}, indent=2, ensure_ascii=False)
    (folder / "truth.json").write_text(text + "\n", encoding="utf-8")
