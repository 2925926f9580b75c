"""Protection of magline frames once keys exist: data records, control tags, sequence numbers.

Implements §4.5 (data frames), §4.6 (control frames), §4.7 (order) and §4.9 (limits) of the magline
rules. Everything here works on whole frames as they stand on the wire, because the tags cover the
head and the options: the codec builds a frame with room for the tag, this module fills it in.

    data frame      head 16 | msg header | Business CMD 4 | HMAC 16 | Data
    control frame   head 16 | msg header with the AUTH option, 16 bytes | body

Data is AES-256-CTR, then HMAC-SHA256 cut to 16 bytes over everything but the HMAC itself. The
counter block comes from the frame's Seq, so a direction needs one cipher context, moved from frame
to frame. Every failed check is the same `bad_record`, without detail: the peer learns nothing.

Keys from a key log have no mac key. They can read, never forge; what they read is `unverified`.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.model import Direction

from .layout import (
    BLOCK_NUMBER_BYTES,
    SEQ_BYTES,
    Ack,
    Err,
    Fin,
    Frame,
    Pin,
    Pon,
    Psh,
    Rep,
    Req,
    Syn,
)

__all__ = [
    "AUTH_OPTION",
    "DIRECTION_BYTES_LIMIT",
    "FIRST_SEQ_LIMIT",
    "LIFETIME_LIMIT_S",
    "SEQ_LIMIT",
    "TAG_SIZE",
    "AuthState",
    "DirectionKeys",
    "HmacState",
    "OpenedData",
    "Opener",
    "RecordCipher",
    "SeqCounter",
    "find_option",
]


HmacState = Literal["valid", "unverified"]
"""What is known of a data frame's HMAC; `unverified` when there is no mac key to check it with."""

AuthState = Literal["valid", "unverified", "absent"]
"""What is known of a control frame's AUTH tag; whether `absent` is accepted is the session's."""

TAG_SIZE: Final = 16
"""Every tag is an HMAC-SHA256 cut to this many bytes."""
_FIRST_BLOCK: Final = bytes(BLOCK_NUMBER_BYTES)
AUTH_OPTION: Final = 0x0001
"""The bit of Head Optional for a control frame's tag."""
SEQ_LIMIT: Final = 0xFFFF_0000
"""No frame has this Seq or a higher one: the connection is resumed with new keys before."""
FIRST_SEQ_LIMIT: Final = 1 << 31
"""A receiver takes the first Seq as it comes, but below this, so that room is left to count."""
DIRECTION_BYTES_LIMIT: Final = 1 << 38
"""How many bytes one direction may send under the same keys."""
LIFETIME_LIMIT_S: Final = 24 * 3600
"""How long a connection may keep its keys."""

_HEAD_SIZE: Final = 16
_CMD_SIZE: Final = 4
_NO_TAG: Final = bytes(TAG_SIZE)


@dataclass(frozen=True, slots=True)
class DirectionKeys:
    """The keys of one direction; `mac` is None when they come from a key log."""

    enc: bytes = field(repr=False)
    iv: bytes = field(repr=False)
    mac: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        sizes = (len(self.enc), len(self.iv), 32 if self.mac is None else len(self.mac))
        if sizes != (32, 12, 32):
            raise EncodeError("bad_config", "keys", detail="enc is 32 bytes, iv 12, mac 32")


class OpenedData(NamedTuple):
    """What a data frame held: its routing key, its plaintext, and whether the HMAC was checked."""

    business_cmd: int
    data: bytes
    hmac_state: HmacState


class SeqCounter:
    """The Seq of one direction: +1 for every frame, whatever its command.

    A sender calls `take`; a receiver calls `accept`. One that raises leaves the counter as it was.
    """

    __slots__ = ("last",)

    def __init__(self, last: int | None = None):
        self.last = last

    @property
    def expected(self) -> int | None:
        """The one Seq that a receiver will accept next; None before the first frame."""
        return None if self.last is None else self.last + 1

    def take(self) -> int:
        """Return the Seq for the next frame to send; the first is 1."""
        seq = 1 if self.last is None else self.last + 1
        if seq >= SEQ_LIMIT:
            raise EncodeError("int_range", "seq", detail="resume the session to get new keys")
        self.last = seq
        return seq

    def accept(self, seq: int) -> None:
        """Take note of a received Seq, or refuse it."""
        if self.last is None:
            good = 0 <= seq < FIRST_SEQ_LIMIT
        else:
            good = seq == self.last + 1 and seq < SEQ_LIMIT
        if not good:
            raise DecodeError("bad_record")
        self.last = seq


