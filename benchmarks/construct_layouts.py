"""The same layouts, written by hand for Construct, as its own documentation would have it.

Every field of the corpus is decoded to the same depth as ours: texts to `str`, varints to `int`,
protobuf fields to names. Where Construct would pay for a check that ours makes and its users
usually leave out (limits, reserved values, bytes left over), it is left out here too, in its
favour. Fields have the names that ours have.

Conditions are written with `this`, so that Construct can also compile them to Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from construct import (  # type: ignore[import-untyped]
    Adapter,
    BitsInteger,
    BitStruct,
    Byte,
    Bytes,
    Const,
    Construct,
    Container,
    ExprAdapter,
    Float32b,
    Float64b,
    GreedyBytes,
    GreedyRange,
    GreedyString,
    If,
    Int8sb,
    Int16ub,
    Int24ub,
    Int32sl,
    Int32ub,
    Int32ul,
    Int64sb,
    Int64sl,
    Int64ub,
    LazyBound,
    PascalString,
    Prefixed,
    PrefixedArray,
    Rebuild,
    RepeatUntil,
    Sequence,
    Struct,
    Switch,
    VarInt,
    ZigZag,
    obj_,
    this,
)
from construct import Flag as BitFlag

__all__ = ["FORMATS"]


# -- comet -----------------------------------------------------------------------------------

_Text16 = PascalString(Int16ub, "utf8")
_Bytes16 = Prefixed(Int16ub, GreedyBytes)
_Texts8 = PrefixedArray(Byte, _Text16)
_Empty = Struct()

_Notification = Struct("msg_type" / Byte, "msg_id" / _Text16, "content" / _Bytes16, "ts" / Int64sb)
_COMET_C2S = {
    0: ("Auth", Struct("client_id" / _Text16, "token" / _Text16)),
    1: ("ExchangeKey", Struct("secret_key" / _Bytes16)),
    2: ("GetTopicList", _Empty),
    3: ("Subscribe", Struct("topics" / _Texts8)),
    4: ("Unsubscribe", Struct("topics" / _Texts8)),
    5: ("GetMessageList", _Empty),
    6: ("Heartbeat", _Empty),
    7: ("MessageAck", Struct("msg_ids" / _Texts8)),
    8: (
        "ReportEnviron",
        Struct("network_type" / Byte, "isp" / Byte, "phone_type" / _Text16, "extra" / _Texts8),
    ),
}
_COMET_S2C = {
    0: ("Ok", _Empty),
    1: ("Error", Struct("error_code" / Byte, "reason" / _Text16)),
    2: ("AuthSuccess", Struct("encrypt_key" / _Bytes16)),
    3: ("TopicList", Struct("topics" / _Texts8)),
    4: ("MessageList", Struct("messages" / PrefixedArray(Byte, _Notification))),
    5: ("Notification", _Notification),
}


def _switch(tag: Any, cases: Mapping[int, tuple[str, Construct]]) -> Construct:
    """The body that a tag chooses."""
    return Switch(tag, {number: layout for number, (_, layout) in cases.items()})


def _comet(cases: Mapping[int, tuple[str, Construct]]) -> Construct:
    return Prefixed(
        Int16ub,
        Struct("type" / Byte, "body" / _switch(this.type, cases)),
    )


# -- tny and RelayPack -----------------------------------------------------------------------


def _twos(bits: int) -> Construct:
    """A varint of the two's complement."""
    top, full = 1 << (bits - 1), 1 << bits
    return ExprAdapter(
        VarInt,
        lambda number, _: number if number < top else number - full,
        lambda number, _: number if number >= 0 else number + full,
    )


_Twos32, _Twos64 = _twos(32), _twos(64)
_VarBytes = Prefixed(_Twos32, GreedyBytes)


def _given(field: Any) -> Any:
    """Whether a field has a value, as an expression that Construct can compile."""
    return field != None  # noqa: E711


def _present(name: str) -> Construct:
    """A bit that says whether a field of the struct around it is there."""
    return Rebuild(BitFlag, _given(this._[name]))


