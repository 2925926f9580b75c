"""magline with `socket`, `struct`, `hashlib`, `hmac`, `os` and `cryptography` alone.

From the document (seed 003) and its settled rules: handshake, sealed data, tags on control frames,
resumption.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import struct
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from tests.hub_raw.line import Line

__all__ = [
    "ACK",
    "ERR",
    "FIN",
    "PIN",
    "PON",
    "PSH",
    "REP",
    "REQ",
    "SYN",
    "Frame",
    "Handshake",
    "Keys",
    "MaglineError",
    "RawMagline",
    "Resume",
    "data_frame",
    "head",
    "tagged",
]

SYN, ACK, ERR, PIN, PON, REQ, REP, PSH, FIN = range(1, 10)
_AUTH, _REPLY_TO, _RESUME, _KEY_ID = 0x0001, 0x0002, 0x0100, 0x0200
_DATA_CMDS = {REQ, REP, PSH}
_ZEROS = bytes(32)


class MaglineError(Exception):
    """The server sent ERR, or ended the connection with FIN."""

    def __init__(self, command: int, number: int):
        super().__init__(command, number)
        self.command = command
        self.number = number


class Keys(NamedTuple):
    """What a handshake gives."""

    ack_enc: bytes
    ack_mac: bytes
    c2s_enc: bytes
    c2s_iv: bytes
    c2s_mac: bytes
    s2c_enc: bytes
    s2c_iv: bytes
    s2c_mac: bytes
    res: bytes


class Resume(NamedTuple):
    """What a client keeps to come back."""

    sid: bytes
    secret: bytes


class Frame(NamedTuple):
    """A frame that was read."""

    cmd: int
    seq: int
    options: dict[int, bytes]
    body: bytes
    raw: bytes


def head(cmd: int, seq: int, options: dict[int, bytes], body: bytes) -> bytes:
    """A whole frame."""
    magic = 0x7E if cmd in _DATA_CMDS else 0x7F
    bits, header = 0, b""
    for bit in sorted(options):
        bits |= bit
        header += struct.pack(">H", len(options[bit])) + options[bit]
    size = len(header) + len(body)
    return struct.pack(">BBHHHII", magic, 0x66, cmd, bits, len(header), seq, size) + header + body


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")[:16]


def _expand(key: bytes, label: str, size: int) -> bytes:
    return hmac.digest(key, b"magline 102 " + label.encode() + b"\x01", "sha256")[:size]


def _ctr(key: bytes, block: bytes, data: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(block)).encryptor().update(data)


def _block(iv: bytes, seq: int) -> bytes:
    low = int.from_bytes(iv[8:], "big") ^ seq
    return iv[:8] + struct.pack(">I", low) + bytes(4)


def data_frame(
    cmd: int, seq: int, options: dict[int, bytes], command: int, data: bytes, keys: Keys
) -> bytes:
    """REQ, REP or PSH, sealed with the keys of its direction."""
    c2s = cmd == REQ
    enc, iv, mac = keys[2:5] if c2s else keys[5:8]
    sealed = _ctr(enc, _block(iv, seq), data)
    bare = head(cmd, seq, options, struct.pack(">I", command) + bytes(16) + sealed)
    at = len(bare) - len(sealed) - 16
    tag = _mac(mac, bare[:at] + sealed)
    return bare[:at] + tag + sealed


def tagged(cmd: int, seq: int, body: bytes, mac: bytes) -> bytes:
    """A control frame with its tag."""
    bare = head(cmd, seq, {_AUTH: bytes(16)}, body)
    tag = _mac(mac, bare)
    return bare[:18] + tag + bare[34:]


class Handshake:
    """The client's half: makes SYN, reads ACK."""

    def __init__(
        self,
        private: X25519PrivateKey | None = None,
        random: bytes | None = None,
        pinned: bytes = b"",
        psk: bytes = b"",
        resume: Resume | None = None,
    ):
        self._private = private or X25519PrivateKey.generate()
        self._random = random or os.urandom(32)
        self._pinned = pinned
        self._psk = psk
        self._resume = resume
        self.mode = 1 * bool(pinned) | 2 * bool(psk) | 4 * (resume is not None)
        self.syn = self._syn()

    def _syn(self) -> bytes:
        options = {}
        if self._pinned:
            digest = hashlib.sha256(b"magline 102 key id" + self._pinned).digest()
            options[_KEY_ID] = digest[:8]
        elif self._psk:
            options[_KEY_ID] = hashlib.sha256(b"magline 102 psk id" + self._psk).digest()[:8]
        body = self._random + self._private.public_key().public_bytes_raw()
        if self._resume is None:
            return head(SYN, 1, options, body)
        options[_RESUME] = self._resume.sid + bytes(16)
        bare = head(SYN, 1, options, body)
        binder = _mac(_expand(self._resume.secret, "binder", 32), bare)
        return head(SYN, 1, {**options, _RESUME: self._resume.sid + binder}, body)

    def keys(self, ack: bytes) -> tuple[Keys, bytes]:
        """The keys, and the session id, from the whole ACK frame."""
        random, public, sealed = ack[16:48], ack[48:80], ack[80:]
        shared = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        nk = hashlib.sha256(self._random + random + shared).digest()
        known = self._pinned or _ZEROS
        th = hashlib.sha256(
            b"magline 102 handshake" + bytes([self.mode]) + known + self.syn + ack[:-32]
        ).digest()
        prk = hmac.digest(th, nk + self._static() + self._earlier(), "sha256")
        sizes = {"c2s_iv": 12, "s2c_iv": 12}
        keys = Keys(*(_expand(prk, name, sizes.get(name, 32)) for name in Keys._fields))
        assert hmac.compare_digest(_mac(keys.ack_mac, ack[:-32] + sealed[:16]), sealed[16:])
        return keys, _ctr(keys.ack_enc, bytes(16), sealed[:16])

    def _static(self) -> bytes:
        if not self._pinned:
            return _ZEROS
        return self._private.exchange(X25519PublicKey.from_public_bytes(self._pinned))

    def _earlier(self) -> bytes:
        if self._resume is not None:
            return self._resume.secret
        if self._psk:
            return hashlib.sha256(b"magline 102 psk" + self._psk).digest()
        return _ZEROS


