"""A hub with clients of all protocols, and what reads its traffic while it happens.

    python -m tests.live.network tests.live.world FOLDER

Prints JSON: for each reader, the rows that it wrote live and those of reading the captured file
afterwards, as counts and as what is in one and not in the other.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.hub_raw.hub_process import wait_until
from tests.traffic_live.live_runs import address_of, recording_hub

from wirelake.traffic.live import simulate_live

__all__ = ["WIRELAKE", "compared", "finished", "rows_of"]

WIRELAKE = (sys.executable, "-m", "wirelake.cli")
_END_S = 60
_TCPDUMP = ("tcpdump", "-i", "lo", "-U", "--immediate-mode", "-B", "65536", "-w")
_SECONDS = 3.0
_SCALE = 0.05


@contextmanager
def _running(words: list[str], folder: Path, name: str, **streams: Any) -> Iterator[Any]:
    """A program whose output goes to files; it is interrupted at the end and must end with 0."""
    with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.err").open("wb") as errors:
        process = subprocess.Popen(
            words, **{"stdout": out, "stderr": errors, "stdin": subprocess.DEVNULL, **streams}
        )
        try:
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            code = process.wait(_END_S)
            assert code == 0, f"{name}: {code}: {(folder / f'{name}.err').read_text()}"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def rows_of(path: Path) -> Counter[str]:
    """The rows that a reader wrote, without the name of the input."""
    found: Counter[str] = Counter()
    for line in path.read_bytes().splitlines():
        row = json.loads(line)
        row.pop("file", None)
        found[json.dumps(row, sort_keys=True)] += 1
    return found


def finished(capture: Path, *options: str) -> Counter[str]:
    """The rows of reading the file."""
    out = capture.with_suffix(".rows")
    with out.open("wb") as stream:
        subprocess.run([*WIRELAKE, "read", str(capture), *options], stdout=stream, check=True)
    return rows_of(out)


def compared(live: Counter[str], after: Counter[str]) -> dict[str, Any]:
    """Counts, and some of what differs."""
    return {
        "live": live.total(),
        "file": after.total(),
        "missing": list(after - live)[:3],
        "extra": list(live - after)[:3],
    }


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _ports(addresses: Mapping[str, tuple[str, int]]) -> list[str]:
    found = [(name, port) for name, (_, port) in addresses.items() if name != "admin"]
    # The names of listeners are those of protocols.
    return [word for name, port in found for word in ("--port", f"{port}={name}")]


def main(folder: Path) -> dict[str, Any]:
    """Run clients while three readers read, each in its way; then compare."""
    tapped, grown, saved = (folder / f"{name}.pcap" for name in ("tapped", "grown", "saved"))
    with recording_hub(folder) as hub:
        ports = _ports(hub.addresses)
        read = [*WIRELAKE, "read", "--json", *ports]
        listen = [*WIRELAKE, "listen", "-i", "lo", "--json", "--save", str(saved)]
        listen += ["--table", "connections"]
        with (
            _running([*_TCPDUMP, str(grown)], folder, "tcpdump"),
            _running([*_TCPDUMP, "-"], folder, "tap", stdout=subprocess.PIPE) as tap,
            _running(
                ["tee", str(tapped)], folder, "tee", stdin=tap.stdout, stdout=subprocess.PIPE
            ) as tee,
            _running([*read, "-"], folder, "piped", stdin=tee.stdout) as piped,
            _running(
                [*listen, *ports],
                folder,
                "listen",
            ),
        ):
            for each in (tap, tee):  # the next program has it
                each.stdout.close()
            for each in (tapped, grown, saved):
                wait_until(lambda each=each: _size(each) >= 24, f"{each} begins")
            with _running([*read, "--follow", str(grown), "--table", "calls"], folder, "followed"):
                simulate_live(
                    address_of(hub), folder / "live", seconds=_SECONDS, scale=_SCALE, seed=3
                )
                wait_until(lambda: _size(folder / "piped.out"), "messages are written")
                # All bytes that were captured have been written when nothing has come for a while.
                _settle([tapped, grown, saved])
                tap.send_signal(signal.SIGINT)
                assert [each.wait(_END_S) for each in (tap, tee, piped)] == [0, 0, 0]
            # Rows of what was in flight when a reader ended cannot be compared: it read what was
            # in the file when it was stopped, and nothing came after that.
    return {
        "piped": compared(rows_of(folder / "piped.out"), finished(tapped, "--json", *ports)),
        "followed": compared(
            rows_of(folder / "followed.out"),
            finished(grown, "--json", *ports, "--table", "calls"),
        ),
        "listen": compared(
            rows_of(folder / "listen.out"),
            finished(saved, "--json", *ports, "--table", "connections"),
        ),
        "errors": {
            name: (folder / f"{name}.err").read_text() for name in ("piped", "followed", "listen")
        },
    }


def _settle(paths: list[Path]) -> None:
    seen: list[int] = []
    same_since = time.monotonic()

    def settled() -> bool:
        nonlocal seen, same_since
        sizes = [_size(each) for each in paths]
        if sizes != seen:
            seen, same_since = sizes, time.monotonic()
        return time.monotonic() - same_since > 1.0

    wait_until(settled, "the captures grow no more")


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