_Message = Struct(
    "id" / _Twos64,
    "option"
    / BitStruct(
        "reserved" / BitsInteger(1),
        "has_forward_header" / _present("forward_header"),
        "line" / BitsInteger(3),
        "has_body" / _present("body"),
        "mode" / BitsInteger(2),
    ),
    "protocol" / _Twos32,
    "code" / _Twos32,
    "to_message" / _Twos64,
    "time" / _Twos64,
    "forward_header" / If(this.option.has_forward_header, _VarBytes),
    "body" / If(this.option.has_body, _VarBytes),
)
_TNY = {
    0: (
        "Envelope",
        Prefixed(Int32ul, Struct("access_id" / _Twos64, "number" / _Twos32, "content" / _Message)),
    ),
    1: ("Ping", Struct("length" / Const(bytes(4)))),
    2: ("Pong", Struct("length" / Const(bytes(4)))),
}
_Packet = Struct(
    "head" / Const(b"tny."),
    "option"
    / BitStruct(
        "reserved" / BitsInteger(3),
        "waste" / BitFlag,
        "encrypt" / BitFlag,
        "verify" / BitFlag,
        "type" / BitsInteger(2),
    ),
    "body" / _switch(this.option.type, _TNY),
)

_PB_INT32 = (0, _Twos64, 0)
_PB_FIXED64 = (1, Int64sl, 0)
_PB_STRING = (2, PascalString(VarInt, "utf8"), "")
_PB_BYTES = (2, Prefixed(VarInt, GreedyBytes), b"")
_PB_BOOL = (0, ExprAdapter(VarInt, lambda number, _: number != 0, lambda flag, _: int(flag)), False)


class _Protobuf(Adapter):  # type: ignore[misc]
    """Protobuf fields by name; what is not on the wire has its default."""

    def __init__(self, **fields: tuple[int, tuple[int, Construct, Any]]):
        self.names = {number << 3 | kind[0]: name for name, (number, kind) in fields.items()}
        self.keys = {name: key for key, name in self.names.items()}
        self.defaults = {name: kind[2] for name, (_, kind) in fields.items()}
        types = {number << 3 | kind[0]: kind[1] for number, kind in fields.values()}
        pair = Struct("key" / VarInt, "value" / Switch(this.key, types))
        super().__init__(GreedyRange(pair))

    def _decode(self, obj: Any, context: Any, path: str) -> Any:  # noqa: ARG002
        found = Container(self.defaults)
        for pair in obj:
            found[self.names[pair.key]] = pair.value
        return found

    def _encode(self, obj: Any, context: Any, path: str) -> Any:  # noqa: ARG002
        return [
            {"key": key, "value": obj[name]}
            for name, key in self.keys.items()
            if obj[name] is not None
        ]


_IDS = {"instance_id": (1, _PB_FIXED64), "tunnel_id": (2, _PB_FIXED64)}
_RELAY = {
    0x01: (
        "LinkOpen",
        _Protobuf(
            service=(1, _PB_STRING),
            instance=(2, _PB_FIXED64),
            key=(3, _PB_STRING),
            service_type=(4, (0, _Twos64, None)),
        ),
    ),
    0x02: ("LinkOpened", _Protobuf(result=(1, _PB_BOOL))),
    0x03: ("LinkClose", _Protobuf()),
    0x05: ("LinkPing", _Protobuf()),
    0x06: ("LinkPong", _Protobuf()),
    0x11: ("TunnelConnect", _Protobuf(ip=(10, _PB_BYTES), port=(11, _PB_INT32), **_IDS)),
    0x12: ("TunnelConnected", _Protobuf(result=(10, _PB_BOOL), **_IDS)),
    0x13: ("TunnelDisconnect", _Protobuf(**_IDS)),
    0x14: ("TunnelSwitchLink", _Protobuf(**_IDS)),
    0x15: (
        "TunnelRelay",
        Struct("instance_id" / Int64sl, "tunnel_id" / Int64sl, "message" / _Message),
    ),
}
_RelayPacket = Struct(
    "head" / Const(b"rpk"),
    "rest"
    / Prefixed(
        Int32ul,
        Struct(
            "id" / Int32sl,
            "option" / BitStruct("reserved" / BitsInteger(3), "type" / BitsInteger(5)),
            "time" / Int64sl,
            "arguments" / _switch(this.option.type, _RELAY),
        ),
    ),
)

# -- magline ---------------------------------------------------------------------------------

