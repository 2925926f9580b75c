"""Errors of encoding and decoding: one list of codes, three exceptions.

    WireError            the bytes, or the value to encode, break a rule
      DecodeError        ... found while reading bytes (the peer's fault)
      EncodeError        ... found while writing a value (the caller's fault)
    NeedMore             not an error: the bytes so far are the start of something

Every decoder in the tree returns a value or raises one of `DecodeError` and `NeedMore`;
every encoder returns bytes or raises `EncodeError`. Nothing else escapes, whatever the input.

A code is stable: tools, tables and peers may rely on it. `CODES` is the one list; the page
`docs/reference/errors.md` is made from it, and a test refuses a code that is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = [
    "CODES",
    "DecodeError",
    "EncodeError",
    "NeedMore",
    "WireError",
    "did_you_mean",
    "invalid",
    "missing_dependency",
    "unknown",
]


CODES: Final[dict[str, str]] = {
    # -- reading and writing fields -------------------------------------------------------
    "short": "a field extends beyond the end of its frame, row or slice",
    "length_overrun": "a length or a count exceeds the remaining bytes",
    "negative_length": "a length or a count is negative",
    "varint_truncated": "a varint is cut off by the end of its slice",
    "varint_overflow": "a varint is longer than ten bytes or exceeds 64 bits",
    "int_range": "an integer does not fit the width of its type",
    "bad_bool": "a boolean is neither 0 nor 1",
    "invalid_utf8": "a string is not valid UTF-8",
    "trailing_bytes": "unexpected bytes follow the last field",
    "reserved_value": "a field has a value that the document does not define",
    # -- framing --------------------------------------------------------------------------
    "bad_magic": "the frame does not start with the magic value",
    "bad_version": "the frame has an unsupported version",
    "bad_length": "a length contradicts the layout: too small, or wrong for a fixed size",
    "too_large": "a frame, row or message exceeds the limit or the range of its length field",
    "too_deep": "values are nested deeper than the limit",
    "too_many": "a message has more rows or values than the limit",
    "unknown_type": "unknown type number of a command, row, packet or value",
    "unknown_var_type": "unknown type number of a Var",
    "bad_arguments": "the protobuf arguments of a packet are malformed",
    # -- ESNP -----------------------------------------------------------------------------
    "bad_end": "an END row carries data",
    "row_order": "a head row follows a body row (strict, revision lines)",
    "duplicate_row": "a row that may occur once occurs again (strict)",
    "seq_range": "a sequence number is below 1, or above its maximum (strict)",
    "bad_url": "an esnp:// address cannot be parsed or written",
    # -- magline --------------------------------------------------------------------------
    "magic_mismatch": "a control command has the magic value of data, or vice versa",
    "bad_header": "Head Length and Head Optional contradict each other or the message",
    "bad_option": "an option is unknown and critical, of the wrong size, or on the wrong command",
    "handshake_failed": "the key agreement failed: zero secret, wrong key, or a bad ACK tag",
    "session_unknown": "no resumable session matches this id and binder",
    "bad_state": "a command is not allowed in this state or direction",
    # -- integrity and secrecy ------------------------------------------------------------
    "bad_record": "an authentication tag or a sequence number is wrong; the record is discarded",
    "bad_key": "a key cannot be loaded or unwrapped, or is too weak",
    "bad_config": "invalid configuration of keys or options",
    "verify_required": "the receiver requires a check code, and the packet has none",
    "encrypt_required": "the receiver requires encryption, and the packet is not encrypted",
    "waste_required": "the receiver requires waste bytes, and the packet has none",
    "verify_failed": "the check code does not match the message",
    "number_replayed": "a packet number was seen before",
    "number_skipped": "a packet number is too far ahead of the last one",
    # -- sessions -------------------------------------------------------------------------
    "timeout": "a reply, a handshake or an authentication timed out",
    "idle": "no data from the peer for longer than the limit",
    "unexpected_reply": "a reply matches no request, or not its kind",
    "auth_failed": "authentication failed finally or too often",
    "too_busy": "too many operations are in progress",
    "connection_lost": "the connection ended before the reply arrived",
    # -- values ---------------------------------------------------------------------------
    "bad_value": "a value to encode has the wrong type or contradicts another value",
    "bad_args": "the arguments of a well-formed command violate a rule of the protocol",
}
"""Every code with its meaning."""

_GENERAL: Final = frozenset({"bad_args", "bad_config", "bad_value"})
"""Codes of such different mistakes that their meaning adds nothing to a detail."""


class WireError(Exception):
    """The base of encoding and decoding errors.

    `code` is from `CODES`; `offset` is the byte where it shows, counted from the start of
    the buffer that was given (None when there are no bytes); `field` is the dotted name of
    the field, such as `auth.client_id`; `detail` is a text for people.
    """

    __slots__ = ("code", "detail", "field", "offset")

    def __init__(self, code: str, field: str = "", offset: int | None = None, detail: str = ""):
        super().__init__(code, field, offset, detail)
        self.code = code
        self.field = field
        self.offset = offset
        self.detail = detail

    def __str__(self) -> str:
        where = f" in {self.field}" if self.field else ""
        at = f" at byte {self.offset}" if self.offset is not None else ""
        text = CODES.get(self.code, "unlisted code")
        if self.detail:
            text = self.detail if self.code in _GENERAL else f"{text} ({self.detail})"
        return f"{self.code}{where}{at}: {text}"


class DecodeError(WireError):
    """Bytes are invalid; raised by decoders only."""

    __slots__ = ()


class EncodeError(WireError):
    """A value does not fit its layout; raised by encoders only."""

    __slots__ = ()


class NeedMore(Exception):  # noqa: N818 - a result, not an error
    """The bytes are a proper prefix of a frame: at least `need` more are required.

    `resume` is where a scan may go on when they are there, instead of at the frame's start;
    None when only the start will do.
    """

    __slots__ = ("need", "resume")

    def __init__(self, need: int, resume: int | None = None):
        super().__init__(need, resume)
        self.need = need
        self.resume = resume

    def __str__(self) -> str:
        return f"need at least {self.need} more byte{'s' if self.need != 1 else ''}"


# -- texts that several packages share, so that the same mistake reads the same everywhere ---------


def unknown(kind: str, name: object, known: Iterable[object], *, of: str = "") -> str:
    """Return the text for a name that is not among the known ones; `of` is whose name it is.

    It lists the known names, and repeats those that are spelled similarly.
    """
    names = [str(each) for each in known]
    problem = f"unknown {kind} {name!r}{f' of {of}' if of else ''}"
    if not names:
        return f"{problem}; there are none"
    if len(names) == 1:
        return f"{problem}; expected {names[0]}"
    return f"{problem}; expected one of {', '.join(names)}{did_you_mean(name, names)}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `; did you mean …?` with the known names that are similar; empty without one."""
    from difflib import get_close_matches  # 5 ms, and only a mistake needs it

    # The dashes of options would count as similar letters.
    by_case = {each.lstrip("-").lower(): each for each in known}
    similar = get_close_matches(str(name).lstrip("-").lower(), by_case, 3, 0.6)
    return f"; did you mean {' or '.join(by_case[each] for each in similar)}?" if similar else ""


def invalid(kind: str, value: object, expected: str) -> str:
    """Return the text for a value that cannot be parsed or is out of range."""
    return f"invalid {kind} {value!r}; expected {expected}"


def missing_dependency(name: str, extras: str) -> str:
    """Return the text for a package that is not installed, with the extras that bring it."""
    return f"missing optional dependency {name}: pip install 'wirelake[{extras}]'"
