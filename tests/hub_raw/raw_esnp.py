"""ESNP with `socket` and `struct` alone, from its two documents (seeds 000 and 001).

A message is a list of rows `(type, body)`; helpers build and read the bodies.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from tests.hub_raw.line import Line

__all__ = [
    "ADDRESS",
    "ASYNC",
    "DATA",
    "ERROR",
    "EVENT",
    "FLAG",
    "INFO",
    "MESSAGE_ID",
    "OP",
    "PAYLOAD",
    "REQUEST",
    "RESP",
    "SEQ_NO",
    "SERVICE",
    "SESSION_INFO",
    "SOURCE_ADDRESS",
    "SOURCE_MESSAGE_ID",
    "TRACE",
    "TRACE_INFO",
    "EsnpError",
    "Message",
    "RawEsnp",
    "address",
    "call_rows",
    "data",
    "encoded",
    "flag",
    "message_id",
    "seq",
    "signed",
    "unsigned",
    "var",
]

SESSION_INFO, MESSAGE_ID, SOURCE_MESSAGE_ID = 0x10, 0x11, 0x12
HEADER, DATA, PAYLOAD, ADDRESS, SOURCE_ADDRESS = 0x14, 0x15, 0x16, 0x17, 0x18
SEQ_NO, ERROR, FLAG = 0x1B, 0x1D, 0x1E
TRACE, TRACE_INFO, RESP, REQUEST, INFO, EVENT, ASYNC = range(1, 8)
SERVICE, OP = 30, 20
_HEAD_ROWS = {MESSAGE_ID, SOURCE_MESSAGE_ID, ADDRESS, SOURCE_ADDRESS, SEQ_NO, ERROR, FLAG, 0x1F}

Row = tuple[int, bytes]


class EsnpError(Exception):
    """The answer carries ERROR."""


# -- values ------------------------------------------------------------------------------------


def unsigned(value: int) -> bytes:
    """UInt: seven bits a byte, low ones first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """Int: doubled, and inverted below zero."""
    return unsigned(value << 1 if value >= 0 else ~(value << 1))


