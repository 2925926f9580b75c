"""`python -m benchmarks.captures`: from capture files to tables, on one core.

    dpkt        capture to batches of messages, beside dpkt with a simple reassembly and our scalar
                codec; the rows of both are compared first
    parquet     capture to Parquet, beside pyarrow writing the finished tables, by protocol
    cores       `wirelake read` of one file to Parquet, on one core and on two: elapsed time and CPU
    answers     sql and report of a capture, beside DuckDB over the finished Parquet
    tshark      the usual tool with our dissector on 20 MB, only reported
    live        a pipe to `read - --json`, beside `tshark -l` with our dissector, on 20 MB
    recorder    frames that `Recorder.record` takes, one and sixteen in a call
    simulate    making captures with their truth
    sizes       0.2, 0.6 and 2 GB: throughput and anonymous memory, each in a process of its own
    shapes      a million connections of ten packets, and a single connection of 2 GB

Times are of the CPU unless they are called elapsed, and the best of some rounds. The full run needs
some gigabytes of disk for a while. It states which required and target values hold and always exits
with 0: no build fails on a slow day.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .captures_parts import PARTS, Plan
from .captures_report import record, table

__all__ = ["main"]

QUICK = 0.05
"""The scale of a quick run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, prints the table and writes the record."""
    chosen = _parser().parse_args(arguments)
    scale = chosen.scale * (QUICK if chosen.quick else 1.0)
    found = {}
    for name in chosen.only:
        print(f"{name}: working", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=chosen.work) as folder:
            plan = Plan(Path(folder), scale, chosen.seconds, chosen.rounds)
            found[name] = PARTS[name](plan)
    print(table(found.values()))
    if chosen.json is not None:
        settings = {"scale": scale, "seconds": chosen.seconds, "rounds": chosen.rounds}
        text = json.dumps(record(found, settings), indent=2)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.captures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--quick", action="store_true", help="a twentieth of all sizes")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="of all sizes (default: 1)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        metavar="S",
        help="CPU seconds for each contender that takes turns (default: 2)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        metavar="N",
        help="how many turns, and how often a process reads a capture (default: 3)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=tuple(PARTS),
        default=tuple(PARTS),
        metavar="PART",
        help=f"which parts, of {', '.join(PARTS)} (default: all)",
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="where to put captures meanwhile")
    return parser


if __name__ == "__main__":
    sys.exit(main())
