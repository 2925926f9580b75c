"""Connections to PostgreSQL: addresses, settings of a session, timeouts, errors, arrays.

Nothing waits for ever. The server ends a statement after `STATEMENT_S`, and the connection of a hub
that has vanished in the middle of a transaction. The client notices a server that has vanished by
TCP (keepalive, `tcp_user_timeout`), and gives up after `CALL_S` on one that is connected and does
not answer, such as a process that was stopped.

A password is never part of an error. The driver's own errors do not contain it, but for an address
that it cannot parse: its text is not used then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Sequence
from struct import pack
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrBinaryDumper

from ..errors import HubError
from .addresses import shown
from .interface import StoreError

__all__ = [
    "CALL_S",
    "CHANNEL",
    "CONNECT_S",
    "SCHEMA",
    "STATEMENT_S",
    "Address",
    "Blobs",
    "Connection",
    "Flags",
    "Numbers",
    "Session",
    "Texts",
    "connect",
    "failure",
    "first_line",
    "message",
    "parse_address",
]

SCHEMA: Final = "wirelake"
"""The schema of all tables."""
CHANNEL: Final = "wirelake"
"""The channel of messages between hubs."""
CONNECT_S: Final = 5
"""Maximum time to connect to one host; the next one is tried then. At least 2 (libpq)."""
STATEMENT_S: Final = 30.0
"""Maximum duration of a statement, on the server. Statements of a hub take milliseconds; one that
waits for a lock of a backup or of an upgrade takes longer."""
CALL_S: Final = 60.0
"""Maximum time without an answer, after which a connection is given up."""
_VANISHED_S: Final = 20
"""Silence after which a peer counts as gone: idle time, then probes."""
_SQL_FULL: Final = "53100"
_MIN_SERVER: Final = 140_000
"""PostgreSQL 14: the oldest that is maintained, and the first that notices clients that are gone
while it executes a statement."""

_LIBPQ_DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "wirelake",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": _VANISHED_S * 1000,
    # Of several hosts, the one that accepts writes: after a failover that is another one.
    "target_session_attrs": "read-write",
}
"""Parameters of connections; those in the address win."""

# The hub counts and logs failures itself (`failures.py`), once a minute.
logging.getLogger("psycopg").setLevel(logging.ERROR)


class Session(NamedTuple):
    """How a connection is used."""

    statement_s: float = STATEMENT_S
    """0: no limit, for upgrades and copies."""
    call_s: float = CALL_S
    read_only: bool = False


class Address:
    """The address of a database, and its secrets."""

    def __init__(self, url: str, parameters: dict[str, Any]):
        self.shown = shown(url)
        """The address without its password."""
        self.parameters = parameters
        """Parameters of libpq."""
        self.secrets = [
            str(value) for key, value in parameters.items() if "password" in key and value
        ]
        """What no text may contain."""


def parse_address(url: str) -> Address:
    """Parse a URL; StoreError when it is invalid."""
    try:
        parameters = dict(conninfo_to_dict(url))
    except psycopg.Error:
        parameters = {}
    # A database with an & is a mistake for a ?, and what follows may be a password.
    if not parameters or "&" in str(parameters.get("dbname", "")):
        # Without the text of libpq, and without the error as context: it quotes what it could not
        # parse, which may be half of a password.
        raise StoreError(
            f"{shown(url)}: invalid address; expected postgresql://USER@HOST:PORT/DATABASE, with"
            " percent-encoding for special characters (a password with @ has %40)"
        )
    return Address(url, parameters)


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up when the server does not answer."""

    call_s = CALL_S

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Wait for an answer, at most `call_s` without one."""
        return super().wait(self._limited(gen), *args, **kwargs)

    def _limited(self, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        # The driver resumes `waiting` when the socket is ready, and every tenth of a second.
        until = time.monotonic() + self.call_s
        try:
            event = next(waiting)
            while True:
                ready = yield event
                if ready:
                    until = time.monotonic() + self.call_s
                elif time.monotonic() > until:
                    waiting.close()
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"the server is connected, and has not answered for {self.call_s:g} s"
                    )
                event = waiting.send(ready)
        except StopIteration as end:
            return end.value


def connect(address: Address, session: Session) -> Connection:
    """Connect and set up a session; raises psycopg.Error or StoreError."""
    parameters = {**_LIBPQ_DEFAULTS, **address.parameters}
    connection = Connection.connect(**parameters, autocommit=True, client_encoding="utf8")
    connection.call_s = session.call_s
    try:
        server = connection.info.server_version
        if server < _MIN_SERVER:
            raise StoreError(
                f"{address.shown}: PostgreSQL {server // 10_000} is too old; upgrade it to 14 or"
                " newer"
            )
        if connection.info.parameter_status("server_encoding") != "UTF8":
            raise StoreError(
                f"{address.shown}: the encoding of the database is not UTF8; create it with"
                " CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'"
            )
        _set_up(connection, session)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: Connection, session: Session) -> None:
    settings = {
        "search_path": SCHEMA,
        "statement_timeout": f"{session.statement_s * 1000:.0f}",
        # A hub that has vanished must not keep the lock of the log.
        "idle_in_transaction_session_timeout": f"{CALL_S * 1000:.0f}",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "2",
        "tcp_user_timeout": f"{_VANISHED_S * 1000}",
        "client_connection_check_interval": "5000",
        # A publish is confirmed after the commit: whatever the default of the server is.
        "synchronous_commit": "on",
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "on" if session.read_only else "off",
        "jit": "off",  # compiling takes longer than these statements
        # Each statement finds few rows by an index. On a table without statistics the planner
        # would read all of it instead, and a prepared statement would keep that plan while the
        # table grows: a new hub may store a million rows before the first ANALYZE.
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
    }
    values = list(settings.items())
    connection.execute(
        "SELECT " + ", ".join(["set_config(%s, %s, false)"] * len(values)),
        [part for pair in values for part in pair],
    )
    for kind, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(kind, dumper)
    connection.prepare_threshold = None  # statements say themselves whether they are prepared
    connection.prepared_max = 500


def failure(error: BaseException) -> HubError:
    """Return the error of the hub for one of the driver."""
    if isinstance(error, HubError):
        return error
    full = getattr(error, "sqlstate", None) == _SQL_FULL
    return HubError("storage_full" if full else "storage_failed")


def first_line(error: BaseException, secrets: Iterable[str]) -> str:
    """Return the text of an error of the driver in one line, without secrets."""
    text = str(error)
    # With several hosts: a line per attempt, which begins with a dash.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    attempts = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    text = "; ".join(attempts) if attempts else lines[0] if lines else type(error).__name__
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def message(epoch: int, *words: object) -> str:
    """Return a message to other hubs: the epoch of the sender, and words."""
    return " ".join(map(str, (epoch, *words)))


# -- arrays ----------------------------------------------------------------------------------------

# Parameters are arrays of a thousand values. The driver's own dumper inspects every value to find
# a common type; these know it, which is five times as fast, and every statement has one type.


class _Values:
    """An array parameter."""

    __slots__ = ("values",)

    def __init__(self, values: Iterable[Any]):
        self.values: Sequence[Any] = values if isinstance(values, list) else list(values)


class Numbers(_Values):
    """A parameter of type int8[]."""


class Texts(_Values):
    """A parameter of type text[], with NULL for None."""


class Blobs(_Values):
    """A parameter of type bytea[]."""


class Flags(_Values):
    """A parameter of type bool[]."""


_NULL: Final = pack("!i", -1)


def _array(oid: int, count: int, body: bytes) -> bytes:
    return pack("!iiI", 0, 0, oid) if not count else pack("!iiIii", 1, 1, oid, count, 1) + body


class _NumbersDumper(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: Numbers) -> Buffer:
        count = len(obj.values)
        fields: list[int] = [8] * (2 * count)
        fields[1::2] = obj.values
        return _array(20, count, pack("!" + "iq" * count, *fields))


class _TextsDumper(Dumper):
    format = Format.BINARY
    oid = 1009

    def dump(self, obj: Texts) -> Buffer:
        parts: list[bytes] = []
        for value in obj.values:
            if value is None:
                parts.append(_NULL)
            else:
                data = value.encode()
                parts += (pack("!i", len(data)), data)
        return _array(25, len(obj.values), b"".join(parts))


class _BlobsDumper(Dumper):
    format = Format.BINARY
    oid = 1001

    def dump(self, obj: Blobs) -> Buffer:
        parts: list[bytes] = []
        for value in obj.values:
            parts += (pack("!i", len(value)), value)
        return _array(17, len(obj.values), b"".join(parts))


class _FlagsDumper(Dumper):
    format = Format.BINARY
    oid = 1000

    def dump(self, obj: Flags) -> Buffer:
        body = b"".join(b"\0\0\0\1" + (b"\1" if value else b"\0") for value in obj.values)
        return _array(16, len(obj.values), body)


_DUMPERS: Final[dict[type, type[Dumper]]] = {
    int: Int8BinaryDumper,
    str: StrBinaryDumper,
    Numbers: _NumbersDumper,
    Texts: _TextsDumper,
    Blobs: _BlobsDumper,
    Flags: _FlagsDumper,
}
