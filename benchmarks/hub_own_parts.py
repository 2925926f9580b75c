"""The parts of `benchmarks.hub` without peers: durable publishes, recording, magline and TLS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from wirelake.columnar.read.reader import ReadOptions, read_batches

from .captures_report import at_least, at_most
from .hub_load import Load
from .hub_parts import CALLERS, SIZES, best, fanout, idle, latency, reach, rpc
from .hub_plan import Plan, turns
from .hub_report import Findings

__all__ = ["PARTS", "durable", "recording", "sealed"]

OFFLINE = 100
PUBLISHERS = 8
UNCONFIRMED = 128
"""Publishes of one connection that are not confirmed yet; half of what the hub allows."""
RECORDED_CALLS = 10_000.0
"""In a second; each is two frames."""
TLS_IDLE = 1_000
TOPIC = "@bench"


# -- durable -----------------------------------------------------------------------------------


def durable(plan: Plan) -> Findings:
    """Publishes to clients that are away, confirmed when they are on disk."""
    away = plan.connections(OFFLINE)
    found = Findings(f"confirmed publishes to {away} offline clients", "publishes/s")
    found.notes.append(
        f"{PUBLISHERS} connections, {UNCONFIRMED} publishes unconfirmed on each; ESNP with ASYNC; "
        "synchronous = full"
    )
    with ExitStack() as stack:
        ours = plan.hub(stack, away + PUBLISHERS)
        comet = reach(ours, "comet")
        with plan.generator.held(connections=away, subscribe=True, topic=TOPIC, **comet.options):
            pass
        audience = ours.publish(TOPIC, "to whom?")
        if audience != away:
            raise RuntimeError(f"a publish is for {audience} clients, and not for {away}")
        runs = {
            f"{size}": {
                name: partial(
                    plan.run,
                    reach(ours, name).having(first=away),
                    "rpc",
                    connections=PUBLISHERS,
                    depth=UNCONFIRMED,
                    size=SIZES[size],
                    op="publish",
                    topic=TOPIC,
                )
                for name in ("ESNP", "tny")
            }
            for size in SIZES
        }
        best(turns(runs, plan.rounds), found)
    for name in ("ESNP", "tny"):
        least = min(figures[name] for figures in found.rows.values())
        found.rules += at_least(f"durable publishes/s over {name}", least, 50_000, 100_000)
    return found


# -- recording ---------------------------------------------------------------------------------


def recording(plan: Plan) -> Findings:
    """Calls at a fixed rate, beside the same with everything recorded."""
    found = Findings(f"ESNP calls at {2 * RECORDED_CALLS:,.0f} frames/s", "µs, and frames")
    callers, folder = plan.connections(CALLERS), plan.folder / "recorded"
    with ExitStack() as stack:
        hubs = {
            "not recorded": plan.hub(stack, callers, "plain"),
            "recorded": plan.hub(stack, callers, "recording", record=folder),
        }
        runs: dict[str, Callable[[], Load]] = {
            name: partial(
                plan.run,
                reach(each, "ESNP"),
                "rpc",
                connections=callers,
                rate=RECORDED_CALLS,
                seconds=3 * plan.seconds,
            )
            for name, each in hubs.items()
        }
        loads = turns({"calls": runs}, plan.rounds)["calls"]
    for name, each in loads.items():
        quickest = min(each, key=lambda load: load.p99_us)
        found.add(name, "calls/s", quickest.rate)
        found.add(name, "p50 µs", quickest.p50_us)
        found.add(name, "p99 µs", quickest.p99_us)
    crossed = sum(load.frames_in + load.frames_out for load in loads["recorded"])
    kept = _recorded(folder)
    found.add("recorded", "frames", crossed)
    found.add("recorded", "in files", kept)
    found.rules += at_most("recording: frames lost", crossed - kept, 0)
    slow, quick = (found.rows[name]["p99 µs"] for name in ("recorded", "not recorded"))
    if quick:
        found.rules += at_most("recording: p99 beside none", slow / quick, 1.5)
    return found


def _recorded(folder: Path) -> int:
    """Messages in a folder of recordings."""
    paths = sorted(folder.rglob("*.pcapng"))
    return sum(batch.num_rows for batch in read_batches(paths, ReadOptions(table="messages")))


# -- magline and TLS ---------------------------------------------------------------------------


def sealed(plan: Plan) -> Findings:
    """What encryption costs; only reported."""
    found = Findings("magline, and others inside TLS", "in a second; memory in KB")
    if not plan.generator.can_seal:
        found.notes.append("not measured: the load generator needs libssl-dev for it")
        return found
    callers, audience = plan.connections(CALLERS), plan.connections(100)
    waiting = plan.connections(TLS_IDLE)
    with ExitStack() as stack:
        ours = plan.hub(stack, max(callers, audience + 1, waiting), tls=True)
        magline = reach(ours, "magline")
        esnp, comet = (reach(ours, name).having(tls=True) for name in ("ESNP", "comet"))
        runs = {}
        for size, depth in ((size, depth) for size in SIZES for depth in (1, 32)):
            asked = {"connections": callers, "depth": depth, "size": SIZES[size]}
            runs[f"calls, {size}, depth {depth}"] = {
                "magline": partial(plan.run, magline, "rpc", **asked),
                "ESNP in TLS": partial(plan.run, esnp, "rpc", **asked),
            }
        for size in SIZES:
            runs[f"fan-out, {size} to {audience}, depth 64"] = {
                "comet in TLS": partial(
                    plan.run, comet, "fanout", connections=audience, depth=64, size=SIZES[size]
                )
            }
        best(turns(runs, plan.rounds), found)
        before = ours.rss_kb
        with plan.generator.held(connections=waiting, **comet.options):
            found.add("memory, idle", "comet in TLS", (ours.rss_kb - before) / waiting)
    return found


PARTS: dict[str, Callable[[Plan], Findings]] = {
    "fanout": fanout,
    "rpc": rpc,
    "latency": latency,
    "idle": idle,
    "durable": durable,
    "recording": recording,
    "sealed": sealed,
}
"""What `--only` chooses from."""
