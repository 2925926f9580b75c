"""Clients that take what they get, acknowledge it, and come back when the hub is gone."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from tests.hub_kills.ledger import Ledger
from tests.hub_raw.hub_process import HubProcess
from tests.hub_raw.line import EndedError, Line
from tests.hub_raw.raw_comet import CometError, Note, RawComet
from tests.hub_raw.raw_esnp import EsnpError, RawEsnp

__all__ = ["AckingEsnp", "OfflineComet", "OnlineComet", "Receiver", "SealedComet", "VisitingComet"]

_GONE = (OSError, EndedError, KeyError)


class Receiver:
    """A thread with a client in it."""

    def __init__(self, hub: HubProcess, ledger: Ledger, name: str, seed: int = 0):
        self.name = name
        self._hub = hub
        self._ledger = ledger
        self._token = hub.client(name)[1]
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._gives_up = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failure: BaseException | None = None

    def start(self, *topics: str) -> None:
        """Subscribes, then goes on in a thread of its own."""
        self.subscribe(topics)
        self._ledger.subscribed(self.name, *topics)
        self._thread.start()

    def finish(self, within_s: float = 30.0) -> None:
        """Waits until everything that was confirmed is here, or for ever will not be; then ends."""
        self._over.set()
        self._thread.join(within_s)
        self._gives_up = True
        self._thread.join(within_s)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _missing(self) -> list[str]:
        return sorted(self._ledger.missing(self.name))

    def _run(self) -> None:
        try:
            while not self._satisfied:
                self._visit()
        except BaseException as failure:
            self.failure = failure
            raise

    def _visit(self) -> None:
        """One connection, until the hub is gone."""
        try:
            line = self._dial()
        except _GONE:
            self._over.wait(0.02)
            return
        try:
            self.talk(line)
        except _GONE:
            pass
        except (CometError, EsnpError):
            if not self._hub.store_may_fail:
                raise
            self._over.wait(0.02)
        finally:
            line.close()

    def _dial(self) -> Line:
        raise NotImplementedError

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """While the hub is sure to be there."""
        raise NotImplementedError

    def talk(self, line: Line) -> None:
        """Takes what comes until there is a reason to hang up."""
        raise NotImplementedError

    @property
    def _satisfied(self) -> bool:
        return self._gives_up or (self._over.is_set() and not self._missing())


class OnlineComet(Receiver):
    """Is there whenever the hub is; fetches what waits, then takes pushes."""

    def _dial(self) -> Line:
        return self._hub.dial("comet", 5.0)

    def _signed_on(self, line: Line) -> RawComet:
        client = RawComet(line)
        client.auth(self.name, self._token)
        return client

    def subscribe(self, topics: tuple[str, ...]) -> None:
        line = self._dial()
        self._signed_on(line).subscribe(*topics)
        line.close()

    def talk(self, line: Line) -> None:
        client = self._signed_on(line)
        self._fetch(client, lambda: True)
        while not self._satisfied:
            if client.pushed or line.ready(0.05):
                self._take(client, [client.next_push()])

    def _fetch(self, client: RawComet, more: Callable[[], bool]) -> None:
        """What waits comes first; pushes that arrive meanwhile are newer."""
        while more() and (page := client.messages()):
            self._take(client, page)

    def _take(self, client: RawComet, notes: list[Note]) -> None:
        for note in notes:
            self._ledger.arrived(self.name, note.id, note.content.decode())
        client.ack(*(note.id for note in notes))


class SealedComet(OnlineComet):
    """The same, with contents sealed."""

    def _signed_on(self, line: Line) -> RawComet:
        client = super()._signed_on(line)
        client.exchange_key()
        return client


class VisitingComet(OnlineComet):
    """Comes now and then, takes a page or two, and forgets to acknowledge some."""

    def talk(self, line: Line) -> None:
        client = self._signed_on(line)
        pages = iter(range(self._random.randrange(1, 4)))
        self._fetch(client, lambda: self._over.is_set() or next(pages, None) is not None)
        line.close()
        self._over.wait(self._random.uniform(0.0, 0.3))

    def _take(self, client: RawComet, notes: list[Note]) -> None:
        if not self._over.is_set() and self._random.random() < 0.3:
            for note in notes:
                self._ledger.arrived(self.name, note.id, note.content.decode())
            return
        super()._take(client, notes)


class OfflineComet(OnlineComet):
    """Subscribes, and is not seen again before the end."""

    def _visit(self) -> None:
        if self._over.wait(0.1):
            super()._visit()


class AckingEsnp(Receiver):
    """An ESNP client whose subscription asks for acknowledgements."""

    _topics: tuple[str, ...] = ()

    def _dial(self) -> Line:
        return self._hub.dial("esnp", 5.0)

    def _signed_on(self, line: Line) -> RawEsnp:
        client = RawEsnp(line)
        client.call("hub", "auth", {"id": self.name, "token": self._token})
        client.call("hub", "subscribe", {"topics": list(self._topics), "ack": True})
        return client

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self._topics = topics
        line = self._dial()
        self._signed_on(line)
        line.close()

    def talk(self, line: Line) -> None:
        client = self._signed_on(line)
        while not self._satisfied:
            if client.events or line.ready(0.05):
                got = client.next_event().data
                self._ledger.arrived(self.name, got["id"], got["content"])
                client.call("hub", "ack", {"id": got["id"]})
