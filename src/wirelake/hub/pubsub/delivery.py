"""Gets stored notifications to the clients that they are for, in order, and takes acknowledgements.

A client is *live* when nothing older waits to be pushed on its connection: then what is published
is pushed at once. Else it is *held*: pages are read from the log and pushed, one in a turn of the
loop, until nothing is left, and it is live. A client is held while its connection may not receive,
reads too slowly, or owes as many acknowledgements as it may (`Limits.in_flight`).

comet has a way to ask for what waits, so for a comet connection only what is published from its
sign-on is pushed; elsewhere everything that is not acknowledged is, oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..errors import HubError
from ..store import Entry
from .backlog import (
    close_gaps,
    next_numbers,
    notification_of,
)
from .clients import Client
from .cursor_writer import Saving
from .fanout import (
    Fanout,
    Topic,
    deliver,
)
from .notification import Form, Notification
from .numbering import number_of

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.connection import Connection

__all__ = ["LIST_BYTES", "LIST_COUNT", "PAGE", "Delivery"]

PAGE: Final = 64
"""Notifications that are read and pushed in one turn: at most a megabyte."""
LIST_COUNT: Final = 127
"""Notifications that one list carries (comet rule 7)."""
LIST_BYTES: Final = 32_767
"""Content that one list carries; what goes beyond waits for the next."""


class Delivery:
    """Pushes what is stored, and remembers how far each client has come."""

    def __init__(self, hub: Hub, fanout: Fanout, clock_ms: Callable[[], int]):
        self._hub = hub
        self._fanout = fanout
        self._clock_ms = clock_ms
        self._out: dict[Connection, list[Notification]] = {}
        self._saving = Saving(hub, self._settle_live)
        self.reached = 0
        """Everything up to this number was spread, or never will be."""

    # -- who is online -----------------------------------------------------------------------

    def attach(self, connection: Connection) -> None:
        """From now on the client's notifications go to this connection."""
        client = connection.client
        if client is None or client.receiver is connection:
            return
        if client.receiver is not None:
            self._leave(client)
        client.receiver = connection
        client.owed = 0
        client.behind = bool(connection.paused_since)
        client.position = 0
        if connection.acks_all:
            close_gaps(client)
            if not next_numbers(client, 0, 1, holes=False):
                client.inbox.settle(self.reached)
            else:
                client.inbox.begin(self.reached)
            client.position = client.inbox.top
        for each in client.subscriptions.values():
            each.topic.held[client] = None
        self.push(client)

    def detach(self, connection: Connection) -> None:
        """The connection gets nothing any more."""
        client = connection.client
        if client is None or client.receiver is not connection:
            return
        self._leave(client)
        client.receiver = None
        self._saving.soon(client)

    def refile(self, connection: Connection) -> None:
        """The connection's form, or whether it may receive, has changed."""
        client = connection.client
        if client is not None and client.receiver is connection:
            self._fanout.hand_over()
            self.hold(client)
            self.push(client)

    def fell_behind(self, connection: Connection) -> None:
        """The peer reads too slowly."""
        client = connection.client
        if client is not None and client.receiver is connection:
            client.behind = True
            self._fanout.hand_over()
            self.hold(client)

    def caught_up(self, connection: Connection) -> None:
        """The peer has read what it was sent."""
        client = connection.client
        if client is not None and client.receiver is connection:
            client.behind = False
            self.push(client)

    def hold(self, client: Client) -> None:
        """Nothing is pushed at once; what comes waits in the log."""
        connection = client.receiver
        if connection is None or not client.live:
            return
        client.live = False
        self._settle(client, connection)
        client.position = max(client.position, client.inbox.top)
        for each in client.subscriptions.values():
            each.topic.leave(connection)
            each.topic.held[client] = None

    def _leave(self, client: Client) -> None:
        self.hold(client)
        for each in client.subscriptions.values():
            each.topic.held.pop(client, None)

    def _go_live(self, client: Client, connection: Connection) -> None:
        self._fanout.hand_over()  # it is not for those who come now
        client.live = True
        self._settle(client, connection)
        for each in client.subscriptions.values():
            each.topic.held.pop(client, None)
            each.topic.enter(connection)

    def _settle(self, client: Client, connection: Connection) -> None:
        """A client that has got everything needs one number alone."""
        close_gaps(client)
        if not client.inbox.spans or not connection.acks_all:
            client.inbox.settle(max(client.inbox.top, self.reached))

    def _settle_live(self, client: Client) -> None:
        if client.live and client.receiver is not None:
            self._settle(client, client.receiver)

    # -- what is published now ---------------------------------------------------------------

    def spread(self, topic: Topic, notification: Notification) -> None:
        """Pushes to everybody who is live, after it was stored."""
        self._fanout.hand_over()
        if not topic.groups and not topic.own:
            return
        number = notification.number
        for connection in topic.live():
            client = connection.client
            if client is None:
                continue
            subscription = topic.subscribers.get(client)
            if subscription is not None and number > subscription.start:
                self._push_now(client, connection, notification, subscription.ack)
                topic.delivered += client.live

    def spread_private(self, client: Client, notification: Notification) -> None:
        """The same, to one client."""
        self._fanout.hand_over()
        if client.live and client.receiver is not None:
            self._push_now(client, client.receiver, notification, client.acks)

    def _push_now(
        self, client: Client, connection: Connection, notification: Notification, ack: bool
    ) -> None:
        inbox, number = client.inbox, notification.number
        ack = ack or connection.acks_all
        if not connection.open or (ack and client.owed >= self._hub.limits.in_flight):
            self.hold(client)
            return
        if ack:
            inbox.holes[number] = connection.id
            client.owed += 1
        else:
            self._saving.soon(client)
        inbox.hand(number)
        self._out.setdefault(connection, []).append(notification)

    def send_out(self) -> None:
        """Writes what was spread: each notification is encoded once for each form."""
        if not self._out:
            return
        out, self._out = self._out, {}
        encoded: dict[tuple[Form, int], bytes] = {}
        for connection, notifications in out.items():
            self._write(connection, notifications, encoded)

    def _write(
        self,
        connection: Connection,
        notifications: Sequence[Notification],
        encoded: dict[tuple[Form, int], bytes],
    ) -> None:
        form = connection.form
        if form is None:
            deliver(self._hub, connection, notifications)
            return
        frames = []
        for each in notifications:
            frame = encoded.get((form, each.number))
            if frame is None:
                frame = encoded[form, each.number] = form.encode(each)
            frames.append(frame)
        connection.write(b"".join(frames))
        self._hub.counts.delivered[connection.protocol] += len(frames)

    # -- what waits --------------------------------------------------------------------------

    def push(self, client: Client) -> None:
        """Pushes the next page of what waits, or finds that the client is live."""
        connection = client.receiver
        if connection is None or client.live or client.behind or client.scheduled:
            return
        if not connection.open or not connection.may_receive:
            return
        room = self._hub.limits.in_flight - client.owed
        limit = min(PAGE, max(room, 1))
        numbers = next_numbers(client, client.position, limit, holes=not connection.acks_all)
        if numbers and room <= 0:
            return
        if numbers and not self._push_page(client, connection, numbers):
            return
        if len(numbers) < limit:
            self._go_live(client, connection)
        else:
            self._push_later(client)

    def _push_later(self, client: Client) -> None:
        if client.receiver is not None and not client.live and not client.scheduled:
            client.scheduled = True
            self._hub.loop.call_soon(self._push_again, client)

    def _push_again(self, client: Client) -> None:
        client.scheduled = False
        self.push(client)

    def _push_page(self, client: Client, connection: Connection, numbers: list[int]) -> bool:
        page = self._read(client, numbers)
        if page is None:
            return False
        client.position = numbers[-1]
        inbox = client.inbox
        for entry in page:
            subscription = client.subscriptions.get(entry.topic or "")
            private = entry.target < 0 or subscription is None
            if subscription is not None and not private:
                subscription.topic.delivered += 1
            ack = client.acks if private or subscription is None else subscription.ack
            inbox.hand(entry.number)
            if ack or connection.acks_all:
                inbox.holes[entry.number] = connection.id
                client.owed += 1
            else:
                inbox.holes.pop(entry.number, None)
        self._saving.soon(client)
        if page:
            server = self._hub.config.store.server
            self._fanout.hand_over()
            self._write(connection, [notification_of(each, server) for each in page], {})
        return True

    def waiting(self, client: Client) -> list[Notification]:
        """What one list may carry: the oldest that is not acknowledged. It counts as handed."""
        numbers = next_numbers(client, 0, LIST_COUNT, holes=True)
        page = self._read(client, numbers) or []
        taken: list[Notification] = []
        size = 0
        server = self._hub.config.store.server
        for entry in page:
            client.inbox.hand(entry.number)
            client.inbox.holes.setdefault(entry.number, 0)
            size += len(entry.content)
            if not taken or size <= LIST_BYTES:
                taken.append(notification_of(entry, server))
        close_gaps(client)
        return taken

    def look(self, client: Client, limit: int) -> list[Notification]:
        """What waits for a client, without handing it."""
        numbers = next_numbers(client, 0, limit, holes=True)
        server = self._hub.config.store.server
        return [notification_of(each, server) for each in self._hub.store.entries(numbers)]

    def oldest(self, client: Client, limit: int) -> list[int]:
        """The numbers of what has waited longest."""
        return next_numbers(client, 0, limit, holes=True)

    def _read(self, client: Client, numbers: list[int]) -> list[Entry] | None:
        """These entries. What is over becomes a dead letter, what is gone is forgotten."""
        try:
            entries = self._hub.store.entries(numbers)
        except HubError:
            return None
        now_ms = self._clock_ms()
        page = [entry for entry in entries if entry.expires_ms > now_ms]
        if len(page) < len(numbers):
            there = {entry.number for entry in entries}
            over = [entry.number for entry in entries if entry.expires_ms <= now_ms]
            self.bury(client, over, "expired")
            for number in numbers:
                if number not in there:
                    client.inbox.hand(number)
                    client.inbox.holes.pop(number, None)
        return page

    # -- what is over ------------------------------------------------------------------------

    def ack(self, client: Client, ids: Sequence[str]) -> int:
        """The client has these; ids that are unknown, or come again, are ignored."""
        holes, receiver = client.inbox.holes, client.receiver
        count = 0
        for each in ids:
            number = number_of(each)
            connection = None if number is None else holes.pop(number, None)
            if connection is None:
                continue
            count += 1
            if receiver is not None and connection == receiver.id:
                client.owed -= 1
        if count:
            self._hub.counts.acked += count
            self._saving.soon(client)
            self._push_later(client)
        return count

    def drop(self, client: Client, numbers: Sequence[int]) -> None:
        """The client has given these up."""
        for number in numbers:
            pushed_on = client.inbox.holes.pop(number, 0)
            if client.receiver is not None and pushed_on == client.receiver.id:
                client.owed -= 1
        if numbers:
            self._saving.soon(client)
            self._push_later(client)

    def bury(self, client: Client, numbers: Sequence[int], reason: str) -> None:
        """These will not be delivered to this client: they become dead letters."""
        if not numbers:
            return
        for number in numbers:
            client.inbox.hand(number)
        self.drop(client, numbers)
        if not client.durable:
            self._hub.counts.dead[reason] += len(numbers)
            return

        def done(error: HubError | None) -> None:
            if error is None:
                self._hub.counts.dead[reason] += len(numbers)
            else:  # they wait again, until it can be written
                client.inbox.holes.update(dict.fromkeys(numbers, 0))

        now_ms = self._clock_ms()
        dead = [(client.number, number, reason, now_ms) for number in numbers]
        self._hub.store.bury(dead, (), done)

    def save(self) -> None:
        """Saves how far clients have come, all that have come further."""
        self._saving.save()

    def forget(self, client: Client) -> None:
        """The client is no more: nothing of it is saved."""
        self._saving.forget(client)
