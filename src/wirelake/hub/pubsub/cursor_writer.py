"""Saves how far clients have come: together, and not at once.

A crash before it repeats deliveries; it loses none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..errors import HubError
from ..store import InboxRow
from .clients import Client

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["SAVE_S", "Saving"]

SAVE_S: Final = 0.05
"""How long an acknowledgement may wait to be saved."""
_AT_ONCE: Final = 1_000
"""Inboxes that are packed in one go: a few milliseconds."""


class Saving:
    """Which inboxes are to be saved."""

    def __init__(self, hub: Hub, prepare: Callable[[Client], None]):
        self._hub = hub
        self._prepare = prepare
        self._changed: dict[Client, None] = {}
        self._scheduled = False

    def soon(self, client: Client) -> None:
        """The client has come further."""
        if client.durable:
            self._changed[client] = None
            self._schedule()

    def forget(self, client: Client) -> None:
        """The client is no more."""
        self._changed.pop(client, None)

    def save(self, limit: int | None = None) -> None:
        """Saves those that have changed; what cannot be written is tried again."""
        clients = list(self._changed)[:limit]
        if not clients:
            return
        for client in clients:
            del self._changed[client]
            self._prepare(client)
            inbox = client.inbox
            self._hub.store.save_inbox(InboxRow(client.number, inbox.cursor, inbox.pack()))

        def done(error: HubError | None) -> None:
            if error is not None:
                for client in clients:
                    self.soon(client)

        self._hub.store.inboxes_saved(done)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._hub.loop.call_later(SAVE_S, self._some)

    def _some(self) -> None:
        self._scheduled = False
        self.save(_AT_ONCE)
        if self._changed:
            self._schedule()
