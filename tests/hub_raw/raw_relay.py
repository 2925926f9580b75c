"""The gateway's end of a tny relay link, with `socket` and `struct` alone.

A link carries tunnels; each tunnel speaks Messages (`raw_tny.py`) without packets of their own.
"""

from __future__ import annotations

import json
import struct
import time
from typing import Any, NamedTuple

from tests.hub_raw.line import Line
from tests.hub_raw.raw_tny import PUSH, REQUEST, TnyMessage, message_bytes, read_message, varint

__all__ = [
    "LINK_CLOSE",
    "LINK_OPEN",
    "LINK_OPENED",
    "LINK_PING",
    "LINK_PONG",
    "TUNNEL_CONNECT",
    "TUNNEL_CONNECTED",
    "TUNNEL_DISCONNECT",
    "TUNNEL_RELAY",
    "TUNNEL_SWITCH_LINK",
    "RawLink",
    "RawTunnel",
    "RelayPack",
    "fields",
    "fixed64",
    "pack",
]

LINK_OPEN, LINK_OPENED, LINK_CLOSE, LINK_PING, LINK_PONG = 0x01, 0x02, 0x03, 0x05, 0x06
TUNNEL_CONNECT, TUNNEL_CONNECTED, TUNNEL_DISCONNECT = 0x11, 0x12, 0x13
TUNNEL_SWITCH_LINK, TUNNEL_RELAY = 0x14, 0x15


class RelayPack(NamedTuple):
    """One packet of a link."""

    id: int
    kind: int
    time_ms: int
    arguments: bytes


def pack(number: int, kind: int, time_ms: int, arguments: bytes = b"") -> bytes:
    """A whole packet."""
    rest = struct.pack("<iBq", number, kind, time_ms) + arguments
    return b"rpk" + struct.pack("<i", len(rest)) + rest


def fixed64(field: int, value: int) -> bytes:
    """A protobuf field of eight bytes."""
    return bytes([field << 3 | 1]) + struct.pack("<q", value)


def _bytes_field(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + varint(len(value)) + value


def _int_field(field: int, value: int) -> bytes:
    return bytes([field << 3]) + varint(value)


def fields(arguments: bytes) -> dict[int, Any]:
    """Protobuf fields by number."""
    found: dict[int, Any] = {}
    at = 0
    while at < len(arguments):
        tag = arguments[at]
        at += 1
        if tag & 7 == 1:
            (found[tag >> 3],) = struct.unpack_from("<q", arguments, at)
            at += 8
            continue
        value = shift = 0
        while True:
            byte = arguments[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if tag & 7 == 2:
            found[tag >> 3] = arguments[at : at + value]
            at += value
        else:
            assert tag & 7 == 0
            found[tag >> 3] = value
    return found


class RawLink:
    """A gateway's link to a backend."""

    def __init__(self, line: Line, instance: int = 11):
        self.line = line
        self.instance = instance
        self._number = 0

    def send(self, kind: int, arguments: bytes = b"") -> None:
        """Sends a packet."""
        self._number += 1
        self.line.send(pack(self._number, kind, int(time.time() * 1000), arguments))

    def receive(self) -> RelayPack:
        """The next packet."""
        assert self.line.take(3) == b"rpk"
        (size,) = struct.unpack("<i", self.line.take(4))
        data = self.line.take(size)
        number, kind, time_ms = struct.unpack_from("<iBq", data)
        return RelayPack(number, kind, time_ms, data[13:])

    def open(self, service: str = "game", key: str = "a throw-away key") -> bool:
        """Says who it is; whether the backend takes it."""
        named = _bytes_field(1, service.encode()) + fixed64(2, self.instance)
        self.send(LINK_OPEN, named + _bytes_field(3, key.encode()))
        answer = self.receive()
        assert answer.kind == LINK_OPENED
        return bool(fields(answer.arguments).get(1, 0))

    def ping(self) -> None:
        """Sends a heartbeat and waits for its answer."""
        self.send(LINK_PING)
        assert self.receive()[1:2] == (LINK_PONG,)

    def ids(self, tunnel: int) -> bytes:
        """Which tunnel is meant."""
        return fixed64(1, self.instance) + fixed64(2, tunnel)

    def tunnel(self, number: int, ip: bytes = bytes([127, 0, 0, 1]), port: int = 8080) -> RawTunnel:
        """Opens a tunnel and waits until the backend has it."""
        arguments = self.ids(number) + _bytes_field(10, ip) + _int_field(11, port)
        self.send(TUNNEL_CONNECT, arguments)
        answer = self.receive()
        assert answer.kind == TUNNEL_CONNECTED, answer
        assert fields(answer.arguments) == {1: self.instance, 2: number, 10: 1}
        return RawTunnel(self, number)

    def close(self) -> None:
        """Hangs up."""
        self.line.close()


class RawTunnel:
    """One client's connection inside a link."""

    def __init__(self, link: RawLink, number: int):
        self.link = link
        self.number = number
        self.pushes: list[TnyMessage] = []
        self._message = 0

    def switch(self, link: RawLink) -> None:
        """Goes on over another link."""
        self.link = link
        link.send(TUNNEL_SWITCH_LINK, link.ids(self.number))

    def send(self, message: TnyMessage) -> None:
        """Sends a Message through the tunnel."""
        ids = struct.pack("<qq", self.link.instance, self.number)
        self.link.send(TUNNEL_RELAY, ids + message_bytes(message))

    def receive(self) -> TnyMessage:
        """The next Message of this tunnel; nothing else may come."""
        got = self.link.receive()
        assert got.kind == TUNNEL_RELAY, got
        assert struct.unpack_from("<qq", got.arguments) == (self.link.instance, self.number)
        return read_message(got.arguments[16:])

    def ask(self, protocol: int, body: bytes) -> TnyMessage:
        """Asks; the answer, whatever its code."""
        self._message += 1
        now = int(time.time() * 1000)
        self.send(TnyMessage(self._message, REQUEST, protocol, 100, 0, now, body))
        while (answer := self.receive()).mode == PUSH:
            self.pushes.append(answer)
        assert answer.to == self._message
        return answer

    def call(self, protocol: int, **values: Any) -> Any:
        """Asks with JSON, and reads JSON."""
        answer = self.ask(protocol, json.dumps(values).encode())
        assert answer.code == 100, answer
        return json.loads(answer.body) if answer.body else None

    def next_push(self) -> TnyMessage:
        """The next push."""
        while not self.pushes:
            got = self.receive()
            assert got.mode == PUSH
            self.pushes.append(got)
        return self.pushes.pop(0)

    def disconnect(self) -> None:
        """Ends the tunnel."""
        self.link.send(TUNNEL_DISCONNECT, self.link.ids(self.number))
