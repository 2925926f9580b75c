"""The hub's side of parcel: sign-on, requests to services and to the hub, notices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from wirelake.hub.errors import HubError
from wirelake.hub.net.connection import Connection
from wirelake.hub.net.listener import Listener
from wirelake.protocols.hub_calls import AUTH
from wirelake.protocols.sansio import Event, Role, SessionError

from . import BINDING
from .protocol import PROTOCOL, Answer, Ask, Hello, Notice, Status, Welcome
from .session import ParcelSession, Received


class ParcelConnection(Connection):
    """A courier's connection."""

    protocol: ClassVar[str] = PROTOCOL.name
    token_sign_on: ClassVar[bool] = True
    __slots__ = ()
    session: ParcelSession

    def make_session(self, now: float) -> ParcelSession:
        """The depot's end."""
        return ParcelSession(Role.SERVER, idle_s=self.listener.settings.idle_s, now=now)

    @property
    def may_receive(self) -> bool:
        """Whether notices may be sent: after sign-on, while the courier keeps up."""
        return self.client is not None and self.open and not self.paused_since

    def deliver(self, notifications: Sequence[Any]) -> None:
        """Send each as a notice."""
        for each in notifications:
            topic = each.topic or ""
            self.session.send(
                Notice(each.id, topic, sent_ms=each.ts_ms, type=each.type, content=each.content)
            )
        self.react()

    def on_event(self, event: Event) -> None:
        """Serve a message."""
        assert isinstance(event, Received)
        match event.body:
            case Hello(courier=courier, token=token):
                given = {"id": courier, "token": token}
                self.call_hub(AUTH.name, given, partial(self._signed_on, event.number))
            case Ask(target=target, body=body):
                answer = partial(self._answer, event.number)
                self.call_target(target, body, answer)

    def _signed_on(self, number: int, outcome: Any) -> None:
        if isinstance(outcome, HubError):
            self._answer(number, outcome)
        elif self.open:
            self.session.send(Welcome(to=number))
            self.react()

    def _answer(self, number: int, outcome: Any) -> None:
        if not self.open:
            return
        try:
            if not isinstance(outcome, HubError):
                self.session.send(Answer(number, Status.OK, self.json_result(outcome)))
        except HubError as error:
            outcome = error
        except SessionError as error:
            outcome = HubError("too_large", str(error))
        if isinstance(outcome, HubError):
            status = BINDING.error_number(outcome.code)
            self.session.send(Answer(number, status, outcome.text.encode()))
        self.count_call(outcome)
        self.react()


class ParcelListener(Listener):
    """Where couriers connect."""

    connection = ParcelConnection
