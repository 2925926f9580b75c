"""Calls over several connections to one server.

async with RpcPool("tny://127.0.0.1:9610", size=4, id="worker", token=token) as pool:
    result = await pool.call(1002, {"a": 1, "b": 2})
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

from wirelake.protocols import registry

from .client import Client
from .errors import BadCall, Unsupported
from .settings import make_settings
from .values import Result

__all__ = ["RpcPool"]


class RpcPool:
    """Each call goes by the connection with the fewest calls under way; a connection that is lost
    is made again while the others go on."""

    def __init__(self, url: str, *, size: int = 4, **options: Any):
        settings = make_settings(url, **options)
        protocol = settings.where.protocol
        if registry.binding(protocol).addressing == "none":
            raise Unsupported(f"{protocol} has no calls")
        if size < 1:
            raise BadCall("size: expected 1 or more")
        self._clients = [Client(settings) for _ in range(size)]
        self._turn = 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def connected(self) -> int:
        """The number of open connections."""
        return sum(client.connected for client in self._clients)

    async def open(self) -> None:
        """Connect; ClientError when one connection cannot be made, and then all are closed."""
        found = await asyncio.gather(*(c.open() for c in self._clients), return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException):
                await self.close()
                raise error

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(client.close() for client in self._clients))

    async def call(
        self, target: str | int, arguments: Any = None, *, timeout_s: float | None = None
    ) -> Result:
        """Call a service: see `Client.call`."""
        return await self._pick().call(target, arguments, timeout_s=timeout_s)

    def _pick(self) -> Client:
        """The least busy connected client; equals take turns."""
        self._turn += 1
        turned = self._clients[self._turn % len(self._clients) :]
        order = turned + self._clients[: len(self._clients) - len(turned)]
        return min(order, key=lambda client: (not client.connected, client.busy))
