"""Reads the traffic of a hub live for half an hour: nothing is lost, and memory stays what it is.

    python -m tests.live.live_soak --seconds 1800 --rate 20000 --json soak/live.json

A hub answers calls in a network namespace, tcpdump captures them, and `wirelake read -` decodes
them at the rate of `--rate` messages per second. The capture is also kept, and read afterwards:
there must be a row for each message, the same live and from the file. Memory of the second half is
compared with that of the second quarter. Exits with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

from tests.hub_raw.hub_process import running_hub
from tests.live.network import in_network
from tests.live.world import WIRELAKE

_COLUMNS = "ts_ns,first_ns,connection,direction,kind,name,message_id,reply_to,status,size_bytes"
_TCPDUMP = ("tcpdump", "-i", "lo", "-U", "-B", "65536", "-w", "-")
_CONNECTIONS = 50
_GROWTH = 1.05
_SAMPLE_S = 1.0
_END_S = 600
_MASK = (1 << 128) - 1


class Rows(threading.Thread):
    """Adds up rows as they come: how many, a sum that does not depend on their order, and how
    long after its packet the last row of each read came."""

    def __init__(self, stream: IO[bytes]):
        super().__init__(daemon=True)
        self.count = 0
        self.sum = 0
        self.late_ms: list[float] = []
        self._stream = stream

    def run(self) -> None:
        """Read to the end."""
        rest = b""
        while data := os.read(self._stream.fileno(), 1 << 20):
            now_ns = time.time_ns()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                digest = hashlib.blake2b(line, digest_size=16).digest()
                self.sum = (self.sum + int.from_bytes(digest, "big")) & _MASK
            self.count += len(lines)
            if lines:
                self.late_ms.append((now_ns - json.loads(lines[-1])["ts_ns"]) / 1e6)


def _status_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmRSS"))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _reader(*words: str, **streams: Any) -> subprocess.Popen[bytes]:
    command = [*WIRELAKE, "read", "--json", "--columns", _COLUMNS, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, **streams)


def run(folder: Path, seconds: float, rate: int) -> dict[str, Any]:
    """One run, in this network namespace."""
    kept, fifo = folder / "kept.pcap.zst", folder / "fifo"
    os.mkfifo(fifo)
    with running_hub(folder, {"store": {"synchronous": "normal"}}) as hub:
        host, port = hub.addresses["esnp"]
        ports = ("--port", f"{port}=esnp")
        clients = folder / "clients"
        clients.write_text("".join(f"{' '.join(hub.client())}\n" for _ in range(_CONNECTIONS)))
        said = (folder / "tcpdump.err").open("wb+")
        zstd = subprocess.Popen(["sh", "-c", f"exec zstd -q -1 -o {kept} < {fifo}"])
        tcpdump = subprocess.Popen(
            [*_TCPDUMP, f"tcp port {port}"], stdout=subprocess.PIPE, stderr=said
        )
        tee = subprocess.Popen(["tee", fifo], stdin=tcpdump.stdout, stdout=subprocess.PIPE)
        reader = _reader("-", *ports, stdin=tee.stdout)
        processes = [tcpdump, tee, zstd, reader]
        try:
            assert tcpdump.stdout is not None
            assert tee.stdout is not None
            assert reader.stdout is not None
            tcpdump.stdout.close()
            tee.stdout.close()
            live = Rows(reader.stdout)
            live.start()
            warm = _calls([host, str(port), str(clients)], 1.0, 100)
            _wait_for_rows(live, 2 * warm["sent"])  # the reader has loaded its kernels
            live.late_ms.clear()
            record = _measured([host, str(port), str(clients)], seconds, rate, reader.pid)
            record["sent"] += warm["sent"]
            record["answers"] += warm["answers"]
            _wait_for_rows(live, 2 * record["sent"])
            tcpdump.send_signal(signal.SIGINT)
            for each in processes:
                assert each.wait(_END_S) == 0, each.args
            live.join(_END_S)
        finally:
            for each in processes:
                each.kill()
                each.wait()
        said.seek(0)
        dropped = [line for line in said.read().decode().splitlines() if "dropped by" in line]
    after = _read_file(kept, ports)
    record |= {
        "rows": live.count,
        "rows_of_the_file": after.count,
        "equal": (live.count, live.sum) == (after.count, after.sum),
        "dropped": dropped[0].strip(),
        "latency_ms": {
            "p50": round(statistics.median(live.late_ms), 1),
            "p99": round(statistics.quantiles(live.late_ms, n=100)[98], 1),
        },
    }
    return record | {"problems": _problems(record)}


def _caller(words: list[str], seconds: float, rate: int) -> list[str]:
    options = ["--rate", str(rate // 2), "--seconds", str(seconds)]
    return [sys.executable, "-m", "tests.live.caller", *words, *options]


def _calls(words: list[str], seconds: float, rate: int) -> dict[str, Any]:
    done = subprocess.run(_caller(words, seconds, rate), stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def _measured(words: list[str], seconds: float, rate: int, pid: int) -> dict[str, Any]:
    """Call the hub; look at the reader meanwhile."""
    memory_kb: list[int] = []
    with subprocess.Popen(_caller(words, seconds, rate), stdout=subprocess.PIPE) as caller:
        begin, began_cpu_s = time.monotonic(), _cpu_s(pid)
        while True:
            try:
                out, _ = caller.communicate(timeout=_SAMPLE_S)
                break
            except subprocess.TimeoutExpired:
                memory_kb.append(_status_kb(pid))
        spent_s, cpu_s = time.monotonic() - begin, _cpu_s(pid) - began_cpu_s
    assert caller.returncode == 0
    quarter = max(1, len(memory_kb) // 4)
    return {
        **json.loads(out),
        "rate": rate,
        "reader_cores": round(cpu_s / spent_s, 3),
        "memory_kb": {
            "second_quarter": max(memory_kb[quarter : 2 * quarter], default=0),
            "second_half": max(memory_kb[2 * quarter :], default=0),
        },
    }


def _wait_for_rows(live: Rows, count: int) -> None:
    until = time.monotonic() + _END_S
    before, same_since = -1, time.monotonic()
    while live.count < count and time.monotonic() < until:
        if live.count != before:
            before, same_since = live.count, time.monotonic()
        if time.monotonic() - same_since > 30:
            return
        time.sleep(0.1)


def _read_file(kept: Path, ports: tuple[str, ...]) -> Rows:
    with _reader(str(kept), *ports) as process:
        assert process.stdout is not None
        after = Rows(process.stdout)
        after.start()
        after.join()
    assert process.returncode == 0
    return after


def _problems(record: dict[str, Any]) -> list[str]:
    found = []
    if record["answers"] != record["sent"]:
        found.append(f"{record['sent']} requests, {record['answers']} answers")
    if record["rows"] != 2 * record["sent"]:
        found.append(f"{record['rows']} rows of {2 * record['sent']} messages")
    if not record["equal"]:
        found.append("the rows are not those of the file")
    memory = record["memory_kb"]
    if memory["second_half"] > memory["second_quarter"] * _GROWTH:
        found.append(f"memory grew: {memory}")
    return found


def main() -> int:
    """Run in a network namespace, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1_800)
    parser.add_argument("--rate", type=int, default=20_000, help="messages per second")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None:
        print(json.dumps(run(options.inside, options.seconds, options.rate)))
        return 0
    with tempfile.TemporaryDirectory(prefix="wirelake-soak-") as folder:
        words = ["--inside", folder, "--seconds", str(options.seconds), "--rate", str(options.rate)]
        record = in_network("tests.live.live_soak", *words, timeout_s=3 * options.seconds + _END_S)
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))
    return 1 if record["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
