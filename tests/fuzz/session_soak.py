"""A million hostile inputs for the sessions of each protocol.

    python tests/fuzz/session_soak.py --inputs 1000000 --json soak/sessions.json
    python tests/fuzz/session_soak.py --replay '0 magline 17 203'

An input is one `receive` of bytes that no honest peer would send now, on a session of either role
that a real dialogue has brought into some state; `trial.py` says what must hold after each. The
work is cut into chunks with seeds of their own, so a run is the same with any number of workers.
Exits with 1 when a session crashed or broke a promise.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz import subject_comet, subject_esnp, subject_magline, subject_relay, subject_tny
from tests.fuzz.trial import MOST_INPUTS, Tally, Trial

__all__ = ["CHUNK", "MAKERS", "main", "run_chunk", "soak"]

MAKERS = {
    "comet": subject_comet.make,
    "esnp": subject_esnp.make,
    "tny": subject_tny.make,
    "relay": subject_relay.make,
    "magline": subject_magline.make,
}
CHUNK = 10_000
"""Inputs of one piece of work."""

_Work = tuple[int, str, int, int]
"""Seed, protocol, number of the chunk, inputs."""


def run_chunk(work: _Work) -> Tally:
    """So many inputs, from one seed."""
    seed, protocol, number, inputs = work
    tally = Tally()
    while tally.inputs < inputs:
        key = f"{seed} {protocol} {number} {tally.sessions}"
        Trial(key, MAKERS[protocol], tally).run(min(MOST_INPUTS, inputs - tally.inputs))
        if tally.crash_count > inputs:  # nothing can even be made
            break
    return tally


def soak(protocol: str, inputs: int, seed: int = 0, workers: int = 1) -> dict[str, Any]:
    """A whole run of one protocol, as its entry in the record."""
    chunks: list[_Work] = [
        (seed, protocol, number, min(CHUNK, inputs - start))
        for number, start in enumerate(range(0, inputs, CHUNK))
    ]
    begun = time.perf_counter()
    tally = Tally()
    if workers > 1:
        with get_context("spawn").Pool(workers) as pool:
            _gather(protocol, tally, pool.imap(run_chunk, chunks), inputs)
    else:
        _gather(protocol, tally, map(run_chunk, chunks), inputs)
    return _entry(tally, time.perf_counter() - begun)


def _gather(protocol: str, total: Tally, found: Iterable[Tally], inputs: int) -> None:
    for tally in found:
        total.add(tally)
        if sys.stderr.isatty():
            print(f"\r{protocol}: {total.inputs:,} of {inputs:,}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _entry(tally: Tally, seconds: float) -> dict[str, Any]:
    return {
        "inputs": tally.inputs,
        "handled_share": round(tally.handled / max(1, tally.inputs), 3),
        "sessions": tally.sessions,
        "seconds": round(seconds, 1),
        "inputs_per_s": round(tally.inputs / max(seconds, 1e-9)),
        "states": dict(tally.states.most_common()),
        "codes": dict(tally.codes.most_common()),
        "reasons": dict(tally.reasons.most_common()),
        "crash_count": tally.crash_count,
        "crashes": [asdict(crash) for crash in tally.crashes],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Soaks the protocols one after the other, prints a line for each and writes the record."""
    chosen = _parser().parse_args(arguments)
    if chosen.replay is not None:
        return _replay(chosen.replay)
    protocols = {}
    for name in chosen.protocols:
        entry = protocols[name] = soak(name, chosen.inputs, chosen.seed, chosen.workers)
        print(_line(name, entry), flush=True)
        for crash in entry["crashes"]:
            print(f"  --replay '{crash['key']}' ({crash['state']}): {crash['what']}")
    if chosen.json is not None:
        record = {
            "python": platform.python_version(),
            "seed": chosen.seed,
            "workers": chosen.workers,
            "protocols": protocols,
        }
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 1 if any(entry["crash_count"] for entry in protocols.values()) else 0


def _line(name: str, entry: dict[str, Any]) -> str:
    return (
        f"{name:8} {entry['inputs']:>9,} inputs  {entry['sessions']:>7,} sessions  "
        f"{entry['inputs_per_s']:>7,}/s  {entry['handled_share']:>4.0%} handled  "
        f"{len(entry['states']):>3} states  {len(entry['codes']):>2} codes  "
        f"{entry['crash_count']} crashes"
    )


def _replay(key: str) -> int:
    """One session again; what it was given, and how it ended."""
    tally = Tally()
    Trial(key, MAKERS[key.split()[1]], tally).run()
    for crash in tally.crashes:
        for step in crash.steps:
            print(*step)
        print(crash.what)
    print(f"{key}: {tally.crash_count} crashes")
    return min(1, tally.crash_count)


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = sorted(set(names) - set(MAKERS))
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: wanted {', '.join(MAKERS)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--inputs", type=int, default=1_000_000, metavar="N", help="for each protocol (1000000)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument(
        "--protocols",
        type=_names,
        default=list(MAKERS),
        metavar="A,B",
        help=f"which ones (default: {','.join(MAKERS)})",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another run (0)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("--replay", metavar="KEY", help="one session, by the key of its crash")
    return parser


if __name__ == "__main__":
    sys.exit(main())
