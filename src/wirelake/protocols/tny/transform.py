"""The transforms of a tny packet: packet number, check code, encryption and waste bytes.

Implements §3 (AccessId and Number), §4 (security options) and §8.3–8.5 (the two dialects) of the
tny rules. A payload is `AccessId | Number | content`; this module turns a Message into `content`
and back, where `content` is `[waste] Message [waste] [CheckCode]`.

One `PacketContext` serves one direction of one connection. Each packet number draws one *packet
code* from a generator seeded with the key string; the code determines the amount of waste, and is
an input of the encryption and of the check code. `Opener` does the same for readers of captures.

The options obfuscate and detect accidents. They do not protect against an attacker: the cipher is
a repeating XOR and both check codes are CRCs. Use TLS where that matters.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, get_args

import msgspec

from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.model import Direction

from .layout import Dialect, Envelope, Packet
from .protocol import PROTOCOL

__all__ = [
    "MAX_SKIP_STEP",
    "Dialect",
    "Opener",
    "PacketCodes",
    "PacketContext",
    "SealedContent",
    "TransformConfig",
    "check_code",
    "crc64",
    "djb32",
    "insert_waste",
    "key_string",
    "remove_waste",
    "xor_crypt",
]


CHECK_BYTES: Final[dict[str, int]] = {"seed": 4, "upstream": 8}
"""Size of the CheckCode in each dialect (§8.3)."""
MAX_SKIP_STEP: Final = 65_536
"""Upper bound of `skip_step`: every skipped number costs one draw, so it bounds the CPU time that
one packet of a hostile peer can cause."""

_MASK32: Final = (1 << 32) - 1
_MASK64: Final = (1 << 64) - 1
_MAX_NUMBER: Final = (1 << 31) - 1

# The constants of java.util.Random, a 48-bit linear congruential generator.
_LCG_MULTIPLIER: Final = 0x5DEECE66D
_LCG_ADDEND: Final = 0xB
_LCG_MASK: Final = (1 << 48) - 1
_LCG_SPARE: Final = 48 - 31
"""Low bits of the state that are not part of the drawn number."""
_LCG_BOUND: Final = _MAX_NUMBER << _LCG_SPARE
"""States from here on yield 2^31 - 1, which is never drawn."""

_MAX_BEHIND: Final = 256
"""Plain packets for which no code has been drawn yet. Drawing codes in one loop is cheaper than one
at a time, and 256 of them delay a packet that needs its code by some twenty microseconds."""


@dataclass(frozen=True, slots=True)
class TransformConfig:
    """Keys and options of one direction. The three options are off by default, as in the original.

    On the reading side, an option that is on is required of every packet, and one that is off is
    still applied where a packet sets its bit. On the writing side it applies to every packet.
    """

    security_keys: tuple[str, ...] = field(default=(), repr=False)
    verify: bool = False
    encrypt: bool = False
    waste: bool = False
    max_waste_bits: int = 30
    """Waste is 0 to `max_waste_bits - 1` bits; 30 is the original's value, both ends must agree."""
    skip_step: int = 30
    """How far a number may jump ahead of the last; 30 is the original's value."""

    def __post_init__(self) -> None:
        if not isinstance(self.security_keys, tuple):
            raise _bad_config("security_keys", "expected a tuple of strings")
        for key in self.security_keys:
            # An empty key has no byte to XOR with; a lone surrogate has no UTF-8 form.
            if not isinstance(key, str) or not key or not _is_utf8(key):
                raise _bad_config("security_keys", "expected non-empty, valid strings")
        if self.encrypt and not self.security_keys:
            # The original divides by the number of keys and crashes (§4).
            raise _bad_config("encrypt", "encryption requires at least one security key")
        if self.max_waste_bits < 1:
            raise _bad_config("max_waste_bits", "expected 1 or more")
        if not 1 <= self.skip_step <= MAX_SKIP_STEP:
            raise _bad_config("skip_step", f"expected 1 to {MAX_SKIP_STEP}")


