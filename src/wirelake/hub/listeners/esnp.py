"""The ESNP listener: calls and events by name, the hub's own calls, notifications as events.

A notification is an EVENT to the address hub/notify, with DATA rows: id, topic (absent when it is
for one client alone), content (text, or bytes when it is not valid UTF-8), ts (milliseconds), and
type unless it is 0. It is encoded once for all subscribers: no Map and no List is in it, so its
bytes are the same in both dialects.

Plain requests are answered while they are parsed (`_answer_fast_path`): they cost neither an event
nor a task, which is most of the price of a small call. Publishes on that path are confirmed when
they are on disk, by a deferred reply.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from wirelake.protocols.esnp.binding import EsnpSettings
from wirelake.protocols.esnp.endpoint import Announced, Answered, CallFailed, Requested
from wirelake.protocols.esnp.endpoint import Call as Request
from wirelake.protocols.esnp.fast_path import (
    END,
    DataTemplate,
    Deferred,
    HeadTemplate,
    bytes_of_rows,
    learn_body,
)
from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    BrokenRow,
    Data,
    Flag,
    FlagType,
    Payload,
    Row,
    RowType,
    VarType,
)
from wirelake.protocols.esnp.limits import UNAUTHENTICATED_LIMIT, SessionOptions
from wirelake.protocols.esnp.message import kind
from wirelake.protocols.esnp.session import EsnpSession
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.protocols.hub_calls import (
    AUTH,
    CALLS,
    HUB_SERVICE,
    NOTIFY,
    PUBLISH,
    TIMEOUT_HEADER,
    busy_text,
)
from wirelake.protocols.sansio import Event, Role, SessionError
from wirelake.wire.errors import EncodeError

from ..config import Config
from ..errors import HubError
from ..net.connection import Connection
from ..net.listener import Listener
from ..pubsub.notifications import Publication, Published
from ..rpc.call_types import DeferredReply
from ..rpc.defect_log import DefectLog
from ..rpc.services import Answerer, Call, Reply, Result, Service
from .esnp_provider import EsnpProvider, header_value
from .esnp_routes import Route

if TYPE_CHECKING:
    from ..net.context import HubContext
    from ..pubsub.notifications import Notification

__all__ = [
    "ESNP_FORM",
    "EsnpConnection",
    "EsnpForm",
    "EsnpListener",
    "payload_of",
    "published_body",
    "rows_of",
    "target_of",
]


_defects: Final = DefectLog(logging.getLogger(__name__))
_OK: Final = ("esnp", "ok")
_AUTH: Final = (HUB_SERVICE, AUTH.name)
_MAX_LEARNED: Final = 16
"""How often the body of a publish is learned per head. A publisher that alternates between many
topics would learn with every request, which costs more than it saves."""
_TEMPLATE_FIELDS: Final = frozenset({"topic", "content", "type", "ttl_s"})
"""Arguments of a publish that the template of a body can have. With others, a client or an
idempotency key, each request is decoded."""


_TTL_TYPES: Final = frozenset({int, float, type(None)})
_ECHOED: Final = frozenset({Data, Payload})
_REPLIES: Final = frozenset({Answered, CallFailed})


class EsnpCall(Call, frozen=True, gc=False, eq=False):
    """A call with rows."""

    received: tuple[Row, ...] = ()
    """Its rows; after the head if there is one."""
    head: HeadTemplate | None = None
    """The head of a request on the fast path."""
    number: bytes = b""
    """The id of a request on the fast path."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all messages of the request."""
        # Built when a service asks: the rows of the head are a tenth of the price of a small call.
        if self.head is None:
            return self.received
        return self.head.request_rows(self.number, self.received)

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """Each PAYLOAD row."""
        return tuple(row.data for row in self.received if isinstance(row, Payload))

    @property
    def timeout_s(self) -> float | None:
        """How long the caller waits, by its HEADER `wirelake-timeout-ms`."""
        limit_ms = header_value(self.received, TIMEOUT_HEADER)
        # By class: a boolean is an int in Python. Not below a millisecond: 0 would be "no time".
        return max(limit_ms, 1) / 1000 if type(limit_ms) in (int, float) else None

    @property
    def echo(self) -> Result:
        """The DATA and PAYLOAD rows."""
        return Reply(rows=tuple([row for row in self.received if type(row) in _ECHOED]))


