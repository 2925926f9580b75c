"""ESNP, service calls and events: rows, `Var` values (seeds 000 *frames* and 001 *lines*).

A message is rows up to an END row. Both revisions write the same bytes; they differ in the order
of rows, the meaning of flag 7 and the URL form of an address (`message.py`, `address.py`).

A row of unknown, reserved, cancelled or application type is an `OpaqueRow` and keeps its bytes. A
row whose content is invalid is a `BrokenRow` with the reason; the rest of the message stays
readable. Dialect `go` counts the items of Map and List as the original Go code does. See
`docs/decisions/esnp.md`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar, Literal

from wirelake.wire.types import (
    U8,
    U64,
    Blob,
    Bool,
    ByDialect,
    DynamicMark,
    Float,
    Int,
    ItemsOf,
    Layout,
    Names,
    PairsOf,
    Rest,
    RestString,
    RowsMark,
    VarI32,
    Varint,
)

Dialect = Literal["seed", "go"]
"""How Map and List count their items; `go` as in the original's Go programs."""


class RowType(IntEnum):
    """The rows that the documents name; 0x01-0x0F are reserved, 0x80-0xFF the application's."""

    END = 0x00
    SESSION_INFO = 0x10
    MESSAGE_ID = 0x11
    SOURCE_MESSAGE_ID = 0x12
    # Cancelled, as TRACE and TRACE_RESP: no layout, so they are carried as bytes and never created.
    # Early Go servers still send the trace rows (section 2).
    MESSAGE_KIND = 0x13
    HEADER = 0x14
    DATA = 0x15
    PAYLOAD = 0x16
    ADDRESS = 0x17
    SOURCE_ADDRESS = 0x18
    TRACE = 0x19
    TRACE_RESP = 0x1A
    SEQ_NO = 0x1B
    XDATA = 0x1C
    ERROR = 0x1D
    FLAG = 0x1E
    VERSION = 0x1F


class FlagType(IntEnum):
    """Flags, the kind of a message; 128 and above belong to the application."""

    TRACE = 1
    TRACE_INFO = 2
    RESP = 3
    REQUEST = 4
    INFO = 5
    EVENT = 6
    ASYNC = 7


# The numbers of Go's `reflect.Kind`. Go writers never produce INT and UINT, but readers must accept
# them (section 2).
class VarType(IntEnum):
    """The types of a `Var`."""

    NULL = 0
    BOOL = 1
    INT = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    UINT = 7
    UINT8 = 8
    UINT16 = 9
    UINT32 = 10
    UINT64 = 11
    FLOAT32 = 13
    FLOAT64 = 14
    LEN_BYTES = 17
    MAP = 21
    LIST = 23
    LEN_STRING = 24


class AddressKind(IntEnum):
    """The parts of an address; any other number is allowed."""

    OBJECT = 10
    OP = 20
    SERVICE = 30
    HOST = 40
    GROUP = 50


# Text that is not UTF-8 is refused here; the originals never check (section 2).
LEN_STRING = Blob(Varint(32, "zigzag"), "strict")
"""LenString: its length is a signed Int, so zigzag."""
LenString = Annotated[str, LEN_STRING]
"""A string behind its length."""

# The documents and the C++ client count items in zigzag, every Go server in plain varints: a list
# of three begins 17 06 or 17 03. The bytes do not tell which, so the dialect does (section 0).
_COUNT = ByDialect(Varint(32, "zigzag"), {"go": Varint(32)})


class Var(Layout):
    """A self-describing value. A Map's value is a tuple of (key, Var), a List's of Var."""

    type: int
    """Type number."""
    value: object = None
    """The value."""


AnyVar = Annotated[
    Var,
    DynamicMark(
        tag=Int(1),
        names=VarType,
        kinds={
            VarType.NULL: None,
            # Any byte but 0 is true (section 2).
            VarType.BOOL: Bool(strict=False),
            VarType.INT: Varint(32, "zigzag"),
            VarType.INT8: Int(1, signed=True),
            VarType.INT16: Varint(16, "zigzag"),
            VarType.INT32: Varint(32, "zigzag"),
            VarType.INT64: Varint(64, "zigzag"),
            VarType.UINT: Varint(32),
            VarType.UINT8: Int(1),
            VarType.UINT16: Varint(16),
            VarType.UINT32: Varint(32),
            VarType.UINT64: Varint(64),
            VarType.FLOAT32: Float(4),
            VarType.FLOAT64: Float(8),
            VarType.LEN_BYTES: Blob(Varint(32, "zigzag")),
            VarType.MAP: PairsOf(LEN_STRING, _COUNT),
            VarType.LIST: ItemsOf(_COUNT),
            VarType.LEN_STRING: LEN_STRING,
        },
    ),
]
"""A `Var` in a row."""