def find_option(frame: bytes, bit: int) -> tuple[int, int] | None:
    """Where the value of an option lies in a frame (start, stop); None when its bit is not set.

    Options follow the head in ascending order of their bits, each as a u16 length and a value.
    """
    if len(frame) < _HEAD_SIZE:
        raise DecodeError("bad_header", "head")
    optional = int.from_bytes(frame[4:6], "big")
    if not optional & bit:
        return None
    end = _HEAD_SIZE + int.from_bytes(frame[6:8], "big")
    start = _HEAD_SIZE
    for _ in range((optional & (bit - 1)).bit_count()):
        start += 2 + int.from_bytes(frame[start : start + 2], "big")
    stop = start + 2 + int.from_bytes(frame[start : start + 2], "big")
    if start + 2 > end or stop > end or end > len(frame):
        raise DecodeError("bad_header", "msg_header")
    return start + 2, stop


def _tag_span(frame: bytes) -> tuple[int, int] | None:
    span = find_option(frame, AUTH_OPTION)
    if span is not None and span[1] - span[0] != TAG_SIZE:
        raise DecodeError("bad_option", "auth")
    return span


def _body_offset(frame: bytes) -> int | None:
    """Return where the body of a data frame begins; None when the frame's lengths contradict it."""
    if len(frame) < _HEAD_SIZE or int.from_bytes(frame[12:16], "big") != len(frame) - _HEAD_SIZE:
        return None
    offset = _HEAD_SIZE + int.from_bytes(frame[6:8], "big")
    return offset if len(frame) - offset >= _CMD_SIZE + TAG_SIZE else None


class RecordCipher:
    """Seals or opens the frames of one direction under its keys."""

    __slots__ = ("_iv_seq", "_iv_start", "_last_sealed", "_mac", "_stream")

    def __init__(self, keys: DirectionKeys):
        # One context for all frames: making one per frame costs nearly twenty times as much.
        # CTR is its own inverse, so an encryptor serves both ways.
        self._stream = Cipher(AES(keys.enc), CTR(bytes(16))).encryptor()
        self._iv_start = keys.iv[:-SEQ_BYTES]
        self._iv_seq = int.from_bytes(keys.iv[-SEQ_BYTES:], "big")
        self._mac = keys.mac
        self._last_sealed = -1

    def seal_data(self, frame: bytes) -> bytes:
        """A data frame with plaintext Data and any HMAC → the same frame, encrypted and tagged."""
        body = _body_offset(frame)
        if body is None:
            raise EncodeError("bad_value", "frame", detail="not a whole data frame")
        mac = self._sealing_key()
        seq = int.from_bytes(frame[8:12], "big")
        if seq <= self._last_sealed:
            # The same Seq twice is the same key stream twice, which gives both texts away.
            raise EncodeError("bad_value", "seq", detail="already sealed")
        clear, data = frame[: body + _CMD_SIZE], frame[body + _CMD_SIZE + TAG_SIZE :]
        ciphertext = self._crypt(seq, data)
        self._last_sealed = seq
        return clear + _tag(mac, clear + ciphertext) + ciphertext

    def open_data(self, frame: bytes) -> OpenedData:
        """Check the HMAC of a data frame, then decrypt it. The caller has checked Seq before."""
        body = _body_offset(frame)
        if body is None:
            raise DecodeError("bad_length", "frame")
        tag_at = body + _CMD_SIZE
        ciphertext = frame[tag_at + TAG_SIZE :]
        state: HmacState = "unverified"
        if self._mac is not None:
            wanted = _tag(self._mac, frame[:tag_at] + ciphertext)
            if not hmac.compare_digest(wanted, frame[tag_at : tag_at + TAG_SIZE]):
                raise DecodeError("bad_record")
            state = "valid"
        data = self._crypt(int.from_bytes(frame[8:12], "big"), ciphertext)
        return OpenedData(int.from_bytes(frame[body:tag_at], "big"), data, state)

    def seal_control(self, frame: bytes) -> bytes:
        """Return a control frame with the AUTH option and any tag → the same frame, tagged."""
        try:
            span = _tag_span(frame)
        except DecodeError as error:
            raise EncodeError("bad_value", "frame", detail=str(error)) from error
        if span is None:
            raise EncodeError("bad_value", "auth", detail="the frame has no AUTH option")
        before, after = frame[: span[0]], frame[span[1] :]
        return before + _tag(self._sealing_key(), before + _NO_TAG + after) + after

    def open_control(self, frame: bytes) -> AuthState:
        """Check the AUTH tag of a control frame, if it has one."""
        span = _tag_span(frame)
        if span is None:
            return "absent"
        if self._mac is None:
            return "unverified"
        wanted = _tag(self._mac, frame[: span[0]] + _NO_TAG + frame[span[1] :])
        if not hmac.compare_digest(wanted, frame[span[0] : span[1]]):
            raise DecodeError("bad_record")
        return "valid"

    def _sealing_key(self) -> bytes:
        if self._mac is None:
            raise EncodeError("bad_config", "keys", detail="keys without a mac key cannot seal")
        return self._mac

    def _crypt(self, seq: int, data: bytes) -> bytes:
        # The last four bytes count blocks: 2^32 of them, so two Seqs never meet.
        low = (self._iv_seq ^ seq).to_bytes(SEQ_BYTES, "big")
        self._stream.reset_nonce(self._iv_start + low + _FIRST_BLOCK)
        return self._stream.update(data)