def _bad_config(name: str, detail: str) -> EncodeError:
    return EncodeError("bad_config", name, detail=detail)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- packet codes ----------------------------------------------------------------------------------


def djb32(text: str) -> int:
    """Return the DJB hash (h * 33 + unit) over UTF-16 units, as a signed 32-bit integer."""
    # UTF-16 and sign, because the original hashes a Java String into an int (§4).
    units = text.encode("utf-16-le", "surrogatepass")
    value = 5381
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (value * 33 + (high << 8 | low)) & _MASK32
    return value - (1 << 32) if value >> 31 else value


def key_string(access_id: int, security_keys: tuple[str, ...]) -> str:
    """Return S of §4: the access id in decimal, then the key that it selects, if there are keys."""
    chosen = security_keys[access_id % len(security_keys)] if security_keys else ""
    return f"{access_id}{chosen}"


class PacketCodes(msgspec.Struct, frozen=True):
    """The state of the packet-code generator of one direction at one packet number.

    It is immutable, so that a packet can be opened with the advanced state and the context is only
    changed after all checks have passed: a rejected packet leaves no trace.
    """

    access_id: int
    state: int
    number: int = 0
    packet_code: int = 0

    @classmethod
    def start(cls, access_id: int, key: str) -> PacketCodes:
        """Return the generator before the first packet, seeded with the hash of the key string."""
        return cls(access_id, (djb32(key) ^ _LCG_MULTIPLIER) & _LCG_MASK)

    def advance(self, number: int) -> PacketCodes:
        """Return the generator at `number`: one draw for every number after the current one."""
        if number == self.number:
            return self
        state = self.state
        for _ in range(number - self.number):
            # java.util.Random.nextInt(2^31 - 1): 31 bits, drawn again when they equal the bound.
            state = (state * _LCG_MULTIPLIER + _LCG_ADDEND) & _LCG_MASK
            while state >= _LCG_BOUND:
                state = (state * _LCG_MULTIPLIER + _LCG_ADDEND) & _LCG_MASK
        return PacketCodes(self.access_id, state, number, state >> _LCG_SPARE)


# -- check codes -----------------------------------------------------------------------------------


def _crc64_table() -> tuple[int, ...]:
    """Return 256 signed entries of the original's CRC-64."""
    # The original shifts a signed Java long with >>, which copies the sign bit. Python's >> does
    # the same for negative numbers, so entries stay signed and are never masked to 64 bits here.
    polynomial = 0x95AC9329AC4BC9B5 - (1 << 64)
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ polynomial if value & 1 else value >> 1  # noqa: PLW2901
        table.append(value)
    return tuple(table)


_CRC64_TABLE: Final = _crc64_table()


def crc64(data: bytes) -> int:
    """Return the original's CRC-64, unsigned: reflected, but with shifts that copy the sign bit.

    No standard CRC-64 gives these values; `crc64(b"123456789")` is 0x096212fa6685bfef.
    """
    table = _CRC64_TABLE
    crc = -1
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc & _MASK64


def check_code(
    dialect: Dialect, message: bytes, *, number: int, key_md5: bytes, packet_code: int
) -> bytes:
    """Return the CheckCode of a plaintext Message: CRC-32 alone (seed), keyed CRC-64 (upstream)."""
    if dialect == "seed":
        return zlib.crc32(message).to_bytes(4, "little")
    tail = key_md5 + packet_code.to_bytes(4, "little")
    return crc64(number.to_bytes(4, "little") + message + tail).to_bytes(8, "little")


# -- encryption and waste --------------------------------------------------------------------------


