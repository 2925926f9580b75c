"""What makes several hubs on one database a cluster: leases, and messages between them.

A hub registers and gets a number, which no other running hub has, and an epoch, which no other hub
ever has. It renews its lease every `RENEW_S`. What it writes about clients carries its epoch, and
the database takes it only while the lease is valid, by the clock of the server. A hub that was
paused or cut off for longer than its lease finds that out with the next renewal: it registers
again, with another epoch, and has no clients.

Messages are notifications of PostgreSQL: a wake-up when something was appended to the log, and what
concerns clients of other hubs. A message may be lost with the connection. So after a gap a hub
reads the log and its claims again, and it reads the log with each renewal in any case.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import psycopg

from .interface import StoreError
from .postgres_connection import (
    CHANNEL,
    Address,
    Connection,
    Session,
    connect,
    first_line,
    message,
    parse_address,
)
from .postgres_schema import lock_hubs

__all__ = ["LEASE_S", "RENEW_S", "Lease", "Membership"]

_log = logging.getLogger(__name__)

LEASE_S: Final = 10.0
"""How long a hub counts as running after its last renewal."""
RENEW_S: Final = 2.0
_BACKOFF_S: Final = 0.5
_NUMBERS: Final = 255
"""Hubs at most: the number is a byte of every id."""
_JOIN_S: Final = 30.0
"""How long a hub waits at its start for a number."""

_FREE_NUMBER: Final = """
    SELECT number FROM generate_series(1, %s) AS number WHERE NOT EXISTS (
        SELECT 1 FROM hubs WHERE hubs.number = number.number AND until > clock_timestamp())
    ORDER BY number LIMIT 1
"""
_JOIN: Final = """
    INSERT INTO hubs (number, epoch, name, until)
    VALUES (%s, %s, %s, clock_timestamp() + %s * interval '1 second')
    ON CONFLICT (number) DO UPDATE
    SET epoch = excluded.epoch, name = excluded.name, until = excluded.until
"""
_RENEW: Final = """
    UPDATE hubs SET until = clock_timestamp() + %s * interval '1 second' WHERE epoch = %s
    RETURNING number <= coalesce(
            (SELECT min(number) FROM hubs WHERE until > clock_timestamp()), number),
        (SELECT count(*) FROM hubs WHERE until > clock_timestamp() AND epoch <> %s)
"""
_FORGET: Final = """
    DELETE FROM claims WHERE epoch NOT IN (
        SELECT epoch FROM hubs WHERE until > clock_timestamp() - %s * interval '1 second')
"""


class Lease(NamedTuple):
    """The place of a hub in the cluster."""

    number: int
    epoch: int
    until: float
    """Until when it is valid, by `time.monotonic`."""
    leads: bool
    """Whether this hub does what only one has to do: cleanup."""
    others: int
    """How many other hubs there are."""


class Membership:
    """The lease of one hub, and its connection for messages, in a thread."""

    def __init__(
        self,
        url: str,
        name: str,
        renewed: Callable[[Lease, bool], None],
        received: Callable[[list[str]], None],
    ):
        """Register; StoreError when that fails.

        `renewed` is called in the thread after each renewal, with whether messages may have been
        lost before it; `received` with the words of each message of another hub.
        """
        self._address: Address = parse_address(url)
        self._name = name
        self._renewed = renewed
        self._received = received
        self._ended = threading.Event()
        self._connection: Connection | None = None
        try:
            self._connection = self._open()
            self.lease = self._join(self._connection)
        except psycopg.Error as error:
            text = first_line(error, self._address.secrets)
            raise StoreError(f"{self._address.shown}: {text}") from error
        self._thread = threading.Thread(target=self._run, name="hub lease", daemon=True)

    def start(self) -> None:
        """Renew the lease, and receive messages, from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Give the lease and all claims up."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        connection, epoch = self._connection, self.lease.epoch
        if connection is not None:
            with suppress(psycopg.Error):
                connection.execute("DELETE FROM claims WHERE epoch = %s", (epoch,))
                connection.execute("DELETE FROM hubs WHERE epoch = %s", (epoch,))
            connection.close()

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        gap = False
        while not self._ended.is_set():
            try:
                if self._connection is None:
                    gap = True
                    self._connection = self._open()
                self._renew(self._connection, gap)
                gap = False
                self._receive(self._connection)
            except (psycopg.Error, StoreError) as error:
                _log.warning("cannot renew the lease: %s", first_line(error, self._address.secrets))
                if self._connection is not None:
                    with suppress(psycopg.Error):
                        self._connection.close()
                    self._connection = None
                self._ended.wait(_BACKOFF_S)

    def _open(self) -> Connection:
        connection = connect(self._address, Session())
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _join(self, connection: Connection) -> Lease:
        deadline = time.monotonic() + _JOIN_S
        while True:
            began = time.monotonic()
            with connection.transaction():
                lock_hubs(connection)
                found = connection.execute(_FREE_NUMBER, (_NUMBERS,)).fetchone()
                if found is not None:
                    number = int(found[0])
                    epoch = self._next_epoch(connection)
                    connection.execute(_JOIN, (number, epoch, self._name, LEASE_S))
                    # Hubs that are alone send nothing to others until they hear of one.
                    connection.execute(
                        "SELECT pg_notify(%s, %s)", (CHANNEL, message(epoch, "joined"))
                    )
                    # Whether there are others is known with the first renewal.
                    return Lease(number, epoch, began + LEASE_S, leads=False, others=1)
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self._address.shown}: {_NUMBERS} hubs use this database, which is the"
                    " maximum; stop one"
                )
            self._ended.wait(_BACKOFF_S)

    def _next_epoch(self, connection: Connection) -> int:
        row = connection.execute("UPDATE log_tail SET epoch = epoch + 1 RETURNING epoch").fetchone()
        assert row is not None
        return int(row[0])

    def _renew(self, connection: Connection, gap: bool) -> None:
        began = time.monotonic()
        epoch = self.lease.epoch
        row = connection.execute(_RENEW, (LEASE_S, epoch, epoch)).fetchone()
        if row is None:  # another hub has its number
            self.lease = self._join(connection)
        else:
            leads, others = row
            self.lease = self.lease._replace(until=began + LEASE_S, leads=leads, others=others)
            if leads:
                connection.execute(_FORGET, (LEASE_S,))
        self._renewed(self.lease, gap)

    def _receive(self, connection: Connection) -> None:
        """Pass messages on until the next renewal."""
        until = time.monotonic() + RENEW_S
        while (left := until - time.monotonic()) > 0 and not self._ended.is_set():
            # In short waits, so that `stop` need not wait long.
            for each in connection.notifies(timeout=min(left, _BACKOFF_S), stop_after=1):
                sender, *words = each.payload.split()
                if sender != str(self.lease.epoch):
                    self._received(words)
