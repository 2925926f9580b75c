"""The hub's side of its own calls (`wirelake.protocols.hub_calls`): subscribe, publish, ack, auth.

A listener hands over the name of a call and its arguments, as values by name or as a JSON body, and
gets the outcome through a callback: at once, or later when it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from wirelake.protocols.hub_calls import (
    AUTH,
    CALLS,
    AckArguments,
    AckResult,
    AuthArguments,
    AuthResult,
    PublishArguments,
    SubscribeArguments,
    TopicArguments,
    TopicsResult,
)

from ..errors import HubError
from ..pubsub.publication import Publication, Published
from .arguments import read_arguments
from .call_types import Answerer

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.connection import Connection

__all__ = ["HubCalls"]


class HubCalls:
    """Serves the hub's own calls."""

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
            if connection.client is None and name != AUTH.name:
                raise HubError("auth_required", "auth required")
            act(connection, read_arguments(given, CALLS[name].arguments), answer)
        except HubError as error:
            if act is not None:
                self._times[name].fail(begun_ns)
            answer(error)

    # -- signing on --------------------------------------------------------------------------

    def _auth(self, connection: Connection, given: AuthArguments, answer: Answerer) -> None:
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
        answer(AuthResult(id=signed_on.id))

    async def _auth_later(
        self, connection: Connection, given: AuthArguments, answer: Answerer, begun_ns: int
    ) -> None:
        try:
            client = await self._hub.authority.sign_on(connection, given.id, given.token)
        except HubError as error:
            self._times["auth"].fail(begun_ns)
            answer(error)
        else:
            self._times["auth"].note(begun_ns)
            answer(AuthResult(id=client.id))

    # -- topics ------------------------------------------------------------------------------

    def _subscribe(
        self, connection: Connection, given: SubscribeArguments, answer: Answerer
    ) -> None:
        names = given.names
        done = self._changed("subscribe", names, answer)
        self._hub.topics.subscribe(connection, names, given.ack, done)

    def _unsubscribe(self, connection: Connection, given: TopicArguments, answer: Answerer) -> None:
        names = given.names
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
                answer(TopicsResult(topics=len(names)))

        services.running += 1
        return done

    def _publish(self, _: Connection, given: PublishArguments, answer: Answerer) -> None:
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

    def _ack(self, connection: Connection, given: AckArguments, answer: Answerer) -> None:
        begun_ns = perf_counter_ns()
        acked = self._hub.topics.ack(connection, given.every)
        self._times["ack"].note(begun_ns)
        answer(AckResult(acked=acked))
