"""Many simultaneous clients that connect, sign on and disconnect as fast as possible."""

from __future__ import annotations

import asyncio
import random
import resource
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.hub_raw.raw_comet import AUTH_SUCCESS, HEARTBEAT, frame, text

from wirelake.hub.store import add_client

__all__ = ["Person", "Phone", "allow_many_files", "come_and_go", "gather", "people_of", "silent"]

Person = tuple[str, str]
_DEADLINE_S = 120.0


def people_of(database: Path, count: int, prefix: str = "person") -> list[Person]:
    """Add clients; return their tokens."""
    return [
        (name, add_client(database, name))
        for name in (f"{prefix}-{number}" for number in range(count))
    ]


def allow_many_files(count: int) -> None:
    """Raise the limit of open files for this process and its children."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


class Phone:
    """A signed-on connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer

    @classmethod
    async def dial(cls, address: tuple[str, int], person: Person) -> Phone:
        """Connect and sign on; retry if refused."""
        wait_s = 0.05
        while True:
            try:
                return await cls._dial_once(address, person)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(random.uniform(0, wait_s))
                wait_s = min(2 * wait_s, 2.0)

    @classmethod
    async def _dial_once(cls, address: tuple[str, int], person: Person) -> Phone:
        reader, writer = await asyncio.open_connection(*address)
        phone = cls(reader, writer)
        try:
            writer.write(frame(0, text(person[0]) + text(person[1])))
            assert (await phone._frame())[0] == AUTH_SUCCESS
        except BaseException:
            phone.hang_up()
            raise
        return phone

    async def _frame(self) -> bytes:
        (size,) = struct.unpack(">H", await self._reader.readexactly(2))
        return await self._reader.readexactly(size)

    async def beat(self) -> None:
        """Send a heartbeat and wait for the response."""
        self._writer.write(frame(HEARTBEAT))
        assert await self._frame() == b"\x00"

    async def ended(self) -> None:
        """Wait until the hub has closed the connection."""
        with suppress(OSError):
            while await self._reader.read(4096):
                pass

    def hang_up(self) -> None:
        """Close the connection abruptly."""
        self._writer.transport.abort()


async def gather(address: tuple[str, int], people: Sequence[Person]) -> list[Phone]:
    """Connect all clients at once; return the signed-on connections."""
    async with asyncio.timeout(_DEADLINE_S):
        return list(await asyncio.gather(*(Phone.dial(address, person) for person in people)))


async def come_and_go(
    address: tuple[str, int], people: Sequence[Person], count: int, at_once: int = 50
) -> None:
    """Open connections, some at a time: sign on, send a heartbeat, close."""
    numbers = iter(range(count))

    async def one_after_the_other() -> None:
        for number in numbers:
            phone = await Phone.dial(address, people[number % len(people)])
            await phone.beat()
            phone.hang_up()

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))


async def silent(address: tuple[str, int], count: int) -> list[asyncio.StreamWriter]:
    """Open connections that send nothing."""
    writers = []
    for _ in range(0, count, 200):
        some = min(200, count - len(writers))
        opened = await asyncio.gather(*(asyncio.open_connection(*address) for _ in range(some)))
        writers += [writer for _, writer in opened]
    return writers
