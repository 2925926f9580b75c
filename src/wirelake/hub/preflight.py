"""Checks before a hub starts: its addresses can be used, its certificates and keys of
issuers load.

A hub opens its listeners last, when the store is open and the keys are made. What would stop it
there is found here first, while there is nothing to undo: a start that fails leaves no files
behind, and the error names the listener, the cause and the remedy. All addresses are bound at the
same time, so that two listeners with one port are found as well.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from wirelake.protocols.binding import ListenerSettings, TlsSettings

from .auth import read_secret
from .config import AdminSettings, Config, ConfigError
from .net.listener import tls_context
from .signed_tokens import Issuers

__all__ = ["check_start"]


def check_start(config: Config, data: Path) -> None:
    """Raise ConfigError when the hub cannot start with this configuration."""
    _check_folder("--data", data)
    if config.record.folder:
        _check_folder("record.folder", Path(config.record.folder))
    tables: dict[str, ListenerSettings | AdminSettings] = {
        **config.listeners,
        "admin": config.admin,
    }
    enabled = {name: settings for name, settings in tables.items() if settings.enabled}
    if not enabled:
        raise ConfigError(
            f"every listener is disabled; expected enabled = true for one of {', '.join(tables)}"
        )
    Issuers(read_secret, time.monotonic).prepare(config.auth)
    ports: dict[int, str] = {}
    with ExitStack() as sockets:
        for name, settings in enabled.items():
            _check_tls(name, settings.tls)
            hosts = (settings.host,) if isinstance(settings.host, str) else settings.host
            for host in hosts:
                for bound in _bound(name, host, settings.port, ports):
                    sockets.enter_context(bound)
            ports.setdefault(settings.port, name)


def _check_folder(option: str, folder: Path) -> None:
    """Check that a folder can be created and written, by the nearest one that exists."""
    nearest = folder.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise ConfigError(f"{option}: {nearest}: not a folder; choose another one")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{option}: {nearest}: permission denied; choose another folder, or change its owner"
        )


def _check_tls(name: str, settings: TlsSettings | None) -> None:
    if settings is None:
        return
    for key in ("certificate", "key", "client_ca"):
        file = getattr(settings, key)
        if not file:
            continue
        try:
            with Path(file).open("rb"):
                pass
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            raise ConfigError(f"{name}.tls.{key}: {file}: {why}; expected a PEM file") from error
    try:
        tls_context(settings)
    except ConfigError as error:
        raise ConfigError(f"{name}.{error}") from error


def _bound(name: str, host: str, port: int, ports: Mapping[int, str]) -> Iterator[socket.socket]:
    """Yield a listening socket for each address of a host.

    `ports` are those of the listeners before it.
    """
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError(f"{name}.host: unknown host {host!r}; expected an address") from error
    for family, kind, protocol, _, address in dict.fromkeys(found):
        bound = socket.socket(family, kind, protocol)
        # As asyncio does it: an address whose last connections are closing can be used.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            bound.bind(address)
            bound.listen(1)  # two sockets may be bound to one port, but only one may listen
        except OSError as error:
            bound.close()
            raise _bind_error(name, host, port, ports.get(port), error) from error
        yield bound


def _bind_error(name: str, host: str, port: int, same: str | None, error: OSError) -> ConfigError:
    """Return the error for an address; `same` is another listener with the same port."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    other = f"choose another port with --port {name}=PORT or {name}.port"
    match error.errno:
        case errno.EADDRINUSE if same is not None:
            return ConfigError(f"{name}: port {port} is also the port of {same}: {other}")
        case errno.EADDRINUSE:
            return ConfigError(
                f"{name}: address {place} is already in use, perhaps by another hub: stop that "
                f"program, or {other}"
            )
        case errno.EACCES:
            return ConfigError(f"{name}: no permission to listen on {place}: {other}")
        case errno.EADDRNOTAVAIL:
            return ConfigError(
                f"{name}.host: {host} is not an address of this machine; expected one of its "
                f"addresses, such as 127.0.0.1, or 0.0.0.0 for all"
            )
    return ConfigError(f"{name}: cannot listen on {place}: {os.strerror(error.errno or 0)}")
