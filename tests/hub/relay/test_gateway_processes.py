"""A gateway and two backends, each a process: one is killed and replaced, and calls go on."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.hub.listeners_tny.tny_client import TnyClient, body_of, tny_client
from tests.hub.relay.relay_processes import START_S, HubProcess, backend_process, gateway_process
from tests.hub.running import DEADLINE_S, until

pytestmark = pytest.mark.slow

USERS = 8
ANSWERED = 20
"""Calls of each user that must succeed after each change."""


class Caller:
    """A user that calls without a pause, and counts what it is answered."""

    def __init__(self, client: TnyClient):
        self.client = client
        self.codes: dict[int, int] = {}
        self.wrong: list[Any] = []
        self._enough = False
        self._task = asyncio.ensure_future(self._calls())

    async def _calls(self) -> None:
        n = 0
        while not self._enough:
            n += 1
            answer = await asyncio.wait_for(self.client.ask(1002, {"a": n, "b": 1}), DEADLINE_S)
            self.codes[answer.code] = self.codes.get(answer.code, 0) + 1
            if answer.code == 100 and body_of(answer) != {"c": n + 1}:
                self.wrong.append((n, answer.body))

    async def goes_on(self) -> None:
        """Waits until some more calls have succeeded."""
        wanted = self.codes.get(100, 0) + ANSWERED
        await until(lambda: self._task.done() or self.codes.get(100, 0) >= wanted, "calls go on")
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Waits for the last answer."""
        self._enough = True
        await self._task


def test_one_of_two_backends_is_killed_and_replaced(tmp_path: Path) -> None:
    with ExitStack() as processes:
        start = processes.enter_context
        backends = [start(backend_process(tmp_path / f"backend{n}")) for n in range(2)]
        gate = start(gateway_process(tmp_path / "gateway", backends))
        asyncio.run(_users_go_on(processes, tmp_path, backends, gate))


async def _users_go_on(
    processes: ExitStack, folder: Path, backends: list[HubProcess], gate: HubProcess
) -> None:
    async with AsyncExitStack() as clients:
        callers = []
        for _ in range(USERS):
            client = await clients.enter_async_context(tny_client(gate.address("tny")))
            callers.append(Caller(client))
        await _all_go_on(callers)

        backends[0].end(signal.SIGKILL)
        await _all_go_on(callers)

        port = backends[0].address("relay")[1]
        starting = backend_process(folder / "replacement", port)
        replacement = await asyncio.to_thread(processes.enter_context, starting)
        async with asyncio.timeout(START_S):
            while await asyncio.to_thread(replacement.links) < 2:
                await _all_go_on(callers)

        backends[1].end(signal.SIGKILL)  # now everybody depends on the one that is new
        await _all_go_on(callers)
        for caller in callers:
            await caller.stop()
        _check(callers)


async def _all_go_on(callers: list[Caller]) -> None:
    for caller in callers:
        await caller.goes_on()


def _check(callers: list[Caller]) -> None:
    assert [caller.wrong for caller in callers] == [[]] * USERS
    assert all(set(caller.codes) <= {100, 200} for caller in callers), "a call was refused"
    # Each user lost at most the one call that was under way at each of the two deaths.
    assert all(caller.codes.get(200, 0) <= 2 for caller in callers)
    assert all(caller.client.session.state == "open" for caller in callers)


def test_a_stopping_gateway_closes_its_links(tmp_path: Path) -> None:
    with ExitStack() as processes:
        backend = processes.enter_context(backend_process(tmp_path / "backend"))
        gate = processes.enter_context(gateway_process(tmp_path / "gateway", [backend]))

        async def go() -> None:
            async with tny_client(gate.address("tny")) as client:
                assert body_of(await client.call(1002, {"a": 1, "b": 2})) == {"c": 3}
                gate.process.send_signal(signal.SIGTERM)
                assert await client.ended() == "eof"

        asyncio.run(go())
        assert gate.end(signal.SIGTERM) == (0, b"")
        assert backend.end(signal.SIGTERM) == (0, b"")