def _tag(key: bytes, covered: bytes) -> bytes:
    return hmac.digest(key, covered, "sha256")[:TAG_SIZE]


# Opens magline frames for readers of captures: `Opener(keys, direction, dialect)`.


_FIXED_DIRECTIONS: Final[dict[type, Direction]] = {
    Syn: "c2s",
    Pin: "c2s",
    Req: "c2s",
    Ack: "s2c",
    Pon: "s2c",
    Rep: "s2c",
    Psh: "s2c",
}
"""Commands that only one side sends."""


class Opener:
    """Opens frames of both directions; what only one side sends tells its own direction."""

    def __init__(self, keys: dict[str, Any], direction: Direction | None, dialect: str):  # noqa: ARG002
        self._direction = direction
        self._keys: dict[Direction, Any] = {}
        self._ciphers: dict[Direction, Any] = {}
        directions: tuple[Direction, ...] = ("c2s", "s2c")
        for side in directions:
            if f"{side}_enc" in keys:
                self._keys[side] = _direction_keys(keys, side)
        if keys and not self._keys:
            raise ValueError("wanted c2s_enc and c2s_iv, or s2c_enc and s2c_iv")

    def open(self, message: Any, raw: bytes) -> dict[str, object]:
        """`data` and `hmac_state` of a data frame, `auth_state` of a control frame."""
        if not isinstance(message, Frame) or isinstance(message.body, Syn | Ack):
            return {}
        side = _FIXED_DIRECTIONS.get(type(message.body), self._direction)
        if side is None or side not in self._keys:
            return {}
        cipher = self._cipher(side)
        if isinstance(message.body, Req | Rep | Psh):
            opened = cipher.open_data(raw)
            return {"data": opened.data, "hmac_state": opened.hmac_state}
        assert isinstance(message.body, Err | Pin | Pon | Fin)
        return {"auth_state": cipher.open_control(raw)}

    def _cipher(self, side: Direction) -> Any:
        """Made when it is first needed: a reader may be given many more keys than it uses."""
        if side not in self._ciphers:
            self._ciphers[side] = RecordCipher(self._keys[side])
        return self._ciphers[side]


def _direction_keys(keys: dict[str, Any], side: Direction) -> Any:
    # cryptography, needed for keys alone

    mac = _bytes(keys, f"{side}_mac") if keys.get(f"{side}_mac") is not None else None
    return DirectionKeys(_bytes(keys, f"{side}_enc"), _bytes(keys, f"{side}_iv"), mac)


def _bytes(keys: dict[str, Any], name: str) -> bytes:
    text = keys.get(name)
    if not isinstance(text, str):
        raise ValueError(f"{name}: wanted hexadecimal text")
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ValueError(f"{name}: not hexadecimal") from error
