"""`python -m benchmarks.columnar`: generated kernels beside hand-written C, protocol by protocol.

Both sides find the frames in runs of bytes (scan) and read their fields into columns (decode). The
C in `benchmarks/c` makes the same checks and writes the same columns; before the clock starts, all
that the two write is compared byte for byte, on good streams and on spoiled ones. They work in the
same arrays and take turns. `both` is a scan and all decoding after it, which is what counts.

Decryption of magline is timed apart: it is no part of decoding, and no C of ours.
It states which required and target values hold and always exits with 0: no build fails on a
slow day.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .columnar_contenders import Bench
from .columnar_corpora import Stream, spoiled, stream
from .columnar_report import Result, record, table
from .columnar_sealing import Sealing
from .corpus import PROTOCOLS
from .timing import Timing, race

__all__ = ["main", "run", "run_sealing"]

MESSAGES = 200_000
ROUNDS = 20
SIDES = ("kernel", "C")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, prints the table and writes the record."""
    chosen = _parser().parse_args(arguments)
    messages = chosen.messages // 10 if chosen.quick else chosen.messages
    seconds = chosen.seconds / 5 if chosen.quick else chosen.seconds
    results = {name: run(name, messages, seconds, chosen.rounds) for name in chosen.protocols}
    sealing = run_sealing(messages, seconds) if "magline" in chosen.protocols else {}
    print(table(results, sealing))
    if chosen.json is not None:
        settings = {"messages": messages, "seconds": seconds, "rounds": chosen.rounds}
        text = json.dumps(record(results, sealing, settings), indent=2)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.columnar",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, less time")
    parser.add_argument(
        "--messages",
        type=int,
        default=MESSAGES,
        metavar="N",
        help=f"messages of each protocol (default: {MESSAGES})",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=1.0,
        metavar="S",
        help="CPU seconds for each side and operation (default: 1)",
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
    return parser


def run(name: str, messages: int, seconds: float, rounds: int = ROUNDS) -> Result:
    """One protocol: compared, then timed."""
    print(f"{name}: making {messages:,} messages", file=sys.stderr)
    clean = stream(name, messages)
    print(f"{name}: checking that both do the same", file=sys.stderr)
    given_up = Bench(name, spoiled(clean)).check()
    bench = Bench(name, clean)
    if bench.check():
        raise RuntimeError(f"{name}: good messages were given up")
    print(f"{name}: timing", file=sys.stderr)
    timings = {
        operation: race(
            {side: functools.partial(work, side) for side in SIDES}, messages, seconds, rounds
        )
        for operation, work in _operations(bench).items()
    }
    return Result(
        messages,
        float(np.median(clean.stops - clean.starts)),
        len(clean.data),
        given_up,
        timings,
        _memcpy(clean, seconds, rounds),
    )


def _operations(bench: Bench) -> dict[str, Callable[[str], None]]:
    """What is timed, with a side as its argument."""

    def scan(side: str) -> None:
        bench.scan(side)

    def both(side: str) -> None:
        bench.scan(side)
        bench.decode(side)

    def decode(place: int) -> Callable[[str], None]:
        def work(side: str) -> None:
            bench.decode_stage(side, place)

        return work

    stages = {f"decode {name}": decode(place) for place, name in enumerate(bench.stages())}
    return {"scan": scan, **stages, "both": both}


def _memcpy(clean: Stream, seconds: float, rounds: int) -> Timing:
    """Copying the bytes of the same messages."""
    target = np.empty_like(clean.data)
    copy = {"memcpy": lambda: np.copyto(target, clean.data)}
    return race(copy, len(clean), seconds, rounds)["memcpy"]


def run_sealing(frames: int, seconds: float, rounds: int = 3) -> dict[str, Timing]:
    """Decryption of magline frames, which has nothing to do with decoding."""
    Sealing(min(frames, 2_000)).check()
    return race(Sealing(frames).passes(), frames, seconds, rounds)


if __name__ == "__main__":
    sys.exit(main())
