"""The parts of `benchmarks.captures`: each makes what it needs, checks, times and judges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.traffic import simulate

from .captures_answers import answers
from .captures_cores import written
from .captures_dpkt import read_with_dpkt
from .captures_live import live_runs
from .captures_made import many_connections, one_connection, prefix, simulated
from .captures_parquet import (
    finished_tables,
    read_all,
    through,
    write_finished,
    write_finished_alike,
)
from .captures_reader import Reading, reading
from .captures_recorder import FRAMES, recorder_passes
from .captures_report import Findings, at_least, at_most
from .captures_tshark import dissected
from .corpus import PROTOCOLS
from .timing import race

__all__ = ["PARTS", "Plan"]

MB = 1_000_000


@dataclass(frozen=True)
class Plan:
    """Where to work, and how much."""

    folder: Path
    scale: float = 1.0
    """Of all sizes; 1 is the full run."""
    seconds: float = 2.0
    """Of CPU for each contender that is timed in turns."""
    rounds: int = 3
    protocols: tuple[str, ...] = PROTOCOLS
    """For what is done protocol by protocol."""

    def size(self, megabytes: float) -> int:
        """A size of the full run, as this run has it."""
        return max(int(megabytes * MB * self.scale), 100_000)


# -- against dpkt ----------------------------------------------------------------------------


def dpkt(plan: Plan) -> Findings:
    """Capture to batches of messages, beside dpkt and the scalar codec."""
    found = Findings("capture to batches of messages, beside dpkt and the scalar codec")
    capture = simulated(plan.folder / "dpkt", plan.size(20))
    check = prefix(capture, min(2 * MB, plan.size(20)), plan.folder / "check.pcap")
    compare(check)
    rows = sum(batch.num_rows for batch in read_batches([capture]))
    passes: dict[str, Callable[[], None]] = {
        "wirelake": lambda: _drain(read_batches([capture])),
        "dpkt": lambda: _drain(read_with_dpkt(capture)),
    }
    times = race(passes, rows, plan.seconds, plan.rounds)
    size = capture.stat().st_size
    for name, timing in times.items():
        found.add(f"{name}: rows", 1 / timing.best_us, "M rows/s")
        found.add(f"{name}: capture", size / (timing.best_us * rows), "MB/s")
    ratio = times["dpkt"].best_us / times["wirelake"].best_us
    found.rules += at_least("capture to messages: speed of dpkt and the codec", ratio, 20, 40)
    return found


def compare(capture: Path) -> None:
    """Both read the same rows."""
    ours, theirs = _rows(read_batches([capture])), _rows(read_with_dpkt(capture))
    if ours != theirs:
        odd = next(iter((ours - theirs) + (theirs - ours)))
        raise RuntimeError(f"one of them alone has this row: {odd}")


def _rows(batches: Any) -> Counter[str]:
    """Rows without their order, and without the offset that dpkt does not tell."""
    found: Counter[str] = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            row["offset"] = None
            found[repr(sorted((k, v) for k, v in row.items() if v is not None))] += 1
    return found


def _drain(batches: Any) -> None:
    for _ in batches:
        pass


# -- Parquet ---------------------------------------------------------------------------------


def parquet(plan: Plan) -> Findings:
    """Capture to Parquet, beside pyarrow writing the finished tables."""
    found = Findings("capture to Parquet, beside writing the finished tables")
    for name in plan.protocols:
        capture = simulated(plan.folder / name, plan.size(80), protocols=[name])
        tables = finished_tables(capture)
        out = plan.folder / "parquet"
        out.mkdir(exist_ok=True)
        passes: dict[str, Callable[[], None]] = {
            "write": partial(write_finished, tables, out),
            "write with our encodings": partial(write_finished_alike, tables, out),
            "through": partial(through, capture, out),
            "read": partial(read_all, capture),
        }
        rows = sum(table.num_rows for table in tables.values())
        times = race(passes, rows, plan.seconds, plan.rounds)
        for what, timing in times.items():
            found.add(f"{name}: {what}", 1 / timing.best_us, "M rows/s")
        ratio = times["through"].best_us / times["write"].best_us
        found.rules += at_most(f"{name} capture to Parquet: time of the write", ratio, 1.5)
        capture.unlink()
    return found


def cores(plan: Plan) -> Findings:
    """Capture to Parquet by the command, on one core and on two."""
    found = Findings("wirelake read -o FILE.parquet of one file, on one core and on two")
    capture = simulated(plan.folder / "cores", plan.size(600))
    warm = prefix(capture, MB, plan.folder / "warm.pcap")
    found.add("capture", capture.stat().st_size / MB, "MB")
    best = {}
    for count in (1, 2):
        runs = [
            written(capture, plan.folder / "out.parquet", count, warm) for _ in range(plan.rounds)
        ]
        best[count] = min(each.elapsed_s for each in runs)
        found.add(f"--jobs {count}: elapsed", best[count], "s")
        found.add(f"--jobs {count}: CPU", min(each.cpu_s for each in runs), "s")
    speed = best[1] / best[2]
    found.rules += at_least("read to Parquet: speed of two cores beside one", speed, 1.7)
    return found


# -- other tools and parts -------------------------------------------------------------------


def tshark(plan: Plan) -> Findings:
    """tshark with our dissector, which is only reported."""
    found = Findings("tshark with our dissector")
    result = dissected(simulated(plan.folder / "tshark", plan.size(20)), plan.folder)
    if result is not None:
        found.add("capture", result.mb_per_s, "MB/s")
        found.add("packets with messages", result.packets / result.cpu_s, "1/s")
    return found


def questions(plan: Plan) -> Findings:
    """SQL and reports from a capture, beside DuckDB over finished tables."""
    found = Findings("sql and report of a capture, beside DuckDB over the finished Parquet")
    capture = simulated(plan.folder / "answers", plan.size(200))
    size = capture.stat().st_size / MB
    found.add("capture", size, "MB")
    for name, answer in answers(capture, plan.rounds).items():
        found.add(f"{name}: from the capture", answer.capture_s, "s")
        found.add(f"{name}: from the capture", size / answer.capture_s, "MB/s")
        found.add(f"{name}: DuckDB, finished Parquet", answer.tables_s, "s")
        found.add(f"{name}: capture / finished Parquet", answer.capture_s / answer.tables_s, "x")
    return found


def live(plan: Plan) -> Findings:
    """A pipe to JSON lines, beside tshark with our dissector."""
    found = Findings("live: a pipe to lines, beside tshark -l")
    runs = live_runs(simulated(plan.folder / "live", plan.size(20)), plan.folder)
    for name, run in runs.items():
        found.add(f"{name}: capture", run.mb_per_s, "MB/s")
        found.add(f"{name}: lines", run.lines, "lines")
    if "tshark" in runs:
        ratio = runs["wirelake"].mb_per_s / runs["tshark"].mb_per_s
        found.rules += at_least("live decoding, as times of tshark -l", ratio, 1.0)
    return found


def recorder(plan: Plan) -> Findings:
    """Frames that the recorder takes."""
    found = Findings("recorder: frames of 150 bytes")
    frames = max(1_600, int(FRAMES * plan.scale))
    for name, timing in race(
        recorder_passes(plan.folder, frames), frames, plan.seconds, plan.rounds
    ).items():
        speed = 1e6 / timing.best_us
        found.add(name, speed, "frames/s")
        found.rules += at_least(f"recorder, {name}: frames/s", speed, 500_000)
    return found


def simulation(plan: Plan) -> Findings:
    """What one core simulates."""
    found = Findings("simulate, on one core")
    size = plan.size(400)
    folder = plan.folder / "simulation"
    simulate(folder, size=100_000, jobs=1, force=True)
    start = time.process_time()
    summary = simulate(folder, size=size, jobs=1, force=True)
    speed = summary.bytes / (time.process_time() - start) / MB
    found.add("captures with their truth", speed, "MB/s")
    found.rules += at_least("simulate: MB/s on one core", speed, 40, 100)
    return found


# -- size and shape --------------------------------------------------------------------------


def sizes(plan: Plan) -> Findings:
    """Throughput and memory do not depend on the size of the capture."""
    found = Findings("captures of 0.2, 0.6 and 2 GB")
    whole = simulated(plan.folder / "sizes", plan.size(2_000))
    warm = prefix(whole, MB, plan.folder / "warm.pcap")
    readings = []
    for megabytes in (200, 600, 2_000):
        part = whole
        if megabytes < 2_000:
            part = prefix(whole, plan.size(megabytes), plan.folder / f"{megabytes}.pcap")
        each = best_reading(part, warm, plan.rounds)
        readings.append(each)
        found.add(f"{each.bytes / MB:,.0f} MB: capture", each.mb_per_s, "MB/s")
        found.add(f"{each.bytes / MB:,.0f} MB: anonymous memory", each.peak_anonymous_mb, "MB")
    speeds = [each.mb_per_s for each in readings]
    held = [each.peak_anonymous_mb for each in readings]
    found.rules += at_most("sizes: fastest to slowest", max(speeds) / min(speeds), 1.15)
    found.rules += at_most("sizes: most to least memory", max(held) / min(held), 1.10)
    return found


def shapes(plan: Plan) -> Findings:
    """A packet costs the same in a million connections and in one."""
    found = Findings("many connections, and one")
    usual = simulated(plan.folder / "usual", plan.size(200))
    warm = prefix(usual, MB, plan.folder / "warm.pcap")
    many, one = plan.folder / "many.pcap", plan.folder / "one.pcap"
    connections = max(1_000, int(1_000_000 * plan.scale))
    packets = {
        "usual": (usual, _packets(usual)),
        f"{connections:,} connections": (many, many_connections(many, connections)),
        "one connection": (one, one_connection(one, plan.size(2_000))),
    }
    costs = {}
    for name, (capture, count) in packets.items():
        each = best_reading(capture, warm, plan.rounds)
        costs[name] = 1e6 * each.cpu_s / count
        found.add(f"{name}: packet", costs[name], "µs")
        found.add(f"{name}: anonymous memory", each.peak_anonymous_mb, "MB")
    for name in list(packets)[1:]:
        ratio = costs[name] / costs["usual"]
        found.rules += at_most(f"{name}: time of the usual packet", ratio, 2.0)
    return found


def best_reading(capture: Path, warm: Path, rounds: int) -> Reading:
    """The quickest of some; the memory of all is that of the hungriest."""
    found = [reading(capture, warm) for _ in range(rounds)]
    best = min(found, key=lambda each: each.cpu_s)
    peak = max(each.peak_anonymous_mb for each in found)
    return Reading(best.bytes, best.rows, best.cpu_s, best.wall_s, peak)


def _packets(capture: Path) -> int:
    options = ReadOptions(table="packets", columns=["ts_ns"])
    return sum(batch.num_rows for batch in read_batches([capture], options))


PARTS: dict[str, Callable[[Plan], Findings]] = {
    "dpkt": dpkt,
    "parquet": parquet,
    "cores": cores,
    "answers": questions,
    "tshark": tshark,
    "live": live,
    "recorder": recorder,
    "simulate": simulation,
    "sizes": sizes,
    "shapes": shapes,
}
"""What can be asked for."""