class EsnpConnection(Connection):
    """One ESNP connection."""

    protocol: ClassVar[str] = "esnp"
    token_sign_on: ClassVar[bool] = True
    listener: EsnpListener
    session: EsnpSession

    __slots__ = ("_drained", "_handling_event", "provider")

    def __init__(self, listener: EsnpListener):
        super().__init__(listener)
        self.form = ESNP_FORM
        self.provider: EsnpProvider | None = None
        self._handling_event = False
        self._drained: asyncio.Future[None] | None = None

    # -- for the base class ------------------------------------------------------------------

    def make_session(self, now: float) -> EsnpSession:
        """Return the server's session; it accepts only small messages before sign-on."""
        session = EsnpSession(Role.SERVER, self.listener.options, now=now)
        if self.listener.requires_token:
            session.message_limit = UNAUTHENTICATED_LIMIT
        return session

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection; without token sign-on it may call at once."""
        super().connection_made(transport)
        if self.client is not None:
            self._enable_calls()

    @property
    def may_receive(self) -> bool:
        """Whether the client has signed on and the connection is open."""
        return self.client is not None and self.open

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Push notifications as events."""
        for notification in notifications:
            self.write(ESNP_FORM.encode(notification))

    def make_provider(self) -> EsnpProvider:
        """Return what sends calls to the process at the other end."""
        if self.provider is None:
            self.provider = EsnpProvider(self)
        return self.provider

    @property
    def held_bytes(self) -> int:
        """Also answers of a service process that nobody has taken yet."""
        return super().held_bytes + (0 if self.provider is None else self.provider.held_bytes)

    def on_closed(self) -> None:
        """Forget calls that other servers have not answered; fail those that this one has not."""
        for route in self.listener.routes:
            route.left(self)
        # Released: the two refer to each other, and closed connections are in no reference cycle.
        provider, self.provider = self.provider, None
        if provider is not None:
            self.listener.calls.offers.withdraw(provider)
            provider.lost()

    def resume_writing(self) -> None:
        """Resume reading, pushing and streams when the peer has caught up."""
        super().resume_writing()
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def on_event(self, event: Event) -> None:
        """Handle a request or an event of the peer."""
        self._handling_event = True
        try:
            if type(event) is Requested:
                self._requested(event.call)
            elif type(event) is Announced and kind(event.message) == "EVENT":
                self._announced(event)
            elif type(event) in _REPLIES and self.provider is not None:
                self.provider.on_event(event)
        finally:
            self._handling_event = False

    # -- requests ----------------------------------------------------------------------------

    def _answer_fast_path(
        self, head: HeadTemplate, rows: tuple[Row, ...], values: dict[str, Any], number: bytes
    ) -> bytes | str | Deferred | None:
        """Answer a plain request while it is parsed.

        The fast path: no event, no Request, no task. It serves plain functions and frequent hub
        calls; None leaves the request to the ordinary path. The full path costs 15 µs for a
        request, most of it for head rows that repeat (`wirelake.protocols.esnp.fast_path`).
        """
        # Looked up once per head, not per request: a connection has few kinds of requests, and the
        # session compares their bytes (`HeadTemplate`).
        service = head.target
        if service is None:
            service = head.target = self._fast_path_target(head)
            head.needs_values = service is True or (service is not False and service.takes_values)
        if service is False:
            return None
        if service is True:
            return self._call_hub_fast_path(head, rows, values, number)
        call = None
        if service.wants_call:
            call = EsnpCall("esnp", self, payload_of(rows), received=rows, head=head, number=number)
        outcome = service.now(self.client, call, values)
        if isinstance(outcome, HubError):
            outcome = _with_broken_rows(rows, outcome)
        return self._body_of(head, outcome)

    def _fast_path_target(self, head: HeadTemplate) -> Service | bool:
        """Return a plain service, True for a frequent hub call, False for the ordinary path."""
        if head.service == HUB_SERVICE:
            return (call := CALLS.get(head.op)) is not None and call.frequent
        service = self.hub.services.named(head.service, head.op)
        return service if service is not None and service.immediate else False

    def _call_hub_fast_path(
        self, head: HeadTemplate, rows: tuple[Row, ...], values: dict[str, Any], number: bytes
    ) -> bytes | str | Deferred | None:
        if head.op == PUBLISH.name:
            if not head.concurrent and values.get("ttl_s") != 0:
                # Without FLAG_ASYNC answers keep their order, and a durable publish waits for the
                # disk: the ordinary path queues the requests behind it.
                return None
            if head.learned < _MAX_LEARNED:
                self._learn_publish(head, rows, values)
            elif head.fast_body is not None and isinstance(content := values.get("content"), str):
                # The body is known, but not with content of this size: prepare its prefix, so that
                # the next one of this size matches.
                head.fast_body[0].expect(len(content))
        answer = DeferredReply(partial(self._answer_later, head, number))
        self.listener.calls.run(self, head.op, values, answer.take)
        answer.outcome = _with_broken_rows(rows, answer.outcome)
        return self._reply_or_defer(head, answer)

    def _learn_publish(
        self, head: HeadTemplate, rows: tuple[Row, ...], values: dict[str, Any]
    ) -> None:
        """Learn the shape of a publish: later ones to the same topic are not parsed row by row."""
        topic, kind, ttl_s = values.get("topic"), values.get("type", 0), values.get("ttl_s")
        # By class: a boolean is an int in Python, and refused as an argument.
        if not isinstance(topic, str) or type(kind) is not int or not 0 <= kind <= 0xFF:
            return
        if not _TEMPLATE_FIELDS.issuperset(values) or type(ttl_s) not in _TTL_TYPES:
            return
        body = learn_body(rows, "content")
        if body is not None:
            publication = Publication(topic, None, b"", kind, ttl_s=ttl_s)
            head.fast_body = body, partial(self._publish_fast_path, head, publication)
            head.learned += 1

    def _publish_fast_path(
        self, head: HeadTemplate, learned: Publication, content: bytes, number: bytes
    ) -> bytes | str | Deferred:
        """Publish new content with the other arguments of the learned publish."""
        if learned.ttl_s == 0:
            try:
                published = self.listener.calls.publish_transient(
                    self.client, str(learned.topic), content, learned.type
                )
            except HubError as error:
                return self._body_of(head, error)
            self.hub.counters.calls[_OK] += 1
            return published_body(published)
        answer = DeferredReply(partial(self._answer_later, head, number))
        publication = Publication(learned.topic, None, content, learned.type, ttl_s=learned.ttl_s)
        self.listener.calls.publish(self.client, publication, answer.take)
        return self._reply_or_defer(head, answer)

    def _reply_or_defer(self, head: HeadTemplate, answer: DeferredReply) -> bytes | str | Deferred:
        """Return the body of the answer if it is known; otherwise defer the reply."""
        if answer.known:
            return self._body_of(head, answer.outcome)
        answer.late = True
        return Deferred.DEFERRED

    def _body_of(self, head: HeadTemplate, outcome: Result | HubError) -> bytes | str:
        """Return the body of the answer, or the text of the error."""
        if type(outcome) is Published:  # the most frequent one: two cached rows, without the codec
            self.hub.counters.calls[_OK] += 1
            return published_body(outcome)
        try:
            if not isinstance(outcome, HubError):
                body = self.session.body_of(rows_of(outcome))
                self.hub.counters.calls[_OK] += 1
                return body
        except (SessionError, EncodeError, HubError) as error:
            outcome = _encoding_error(f"{head.service}/{head.op}", error)
        self.count_call(outcome)
        return busy_text(outcome.code, outcome.text)

    def _answer_later(self, head: HeadTemplate, number: bytes, outcome: Result | HubError) -> None:
        """Send a deferred reply."""
        if self.open:
            self.write(self.session.reply_deferred(head, number, self._body_of(head, outcome)))

    def _requested(self, request: Request) -> None:
        # A request in parts arrives as one event; its address is in the first part.
        rows = request.message.rows
        if len(request.parts) > 1:
            rows = tuple([row for part in request.parts for row in part.rows])
        target = target_of(request.message.rows)
        if self.client is None or target == _AUTH:
            self._before_auth(request, target, rows)
            return
        route = self.listener.route_of(target, request.message.rows)
        if route is not None:
            error = self._routed_refusal(target) or route.forward_call(self, request)
            if error is not None:
                self.answer(request, error)
            return
        parts = _ReplyParts(self, request)
        call = EsnpCall(
            "esnp",
            self,
            payload_of(rows),
            is_info=request.kind == "INFO",
            part=parts.send,
            received=rows,
        )
        self._run(target, call, parts.end)

    def _announced(self, event: Announced) -> None:
        """Run a service for an event, which is never answered."""
        if self.client is None:
            self.hub.counters.failed(self.protocol, "auth_required")
            return
        rows = event.message.rows
        route = self.listener.route_of(target_of(rows), rows)
        if route is not None:
            refusal = self._routed_refusal(target_of(rows))
            if refusal is None:
                route.forward_event(event.raw)
            else:
                self.count_call(refusal)
            return
        call = EsnpCall("esnp", self, payload_of(rows), is_event=True, part=_no_part, received=rows)
        self._run(target_of(rows), call, self.count_call)

    def _routed_refusal(self, target: tuple[str, str]) -> HubError | None:
        """Return why the client may not call a service behind a route; `Service` checks others."""
        rights = None if self.client is None else self.client.rights
        return None if rights is None else rights.call("/".join(target))

    def _run(self, target: tuple[str, str], call: Call, take: Answerer) -> None:
        def answer(outcome: Result | HubError) -> None:
            take(_with_broken_rows(call.rows, outcome))

        if target[0] == HUB_SERVICE:
            self.listener.calls.run(self, target[1], values_of(call.rows), answer)
            return
        service = self.hub.services.named(*target)
        if service is None:
            answer(HubError("not_found", f"unknown service {'/'.join(target)!r}"))
        else:
            service.run(call, values_of(call.rows) if service.takes_values else {}, answer)

    # -- signing on --------------------------------------------------------------------------

    def _before_auth(
        self, request: Request, target: tuple[str, str], rows: tuple[Row, ...]
    ) -> None:
        if target != _AUTH:
            self.answer(request, HubError("auth_required", "auth required"))
        else:
            signed = partial(self._signed_on, request)
            self.listener.calls.run(self, AUTH.name, values_of(rows), signed)

    def _signed_on(self, request: Request, outcome: Result | HubError) -> None:
        rows = tuple(row for part in request.parts for row in part.rows)
        self.answer(request, _with_broken_rows(rows, outcome))
        if not isinstance(outcome, HubError):
            self._enable_calls()

    def _enable_calls(self) -> None:
        self.session.message_limit = self.listener.options.message_limit
        self.session.fast_handler = self._answer_fast_path

    # -- answers -----------------------------------------------------------------------------

    def answer(
        self,
        request: Request,
        outcome: Result | HubError,
        seq: tuple[int, int] | None = None,
    ) -> None:
        """Answer a request; `seq` ends an answer in parts."""
        if not self.open:
            return
        if not isinstance(outcome, HubError):
            try:
                self.answer_part(request, outcome, seq)
            except HubError as error:
                outcome = error
        if isinstance(outcome, HubError):
            self.session.answer(request, error=busy_text(outcome.code, outcome.text))
        self.count_call(outcome)
        if not self._handling_event:  # otherwise the base class reacts after all events
            self.react()

    def answer_routed(self, request: Request, raw: bytes, *, last: bool, failed: bool) -> None:
        """Answer a request with a reply, or a part of one, of another server."""
        if not self.open:
            return
        try:
            self.session.answer_with(request, raw, last=last)
        except SessionError as error:
            self.answer(request, _encoding_error("route", error))
            return
        if last:
            self.count_call(HubError("failed") if failed else None)
        self.react()

    def answer_part(
        self, request: Request, result: Result, seq: tuple[int, int] | None = None
    ) -> None:
        """Send one part of an answer; HubError when it cannot be encoded."""
        try:
            self.session.answer(request, rows_of(result), seq=seq)
        except (SessionError, EncodeError) as error:
            raise _encoding_error("/".join(target_of(request.message.rows)), error) from None

    async def drained(self) -> None:
        """Wait while the peer is a slow reader."""
        # `open`: a peer that is dropped as a slow reader never resumes.
        while self.paused_since and self.open:
            if self._drained is None:
                self._drained = self.hub.loop.create_future()
            await self._drained


