"""What the hub itself can be asked, the same by every protocol but comet, which has its own words.

    name          ESNP               tny, magline   arguments                        answer
    auth          hub/auth           10             id, token                        id
    subscribe     hub/subscribe      11             topic or topics, ack             topics
    unsubscribe   hub/unsubscribe    12             topic or topics                  topics
    publish       hub/publish        13             topic or client, content,        id, audience
                                                    type, id, ttl_s
    ack           hub/ack            14             id or ids                        acked

Arguments are DATA rows in ESNP and a JSON object elsewhere. `topics` in an answer is how many were
named, `audience` how many clients a notification is for. A content is a text; one that is no
UTF-8 is bytes in ESNP and `content_base64` in JSON, both ways. Notifications are pushed as ESNP
events `hub/notify`, and with the number 20 elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..errors import HubError
from ..pubsub.publication import Publication, Published
from .arguments import read_arguments
from .call_types import Answerer

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.connection import Connection
    from ..pubsub.notification import Notification

__all__ = [
    "CALL_NUMBERS",
    "NOTIFY",
    "NOTIFY_NUMBER",
    "QUICK_CALLS",
    "HubCalls",
    "notification_json",
]

CALL_NUMBERS: Final = {10: "auth", 11: "subscribe", 12: "unsubscribe", 13: "publish", 14: "ack"}
"""tny protocols and magline business commands of the hub's calls."""
QUICK_CALLS: Final = frozenset({"publish", "ack"})
"""Calls that clients make often enough to be quick."""
NOTIFY: Final = "notify"
"""The op of ESNP's events with notifications."""
NOTIFY_NUMBER: Final = 20
"""tny protocol and magline business command of pushes."""


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be sent."""


class _Auth(_Arguments, frozen=True, kw_only=True):
    id: str
    token: str


class _Topics(_Arguments, frozen=True, kw_only=True):
    topic: str | None = None
    topics: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Every topic that is named."""
        names = self.topics if self.topic is None else (self.topic, *self.topics)
        if not names:
            raise HubError("bad_arguments", "wanted a topic, or topics")
        return names


class _Subscribe(_Topics, frozen=True, kw_only=True):
    ack: bool = False


class _Publish(_Arguments, frozen=True, kw_only=True):
    topic: str | None = None
    client: str | None = None
    content: Any = None
    content_base64: bytes | None = None
    type: int = 0
    id: str = ""
    ttl_s: float | None = None

    def body(self) -> bytes:
        """The content as bytes."""
        content = self.content
        if (content is None) == (self.content_base64 is None):
            raise HubError("bad_arguments", "wanted either content or content_base64")
        if content is None:
            return self.content_base64  # type: ignore[return-value]
        if isinstance(content, bytes):
            return content
        if not isinstance(content, str):
            raise HubError("bad_arguments", "content: wanted a text")
        try:
            return content.encode()
        except UnicodeEncodeError as error:
            raise HubError("bad_arguments", f"content: {error.reason}") from None


class _Ack(_Arguments, frozen=True, kw_only=True):
    id: str | None = None
    ids: tuple[str, ...] = ()


