"""Reads large numbers of messages with both readers, and compares every row; writes JSON.

    python tests/columnar/soak.py --messages 200000 --size 200MB --json soak/columnar.json

All vectors, and random and spoilt messages of each protocol, then a whole simulated capture, good
and with faults, whose tables must also be the truth. Exit code 1: something differs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.columnar.differential import PROTOCOLS, differences, write_capture
from tests.columnar.truth import untrue

from wirelake.traffic import simulate


def spoilt_messages(folder: Path, count: int) -> dict[str, Any]:
    """Each protocol's messages, read by both."""
    found = {}
    for name in PROTOCOLS:
        path = folder / f"{name}.pcap"
        write_capture(path, name, count, seed=count)
        begin = time.monotonic()
        found[name] = {"messages": count, "differences": differences([str(path)])}
        print(f"{name}: {count} messages, {time.monotonic() - begin:.0f} s", file=sys.stderr)
        path.unlink()
    return found


def simulated(folder: Path, size: str, faults: float) -> dict[str, Any]:
    """A simulated capture, read by both and compared with its truth."""
    out = folder / f"simulated-{faults}"
    summary = simulate(out, size=size, seed=11, faults=faults)
    files = sorted(str(path) for path in out.glob("*.pcap*"))
    keys = sorted(str(path) for path in out.glob("*.keys"))
    begin = time.monotonic()
    record = {
        "bytes": summary.bytes,
        "messages": summary.messages,
        "faults": dict(summary.faults),
        "untrue": untrue(out),
        "differences": differences(files, keys=keys),
    }
    print(f"{size}, faults {faults}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return record


def main(arguments: list[str] | None = None) -> int:
    """Runs everything and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--size", default="200MB")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wirelake-soak-") as name:
        folder = Path(name)
        record = {
            "python": platform.python_version(),
            "spoilt": spoilt_messages(folder, chosen.messages),
            "simulated": simulated(folder, chosen.size, 0.0),
            "simulated_with_faults": simulated(folder, chosen.size, 0.005),
        }
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    parts = [*record["spoilt"].values(), record["simulated"], record["simulated_with_faults"]]
    wrong = [part for part in parts if part["differences"] or part.get("untrue")]
    for part in wrong:
        print(json.dumps(part, indent=2)[:4000], file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
