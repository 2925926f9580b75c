"""The same traffic in other files, in another order, in other steps: examples, each by a seed.

Each function gives what differs from the engines, which read the uncut captures at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.lake.cut_captures import Piece, arrive, cut, waves
from tests.lake.lakes import (
    PLACES,
    columnar_rows,
    lake_rows,
    reference_rows,
    unlike,
    unlike_engines,
)
from tests.lake.local_engine import run_here
from tests.lake.lossy_captures import write_lossy
from tests.lake.tunnel_captures import write_tunnels

from wirelake.lake.engine import tasks as planning
from wirelake.lake.engine.run import Outcome, run
from wirelake.lake.verify.verify import verify
from wirelake.tables.log import Log
from wirelake.traffic import simulate

__all__ = [
    "at_every_commit",
    "cut_here",
    "cut_with_spark",
    "lossy_here",
    "lossy_with_spark",
    "tunnels_here",
]

_FAR = 86_400.0
"""A lateness that no simulation exceeds: nothing is settled before all of it is in."""


def cut_here(folder: Path, seed: int) -> list[str]:
    """Simulated traffic, without a JVM."""
    rng = random.Random(seed)
    keys = _simulated(folder, rng)
    pieces = cut(folder / "sim", rng, most_sources=rng.randint(1, 3))
    _in_waves(folder, pieces, keys, rng)
    return unlike_engines(folder / "lake", captures_in(folder / "sim"), keys, without=PLACES)


def tunnels_here(folder: Path, seed: int) -> list[str]:
    """Tunnels that move from link to link of several sources, some with gaps, without a JVM."""
    rng = random.Random(seed)
    (folder / "sim").mkdir()
    write_tunnels(folder / "sim" / "relay.pcap", rng, lost=rng.choice([0, 0.05]))
    _in_waves(folder, cut(folder / "sim", rng, most_sources=3, most_files=5), (), rng)
    return unlike_engines(folder / "lake", captures_in(folder / "sim"), (), without=PLACES)


def lossy_here(folder: Path, seed: int, *, quick: bool = False) -> list[str]:
    """Lossy traffic: one file and many, small windows, both readers, a lake in one step and many.

    The rows of the reference and the engines over the uncut capture are the expected ones. `quick`
    leaves out what is cut least.
    """
    rng = random.Random(seed)
    whole = folder / "sim" / "lossy.pcap"
    keys = write_lossy(whole, folder / "clean", seed)
    wanted = reference_rows([whole], keys)
    pieces = cut(folder / "sim", rng, most_files=12)
    arrive(folder / "files", pieces)
    files = captures_in(folder / "files")
    small = whole.stat().st_size // rng.choice([7, 20])
    given = {"columnar, many files, small windows": columnar_rows(files, keys, small)}
    if not quick:
        run_here(folder / "one", folder / "sim", keys=keys)
        given |= {
            "reference, many files": reference_rows(files, keys),
            "columnar, one file": columnar_rows([whole], keys),
            "columnar, many files": columnar_rows(files, keys),
            "columnar, small windows": columnar_rows([whole], keys, small),
            "lake, one step": lake_rows(folder / "one"),
        }
    pieces = cut(folder / "sim", rng, most_sources=rng.choice([1, 2]), most_files=8)
    _in_waves(folder, pieces, keys, rng, windows=(None, small))
    given["lake, many steps"] = lake_rows(folder / "lake")
    return [f"{name}: {each}" for name, rows in given.items() for each in unlike(rows, wanted)]


def lossy_with_spark(spark: SparkSession, folder: Path, seed: int) -> list[str]:
    """Lossy traffic: a lake in one step and one in many, with a Spark session."""
    rng = random.Random(seed)
    keys = write_lossy(folder / "sim" / "lossy.pcap", folder / "clean", seed)
    wanted = reference_rows([folder / "sim" / "lossy.pcap"], keys)
    run(folder / "one", folder / "sim", spark=lambda: spark, keys=keys)
    pieces = cut(folder / "sim", rng, most_sources=rng.choice([1, 2]), most_files=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_SHARE_BYTES", 1)
        for wave in waves(pieces, rng, 3):
            arrive(folder / "in", wave)
            run(folder / "many", folder / "in", spark=lambda: spark, keys=keys, max_files=2)
    given = {name: lake_rows(folder / name) for name in ("one", "many")}
    return [f"{name}: {each}" for name in given for each in unlike(given[name], wanted)]


def at_every_commit(folder: Path, seed: int) -> list[str]:
    """After each commit: what the engines make of the files that are in, places and all."""
    rng = random.Random(seed)
    keys = _simulated(folder, rng)
    problems: list[str] = []
    arrive(folder / "in", cut(folder / "sim", rng))

    def look(_: object) -> None:
        sources = Log(folder / "lake").snapshot().sources.values()
        files = [Path(each.path) for source in sources for each in source.inputs]
        problems.extend(unlike_engines(folder / "lake", files, keys))

    run_here(folder / "lake", folder / "in", keys=keys, max_files=2, committed=look)
    return problems


def cut_with_spark(spark: SparkSession, folder: Path, seed: int) -> list[str]:
    """Simulated traffic, with everything: streams and runs take turns, shares change."""
    rng = random.Random(seed)
    keys = _simulated(folder, rng)
    pieces = cut(folder / "sim", rng, most_sources=2, most_files=3)
    stream = rng.random() < 0.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_SHARE_BYTES", 1)
        for wave in waves(pieces, rng, 3):
            arrive(folder / "in", wave)
            outcome = run(
                folder / "lake",
                folder / "in",
                spark=lambda: spark,
                keys=keys,
                stream=stream,
                available_now=stream,
                lateness_s=_FAR,
            )
            stream = not stream
    return [
        *unread(outcome),
        *unlike_engines(folder / "lake", captures_in(folder / "sim"), keys, without=PLACES),
        *verify(folder / "lake", keys=keys, shares=1).findings(),
    ]


def captures_in(folder: Path) -> list[Path]:
    """The captures of a simulation."""
    return sorted(folder.glob("*.pcap*"))


def unread(outcome: Outcome) -> list[str]:
    """Return the captures that a run did not read."""
    waiting = [f"{capture.name}: {why}" for capture, why in outcome.waiting]
    return waiting + [f"{each.path}: {each.fault}" for each in outcome.refused]


def _simulated(folder: Path, rng: random.Random) -> list[str]:
    """Create captures; return their key logs."""
    simulate(
        folder / "sim", size=200_000, seed=rng.randrange(999), faults=rng.choice([0, 0.01]), jobs=1
    )
    return [str(path) for path in sorted((folder / "sim").glob("*.keys"))]


def _in_waves(
    folder: Path,
    pieces: Sequence[Piece],
    keys: Sequence[str],
    rng: random.Random,
    windows: Sequence[int | None] = (None, 3_000, 50_000),
) -> None:
    for wave in waves(pieces, rng, rng.randint(1, 4)):
        arrive(folder / "in", wave)
        outcome = run_here(
            folder / "lake",
            folder / "in",
            keys=keys,
            workers=rng.randint(1, 3),
            max_files=rng.choice([None, 1, 2, 3]),
            window_bytes=rng.choice(windows),
        )
    assert unread(outcome) == []
