"""Small servers for comet and ESNP without the project's codecs: the other role of the flows."""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from tests.hub_raw import raw_comet as comet
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw.line import EndedError, Line

__all__ = ["RawCometServer", "RawEsnpServer", "listening"]


@contextmanager
def listening(serve: Callable[[Line], None]) -> Iterator[tuple[str, int]]:
    """Serves connections one after the other on a free port; what goes wrong is raised."""
    broken: list[BaseException] = []
    lines: list[Line] = []
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                line = Line(server.accept()[0])
            except OSError:
                return  # closed: the test is over
            lines.append(line)
            try:
                serve(line)
            except (EndedError, OSError):
                pass
            except BaseException as error:
                broken.append(error)
            line.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[:2]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for line in lines:
            line.close()
        thread.join(20)
    if broken:
        raise broken[0]


class RawCometServer:
    """Knows one client; keeps what it has not acknowledged."""

    def __init__(self, client_id: str, token: str, *, offers_key: bool = True):
        self.waiting: list[comet.Note] = []
        self.topics: list[str] = []
        self.acked: list[str] = []
        self.heard: list[int] = []
        self.cut_after_list = False
        self._person = (client_id, token)
        self._offers_key = offers_key

    def serve(self, line: Line) -> None:
        """One connection."""
        self._line = line
        self._key = X25519PrivateKey.generate()
        self._content_key = b""
        self._counter = 0
        self._transcript = b""
        while True:
            head = line.take(2)
            data = line.take(struct.unpack(">H", head)[0])
            self.heard.append(data[0])
            self._answer(data[0], data[1:], head + data)

    def _answer(self, kind: int, body: bytes, whole: bytes) -> None:
        answers = {
            0: self._auth,
            1: self._exchange,
            2: self._list_topics,
            3: self._subscribe,
            5: self._list_messages,
            7: self._ack,
        }
        if kind in answers:
            answers[kind](body, whole)
        else:
            self._ok()

    def _send(self, kind: int, body: bytes = b"") -> bytes:
        self._line.send(comet.frame(kind, body))
        return comet.frame(kind, body)

    def _ok(self) -> None:
        self._send(comet.OK)

    def _auth(self, body: bytes, whole: bytes) -> None:
        if body != comet.text(self._person[0]) + comet.text(self._person[1]):
            self._send(comet.ERROR, b"\x00" + comet.text("token expired or illegal"))
            return
        public = self._key.public_key().public_bytes_raw()
        offered = bytes.fromhex("302a300506032b656e032100") + public if self._offers_key else b""
        self._transcript = whole + self._send(comet.AUTH_SUCCESS, comet.text(offered))

    def _exchange(self, body: bytes, whole: bytes) -> None:
        wrapped = body[2:]
        shared = self._key.exchange(X25519PublicKey.from_public_bytes(wrapped[:32]))
        th1 = hashlib.sha256(self._transcript).digest()
        prk = hmac.digest(th1, shared, "sha256")
        wrap_key = hmac.digest(prk, b"comet/1 wrap\x01", "sha256")
        secret = AESGCM(wrap_key).decrypt(bytes(12), wrapped[32:], wrapped[:32])
        th2 = hashlib.sha256(self._transcript + whole).digest()
        prk = hmac.digest(th2, secret, "sha256")
        self._content_key = hmac.digest(prk, b"comet/1 content s2c\x01", "sha256")
        self._ok()

    def _struct(self, note: comet.Note) -> bytes:
        content = note.content
        if self._content_key:
            self._counter += 1
            counter = struct.pack(">Q", self._counter)
            aad = bytes([note.type]) + comet.text(note.id) + struct.pack(">q", note.ts)
            sealed = AESGCM(self._content_key).encrypt(bytes(4) + counter, content, aad)
            content = b"\x01" + counter + sealed
        head = bytes([note.type]) + comet.text(note.id) + comet.text(content)
        return head + struct.pack(">q", note.ts)

    def _list_topics(self, body: bytes, whole: bytes) -> None:
        assert (body, whole) == (b"", b"\x00\x01\x02")
        self._send(comet.TOPIC_LIST, comet.texts(self.topics))

    def _subscribe(self, body: bytes, whole: bytes) -> None:
        assert whole[3:] == body
        names, at = [], 1
        for _ in range(body[0]):
            (size,) = struct.unpack_from(">H", body, at)
            names.append(body[at + 2 : at + 2 + size].decode())
            at += 2 + size
        self.topics = names
        self._ok()
        for note in self.waiting[2:]:  # pushed at once; what waits before them is listed
            self._send(comet.MESSAGE, self._struct(note))

    def _list_messages(self, body: bytes, whole: bytes) -> None:
        assert (body, whole) == (b"", b"\x00\x01\x05")
        page = self.waiting[:2]
        structs = b"".join(self._struct(note) for note in page)
        self._send(comet.MESSAGE_LIST, bytes([len(page)]) + structs)
        if self.cut_after_list:
            self.cut_after_list = False
            raise EndedError(b"")

    def _ack(self, body: bytes, whole: bytes) -> None:
        assert whole[3:] == body
        at = 1
        for _ in range(body[0]):
            (size,) = struct.unpack_from(">H", body, at)
            self.acked.append(body[at + 2 : at + 2 + size].decode())
            at += 2 + size
        self.waiting = [note for note in self.waiting if note.id not in self.acked]
        self._ok()


