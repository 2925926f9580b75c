"""Runs a hub as a process: its event loop, its signals, and its output.

    SIGTERM, SIGINT   drain: accept no connections, let running calls finish, close connections
    SIGHUP            reload limits and certificates; disconnect clients that were removed, or whose
                      token was replaced

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
from .eager import Background
from .errors import HubError
from .hub import Hub
from .observe.access_log import AccessLog
from .preflight import check_start
from .rpc.services import Services

__all__ = ["PrintLine", "run_hub"]

PrintLine: TypeAlias = Callable[[str], None]
"""Prints a line of output."""

_log = logging.getLogger(__name__)
_GC_THRESHOLDS: Final = (20_000, 20, 10)
"""Thresholds of the garbage collector. Closed connections are in no reference cycle (a test checks
that), so no memory waits for a collection."""


def run_hub(
    config: Config,
    data: str | Path,
    services: Services | None = None,
    *,
    print_line: PrintLine = print,
    reload_config: Callable[[], Config] | None = None,
    access_log: bool = False,
) -> None:
    """Run a hub until SIGTERM or SIGINT.

    `reload_config` returns the configuration on SIGHUP. Raises ConfigError for an invalid
    configuration, and when an address or the data directory cannot be used; nothing is created
    then. `access_log` logs connections, sign-ons, publishes and HTTP requests.
    """
    check_start(config, Path(data))
    _loop_runner()(_serve(config, Path(data), services, print_line, reload_config, access_log))


def _loop_runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Return the function that runs the event loop: uvloop's if it is installed."""
    # uvloop is 0.9 to 1.5 times as fast as asyncio here, so it is optional.
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


async def _serve(
    config: Config,
    data: Path,
    services: Services | None,
    print_line: PrintLine,
    reload_config: Callable[[], Config] | None,
    access_log: bool,
) -> None:
    hub = Hub(config, data, services)
    admin = AdminServer(hub, access_log=access_log)
    with _signals(hub, admin, reload_config):
        await hub.start()
        try:
            if access_log:
                hub.tap.add(AccessLog())
            await admin.start()
            _tune_garbage_collector()
            for line in listeners(hub, admin):
                print_line(line)
            print_line("ready")
            await hub.serve()
            await hub.drain()
        finally:
            await admin.stop()
            await hub.stop()


def _tune_garbage_collector() -> None:
    """Collect garbage less often: a collection takes longer the more connections are open."""
    # Everything that exists now lives as long as the hub: `freeze` excludes it from collections.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def listeners(hub: Hub, admin: AdminServer) -> list[str]:
    """Return a line for each address of each listener."""
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
    hub: Hub, admin: AdminServer, reload_config: Callable[[], Config] | None
) -> Iterator[None]:
    """Handle signals while the hub runs."""
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGTERM: hub.request_stop, signal.SIGINT: hub.request_stop}
    if reload_config is not None:
        reloads = Background(loop)
        handlers[signal.SIGHUP] = lambda: reloads.start(_reload(hub, admin, reload_config))
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def _reload(hub: Hub, admin: AdminServer, reload_config: Callable[[], Config]) -> None:
    """Apply a new configuration; an invalid one changes nothing."""
    if not hub.started:
        _log.error("configuration not reloaded: the hub is starting")
        return
    try:
        await hub.reload(reload_config(), admin)
    except (ConfigError, HubError) as error:
        _log.error("configuration not reloaded: %s", error)
        return
    _log.info("configuration reloaded")
