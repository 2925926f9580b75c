"""Running calls of one connection: the limit holds for every protocol, and for events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from parcel_courier.protocol import PROTOCOL, Ask, Frame
from tests.hub.running import Running, running, until
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw import raw_relay as relay
from tests.hub_raw import raw_tny as tny
from tests.hub_raw.line import dial

from wirelake.client import connect
from wirelake.hub.rpc.services import Services

_LIMIT = 4
_SENT = 12
_NUMBER = 1001
_ARGUMENTS = {"n": 1}
_JSON = json.dumps(_ARGUMENTS).encode()


def _esnp_event(_: int) -> bytes:
    where = esnp.address(esnp.SERVICE, "test"), esnp.address(esnp.OP, "wait")
    return esnp.encoded([esnp.flag(esnp.EVENT), *where, esnp.data("n", 1)])


def _esnp_request(number: int) -> bytes:
    return esnp.encoded(esnp.call_rows(number, "test", "wait", _ARGUMENTS, esnp.flag(esnp.ASYNC)))


def _tny(mode: int) -> Callable[[int], bytes]:
    def frame(number: int) -> bytes:
        message = tny.TnyMessage(number, mode, _NUMBER, body=_JSON)
        return tny.packet(1, number, tny.message_bytes(message))

    return frame


def _parcel(number: int) -> bytes:
    return PROTOCOL.encode(Frame(number, Ask("test/wait", _JSON)))


async def _send(it: Running, protocol: str, frame: Callable[[int], bytes]) -> Any:
    _, writer = await asyncio.open_connection(*it.address(protocol))
    writer.write(b"".join(map(frame, range(1, _SENT + 1))))
    return writer


async def _send_in_tunnel(it: Running, mode: int) -> Any:
    def send() -> relay.RawLink:
        link = relay.RawLink(dial(it.address("relay")))
        assert link.open()
        tunnel = link.tunnel(1)
        for number in range(1, _SENT + 1):
            tunnel.send(tny.TnyMessage(number, mode, _NUMBER, body=_JSON))
        return link

    return await asyncio.to_thread(send)


async def _call_magline(it: Running) -> Any:
    url = "magline://{}:{}".format(*it.address("magline"))
    client = connect(url, reconnect=False, anonymous=True)
    await client.__aenter__()
    for _ in range(_SENT):
        call = asyncio.ensure_future(client.call(_NUMBER, _ARGUMENTS))
        call.add_done_callback(lambda done: done.cancelled() or done.exception())
    return client


_WAYS: dict[str, Callable[[Running], Any]] = {
    "esnp event": lambda it: _send(it, "esnp", _esnp_event),
    "esnp request": lambda it: _send(it, "esnp", _esnp_request),
    "tny push": lambda it: _send(it, "tny", _tny(tny.PUSH)),
    "tny request": lambda it: _send(it, "tny", _tny(tny.REQUEST)),
    "relay push": lambda it: _send_in_tunnel(it, tny.PUSH),
    "relay request": lambda it: _send_in_tunnel(it, tny.REQUEST),
    "magline request": _call_magline,
    "parcel request": lambda it: _send(it, "parcel", _parcel),
}


@pytest.mark.parametrize("way", _WAYS)
def test_no_connection_has_more_running_calls_than_the_limit(way: str) -> None:
    services = Services()
    over = asyncio.Event()
    most = 0

    @services.service("test", "wait", tny=_NUMBER, magline=_NUMBER)
    async def wait(n: int) -> dict[str, int]:
        nonlocal most
        most = max(most, services.running)
        await over.wait()
        return {"n": n}

    protocol = way.partition(" ")[0]
    settings = {"magline": {"anonymous": True, "auth": "none"}}.get(protocol, {"auth": "none"})

    async def go() -> None:
        async with running(
            listeners=[protocol],
            services=services,
            limits={"calls": _LIMIT},
            **{protocol: {"port": 0, **settings}},
        ) as it:
            peer = await _WAYS[way](it)
            refused = it.hub.counters
            await until(
                lambda: _refused(refused.calls) + _refused(refused.failures) == _SENT - _LIMIT,
                "the others are refused",
            )
            assert services.running == _LIMIT
            over.set()
            await until(lambda: services.running == 0)
            assert most == _LIMIT
            if way == "magline request":
                await peer.__aexit__(None, None, None)
            else:
                peer.close()

    asyncio.run(go())


def _refused(counter: dict[tuple[str, str], int]) -> int:
    return sum(count for (_, code), count in counter.items() if code == "too_busy")


@pytest.mark.parametrize(
    "way", ["tny request", "relay request", "magline request", "parcel request"]
)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_arguments_that_are_nested_too_deeply_are_refused(
    way: str, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    services = Services()
    deep = b'{"n": ' + b"[" * 2_000 + b"]" * 2_000 + b"}"
    monkeypatch.setitem(globals(), "_JSON", deep)
    monkeypatch.setitem(globals(), "_ARGUMENTS", msgspec.Raw(deep))

    if kind == "plain":

        @services.service("test", "wait", tny=_NUMBER, magline=_NUMBER)
        def plain(n: Any) -> None: ...

    else:

        @services.service("test", "wait", tny=_NUMBER, magline=_NUMBER)
        async def later(n: Any) -> None: ...

    protocol = way.partition(" ")[0]
    settings = {"magline": {"anonymous": True, "auth": "none"}}.get(protocol, {"auth": "none"})

    async def go() -> None:
        async with running(
            listeners=[protocol], services=services, **{protocol: {"port": 0, **settings}}
        ) as it:
            peer = await _WAYS[way](it)
            counters = it.hub.counters
            await until(lambda: sum(counters.calls.values()) == _SENT)
            assert {code for _, code in counters.calls} == {"bad_arguments"}
            assert len(it.hub.connections) == (2 if protocol == "relay" else 1)
            if way == "magline request":
                await peer.__aexit__(None, None, None)
            else:
                peer.close()

    asyncio.run(go())
    assert not caplog.records
