"""`wirelake tail`: against a hub at work."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.watched_hub import CALLER, admin_url, busy_hub, terminal
from tests.hub.cli.started_hub import (
    DEADLINE_S,
    FREE_PORTS,
    HubProcess,
    eventually,
    hub_process,
    wirelake,
)

from .conftest import Run
from .fixed_response_server import answering

pytestmark = pytest.mark.slow

MESSAGE = {
    "ts_ns": 0, "connection": 1, "direction": "s2c", "protocol": "esnp", "kind": "push",
    "name": "event", "message_id": None, "reply_to": None, "target": None, "status": None,
    "reason": None, "client": None, "ids": None, "body": "rain", "sealed": False,
}  # fmt: skip


def _tail(hub: HubProcess, *args: str) -> subprocess.CompletedProcess[str]:
    return wirelake("tail", admin_url(hub), "--data", str(hub.data), *args)


def test_lines_json_and_bytes_of_a_hub_at_work(tmp_path: Path) -> None:
    with busy_hub(tmp_path) as hub:
        adds = ("--filter", 'target == "test/add"', "--protocol", "esnp")
        lines = _tail(hub, "-n", "3", *adds)
        found = _tail(hub, "-n", "2", "--json", "--filter", 'status == "error"')
        with_bytes = _tail(hub, "-n", "1", "--hex", *adds)
    for each in (lines, found, with_bytes):
        assert (each.returncode, each.stderr) == (0, "")
    assert len(lines.stdout.splitlines()) == 3
    for line in lines.stdout.splitlines():
        words = line.split()
        assert words[1:6] == ["esnp", "→", CALLER, "request", "test/add"]
        assert words[6:8] == ["a=1", "b=2"]
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [row["reason"] for row in rows] == ["failed on request"] * 2
    head, *fields = with_bytes.stdout.splitlines()
    assert "test/add" in head
    assert any(field.split()[-2:] == ["value", "'add'"] for field in fields)


def test_a_filter_that_is_none_points_at_the_place(tmp_path: Path) -> None:
    with hub_process(tmp_path) as hub:
        bad = _tail(hub, "--filter", 'protocol == "esnp" and nothing > 1')
        unknown = _tail(hub, "--protocol", "nothing")
    assert (bad.returncode, bad.stdout) == (2, "")
    first, text, mark = bad.stderr.splitlines()
    assert first.startswith("wirelake: --filter: ")
    assert mark.index("^") == text.index("nothing")
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (2, 1)
    assert "unknown protocol 'nothing'; expected one of" in unknown.stderr


class Tailing:
    """`wirelake tail` as a process of its own, whose words are in files."""

    def __init__(self, folder: Path, *args: str):
        self._out, self._err = folder / "tail.out", folder / "tail.err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wirelake.cli", "tail", *args], stdout=out, stderr=err
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def __enter__(self) -> Tailing:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)

    def knock(self, hub: HubProcess) -> None:
        """Says something to the hub, until it is told."""
        before = self.out

        def reported() -> bool:
            assert self.process.poll() is None, self.err
            with socket.create_connection(hub.address("comet"), DEADLINE_S) as line:
                line.sendall(b"\x00\x01\x06")
                line.shutdown(socket.SHUT_WR)
                while line.recv(1_000):
                    pass
            return self.out != before

        eventually(reported, "a message")


def test_a_lost_hub_is_an_error_of_one_line(tmp_path: Path) -> None:
    with (
        hub_process(tmp_path) as hub,
        Tailing(tmp_path, admin_url(hub), "--data", str(hub.data)) as tailing,
    ):
        tailing.knock(hub)
        hub.end()
        assert tailing.process.wait(DEADLINE_S) == 1
        assert tailing.err.startswith(f"wirelake: {admin_url(hub)}: the hub closed the connection")
        assert len(tailing.err.splitlines()) == 1


def test_a_retry_continues_when_the_hub_is_back(tmp_path: Path) -> None:
    with hub_process(tmp_path) as first:
        url = admin_url(first)
        with Tailing(tmp_path, url, "--data", str(first.data), "--retry") as tailing:
            tailing.knock(first)
            first.end()
            eventually(lambda: "reconnecting" in tailing.err, "its words")
            port = url.rpartition(":")[2]
            config = FREE_PORTS.replace("[admin]\nport = 0", f"[admin]\nport = {port}")
            with hub_process(tmp_path, config=config) as second:
                tailing.knock(second)
                tailing.process.send_signal(signal.SIGINT)
                assert tailing.process.wait(DEADLINE_S) == 0
        assert "Traceback" not in tailing.err


def test_ctrl_c_ends_it_well(tmp_path: Path) -> None:
    with busy_hub(tmp_path) as hub, terminal("tail", admin_url(hub), "--data", str(hub.data)) as it:
        it.until(b"test/add")
        it.hear(signal.SIGINT)
        assert it.end() == 0
        assert b"Traceback" not in it.seen


@pytest.mark.parametrize(
    ("flag", "said"), [((), "… 7 messages were skipped"), (("--json",), '{"dropped": 7}')]
)
def test_a_slow_reader_is_shown_the_number_of_missed_messages(
    run: Run, tmp_path: Path, flag: tuple[str, ...], said: str
) -> None:
    (tmp_path / "admin.token").write_text("a throw-away token\n")
    message = json.dumps(MESSAGE)
    body = f'event: dropped\ndata: {{"count":7}}\n\nevent: message\ndata: {message}\n\n'
    with answering(200, body.encode(), "text/event-stream") as url:
        found = run("tail", url, "--data", str(tmp_path), "-n", "1", *flag)
    assert found.code == 0
    assert found.lines[0] == said
    assert len(found.lines) == 2


def test_no_hub_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("a throw-away token\n")
    found = run("tail", "http://127.0.0.1:9", "--data", str(tmp_path))
    assert (found.code, found.out) == (1, "")
    assert "cannot reach the hub" in found.err
    assert len(found.err.splitlines()) == 1
