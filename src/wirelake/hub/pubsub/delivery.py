"""Delivery of notifications to clients, in order, and their acknowledgements.

    Delivery       stored notifications: pushed at once or from the backlog; acknowledgements
    CursorWriter   saves changed inboxes in batches
    Fanout         transient notifications, to all live connections of a topic

A client is *live* when nothing older waits to be pushed on its connection: what is published is
pushed at once. Otherwise it is *held*: pages are read from the log and pushed, one per turn of the
loop, until nothing is left, and it becomes live. A client is held while its connection may not
receive, reads too slowly, or has the maximum number of unacknowledged notifications
(`Limits.in_flight`, the delivery window). A held client costs nothing: what it misses is in the
log.

comet has a request for the backlog, so a comet connection is pushed only what is published after
its sign-on: its inbox starts a span there. On other protocols everything that is not acknowledged
is pushed, oldest first (`docs/concepts/hub.md`, Delivery).

Inboxes are saved later than the notifications they are about. A crash in between repeats deliveries
and loses none: at least once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..config import ActiveLimits
from ..eager import Background
from ..errors import HubError
from ..observe.counters import Counters
from ..store import Entry, Store
from ..store.interface import AddDeadLetters, Delete, SaveInboxes
from .notifications import Form, Notification, notification_of, number_of
from .subscriptions import Client, Receiver, Topic

__all__ = [
    "LIST_BYTES",
    "LIST_COUNT",
    "PAGE",
    "SAVE_S",
    "CursorWriter",
    "Delivery",
    "Fanout",
    "deliver",
]

_log = logging.getLogger(__name__)

PAGE: Final = 64
"""Notifications read and pushed in one turn of the loop: at most a megabyte (64 contents of 16 KB),
the size of the write buffer after which the peer counts as slow."""
LIST_COUNT: Final = 127
"""Notifications in one list (`docs/decisions/comet.md`, rule 7)."""
LIST_BYTES: Final = 32_767
"""Bytes of content in one list; the rest waits for the next."""
SAVE_S: Final = 0.05
"""How long an acknowledgement may wait to be saved. A crash within this time repeats a delivery;
a longer wait would repeat more, a shorter one would save the same inbox for every ack."""
_MAX_SAVED: Final = 1_000
"""Inboxes packed in one turn of the loop: a few milliseconds."""
_MAX_MISSED: Final = 4 * PAGE
"""Notifications kept for a client while a page of its backlog is read; with more, the next page is
read as well."""


class Delivery:
    """Pushes stored notifications and tracks what each client has received."""

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        limits: ActiveLimits,
        counters: Counters,
        fanout: Fanout,
        now_ms: Callable[[], int],
        server: int,
        background: Background,
    ):
        self._store = store
        self._cluster = store.cluster
        self._loop = loop
        self._limits = limits
        self._counters = counters
        self._fanout = fanout
        self._now_ms = now_ms
        self._server = server
        self._background = background
        self._out: dict[Receiver, list[Notification]] = {}
        self._reading = 0
        """Clients of which a page is being read while publishes go on."""
        self._done_private: list[int] = []
        """Rows of acknowledged private notifications."""
        self.changed_topics: dict[int, None] = {}
        """Numbers of topics whose log may have something to delete."""
        self.cursors = CursorWriter(store, loop, self._before_save)
        self.reached = 0
        """Every notification up to this number was pushed to live clients, or never will be. The
        cursors of live clients are set to it when they are saved, not with every push."""

    # -- connections -------------------------------------------------------------------------

    def attach(self, connection: Receiver) -> None:
        """Send the client's notifications to this connection from now on, and to no other."""
        client = connection.client
        if client is None or client.receiver is connection:
            return
        if client.receiver is not None:
            self._stop_pushing(client)
        client.receiver = connection
        client.unacked = 0
        client.slow = bool(connection.paused_since)
        client.position = 0
        for each in client.subscriptions.values():
            each.topic.held[client] = None
        if connection.acks_all:
            # comet fetches its backlog: only what is published from now on is pushed. The span that
            # starts here keeps the older notifications unsent, so that the list still has them.
            client.inbox.start_span(self.reached)
            client.position = client.inbox.top
            self._background.start(self._close_gaps_of(client))
        self.push(client)

    def lose(self, connection: Receiver) -> None:
        """Send nothing to this connection any more, and save nothing: another hub does."""
        client = connection.client
        if client is None or client.receiver is not connection:
            return
        self._stop_pushing(client)
        client.receiver = None
        client.unacked = 0

    def detach(self, connection: Receiver) -> None:
        """Send nothing to this connection any more."""
        client = connection.client
        if client is None or client.receiver is not connection:
            return
        self._stop_pushing(client)
        client.receiver = None
        self._changed(client)

    def regroup(self, connection: Receiver) -> None:
        """Regroup a connection whose form, or permission to receive, has changed."""
        client = connection.client
        if client is not None and client.receiver is connection:
            self._fanout.flush()
            self.hold(client)
            self.push(client)

    def fell_behind(self, connection: Receiver) -> None:
        """Hold a client whose connection reads too slowly."""
        client = connection.client
        if client is not None and client.receiver is connection:
            client.slow = True
            self._fanout.flush()
            self.hold(client)

    def caught_up(self, connection: Receiver) -> None:
        """Resume a client whose connection has read what it was sent."""
        client = connection.client
        if client is not None and client.receiver is connection:
            client.slow = False
            self.push(client)

    def hold(self, client: Client) -> None:
        """Stop pushing what is published; from now on it waits in the log."""
        connection = client.receiver
        if connection is None or not client.live:
            return
        client.live = False
        self._advance_inbox(client, connection)
        client.position = max(client.position, client.inbox.top)
        for each in client.subscriptions.values():
            each.topic.remove_live(connection)
            each.topic.held[client] = None

    def _stop_pushing(self, client: Client) -> None:
        self.hold(client)
        for each in client.subscriptions.values():
            each.topic.held.pop(client, None)

    def _go_live(self, client: Client, connection: Receiver) -> None:
        # Transient notifications of this turn were published while this client was held: write them
        # to the others now, so that it does not get them.
        self._fanout.flush()
        client.live = True
        self._advance_inbox(client, connection)
        for each in client.subscriptions.values():
            each.topic.held.pop(client, None)
            each.topic.add_live(connection)

    def _advance_inbox(self, client: Client, connection: Receiver) -> None:
        """Reduce the inbox of a client that was sent everything to its cursor."""
        # A live client has been sent everything up to `reached`, also if nothing was for it.
        # Without this its cursor would stay behind, and every topic's log would be kept for it.
        if not client.inbox.spans or not connection.acks_all:
            client.inbox.advance_cursor(max(client.inbox.top, self.reached))

    def _before_save(self, client: Client) -> None:
        if client.live and client.receiver is not None:
            self._advance_inbox(client, client.receiver)
        if self._done_private:
            numbers, self._done_private = self._done_private, []

            def done(result: HubError | None) -> None:
                if result is not None:  # with the next save: their clients ask for them no more
                    self._done_private.extend(numbers)

            self._store.write(Delete(tuple(numbers)), done)

    # -- live clients ------------------------------------------------------------------------

    def push_to_topic(self, topic: Topic, notification: Notification) -> None:
        """Push a stored notification to all live subscribers."""
        self._fanout.flush()  # older transient ones first
        number = notification.number
        if self._reading:
            for client in topic.held:
                subscription = topic.subscribers.get(client)
                if subscription is not None and number > subscription.start:
                    self._miss(client, notification, subscription.ack)
        if not topic.by_form and not topic.unshared:
            return
        for connection in topic.live():  # a copy: a full window takes the client out of the group
            found = connection.client
            if found is None:
                continue
            subscription = topic.subscribers.get(found)
            if subscription is not None and number > subscription.start:
                self._push_now(found, connection, notification, subscription.ack)
                topic.traffic.delivered += found.live

    def push_to_client(self, client: Client, notification: Notification) -> None:
        """Push a stored notification to one client, if it is live."""
        self._fanout.flush()
        client.private[notification.number] = None
        if client.live and client.receiver is not None:
            self._push_now(client, client.receiver, notification, client.acks)
        else:
            self._miss(client, notification, client.acks)

    def _miss(self, client: Client, notification: Notification, ack: bool) -> None:
        # One more than `_MAX_MISSED` says that there were too many.
        if client.missed is not None and len(client.missed) <= _MAX_MISSED:
            client.missed.append((notification, ack))

    def _push_now(
        self, client: Client, connection: Receiver, notification: Notification, ack: bool
    ) -> None:
        inbox, number = client.inbox, notification.number
        if inbox.was_sent(number):
            return  # by another hub, before this one followed the log so far
        ack = ack or connection.acks_all
        # A full window holds the client: the rest waits in the log until it acknowledges, so a
        # subscriber that stops acknowledging costs no memory.
        if not connection.open or (ack and client.unacked >= self._limits.current.in_flight):
            self.hold(client)
            return
        if ack:
            inbox.holes[number] = connection.id
            client.unacked += 1
        else:
            # Written counts as acknowledged, so the cursor moves. With acknowledgements it is saved
            # with the ack: a crash before that has to repeat the delivery anyway.
            self._changed(client)
            self._finished(client, number)
        inbox.mark_sent(number)
        # Collected until `flush`: a commit releases up to thousands of publications at once, and a
        # subscriber of many gets them in one write.
        self._out.setdefault(connection, []).append(notification)

    def flush(self) -> None:
        """Write what was pushed: each notification is encoded once per form."""
        if not self._out:
            return
        # By connection first, so that each is written once; frames are shared across connections.
        out, self._out = self._out, {}
        encoded: dict[tuple[Form, int], bytes] = {}
        for connection, notifications in out.items():
            self._write(connection, notifications, encoded)

    def _write(
        self,
        connection: Receiver,
        notifications: Sequence[Notification],
        encoded: dict[tuple[Form, int], bytes],
    ) -> None:
        form = connection.form
        if form is None:
            deliver(connection, notifications, self._counters)
            return
        frames = []
        for each in notifications:
            frame = encoded.get((form, each.number))
            if frame is None:
                frame = encoded[form, each.number] = form.encode(each)
            frames.append(frame)
        connection.write(b"".join(frames))
        self._counters.delivered[connection.protocol] += len(frames)

    # -- the backlog -------------------------------------------------------------------------

    def push(self, client: Client) -> None:
        """Push the next page of the backlog; make the client live when there is none."""
        connection = client.receiver
        if connection is None or client.scheduled or client.reading:
            return
        if self._may_push(client, connection):
            self._background.start(self._push(client, connection))

    def _may_push(self, client: Client, connection: Receiver) -> bool:
        """Return whether a client is held on this connection, and can be sent a page."""
        return (
            client.receiver is connection
            and client.loaded
            and not (client.live or client.slow or client.doubtful)
            and (self._cluster is None or self._cluster.valid)
            and connection.open
            and connection.may_receive
        )

    async def _push(self, client: Client, connection: Receiver) -> None:
        inbox = client.inbox
        client.reading = True
        client.missed = []
        self._reading += 1
        try:
            await self._push_page(client, connection)
        except HubError as error:
            # Silence would look like an empty backlog. The client connects again, and gets the
            # same until the store can be read. Later: this may be called while an event of the
            # connection is handled.
            self._loop.call_soon(connection.end, error.code)
        finally:
            self._reading -= 1
            client.missed = None
            client.reading = False
        # Another connection came while the page was read, or the client was at another hub.
        if client.receiver is not connection or client.inbox is not inbox:
            self.push(client)

    async def _push_page(self, client: Client, connection: Receiver) -> None:
        # The window: at most `in_flight` notifications are pushed and unacknowledged. One number is
        # looked up even without room, to tell "nothing left" (live) from "wait for an ack" (held).
        room = self._limits.current.in_flight - client.unacked
        limit = min(PAGE, max(room, 1))
        reached = self.reached
        holes, inbox = not connection.acks_all, client.inbox
        numbers = await self.next_numbers(client, client.position, limit, holes=holes)
        if client.inbox is not inbox:
            return
        if numbers and room <= 0:
            # `ack` pushes the next page, unless it came while this was read.
            if client.unacked < self._limits.current.in_flight:
                self._push_later(client)
            return
        entries = await self._store.entries(numbers) if numbers else []
        if not self._may_push(client, connection) or client.inbox is not inbox:
            return
        if numbers:
            client.position = numbers[-1]
            self._send_page(client, connection, self._valid(client, numbers, entries))
        if len(numbers) < limit:
            # Everything that was published until the read began was sent. What was published since
            # then was collected; it follows in the same turn, so nothing can come between.
            client.position = max(client.position, reached)
            if self._send_missed(client, connection):
                self._go_live(client, connection)
                return
        self._push_later(client)

    def _push_later(self, client: Client) -> None:
        # One page per turn: a client with a backlog of 10,000 must not delay the others, and acks
        # that arrive in one turn are answered with one page.
        if client.receiver is not None and not client.live and not client.scheduled:
            client.scheduled = True
            self._loop.call_soon(self._push_again, client)

    def _push_again(self, client: Client) -> None:
        client.scheduled = False
        self.push(client)

    def _send_page(self, client: Client, connection: Receiver, page: Sequence[Entry]) -> None:
        notifications: list[Notification] = []
        for entry in page:
            # A private notification, or one of a topic that was unsubscribed after the numbers were
            # collected, is acknowledged like the rest of the client's notifications.
            subscription = client.subscriptions.get(entry.topic or "")
            private = entry.target < 0 or subscription is None
            if subscription is not None and not private:
                subscription.topic.traffic.delivered += 1
            if entry.target < 0:
                client.private[entry.number] = None
            ack = client.acks if private or subscription is None else subscription.ack
            self._sent(client, connection, entry.number, ack or connection.acks_all)
            notifications.append(notification_of(entry, self._server))
        self._changed(client)
        if notifications:
            self._fanout.flush()
            self._write(connection, notifications, {})

    def _sent(self, client: Client, connection: Receiver, number: int, ack: bool) -> None:
        client.inbox.mark_sent(number)
        # A hole stays until it is acknowledged, and is pushed again on the next connection.
        # Without acknowledgements a notification is done when it is written.
        if ack:
            client.inbox.holes[number] = connection.id
            client.unacked += 1
        else:
            client.inbox.holes.pop(number, None)
            self._finished(client, number)

    def _send_missed(self, client: Client, connection: Receiver) -> bool:
        """Send what was published while the last page was read; return whether that was all."""
        missed, client.missed = client.missed or [], []
        if len(missed) > _MAX_MISSED:
            return False
        sent: list[Notification] = []
        full = False
        for notification, acks in missed:
            number = notification.number
            if number <= client.position or client.inbox.was_sent(number):
                continue
            ack = acks or connection.acks_all
            full = ack and client.unacked >= self._limits.current.in_flight
            if full:
                break
            client.position = notification.number
            self._sent(client, connection, notification.number, ack)
            sent.append(notification)
        if sent:
            self._changed(client)
            self._write(connection, sent, {})
        return not full

    async def next_numbers(
        self, client: Client, after: int, limit: int, *, holes: bool
    ) -> list[int]:
        """Return the lowest unsent numbers beyond `after`; with `holes`, unacknowledged, too."""
        inbox = client.inbox
        while True:
            read: list[int] = []
            # Unsent numbers are in the gaps between spans: usually one gap, beyond the cursor.
            for begin, end in list(inbox.gaps()):
                low = max(begin, after)
                high = self.reached if end is None else min(end, self.reached)
                if low < high and len(read) < limit:
                    read += await self._store.numbers(client.sources(low), high, limit - len(read))
            # While the store was read, some of them may have been sent to this client.
            found = [number for number in read if not inbox.was_sent(number)]
            if len(found) == len(read) or len(read) < limit:
                break
        if holes:
            found.extend(number for number in inbox.holes if number > after)
            found.sort()
        return found[:limit]

    async def count(self, client: Client) -> int:
        """Return how many notifications a client has not acknowledged."""
        count = len(client.inbox.holes)
        for begin, end in list(client.inbox.gaps()):
            high = self.reached if end is None else min(end, self.reached)
            if begin < high:
                count += await self._store.count(client.sources(begin), high)
        return count

    async def close_gaps(self, client: Client) -> None:
        """Merge spans into the cursor where nothing waits before them."""
        # A gap is closed when no number in it is for this client: the numbers of all topics are in
        # one sequence, and most belong to others. Without this, spans would never be merged.
        inbox = client.inbox
        while inbox.spans:
            begin = inbox.spans[0][0]
            if await self._store.numbers(client.sources(inbox.cursor), begin, 1):
                return
            if inbox.spans and inbox.spans[0][0] == begin:
                inbox.advance_cursor(begin)

    async def _close_gaps_of(self, client: Client) -> None:
        try:
            await self.close_gaps(client)
        except HubError:
            return  # a gap that stays open costs nothing but a few bytes
        if client.live and client.receiver is not None:
            self._advance_inbox(client, client.receiver)

    async def waiting(self, client: Client) -> list[Notification]:
        """Return the oldest unacknowledged notifications that fit one list; they count as sent.

        Raises HubError when the store cannot be read: an empty list would mean that there are none.
        """
        numbers = await self.next_numbers(client, 0, LIST_COUNT, holes=True)
        entries = await self._store.entries(numbers) if numbers else []
        page = self._valid(client, numbers, entries)
        taken: list[Notification] = []
        size = 0
        for entry in page:
            client.inbox.mark_sent(entry.number)
            client.inbox.holes.setdefault(entry.number, 0)
            if entry.target < 0:
                client.private[entry.number] = None
            size += len(entry.content)
            if not taken or size <= LIST_BYTES:  # at least one, or a large one would block the list
                taken.append(notification_of(entry, self._server))
        await self.close_gaps(client)
        return taken

    async def peek(self, client: Client, limit: int) -> list[Notification]:
        """Return the backlog of a client without marking anything as sent."""
        numbers = await self.next_numbers(client, 0, limit, holes=True)
        return [notification_of(each, self._server) for each in await self._store.entries(numbers)]

    def _valid(
        self, client: Client, numbers: Sequence[int], entries: Sequence[Entry]
    ) -> list[Entry]:
        """Return the entries that the client still waits for and that have not expired; for those
        that have, it waits no longer."""
        # What was acknowledged while the store was read must not be sent again.
        is_unacked = client.inbox.is_unacked
        entries = [entry for entry in entries if is_unacked(entry.number)]
        numbers = [number for number in numbers if is_unacked(number)]
        now_ms = self._now_ms()
        page = [entry for entry in entries if entry.expires_ms > now_ms]
        if len(page) < len(numbers):
            existing = {entry.number for entry in entries}
            expired = [entry.number for entry in entries if entry.expires_ms <= now_ms]
            self.dead_letter(client, expired, "expired")
            # Deleted between the two reads: expired in this moment, or the client was removed. They
            # must not be asked for again with every page.
            for number in numbers:
                if number not in existing:
                    client.inbox.mark_sent(number)
                    client.inbox.holes.pop(number, None)
        return page

    # -- acknowledgements and dead letters ---------------------------------------------------

    def ack(self, client: Client, ids: Sequence[str]) -> int:
        """Acknowledge notifications and return how many; unknown and repeated ids are ignored."""
        holes, receiver = client.inbox.holes, client.receiver
        count = 0
        for each in ids:
            number = number_of(each)
            connection = None if number is None else holes.pop(number, None)
            if connection is None or number is None:
                continue
            count += 1
            self._finished(client, number)
            # Only what was pushed on this connection is in its window. Acks for an earlier one, or
            # for a fetched list, free no room.
            if receiver is not None and connection == receiver.id:
                client.unacked -= 1
        if count:
            self._counters.acked += count
            self._changed(client)
            self._push_later(client)
        return count

    def _finished(self, client: Client, number: int) -> None:
        """Delete the row of a private notification that its client has acknowledged."""
        if client.private and number in client.private:
            del client.private[number]
            self._done_private.append(number)

    def drop(self, client: Client, numbers: Sequence[int]) -> None:
        """Remove these from the inbox, acknowledged or not."""
        for number in numbers:
            client.private.pop(number, None)
            pushed_on = client.inbox.holes.pop(number, 0)
            if client.receiver is not None and pushed_on == client.receiver.id:
                client.unacked -= 1
        if numbers:
            self._changed(client)
            self._push_later(client)

    def expired(self, numbers: Sequence[int], clients: Iterable[Client]) -> None:
        """Remove notifications from inboxes that another hub has deleted."""
        gone = set(numbers)
        for client in clients:
            if not gone.isdisjoint(client.inbox.holes):
                self.drop(client, sorted(gone.intersection(client.inbox.holes)))

    def dead_letter(self, client: Client, numbers: Sequence[int], reason: str) -> None:
        """Turn notifications that this client will not get into dead letters."""
        if not numbers:
            return
        # They leave the inbox now, or the next sweep would find them again, and come back if the
        # dead letters cannot be written.
        private = tuple(number for number in numbers if number in client.private)
        for number in numbers:
            client.inbox.mark_sent(number)
        self.drop(client, numbers)
        if not client.durable:
            self._counters.dead[reason] += len(numbers)
            return

        def done(result: int | HubError) -> None:
            if isinstance(result, HubError):
                if client.loaded:
                    client.inbox.holes.update(dict.fromkeys(numbers, 0))
                    client.private.update(dict.fromkeys(private))
                    self._changed(client)  # it may be saved without them by now
            else:
                self._counters.dead[reason] += result

        now_ms = self._now_ms()
        letters = tuple((client.number, number, reason, now_ms) for number in numbers)
        self._store.write(AddDeadLetters(letters, private), done)

    def _changed(self, client: Client) -> None:
        """Save the inbox within `SAVE_S`; the sweep deletes what the client no longer needs."""
        self.cursors.save_later(client)

    def save(self) -> None:
        """Save all changed inboxes now."""
        self.cursors.save()

    def forget(self, client: Client) -> None:
        """Do not save the inbox of a removed client."""
        self.cursors.forget(client)


