"""What type checkers know of clients: checked by mypy in `test_typed_clients.py`, and never run.

A line with `# error: CODE` must have exactly that error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from wirelake.client import Client, Notification, Published, Push, Result, connect
from wirelake.client.comet import CometClient
from wirelake.client.esnp import EsnpClient
from wirelake.client.magline import MaglineClient
from wirelake.client.sync import SyncClient
from wirelake.client.sync import connect as connect_sync
from wirelake.client.tny import TnyClient


async def any_protocol(url: str) -> None:
    assert_type(connect(url, id="phone-1", token="x"), Client)
    async with connect(url) as c:
        assert_type(c, Client)
        assert_type(await c.call("test/add", idempotent=True), Result)
        assert_type(await c.fetch(), list[Notification])


async def esnp() -> None:
    assert_type(connect("esnp://a,b", EsnpClient, id="phone-1"), EsnpClient)
    given: dict[str, Any] = {"id": "phone-1"}
    assert_type(connect("esnp://a,b", EsnpClient, **given), EsnpClient)
    assert_type(connect(url="esnp://a,b", **given), Client)
    async with connect("esnp://a", EsnpClient) as c:
        assert_type(c, EsnpClient)
        result = await c.call("test/add", {"a": 1}, headers={"k": 1}, flags=[128], trace=True)
        assert_type(result, Result)
        assert_type(c.stream("test/count"), AsyncIterator[Result])
        assert_type(await c.publish("rain", topic="@news"), Published)
        async for push in c.pushes():
            assert_type(push, Push)
        await c.call(1002)  # error: arg-type
        await c.call("test/add", line=3)  # error: call-arg
        await c.call("test/add", headers=3)  # error: arg-type
        await c.fetch()  # error: attr-defined


async def tny() -> None:
    async with connect("tny://a", TnyClient) as c:
        assert_type(c, TnyClient)
        assert_type(await c.call(1002, {"a": 1}, line=3), Result)
        await c.announce(1002, b"")
        await c.call(1002, trace=True)  # error: call-arg
        await c.info("test/add")  # error: attr-defined
        c.stream(1002)  # error: attr-defined


async def magline() -> None:
    async with connect("magline://a", MaglineClient, anonymous=True) as c:
        assert_type(c, MaglineClient)
        assert_type(await c.call(0x1002, b""), Result)
        await c.call(1002, line=3)  # error: call-arg
        await c.announce(1002)  # error: attr-defined


async def comet() -> None:
    async with connect("comet://a", CometClient, id="phone-1", token="x") as c:
        assert_type(c, CometClient)
        await c.subscribe("@news")
        async for notification in c.notifications():
            assert_type(notification, Notification)
            await c.ack(notification)
        assert_type(await c.topics(), list[str])
        await c.call("test/add")  # error: attr-defined
        await c.publish("rain", topic="@news")  # error: attr-defined
        c.pushes()  # error: attr-defined


def sync() -> None:
    with connect_sync("esnp://a") as c:
        assert_type(c, SyncClient)
        assert_type(c.call("test/add"), Result)
        assert_type(c.notifications(), Iterator[Notification])
        assert_type(c.publish("rain", topic="@news"), Published)


connect("esnp://a", str)  # error: type-var
