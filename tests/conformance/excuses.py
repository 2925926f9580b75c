"""Alterations of vectors that no reader can notice, by name and with a reason.

`mutation.py` changes a vector one leaf or one byte at a time, and the vector must then fail. What
is listed here is all that may pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from wirelake.conformance.esnp import DIALECTS, NAMED_KINDS, row_spans
from wirelake.conformance.expectation import Context, Expect, Vector
from wirelake.conformance.tny import DIALECTS as TNY_DIALECTS
from wirelake.conformance.tny import Connection, arguments_view, option_of, relay_view
from wirelake.protocols.esnp.layout import RowType
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE_PROTOCOL
from wirelake.protocols.tny.layout import Envelope
from wirelake.protocols.tny.protocol import PROTOCOL as TNY_PROTOCOL
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire.errors import NeedMore, WireError

__all__ = ["EXCUSES", "Alteration", "Excuse"]


@dataclass(frozen=True, slots=True)
class Alteration:
    """One thing changed in a vector: a leaf of `expect` (by path), or a byte of `hex`."""

    path: tuple[str | int, ...] = ()
    offset: int | None = None
    flip: int = 0
    """The bits of the byte that are the other way round."""

    def __str__(self) -> str:
        if self.offset is not None:
            return f"byte {self.offset} of hex by {self.flip:#04x}"
        return "expect" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path)


@dataclass(frozen=True, slots=True)
class Excuse:
    """A kind of alteration that no reader of the vector can notice, by name, with the reason.

    `covers(vector, altered, alteration)` must be as narrow as the reason.
    """

    name: str
    reason: str
    covers: Callable[[dict[str, Any], dict[str, Any], Alteration], bool]


# -- esnp ------------------------------------------------------------------------------------------


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


_ESNP: Final = (
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


# -- tny -------------------------------------------------------------------------------------------


def _waste(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether only the contents of waste bytes differ."""
    if alteration.offset is None or raw["expect"].get("waste") is not True:
        return False
    return _plain(raw) == _plain(altered)


def _plain(raw: dict[str, Any]) -> tuple[Any, ...]:
    """Everything in a packet but its waste."""
    vector = Vector(raw)
    dialect = TNY_DIALECTS[raw["dialect"]][0]
    config = Expect(raw.get("config", {}), "config")
    opened = Connection(vector, config, dialect, Context(thorough=False)).open(0)
    body = opened.packet.body
    assert isinstance(body, Envelope)
    return (option_of(opened.packet), len(raw["hex"]), body.access_id, body.number, opened.plain)


def _surplus(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether the bits of a varint beyond its width differ, which upstream drops."""
    if alteration.offset is None or raw["dialect"] != "upstream" or "number" not in raw["expect"]:
        return False
    messages = []
    for one in (raw, altered):
        vector = Vector(one)
        connection = Connection(vector, Expect({}, "config"), "upstream", Context(thorough=False))
        opened = connection.open(0)
        messages.append((opened.message, option_of(opened.packet), len(vector.data)))
    return messages[0] == messages[1]


def _stream(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    """Whether a byte belongs to what a stream's entry does not mention, or to a refused packet."""
    if alteration.offset is None or "stream" not in raw["expect"]:
        return False
    data, dialect, start = bytes.fromhex(raw["hex"]), TNY_DIALECTS[raw["dialect"]][0], 0
    for entry in raw["expect"]["stream"]:
        stop = TNY_PROTOCOL.scan(data, start, dialect=dialect)
        if start <= alteration.offset < stop:
            return "error" in entry or _part(data, start, alteration.offset) not in entry
        start = stop
    return False


def _unknown_field(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether two relay packets differ only in protobuf fields that have no name."""
    if alteration.offset is None or raw["expect"].get("packet") != "relay":
        return False
    dialect = TNY_DIALECTS[raw["dialect"]][0]
    one, other = (
        RELAY.decode(bytes.fromhex(v["hex"]), dialect=dialect).message for v in (raw, altered)
    )
    views = [arguments_view(packet.arguments) for packet in (one, other)]
    return bool(views[0].pop("unknown", "") and views[1].pop("unknown", "")) and (
        views[0] == views[1] and relay_view(one, 0) == relay_view(other, 0)
    )


def _part(data: bytes, start: int, offset: int) -> str:
    """The key that speaks of a byte of the packet that begins at `start`."""
    if offset < start + 9:
        return "option" if offset == start + 4 else "packet"
    pos = start + 9
    for name in ("access_id", "number"):
        while data[pos] >= 0x80:
            pos += 1
        pos += 1
        if offset < pos:
            return name
    return "message"


_TNY: Final = (
    Excuse("tny-waste-contents", "waste bytes and bits may hold anything", _waste),
    Excuse(
        "tny-surplus-varint-bits",
        "dialect upstream reads up to ten bytes of a varint and drops the bits beyond its width",
        _surplus,
    ),
    Excuse(
        "tny-stream-part-not-mentioned",
        "an entry of a stream lists some fields of its packet, and of a refused one only the error",
        _stream,
    ),
    Excuse(
        "tny-unknown-field-not-mentioned",
        "protobuf fields without a name are kept and written back, but a vector need not list them",
        _unknown_field,
    ),
)


# -- magline ---------------------------------------------------------------------------------------


def _one_outcome(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    expect = raw["expect"]
    if alteration.path == ("expected_seq",):
        return expect.get("error") in ("bad_record", "bad_state")
    return alteration.path == ("resumption_secret",) and expect.get("error") == "session_unknown"


def _unknown_option(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether two frames differ only in what an unknown option holds."""
    if alteration.offset is None or "unknown_options" not in raw["expect"].get("fields", {}):
        return False
    one, other = (MAGLINE_PROTOCOL.decode(bytes.fromhex(v["hex"])).message for v in (raw, altered))
    names = [name for name in one.__struct_fields__ if name != "unknown_options"]
    bits = [[bit for bit, _ in frame.unknown_options] for frame in (one, other)]
    return bits[0] == bits[1] and all(getattr(one, n) == getattr(other, n) for n in names)


_MAGLINE: Final = (
    Excuse(
        "magline-one-outcome",
        "a frame that is refused anyway is refused alike for a wrong Seq or secret: by design the "
        "peer cannot tell",
        _one_outcome,
    ),
    Excuse(
        "magline-unknown-option-contents",
        "the vector names the bit of an unknown option, not what it holds",
        _unknown_option,
    ),
)


# -- comet -----------------------------------------------------------------------------------------


def _length_only(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    fields = raw["expect"].get("fields", {})
    names = [key.removesuffix("_len") for key in fields if key.endswith("_len")]
    given = [name for name in names if name in fields or f"{name}_hex" in fields]
    return alteration.offset is not None and len(given) < len(names)


def _ends_only(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    fields = raw["expect"].get("fields", {})
    return alteration.offset is not None and {"count", "first", "last"} <= fields.keys()


_COMET: Final = (
    Excuse(
        "comet-given-by-length",
        "the vector gives a long text by its length alone (x_len)",
        _length_only,
    ),
    Excuse(
        "comet-given-by-its-ends",
        "the vector gives a long list by its size, its first and its last item",
        _ends_only,
    ),
)

EXCUSES: Final[dict[str, tuple[Excuse, ...]]] = {
    "esnp": _ESNP,
    "tny": _TNY,
    "magline": _MAGLINE,
    "comet": _COMET,
}
"""The excuses of each protocol."""
