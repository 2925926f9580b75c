"""`wirelake top`: against a hub at work, on a terminal and without one."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.cli.watched_hub import admin_url, busy_hub, terminal
from tests.hub.cli.started_hub import hub_process, wirelake

from .conftest import Run
from .fixed_response_server import answering

pytestmark = pytest.mark.slow


def test_one_view_of_a_hub_at_work(tmp_path: Path) -> None:
    with busy_hub(tmp_path) as hub:
        found = wirelake("top", admin_url(hub), "--data", str(hub.data), "--once")
    assert (found.returncode, found.stderr) == (0, "")
    lines = {line.split()[0]: line.split() for line in found.stdout.splitlines() if line.split()}
    assert lines["esnp"][1] == "1", "one connection"
    assert float(lines["test/add"][1].replace(",", "")) > 0, "it is being called"
    assert lines["test/sleep"][3] == "ms"
    assert int(lines["test/fail"][-1].replace(",", "")) > 0, "it fails"
    assert lines["@news"][1:3] == ["1", "1"]
    assert "bad_magic" in found.stdout
    assert "not recording" in found.stdout


def test_json_has_one_object_for_each_interval(tmp_path: Path) -> None:
    with busy_hub(tmp_path) as hub:
        args = ("top", admin_url(hub), "--data", str(hub.data), "--interval", "0.2")
        found = wirelake(*args, "--json", "--once")
    (line,) = found.stdout.splitlines()
    figures = json.loads(line)
    targets = {each["name"]: each for each in figures["targets"]}
    assert figures["total"]["calls_per_s"] > 0
    assert figures["interval_s"] >= 0.2
    assert targets["test/sleep"]["p50_ns"] > 4_000_000, "5 ms, and the clock of the loop"
    assert targets["test/sleep"]["p99_ns"] >= targets["test/sleep"]["p50_ns"]
    assert figures["failed_connections"][0]["reason"] == "bad_magic"


def test_a_terminal_shows_it_obeys_keys_and_is_left_clean(tmp_path: Path) -> None:
    with busy_hub(tmp_path) as hub:
        args = ("top", admin_url(hub), "--data", str(hub.data), "--interval", "0.2")
        with terminal(*args) as screen:
            screen.until(b"sort by calls/s")
            assert screen.echoes is False
            screen.press(b"s")
            screen.until(b"sort by failed")
            screen.press(b"p")
            screen.until(b"paused")
            screen.press(b"q")
            assert screen.end() == 0
            assert screen.seen.endswith(b"\x1b[?1049l"), "back from the other screen"
            assert screen.echoes is True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_terminal_clean(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with busy_hub(tmp_path) as hub, terminal("top", admin_url(hub), "--data", str(hub.data)) as it:
        it.until(b"sort by calls/s")
        it.hear(number)
        assert it.end() == code
        assert b"\x1b[?1049l" in it.seen
        assert it.echoes is True
        assert b"Traceback" not in it.seen


def test_a_lost_hub_is_an_error_of_one_line(tmp_path: Path) -> None:
    with hub_process(tmp_path) as hub:
        args = ("top", admin_url(hub), "--data", str(hub.data), "--interval", "0.2")
        with terminal(*args) as it:
            it.until(b"sort by calls/s")
            hub.end()
            assert it.end() == 1
            assert it.echoes is True
    said = it.seen.rpartition(b"\x1b[?1049l")[2].decode().strip()
    assert said.startswith("wirelake: http://127.0.0.1:")
    assert "cannot reach the hub" in said
    assert len(said.splitlines()) == 1


def test_without_a_terminal_an_option_is_required(run: Run, tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("a throw-away token\n")
    found = run("top", "--data", str(tmp_path))
    assert (found.code, found.out) == (2, "")
    assert "--once or --json" in found.err


def test_an_unexpected_response_is_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("a throw-away token\n")
    with answering(200, b'{"version": "9.9.9"}') as url:
        found = run("top", url, "--data", str(tmp_path), "--once")
    assert (found.code, found.out) == (1, "")
    assert "different versions" in found.err
    assert len(found.err.splitlines()) == 1
