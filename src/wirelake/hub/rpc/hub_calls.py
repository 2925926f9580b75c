"""The calls that the hub serves itself (`wirelake.protocols.hub_calls`): auth, subscribe,
unsubscribe, publish, ack; serve and withdraw of processes that offer services; services.

A listener passes the name of a call and its arguments, as values by name or as a JSON body, and
gets the outcome through a callback: before `run` returns, or later when it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Protocol

from wirelake.protocols import registry
from wirelake.protocols.hub_calls import (
    ACK,
    AUTH,
    CALLS,
    PUBLISH,
    SERVE,
    SERVICES,
    SUBSCRIBE,
    UNSUBSCRIBE,
    WITHDRAW,
    AckArguments,
    AckResult,
    AuthArguments,
    AuthResult,
    HubCall,
    PublishArguments,
    ServeArguments,
    ServeResult,
    ServicesArguments,
    ServicesResult,
    SubscribeArguments,
    TopicArguments,
    TopicsResult,
    WithdrawArguments,
    WithdrawResult,
)
from wirelake.wire.errors import unknown

from ..auth import Authority
from ..errors import HubError
from ..observe.counters import Counters
from ..pubsub.notifications import Publication, Published
from ..pubsub.subscriptions import Client, Receiver
from ..pubsub.topics import Topics
from .call_types import Answerer, read_arguments
from .offers import Offers, Provider
from .services import Services

__all__ = ["Caller", "HubCalls"]


class Caller(Receiver, Protocol):
    """A connection that calls the hub."""

    signing_on: bool
    """Whether a token is being checked."""

    def check_sign_on(self) -> None:
        """Raise HubError when no token may be tried on this connection now."""

    def sign_on_failed(self) -> None:
        """Count a refused token; close the connection after too many."""

    def hold_events(self) -> None:
        """Handle nothing more that is received until `release_events`."""

    def release_events(self) -> None:
        """Handle what was received since `hold_events`, and go on reading."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, at once as far as it can; it is cancelled when the connection ends."""

    def make_provider(self) -> Provider | None:
        """Return what sends calls to the peer, if the protocol lets it offer services."""