class CursorWriter:
    """Saves changed inboxes in batches."""

    # An inbox is one small row (cursor, spans, holes), rewritten as a whole. Acknowledgements are
    # therefore collected for SAVE_S: a client that acknowledges a thousand times a second causes 20
    # writes, not a thousand. They join the group commits of publishes.

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        prepare: Callable[[Client], None],
    ):
        self.saved: Callable[[Client], None] = _do_nothing
        """Called with each client whose inbox is in the store, or need not be any more."""
        self.refused: Callable[[Client], None] = _do_nothing
        """Called with each client that another hub serves."""
        self._store = store
        self._loop = loop
        self._prepare = prepare
        self._changed: dict[Client, None] = {}
        self._scheduled = False

    def save_later(self, client: Client) -> None:
        """Save this client's inbox within `SAVE_S`."""
        # What is not loaded has an empty inbox, which must never be saved.
        if client.number and client.loaded:
            if client not in self._changed:
                client.unsaved += 1
                self._changed[client] = None
            self._schedule()

    def forget(self, client: Client) -> None:
        """Do not save this client: it was removed."""
        if client in self._changed:
            del self._changed[client]
            client.unsaved -= 1

    def save(self, limit: int | None = None) -> None:
        """Save changed inboxes; those that cannot be written are tried again."""
        clients = list(self._changed)[:limit]
        if not clients:
            return
        rows = []
        for client in clients:
            del self._changed[client]
            self._prepare(client)
            rows.append(client.row())

        def done(result: tuple[int, ...] | HubError) -> None:
            lost = () if isinstance(result, HubError) else result
            for client in clients:
                # Not before every save is over: a later one may be under way, and who signs on
                # meanwhile must not read what is on disk.
                client.unsaved -= 1
                if isinstance(result, HubError) and client.loaded:
                    self.save_later(client)
                    continue
                if client.number in lost:
                    self.refused(client)
                self.saved(client)

        self._store.write(SaveInboxes(tuple(rows)), done)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_later(SAVE_S, self._save_some)

    def _save_some(self) -> None:
        self._scheduled = False
        self.save(_MAX_SAVED)
        if self._changed:
            self._schedule()