class RawMagline:
    """A client: pushes are kept apart from answers."""

    def __init__(self, line: Line):
        self.line = line
        self.pushes: list[tuple[int, bytes]] = []
        self.keys: Keys | None = None
        self.sid = b""
        self._seq = 0
        self._heard = 0

    @property
    def resume(self) -> Resume:
        """What is needed to come back."""
        assert self.keys is not None
        return Resume(self.sid, self.keys.res)

    def hello(self, **options: Any) -> None:
        """The handshake."""
        shake = Handshake(**options)
        self._seq = 1
        self.line.send(shake.syn)
        ack = self.receive()
        if ack.cmd == ERR:
            raise MaglineError(*struct.unpack(">II", ack.body))
        assert ack.cmd == ACK
        self.keys, self.sid = shake.keys(ack.raw)

    # -- frames ------------------------------------------------------------------------------

    def receive(self) -> Frame:
        """The next frame, its number and tag checked."""
        first = self.line.take(16)
        magic, version, cmd, bits, header_size, seq, size = struct.unpack(">BBHHHII", first)
        rest = self.line.take(size)
        assert version == 0x66
        assert magic == (0x7E if cmd in _DATA_CMDS else 0x7F)
        assert seq == self._heard + 1, "a frame is missing"
        self._heard = seq
        options, at = {}, 0
        for bit in (1 << n for n in range(16)):
            if bits & bit:
                (length,) = struct.unpack_from(">H", rest, at)
                options[bit] = rest[at + 2 : at + 2 + length]
                at += 2 + length
        assert at == header_size
        frame = Frame(cmd, seq, options, rest[at:], first + rest)
        if self.keys is not None and cmd not in _DATA_CMDS:
            self._check_tag(frame)
        return frame

    def _check_tag(self, frame: Frame) -> None:
        assert self.keys is not None
        tag = frame.options[_AUTH]
        bare = frame.raw[:18] + bytes(16) + frame.raw[34:]
        assert hmac.compare_digest(tag, _mac(self.keys.s2c_mac, bare))

    def _opened(self, frame: Frame) -> tuple[int, bytes]:
        assert self.keys is not None
        (command,) = struct.unpack_from(">I", frame.body)
        tag, sealed = frame.body[4:20], frame.body[20:]
        at = len(frame.raw) - len(sealed) - 16
        assert hmac.compare_digest(tag, _mac(self.keys.s2c_mac, frame.raw[:at] + sealed))
        return command, _ctr(self.keys.s2c_enc, _block(self.keys.s2c_iv, frame.seq), sealed)

    def next_seq(self) -> int:
        """The number of the next frame that is sent."""
        self._seq += 1
        return self._seq

    def control(self, cmd: int, body: bytes) -> None:
        """Sends PIN or FIN."""
        assert self.keys is not None
        self.line.send(tagged(cmd, self.next_seq(), body, self.keys.c2s_mac))

    # -- what a client does ------------------------------------------------------------------

    def request(self, command: int, data: bytes) -> int:
        """Sends REQ; its number."""
        assert self.keys is not None
        seq = self.next_seq()
        self.line.send(data_frame(REQ, seq, {}, command, data, self.keys))
        return seq

    def other(self) -> Frame:
        """The next frame that is no push; FIN and an ERR of the whole connection are raised."""
        while True:
            frame = self.receive()
            if frame.cmd == PSH:
                self.pushes.append(self._opened(frame))
                continue
            if frame.cmd == FIN:
                raise MaglineError(0, -struct.unpack(">I", frame.body)[0])
            return frame

    def call(self, command: int, data: bytes) -> bytes:
        """Asks; the data of the answer. ERR is raised."""
        seq = self.request(command, data)
        frame = self.other()
        if frame.cmd == ERR:
            raise MaglineError(*struct.unpack(">II", frame.body))
        assert frame.cmd == REP
        assert frame.options.get(_REPLY_TO) == struct.pack(">I", seq)
        answered, body = self._opened(frame)
        assert answered == command
        return body

    def ask(self, command: int, **values: Any) -> Any:
        """Asks with JSON, and reads JSON."""
        body = self.call(command, json.dumps(values).encode())
        return json.loads(body) if body else None

    def ping(self, number: int = 1) -> None:
        """Sends PIN and waits for its PON."""
        self.control(PIN, struct.pack(">I", number))
        frame = self.other()
        assert frame.cmd == PON
        assert frame.body == struct.pack(">I", number)

    def next_push(self) -> tuple[int, bytes]:
        """Business command and data of the next push."""
        while not self.pushes:
            frame = self.receive()
            assert frame.cmd == PSH, frame
            self.pushes.append(self._opened(frame))
        return self.pushes.pop(0)

    def last_words(self) -> tuple[int, int]:
        """Error number and reason with which the server ends the connection."""
        frame = self.other()
        assert frame.cmd == ERR
        command, number = struct.unpack(">II", frame.body)
        assert command == 0
        frame = self.receive()
        assert frame.cmd == FIN
        assert self.line.rest() == b""
        return number, struct.unpack(">I", frame.body)[0]

    def finish(self, reason: int = 0) -> None:
        """Says goodbye and hangs up."""
        self.control(FIN, struct.pack(">I", reason))
        self.line.close()

    def close(self) -> None:
        """Hangs up without a word."""
        self.line.close()
