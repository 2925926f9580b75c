"""`python -m benchmarks.wire`: scalar decode and encode of every protocol, beside others.

All contenders read and write the same content, which is checked before the clock starts, and take
turns in one run. Times differ between machines and hours; the ratios are what this is for. It
states which required and target values hold and always exits with 0: no build fails on a slow day.

    codec       the generated functions that a server calls, such as `decode_frame_c2s`
    Protocol    `Protocol.decode` and `Protocol.encode`, the convenient way to them
    Construct   layouts written by hand; `compiled` is its own compiler on the same layouts
    Kaitai      our .ksy files, compiled for Python; it leaves values that it computes (varints,
                texts that may be invalid) until they are asked for, and here nobody asks
    msgpack     msgspec, typed structs with the same fields; `as array` without field names
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .contenders import Contender, contenders
from .corpus import PROTOCOLS, Corpus, corpus
from .report import record, table
from .startup import Startup, startup
from .timing import ROUNDS, Timing, race

__all__ = ["main", "run"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, prints the table and writes the record."""
    chosen = _parser().parse_args(arguments)
    corpora = {name: corpus(name) for name in chosen.protocols}
    results = {
        name: run(name, found, chosen.seconds, chosen.rounds) for name, found in corpora.items()
    }
    started: dict[str, Startup] = startup(chosen.startup_runs) if chosen.startup_runs else {}
    print(table(results, started))
    if chosen.json is not None:
        settings = {
            "seconds": chosen.seconds,
            "rounds": chosen.rounds,
            "startup_runs": chosen.startup_runs,
        }
        text = json.dumps(record(results, started, corpora, settings), indent=2)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.wire",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument(
        "--seconds",
        type=float,
        default=1.5,
        metavar="S",
        help="CPU seconds for each contender and operation (default: 1.5)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        metavar="N",
        help=f"how many turns these are cut into (default: {ROUNDS})",
    )
    parser.add_argument(
        "--protocols",
        nargs="+",
        choices=PROTOCOLS,
        default=PROTOCOLS,
        metavar="NAME",
        help=f"which ones, of {', '.join(PROTOCOLS)} (default: all)",
    )
    parser.add_argument(
        "--startup-runs",
        type=int,
        default=25,
        metavar="N",
        help="how often to start `wirelake --help` (default: 25; 0: not at all)",
    )
    return parser


def run(
    name: str, found: Corpus, seconds: float, rounds: int = ROUNDS
) -> dict[str, dict[str, Timing]]:
    """Decode and encode of one protocol by everyone."""
    print(f"{name}: checking that all say the same", file=sys.stderr)
    everyone = contenders(name, found)
    for contender in everyone:
        contender.check()
    print(f"{name}: timing", file=sys.stderr)
    operations: dict[str, Callable[[Contender], Callable[[], None] | None]] = {
        "decode": lambda contender: contender.decode,
        "encode": lambda contender: contender.encode,
    }
    timed: dict[str, dict[str, Timing]] = {}
    for operation, choose in operations.items():
        passes = {c.name: work for c in everyone if (work := choose(c)) is not None}
        timed[operation] = race(passes, len(found.samples), seconds, rounds)
    return timed


if __name__ == "__main__":
    sys.exit(main())
