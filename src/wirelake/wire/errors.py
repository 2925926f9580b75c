"""What can go wrong between bytes and values: one list of codes, three exceptions.

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

from typing import Final

__all__ = ["CODES", "DecodeError", "EncodeError", "NeedMore", "WireError"]

CODES: Final[dict[str, str]] = {
    # -- reading and writing fields -------------------------------------------------------
    "short": "a field needs more bytes than its frame, row or slice has left",
    "length_overrun": "a length or a count promises more than the bytes that are left",
    "negative_length": "a length or a count is below zero",
    "varint_truncated": "a varint has no last byte before its slice ends",
    "varint_overflow": "a varint is longer than ten bytes, or its bits do not fit 64",
    "int_range": "an integer does not fit the width that its type has",
    "bad_bool": "a boolean is neither 0 nor 1",
    "invalid_utf8": "a string is not valid UTF-8",
    "trailing_bytes": "bytes are left over after the last field",
    "reserved_value": "a field holds a value that its document leaves undefined",
    # -- framing --------------------------------------------------------------------------
    "bad_magic": "the frame does not begin with its magic value",
    "bad_version": "the frame is of a version that this protocol does not speak",
    "bad_length": "a length contradicts the layout: too small, or wrong for a fixed size",
    "too_large": "a frame, row or message is over the limit, or over what its length can say",
    "too_deep": "values are nested deeper than the limit",
    "too_many": "a message has more rows or values than the limit",
    "unknown_type": "no command, row, packet or value has this type number",
    "unknown_var_type": "no Var has this type number",
    "bad_arguments": "the protobuf arguments of a packet are malformed",
    # -- ESNP -----------------------------------------------------------------------------
    "bad_end": "an END row carries data",
    "row_order": "a head row follows a body row (strict, revision lines)",
    "duplicate_row": "a row that may occur once occurs again (strict)",
    "seq_range": "a sequence number is below 1, or above its maximum (strict)",
    "bad_url": "an esnp:// address cannot be parsed or written",
    # -- magline --------------------------------------------------------------------------
    "magic_mismatch": "a control command has the magic of data, or the other way round",
    "bad_header": "Head Length and Head Optional contradict each other or the message",
    "bad_option": "an option is unknown and critical, of the wrong size, or on the wrong command",
    "handshake_failed": "the key agreement failed: zero secret, wrong key, or a bad ACK tag",
    "session_unknown": "no session can be resumed with this id and binder",
    "bad_state": "a command is not legal now, or not in this direction",
    # -- integrity and secrecy ------------------------------------------------------------
    "bad_record": "an authentication tag or a sequence number is wrong: nothing is delivered",
    "bad_key": "a key does not load, has a weak type, or does not unwrap",
    "bad_config": "keys or options are configured in a way that cannot work",
    "verify_required": "this receiver wants a check code and the packet has none",
    "encrypt_required": "this receiver wants encryption and the packet has none",
    "waste_required": "this receiver wants waste bytes and the packet has none",
    "verify_failed": "the check code does not match the message",
    "number_replayed": "a packet number was seen before",
    "number_skipped": "a packet number is too far ahead of the last one",
    # -- sessions -------------------------------------------------------------------------
    "timeout": "an answer, a handshake or an authentication did not come in time",
    "idle": "the peer said nothing for longer than the limit",
    "unexpected_reply": "a reply came that answers nothing, or not what was asked",
    "auth_failed": "the peer did not prove who it is, too often or finally",
    "too_busy": "more is under way than the limit allows",
    "connection_lost": "the connection ended before the answer came",
    # -- values ---------------------------------------------------------------------------
    "bad_value": "a value to encode has the wrong type, or contradicts another",
    "bad_args": "a command is well formed but its arguments break a rule of the protocol",
}
"""Every code with its meaning."""


class WireError(Exception):
    """A rule of the wire is broken.

    `code` is from `CODES`; `offset` is the byte where it shows, counted from the start of
    the buffer that was given (None when there are no bytes); `field` is the dotted name of
    the field, such as `auth.client_id`; `detail` says more to a person.
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
        more = f" ({self.detail})" if self.detail else ""
        return f"{self.code}{where}{at}: {CODES.get(self.code, 'unlisted code')}{more}"


class DecodeError(WireError):
    """Bytes break a rule; raised by decoders only."""

    __slots__ = ()


class EncodeError(WireError):
    """A value does not fit its layout; raised by encoders only."""

    __slots__ = ()


class NeedMore(Exception):  # noqa: N818 - it is an answer, not an error
    """The bytes given are a proper prefix: at least `need` more are wanted.

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
