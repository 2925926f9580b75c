"""Casts of what is sealed: keys of their own, and everything sealed anew with them.

Ids cannot be written into what is encrypted, nor into what a key was derived from. So a sealed
connection is cast in three steps: its Randoms, session ids and secrets are drawn anew; the keys are
derived from them by the protocol's own schedule; each sealed frame is sealed again, by the
protocol's own ciphers. What casts share is the plaintext of the application and, to spare two key
agreements a cast, the ephemeral X25519 keys of the mould.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.sealing import (
    ContentOpener,
    ContentSealer,
    content_key,
    derive_wrap_key,
    transcript_1,
)
from wirelake.protocols.magline import layout as magline
from wirelake.protocols.magline.handshake import (
    KEY_SIZE,
    SEALED_SID_SIZE,
    SID_SIZE,
    Mode,
    SessionKeys,
    bind_syn,
    derive_keys,
    resume_sid,
    seal_sid,
    x25519_public,
    x25519_shared,
)
from wirelake.protocols.magline.records import RecordCipher

from ..scenes.comet import exchange_frames
from ..scenes.scene import C2S, S2C
from ..scenes.template import Connection
from .numbers import Bytes
from .packet_template import Plate

__all__ = ["Recipe", "recipes"]

Draw: TypeAlias = Callable[[int], bytes]
"""Gives that many random bytes."""
State: TypeAlias = dict[int, tuple[bytes, bytes]]
"""What the connections of a cast leave behind: session id and resumption secret, by place."""

_WRAPPED: Final = 80
"""Bytes of a wrapped secret: an ephemeral key, the secret, a tag."""


class Recipe(Protocol):
    """How one connection is sealed in a cast."""

    def seal(self, row: Bytes, draw: Draw, state: State) -> None:
        """Seals a cast, whose row has its ids already."""


def recipes(plate: Plate) -> list[Recipe]:
    """One for each sealed connection of a plate, in their order."""
    found: list[Recipe] = []
    before: int | None = None
    for place, connection in enumerate(plate.mould.connections):
        if connection.protocol == "magline" and connection.streams[S2C].frames:
            found.append(_Magline(plate, place, before))
            before = place
        elif connection.protocol == "comet" and "secret" in connection.line.backstage:
            found.append(_Comet(plate, place))
    return found


# -- where a stream stands in a row --------------------------------------------------------------


@dataclass(slots=True)
class _Places:
    """The columns of each byte of a stream, and of further copies."""

    columns: npt.NDArray[np.int64]
    copies: list[tuple[slice, slice]]

    @classmethod
    def of(cls, plate: Plate, place: int, direction: int) -> _Places:
        stream = plate.mould.connections[place].streams[direction]
        columns = np.full(len(stream.data), -1, np.int64)
        copies: list[tuple[slice, slice]] = []
        for n in plate.carriers[place][direction]:
            start, stop = plate.items[n].payload
            column = int(plate.starts[n]) + plate.items[n].payload_at
            if (columns[start:stop] >= 0).any():
                copies.append((slice(column, column + stop - start), slice(start, stop)))
            fresh = columns[start:stop] < 0
            columns[start:stop][fresh] = np.arange(column, column + stop - start)[fresh]
        return cls(columns, copies)

    def read(self, row: Bytes, start: int, stop: int) -> bytes:
        return row[self.columns[start:stop]].tobytes()

    def write(self, row: Bytes, start: int, data: bytes) -> None:
        row[self.columns[start : start + len(data)]] = np.frombuffer(data, np.uint8)

    def repeat(self, row: Bytes) -> None:
        """Further copies say the same as the first."""
        for columns, positions in self.copies:
            row[columns] = row[self.columns[positions]]


class _KeyText:
    """The line of the key log in a row."""

    def __init__(self, plate: Plate, place: int):
        self._at: dict[str, tuple[int, int]] = {}
        for n, item in enumerate(plate.items):
            happening = plate.mould.happenings[item.happening] if item.happening >= 0 else None
            if happening is None or happening.kind != "keys" or happening.line is None:
                continue
            if plate.mould.places[happening.line.number] == place:
                base = int(plate.starts[n])
                for name, text in json.loads(happening.text).items():
                    at = item.data.index(f'"{name}": "'.encode()) + len(name) + 5
                    self._at[name] = (base + at, base + at + len(text))

    def write(self, row: Bytes, **keys: bytes) -> None:
        for name, key in keys.items():
            start, stop = self._at[name]
            row[start:stop] = np.frombuffer(key.hex().encode(), np.uint8)


# -- magline -------------------------------------------------------------------------------------


class _Clear(NamedTuple):
    """A frame before it is sealed."""

    frame: bytes
    is_data: bool


class _Magline(Recipe):
    """SYN and ACK with other Randoms, another session id, and all that follows from them."""

    def __init__(self, plate: Plate, place: int, before: int | None):
        connection = plate.mould.connections[place]
        backstage = connection.line.backstage
        self.place = place
        self.text = _KeyText(plate, place)
        self.places = [_Places.of(plate, place, way) for way in (C2S, S2C)]
        self.syn = _frame(connection, C2S, 0)
        self.ack = _frame(connection, S2C, 0)[:-SEALED_SID_SIZE]
        self.resumes = before if resume_sid(self.syn) is not None else None
        public, static = self.syn[-KEY_SIZE:], backstage["static"]
        self.fixed: dict[str, Any] = {
            "shared": x25519_shared(backstage["server"].drawn[0], public),
            "server_public": None if static is None else x25519_public(static),
            "static_shared": None if static is None else x25519_shared(static, public),
        }
        self.mode, self.psk = backstage["mode"], backstage["psk"]
        old = None if self.resumes is None else plate.mould.connections[self.resumes]
        keys = self._keys(self.syn, self.ack, None if old is None else old.line.backstage["res"])
        backstage["res"] = keys.res
        self.clear = [
            _cleared(connection, way, RecordCipher(ways))
            for way, ways in ((C2S, keys.c2s), (S2C, keys.s2c))
        ]

    def _keys(self, syn: bytes, ack: bytes, res: bytes | None) -> SessionKeys:
        mode = self.mode if res is None else self.mode | Mode.RESUME
        psk = self.psk if res is None else None
        return derive_keys(mode=mode, syn=syn, ack_clear=ack, psk=psk, resumption=res, **self.fixed)

    def seal(self, row: Bytes, draw: Draw, state: State) -> None:
        """Seals a cast."""
        random, answer, sid = draw(KEY_SIZE), draw(KEY_SIZE), draw(SID_SIZE)
        syn = self.syn[: -2 * KEY_SIZE] + random + self.syn[-KEY_SIZE:]
        res: bytes | None = None
        if self.resumes is not None:
            old, res = state[self.resumes]
            syn = bind_syn(res, syn.replace(resume_sid(syn) or b"", old, 1))
        ack = self.ack[: -2 * KEY_SIZE] + answer + self.ack[-KEY_SIZE:]
        keys = self._keys(syn, ack, res)
        state[self.place] = sid, keys.res
        heads = (syn, ack + seal_sid(keys, ack, sid))
        ciphers = (RecordCipher(keys.c2s), RecordCipher(keys.s2c))
        for places, head, clear, cipher in zip(
            self.places, heads, self.clear, ciphers, strict=True
        ):
            places.write(row, 0, head + b"".join([_sealed(each, cipher) for each in clear]))
            places.repeat(row)
        named = {name: getattr(keys, name) for name in ("c2s_enc", "c2s_iv", "s2c_enc", "s2c_iv")}
        self.text.write(row, client_random=random, **named)


def _frame(connection: Connection, way: int, n: int) -> bytes:
    stream = connection.streams[way]
    frame = stream.frames[n]
    return stream.data[frame.start : frame.stop]


def _cleared(connection: Connection, way: int, cipher: RecordCipher) -> list[_Clear]:
    """The frames behind the handshake, in clear; ciphers overwrite what tags there are."""
    found: list[_Clear] = []
    for n, frame in enumerate(connection.streams[way].frames[1:], 1):
        raw, body = _frame(connection, way, n), frame.message.body
        if isinstance(body, magline.Req | magline.Rep | magline.Psh):
            plain = cipher.open_data(raw).data
            found.append(_Clear(raw[: len(raw) - len(plain)] + plain, True))
        else:
            found.append(_Clear(raw, False))
    return found


def _sealed(clear: _Clear, cipher: RecordCipher) -> bytes:
    return cipher.seal_data(clear.frame) if clear.is_data else cipher.seal_control(clear.frame)


# -- comet ---------------------------------------------------------------------------------------


class _Note(NamedTuple):
    """A sealed notification: where it stands, and what it says."""

    head: int
    """Where its type stands; its id and time follow and belong to the cast."""
    content: int
    """Where the sealed content begins."""
    size: int
    plain: bytes


class _Comet(Recipe):
    """Another secret in exchange_key, and all content sealed with the key that follows from it."""

    def __init__(self, plate: Plate, place: int):
        connection = plate.mould.connections[place]
        backstage = connection.line.backstage
        self.text = _KeyText(plate, place)
        self.places = [_Places.of(plate, place, way) for way in (C2S, S2C)]
        self.sizes = [len(stream.data) for stream in connection.streams]
        up, down = (stream.data for stream in connection.streams)
        frames = exchange_frames(up, down)
        self.auth, self.success, self.exchange = (
            _find(data, frame) for data, frame in zip((up, down, up), frames, strict=True)
        )
        wrapped = self.exchange[1] - _WRAPPED
        self.secret_at = wrapped
        self.eph_public = up[wrapped : wrapped + KEY_SIZE]
        self.dh = x25519_shared(backstage["private"], self.eph_public)
        opener = ContentOpener(content_key(backstage["secret"], *frames))
        self.notes = [
            note
            for frame in connection.streams[S2C].frames
            for note in _notes(frame.start, frame.message, opener)
        ]

    def seal(self, row: Bytes, draw: Draw, state: State) -> None:  # noqa: ARG002
        """Seals a cast, whose ids stand in the row already."""
        up, down = self.places
        secret = draw(KEY_SIZE)
        auth, success = up.read(row, *self.auth), down.read(row, *self.success)
        key = derive_wrap_key(transcript_1(auth, success), self.dh)
        wrapped = AESGCM(key).encrypt(bytes(12), secret, self.eph_public)
        up.write(row, self.secret_at + KEY_SIZE, wrapped)
        content = content_key(secret, auth, success, up.read(row, *self.exchange))
        sealer = ContentSealer(content)
        for note in self.notes:
            head = down.read(row, note.head, note.content)
            ts = down.read(row, note.content + note.size, note.content + note.size + 8)
            sealed = sealer.seal(
                note.plain, msg_type=head[0], msg_id=head[3:-2], ts=int.from_bytes(ts, "big")
            )
            down.write(row, note.content, sealed)
        up.repeat(row)
        down.repeat(row)
        self.text.write(row, content_key=content)


def _find(data: bytes, frame: bytes) -> tuple[int, int]:
    at = data.index(frame)
    return at, at + len(frame)


def _notes(start: int, message: Any, opener: ContentOpener) -> Iterator[_Note]:
    """The sealed notifications of a frame that begins at a place of its stream."""
    listed = isinstance(message, comet.MessageList)
    found = message.messages if listed else (message,)
    at = start + (4 if listed else 3)  # length, type and, of a list, the count
    for each in found:
        if not isinstance(each, comet.Notification):
            return
        content = at + 1 + 2 + len(each.msg_id) + 2
        plain = opener.open(each.content, msg_type=each.msg_type, msg_id=each.msg_id, ts=each.ts)
        yield _Note(at, content, len(each.content), plain)
        at = content + len(each.content) + 8
