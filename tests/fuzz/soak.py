"""The long fuzz run of the decoders: every protocol's target, and a JSON record.

    python tests/fuzz/soak.py --executions 1000000 --json soak/wire.json

Each target runs in a process of its own, two at a time, from a corpus made of the test vectors.
Exit code 1 when anything but a documented error came out of a decoder, or when fewer than half of
the executions got past the frame head.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"
PROTOCOLS = ("comet", "esnp", "magline", "relay", "tny")
LEAST_PAST_HEAD = 0.5


def write_corpus(protocol: str, folder: Path) -> int:
    """One file for each vector and variant; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    source = "tny" if protocol == "relay" else protocol
    count = 0
    for line in (VECTORS / f"{source}.jsonl").read_text("utf-8").splitlines():
        data = bytes.fromhex(json.loads(line)["hex"])
        if not data or len(data) > 590:
            continue
        for variant in range(4):
            (folder / f"{count:04d}").write_bytes(bytes([variant]) + data)
            count += 1
    return count


def run(protocol: str, executions: int, work: Path, seed: int) -> dict[str, Any]:
    """Fuzzes one protocol; its record."""
    folder = work / protocol
    corpus = write_corpus(protocol, folder / "corpus")
    stats = folder / "stats.json"
    stats.unlink(missing_ok=True)
    command = [sys.executable, str(ROOT / "tests" / "fuzz" / "targets.py"), protocol]
    command += ["--runs", str(executions), "--stats", str(stats), "--seed", str(seed)]
    command += ["--corpus", str(folder / "corpus")]
    started = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    seconds = time.monotonic() - started
    record = json.loads(stats.read_text("utf-8")) if stats.exists() else {"executions": 0}
    share = record.get("past_head", 0) / max(1, record["executions"])
    crashes = sorted(path.read_bytes().hex() for path in folder.glob(f"{protocol}-crash-*"))
    record |= {
        "protocol": protocol,
        "seeds": corpus,
        "corpus": sum(1 for _ in (folder / "corpus").iterdir()),
        "seconds": round(seconds, 1),
        "per_second": round(record["executions"] / seconds),
        "share_past_head": round(share, 3),
        "crashes": crashes,
        "ok": ended.returncode == 0 and not crashes and share >= LEAST_PAST_HEAD,
    }
    if ended.returncode or not record["executions"]:
        record["output"] = (ended.stdout + ended.stderr)[-4000:]
    return record


def main(argv: list[str] | None = None) -> int:
    """Runs the targets and writes the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, default=ROOT / "soak" / "wire.json")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=ROOT / "soak" / "work" / "wire")
    args = parser.parse_args(argv)
    names = args.protocols.split(",")
    with ThreadPoolExecutor(2) as pool:
        records = list(
            pool.map(lambda name: run(name, args.executions, args.work, args.seed), names)
        )
    for record in records:
        print(
            f"{record['protocol']:8} {record['executions']:>9,} executions, "
            f"{record['share_past_head']:.0%} past the head, {len(record['crashes'])} crashes, "
            f"{record['per_second']:,}/s"
        )
        if not record["ok"]:
            print(record.get("output", "fewer than half got past the head"))
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return 0 if all(record["ok"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
