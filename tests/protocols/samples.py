"""One message, or more, for every element that the documents define: each field has a value other
than its default in at least one of them, and each number that has a name occurs.

The messages are JSON objects, as `wirelake encode` reads them. `tests/cli/test_every_field.py`
sends them through the command line, `tests/tables/test_every_field.py` through captures to tables.
`tests/docs/test_coverage.py` checks that nothing is missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wirelake.protocols.comet.layout import ErrorCode, Isp, NetworkType
from wirelake.protocols.esnp.layout import AddressKind, FlagType, RowType, VarType
from wirelake.protocols.magline.layout import ErrorNumber, Reason
from wirelake.protocols.tny.layout import Mode
from wirelake.protocols.tny.message import ResultCode
from wirelake.wire.model import Direction

Object = dict[str, Any]


class Sample(NamedTuple):
    """Messages of one connection, in one direction."""

    protocol: str
    dialect: str
    direction: Direction
    messages: list[Object]

    @property
    def id(self) -> str:
        """Its name in the output of the tests."""
        return f"{self.protocol}-{self.dialect}-{self.direction}"


# -- ESNP ------------------------------------------------------------------------------------------

_INT = {"type": "int32", "value": -5}
VALUES: dict[VarType, Object] = {
    VarType.NULL: {"type": "null"},
    VarType.BOOL: {"type": "bool", "value": True},
    VarType.INT: {"type": "int", "value": -7},
    VarType.INT8: {"type": "int8", "value": -8},
    VarType.INT16: {"type": "int16", "value": -1600},
    VarType.INT32: {"type": "int32", "value": -320_000},
    VarType.INT64: {"type": "int64", "value": -(1 << 60)},
    VarType.UINT: {"type": "uint", "value": 7},
    VarType.UINT8: {"type": "uint8", "value": 200},
    VarType.UINT16: {"type": "uint16", "value": 60_000},
    VarType.UINT32: {"type": "uint32", "value": 4_000_000_000},
    VarType.UINT64: {"type": "uint64", "value": (1 << 64) - 1},
    VarType.FLOAT32: {"type": "float32", "value": 1.5},
    VarType.FLOAT64: {"type": "float64", "value": -2.25},
    VarType.LEN_BYTES: {"type": "len_bytes", "value": "00ff"},
    VarType.MAP: {"type": "map", "value": [["k", _INT], ["m", {"type": "map", "value": []}]]},
    VarType.LIST: {"type": "list", "value": [_INT, {"type": "null"}]},
    VarType.LEN_STRING: {"type": "len_string", "value": "text"},
}
"""A value of each type."""

OPAQUE = (0x01, RowType.MESSAGE_KIND, RowType.TRACE, RowType.TRACE_RESP, 0x80)
"""Rows without a layout: reserved, cancelled, the application's."""


def _esnp() -> Object:
    kinds = (*AddressKind, 35)
    return {
        "type": "message",
        "rows": [
            *({"type": "flag", "value": int(each)} for each in (*FlagType, 128, 300)),
            *({"type": "address", "kind": int(each), "value": f"a{each}"} for each in kinds),
            *({"type": "source_address", "kind": int(each), "value": f"s{each}"} for each in kinds),
            {"type": "message_id", "value": (1 << 63) + 1},
            {"type": "source_message_id", "value": 9},
            {"type": "seq_no", "current": 2, "maximum": 3},
            {"type": "error", "value": "failed on request"},
            {"type": "version", "major": 1, "minor": 2, "branch": 3, "variant": 4},
            {"type": "session_info", "name": "route", "value": VALUES[VarType.UINT32]},
            {"type": "header", "name": "trace-id", "value": VALUES[VarType.LEN_STRING]},
            *(
                {"type": "data", "name": each.name.lower(), "value": value}
                for each, value in VALUES.items()
            ),
            {"type": "payload", "data": "0001ff"},
            {"type": "xdata", "id": -7, "data": "c0de"},
            *({"type": "opaque_row", "type_": int(each), "data": "0a0b"} for each in OPAQUE),
        ],
    }


