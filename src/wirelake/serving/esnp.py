"""The requests of a hub on one connection, and their answers.

Each request is a call of a function of `Services`, as in a hub; its caller is in HEADERs. Every
request is answered exactly once, a cancelled one with an error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any, Final

from wirelake.client.errors import ClientError
from wirelake.client.esnp import EsnpConnection
from wirelake.hub.errors import HubError
from wirelake.hub.listeners.esnp import payload_of, rows_of, target_of
from wirelake.hub.listeners.esnp_provider import header_value
from wirelake.hub.rpc.call_types import Call, Reply, Result
from wirelake.hub.rpc.services import FunctionService, Services
from wirelake.protocols.esnp.layout import Data, Header, Message, Payload, Row
from wirelake.protocols.esnp.session import Call as Request
from wirelake.protocols.esnp.values import values_of, var_of
from wirelake.protocols.hub_calls import (
    CANCEL,
    CLIENT_HEADER,
    CODE_HEADER,
    HUB_SERVICE,
    KIND_HEADER,
    MORE,
    PROTOCOL_HEADER,
    TIMEOUT_HEADER,
    WINDOW_HEADER,
)
from wirelake.protocols.sansio import SessionError
from wirelake.wire.errors import EncodeError

__all__ = ["Requests"]

_ECHOED: Final = frozenset({Data, Payload})
_CANCELLED: Final = HubError("failed", "the call was cancelled")
_NO_WINDOW: Final = 1 << 31
"""The window of a hub that names none."""


class ServedCall(Call, frozen=True, gc=False, eq=False):
    """A call that a hub has sent."""

    received: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the request; those of an ESNP caller, and HEADERs of the hub."""
        return self.received

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """Each PAYLOAD row."""
        return tuple(row.data for row in self.received if isinstance(row, Payload))

    @property
    def timeout_s(self) -> float | None:
        """How long the hub waits."""
        limit_ms = header_value(self.received, TIMEOUT_HEADER)
        return limit_ms / 1000 if isinstance(limit_ms, int) else None

    @property
    def echo(self) -> Result:
        """The DATA and PAYLOAD rows."""
        return Reply(rows=tuple([row for row in self.received if type(row) in _ECHOED]))


class _Client:
    """The client that has called, as the hub names it. The hub has checked its rights."""

    __slots__ = ("id",)
    rights: Final = None

    def __init__(self, client_id: str):
        self.id = client_id


class _Running:
    """One request; for its `Call` it is the connection of the caller."""

    __slots__ = ("_requests", "allowed", "changed", "client", "number", "request", "sent", "task")

    def __init__(self, requests: Requests, request: Request, client_id: str, window: int):
        self._requests = requests
        self.request = request
        self.number = request.id or 0
        self.client = _Client(client_id) if client_id else None
        self.task: asyncio.Future[Any] | None = None
        self.sent = 0
        self.allowed = window
        """How many parts may be sent."""
        self.changed = asyncio.Event()

    @property
    def peer(self) -> tuple[str, int]:
        """The address of the hub."""
        where = self._requests.connection.settings.where
        return where.host, where.port

    @property
    def is_busy(self) -> bool:
        """Always false: `Requests` has checked it."""
        return False

    def spawn(self, work: Awaitable[Any], held_bytes: int = 0) -> None:  # noqa: ARG002
        """Keep the task of the call; if it is cancelled, the hub gets an error."""
        self.task = asyncio.ensure_future(work)
        self.task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        if task.cancelled():
            self._requests.answer(self, _CANCELLED)
        elif task.exception() is not None:  # answering failed: the connection is closed
            self._requests.forget(self)

    async def part(self, result: Result) -> None:
        """Send one part of a stream, once the hub takes it."""
        while self.sent >= self.allowed:
            self.changed.clear()
            await self.changed.wait()
        self.sent += 1
        self._requests.reply(self, result, (self.sent, 0))
        await asyncio.sleep(0)  # a generator that never waits must not keep others waiting


