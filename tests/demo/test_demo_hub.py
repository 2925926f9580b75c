"""The hub of the demo records, reports its addresses, and restarts on the same ports."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wirelake.capture.format.writer import sealed_files
from wirelake.cli.demo.hub import DemoHub, HubWatch, default_ports
from wirelake.cli.demo.processes import ProcessTree
from wirelake.cli.errors import CommandError


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_restart_keeps_the_addresses(tmp_path: Path) -> None:
    hub = DemoHub(tmp_path, tmp_path, any_port=True)
    try:
        hub.start()
        until(hub.is_ready)
        addresses = dict(hub.addresses)
        assert sorted(addresses) == sorted(default_ports())
        assert sorted(hub.ports.values()) == sorted(set(default_ports()) - {"admin"})
        watch = HubWatch(hub.admin)
        assert watch.counters()["recording"] == "on"
        watch.start()
        until(lambda: watch.total("uptime_s") == 0 and watch.rate("accepted") == 0)
        assert watch.connections() == {}
        watch.end()
        hub.stop()
        assert sealed_files(hub.recordings) == []  # nobody came
        hub.keep_ports()
        hub.start()
        until(hub.is_ready)
        assert hub.addresses == addresses
    finally:
        hub.end()


def test_last_error_of_the_hub_is_reported(tmp_path: Path) -> None:
    hub = DemoHub(tmp_path, tmp_path, any_port=True)
    hub.config.write_text("[comet]\nprt = 1\n")
    hub.start()

    def died() -> str:
        try:
            hub.is_ready()
        except CommandError as error:
            return str(error)
        return ""

    try:
        until(died)
        assert died().startswith("the hub ended: ")
        assert "unknown key 'prt'" in died()
        with pytest.raises(CommandError, match="the hub did not stop cleanly: "):
            hub.stop()
    finally:
        hub.end()


def test_hub_is_a_child_of_the_demo(tmp_path: Path) -> None:
    family = ProcessTree()
    hub = DemoHub(tmp_path, tmp_path, any_port=True)
    try:
        hub.start()
        until(hub.is_ready)
        family.end(gently=False)
        assert family.members() == []
        with pytest.raises(CommandError, match="the hub ended"):
            hub.check()
    finally:
        hub.end()