class _ReplyParts:
    """The answer to one request, whole or in parts."""

    __slots__ = ("_connection", "_request", "_sent")

    def __init__(self, connection: EsnpConnection, request: Request):
        self._connection = connection
        self._request = request
        self._sent = 0

    async def send(self, result: Result) -> None:
        """Send one part of a stream, once the peer has read enough of the ones before."""
        connection = self._connection
        await connection.drained()
        if connection.open:
            connection.answer_part(self._request, result, (self._sent + 1, 0))
            self._sent += 1
            connection.react()
            # A generator that never waits would send its whole stream in one turn: let other
            # connections run, and the part be written, so that `drained` sees a slow reader.
            await asyncio.sleep(0)

    def end(self, outcome: Result | HubError) -> None:
        """Send the answer, or the end of the stream."""
        # The last part has both sequence numbers equal; without parts there is no sequence at all.
        last = self._sent + 1
        self._connection.answer(self._request, outcome, (last, last) if self._sent else None)


async def _no_part(_: Result) -> None:
    """Discard a part: an event has no answer."""


def _with_broken_rows(rows: Iterable[Row], outcome: Result | HubError) -> Result | HubError:
    """Add to an error about arguments that a DATA row is broken; it counts as absent (section 4),
    and the error would only report it as missing."""
    if not isinstance(outcome, HubError) or outcome.code != "bad_arguments":
        return outcome
    for row in rows:
        if isinstance(row, BrokenRow) and row.type == RowType.DATA:
            where = f"{row.code} in {row.field} at byte {row.offset}"
            return HubError(outcome.code, f"{outcome.text}; a DATA row is broken: {where}")
    return outcome


