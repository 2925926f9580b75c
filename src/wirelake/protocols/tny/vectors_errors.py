"""What the tny vectors call errors, and our codes and fields: one table."""

from __future__ import annotations

from typing import Final

from wirelake.wire.errors import WireError

from ..expectation import ErrorClass, classify

__all__ = ["CLASSES", "ERRORS", "INCOMPLETE", "class_of"]

_LENGTH = ("length_overrun", "negative_length")
_CUT = ("short", "varint_truncated")
_VARINT = ("varint_overflow", "int_range")

ERRORS: Final = (
    ErrorClass("bad_magic", ("bad_magic",), r"packet\.head"),
    ErrorClass("reserved_type", ("unknown_type",), r"packet\.type"),
    ErrorClass("payload_too_long", ("too_large",), r"envelope\.length"),
    ErrorClass("payload_truncated", _CUT, r"envelope\..*|check_code|waste"),
    ErrorClass("bad_varint", _VARINT, r"(envelope|message)\..*|number"),
    ErrorClass("number_replayed", ("number_replayed",), "number"),
    ErrorClass("number_skipped", ("number_skipped",), "number"),
    ErrorClass("verify_required", ("verify_required",), "option"),
    ErrorClass("encrypt_required", ("encrypt_required",), "option"),
    ErrorClass("waste_required", ("waste_required",), "option"),
    ErrorClass("verify_failed", ("verify_failed",), "check_code"),
    ErrorClass("message_truncated", _CUT, r"message\..*"),
    ErrorClass("bad_mode", ("reserved_value",), r"message\.mode"),
    ErrorClass("header_length", _LENGTH, r"message\.(forward_header|headers)"),
    ErrorClass("body_length", _LENGTH, r"message\.body"),
    ErrorClass("trailing_bytes", ("trailing_bytes",), "message"),
    # The same errors inside a relay packet, whose fields are named after `relay:` here.
    ErrorClass("relay_bad_magic", ("bad_magic",), r"relay:relay_packet\.head"),
    ErrorClass("relay_length", ("bad_length", "too_large"), r"relay:relay_packet\.length"),
    ErrorClass("relay_unknown_type", ("unknown_type",), r"relay:relay_packet\.(mark|sub_id)"),
    ErrorClass(
        "relay_bad_arguments",
        (
            *_LENGTH,
            *_CUT,
            *_VARINT,
            "bad_arguments",
            "bad_length",
            "invalid_utf8",
            "reserved_value",
            "too_deep",
            "trailing_bytes",
        ),
        r"relay:(?!relay_packet\.(head|length|mark|sub_id)).*",
    ),
)
"""Classes of the vectors, and our codes and fields."""
INCOMPLETE: Final = "incomplete"
"""The class of *need more*."""
CLASSES: Final = (INCOMPLETE, *(line.name for line in ERRORS))
"""Every class that a vector may name."""


def class_of(error: WireError, relay: bool) -> str:
    """The class of an error, told apart by the decoder that raised it."""
    field = f"relay:{error.field}" if relay else error.field
    return classify(ERRORS, WireError(error.code, field))