# -- tny and relay ---------------------------------------------------------------------------------

_TIME = 1_651_234_567_890


def _tny(number: int, mode: Mode, packet: Object | None = None, **message: Any) -> Object:
    content = {"type": "message", "id": number, "mode": int(mode), "protocol": 2001, "time": _TIME}
    body = {
        "type": "envelope",
        "access_id": 12_345,
        "number": number,
        "content": {**content, **message},
    }
    return {"type": "packet", **(packet or {}), "body": body}


def _ticks() -> list[Object]:
    return [{"type": "packet", "body": {"type": name}} for name in ("ping", "pong")]


HEADERS = {
    "rpc_forward": "64000000"  # a Point as `from`, a Contact as `sender`
    "12060807120212091a0408211001",
    "rpc_original_message_id": "650000000863",
    "rpc_tracing": "660000000a060a016b120176",
}
"""A header of each type, in dialect upstream."""


def _relay(sub: str, **arguments: Any) -> Object:
    return {
        "type": "relay_packet",
        "id": 5,
        "reserved": 0,
        "time": _TIME,
        "arguments": {"type": sub, **arguments},
    }


_IDS = {"instance_id": 11, "tunnel_id": 22}
_OTHER = "a80601"
"""A protobuf field that no layout has: number 101, a varint."""


def _links(dialect: str) -> list[Object]:
    ignored = "ffff" if dialect == "upstream" else _OTHER
    header = (
        {"headers": list(HEADERS.values())} if dialect == "upstream" else {"forward_header": "0102"}
    )
    message = {
        "type": "message",
        "id": 3,
        "reserved": 1,
        "line": 5,
        "mode": int(Mode.RESPONSE),
        "protocol": 2001,
        "code": 205,
        "to_message": 2,
        "time": _TIME,
        "body": "00",
    }
    return [
        _relay(
            "link_open", service="gate", instance=9, key="unique", service_type=4, unknown=_OTHER
        ),
        _relay("link_opened", result=True, unknown=_OTHER),
        _relay("link_ping", unknown=ignored),
        _relay("link_pong", unknown=ignored),
        _relay("tunnel_connect", ip="7f000001", port=8080, unknown=_OTHER, **_IDS),
        _relay("tunnel_connected", result=True, unknown=_OTHER, **_IDS),
        _relay("tunnel_relay", message={**message, **header}, **_IDS),
        _relay("tunnel_switch_link", unknown=_OTHER, **_IDS),
        _relay("tunnel_disconnect", unknown=_OTHER, **_IDS),
        {**_relay("link_close", unknown=ignored), "reserved": 5},
    ]


# -- magline ---------------------------------------------------------------------------------------

_RANDOM, _KEY, _TAG, _SID = "11" * 32, "22" * 32, "33" * 16, "44" * 16


def _magline(seq: int, body: str, options: Object | None = None, **fields: Any) -> Object:
    return {"type": "frame", "seq": seq, **(options or {}), "body": {"type": body, **fields}}


def _numbered(messages: list[Object]) -> list[Object]:
    return [{**message, "seq": at} for at, message in enumerate(messages, 1)]


