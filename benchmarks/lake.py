"""`python -m benchmarks.lake`: from captures to a committed lake, with Spark on two cores.

    copy      200 MB to committed messages, beside Spark copying that table, Parquet to Parquet
    udf       the same beside Spark with a function that decodes in plain Python
    cores     the same on two cores and on one
    sizes     0.2, 1 and 4 GB to committed messages
    stream    captures that arrive while the lake is run: lag, and which rate it sustains
    calls     twenty million messages to all tables: time, memory, what is spilled
    shapes    a connection with 60 % of all bytes, and a million connections of ten packets

Times are of the clock, as several processes share the work, and the best of some rounds; contenders
take turns. Starting Spark is not counted, and every Spark has read something before. All write
Parquet with the same codec. The full run needs about 20 GB of disk for a while. It states which
required and target values hold and always exits with 0: no build fails on a slow day.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .captures_report import record, table
from .lake_parts import PARTS
from .lake_plan import Plan

__all__ = ["main"]

QUICK = 0.02
"""The scale of a quick run."""
PACKAGES = ("numba", "numpy", "pandas", "pyarrow", "pyspark")
"""What figures depend on."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, prints the table and writes the record."""
    chosen = _parser().parse_args(arguments)
    scale = chosen.scale * (QUICK if chosen.quick else 1.0)
    found = {}
    with tempfile.TemporaryDirectory(dir=chosen.work) as shared:
        for name in chosen.only:
            print(f"{name}: working", file=sys.stderr)
            with tempfile.TemporaryDirectory(dir=chosen.work) as folder:
                plan = Plan(Path(folder), Path(shared), scale, chosen.rounds, chosen.seconds)
                found[name] = PARTS[name](plan)
    print(table(found.values()))
    if chosen.json is not None:
        settings = {"scale": scale, "rounds": chosen.rounds, "seconds": chosen.seconds}
        text = json.dumps(record(found, settings, PACKAGES), indent=2)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lake",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of all sizes")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="of all sizes (default: 1)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="how many turns (default: 3)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        metavar="S",
        help="how long captures arrive at each rate (default: 20)",
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
