"""Counters of a hub become totals and rates."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from wirelake.cli.demo.hub import HubWatch


class Varz(BaseHTTPRequestHandler):
    """Each response counts a hundred calls more; the first one is not JSON."""

    asked = 0

    def do_GET(self) -> None:
        """Answers."""
        Varz.asked += 1
        calls = {"esnp": {"ok": 60 * Varz.asked}, "tny": {"ok": 40 * Varz.asked}}
        found = {"connections": {"esnp": 3}, "calls": calls, "published": 7, "version": "x"}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode() if Varz.asked > 1 else b"not yet")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def admin() -> Iterator[str]:
    """The address of a server that counts."""
    Varz.asked = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Varz) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_totals_and_rates(admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.cli.demo.hub._POLL_S", 0.01)
    watch = HubWatch(admin)
    assert (watch.total("calls"), watch.rate("calls"), watch.connections()) == (0, 0.0, {})
    watch.start()
    deadline = time.monotonic() + 60
    while watch.rate("calls") == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    watch.end()
    assert watch.connections() == {"esnp": 3}
    assert watch.total("calls") >= 300
    assert watch.total("calls") % 100 == 0
    assert (watch.total("published"), watch.rate("published")) == (7, 0.0)
    assert watch.total("version") == 0
