"""Hubs in a thread of the tests, for commands that run in the main thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.hub.admin.admin_client import admin_client
from tests.hub.certificates import make_certificate
from tests.hub.running import running as running_hub

from wirelake.hub.rpc.demo_services import demo_services

T = TypeVar("T")

CLIENT = "phone-1"
DEADLINE_S = 60.0


class Hubs(NamedTuple):
    """Addresses of a plain hub and of one with TLS on every listener, and how to sign on."""

    places: dict[str, str]
    """By protocol, and `admin`: `127.0.0.1:PORT`."""
    tls_places: dict[str, str]
    ca: Path
    token_file: Path
    admin_token_file: Path


@asynccontextmanager
async def _hubs(folder: Path) -> AsyncIterator[Hubs]:
    made = make_certificate(folder)
    names = ("esnp", "tny", "relay", "magline", "comet")
    secured = {name: {"tls": made.settings} for name in names}
    services = demo_services()

    @services.service("test", "count")
    async def count(to: int) -> AsyncIterator[dict[str, int]]:
        for n in range(to):
            yield {"n": n}

    async with (
        running_hub(clients=[CLIENT], listeners=names, services=services) as plain,
        admin_client(plain.hub) as admin,
        running_hub(
            clients=[CLIENT], listeners=names, services=demo_services(), **secured
        ) as encrypted,
    ):
        (folder / "phone-1.token").write_text(plain.tokens[CLIENT] + "\n")
        (folder / "admin.token").write_text(admin.token + "\n")
        yield Hubs(
            {**_places(plain.hub.listeners), "admin": "{}:{}".format(*admin.address)},
            _places(encrypted.hub.listeners),
            made.certificate,
            folder / "phone-1.token",
            folder / "admin.token",
        )


def _places(listeners: dict[str, object]) -> dict[str, str]:
    return {
        name: "{}:{}".format(*each.addresses[0])  # type: ignore[attr-defined]
        for name, each in listeners.items()
    }


@contextmanager
def hubs_in_thread(folder: Path) -> Iterator[Hubs]:
    """Run the hubs until the end of the block."""
    with in_thread(lambda: _hubs(folder)) as hubs:
        yield hubs


@contextmanager
def in_thread(make: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Run something asynchronous in a thread with a loop of its own, until the end of the block."""
    started, failed = threading.Event(), []
    found: list[T] = []
    ended: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def work() -> None:
        end = asyncio.Event()
        ended.append((asyncio.get_running_loop(), end))
        async with make() as running:
            found.append(running)
            started.set()
            await end.wait()

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failed.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(DEADLINE_S)
    try:
        assert not failed, failed
        yield found[0]
    finally:
        loop, end = ended[0]
        if not failed:
            loop.call_soon_threadsafe(end.set)
        thread.join(DEADLINE_S)
    assert not failed, failed