def _read_unsigned(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _read_signed(body: bytes, at: int) -> tuple[int, int]:
    value, at = _read_unsigned(body, at)
    return (~(value >> 1) if value & 1 else value >> 1), at


def _string(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return signed(len(data)) + data


def _read_string(body: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_signed(body, at)
    assert 0 <= size <= len(body) - at
    return body[at : at + size], at + size


def var(value: Any) -> bytes:
    """A value with its type in front."""
    if value is None:
        return b"\x00"
    if isinstance(value, bool):
        return bytes([1, value])
    if isinstance(value, int):
        return (b"\x05" if -(1 << 31) <= value < 1 << 31 else b"\x06") + signed(value)
    if isinstance(value, float):
        return b"\x0e" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return b"\x11" + _string(value)
    if isinstance(value, str):
        return b"\x18" + _string(value)
    if isinstance(value, dict):
        pairs = b"".join(_string(name) + var(each) for name, each in value.items())
        return b"\x15" + signed(len(value)) + pairs
    return b"\x17" + signed(len(value)) + b"".join(var(each) for each in value)


_SIGNED_VARS = {2, 4, 5, 6}
_UNSIGNED_VARS = {7, 9, 10, 11}


def _read_var(body: bytes, at: int) -> tuple[Any, int]:
    kind = body[at]
    at += 1
    if kind == 0:
        return None, at
    if kind in (1, 3, 8):
        byte = body[at]
        return (bool(byte) if kind == 1 else byte - 256 * (kind == 3 and byte > 127)), at + 1
    if kind in _SIGNED_VARS:
        return _read_signed(body, at)
    if kind in _UNSIGNED_VARS:
        return _read_unsigned(body, at)
    if kind in (13, 14):
        size, form = (4, ">f") if kind == 13 else (8, ">d")
        return struct.unpack_from(form, body, at)[0], at + size
    if kind in (17, 24):
        data, at = _read_string(body, at)
        return (data if kind == 17 else data.decode()), at
    return _read_container(kind, body, at)


def _read_container(kind: int, body: bytes, at: int) -> tuple[Any, int]:
    count, at = _read_signed(body, at)
    if kind == 23:
        items = []
        for _ in range(count):
            item, at = _read_var(body, at)
            items.append(item)
        return items, at
    assert kind == 21, f"type {kind}"
    pairs = {}
    for _ in range(count):
        name, at = _read_string(body, at)
        pairs[name.decode()], at = _read_var(body, at)
    return pairs, at


# -- rows --------------------------------------------------------------------------------------


def flag(value: int) -> Row:
    """FLAG."""
    return FLAG, signed(value)


def message_id(value: int) -> Row:
    """MESSAGE_ID."""
    return MESSAGE_ID, struct.pack(">Q", value)


def address(kind: int, value: str) -> Row:
    """ADDRESS of one kind."""
    return ADDRESS, signed(kind) + _string(value)


def data(name: str, value: Any, row: int = DATA) -> Row:
    """DATA, or another row of a name and a value."""
    return row, _string(name) + var(value)


def seq(current: int, last: int) -> Row:
    """SEQ_NO."""
    return SEQ_NO, signed(current) + signed(last)


def encoded(rows: list[Row]) -> bytes:
    """Rows and the end row."""
    parts = [bytes([kind]) + len(body).to_bytes(3, "big") + body for kind, body in rows]
    return b"".join(parts) + bytes(4)


def call_rows(number: int, service: str, op: str, values: dict[str, Any], *more: Row) -> list[Row]:
    """A request: head rows, then what is to be told."""
    rows = [flag(REQUEST), message_id(number), address(SERVICE, service), address(OP, op)]
    head = [row for row in more if row[0] in _HEAD_ROWS]
    body = [row for row in more if row[0] not in _HEAD_ROWS]
    return [*rows, *head, *(data(name, value) for name, value in values.items()), *body]


class Message(NamedTuple):
    """A message that was read."""

    rows: list[Row]

    def all(self, kind: int) -> list[bytes]:
        """Bodies of one type of row."""
        return [body for row, body in self.rows if row == kind]

    @property
    def flags(self) -> set[int]:
        """Its flags."""
        return {_read_signed(body, 0)[0] for body in self.all(FLAG)}

    @property
    def source_id(self) -> int | None:
        """Which message is answered."""
        bodies = self.all(SOURCE_MESSAGE_ID)
        return struct.unpack(">Q", bodies[0])[0] if bodies else None

    @property
    def data(self) -> dict[str, Any]:
        """DATA rows by name."""
        return self.named(DATA)

    def named(self, kind: int) -> dict[str, Any]:
        """Rows of a name and a value, by name."""
        values = {}
        for body in self.all(kind):
            name, at = _read_string(body, 0)
            values[name.decode()], end = _read_var(body, at)
            assert end == len(body)
        return values

    @property
    def addresses(self) -> dict[int, str]:
        """ADDRESS rows by kind."""
        found = {}
        for body in self.all(ADDRESS):
            kind, at = _read_signed(body, 0)
            found[kind] = _read_string(body, at)[0].decode()
        return found

    @property
    def seq(self) -> tuple[int, int] | None:
        """SEQ_NO."""
        bodies = self.all(SEQ_NO)
        if not bodies:
            return None
        current, at = _read_signed(bodies[0], 0)
        return current, _read_signed(bodies[0], at)[0]

    @property
    def error(self) -> str | None:
        """ERROR; None when there is none."""
        bodies = self.all(ERROR)
        return bodies[0].decode() if bodies else None

    @property
    def ordered(self) -> bool:
        """Whether head rows come before body rows."""
        heads = [kind in _HEAD_ROWS for kind, _ in self.rows]
        return heads == sorted(heads, reverse=True)


class RawEsnp:
    """A client: events are kept apart from answers."""

    def __init__(self, line: Line):
        self.line = line
        self.events: list[Message] = []
        self._number = 0

    def send(self, rows: list[Row]) -> None:
        """Sends a message."""
        self.line.send(encoded(rows))

    def receive(self) -> Message:
        """The next message."""
        rows: list[Row] = []
        while True:
            head = self.line.take(4)
            size = int.from_bytes(head[1:], "big")
            if head[0] == 0:
                assert size == 0
                return Message(rows)
            rows.append((head[0], self.line.take(size)))

    def next_number(self) -> int:
        """A message id that was not used yet."""
        self._number += 1
        return self._number

    def answer(self, number: int | None = None) -> Message:
        """The next message that is no event."""
        while True:
            message = self.receive()
            if EVENT in message.flags:
                self.events.append(message)
                continue
            assert number is None or message.source_id == number
            return message

    def call(self, service: str, op: str, values: dict[str, Any] | None = None) -> dict[str, Any]:
        """Asks and returns the DATA of the answer; ERROR is raised."""
        return self.ask(service, op, values or {}).data

    def ask(self, service: str, op: str, values: dict[str, Any], *more: Row) -> Message:
        """Asks and returns the answer."""
        number = self.next_number()
        self.send(call_rows(number, service, op, values, *more))
        message = self.answer(number)
        if message.error is not None:
            raise EsnpError(message.error)
        return message

    def next_event(self) -> Message:
        """The next event."""
        while not self.events:
            message = self.receive()
            assert EVENT in message.flags, message
            self.events.append(message)
        return self.events.pop(0)

    def close(self) -> None:
        """Hangs up."""
        self.line.close()