def _encoding_error(service: object, error: Exception) -> HubError:
    """Return the error for a result that cannot be encoded in ESNP."""
    if isinstance(error, SessionError) and error.code == "too_large":
        return HubError("too_large", "the answer exceeds the maximum size of a message")
    _defects.error(f"service {service}: cannot encode the answer: {error}")
    return HubError("internal")


class EsnpListener(Listener):
    """The ESNP listener."""

    connection = EsnpConnection

    def __init__(self, hub: HubContext, settings: EsnpSettings):
        super().__init__(hub, settings)
        self.calls = hub.calls
        self.requires_token = settings.auth == "token"
        self._trace_name = hub.config.record.source
        self.routes = [Route(self, each) for each in settings.routes]
        self.limits_changed()

    def limits_changed(self) -> None:
        """Make the options of new sessions."""
        settings = self.settings
        self.options = SessionOptions(
            revision=settings.revision,
            dialect=settings.dialect,
            strict=settings.strict,
            require_major=None if settings.require_major < 0 else settings.require_major,
            legacy_rows=settings.legacy_rows,
            idle_limit_s=settings.idle_s or None,
            max_requests=self.hub.limits.calls,
            trace_name=self._trace_name,
        )

    def prepare_reload(self, config: Config) -> Callable[[], None]:
        """Read the authorities of routes, too."""
        apply_listener = super().prepare_reload(config)
        contexts = [each.read_authorities() for each in self.routes]

        def apply() -> None:
            apply_listener()
            for route, context in zip(self.routes, contexts, strict=True):
                route.tls = context

        return apply

    async def start(self) -> None:
        """Dial the servers of routes, and listen."""
        for route in self.routes:
            route.start()
        await super().start()

    @property
    def running(self) -> int:
        """The number of calls that the servers of routes have to answer."""
        return sum(route.unanswered for route in self.routes)

    async def stop(self) -> None:
        """Stop listening and dialling; connections stay."""
        await super().stop()
        for route in self.routes:
            await route.stop()

    def route_of(self, target: tuple[str, str], rows: tuple[Row, ...]) -> Route | None:
        """Return the route of a call; None for services of this hub, and without a route."""
        if not self.routes or target[0] == HUB_SERVICE:
            return None
        service = self.hub.services.named(*target)
        if service is not None and service.where:
            return None
        return next((each for each in self.routes if each.matches(rows)), None)


