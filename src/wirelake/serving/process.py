"""A process that offers services to a hub, over ESNP.

It signs on as a client, offers all services at once, and answers the hub's requests. When the
connection is lost it dials again, and offers them again; calls that ran are cancelled, because
their callers have got an error already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import Any, Final

import msgspec

from wirelake.client.connection import ClientConnection, Notification, Push
from wirelake.client.errors import BadCall, CallFailed, ClientError, ConnectionLost
from wirelake.client.esnp import EsnpConnection
from wirelake.client.reconnect import ReconnectingClient
from wirelake.client.settings import make_settings
from wirelake.hub.rpc.services import Services
from wirelake.protocols.hub_calls import SERVE, WITHDRAW
from wirelake.wire.errors import invalid

from .esnp import Requests

__all__ = ["DEFAULT_CALLS", "MAX_CALLS", "ServiceProcess"]

_log = logging.getLogger(__name__)
DEFAULT_CALLS: Final = 64
"""Calls under way at a time, unless told otherwise."""
_LEAST_S: Final = 1.0
"""How long the hub may take to answer a withdrawal, however short the drain is."""
MAX_CALLS: Final = 256
"""The most: as many requests of the hub as an ESNP session keeps unanswered."""


class ServiceProcess(ReconnectingClient):
    """Offers services to one hub.

    `url` is that of the hub's ESNP listener, `calls` how many calls may be under way. Further
    options are those of `wirelake.client.connect`: `id`, `token`, `tls` and others.
    """

    def __init__(self, services: Services, url: str, *, calls: int = DEFAULT_CALLS, **options: Any):
        if not services.every:
            raise BadCall("no services to offer")
        if not 1 <= calls <= MAX_CALLS:
            raise BadCall(invalid("calls", calls, f"1 to {MAX_CALLS}"))
        settings = make_settings(url, **options)
        if settings.where.protocol != EsnpConnection.protocol:
            expected = f"{EsnpConnection.protocol}://HOST:PORT"
            raise BadCall(f"{url}: services cannot be offered over this protocol; use {expected}")
        super().__init__(settings)
        self.services = services
        self.calls = calls
        """How many calls the hub sends at a time; it may have a lower limit."""
        self._wanted = calls
        self._requests: Requests | None = None
        self._draining = False
        self._ended: asyncio.Future[ClientError | None] | None = None

    async def open(self) -> None:
        """Connect, sign on and offer the services; ClientError when the hub refuses."""
        self._ended = asyncio.get_running_loop().create_future()
        await super().open()

    async def wait(self) -> None:
        """Wait until the process is closed; ClientError when it cannot go on."""
        if self._ended is None:
            raise BadCall("open the process first: async with ServiceProcess(...) as process")
        error = await asyncio.shield(self._ended)
        if error is not None:
            raise error

    @property
    def running(self) -> int:
        """Calls under way."""
        return 0 if self._requests is None else self._requests.running

    async def drain(self, timeout_s: float) -> int:
        """Offer nothing any more, and let the calls under way finish.

        Returns how many are left after that time; `close` cancels them.
        """
        self._draining = True  # a connection that is made meanwhile offers nothing
        deadline = asyncio.get_running_loop().time() + timeout_s
        connection, requests = self._connection, self._requests
        if not isinstance(connection, EsnpConnection) or requests is None:
            return 0
        # Without an answer, the hub may still send calls; they are answered like the others.
        with contextlib.suppress(ClientError):
            await connection.hub_call(WITHDRAW.name, {}, max(timeout_s, _LEAST_S))
        await requests.finished(deadline)
        return requests.running

    # -- for the base class ------------------------------------------------------------------

    async def prepare(self, connection: ClientConnection) -> None:
        """Offer the services on a new connection."""
        assert isinstance(connection, EsnpConnection)
        requests = Requests(connection, self.services, self._wanted)
        # Before the offer: the hub may send a call together with its answer.
        connection.on_request = requests.start
        connection.lost.add_done_callback(partial(self._lost, requests))
        self._requests = requests
        if self._draining:
            return
        offers = [msgspec.structs.asdict(each) for each in self.services.offers()]
        arguments = {"services": offers, "calls": self._wanted}
        limit_s = self.settings.sign_on_timeout_s
        try:
            answer = await connection.hub_call(SERVE.name, arguments, limit_s)
        except CallFailed as error:
            if self.connects:  # otherwise `open` raises it
                _log.warning("%s: %s; trying again", self.settings.where.place, error)
            raise
        self.calls = int(answer["calls"])

    def _lost(self, requests: Requests, error: asyncio.Future[ConnectionLost]) -> None:
        requests.cancel_all()
        if self._finished is None and self._requests is requests and self.connects:
            _log.warning("%s: %s; dialling again", self.settings.where.place, error.result())

    def on_dialled(self, connection: ClientConnection) -> None:
        """Do nothing: requests come only after the offer."""

    def on_ready(self, connection: ClientConnection) -> None:  # noqa: ARG002
        """Log that the services are offered again."""
        if self.connects > 1 and not self._draining:
            _log.warning("%s: connected, services are offered again", self.settings.where.place)

    def on_finished(self, error: ClientError | None) -> None:
        """Let `wait` return."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(error)

    @property
    def full(self) -> bool:
        """Always false: the hub bounds what it sends."""
        return False

    def notified(self, notification: Notification) -> None:
        """Ignore a notification: a service process has no subscriptions of its own."""

    def pushed(self, push: Push) -> None:
        """Take an event of the hub about a call."""
        if self._requests is not None:
            self._requests.told(push.target, push.message)
