"""Simulated traffic: capture files, and the truth about them.

    summary = simulate("out", size="200MB", seed=1)

A run is cut into shards, each of which follows from the seed alone; processes share them, and the
result is the same however many there are. The folder then has

    edge-a-00000000.pcapng ...    captures in the style of our recorder
    tap-a-00000000.pcap ...       captures in the style of tcpdump, and their key logs (*.keys)
    truth/calls.parquet ...       what a reader must find, by table
    truth.json                    a summary
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

from .plan import SimulateError, parse_size, plan
from .scenes import provider
from .shard import Made, Shard, run
from .summary import Summary, gather

__all__ = ["Progress", "simulate"]

Progress = Callable[[int, int], None]
"""Called with the bytes written so far and the bytes in total."""

_PARTS: Final = Path("truth") / ".parts"
_SINGLE_BYTES: Final = 32_000_000
"""Below this size, starting processes takes longer than the work."""


def simulate(
    out: str | os.PathLike[str],
    *,
    size: int | str = "200MB",
    seed: int = 0,
    faults: float = 0.0,
    protocols: Sequence[str] | None = None,
    style: str = "both",
    jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Write captures and their truth to a folder. Raises SimulateError.

    `size` is the approximate size of all captures. `faults` is the share of messages with a fault.
    `protocols` are the built-in ones by default; others can be named (`scenes/provider.py`).
    `style` is recorder, tcpdump or both. `jobs` is the number of processes, by default one per
    processor; they are spawned, so a script that asks for several needs the usual
    `if __name__ == "__main__"`. A folder that is not empty is refused, or emptied with `force`.
    """
    total = parse_size(size) if isinstance(size, str) else size
    protocols = provider.built_in() if protocols is None else protocols
    shards = plan(size=total, seed=seed, faults=faults, protocols=protocols, style=style)
    if jobs is not None and jobs < 1:
        raise SimulateError(f"invalid number of jobs {jobs}; expected at least 1")
    folder = _prepare(Path(out), force)
    if jobs is None:
        jobs = 1 if total < _SINGLE_BYTES else os.cpu_count() or 1
    workers = min(len(shards), jobs)
    made: list[Made] = []
    for each in _generate(shards, folder, workers):
        made.append(each)
        if progress is not None:
            progress(sum(one.bytes for one in made), total)
    summary = gather(folder, made)
    shutil.rmtree(folder / _PARTS)
    _write_summary(folder, summary, shards, protocols, style)
    return summary


def _prepare(folder: Path, force: bool) -> Path:
    """Return an empty folder with a subfolder for parts of truth."""
    if folder.exists() and not folder.is_dir():
        raise SimulateError(f"{folder}: not a directory")
    if folder.is_dir() and any(folder.iterdir()):
        if not force:
            raise SimulateError(f"{folder}: not empty")
        for each in folder.iterdir():
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    (folder / _PARTS).mkdir(parents=True)
    return folder


def _generate(shards: list[Shard], folder: Path, workers: int) -> Iterator[Made]:
    """Generate the shards, in order."""
    if workers == 1:
        for shard in shards:
            yield run(shard, folder)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(run, shards, [folder] * len(shards))


def _write_summary(
    folder: Path, summary: Summary, shards: list[Shard], protocols: Sequence[str], style: str
) -> None:
    options: dict[str, Any] = {
        "seed": shards[0].seed,
        "style": style,
        "protocols": sorted(protocols),
        "faults": shards[0].faults,
    }
    text = json.dumps({"asked": options, **summary.as_json()}, indent=2, ensure_ascii=False)
    (folder / "truth.json").write_text(text + "\n", encoding="utf-8")