class HubCalls:
    """Serves the hub's own calls."""

    def __init__(
        self,
        topics: Topics,
        authority: Authority,
        services: Services,
        offers: Offers,
        counters: Counters,
    ):
        self.offers = offers
        """What processes offer."""
        self._topics = topics
        self._authority = authority
        self._services = services
        self._counters = counters
        self._latency = counters.hub_calls
        self._handlers: dict[str, Callable[[Caller, Any, Answerer], None]] = {
            AUTH.name: self._auth,
            SUBSCRIBE.name: self._subscribe,
            UNSUBSCRIBE.name: self._unsubscribe,
            PUBLISH.name: self._publish,
            ACK.name: self._ack,
            SERVE.name: self._serve,
            WITHDRAW.name: self._withdraw,
            SERVICES.name: self._list_services,
        }

    def run(
        self,
        connection: Caller,
        name: str,
        given: Mapping[str, Any] | bytes,
        answer: Answerer,
    ) -> None:
        """Run a call, with values by name or a JSON body.

        `answer` is called once with the result or the error: now, or when it is on disk.
        """
        handler = self._handlers.get(name)
        begun_ns = perf_counter_ns()
        try:
            if handler is None:
                raise HubError("not_found", unknown("call", name[:40], self._handlers))
            if connection.client is None and name != AUTH.name:
                raise HubError("auth_required", "auth required")
            handler(connection, _arguments(name, given), answer)
        except HubError as error:
            if handler is not None:
                self._latency[name].record_failure(begun_ns)
            _refuse(connection, error, answer)

    # -- signing on --------------------------------------------------------------------------

    def _auth(self, connection: Caller, given: AuthArguments, answer: Answerer) -> None:
        begun_ns = perf_counter_ns()
        client = connection.client
        if client is not None and client.durable:
            raise HubError("bad_arguments", f"already signed on as {client.id}")
        connection.check_sign_on()
        connection.signing_on = True
        # Not for seconds: what is sent behind a delayed sign-on is refused.
        if not self._authority.delay(connection.charged_to):
            connection.hold_events()
        connection.start(self._sign_on(connection, given, answer, begun_ns))

    async def _sign_on(
        self, connection: Caller, given: AuthArguments, answer: Answerer, begun_ns: int
    ) -> None:
        try:
            client = await self._authority.sign_on(connection, given.id, given.token)
        except HubError as error:
            connection.signing_on = False
            self._latency[AUTH.name].record_failure(begun_ns)
            _refuse(connection, error, answer)
        else:
            connection.signing_on = False
            self._latency[AUTH.name].record(begun_ns)
            answer(AuthResult(id=client.id))
        connection.release_events()

    # -- topics ------------------------------------------------------------------------------

    def _subscribe(self, connection: Caller, given: SubscribeArguments, answer: Answerer) -> None:
        done = self._changed(SUBSCRIBE, given.topics, answer)
        self._topics.subscribe(connection, given.topics, given.ack, done)

    def _unsubscribe(self, connection: Caller, given: TopicArguments, answer: Answerer) -> None:
        done = self._changed(UNSUBSCRIBE, given.topics, answer)
        self._topics.unsubscribe(connection, given.topics, done)

    def _changed(
        self, call: HubCall, names: Sequence[str], answer: Answerer
    ) -> Callable[[object], None]:
        # Counted as running until it is on disk: a drain waits for the confirmation.
        services, latency = self._services, self._latency[call.name]
        begun_ns = perf_counter_ns()

        def done(outcome: object) -> None:
            services.running -= 1
            if isinstance(outcome, HubError):
                latency.record_failure(begun_ns)
                answer(outcome)
            else:
                latency.record(begun_ns)
                answer(TopicsResult(topics=len(names)))

        services.running += 1
        return done

    def _publish(self, connection: Caller, given: PublishArguments, answer: Answerer) -> None:
        assert connection.client is not None
        try:
            content = given.body
        except UnicodeEncodeError as error:
            raise HubError("bad_arguments", f"content: {error.reason}") from None
        publication = Publication(
            topic=given.topic,
            client=given.client,
            content=content,
            type=given.type,
            key=given.id,
            ttl_s=given.ttl_s,
            publisher=connection.client.id,
        )
        self.publish(connection.client, publication, answer)

    def publish(self, client: Client | None, publication: Publication, answer: Answerer) -> None:
        """Publish what a listener has decoded itself, within the rights of a client.

        None is a user of the HTTP interface, whose role was checked. It counts as a running call
        until it is answered, so that a drain waits for it.
        """
        services, latency = self._services, self._latency[PUBLISH.name]
        begun_ns = perf_counter_ns()
        if client is not None and client.rights is not None:
            refusal = client.rights.publish(publication.topic, publication.client)
            if refusal is not None:
                self._counters.refused_publishes += 1
                latency.record_failure(begun_ns)
                answer(refusal)
                return

        def done(outcome: Published | HubError) -> None:
            services.running -= 1
            if type(outcome) is Published:
                latency.record(begun_ns)
            else:
                latency.record_failure(begun_ns)
            answer(outcome)

        services.running += 1
        self._topics.publish(publication, done)

    def publish_transient(
        self, client: Client | None, topic: str, content: bytes, kind: int
    ) -> Published:
        """Publish to a topic without storing it, within the rights of a client; HubError."""
        if client is not None and client.rights is not None:
            refusal = client.rights.publish(topic, None)
            if refusal is not None:
                self._counters.refused_publishes += 1
                self._latency[PUBLISH.name].record_failure(perf_counter_ns())
                raise refusal
        return self._topics.publish_transient(topic, content, kind)

    def _ack(self, connection: Caller, given: AckArguments, answer: Answerer) -> None:
        begun_ns = perf_counter_ns()
        acked = self._topics.ack(connection, given.ids)
        self._latency[ACK.name].record(begun_ns)
        answer(AckResult(acked=acked))

    # -- services ----------------------------------------------------------------------------

    def _serve(self, connection: Caller, given: ServeArguments, answer: Answerer) -> None:
        begun_ns = perf_counter_ns()
        provider = _provider(connection)
        count = self.offers.offer(provider, given.services)
        calls = provider.accept(given.calls)
        self._latency[SERVE.name].record(begun_ns)
        answer(ServeResult(services=count, calls=calls))

    def _withdraw(self, connection: Caller, given: WithdrawArguments, answer: Answerer) -> None:
        begun_ns = perf_counter_ns()
        count = self.offers.withdraw(_provider(connection), given.services)
        self._latency[WITHDRAW.name].record(begun_ns)
        answer(WithdrawResult(services=count))

    def _list_services(
        self, connection: Caller, given: ServicesArguments, answer: Answerer
    ) -> None:
        begun_ns = perf_counter_ns()
        count, found = self.offers.listed(connection.client, given.offset, given.limit)
        self._latency[SERVICES.name].record(begun_ns)
        answer(ServicesResult(count=count, services=found))


def _provider(connection: Caller) -> Provider:
    provider = connection.make_provider()
    if provider is None:
        bindings = registry.all_bindings()[0].items()
        names = ", ".join(name for name, binding in bindings if binding.serves)
        raise HubError("bad_arguments", f"services are offered over {names} only")
    return provider


def _arguments(name: str, given: Mapping[str, Any] | bytes) -> Any:
    try:
        return read_arguments(given, CALLS[name].arguments)
    except HubError as error:
        if name != AUTH.name or "unknown argument" not in error.text:
            raise
        # Without its name: errors are in tables, and it may be a token.
        raise HubError("bad_arguments", "unknown argument; expected id, token") from None


def _refuse(connection: Caller, error: HubError, answer: Answerer) -> None:
    """Answer a call with an error; a refused token counts against the connection."""
    answer(error)
    if error.code == "auth_failed":
        connection.sign_on_failed()