# -- rows and the values of services -------------------------------------------------------------

_SERVICE: Final = int(AddressKind.SERVICE)
_OP: Final = int(AddressKind.OP)


def target_of(rows: Iterable[Row]) -> tuple[str, str]:
    """Return service and op of the address, empty if absent; the first row of a kind counts."""
    service = op = ""
    for row in rows:
        if type(row) is Address:
            if row.kind == _SERVICE:
                service = service or row.value
            elif row.kind == _OP:
                op = op or row.value
    return service, op


def payload_of(rows: Iterable[Row]) -> bytes:
    """Return the PAYLOAD rows joined."""
    return b"".join([row.data for row in rows if type(row) is Payload])


def rows_of(result: Result) -> tuple[Row, ...]:
    """Return the rows of a result; EncodeError for values that ESNP has no type for."""
    # The frequent types first: this runs for every call.
    if result is None:
        return ()
    if isinstance(result, dict):
        return data_rows(result)
    if isinstance(result, bytes):
        return (Payload(data=result),)
    if isinstance(result, Reply):
        rows: tuple[Row, ...] = () if result.data is None else data_rows(result.data)
        if result.payload is not None:
            rows = (*rows, Payload(data=result.payload))
        return (*rows, *result.rows) if rows else result.rows
    if isinstance(result, msgspec.Struct):
        return data_rows(msgspec.to_builtins(result, builtin_types=(bytes,)))
    raise HubError("internal")