def xor_crypt(message: bytes, key: bytes, packet_code: int) -> bytes:
    """Encrypt or decrypt: XOR with the repeated key and the repeated packet code."""
    size = len(message)
    code = packet_code.to_bytes(4, "little")
    # One XOR of three big integers: a Python loop over the bytes takes more than ten times as long.
    keys = int.from_bytes((key * (size // len(key) + 1))[:size], "little")
    codes = int.from_bytes((code * (size // 4 + 1))[:size], "little")
    return (int.from_bytes(message, "little") ^ keys ^ codes).to_bytes(size, "little")


def insert_waste(
    dialect: Dialect, message: bytes, waste_bits: int, random: Callable[[int], bytes]
) -> bytes:
    """Surround a Message with `waste_bits` of waste; the extra bytes are drawn from `random`."""
    whole, shift = divmod(waste_bits, 8)
    front = random(whole) if whole else b""
    if not shift:
        return front + message
    if dialect == "seed":
        return front + message + random(1)
    # Upstream: the Message as a bit string, `shift` random bits before it, 8 - shift after it.
    filler, after = random(1)[0], 8 - shift
    value = int.from_bytes(message, "big") << after | filler & ((1 << after) - 1)
    value |= (filler >> after) << (8 * len(message) + after)
    return front + value.to_bytes(len(message) + 1, "big")


def remove_waste(dialect: Dialect, content: bytes, waste_bits: int) -> bytes:
    """Remove the waste, whatever it contains."""
    whole, shift = divmod(waste_bits, 8)
    size = len(content) - whole - (1 if shift else 0)
    if size < 0:
        raise DecodeError("short", "waste")
    if not shift:
        return content[whole:]
    if dialect == "seed":
        return content[whole : whole + size]
    value = int.from_bytes(content[whole:], "big") >> (8 - shift)
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "big")


# -- the context of a direction --------------------------------------------------------------------


class SealedContent(NamedTuple):
    """A transformed Message: its packet number, the content bytes, and the option bits to set."""

    number: int
    content: bytes
    verify: bool
    encrypt: bool
    waste: bool


class PacketContext:
    """Number and keys of one direction of one connection; use it to open or to seal, not both.

    The access id of the first packet fixes the key string; later ones are ignored, as in the
    original. A call that raises leaves the context unchanged.

    A plain packet, one without options, needs no packet code, so its number is only counted and the
    generator catches up when a packet needs a code. Any received packet may need one
    (`read_plain`), so that the distance is bounded there. A writer whose packets are plain never
    needs one (`write_plain`).
    """

    __slots__ = ("_behind", "_codes", "_key_md5", "config", "dialect", "is_plain")

    def __init__(self, dialect: Dialect, config: TransformConfig | None = None):
        if dialect not in get_args(Dialect):
            raise _bad_config("dialect", f"expected one of {', '.join(get_args(Dialect))}")
        self.dialect: Dialect = dialect
        self.config = config if config is not None else TransformConfig()
        self.is_plain = not (self.config.verify or self.config.encrypt or self.config.waste)
        """Whether packets without options are accepted, or are what is written."""
        self._codes: PacketCodes | None = None
        self._behind = 0
        self._key_md5 = b""

    @property
    def access_id(self) -> int | None:
        """The access id that fixed the key string; None before the first packet."""
        return self._codes.access_id if self._codes else None

    @property
    def number(self) -> int:
        """The number of the last packet; 0 before the first."""
        return self._codes.number + self._behind if self._codes else 0

    @property
    def codes(self) -> PacketCodes | None:
        """The packet-code generator at the last packet; None before the first."""
        self._catch_up()
        return self._codes

    def resume(self, codes: PacketCodes) -> None:
        """Continue from the generator of another context with the same keys."""
        self._codes, self._behind = codes, 0
        self._key_md5 = self._digest(codes.access_id)

    @property
    def packet_code(self) -> int:
        """The packet code of the last packet; 0 before the first."""
        self._catch_up()
        return self._codes.packet_code if self._codes else 0

    @property
    def access_key_md5(self) -> bytes:
        """MD5 of the key string, 16 bytes; empty before the first packet."""
        return self._key_md5

    def read_plain(self, number: int) -> bool:
        """Count the number of a plain packet. False: the packet is the first one or not legal,
        nothing has changed, and `open` handles it."""
        if self._codes is None or not self.is_plain:
            return False
        behind = number - self._codes.number
        step = behind - self._behind
        if not 0 < step <= self.config.skip_step or number > _MAX_NUMBER:
            return False
        self._behind = behind
        if behind > _MAX_BEHIND:
            self._catch_up()
        return True

    def write_plain(self) -> int:
        """Return the number of the next packet, which is plain. 0: it is the first one, or has
        options, or no number is left, and nothing has changed."""
        if self._codes is None or not self.is_plain:
            return 0
        self._behind += 1
        number = self._codes.number + self._behind
        if number > _MAX_NUMBER:
            self._behind -= 1
            return 0
        return number

    def _catch_up(self) -> None:
        if self._behind and self._codes is not None:
            self._codes = self._codes.advance(self._codes.number + self._behind)
            self._behind = 0

    def open(
        self,
        access_id: int,
        number: int,
        content: bytes,
        *,
        waste: bool,
        encrypt: bool,
        verify: bool,
    ) -> bytes:
        """Return the plaintext Message in `content`, given the packet's numbers and option bits."""
        # The receiver undoes the sender's steps in reverse (§4). The check code covers the
        # plaintext, so it is compared last; the number is checked before anything is computed.
        self._check_number(number)
        self._check_options(waste=waste, encrypt=encrypt, verify=verify)
        codes, key_md5 = self._at(access_id, number)
        code = codes.packet_code
        body, sent = self._split_check(content) if verify else (content, b"")
        message = remove_waste(self.dialect, body, self._waste_bits(code)) if waste else body
        if encrypt:
            message = xor_crypt(message, self._key(number), code)
        if verify:
            expected = check_code(
                self.dialect, message, number=number, key_md5=key_md5, packet_code=code
            )
            if sent != expected:
                raise DecodeError("verify_failed", "check_code")
        self._codes, self._key_md5, self._behind = codes, key_md5, 0
        return message

    def seal(
        self, access_id: int, message: bytes, *, random: Callable[[int], bytes]
    ) -> SealedContent:
        """Return number and content of the next packet, with every option that is on."""
        number = self.number + 1
        if number > _MAX_NUMBER:
            # The original wraps to a negative number, which its reader then refuses (§3).
            raise EncodeError("int_range", "number", detail="reconnect to start again at 1")
        codes, key_md5 = self._at(access_id, number)
        code, config = codes.packet_code, self.config
        # Order of §4: check code over the plaintext, then encrypt, then waste, check code in clear.
        content, check = message, b""
        if config.verify:
            check = check_code(
                self.dialect, message, number=number, key_md5=key_md5, packet_code=code
            )
        if config.encrypt:
            content = xor_crypt(content, self._key(number), code)
        if config.waste:
            content = insert_waste(self.dialect, content, self._waste_bits(code), random)
        self._codes, self._key_md5, self._behind = codes, key_md5, 0
        return SealedContent(number, content + check, config.verify, config.encrypt, config.waste)

    def _check_number(self, number: int) -> None:
        # A jump of up to `skip_step` is legal and the generator advances once for each number, so
        # that both ends still draw the same code. Beyond it the peer is out of step or hostile
        # (§3).
        if number <= self.number:
            raise DecodeError("number_replayed", "number", detail=f"{number} after {self.number}")
        if number - self.number > self.config.skip_step:
            raise DecodeError("number_skipped", "number", detail=f"{number} after {self.number}")
        if number > _MAX_NUMBER:
            raise DecodeError("int_range", "number")

    def _check_options(self, *, waste: bool, encrypt: bool, verify: bool) -> None:
        if self.config.verify and not verify:
            raise DecodeError("verify_required", "option")
        if self.config.encrypt and not encrypt:
            raise DecodeError("encrypt_required", "option")
        if self.config.waste and not waste:
            raise DecodeError("waste_required", "option")
        if encrypt and not self.config.security_keys:
            raise DecodeError("bad_key", "option", detail="packet is encrypted; no key configured")

    def _at(self, access_id: int, number: int) -> tuple[PacketCodes, bytes]:
        """Return the generator advanced to `number` and the MD5 of its key string; no change
        yet."""
        if self._codes is not None:
            return self._codes.advance(number), self._key_md5
        key = key_string(access_id, self.config.security_keys)
        return PacketCodes.start(access_id, key).advance(number), self._digest(access_id)

    def _digest(self, access_id: int) -> bytes:
        key = key_string(access_id, self.config.security_keys)
        return hashlib.md5(key.encode(), usedforsecurity=False).digest()

    def _key(self, number: int) -> bytes:
        keys = self.config.security_keys
        return keys[number % len(keys)].encode()

    def _waste_bits(self, code: int) -> int:
        return code % self.config.max_waste_bits

    def _split_check(self, content: bytes) -> tuple[bytes, bytes]:
        cut = len(content) - CHECK_BYTES[self.dialect]
        if cut < 0:
            raise DecodeError("short", "check_code")
        return content[:cut], content[cut:]


# -- captures --------------------------------------------------------------------------------------


_FLAGS = ("verify", "encrypt", "waste")
_NUMBERS = ("max_waste_bits", "skip_step")


class Opener:
    """Opens the packets of one direction of a captured connection, from any packet on.

    Without keys it reads packets that are not transformed, and leaves the others sealed.
    """

    keys_text: ClassVar[str] = '{"security_keys": ["text"]}, and options of the packet transform'

    def __init__(
        self,
        keys: dict[str, Any],
        direction: Direction | None,  # noqa: ARG002 - the same signature for every protocol
        dialect: str,
    ):
        known: Dialect = "upstream" if dialect == "upstream" else "seed"
        self._dialect = dialect
        self._context = PacketContext(known, _config(keys)) if keys else None

    @property
    def memory(self) -> list[int] | None:
        """The packet-code generator at the last packet, as data; None before the first packet.

        Another opener with the same keys can continue from it.
        """
        codes = None if self._context is None else self._context.codes
        return None if codes is None else list(msgspec.structs.astuple(codes))

    @memory.setter
    def memory(self, saved: list[int]) -> None:
        if self._context is not None:
            self._context.resume(PacketCodes(*saved))

    def open(self, message: Any, raw: bytes) -> dict[str, object]:  # noqa: ARG002
        """Return `content`, the plaintext, and `message`, the Message in it."""
        if not isinstance(message, Packet) or not isinstance(message.body, Envelope):
            return {}
        content = self._plaintext(message, message.body)
        if content is None:
            return {}
        read = PROTOCOL.codec(self._dialect).read_message
        inner, stop = read(content, 0, len(content))
        if stop != len(content):
            raise DecodeError("trailing_bytes", "message", stop, f"{len(content) - stop} left")
        return {"content": content, "message": inner}

    def _plaintext(self, packet: Packet, envelope: Envelope) -> bytes | None:
        if self._context is not None:
            return self._context.open(
                envelope.access_id,
                envelope.number,
                envelope.content,
                waste=packet.waste,
                encrypt=packet.encrypt,
                verify=packet.verify,
            )
        sealed = packet.waste or packet.encrypt or packet.verify
        return None if sealed else envelope.content


def _config(keys: dict[str, Any]) -> TransformConfig:
    known = ("security_keys", *_FLAGS, *_NUMBERS)
    for name in keys:
        if name not in known:
            raise ValueError(f"unknown key {name!r}; expected one of {', '.join(known)}")
    texts = keys.get("security_keys", [])
    if not isinstance(texts, list):
        raise ValueError("security_keys: expected a list of strings")
    # A capture may begin in the middle of a connection: its first number may be far from 1.
    options: dict[str, Any] = {"skip_step": MAX_SKIP_STEP}
    for name in (*_FLAGS, *_NUMBERS):
        if name not in keys:
            continue
        kind, text = (bool, "true or false") if name in _FLAGS else (int, "an integer")
        if type(keys[name]) is not kind:
            raise ValueError(f"{name}: expected {text}")
        options[name] = keys[name]
    return TransformConfig(security_keys=tuple(texts), **options)
