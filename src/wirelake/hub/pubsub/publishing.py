"""Publishing: what is asked for gets a number, a row of the log, and a place in the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from ..errors import HubError
from ..store import DeadRow, KeyRow
from .clients import Client
from .fanout import Topic
from .notification import Notification
from .numbering import (
    Ids,
    Numbers,
    id_of,
)
from .publication import (
    Publication,
    Published,
    check_publication,
    most_content,
)
from .publish_queue import Line, Standing
from .registry import Registry

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["Publisher", "Told"]

Told: TypeAlias = Callable[[Published | HubError], None]
"""Called once, on the loop."""

_SEEN_MS: Final = 1_000
"""How long a client that was there counts as there: another process may remove it."""


class Publisher:
    """Takes publications."""

    def __init__(
        self,
        hub: Hub,
        registry: Registry,
        line: Line,
        now_ms: Callable[[], int],
        gone: Callable[[Client], None],
    ):
        self._hub = hub
        self._store = hub.store
        self._registry = registry
        self._line = line
        self._now_ms = now_ms
        self._gone = gone
        self._keys: dict[str, list[Told]] = {}
        self._ids = Ids(hub.config.store.server)
        self.numbers = Numbers()
        self.closed = False
        self.keyed = True
        """Whether there may be keys to tidy away."""

    def publish(
        self, publication: Publication, done: Callable[[Published | HubError], None]
    ) -> None:
        """Publishes: `done` is told after it is on disk, or at once when it is not stored."""
        try:
            self._publish(publication, done)
        except HubError as error:
            self._hub.counts.refused_publishes += 1
            done(error)

    def _publish(self, publication: Publication, done: Told) -> None:
        if self.closed:
            raise HubError("closing")
        name = publication.topic
        topic = None if name is None else self._registry.topics.get(name)
        check_publication(publication, self._hub.limits, known=topic is not None)
        client = None if publication.client is None else self._addressee(publication.client)
        ttl_s = self._hub.limits.ttl_s if publication.ttl_s is None else publication.ttl_s
        if ttl_s == 0 or (client is not None and not client.durable):
            self._publish_now(publication, topic, client, done)
        elif not publication.key or self._is_new(publication.key, done):
            self._publish_stored(publication, topic, client, ttl_s, done)

    def publish_to_topic(self, name: str, content: bytes, type: int) -> Published:  # noqa: A002
        """Publishes what is not stored, to a topic; raises HubError. The quickest way there is."""
        topic = self._registry.topics.get(name)
        if self.closed or topic is None or len(content) > most_content(self._hub.limits):
            return self._publish_to_topic(Publication(name, None, content, type, ttl_s=0))
        now_ms = self._now_ms()
        number = self.numbers.next(now_ms)
        id_text = self._ids.text(number)
        audience = topic.online
        self._hub.counts.published += 1
        notification = Notification(number, id_text, name, content, type, now_ms, 0)
        if self._hub.tap is not None:
            self._hub.tap.published(notification, audience, None)
        if audience or topic.held:
            self._line.to_topic(topic, notification, audience)
        return Published(id_text, audience)

    def _publish_to_topic(self, publication: Publication) -> Published:
        """The same, with all that may be wrong with it."""
        told: list[Published | HubError] = []
        self.publish(publication, told.append)
        (result,) = told
        if isinstance(result, HubError):
            raise result
        return result

    def _addressee(self, name: str) -> Client:
        now_ms = self._now_ms()
        client = self._registry.clients.get(name)
        if client is not None and 0 <= now_ms - client.seen_ms < _SEEN_MS:
            return client
        row = self._store.client(name)
        if row is None:
            return self._nobody_in_particular(name)
        client = self._registry.client_of(row, self._gone)
        client.seen_ms = now_ms
        return client

    def _nobody_in_particular(self, name: str) -> Client:
        """The client of a connection that has none of its own: `~` and the connection's id."""
        number = name[1:]
        if name.startswith("~") and number.isascii() and number.isdecimal() and len(number) < 20:
            connection = self._hub.connections.get(int(number))
            if connection is not None and connection.client is not None:
                client: Client = connection.client
                if client.id == name:
                    return client
        raise HubError("not_found", "there is no such client")

    def _publish_now(
        self, publication: Publication, topic: Topic | None, client: Client | None, done: Told
    ) -> None:
        notification = self._notification(publication, 0)
        audience = 0
        if topic is not None:
            audience = topic.online
        elif client is not None:
            audience = int(client.live)
        self._hub.counts.published += 1
        if self._hub.tap is not None:
            self._hub.tap.published(notification, audience, publication.client)
        if audience or (topic is not None and topic.held):
            self._line.now(Standing(notification, topic, client, audience))
        done(Published(notification.id, audience))

    def _publish_stored(
        self,
        publication: Publication,
        topic: Topic | None,
        client: Client | None,
        ttl_s: float,
        done: Told,
    ) -> None:
        self._line.check_room(len(publication.content))
        notification = self._notification(publication, ttl_s)
        expires_ms = notification.expires_ms
        number, key = notification.number, publication.key
        audience = 1 if client is not None else len(topic.subscribers) if topic is not None else 0
        row = (key, number, client is not None, audience, expires_ms) if key else None
        if key:
            self._keys[key] = [done]
            done = self._tell_key(key)
        if (topic is None and client is None) or (topic is not None and not topic.subscribers):
            self._publish_for_nobody(Standing(notification, None, None, 0, done), row)
            return
        target = -client.number if client is not None else topic.number if topic is not None else 0
        if topic is not None and not topic.stored:
            self._store.name_topic(topic.number, topic.name)
        standing = Standing(notification, topic, client, audience, done)
        self._line.add(standing)
        self._store.append(
            (
                number,
                target,
                notification.type,
                notification.ts_ms,
                expires_ms,
                None,
                notification.content,
            ),
            standing,
            row,
        )

    def _publish_for_nobody(self, standing: Standing, key: KeyRow | None) -> None:
        """Nobody has the topic: nothing is kept but the key, when there is one."""
        if key is None:
            self._line.finish(standing)
            return

        def done(error: HubError | None) -> None:
            standing.error = error
            self._line.finish(standing)

        self._store.remember(key, done)

    def _is_new(self, key: str, done: Told) -> bool:
        """Whether nothing was published with this key; else `done` is told what was."""
        under_way = self._keys.get(key)
        if under_way is not None:
            under_way.append(done)
            return False
        row = self._store.key(key, self._now_ms())
        if row is None:
            return True
        _, number, private, audience, _ = row
        server = self._hub.config.store.server
        done(Published(id_of(number, server=server, private=private), audience))
        return False

    def _tell_key(self, key: str) -> Told:
        def tell(result: Published | HubError) -> None:
            for each in self._keys.pop(key, ()):
                each(result)

        self.keyed = True
        return tell

    def _notification(self, publication: Publication, ttl_s: float) -> Notification:
        now_ms = self._now_ms()
        number = self.numbers.next(now_ms)
        topic = publication.topic
        return Notification(
            number,
            self._ids.text(number, private=topic is None),
            topic,
            publication.content,
            publication.type,
            now_ms,
            now_ms + max(1, int(ttl_s * 1000)) if ttl_s else 0,
        )

    def again(self, dead: DeadRow, client: Client, expires_ms: int) -> tuple[Standing, int]:
        """A dead letter for its client, with a number of its own; and its target."""
        number = self.numbers.next(self._now_ms())
        server = self._hub.config.store.server
        notification = Notification(
            number,
            id_of(number, server=server, private=dead.topic is None),
            dead.topic,
            dead.content,
            dead.type,
            dead.ts_ms,
            expires_ms,
        )
        return Standing(notification, None, client, 1), -client.number
