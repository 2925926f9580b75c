"""Publishers that go on whatever happens: one thing after the other, noted when confirmed."""

from __future__ import annotations

import http.client
import json
import random
import threading

from tests.hub_kills.ledger import Ledger, Piece
from tests.hub_raw.hub_process import HubProcess
from tests.hub_raw.line import EndedError
from tests.hub_raw.raw_esnp import ASYNC, EsnpError, RawEsnp, call_rows, encoded, flag

__all__ = ["BusyPublisher", "EsnpPublisher", "HttpPublisher", "Publisher", "RefusedError"]

_GONE = (OSError, EndedError, KeyError, http.client.HTTPException, ValueError)


class RefusedError(Exception):
    """The hub would not take it: nothing of it may be there."""


class Publisher:
    """A thread that publishes to a topic and to single clients in turn.

    One whose name begins with `keyed` tries the same thing again, with the same key, until it is
    confirmed; the others go on with the next.
    """

    def __init__(
        self, hub: HubProcess, ledger: Ledger, name: str, topics: list[str], clients: list[str]
    ):
        self.name = name
        self._hub = hub
        self._ledger = ledger
        self._topics = topics
        self._clients = clients
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._pause_s = 0.002
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def finish(self) -> None:
        """Ends after the thing at hand."""
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        choose = random.Random(self.name)
        number = 0
        try:
            while not self._over.is_set():
                if choose.random() < 0.7:
                    piece = Piece(self.name, number, topic=choose.choice(self._topics))
                else:
                    piece = Piece(self.name, number, client=choose.choice(self._clients))
                self._ledger.trying(piece)
                self._insist(piece)
                number += 1
                self._over.wait(self._pause_s)
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            self.hang_up()

    def _insist(self, piece: Piece) -> None:
        while True:
            try:
                self._ledger.confirmed(piece, self.publish(piece))
            except _GONE:
                self.hang_up()
                self._over.wait(0.02)
                if self.name.startswith("keyed") and not self._over.is_set():
                    continue
            return

    def wanted(self, piece: Piece) -> dict[str, str]:
        """What to say to the hub."""
        wanted = {"content": piece.content, "topic": piece.topic, "client": piece.client}
        if self.name.startswith("keyed"):
            wanted["id"] = f"{piece.publisher}/{piece.number}"
        return {name: value for name, value in wanted.items() if value}

    def publish(self, piece: Piece) -> str:
        """Publishes; the id that confirms it."""
        raise NotImplementedError

    def hang_up(self) -> None:
        """Forgets the connection."""


class HttpPublisher(Publisher):
    """POST /v1/publish."""

    _connection: http.client.HTTPConnection | None = None

    def publish(self, piece: Piece) -> str:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(*self._hub.addresses["admin"], timeout=5)
        headers = {"Authorization": f"Bearer {self._hub.admin_token}"}
        self._connection.request("POST", "/v1/publish", json.dumps(self.wanted(piece)), headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status in (503, 507):  # going down, or no room: nothing was confirmed
            raise OSError(body)
        if answer.status != 200:
            raise RefusedError(body)
        return str(json.loads(body)["id"])

    def hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class EsnpPublisher(Publisher):
    """hub/publish."""

    _client: RawEsnp | None = None
    token = ""

    def _signed_on(self) -> RawEsnp:
        if self._client is None:
            self._client = RawEsnp(self._hub.dial("esnp", 5.0))
            self._client.call("hub", "auth", {"id": self.name, "token": self.token})
        return self._client

    def publish(self, piece: Piece) -> str:
        try:
            return str(self._signed_on().call("hub", "publish", self.wanted(piece))["id"])
        except EsnpError as error:
            if self._hub.store_may_fail:
                raise OSError(str(error)) from error
            raise RefusedError(str(error)) from error

    def hang_up(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


class BusyPublisher(EsnpPublisher):
    """hub/publish, a hundred at a time, twenty times a second at most.

    With FLAG_ASYNC: without it each publish waits for the disk, 150 times a second. A pause,
    because what receivers cannot keep up with becomes dead letters, and the hub keeps 100,000.
    """

    _at_a_time = 100
    _pause_between_s = 0.05

    def _run(self) -> None:
        number = 0
        try:
            while not self._over.is_set():
                try:
                    client = self._signed_on()
                    pieces = [
                        Piece(self.name, number + each, topic=self._topics[each % 2])
                        for each in range(self._at_a_time)
                    ]
                    number += len(pieces)
                    self._publish_all(client, pieces)
                    self._over.wait(self._pause_between_s)
                except _GONE:
                    self.hang_up()
                    self._over.wait(0.02)
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            self.hang_up()

    def _publish_all(self, client: RawEsnp, pieces: list[Piece]) -> None:
        for piece in pieces:
            self._ledger.trying(piece)
        by_number = {client.next_number(): piece for piece in pieces}
        client.line.send(
            b"".join(
                encoded(call_rows(number, "hub", "publish", self.wanted(piece), flag(ASYNC)))
                for number, piece in by_number.items()
            )
        )
        while by_number:  # answers in any order
            answer = client.answer()
            piece = by_number.pop(answer.source_id)
            if answer.error is None:
                self._ledger.confirmed(piece, str(answer.data["id"]))
