"""The hub of a live run, found by its admin address and its data directory.

The admin address says where the listeners are and whether everything is recorded; it also
publishes. The data directory has the admin token and the store, to which clients are added while
the hub runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from wirelake.hub.store import StoreError, add_client, database_path

from ..plan import SimulateError

__all__ = ["DEADLINE_S", "Admin", "HubAddress", "add_clients", "find_listeners"]

DEADLINE_S: Final = 30.0
"""Maximum time a hub may take for anything."""
_OK: Final = 200
_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class HubAddress:
    """A hub that runs."""

    admin: str
    """Its admin address, such as `http://127.0.0.1:9680`."""
    data: Path
    """Its data directory."""


class Admin:
    """The admin API of a hub."""

    def __init__(self, hub: HubAddress):
        self._host, self._port = _address(hub.admin)
        self._where = hub.admin
        self._token = _token(hub.data)

    async def publish(self, **what: Any) -> tuple[str, int]:
        """Publish; return the id of the notification and its audience."""
        found = await self.ask("POST", "/v1/publish", what)
        return str(found["id"]), int(found["audience"])

    async def varz(self) -> dict[str, Any]:
        """Return the counters of the hub."""
        return dict(await self.ask("GET", "/varz"))

    async def peers(self) -> set[str]:
        """Return address and port of every connected client."""
        found: set[str] = set()
        while True:
            page = await self.ask("GET", f"/connz?limit={_PAGE}&offset={len(found)}")
            found.update(each["peer"] for each in page["connections"])
            if len(page["connections"]) < _PAGE:
                return found

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send one request, on a connection of its own."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                status, answer = await self._exchange(method, path, body)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise SimulateError(
                f"{self._where}: not a hub's admin address; expected the address that the hub"
                " prints as `listening admin`"
            ) from error
        except (OSError, TimeoutError) as error:
            raise SimulateError(
                f"{self._where}: no hub answers ({error or 'timeout'}); start one with "
                f"`wirelake hub --demo --record DIR`"
            ) from error
        if status != _OK:
            hint = "; is --data the directory of this hub?" if status in (401, 403) else ""
            raise SimulateError(f"{self._where}{path}: the hub answers {status}{hint}")
        try:
            return json.loads(answer)
        except ValueError as error:
            raise SimulateError(f"{self._where}{path}: not the response of a hub") from error

    async def _exchange(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> tuple[int, bytes]:
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Authorization: Bearer {self._token}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        # By hand, because the standard library has no asynchronous HTTP client, and a blocking one
        # would stop all simulated clients of this process.
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(head.encode() + data)
            top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            sizes = [int(each[15:]) for each in top if each.lower().startswith("content-length:")]
            answer = await (reader.readexactly(sizes[0]) if sizes else reader.read())
            return int(top[0].split()[1]), answer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _address(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme != "http":
        raise SimulateError(f"invalid hub address {url!r}; expected one like http://127.0.0.1:9680")
    return host, port or 80


def _token(data: Path) -> str:
    try:
        return (data / "admin.token").read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise SimulateError(
            f"{data}: no admin.token; expected the data directory of the running hub"
        ) from error


async def find_listeners(admin: Admin, required: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return the addresses of the hub's listeners. Raises SimulateError if one is missing."""
    found = await admin.varz()
    await admin.peers()  # reports a wrong token before anything is changed
    listeners = {name: _listener(at) for name, at in found["listeners"].items() if at}
    missing = [name for name in required if name not in listeners]
    if missing:
        raise SimulateError(f"the hub has no listener for {', '.join(missing)}; enable it")
    if found["recording"] != "on":
        raise SimulateError(
            f"the hub does not record (recording is {found['recording']}); start it with --record"
        )
    return listeners


def _listener(where: list[str]) -> tuple[str, int]:
    host, _, port = where[0].rpartition(":")
    host = host.strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), int(port)


def add_clients(data: Path, names: Iterable[str]) -> dict[str, str]:
    """Add clients to the store of a hub; return their tokens."""
    path = database_path("", data)
    if not Path(path).exists():
        raise SimulateError(
            f"{path}: no such store; expected the data directory of the running hub"
        )
    try:
        return {name: add_client(path, name) for name in names}
    except StoreError as error:
        raise SimulateError(f"{data}: {error}") from error
