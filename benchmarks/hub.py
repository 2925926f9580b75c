"""`python -m benchmarks.hub`: the live server beside nats-server, redis, mosquitto and amqtt.

    fanout      publishes that are not stored, to 10, 100 and 1000, over comet and ESNP
    rpc         calls on 50 connections, over ESNP and tny
    latency     p50 and p99 at half of the maximum
    idle        memory of 10,000 connections that do nothing
    durable     confirmed publishes to 100 clients that are away
    recording   calls at 20,000 frames/s, beside the same with everything recorded
    sealed      magline, and ESNP and comet inside TLS: only reported

Every server runs on one core, and the load generator, which is C, on another. Servers run as they
come, ours with tokens, limits and storage. Rounds of all contenders are interleaved and the best
one counts. It states which required and target values hold and always exits with 0: no build fails
on a slow day.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .hub_load import build
from .hub_own_parts import PARTS
from .hub_plan import Plan
from .hub_report import record, table
from .hub_servers import peer_versions, raise_file_limit

__all__ = ["main"]

QUICK = 0.1
"""The scale of a quick run: a tenth of the connections, and shorter."""
QUICK_SECONDS = 0.3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, prints the table and writes the record."""
    chosen = _parser().parse_args(arguments)
    scale = chosen.scale * (QUICK if chosen.quick else 1.0)
    seconds = QUICK_SECONDS if chosen.quick else chosen.seconds
    rounds = 1 if chosen.quick else chosen.rounds
    cores = sorted(os.sched_getaffinity(0))
    files = raise_file_limit()
    found = {}
    with tempfile.TemporaryDirectory(dir=chosen.work) as built:
        generator = build(Path(built), cores[-1])
        for name in chosen.only:
            print(f"{name}: working", file=sys.stderr)
            with tempfile.TemporaryDirectory(dir=chosen.work) as folder:
                Path(folder).chmod(0o755)  # mosquitto gives up its rights before it reads
                plan = Plan(Path(folder), generator, cores[0], rounds, seconds, scale, files)
                found[name] = PARTS[name](plan)
    print(table(found.values()))
    if chosen.json is not None:
        settings = {"scale": scale, "rounds": rounds, "seconds": seconds, "cores": len(cores)}
        written = record(found, settings, peer_versions())
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(f"{json.dumps(written, indent=2)}\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hub",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the connections, one short round"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="of connections (default: 1)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="how many turns (default: 3)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=1.0,
        metavar="S",
        help="how long each run is measured (default: 1)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=tuple(PARTS),
        default=tuple(PARTS),
        metavar="PART",
        help=f"which parts, of {', '.join(PARTS)} (default: all)",
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="where to put files meanwhile")
    return parser


if __name__ == "__main__":
    sys.exit(main())
