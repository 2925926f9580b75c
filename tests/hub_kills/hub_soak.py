"""Kills a hub under traffic a hundred times, then tries its patience and its memory.

    python -m tests.hub_kills.hub_soak --kills 100 --json soak/hub.json

First the kills, in runs of twenty, each with a folder and a seed of its own: whatever was confirmed
must arrive, in order, and nothing else. A fifth as many hit a hub that deletes and trims under
load. The same with the store in PostgreSQL, and kills of its server.
Then ten thousand silent connections, beside which the
others must go on; then twice a hundred thousand connects, after which memory must not have grown
by more than two percent. Then storms on TLS listeners and on the admin port, and unfinished
messages (`storms.py`). Exits with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import postgres_server
from tests.adversity.counted import Counted
from tests.adversity.healthy_peers import HealthyPeers
from tests.adversity.reconnects import allow_many_files, come_and_go, people_of, silent
from tests.hub import stores
from tests.hub.stores import database_of
from tests.hub_kills.killing import run_sweep_with_kills, run_with_crashes, run_with_kills
from tests.hub_kills.ledger import Judgement
from tests.hub_kills.storms import http_storm, tls_storm, unfinished_messages
from tests.hub_raw.hub_process import HubProcess, running_hub, wait_until

_KILLS_OF_A_RUN = 20
_GROWTH = 1.02
_LIMITS: dict[str, Any] = {
    "half_open": 20_000,
    "half_open_per_address": 20_000,
    "connects_per_s": 20_000.0,
}


def killed(
    kills: int, seed: int, run: Callable[[Path, int, int], Judgement] = run_with_kills
) -> dict[str, Any]:
    """So many kills; what was tried, confirmed and delivered, and what was wrong."""
    totals: dict[str, Any] = {"kills": 0, "problems": []}
    while totals["kills"] < kills and not totals["problems"]:
        some = min(_KILLS_OF_A_RUN, kills - totals["kills"])
        with tempfile.TemporaryDirectory(prefix="wirelake-soak-") as folder:
            judgement = run(Path(folder), some, seed + totals["kills"])
        totals["kills"] += some
        for name in ("tried", "confirmed", "delivered", "repeated", "problems"):
            totals[name] = totals.get(name, type(getattr(judgement, name))()) + getattr(
                judgement, name
            )
        print(f"{totals['kills']} kills, {totals['confirmed']} confirmed", file=sys.stderr)
    return totals


def _in_postgres(kills: int, crashes: int, seed: int) -> dict[str, Any]:
    """The same with the store in PostgreSQL, and kills of its server."""
    try:
        with stores.used("postgres"):
            found = {
                "kills_postgres": killed(kills, seed),
                "sweep_postgres": killed(max(1, kills // 5), seed, run_sweep_with_kills),
            }
    finally:
        postgres_server.stop_shared()
    return {**found, "crashes_postgres": killed(crashes, seed, run_with_crashes)}


def silence(count: int) -> dict[str, Any]:
    """So many connections that say nothing: the others go on, and each is sent away."""
    with (
        tempfile.TemporaryDirectory(prefix="wirelake-soak-") as folder,
        running_hub(Path(folder), {"limits": _LIMITS}) as hub,
    ):
        return asyncio.run(_silence(hub, count))


async def _silence(hub: HubProcess, count: int) -> dict[str, Any]:
    others, counted = HealthyPeers(hub), Counted(hub)
    before_kb = hub.memory_kb()
    writers = await silent(hub.addresses["comet"], count)
    peak_kb = hub.memory_kb()
    others.check()
    reasons = counted.wait_for_ends("comet", count, 120)
    others.check()
    others.leave()
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0)  # the transports let go
    problems = [f"ended as {reason!r}" for reason in reasons if reason in ("", "eof", "lost")]
    return {
        "connections": count,
        "bytes_each": (peak_kb - before_kb) * 1024 // count,
        "reasons": reasons,
        "problems": problems,
    }


def memory(connects: int) -> dict[str, Any]:
    """Twice so many connects: memory after the second time, compared with after the first."""
    with (
        tempfile.TemporaryDirectory(prefix="wirelake-soak-") as folder,
        running_hub(Path(folder), {"limits": _LIMITS}) as hub,
    ):
        people = people_of(database_of(hub.data), 500)
        first, second = (_after(hub, people, connects) for _ in range(2))
    problems = []
    if second > first * _GROWTH:
        problems.append(f"memory grew from {first} kB to {second} kB")
    return {"connects": 2 * connects, "first_kb": first, "second_kb": second, "problems": problems}


def _after(hub: HubProcess, people: list[tuple[str, str]], connects: int) -> int:
    asyncio.run(come_and_go(hub.addresses["comet"], people, connects))
    wait_until(lambda: not hub.varz()["connections"].get("comet"), "everybody has gone")
    print(f"{connects} connects, {hub.memory_kb()} kB", file=sys.stderr)
    return hub.memory_kb()


def main() -> int:
    """Run all parts and write their results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--silent", type=int, default=10_000)
    parser.add_argument("--connects", type=int, default=100_000)
    parser.add_argument("--unfinished", type=int, default=200)
    parser.add_argument(
        "--crashes", type=int, default=20, help="kills of a PostgreSQL server with the store"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    allow_many_files(65_536)
    began = time.monotonic()
    record = {
        "kills": killed(options.kills, options.seed),
        "sweep": killed(max(1, options.kills // 5), options.seed, run_sweep_with_kills),
        **_in_postgres(options.kills, options.crashes, options.seed),
        "silence": silence(options.silent),
        "memory": memory(options.connects),
        "tls": tls_storm(options.silent, options.connects // 5),
        "admin": http_storm(min(options.silent, 10_000), options.connects // 5),
        "unfinished": unfinished_messages(options.unfinished, 9_800_000),
    }
    problems = [problem for part in record.values() for problem in part["problems"]]
    record["seconds"] = round(time.monotonic() - began)
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