_DATA = Struct("business_cmd" / Int32ub, "hmac" / Bytes(16), "data" / GreedyBytes)
_MAGLINE = {
    1: ("Syn", Struct("random" / Bytes(32), "public_key" / Bytes(32))),
    2: ("Ack", Struct("random" / Bytes(32), "public_key" / Bytes(32), "sealed_sid" / Bytes(32))),
    3: ("Err", Struct("business_cmd" / Int32ub, "error_number" / Int32ub)),
    4: ("Pin", Struct("ping_number" / Int32ub)),
    5: ("Pon", Struct("ping_number" / Int32ub)),
    6: ("Req", _DATA),
    7: ("Rep", _DATA),
    8: ("Psh", _DATA),
    9: ("Fin", Struct("reason_number" / Int32ub)),
}
_OPTIONS = {
    "auth": (0x0001, 16, Bytes(16)),
    "reply_to": (0x0002, 4, Int32ub),
    "resume": (0x0100, 32, Struct("sid" / Bytes(16), "binder" / Bytes(16))),
    "key_id": (0x0200, 8, Bytes(8)),
}


_BITS = sum(_given(this.rest[name]) * bit for name, (bit, _, _) in _OPTIONS.items())
_SIZES = sum(_given(this.rest[name]) * (2 + size) for name, (_, size, _) in _OPTIONS.items())


def _option(name: str) -> Construct:
    bit, _, layout = _OPTIONS[name]
    return name / If(this._.head_optional & bit, Prefixed(Int16ub, layout))


_MaglineFrame = Struct(
    "magic" / Byte,
    "version" / Const(b"f"),
    "cmd" / Int16ub,
    "head_optional" / Rebuild(Int16ub, _BITS),
    "head_length" / Rebuild(Int16ub, _SIZES),
    "seq" / Int32ub,
    "rest"
    / Prefixed(
        Int32ub,
        Struct(*(_option(name) for name in _OPTIONS), "body" / _switch(this._.cmd, _MAGLINE)),
    ),
)

# -- ESNP ------------------------------------------------------------------------------------

_LenString = PascalString(ZigZag, "utf8")
_AnyVar = LazyBound(lambda: _Var)
_Var: Construct = Struct(
    "type" / Byte,
    "value"
    / Switch(
        this.type,
        {
            1: ExprAdapter(Byte, lambda byte, _: byte != 0, lambda flag, _: int(flag)),
            2: ZigZag,
            3: Int8sb,
            4: ZigZag,
            5: ZigZag,
            6: ZigZag,
            7: VarInt,
            8: Byte,
            9: VarInt,
            10: VarInt,
            11: VarInt,
            13: Float32b,
            14: Float64b,
            17: Prefixed(ZigZag, GreedyBytes),
            21: PrefixedArray(ZigZag, Sequence(_LenString, _AnyVar)),
            23: PrefixedArray(ZigZag, _AnyVar),
            24: _LenString,
        },
    ),
)
_NAMED = Struct("name" / _LenString, "value" / _Var)
_ADDRESS = Struct("kind" / ZigZag, "value" / _LenString)
_ROWS = {
    0x10: ("SessionInfo", _NAMED),
    0x11: ("MessageId", Struct("value" / Int64ub)),
    0x12: ("SourceMessageId", Struct("value" / Int64ub)),
    0x14: ("Header", _NAMED),
    0x15: ("Data", _NAMED),
    0x16: ("Payload", Struct("data" / GreedyBytes)),
    0x17: ("Address", _ADDRESS),
    0x18: ("SourceAddress", _ADDRESS),
    0x1B: ("SeqNo", Struct("current" / ZigZag, "maximum" / ZigZag)),
    0x1C: ("XData", Struct("id" / ZigZag, "data" / GreedyBytes)),
    0x1D: ("Error", Struct("value" / GreedyString("utf8"))),
    0x1E: ("Flag", Struct("value" / ZigZag)),
    0x1F: (
        "Version",
        Struct("major" / Byte, "minor" / Byte, "branch" / Byte, "variant" / Byte),
    ),
}
_END = {0x00: ("End", Struct())}
_Row = Struct(
    "type" / Byte,
    "body" / Prefixed(Int24ub, _switch(this.type, _ROWS | _END)),
)
_Rows = RepeatUntil(obj_.type == 0, _Row)

FORMATS: dict[str, dict[str | None, Construct]] = {
    "comet": {"c2s": _comet(_COMET_C2S), "s2c": _comet(_COMET_S2C)},
    "tny": {None: _Packet},
    "relay": {None: _RelayPacket},
    "magline": {None: _MaglineFrame},
    "esnp": {None: _Rows},
}
"""For each protocol: direction -> what reads and writes one message."""
