"""`python -m benchmarks.sessions`: messages per second through a pair of sessions in memory.

Client and server stand back to back, with nothing between them but bytes. A request and its answer
are two messages, a push is one; each message is encoded once and decoded once, by the sessions as
by the codec alone. Depth is how many are under way at a time: 1 waits for each answer, 32 is a
pipeline, whose bytes arrive in one piece.

    codec       decoding and encoding the same frames, and nothing else
    ciphers     magline: sealing and opening the same frames, with one kept context per direction
    logic       what is left: states, matching, limits, timers, events

For magline everything is timed once more with a new cipher object for each frame. Times differ
between machines and hours, shares and ratios less so. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wirelake import __version__

from .session_pairs import MAKERS, Pair, cipher_passes, fresh_ciphers
from .timing import Timing, race

__all__ = ["DEPTHS", "KINDS", "main", "run", "summary", "table"]

KINDS = ("request", "push")
DEPTHS = (1, 32)
EXCHANGES = 64
"""In one pass."""
ROUNDS = 10
MESSAGES = {"request": 2, "push": 1}
"""Of one exchange."""

_COLUMNS = {"messages/s": 12, "µs each": 9, "codec": 8, "ciphers": 9, "logic": 8}

Times = Mapping[str, Timing]
Results = dict[str, dict[str, Times]]
"""Protocol -> request or push -> what was timed -> microseconds for one message."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, prints the table and writes the record."""
    chosen = _parser().parse_args(arguments)
    results: Results = {}
    for name in chosen.protocols:
        print(f"{name}: timing", file=sys.stderr)
        results[name] = {kind: run(name, kind, chosen.seconds, chosen.rounds) for kind in KINDS}
    print(table(results))
    if chosen.json is not None:
        settings = {"seconds": chosen.seconds, "rounds": chosen.rounds}
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record(results, settings), indent=2)
        chosen.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sessions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.6,
        metavar="S",
        help="CPU seconds for each thing that is timed (default: 0.6)",
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
        choices=tuple(MAKERS),
        default=tuple(MAKERS),
        metavar="NAME",
        help=f"which ones, of {', '.join(MAKERS)} (default: all)",
    )
    return parser


# -- timing ----------------------------------------------------------------------------------


def run(name: str, kind: str, seconds: float, rounds: int = ROUNDS) -> dict[str, Timing]:
    """One protocol, requests or pushes: everything that is timed takes turns."""
    pair = MAKERS[name]()
    frames = pair.frames(kind)
    passes = {f"depth_{depth}": _talking(pair, kind, depth) for depth in DEPTHS}
    passes["codec"] = _often([pair.codec(data, up) for data, up in frames])
    if name == "magline":
        fresh = fresh_ciphers()
        passes |= {f"depth_{depth}_new_ciphers": _talking(fresh, kind, depth) for depth in DEPTHS}
        passes |= {which: _often([work]) for which, work in cipher_passes(frames).items()}
    return race(passes, EXCHANGES * MESSAGES[kind], seconds, rounds)


def _talking(pair: Pair, kind: str, depth: int) -> Callable[[], None]:
    talk = pair.exchange if kind == "request" else pair.push
    heard = talk(depth)
    if len(heard) != depth or not all(map(pair.expects[kind], heard)):
        raise RuntimeError(f"{depth} of {kind}, and this was heard: {heard}")
    times = EXCHANGES // depth

    def work() -> None:
        for _ in range(times):
            talk(depth)

    return work


def _often(steps: Sequence[Callable[[], Any]]) -> Callable[[], None]:
    def work() -> None:
        for _ in range(EXCHANGES):
            for step in steps:
                step()

    return work


# -- what was found --------------------------------------------------------------------------


def summary(times: Times) -> dict[str, dict[str, float]]:
    """For each depth: messages per second, and how the time is shared."""
    codec = times["codec"].best_us
    found = {}
    for name, timing in times.items():
        if not name.startswith("depth_"):
            continue
        new = "new_" if name.endswith("_new_ciphers") else ""
        ciphers = times[f"{new}ciphers"].best_us if "ciphers" in times else 0.0
        whole = timing.best_us
        found[name] = {
            "us": whole,
            "messages_per_s": round(1e6 / whole),
            "codec_share": round(codec / whole, 3),
            "cipher_share": round(ciphers / whole, 3),
            "logic_share": round(1 - (codec + ciphers) / whole, 3),
        }
    return found


def table(results: Results) -> str:
    """The whole run on one screen."""
    lines = [
        f"{'best round':32}{'messages/s':>12}{'µs each':>9}{'codec':>8}{'ciphers':>9}{'logic':>8}"
    ]
    for protocol, kinds in results.items():
        for kind, times in kinds.items():
            for name, found in summary(times).items():
                title = f"{protocol} {kind}, {name.replace('_', ' ')}"
                lines.append(
                    f"{title:38}{found['messages_per_s']:>10,}{found['us']:>9.2f}"
                    f"{found['codec_share']:>8.0%}{found['cipher_share']:>9.0%}"
                    f"{found['logic_share']:>8.0%}"
                )
    return "\n".join([*lines, *_ratios(results)])


def _ratios(results: Results) -> list[str]:
    """How many times as fast a pipeline is, and kept ciphers are."""
    lines = [""]
    for protocol, kinds in results.items():
        for kind, times in kinds.items():
            ratio = times["depth_1"].best_us / times["depth_32"].best_us
            lines.append(f"{protocol} {kind}: depth 32 is {ratio:.2f} times depth 1")
            if "ciphers" in times:
                alone = times["new_ciphers"].best_us / times["ciphers"].best_us
                whole = times["depth_32_new_ciphers"].best_us / times["depth_32"].best_us
                lines.append(
                    f"{protocol} {kind}: kept cipher contexts are {alone:.2f} times new ones, "
                    f"{whole:.2f} times with the sessions around them"
                )
    return lines


def record(results: Results, settings: Mapping[str, float]) -> dict[str, Any]:
    """All figures, with what they were made with; nothing that names the machine."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "architecture": platform.machine(),
        "wirelake": __version__,
        "settings": dict(settings),
        "results": {
            protocol: {
                kind: {
                    "timings": {name: asdict(timing) for name, timing in times.items()},
                    "summary": summary(times),
                }
                for kind, times in kinds.items()
            }
            for protocol, kinds in results.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
