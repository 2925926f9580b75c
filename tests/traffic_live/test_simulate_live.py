"""`wirelake simulate --to-hub`: what it prints, what it refuses, and how it is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hub_raw.hub_process import HubProcess, wait_until
from tests.traffic_live.live_runs import address_of, recording_hub

_COMMAND = [sys.executable, "-m", "wirelake.cli", "simulate"]


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_COMMAND, *words], capture_output=True, text=True, check=False)


def _sockets(hub: HubProcess) -> list[str]:
    """Who is connected; tunnels have no socket, and are kept for a while."""
    rows = hub.http("GET", "/connz?limit=1000").json["connections"]
    return [row["peer"] for row in rows if row["peer"].startswith("127.0.0.1")]


def test_it_runs(tmp_path: Path) -> None:
    with recording_hub(tmp_path) as hub:
        where = ["--to-hub", address_of(hub).admin, "--data", str(hub.data)]
        small = ["--seconds", "0.5", "--scale", "0.01"]
        shown = _run(*where, *small, "--out", str(tmp_path / "a"))
        assert shown.returncode == 0, shown.stderr
        assert "deliveries:" in shown.stdout
        figures = _run(*where, *small, "--out", str(tmp_path / "b"), "--json")
        assert json.loads(figures.stdout)["connections"]["relay"] >= 1
        again = _run(*where, *small, "--out", str(tmp_path / "a"))
        assert (again.returncode, again.stderr.count("\n")) == (1, 1)
        assert "not empty" in again.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to-hub", "http://127.0.0.1:1"], "--to-hub requires --data"),
        (["--to-hub", "http://127.0.0.1:1", "--data", "x", "--size", "1MB"], "--size conflicts"),
        (["--to-hub", "http://127.0.0.1:1", "--data", "x", "--force"], "--force conflicts"),
        (["--seconds", "3"], "--seconds requires --to-hub"),
        (["--data", "x"], "--data requires --to-hub"),
        (["--scale", "2"], "--scale requires --to-hub"),
    ],
)
def test_options_of_the_other_way(tmp_path: Path, words: list[str], said: str) -> None:
    found = _run(*words, "--out", str(tmp_path / "out"))
    assert found.returncode == 2
    assert said in found.stderr
    assert found.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_interrupt_leaves_no_clients(tmp_path: Path) -> None:
    with recording_hub(tmp_path) as hub:
        where = ["--to-hub", address_of(hub).admin, "--data", str(hub.data)]
        out = ["--out", str(tmp_path / "out"), "--seconds", "60", "--scale", "0.01"]
        heeding = ("env", "--default-signal=INT")  # whatever started these tests
        command = [*heeding, *_COMMAND, *where, *out]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: hub.varz()["published"], "something is published")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode != 0
        assert "Traceback" not in said
        wait_until(lambda: not _sockets(hub), "everybody has left")
    assert not (tmp_path / "out").exists()
