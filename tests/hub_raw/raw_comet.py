"""comet with `socket`, `struct`, `hashlib`, `hmac`, `os` and `cryptography` alone.

Written from the document (seed 004) and its settled rules, not from the project's codecs.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from tests.hub_raw.line import Line

__all__ = [
    "AUTH",
    "AUTH_SUCCESS",
    "ERROR",
    "HEARTBEAT",
    "MESSAGE",
    "MESSAGE_LIST",
    "OK",
    "TOPIC_LIST",
    "CometError",
    "Note",
    "RawComet",
    "frame",
    "notes_of",
    "text",
    "texts",
    "wrapped_secret",
]

AUTH, EXCHANGE_KEY, GET_TOPIC_LIST, SUBSCRIBE, UNSUBSCRIBE = range(5)
GET_MESSAGE_LIST, HEARTBEAT, MESSAGE_ACK, REPORT_ENVIRON = range(5, 9)
OK, ERROR, AUTH_SUCCESS, TOPIC_LIST, MESSAGE_LIST, MESSAGE = range(6)

_X25519_HEAD = bytes.fromhex("302a300506032b656e032100")


class Note(NamedTuple):
    """A notification as the wire has it."""

    type: int
    id: str
    content: bytes
    ts: int


class CometError(Exception):
    """The server said `error`."""

    def __init__(self, code: int, reason: str):
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


def frame(kind: int, body: bytes = b"") -> bytes:
    """A whole frame: length of type and body, type, body."""
    return struct.pack(">HB", len(body) + 1, kind) + body


def text(value: str | bytes) -> bytes:
    """A string or bytes field."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(data)) + data


def texts(values: list[str]) -> bytes:
    """A counted list of strings."""
    return bytes([len(values)]) + b"".join(text(value) for value in values)


def _field(body: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">H", body, at)
    end = at + 2 + size
    assert end <= len(body), "a field goes past its frame"
    return body[at + 2 : end], end


def notes_of(body: bytes, at: int, count: int) -> list[Note]:
    """Notifications that fill the rest of a body."""
    notes = []
    for _ in range(count):
        kind = body[at]
        name, at = _field(body, at + 1)
        content, at = _field(body, at)
        (ts,) = struct.unpack_from(">q", body, at)
        at += 8
        notes.append(Note(kind, name.decode(), content, ts))
    assert at == len(body), "bytes are left over"
    return notes


def _expand(key: bytes, info: bytes) -> bytes:
    return hmac.digest(key, info + b"\x01", "sha256")


def wrapped_secret(
    server_key: bytes, own: X25519PrivateKey, secret: bytes, transcript: bytes, pinned: bytes = b""
) -> bytes:
    """`secret_key` of the X25519 suite: own public key, then the secret under the wrap key."""
    assert server_key[:12] == _X25519_HEAD
    assert len(server_key) == 44
    shared = own.exchange(X25519PublicKey.from_public_bytes(server_key[12:]))
    if pinned:
        shared += own.exchange(X25519PublicKey.from_public_bytes(pinned))
    th1 = hashlib.sha256(transcript + pinned).digest()
    wrap_key = _expand(hmac.digest(th1, shared, "sha256"), b"comet/1 wrap")
    public = own.public_key().public_bytes_raw()
    return public + AESGCM(wrap_key).encrypt(bytes(12), secret, public)


