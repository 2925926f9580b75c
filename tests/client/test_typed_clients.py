"""Typed clients: what type checkers know, and that it is true."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wirelake.client import BadCall, CallFailed, Client, connect
from wirelake.client.client import CallClient, InboxClient, TopicClient
from wirelake.client.comet import CometClient, CometConnection
from wirelake.client.esnp import EsnpClient, EsnpConnection, EsnpFields
from wirelake.client.magline import MaglineClient, MaglineConnection
from wirelake.client.tny import TnyClient, TnyConnection, TnyFields

from .session_servers import PINNED, TOKEN, Stand, standing, take, until

EXAMPLE = Path(__file__).with_name("typed_clients.py")
KINDS: dict[str, Any] = {
    "esnp": EsnpClient,
    "tny": TnyClient,
    "magline": MaglineClient,
    "comet": CometClient,
}


@pytest.mark.slow
def test_the_example_has_exactly_its_errors() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(EXAMPLE)]
    run = subprocess.run(
        command, cwd=EXAMPLE.parents[2], capture_output=True, text=True, check=False
    )
    lines = run.stdout.splitlines()
    found = [re.fullmatch(r".*typed_clients\.py:(\d+): error: .*\[(.+)\]", line) for line in lines]
    errors = sorted({(int(each[1]), each[2]) for each in found if each is not None})
    expected = [
        (number, marked[1])
        for number, line in enumerate(EXAMPLE.read_text("utf-8").splitlines(), 1)
        if (marked := re.search(r"# error: ([\w-]+)$", line))
    ]
    assert errors == expected, run.stdout + run.stderr


def client_of(stand: Stand, kind: Any) -> Any:
    key = {"pinned": PINNED} if stand.protocol == "magline" else {}
    return connect(stand.url, kind, id="alice", token=TOKEN, backoff_s=0.01, **key)


@pytest.mark.parametrize("protocol", KINDS)
def test_typed_clients_do_what_clients_do(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand, KINDS[protocol]) as c:
            assert type(c) is KINDS[protocol]
            await c.subscribe("@news")
            number = stand.notify(b"rain")
            assert [each.id for each in await take(c, 1)] == [number]
            if protocol == "comet":
                assert [each.id for each in await c.fetch()] == [number]
                return
            target = "test/add" if protocol == "esnp" else 2
            assert (await c.call(target, {"a": 1, "b": 2}, idempotent=True)).data == {"c": 3}
            with pytest.raises(CallFailed):
                await c.call("test/fail" if protocol == "esnp" else 3)
            assert (await c.publish("hi", topic="@news")).audience == 3

    asyncio.run(story())


def test_the_rest_of_esnp() -> None:
    async def story() -> None:
        async with standing("esnp") as stand, client_of(stand, EsnpClient) as c:
            assert (await c.info("test/kind")).data["kind"] == "INFO"
            assert [part.data["n"] async for part in c.stream("test/count")] == [1, 2, 3]
            traced = await c.call("test/add", {"a": 1, "b": 1}, trace=True, headers={"k": 1})
            assert "stand" in traced.traces[0]
            await c.announce("test/happened", {"what": "rain"})
            await until(lambda: ("test/happened", {"what": "rain"}) in stand.heard)

    asyncio.run(story())


@pytest.mark.parametrize("protocol", KINDS)
def test_a_url_of_another_protocol(protocol: str) -> None:
    for other in set(KINDS) - {protocol}:
        expected = f"expected {protocol}:// or {protocol}s:// for {KINDS[protocol].__name__}"
        with pytest.raises(BadCall, match=expected):
            connect(f"{other}://127.0.0.1", KINDS[protocol])
    assert isinstance(connect(f"{protocol}s://127.0.0.1", KINDS[protocol]), KINDS[protocol])
    assert type(connect(f"{protocol}://127.0.0.1")) is Client
    for kind in ("phone-1", str):
        with pytest.raises(BadCall, match=r"invalid kind .*; expected a class of clients"):
            connect(f"{protocol}://127.0.0.1", kind)  # type: ignore[call-overload]


def test_the_fields_are_those_of_the_protocols() -> None:
    assert set(EsnpFields.__annotations__) | {"info", "trace"} == EsnpConnection.CALL_OPTIONS
    assert set(TnyFields.__annotations__) == TnyConnection.CALL_OPTIONS
    assert MaglineConnection.CALL_OPTIONS == CometConnection.CALL_OPTIONS == frozenset()


@pytest.mark.parametrize("protocol", KINDS)
def test_a_typed_client_has_no_method_that_the_client_lacks(protocol: str) -> None:
    for name, method in inspect.getmembers(KINDS[protocol], inspect.isfunction):
        if name.startswith("_"):
            continue
        assert hasattr(Client, name)
        assert inspect.getdoc(method)
    assert issubclass(KINDS[protocol], TopicClient)
    assert issubclass(Client, CallClient)
    assert issubclass(Client, InboxClient)
