"""The courier's side of parcel: what `wirelake.client.connect("parcel://…")` dials."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from wirelake.client import AuthFailed, Busy, CallFailed, Notification, Result, Unsupported
from wirelake.client.connection import ClientConnection, body_of, json_arguments
from wirelake.protocols.hub_calls import HUB_SERVICE
from wirelake.protocols.sansio import Event, Role, SessionError

from .protocol import PROTOCOL, Answer, Ask, Hello, Notice, Ping, Pong, Status, Welcome
from .session import IDLE_S, ParcelSession, Received


class ParcelConnection(ClientConnection):
    """One connection to a depot."""

    protocol: ClassVar[str] = PROTOCOL.name
    session: ParcelSession

    def make_session(
        self,
        now: float,
        previous: ClientConnection | None,  # noqa: ARG002 - parcel has no resumption
    ) -> ParcelSession:
        """The courier's end."""
        heartbeat_s = self.settings.heartbeat_s
        idle_s = IDLE_S if heartbeat_s is None else 2 * heartbeat_s
        return ParcelSession(Role.CLIENT, idle_s=idle_s, now=now)

    async def sign_on(self) -> None:
        """Say hello, when there is an id."""
        settings = self.settings
        if settings.id is None:
            return
        try:
            hello = Hello(courier=settings.id, token=settings.token)
            await self._send(hello, settings.sign_on_timeout_s)
        except Busy:
            raise
        except CallFailed as error:
            raise AuthFailed(error.code, error.text) from error

    @property
    def awaiting_reply(self) -> bool:
        """Whether the depot owes a reply."""
        return self.busy > 0

    async def ping(self) -> float:
        """Send a ping; return the time until the pong, in seconds."""
        began = self.loop.time()
        await self._send(Ping(), self.settings.timeout_s)
        return self.loop.time() - began

    def start_call(
        self, target: Any, arguments: Any, timeout_s: float, options: dict[str, Any]
    ) -> asyncio.Future[Result]:
        """Ask a service."""
        if options:
            raise Unsupported(f"parcel has no {next(iter(options))}")
        return self._send(Ask(target=str(target), body=body_of(arguments)), timeout_s)

    async def hub_call(
        self, name: str, arguments: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """Ask the hub itself."""
        ask = Ask(target=f"{HUB_SERVICE}/{name}", body=json_arguments(arguments))
        result: Result = await self._send(ask, timeout_s)
        return result.data

    def on_event(self, event: Event) -> None:
        """Complete the call that a message answers, or pass a notice on."""
        assert isinstance(event, Received)
        match event.body:
            case Answer(to=to, status=Status.OK, body=body):
                self.answer(to, Result(body))
            case Answer(to=to, status=status, body=body):
                self.fail(to, self.call_failed(status, body.decode("utf-8", "replace")))
            case Welcome(to=to) | Pong(to=to):
                self.answer(to, Result())
            case Notice() as notice:
                topic = notice.topic or None
                self.owner.notified(
                    Notification(notice.id, notice.content, notice.sent_ms, topic, notice.type)
                )

    def _send(self, body: Any, timeout_s: float) -> asyncio.Future[Any]:
        """Send a message; the future has the reply."""
        try:
            return self.wait_for(self.begin_send().send(body), timeout_s)
        except SessionError as error:
            raise self.refused(error) from error