class Requests:
    """Answers the requests of one connection."""

    def __init__(self, connection: EsnpConnection, services: Services, limit: int):
        self.connection = connection
        self._services = services
        self._limit = limit
        self._running: dict[int, _Running] = {}
        self._idle = asyncio.Event()

    @property
    def running(self) -> int:
        """Calls under way."""
        return len(self._running)

    def start(self, request: Request) -> None:
        """Call the service of a request."""
        rows = request.message.rows
        if len(request.parts) > 1:
            rows = tuple([row for part in request.parts for row in part.rows])
        window = header_value(rows, WINDOW_HEADER)
        client_id = str(header_value(rows, CLIENT_HEADER) or "")
        running = _Running(
            self, request, client_id, window if isinstance(window, int) else _NO_WINDOW
        )
        service = self._services.named(*target_of(rows))
        if service is None:
            name = "/".join(target_of(rows))
            self._reply_error(running, HubError("failed", f"this process has no {name!r}"))
        elif len(self._running) >= self._limit:
            self._reply_error(running, HubError("too_busy", "too many calls in this process"))
        else:
            self._running[running.number] = running
            kind = header_value(rows, KIND_HEADER)
            call = ServedCall(
                str(header_value(rows, PROTOCOL_HEADER) or ""),
                running,
                payload_of(rows),
                is_info=kind == "info",
                is_event=kind == "event",
                part=running.part,
                received=rows,
            )
            values = values_of(rows) if service.takes_values else {}
            service.run(call, values, partial(self._finished, running, service))
            self._limit_time(running, call.timeout_s)

    def _limit_time(self, running: _Running, timeout_s: float | None) -> None:
        """Cancel a call when nobody waits for its answer any more; a stream goes on."""
        task = running.task
        if task is None or timeout_s is None or task.done():
            return
        timer = self.connection.loop.call_later(timeout_s, self._late, running)
        task.add_done_callback(lambda _: timer.cancel())

    def _late(self, running: _Running) -> None:
        if running.task is not None and not running.sent:
            running.task.cancel()

    def _finished(self, running: _Running, service: Any, outcome: Result | HubError) -> None:
        """Answer a call whose function has returned."""
        # A stream without parts is still a stream: its answer is the end of one.
        streams = isinstance(service, FunctionService) and service.kind == "stream"
        self.answer(running, outcome, streams=streams)

    # -- answers -----------------------------------------------------------------------------

    def answer(
        self, running: _Running, outcome: Result | HubError, *, streams: bool = False
    ) -> None:
        """Send the answer of a call, or the end of a stream."""
        if self._running.get(running.number) is not running:
            return
        self.forget(running)
        if isinstance(outcome, HubError):
            self._reply_error(running, outcome)
            return
        last = running.sent + 1
        try:
            self.reply(running, outcome, (last, last) if streams else None)
        except HubError as error:
            self._reply_error(running, error)

    def forget(self, running: _Running) -> None:
        """Remove a call."""
        if self._running.get(running.number) is running:
            del self._running[running.number]
            if not self._running:
                self._idle.set()

    def reply(self, running: _Running, result: Result, seq: tuple[int, int] | None) -> None:
        """Send a reply, or a part of one; HubError when it cannot be encoded."""
        try:
            session = self.connection.begin_send()
            session.answer(running.request, rows_of(result), seq=seq)
        except ClientError:
            return  # the connection is closed: the hub has told the caller
        except (SessionError, EncodeError) as error:
            if isinstance(error, SessionError) and error.code == "too_large":
                text = "the answer exceeds the maximum size of a message"
                raise HubError("failed", text) from None
            raise HubError("internal", f"the answer cannot be encoded: {error}") from None

    def _reply_error(self, running: _Running, error: HubError) -> None:
        code = Header(name=CODE_HEADER, value=var_of(error.code))
        with contextlib.suppress(ClientError, SessionError):
            session = self.connection.begin_send()
            session.answer(running.request, [code], error=error.text)

    # -- events of the hub, and the end ------------------------------------------------------

    def told(self, target: str | int, message: Message) -> None:
        """Take an event of the hub about a call."""
        values: Mapping[str, Any] = values_of(message.rows)
        number = values.get("id")
        running = self._running.get(number) if isinstance(number, int) else None
        if running is None:
            return
        if target == f"{HUB_SERVICE}/{CANCEL}":
            if running.task is not None:
                running.task.cancel()
        elif target == f"{HUB_SERVICE}/{MORE}":
            parts = values.get("parts")
            if isinstance(parts, int) and parts > running.allowed:
                running.allowed = parts
                running.changed.set()

    def cancel_all(self) -> None:
        """Cancel every call: the connection is closed."""
        for running in tuple(self._running.values()):
            if running.task is not None:
                running.task.cancel()
            self.forget(running)

    async def finished(self, deadline: float) -> None:
        """Wait until no call is under way, or until that time of the loop's clock."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while self._running:
                    self._idle.clear()
                    await self._idle.wait()
