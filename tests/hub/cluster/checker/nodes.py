"""The hubs of a round, each with its own link to the database, and what may happen to them."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from tests.adversity.proxy import FAIR, Conditions, Proxy
from tests.hub.cluster.checker.history import History
from tests.hub_raw.hub_process import HubProcess, toml_of
from tests.postgres_server import PASSWORD, USER, Server

__all__ = ["LEASE_S", "Link", "Node", "free_port", "harm", "harm_database"]

LEASE_S = 1.5
RENEW_S = 0.3
_SKEWS_S = (0.0, 0.0, -60.0, -1.5, 1.5, 60.0)
_STARTS = 20
_LISTENERS = ("esnp", "tny", "relay", "magline", "comet", "admin")


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Link(Proxy):
    """A hub's connections to the database: they may be cut, or stop without being cut."""

    def __init__(self, target: Callable[[], tuple[str, int]], seed: int):
        self._cut = False
        self._flows: asyncio.Event | None = None
        super().__init__(lambda: self._target_or_none(target), FAIR, seed)

    def _target_or_none(self, target: Callable[[], tuple[str, int]]) -> tuple[str, int]:
        if self._cut:
            raise OSError
        return target()

    async def _pass_on(
        self, data: bytes, at: int, writer: asyncio.StreamWriter, allowed: list[int]
    ) -> int:
        if self._flows is not None:
            await self._flows.wait()
        return await super()._pass_on(data, at, writer, allowed)

    def cut(self) -> None:
        """Reset all connections, and refuse new ones."""
        self._cut = True
        self._loop.call_soon_threadsafe(self._reset_all)

    def _reset_all(self) -> None:
        for each in self._taken_writers:
            each.transport.abort()
        self._taken_writers.clear()

    def freeze(self) -> None:
        """Let nothing through, and close nothing."""
        self._flows = asyncio.Event()

    def slow(self, delay_s: float) -> None:
        """Delay everything."""
        self.conditions = Conditions(delay_s=delay_s)

    def heal(self) -> None:
        """Let everything through as it comes."""
        self._cut, self.conditions = False, FAIR
        flows, self._flows = self._flows, None
        if flows is not None:
            self._loop.call_soon_threadsafe(flows.set)


class Node(HubProcess):
    """A hub that is started more than once, at the same ports, with another name each time."""

    def __init__(
        self, folder: Path, number: int, database: str, server: Server, history: History, seed: int
    ):
        folder.mkdir()
        super().__init__(folder, demo=False)
        self.number = number
        self.history = history
        self.random = random.Random(seed)
        self.link = Link(lambda: ("127.0.0.1", server.port), seed)
        self.ports = {name: free_port() for name in _LISTENERS}
        self._database = database
        self._starts = 0
        self._skew_s = 0.0

    @property
    def name(self) -> str:
        """The name of this process."""
        return f"hub{self.number}.{self._starts}"

    @property
    def command(self) -> list[str]:
        """How it is started."""
        own = [self.name, str(LEASE_S), str(RENEW_S), str(self._skew_s)]
        command = [sys.executable, "-m", "tests.hub.cluster.checker.hub_main", *own]
        return [*command, "hub", "--data", str(self.data), "--config", str(self.config)]

    def start(self) -> None:
        """Start it with another name, and perhaps another clock."""
        self._starts += 1
        self._skew_s = self.random.choice(_SKEWS_S)
        where = f"{USER}:{PASSWORD}@127.0.0.1:{self.link.address[1]}/{self._database}"
        tables: dict[str, object] = {name: {"port": port} for name, port in self.ports.items()}
        tables["store"] = {"path": f"postgresql://{where}?application_name={self.name}"}
        self.config.write_text(toml_of(tables))
        super().start()
        self.history.add("fault", hub=self.number, what=f"started {self.name} {self._skew_s:+} s")

    async def start_again(self) -> None:
        """Start it, again if the database cannot be reached."""
        for _ in range(_STARTS):
            try:
                await asyncio.to_thread(self.start)
            except AssertionError as error:
                if not _is_out_of_reach(str(error)):
                    raise
                await asyncio.sleep(0.3)
            else:
                return
        raise AssertionError(f"hub {self.number} does not start: {self.errors()[-2000:]}")


def _is_out_of_reach(text: str) -> bool:
    return "does the server run" in text[-600:] or "cannot" in text[-600:]


async def harm(node: Node, until: float) -> None:
    """Let things happen to a hub until a time of the loop; it runs and is connected afterwards."""
    loop, choose = asyncio.get_running_loop(), node.random
    while loop.time() < until:
        await asyncio.sleep(choose.uniform(0.5, 2.5))
        what = choose.choice(("kill", "stop", "pause", "pause", "cut", "freeze", "slow"))
        length_s = choose.choice((0.1, 0.5, LEASE_S, 2 * LEASE_S)) * choose.uniform(0.5, 1.5)
        node.history.add("fault", hub=node.number, what=f"{what} {length_s:.2f} s")
        if what in ("kill", "stop"):
            await asyncio.to_thread(node.kill if what == "kill" else node.stop)
            await asyncio.sleep(length_s)
            await node.start_again()
        elif what == "pause":
            node.tell(signal.SIGSTOP)
            await asyncio.sleep(length_s)
            node.tell(signal.SIGCONT)
        else:
            link = node.link
            if what == "cut":
                link.cut()
            elif what == "freeze":
                link.freeze()
            else:
                link.slow(0.08)
            await asyncio.sleep(length_s)
            link.heal()
        node.history.add("fault", hub=node.number, what=f"{what} is over")


async def harm_database(
    server: Server, history: History, choose: random.Random, until: float
) -> None:
    """Kill the database now and then; it runs afterwards."""
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        await asyncio.sleep(choose.uniform(3.0, 12.0))
        if loop.time() > until:
            return
        history.add("fault", hub=0, what="kill")
        await asyncio.to_thread(server.stop, choose.choice((signal.SIGKILL, signal.SIGINT)))
        await asyncio.sleep(choose.uniform(0.0, 1.0))
        # Not in another thread: the server ends with the thread that has started it.
        server.start()
        history.add("fault", hub=0, what="kill is over")