class SessionInfo(Layout):
    """MT_SESSION_INFO, a body row: a response copies it back. Several may occur."""

    name: LenString
    """Name."""
    value: AnyVar
    """Value."""


class MessageId(Layout):
    """MT_MESSAGE_ID, a head row: unique on its channel."""

    value: U64
    """The id; 0 is never originated."""


class SourceMessageId(Layout):
    """MT_SOURCE_MESSAGE_ID, a head row: which message a response answers."""

    value: U64
    """The id of that message."""


class Header(Layout):
    """MT_HEADER, a body row. Several may occur."""

    name: LenString
    """Name."""
    value: AnyVar
    """Value."""


class Data(Layout):
    """MT_DATA, a body row. Several may occur."""

    name: LenString
    """Name."""
    value: AnyVar
    """Value."""


class Payload(Layout):
    """MT_PAYLOAD, a body row: bytes of the application. Several may occur."""

    data: Rest
    """The bytes."""


class Address(Layout):
    """MT_ADDRESS, a head row: where the message goes. One for each kind."""

    kind: Annotated[VarI32, Names(AddressKind)]
    """Which part of the address."""
    value: LenString
    """That part."""


class SourceAddress(Layout):
    """MT_SOURCE_ADDRESS, a head row: where the message comes from."""

    kind: Annotated[VarI32, Names(AddressKind)]
    """Which part of the address."""
    value: LenString
    """That part."""


class SeqNo(Layout):
    """MT_SEQ_NO, a head row: one of several messages that belong together."""

    current: VarI32
    """Number of this message, from 1."""
    maximum: VarI32 = 0
    """Number of the last one; 0 when unknown."""


class XData(Layout):
    """MT_XDATA, a body row: custom data by number. Several may occur."""

    wire_name: ClassVar[str] = "xdata"

    id: VarI32
    """Number."""
    # Not a Var: the originals also put bare strings, booleans and varints here (section 2).
    data: Rest = b""
    """Bytes of the application; by convention a Var."""


class Error(Layout):
    """MT_ERROR, a head row: on a response, the request failed, even when the text is empty."""

    value: RestString
    """What went wrong."""


class Flag(Layout):
    """MT_FLAG, a head row: one flag. Several may occur; together they are a set."""

    value: Annotated[VarI32, Names(FlagType)]
    """The flag."""


class Version(Layout):
    """MT_VERSION, a head row."""

    major: U8
    """Main version."""
    minor: U8
    """Minor version."""
    branch: U8
    """Branch number."""
    variant: U8
    """Variant number."""


class OpaqueRow(Layout):
    """A row whose type has no declared layout: its bytes are carried."""

    type: int
    """Row type."""
    data: bytes = b""
    """Its bytes."""


class BrokenRow(Layout):
    """A row with invalid content: its bytes are carried, with the error."""

    type: int
    """Row type."""
    data: bytes
    """Its bytes."""
    code: str
    """Code of the error."""
    field: str
    """The invalid field."""
    offset: int
    """Offset of the error in the row's data."""


Row = (
    SessionInfo
    | MessageId
    | SourceMessageId
    | Header
    | Data
    | Payload
    | Address
    | SourceAddress
    | SeqNo
    | XData
    | Error
    | Flag
    | Version
    | OpaqueRow
    | BrokenRow
)


class Message(Layout):
    """Rows up to an END row."""

    section: ClassVar[str] = "消息结构"

    rows: Annotated[
        tuple[Row, ...],
        RowsMark(
            tag=Int(1),
            size=Int(3),
            end=RowType.END,
            kinds={
                RowType.SESSION_INFO: SessionInfo,
                RowType.MESSAGE_ID: MessageId,
                RowType.SOURCE_MESSAGE_ID: SourceMessageId,
                RowType.HEADER: Header,
                RowType.DATA: Data,
                RowType.PAYLOAD: Payload,
                RowType.ADDRESS: Address,
                RowType.SOURCE_ADDRESS: SourceAddress,
                RowType.SEQ_NO: SeqNo,
                RowType.XDATA: XData,
                RowType.ERROR: Error,
                RowType.FLAG: Flag,
                RowType.VERSION: Version,
            },
            # Both keep their bytes: a router forwards what it received, row for row (section 8).
            opaque=OpaqueRow,
            broken=BrokenRow,
        ),
    ] = ()
    """The rows, without END."""
