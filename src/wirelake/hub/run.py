"""Runs a hub as a process: its loop, its signals, and what it says when it is ready.

    SIGTERM, SIGINT   drain: no new connections, calls under way finish, goodbyes are said
    SIGHUP            limits and certificates are read again, removed clients are sent away

On standard output there is one line `listening NAME ADDRESS` for each listener, then `ready`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from .admin import AdminServer
from .config import Config, ConfigError
from .hub import Hub
from .rpc.services import Services

__all__ = ["Say", "run_hub"]

Say: TypeAlias = Callable[[str], None]
"""Takes a line for whoever started the hub."""

_log = logging.getLogger(__name__)
_COLLECT: Final = (20_000, 20, 10)
"""Objects made, and rounds of the younger generations, between two looks for cycles. Connections
are in none when they are over, so that nothing waits for a look."""


def run_hub(
    config: Config,
    data: str | Path,
    services: Services | None = None,
    *,
    say: Say = print,
    read_again: Callable[[], Config] | None = None,
) -> None:
    """Runs a hub until a signal ends it.

    `read_again` gives the configuration anew on SIGHUP. Raises ConfigError for what cannot work,
    and OSError when an address or the data directory cannot be had.
    """
    _loop_runner()(_serve(config, Path(data), services, say, read_again))


def _loop_runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    """What runs the loop: uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


async def _serve(
    config: Config,
    data: Path,
    services: Services | None,
    say: Say,
    read_again: Callable[[], Config] | None,
) -> None:
    hub = Hub(config, data, services)
    admin = AdminServer(hub)
    with _signals(hub, admin, read_again):
        await hub.start()
        try:
            await admin.start()
            _spare_the_collector()
            for line in listeners(hub, admin):
                say(line)
            say("ready")
            await hub.serve()
            await hub.drain()
        finally:
            await admin.stop()
            await hub.stop()


def _spare_the_collector() -> None:
    """Looks for cycles less often: little that lives long is in one, and looking takes longer the
    more connections there are."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT)


def listeners(hub: Hub, admin: AdminServer) -> list[str]:
    """A line for each address that somebody listens on."""
    found = [
        (name, address)
        for name, listener in hub.listeners.items()
        for address in listener.addresses
    ]
    found += [("admin", address) for address in admin.addresses]
    return [f"listening {name} {_shown(address)}" for name, address in found]


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def _signals(
    hub: Hub, admin: AdminServer, read_again: Callable[[], Config] | None
) -> Iterator[None]:
    """Lets signals act on the hub meanwhile."""
    loop = asyncio.get_running_loop()
    acts = {signal.SIGTERM: hub.shut, signal.SIGINT: hub.shut}
    if read_again is not None:
        acts[signal.SIGHUP] = lambda: _reload(hub, admin, read_again)
    for number, act in acts.items():
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number in acts:
            loop.remove_signal_handler(number)


def _reload(hub: Hub, admin: AdminServer, read_again: Callable[[], Config]) -> None:
    """Takes over what can be; a configuration that cannot work changes nothing."""
    try:
        hub.reload(read_again())
        admin.reload_tls()
    except ConfigError as error:
        _log.error("not reloaded: %s", error)
        return
    hub.authority.recheck()
    _log.info("reloaded")