class HubCalls:
    """Does what the hub is asked."""

    def __init__(self, hub: Hub):
        self._hub = hub
        self._times = hub.counts.hub_calls
        self._acts: dict[str, Callable[[Connection, Any, Answerer], None]] = {
            "auth": self._auth,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "publish": self._publish,
            "ack": self._ack,
        }

    def run(
        self,
        connection: Connection,
        name: str,
        given: Mapping[str, Any] | bytes,
        answer: Answerer,
    ) -> None:
        """Acts on a call, with values by name or a JSON body.

        `answer` gets the result or the refusal, once; perhaps later, when it is on disk.
        """
        act = self._acts.get(name)
        begun_ns = perf_counter_ns()
        try:
            if act is None:
                raise HubError("not_found", f"the hub has no {name!r}: {', '.join(self._acts)}")
            if connection.client is None and name != "auth":
                raise HubError("auth_required", "auth required")
            act(connection, read_arguments(given, _KINDS[name]), answer)
        except HubError as error:
            if act is not None:
                self._times[name].fail(begun_ns)
            answer(error)

    # -- signing on --------------------------------------------------------------------------

    def _auth(self, connection: Connection, given: _Auth, answer: Answerer) -> None:
        begun_ns = perf_counter_ns()
        client = connection.client
        if client is not None and client.durable:
            raise HubError("bad_arguments", f"this connection is {client.id}'s already")
        if client is not None:  # nobody in particular until now: that one's subscriptions end
            self._hub.topics.detach(connection)
        if self._hub.authority.delay(connection.peer[0]):
            connection.spawn(self._auth_later(connection, given, answer, begun_ns))
            return
        signed_on = self._hub.authority.try_sign_on(connection, given.id, given.token)
        if signed_on is None:
            raise HubError("auth_failed")
        self._times["auth"].note(begun_ns)
        answer({"id": signed_on.id})

    async def _auth_later(
        self, connection: Connection, given: _Auth, answer: Answerer, begun_ns: int
    ) -> None:
        try:
            client = await self._hub.authority.sign_on(connection, given.id, given.token)
        except HubError as error:
            self._times["auth"].fail(begun_ns)
            answer(error)
        else:
            self._times["auth"].note(begun_ns)
            answer({"id": client.id})

    # -- topics ------------------------------------------------------------------------------

    def _subscribe(self, connection: Connection, given: _Subscribe, answer: Answerer) -> None:
        names = given.names()
        done = self._changed("subscribe", names, answer)
        self._hub.topics.subscribe(connection, names, given.ack, done)

    def _unsubscribe(self, connection: Connection, given: _Topics, answer: Answerer) -> None:
        names = given.names()
        done = self._changed("unsubscribe", names, answer)
        self._hub.topics.unsubscribe(connection, names, done)

    def _changed(
        self, call: str, names: Sequence[str], answer: Answerer
    ) -> Callable[[object], None]:
        services, times = self._hub.services, self._times[call]
        begun_ns = perf_counter_ns()

        def done(outcome: object) -> None:
            services.running -= 1
            if isinstance(outcome, HubError):
                times.fail(begun_ns)
                answer(outcome)
            else:
                times.note(begun_ns)
                answer({"topics": len(names)})

        services.running += 1
        return done

    def _publish(self, _: Connection, given: _Publish, answer: Answerer) -> None:
        publication = Publication(
            topic=given.topic,
            client=given.client,
            content=given.body(),
            type=given.type,
            key=given.id,
            ttl_s=given.ttl_s,
        )
        self.publish(publication, answer)

    def publish(self, publication: Publication, answer: Answerer) -> None:
        """Publishes; a drain waits until it is answered."""
        services, times = self._hub.services, self._times["publish"]
        begun_ns = perf_counter_ns()

        def done(outcome: Published | HubError) -> None:
            services.running -= 1
            if type(outcome) is Published:
                times.note(begun_ns)
            else:
                times.fail(begun_ns)
            answer(outcome)

        services.running += 1
        self._hub.topics.publish(publication, done)

    def _ack(self, connection: Connection, given: _Ack, answer: Answerer) -> None:
        begun_ns = perf_counter_ns()
        ids = given.ids if given.id is None else (given.id, *given.ids)
        if not ids:
            raise HubError("bad_arguments", "wanted an id, or ids")
        acked = self._hub.topics.ack(connection, ids)
        self._times["ack"].note(begun_ns)
        answer({"acked": acked})


_KINDS: Final[dict[str, type[_Arguments]]] = {
    "auth": _Auth,
    "subscribe": _Subscribe,
    "unsubscribe": _Topics,
    "publish": _Publish,
    "ack": _Ack,
}

_encoder: Final = msgspec.json.Encoder()


def notification_json(notification: Notification) -> bytes:
    """The body of a push in JSON."""
    fields: dict[str, Any] = {"id": notification.id}
    if notification.topic is not None:
        fields["topic"] = notification.topic
    try:
        fields["content"] = notification.content.decode()
    except UnicodeDecodeError:
        fields["content_base64"] = base64.b64encode(notification.content).decode()
    fields["ts"] = notification.ts_ms
    if notification.type:
        fields["type"] = notification.type
    return _encoder.encode(fields)
