"""`wirelake serve` and `wirelake call --list`, as processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.hub.cli.started_hub import DEADLINE_S, FREE_PORTS, HubProcess, hub_process, wirelake

from wirelake.hub.store import add_client

pytestmark = pytest.mark.slow

SHOP = """
import asyncio
from pathlib import Path
from wirelake.hub.rpc.services import Services

services = Services()
empty = Services()


@services.service("shop", "price", tny=2001)
def price(item: str, count: int = 1) -> dict[str, int]:
    return {"cents": 30 * count}


@services.service("shop", "wait")
async def wait(file: str) -> dict[str, bool]:
    while not Path(file).exists():
        await asyncio.sleep(0.01)
    return {"done": True}
"""
RIGHTS = '[[rights.clients]]\nids = ["shop-*"]\nserve = ["shop/*"]\n'


class Shop:
    """A hub, the folder of the services, and who may sign on."""

    def __init__(self, hub: HubProcess, folder: Path):
        self.hub = hub
        self.folder = folder
        self.url = "esnp://{}:{}".format(*hub.address("esnp"))
        for name in ("alice", "shop-1"):
            token = add_client(hub.data / "hub.sqlite3", name)
            (folder / f"{name}.token").write_text(token)
        hub.hear(signal.SIGHUP)

    def sign_on(self, name: str) -> list[str]:
        return ["--id", name, "--token-file", str(self.folder / f"{name}.token")]

    def call(self, *args: str) -> subprocess.CompletedProcess[str]:
        return wirelake("call", *args, *self.sign_on("alice"), cwd=self.folder)

    def serve(self, *args: str) -> subprocess.CompletedProcess[str]:
        return wirelake("serve", *args, cwd=self.folder)

    @contextmanager
    def serving(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "wirelake.cli", "serve", "shop:services"]
        process = subprocess.Popen(
            [*command, "--to", self.url, *self.sign_on("shop-1"), *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
            place = self.url.removeprefix("esnp://")
            assert lines == [f"offering 2 services to {place}\n", "ready\n"]
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SHOP)
    with hub_process(folder, config=FREE_PORTS + RIGHTS) as hub:
        yield Shop(hub, folder)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_serves_calls_and_ends_on_a_signal(shop: Shop) -> None:
    with shop.serving() as process:
        called = shop.call(f"{shop.url}/shop/price", "item=apple", "count=3")
        assert (called.stdout, called.stderr) == ("cents = 90\n", "")
        listed = shop.call("--list", shop.url, "--json")
        price, other = (json.loads(line) for line in listed.stdout.splitlines())
        assert price["name"] == "shop/price"
        assert price["signature"] == "(item: str, count: int = 1) -> dict[str, int]"
        assert price["numbers"] == {"tny": 2001}
        assert price["where"] == ["shop-1"]
        assert (price["calls"], price["failed"], price["running"]) == (1, 0, 0)
        assert 0 < price["p50_us"] <= price["p99_us"]
        assert (other["name"], other["calls"], other["p99_us"]) == ("shop/wait", 0, 0)
        shown = shop.call("--list", shop.url).stdout.splitlines()
        signature = "shop/price(item: str, count: int = 1) -> dict[str, int]"
        assert shown[0] == f"{signature}  tny=2001"
        assert shown[1].startswith("    at shop-1, 0 running, 1 call, 0 failed, p50 ")
        assert shown[2:] == [
            "shop/wait(file: str) -> dict[str, bool]",
            "    at shop-1, 0 running, 0 calls, 0 failed",
        ]
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    gone = shop.call(f"{shop.url}/shop/price", "item=apple")
    assert (gone.returncode, gone.stderr) == (1, "wirelake: no process offers 'shop/price' now\n")


def test_a_signal_lets_calls_finish(shop: Shop) -> None:
    file = shop.folder / "done"
    command = [sys.executable, "-m", "wirelake.cli", "call", f"{shop.url}/shop/wait"]
    command += [f"file={file}", "--timeout", "60", *shop.sign_on("alice")]
    with (
        shop.serving() as process,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller,
    ):
        until(lambda: listed(shop, "running") == [0, 1])
        process.send_signal(signal.SIGTERM)
        until(lambda: listed(shop, "where") == [[], []])
        assert process.poll() is None
        file.touch()
        assert caller.communicate(timeout=DEADLINE_S)[0] == "done = true\n"
        assert process.wait(DEADLINE_S) == 0


def listed(shop: Shop, column: str) -> list[Any]:
    lines = shop.call("--list", shop.url, "--json").stdout.splitlines()
    return [json.loads(line)[column] for line in lines]


def test_refusals_are_one_line(shop: Shop) -> None:
    for args, words in (
        (["shop:services", *shop.sign_on("alice")], "no right to offer 'shop/price'"),
        (["shop:empty", *shop.sign_on("shop-1")], "no services to offer"),
        (["shop:nothing", *shop.sign_on("shop-1")], "SERVICES: unknown name 'nothing'"),
        (["shop.py", *shop.sign_on("shop-1")], "expected MODULE:NAME, as in shop:services"),
        (["nowhere:services", *shop.sign_on("shop-1")], "No module named 'nowhere'"),
        (["shop:services"], "auth required; give --id and --token-file"),
    ):
        found = shop.serve(*args[:1], "--to", shop.url, *args[1:])
        assert found.returncode in (1, 2)
        assert found.stderr.count("\n") <= 3
        assert words in found.stderr
    tny = shop.url.replace("esnp", "tny")
    found = shop.serve("shop:services", "--to", tny, *shop.sign_on("shop-1"))
    assert "services cannot be offered over this protocol" in found.stderr


def test_a_list_takes_no_call(shop: Shop) -> None:
    found = shop.call("--list", shop.url, "a=1")
    assert (found.returncode, found.stdout) == (2, "")
    assert "--list takes a URL, and no arguments of a call" in found.stderr
