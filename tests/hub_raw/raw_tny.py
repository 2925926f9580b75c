"""tny with `socket` and `struct` alone, from its document (seed 002) and settled rules.

Dialect `seed`: a tick has nine bytes; `upstream`: five.
"""

from __future__ import annotations

import json
import struct
import time
from typing import Any, NamedTuple

from tests.hub_raw.line import Line

__all__ = [
    "PUSH",
    "REQUEST",
    "RESPONSE",
    "RawTny",
    "Tick",
    "TnyError",
    "TnyMessage",
    "message_bytes",
    "packet",
    "read_message",
    "tick",
    "varint",
]

REQUEST, RESPONSE, PUSH = range(3)
PING, PONG = 1, 2
_BODY, _HEADER = 0x04, 0x40


class TnyError(Exception):
    """The answer's code is not 100."""

    def __init__(self, code: int, body: bytes):
        super().__init__(code, body)
        self.code = code


class TnyMessage(NamedTuple):
    """One Message."""

    id: int
    mode: int
    protocol: int
    code: int = 100
    to: int = 0
    time_ms: int = 0
    body: bytes | None = None
    line: int = 0
    header: bytes | None = None


class Tick(NamedTuple):
    """A ping or a pong."""

    kind: int


def varint(value: int, bits: int = 64) -> bytes:
    """LEB128 of the value taken as unsigned."""
    value &= (1 << bits) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int, bits: int = 64) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return (value - (1 << bits) if value >> (bits - 1) else value), at


def message_bytes(message: TnyMessage) -> bytes:
    """The Message, as it stands in packets and in tunnels."""
    option = message.mode | message.line << 3
    option |= _BODY * (message.body is not None) | _HEADER * (message.header is not None)
    parts = [varint(message.id), bytes([option]), varint(message.protocol, 32)]
    parts += [varint(message.code, 32), varint(message.to), varint(message.time_ms)]
    for field in (message.header, message.body):
        if field is not None:
            parts += [varint(len(field), 32), field]
    return b"".join(parts)


def read_message(data: bytes) -> TnyMessage:
    """A Message that fills the bytes."""
    number, at = _read_varint(data, 0)
    option = data[at]
    protocol, at = _read_varint(data, at + 1, 32)
    code, at = _read_varint(data, at, 32)
    to, at = _read_varint(data, at)
    time_ms, at = _read_varint(data, at)
    fields: list[bytes | None] = []
    for bit in (_HEADER, _BODY):
        if not option & bit:
            fields.append(None)
            continue
        size, at = _read_varint(data, at, 32)
        fields.append(data[at : at + size])
        at += size
    assert at == len(data), "a Message has bytes left over, or too few"
    line = option >> 3 & 7
    return TnyMessage(number, option & 3, protocol, code, to, time_ms, fields[1], line, fields[0])


def packet(access: int, number: int, message: bytes) -> bytes:
    """A message packet, no options."""
    payload = varint(access) + varint(number, 32) + message
    return b"tny.\x00" + struct.pack("<i", len(payload)) + payload


def tick(kind: int, dialect: str) -> bytes:
    """A ping or a pong."""
    return b"tny." + bytes([kind]) + (bytes(4) if dialect == "seed" else b"")


class RawTny:
    """A client: pushes are kept apart from answers."""

    def __init__(self, line: Line, dialect: str = "seed", access: int = 7):
        self.line = line
        self.dialect = dialect
        self.access = access
        self.pushes: list[TnyMessage] = []
        self._number = 0
        self._heard = 0
        self._message = 0

    def send(self, message: TnyMessage) -> None:
        """Sends a message in a packet of its own."""
        self._number += 1
        self.line.send(packet(self.access, self._number, message_bytes(message)))

    def receive(self) -> TnyMessage | Tick:
        """The next packet."""
        head = self.line.take(5)
        assert head[:4] == b"tny.", head
        kind = head[4]
        if kind in (PING, PONG) and self.dialect != "seed":
            return Tick(kind)
        (size,) = struct.unpack("<i", self.line.take(4))
        payload = self.line.take(size)
        if kind in (PING, PONG):
            assert size == 0
            return Tick(kind)
        assert kind == 0, f"options {kind:#x}"
        access, at = _read_varint(payload, 0)
        number, at = _read_varint(payload, at, 32)
        assert access == self.access
        assert number == self._heard + 1
        self._heard = number
        return read_message(payload[at:])

    def request(self, protocol: int, body: bytes | None, line: int = 0) -> int:
        """Sends a request; its message id."""
        self._message += 1
        now = int(time.time() * 1000)
        self.send(TnyMessage(self._message, REQUEST, protocol, 100, 0, now, body, line))
        return self._message

    def answer(self, number: int) -> TnyMessage:
        """The answer to a request; pushes before it are kept."""
        while True:
            got = self.receive()
            if isinstance(got, Tick):
                continue
            if got.mode == PUSH:
                self.pushes.append(got)
                continue
            assert got.mode == RESPONSE
            assert got.to == number
            return got

    def call(self, protocol: int, body: bytes | None) -> bytes | None:
        """Asks; the body of the answer."""
        answer = self.answer(self.request(protocol, body))
        if answer.code != 100:
            raise TnyError(answer.code, answer.body or b"")
        return answer.body

    def ask(self, protocol: int, **values: Any) -> Any:
        """Asks with JSON, and reads JSON."""
        body = self.call(protocol, json.dumps(values).encode())
        return json.loads(body) if body else None

    def ping(self) -> None:
        """Sends a ping and waits for the pong."""
        self.line.send(tick(PING, self.dialect))
        got = self.receive()
        while isinstance(got, TnyMessage):
            assert got.mode == PUSH
            self.pushes.append(got)
            got = self.receive()
        assert got.kind == PONG

    def next_push(self) -> TnyMessage:
        """The next push."""
        while not self.pushes:
            got = self.receive()
            assert isinstance(got, TnyMessage)
            assert got.mode == PUSH
            self.pushes.append(got)
        return self.pushes.pop(0)

    def close(self) -> None:
        """Hangs up."""
        self.line.close()
