"""Close reasons that peers choose: their number is bounded, and they are one line."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import pytest
from parcel_courier.protocol import PROTOCOL, Bye, Frame
from tests.hub.running import DEADLINE_S, Running, running, until
from tests.hub_raw import raw_magline as magline
from tests.hub_raw.line import dial

from wirelake.hub.observe.counters import Counters


async def _leave_parcel(it: Running, number: int) -> None:
    reader, writer = await asyncio.open_connection(*it.address("parcel"))
    writer.write(PROTOCOL.encode(Frame(1, Bye(f"{number}\n" + "x" * 200))))
    await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()


async def _leave_magline(it: Running, number: int) -> None:
    def leave() -> None:
        line = dial(it.address("magline"))
        node = magline.RawMagline(line)
        node.hello()
        node.control(magline.FIN, struct.pack(">I", 0x10000 + number))
        line.rest()
        line.close()

    await asyncio.to_thread(leave)


@pytest.mark.parametrize(
    ("protocol", "leave"), [("parcel", _leave_parcel), ("magline", _leave_magline)]
)
def test_peers_cannot_make_an_endless_list(
    protocol: str,
    leave: Callable[[Running, int], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wirelake.hub.observe.counters._MAX_REASONS", 3)
    settings = {"magline": {"anonymous": True}}.get(protocol, {"port": 0})

    async def go() -> None:
        async with running(listeners=[protocol], **{protocol: settings}) as it:
            for number in range(5):
                await leave(it, number)  # type: ignore[misc]
            await until(lambda: not it.hub.connections)
            counted = it.hub.counters.close_reasons
            assert len(counted) == 4
            assert counted[protocol, "other"] == 2
            for each in it.hub.table.closed_connections:
                assert each.reason.isprintable()
                assert len(each.reason) <= 64

    asyncio.run(go())


def test_reasons_of_the_hub_are_always_counted_apart() -> None:
    counters = Counters()
    for number in range(1_000):
        counters.closed("parcel", str(number), by_peer=True)
    counters.closed("parcel", "slow_reader", by_peer=False)
    counters.closed("parcel", "slow_reader", by_peer=True)
    assert len(counters.close_reasons) < 300
    assert counters.close_reasons["parcel", "slow_reader"] == 2
