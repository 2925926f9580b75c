"""Many simultaneous reconnects, a restarted hub, and leaks of connections."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.adversity.reconnects import Person, allow_many_files, come_and_go, gather, people_of
from tests.hub.stores import database_of
from tests.hub_raw.hub_process import HubProcess, running_hub, wait_until

_LIMITS = {"limits": {"half_open_per_address": 4_096, "connects_per_s": 20_000.0}}


async def _storm(hub: HubProcess, people: list[Person]) -> None:
    phones = await gather(hub.addresses["comet"], people)
    assert hub.varz()["connections"]["comet"] == len(people)
    await asyncio.gather(*(phone.beat() for phone in phones))
    hub.kill()
    await asyncio.gather(*(phone.ended() for phone in phones))
    for phone in phones:
        phone.hang_up()
    hub.start()
    back = await gather(hub.addresses["comet"], people)
    wanted = hub.publish(client=people[-1][0], content="after the storm")
    assert wanted["audience"] == 1
    await asyncio.gather(*(phone.beat() for phone in back[:-1]))
    assert hub.varz()["connections"]["comet"] == len(people)
    for phone in back:
        phone.hang_up()


@pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=pytest.mark.soak)])
def test_all_come_back_at_once(tmp_path: Path, count: int) -> None:
    allow_many_files(65_536)
    with running_hub(tmp_path, _LIMITS) as hub:
        people = people_of(database_of(hub.data), count)
        asyncio.run(_storm(hub, people))
        wait_until(lambda: not hub.varz()["connections"].get("comet"), "everybody has gone")


def _memory_after(hub: HubProcess, people: list[Person], count: int) -> int:
    asyncio.run(come_and_go(hub.addresses["comet"], people, count))
    wait_until(lambda: not hub.varz()["connections"].get("comet"), "everybody has gone")
    return hub.memory_kb()


def test_connections_leave_nothing_behind(tmp_path: Path) -> None:
    with running_hub(tmp_path, _LIMITS) as hub:
        people = people_of(database_of(hub.data), 100)
        first = _memory_after(hub, people, 2_000)
        second = _memory_after(hub, people, 2_000)
        assert second < first * 1.05, f"{first} kB, then {second} kB"
        assert hub.varz()["accepted"]["comet"] == 4_000
