"""Alterations of ESNP vectors that no reader can notice, by name and with a reason.

`wirelake conform --mutate` changes a vector one leaf or one byte at a time, and the vector must
then fail. What is listed here is all that may pass.
"""

from __future__ import annotations

from typing import Any, Final

from wirelake.wire.errors import NeedMore, WireError

from ..expectation import Alteration, Excuse
from .layout import RowType
from .protocol import PROTOCOL
from .vectors_rows import (
    DIALECTS,
    NAMED_KINDS,
    row_spans,
)

__all__ = ["EXCUSES"]

_SPEAKS_OF: Final[dict[str, tuple[int, ...]]] = {
    "flags": (RowType.FLAG,),
    "kind": (RowType.FLAG,),
    "is_request": (RowType.FLAG,),
    "is_response": (RowType.FLAG,),
    "message_id": (RowType.MESSAGE_ID,),
    "source_message_id": (RowType.SOURCE_MESSAGE_ID,),
    "seq": (RowType.SEQ_NO,),
    "is_last": (RowType.SEQ_NO,),
    "complete_after": (RowType.SEQ_NO, RowType.SOURCE_MESSAGE_ID),
    "depth": (RowType.DATA,),
    "values": (RowType.ADDRESS,),
    **dict.fromkeys(NAMED_KINDS, (RowType.ADDRESS,)),
}


def _unmentioned(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    """Whether a byte is in a row of which no key of the vector speaks."""
    expect = raw["expect"]
    if alteration.offset is None or {"rows", "request_hex", "codec"} & expect.keys():
        return False
    said = {**expect, **expect.get("lenient", {})}
    spoken = {number for key in said for number in _SPEAKS_OF.get(key, ())}
    for number, start, stop in row_spans(bytes.fromhex(raw["hex"])):
        if not start <= alteration.offset < stop:
            continue
        at = alteration.offset - start
        if number in spoken:
            # `depth` says nothing of the name before the Var.
            return "depth" in said and number == RowType.DATA and at == 5
        return at >= 4 or (at == 0 and "rows_types" not in said)
    return False


def _varint_value(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    named = raw["name"].startswith("int_") and "value" not in raw["expect"]
    return named and alteration.offset is not None


def _nan_bits(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    named = raw["name"].startswith("prim_") and raw["expect"].get("value") == "NaN"
    return named and alteration.offset is not None


def _same_value(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether both are forms of one value, of which a reader tolerates all and writes one."""
    if alteration.offset is None:
        return False
    data, other = (bytes.fromhex(one["hex"]) for one in (raw, altered))
    dialect = DIALECTS.get(raw["expect"].get("container_count", "zigzag"))
    try:
        (one, stop), (two, _) = (PROTOCOL.decode(some, dialect=dialect) for some in (data, other))
        plain, other_plain = (PROTOCOL.encode(some, dialect=dialect) for some in (one, two))
    except (NeedMore, WireError):
        return False
    return stop == len(data) and plain == other_plain


EXCUSES: Final = (
    Excuse(
        "esnp-row-not-mentioned",
        "the vector lists views of the message, none of which speaks of this row",
        _unmentioned,
    ),
    Excuse(
        "esnp-varint-value-not-mentioned",
        "the vector says how many bytes a varint takes, not its value",
        _varint_value,
    ),
    Excuse("esnp-nan-bits", "a bare NaN is given by its name, not by its bits", _nan_bits),
    Excuse(
        "esnp-another-form-of-the-same-value",
        "a Bool other than 0 and 1 reads as true whichever it is; so do long varints",
        _same_value,
    ),
)
"""Alterations of ESNP vectors that no reader can notice."""