def _do_nothing(client: Client) -> None:
    """Do nothing: the callback is not set."""


# -- transient notifications ---------------------------------------------------------------------


class Fanout:
    """The transient notifications of one topic that were published in this turn of the loop."""

    # Encode once, join once, and write the same bytes object to every subscriber: 64 publishes to
    # 1,000 subscribers are 64 encodings and 1,000 writes instead of 64,000 of each, which is 8 to
    # 13 million deliveries per second (benchmarks/results/hub.json, fanout, depth 64).

    __slots__ = ("_at_turn_end", "_collected", "_counters", "_scheduled", "_topic")

    def __init__(
        self, counters: Counters, at_turn_end: Callable[[Callable[[], None]], None]
    ) -> None:
        self._counters = counters
        self._at_turn_end = at_turn_end
        self._topic: Topic | None = None
        self._collected: list[Notification] = []
        self._scheduled = False

    def add(self, topic: Topic, notification: Notification) -> None:
        """Write this to all live connections of a topic at the end of the turn."""
        if self._topic is not topic:
            if self._topic is not None:
                self.flush()
            self._topic = topic
        self._collected.append(notification)
        topic.traffic.published += 1
        if not self._scheduled:
            self._scheduled = True
            self._at_turn_end(self._end_of_turn)
        if topic.held:  # not stored, so clients that are held miss it
            skipped = self._counters.skipped
            for client in topic.held:
                if client.receiver is not None:
                    skipped[client.receiver.protocol] += 1

    def _end_of_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Write what was collected.

        Called before anything that must not overtake it: a newer stored notification, or a
        connection that becomes live (it must not get what was published before).
        """
        topic = self._topic
        if topic is None:
            return
        collected, self._collected, self._topic = self._collected, [], None
        delivered = self._counters.delivered
        topic.traffic.delivered += len(collected) * topic.online
        for form, group in tuple(topic.by_form.items()):
            encode = form.encode
            frames = [encode(each) for each in collected]
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            connection, count = None, len(group)
            for connection in tuple(group):  # a slow one leaves the group while it is written to
                connection.write_now(data)
            if connection is not None:
                delivered[connection.protocol] += len(frames) * count
        for connection in tuple(topic.unshared):
            deliver(connection, collected, self._counters)


def deliver(
    connection: Receiver, notifications: Sequence[Notification], counters: Counters
) -> None:
    """Push in the connection's own encoding; one that raises is dropped and affects no other."""
    try:
        connection.deliver(notifications)
    except Exception:
        _log.exception("connection %d: cannot deliver notifications", connection.id)
        connection.drop("internal")
    else:
        counters.delivered[connection.protocol] += len(notifications)