# -- notifications -------------------------------------------------------------------------------

_HEAD: Final = bytes_of_rows(
    Flag(value=FlagType.EVENT),
    Address(kind=AddressKind.SERVICE, value=HUB_SERVICE),
    Address(kind=AddressKind.OP, value=NOTIFY),
)
_ID: Final = DataTemplate("id", VarType.LEN_STRING)
_TOPIC: Final = DataTemplate("topic", VarType.LEN_STRING)
_TEXT: Final = DataTemplate("content", VarType.LEN_STRING)
_BYTES: Final = DataTemplate("content", VarType.LEN_BYTES)
_KEPT_PREFIXES: Final = 1_024
"""Prefixes kept, by topic and sizes. Publishers choose these, so the number is bounded."""


class EsnpForm:
    """The encoder of notifications, shared by all connections."""

    name = "esnp"

    def __init__(self) -> None:
        self._ts: tuple[int, bytes] = (0, _last_rows(0, 0))
        self._prefixes: dict[tuple[int, str | None, int, bool], tuple[bytes, bytes]] = {}

    def encode(self, notification: Notification) -> bytes:
        """Return the event."""
        content, id_text = notification.content, notification.id.encode()
        like = len(id_text), notification.topic, len(content), _is_text(content)
        before_id, before_content = self._prefixes.get(like) or self._learn_prefixes(*like)
        rest = self._rows_after_content(notification)
        return b"".join((before_id, id_text, before_content, content, rest))

    def _learn_prefixes(
        self, id_size: int, topic: str | None, size: int, is_text: bool
    ) -> tuple[bytes, bytes]:
        """Return the bytes before the id and those before the content.

        They are the same for all notifications of a topic with these sizes.
        """
        name = b"" if topic is None else _TOPIC.row(topic.encode())
        content = (_TEXT if is_text else _BYTES).prefix(size)
        if len(self._prefixes) >= _KEPT_PREFIXES:
            self._prefixes.clear()
        found = _HEAD + _ID.prefix(id_size), name + content
        self._prefixes[id_size, topic, size, is_text] = found
        return found

    def _rows_after_content(self, notification: Notification) -> bytes:
        # Many are published in one millisecond, and a type is rare: one cached value is enough.
        if notification.type:
            return _last_rows(notification.ts_ms, notification.type)
        if self._ts[0] != notification.ts_ms:
            self._ts = notification.ts_ms, _last_rows(notification.ts_ms, 0)
        return self._ts[1]


def _last_rows(ts_ms: int, kind: int) -> bytes:
    values = {"ts": ts_ms, "type": kind} if kind else {"ts": ts_ms}
    return bytes_of_rows(*data_rows(values)) + END


def _is_text(content: bytes) -> bool:
    # `isascii` is a scan in C over 16 KB at most; only other content is decoded to find out.
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


@functools.lru_cache(1_024)
def _audience(number: int) -> bytes:
    return bytes_of_rows(*data_rows({"audience": number})) + END


def published_body(published: Published) -> bytes:
    """Return the body of the answer to a publish."""
    return _ID.row(published.id.encode()) + _audience(published.audience)


ESNP_FORM: Final = EsnpForm()
"""The encoder of all connections: the bytes are the same in both dialects."""