_MAGLINE_C2S = _numbered(
    [
        _magline(
            0,
            "syn",
            {
                "resume": {"type": "resume", "sid": _SID, "binder": _TAG},
                "key_id": "5566778899aabbcc",
            },
            random=_RANDOM,
            public_key=_KEY,
        ),
        _magline(0, "pin", {"auth": _TAG, "unknown_options": [[4, "beef"]]}, ping_number=7),
        _magline(0, "req", business_cmd=2001, hmac=_TAG, data="c0de"),
        _magline(0, "fin", {"auth": _TAG}, reason_number=int(Reason.NORMAL)),
    ]
)
_MAGLINE_S2C = _numbered(
    [
        _magline(0, "ack", random=_RANDOM, public_key=_KEY, sealed_sid="55" * 32),
        _magline(0, "pon", {"auth": _TAG}, ping_number=7),
        _magline(0, "rep", {"reply_to": 3}, business_cmd=2001, hmac=_TAG, data="c0de"),
        _magline(0, "psh", business_cmd=2002, hmac=_TAG, data="f00d"),
        *(
            _magline(
                0, "err", {"auth": _TAG, "reply_to": 3}, business_cmd=2001, error_number=int(each)
            )
            for each in (*ErrorNumber, 0x10000)
        ),
        *(
            _magline(0, "fin", {"auth": _TAG}, reason_number=int(each))
            for each in (*Reason, 0x10000)
        ),
    ]
)


# -- comet -----------------------------------------------------------------------------------------


def _notification(dialect: str) -> Object:
    own = {"job_id": "job-1"} if dialect == "hipush" else {}
    return {
        "type": "message",
        "msg_type": 3,
        "msg_id": "m0100001000000ff",
        **own,
        "content": "7261696e",
        "ts": _TIME,
    }


_COMET_C2S: list[Object] = [
    {"type": "auth", "client_id": "phone-1", "token": "throw-away"},
    {"type": "exchange_key", "secret_key": "66" * 80},
    {"type": "get_topic_list"},
    {"type": "subscribe", "topics": ["@news", "@weather"]},
    {"type": "unsubscribe", "topics": ["@weather"]},
    {"type": "get_message_list"},
    {"type": "heartbeat"},
    {"type": "message_ack", "msg_ids": ["m0100001000000ff"]},
    *(
        {
            "type": "report_environ",
            "network_type": int(network),
            "isp": int(isp),
            "phone_type": "X1",
            "extra": ["app=3.2"],
        }
        for network, isp in zip(NetworkType, Isp, strict=True)
    ),
]


def _comet_s2c(dialect: str) -> list[Object]:
    note = _notification(dialect)
    return [
        {"type": "ok"},
        *({"type": "error", "error_code": int(each), "reason": each.name} for each in ErrorCode),
        {"type": "auth_success", "encrypt_key": "77" * 44},
        {"type": "topic_list", "topics": ["@news"]},
        {"type": "message_list", "messages": [note, {**note, "msg_type": 4}]},
        note,
    ]


SAMPLES = [
    Sample("esnp", "seed", "c2s", [_esnp()]),
    Sample("esnp", "go", "s2c", [_esnp()]),
    Sample(
        "tny",
        "seed",
        "c2s",
        [
            *_ticks(),
            _tny(1, Mode.REQUEST, line=5, forward_header="0102", body="7b7d"),
            _tny(2, Mode.PUSH, {"reserved": 5}, reserved=1),
            _tny(3, Mode.REQUEST, {"verify": True}),
            _tny(4, Mode.REQUEST, {"encrypt": True}),
            _tny(5, Mode.REQUEST, {"waste": True}),
            _tny(6, Mode.RESPONSE, code=205, to_message=9),
        ],
    ),
    Sample(
        "tny", "upstream", "s2c",
        [
            *_ticks(),
            _tny(1, Mode.RESPONSE, to_message=9, headers=list(HEADERS.values())),
            *(
                _tny(number, Mode.RESPONSE, code=int(code), to_message=number)
                for number, code in enumerate(ResultCode, 2)
            ),
        ],
    ),
    Sample("relay", "seed", "c2s", _links("seed")),
    Sample("relay", "upstream", "s2c", _links("upstream")),
    Sample("magline", "seed", "c2s", _MAGLINE_C2S),
    Sample("magline", "seed", "s2c", _MAGLINE_S2C),
    Sample("comet", "seed", "c2s", _COMET_C2S),
    Sample("comet", "seed", "s2c", _comet_s2c("seed")),
    Sample("comet", "hipush", "s2c", _comet_s2c("hipush")),
]  # fmt: skip
