"""Many rounds, each with a seed of its own; the history of each is kept.

python -m tests.hub.cluster.checker.soak --rounds 100 --seed 1 --json soak/cluster.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from tests.hub.cluster.checker.one_round import run_round
from tests.postgres_server import shared_server, stop_shared

_SECONDS_OF_ALL = 3 * 3600
_SHOWN = 8


def main() -> int:
    """Run rounds; 1 when something was violated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=14.0, help="of faults in each round")
    parser.add_argument("--keep", type=Path, default=Path("soak/work/cluster"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    rounds: list[dict[str, Any]] = []
    server = shared_server()
    try:
        for seed in range(options.seed, options.seed + options.rounds):
            if time.monotonic() - began > _SECONDS_OF_ALL:
                break
            folder = options.keep / f"{seed}-{int(time.time())}"
            folder.mkdir(parents=True)
            rounds.append(_round(folder, server, seed, options.seconds))
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    finally:
        stop_shared()
    bad = [each for each in rounds if each["problems"]]
    record = {
        "rounds": len(rounds),
        "violated": [each["seed"] for each in bad],
        "seconds": round(time.monotonic() - began),
        "results": rounds,
    }
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 1 if bad or len(rounds) < options.rounds else 0


def _round(folder: Path, server: Any, seed: int, seconds: float) -> dict[str, Any]:
    result: dict[str, Any] = {"seed": seed, "history": str(folder / "history.jsonl")}
    try:
        outcome = run_round(folder, server, seed, seconds)
    except Exception as error:
        traceback.print_exc()
        return {**result, "problems": [f"the round itself failed: {error!r:.500}"]}
    problems = [f"{each.rule}: {each.text}" for each in outcome.violations[:_SHOWN]]
    if outcome.violations:
        counts = Counter(each.rule for each in outcome.violations)
        problems.insert(0, f"in all: {dict(counts)}")
    return {**result, "events": outcome.counts, "problems": problems}


if __name__ == "__main__":
    sys.exit(main())