class RawEsnpServer:
    """Answers test/add, streams test/count, tells about itself when it is traced."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.heard: list[tuple[str, str]] = []
        self.acked: list[str] = []
        self.held: list[esnp.Message] = []

    def serve(self, line: Line) -> None:
        """One connection."""
        peer = esnp.RawEsnp(line)
        while True:
            self._answer(peer, peer.receive())

    def _answer(self, peer: esnp.RawEsnp, message: esnp.Message) -> None:
        service = message.addresses[esnp.SERVICE]
        op = message.addresses[esnp.OP]
        self.heard.append((service, op))
        if esnp.EVENT in message.flags:
            self.events.append(message.data)
            return
        if esnp.TRACE in message.flags:
            result = [esnp.flag(esnp.TRACE_INFO), (esnp.PAYLOAD, b"raw server handled")]
            peer.send(self._reply(message, *result))
        acts = {"add": self._add, "count": self._count, "late": self._late}
        if service == "test" and op in acts:
            acts[op](peer, message)
        elif service == "hub":
            self._hub(peer, op, message)
        else:
            peer.send(self._reply(message, (esnp.ERROR, b"there is no such thing")))

    @staticmethod
    def _reply(message: esnp.Message, *rows: tuple[int, bytes]) -> list[tuple[int, bytes]]:
        (number,) = message.all(esnp.MESSAGE_ID)
        kind = esnp.INFO if esnp.INFO in message.flags else esnp.REQUEST
        head = [esnp.flag(esnp.RESP), esnp.flag(kind), (esnp.SOURCE_MESSAGE_ID, number)]
        return [*head, *rows]

    def _add(self, peer: esnp.RawEsnp, message: esnp.Message) -> None:
        total = message.data["a"] + message.data["b"]
        peer.send(self._reply(message, esnp.data("c", total)))

    def _count(self, peer: esnp.RawEsnp, message: esnp.Message) -> None:
        last = message.data["to"]
        for number in range(1, last + 1):
            seq = esnp.seq(number, last if number == last else 0)
            peer.send(self._reply(message, seq, esnp.data("n", number)))

    def _late(self, peer: esnp.RawEsnp, message: esnp.Message) -> None:
        """Answers two requests in the wrong order."""
        self.held.append(message)
        if len(self.held) == 2:
            for each in reversed(self.held):
                peer.send(self._reply(each, esnp.data("n", each.data["n"])))
            self.held = []

    def _hub(self, peer: esnp.RawEsnp, op: str, message: esnp.Message) -> None:
        if op == "auth":
            peer.send(self._reply(message, esnp.data("id", message.data["id"])))
        elif op == "subscribe":
            peer.send(self._reply(message, esnp.data("topics", 1)))
            for number in range(3):
                peer.send(self._notify(number))
        else:
            ids = message.data.get("ids", [message.data.get("id")])
            self.acked += ids
            peer.send(self._reply(message, esnp.data("acked", len(ids))))

    @staticmethod
    def _notify(number: int) -> list[tuple[int, bytes]]:
        target = [esnp.address(esnp.SERVICE, "hub"), esnp.address(esnp.OP, "notify")]
        values = {"id": f"m{number:015x}", "topic": "@t", "content": str(number), "ts": number}
        rows = [esnp.data(name, value) for name, value in values.items()]
        return [esnp.flag(esnp.EVENT), *target, *rows]
