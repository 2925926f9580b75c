"""The access log of `wirelake hub --verbose`: a line for each connection, sign-on and publish.

HTTP requests are logged by uvicorn. Calls are not logged: `wirelake tail` prints every message.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from .tap import ObservedConnection

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

__all__ = ["AccessLog"]

_log = logging.getLogger("wirelake.access")


class AccessLog:
    """An observer that logs."""

    def __init__(self) -> None:
        self._opened_ns: dict[int, int] = {}
        self._clients: dict[int, str] = {}

    def opened(self, connection: ObservedConnection, ts_ns: int) -> None:
        """Log an accepted connection."""
        self._opened_ns[connection.id] = ts_ns
        _log.info("%s opened", _name(connection))

    def signed_on(self, connection: ObservedConnection, client: str, ts_ns: int) -> None:  # noqa: ARG002
        """Log a sign-on."""
        self._clients[connection.id] = client
        _log.info("%s signed on as %s", _name(connection), json.dumps(client))

    def published(self, fact: dict[str, object], ts_ns: int) -> None:  # noqa: ARG002
        """Log a publish."""
        to = fact.get("topic", fact.get("client"))
        _log.info("published %s to %s, audience %s", fact["id"], json.dumps(to), fact["audience"])

    def closed(self, connection: ObservedConnection, ts_ns: int) -> None:
        """Log a closed connection."""
        seconds = (ts_ns - self._opened_ns.pop(connection.id, ts_ns)) / 1e9
        client = self._clients.pop(connection.id, None)
        _log.info(
            "%s closed by %s: %s, after %.3f s%s",
            _name(connection),
            connection.close_side,
            connection.close_reason,
            seconds,
            "" if client is None else f", client {json.dumps(client)}",
        )

    def crossed(
        self, connection: ObservedConnection, direction: Direction, frames: bytes, ts_ns: int
    ) -> None:
        """Ignore frames."""

    def keys(self, connection: ObservedConnection, line: str) -> None:
        """Ignore keys."""

    def tick(self, ts_ns: int) -> None:
        """Ignore the time."""

    def stop(self) -> None:
        """Log nothing more."""


def _name(connection: ObservedConnection) -> str:
    host, port = connection.peer
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"connection {connection.id} {connection.protocol} from {place}"