class RawComet:
    """A client: one request at a time, pushes kept apart."""

    def __init__(self, line: Line):
        self.line = line
        self.pushed: list[Note] = []
        self.encrypt_key = b""
        self._transcript = b""
        self._content_key = b""
        self._counter = 0

    # -- frames ------------------------------------------------------------------------------

    def receive(self) -> tuple[int, bytes, bytes]:
        """The next frame: type, body, and the whole of it."""
        head = self.line.take(2)
        (size,) = struct.unpack(">H", head)
        data = self.line.take(size)
        return data[0], data[1:], head + data

    def reply(self) -> tuple[int, bytes, bytes]:
        """The next frame that is no push."""
        while True:
            kind, body, whole = self.receive()
            if kind != MESSAGE:
                return kind, body, whole
            self.pushed += [self._opened(note) for note in notes_of(body, 0, 1)]

    def ask(self, kind: int, body: bytes = b"") -> tuple[int, bytes, bytes]:
        """Sends a command and waits for its reply; an error is raised."""
        self.line.send(frame(kind, body))
        answer = self.reply()
        if answer[0] == ERROR:
            reason, end = _field(answer[1], 1)
            assert end == len(answer[1])
            raise CometError(answer[1][0], reason.decode())
        return answer

    def _ok(self, kind: int, body: bytes = b"") -> None:
        answer = self.ask(kind, body)
        assert answer[:2] == (OK, b""), answer

    # -- commands ----------------------------------------------------------------------------

    def auth(self, client_id: str, token: str) -> bytes:
        """Signs on; returns the key that the server offers."""
        body = text(client_id) + text(token)
        kind, answer, whole = self.ask(AUTH, body)
        assert kind == AUTH_SUCCESS
        self.encrypt_key, end = _field(answer, 0)
        assert end == len(answer)
        self._transcript = frame(AUTH, body) + whole
        return self.encrypt_key

    def exchange_key(self, pinned: bytes = b"") -> None:
        """Has contents sealed from here on."""
        secret = os.urandom(32)
        own = X25519PrivateKey.generate()
        wrapped = wrapped_secret(self.encrypt_key, own, secret, self._transcript, pinned)
        self._ok(EXCHANGE_KEY, text(wrapped))
        self.start_sealed(secret, self._transcript + frame(EXCHANGE_KEY, text(wrapped)))

    def start_sealed(self, secret: bytes, transcript: bytes) -> None:
        """Derives the key of the contents."""
        th2 = hashlib.sha256(transcript).digest()
        self._content_key = _expand(hmac.digest(th2, secret, "sha256"), b"comet/1 content s2c")

    def _opened(self, note: Note) -> Note:
        if not self._content_key:
            return note
        self._counter += 1
        counter = struct.pack(">Q", self._counter)
        assert note.content[:9] == b"\x01" + counter, "not sealed, or one is missing"
        aad = bytes([note.type]) + text(note.id) + struct.pack(">q", note.ts)
        opened = AESGCM(self._content_key).decrypt(bytes(4) + counter, note.content[9:], aad)
        return note._replace(content=opened)

    def topics(self) -> list[str]:
        """What is subscribed to."""
        kind, body, _ = self.ask(GET_TOPIC_LIST)
        assert kind == TOPIC_LIST
        names, at = [], 1
        for _ in range(body[0]):
            name, at = _field(body, at)
            names.append(name.decode())
        assert at == len(body)
        return names

    def subscribe(self, *topics: str) -> None:
        """Subscribes."""
        self._ok(SUBSCRIBE, texts(list(topics)))

    def unsubscribe(self, *topics: str) -> None:
        """Unsubscribes."""
        self._ok(UNSUBSCRIBE, texts(list(topics)))

    def messages(self) -> list[Note]:
        """One page of what waits."""
        kind, body, _ = self.ask(GET_MESSAGE_LIST)
        assert kind == MESSAGE_LIST
        return [self._opened(note) for note in notes_of(body, 1, body[0])]

    def heartbeat(self) -> None:
        """Says that it is alive."""
        self._ok(HEARTBEAT)

    def ack(self, *ids: str) -> None:
        """Acknowledges."""
        self._ok(MESSAGE_ACK, texts(list(ids)))

    def report_environ(self, network: int, isp: int, phone: str, *extra: str) -> None:
        """Tells about the device."""
        self._ok(REPORT_ENVIRON, bytes([network, isp]) + text(phone) + texts(list(extra)))

    # -- pushes ------------------------------------------------------------------------------

    def next_push(self) -> Note:
        """The next notification that is pushed."""
        while not self.pushed:
            kind, body, _ = self.receive()
            assert kind == MESSAGE, f"type {kind} was not asked for"
            self.pushed += [self._opened(note) for note in notes_of(body, 0, 1)]
        return self.pushed.pop(0)

    def close(self) -> None:
        """Hangs up."""
        self.line.close()
