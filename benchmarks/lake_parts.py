"""The parts of `benchmarks.lake`: each makes what it needs, checks, times and judges."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from .captures_made import many_connections, simulated
from .captures_report import Findings, at_least, at_most
from .lake_made import lopsided
from .lake_memory import Memory, event_log, spilled
from .lake_plan import MB, Plan, turns
from .lake_stream import stream
from .lake_worker import Taken, Worker

__all__ = ["PARTS", "compare"]

MESSAGES = ("messages",)
"""For a lake that has what comes from decoding, and nothing else."""
ROOM = {"spark.driver.memory": "4g"}
"""Others are not to be slow for want of memory."""
_TAPS = ("a", "b", "c", "d")
_PLAIN, _APART = "one job", "a job for each protocol"
"""Two ways in which Spark copies a table: as anybody would, and as one who knows its files."""


# -- against Spark -----------------------------------------------------------------------------


def copy(plan: Plan) -> Findings:
    """Captures to committed messages, beside Spark copying that table."""
    found = Findings("captures to committed messages, beside Spark copying them")
    captures, to = plan.captures(200), str(plan.folder / "copy")
    with plan.worker(conf=ROOM) as worker:
        wanted = _lake(plan, worker, captures, "table", MESSAGES).rows
        copied = partial(worker.do, "copy", lake=str(plan.folder / "table"), to=to)
        times = turns(
            {
                "wirelake": lambda: _lake(plan, worker, captures, "messages", MESSAGES),
                "wirelake, all tables": lambda: _lake(plan, worker, captures, "all"),
                f"Spark, {_PLAIN}": lambda: copied(apart=False),
                f"Spark, {_APART}": lambda: copied(apart=True),
            },
            plan.rounds,
        )
    for name, taken in times.items():
        compare(name, taken.rows, wanted)
        found.add(f"{name}: messages", taken.rows / taken.seconds / MB, "M rows/s")
        if taken.bytes:
            found.add(f"{name}: captures", taken.mb_per_s, "MB/s")
    ours = times["wirelake"].seconds
    plain, apart = (times[f"Spark, {how}"].seconds / ours for how in (_PLAIN, _APART))
    found.add(f"Spark, {_PLAIN}: time of ours", plain, "times")
    found.add(f"Spark, {_APART}: time of ours", apart, "times")
    quickest = min(plain, apart)
    found.rules += at_least("captures to messages: speed of Spark's copy", quickest, 2.5, 4)
    return found


def udf(plan: Plan) -> Findings:
    """Captures to committed messages, beside Spark calling the plain codec."""
    found = Findings("captures to committed messages, beside a function that decodes in Python")
    large = _taps(plan.folder / "large", plan.size(200))
    small = _taps(plan.folder / "small", plan.size(12))
    with plan.worker(conf=ROOM) as worker:
        wanted = _lake(plan, worker, small, "small-lake", MESSAGES).rows
        times = turns(
            {
                "wirelake": lambda: _lake(plan, worker, large, "large-lake", MESSAGES),
                "function": lambda: worker.do(
                    "udf", captures=str(small), to=str(plan.folder / "udf")
                ),
            },
            plan.rounds,
        )
    compare("function", times["function"].rows, wanted)
    for name, taken in times.items():
        found.add(f"{name}: captures", taken.mb_per_s, "MB/s")
        found.add(f"{name}: messages", taken.rows / taken.seconds / MB, "M rows/s")
    ratio = times["wirelake"].mb_per_s / times["function"].mb_per_s
    found.rules += at_least("captures to messages: speed of a function", ratio, 10, 15)
    return found


def _taps(folder: Path, size: int) -> Path:
    """Captures of one file each, so that a file can be decoded alone."""
    for number, name in enumerate(_TAPS):
        simulated(folder / f"tap-{name}", size // len(_TAPS), seed=number)
    return folder


# -- cores, size and shape ---------------------------------------------------------------------


def cores(plan: Plan) -> Findings:
    """Captures to committed messages on two cores, beside one."""
    found = Findings("captures to committed messages on one core and on two")
    captures = plan.captures(200)
    with ExitStack() as stack:
        workers = {each: stack.enter_context(plan.worker(each)) for each in (1, 2)}
        times = turns(
            {
                f"local[{each}]": partial(_lake, plan, worker, captures, f"on-{each}", MESSAGES)
                for each, worker in workers.items()
            },
            plan.rounds,
        )
    for name, taken in times.items():
        found.add(f"{name}: captures", taken.mb_per_s, "MB/s")
    ratio = times["local[1]"].seconds / times["local[2]"].seconds
    found.rules += at_least("two cores: speed of one", ratio, None, 1.7)
    return found


def sizes(plan: Plan) -> Findings:
    """Throughput does not depend on how much there is to read."""
    found = Findings("captures of 0.2, 1 and 4 GB to committed messages")
    with plan.worker() as worker:
        times = turns(
            {
                str(each): partial(_lake, plan, worker, plan.captures(each), "sizes", MESSAGES)
                for each in (200, 1_000, 4_000)
            },
            plan.rounds,
        )
    for taken in times.values():
        found.add(f"{taken.bytes / MB:,.0f} MB: captures", taken.mb_per_s, "MB/s")
    speeds = [taken.mb_per_s for taken in times.values()]
    found.rules += at_most("sizes: fastest to slowest", max(speeds) / min(speeds), 1.20)
    return found


def calls(plan: Plan) -> Findings:
    """All tables of twenty million messages: time, memory, and what Spark spills."""
    found = Findings("captures of 4 GB to all tables")
    events = plan.folder / "events"
    captures = plan.captures(4_000)
    with plan.worker(conf=event_log(events)) as worker, Memory(worker.pid) as memory:
        taken = _lake(plan, worker, captures, "all")
    found.add("captures", taken.bytes / MB, "MB")
    found.add("messages", taken.rows / MB, "M rows")
    found.add("time", taken.seconds, "s")
    found.add("captures", taken.mb_per_s, "MB/s")
    found.add("messages", taken.rows / taken.seconds / MB, "M rows/s")
    for where, size in zip(("from memory", "to disk"), spilled(events), strict=True):
        found.add(f"spilled {where}", size / MB, "MB")
    for role, most in sorted(memory.peaks_mb.items()):
        found.add(f"anonymous memory: {role}", most, "MB")
    return found


def shapes(plan: Plan) -> Findings:
    """A byte costs about the same however connections share the traffic."""
    found = Findings("even traffic, one large connection, many small ones")
    captures = _shapes(plan)
    with plan.worker() as worker:
        decoded = turns(
            {
                name: partial(_lake, plan, worker, folder, "shapes", MESSAGES)
                for name, folder in captures.items()
            },
            plan.rounds,
        )
        whole = {name: _lake(plan, worker, folder, "all") for name, folder in captures.items()}
    for what, times in (("messages", decoded), ("all tables", whole)):
        for name, taken in times.items():
            found.add(f"{name}, {what}: captures", taken.mb_per_s, "MB/s")
        even = times["even"].mb_per_s
        for name in list(times)[1:]:
            ratio = even / times[name].mb_per_s
            found.rules += at_most(f"{name}, {what}: time of an even byte", ratio, 2.0)
    return found


def _shapes(plan: Plan) -> dict[str, Path]:
    """Folders with one capture each."""
    connections = max(1_000, int(1_000_000 * plan.scale))
    folders = {
        name: plan.folder / name.replace(" ", "-")
        for name in ("even", "60 % in one", f"{connections:,} connections")
    }
    even, one, many = folders.values()
    simulated(even / "even", plan.size(500), protocols=["comet"])
    for folder in (one, many):
        folder.mkdir()
    lopsided(one / "one.pcap", plan.size(500))
    many_connections(many / "many.pcap", connections)
    return folders


# -- small things ------------------------------------------------------------------------------


def _lake(
    plan: Plan, worker: Worker, captures: Path, name: str, tables: tuple[str, ...] | None = None
) -> Taken:
    """A new lake with some tables, else all, in a folder of this part."""
    more = {} if tables is None else {"tables": tables}
    return worker.do("lake", captures=str(captures), to=str(plan.folder / name), **more)


def compare(name: str, given: int, wanted: int) -> None:
    """Who is compared has the same rows."""
    if given != wanted:
        raise RuntimeError(f"{name}: {given:,} messages, and not {wanted:,}")


PARTS: dict[str, Callable[[Plan], Findings]] = {
    "copy": copy,
    "udf": udf,
    "cores": cores,
    "sizes": sizes,
    "stream": stream,
    "calls": calls,
    "shapes": shapes,
}
"""What can be asked for."""
