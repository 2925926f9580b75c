"""The tny adapter: kinds of vectors beyond those in the files, and what it must not let pass.

The keys in this file are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.excuses import EXCUSES
from tests.conformance.mutation import check

from wirelake.conformance.expectation import Context, VectorFailure
from wirelake.conformance.runner import Case, Suite
from wirelake.conformance.tny import CLASSES, ERRORS, run
from wirelake.protocols.tny import layout
from wirelake.protocols.tny.layout import Envelope, Message, Packet, RelayPacket
from wirelake.protocols.tny.message import encode_message
from wirelake.protocols.tny.protocol import PROTOCOL, RELAY
from wirelake.protocols.tny.transform import Dialect, PacketContext, TransformConfig

MESSAGE = Message(id=1, protocol=2, code=100, time=3, body=b"hi")
VIEW = {
    "id": 1, "option": 4, "mode": "request", "line": 0, "protocol": 2, "code": 100,
    "to_message": 0, "time": 3, "body": "6869",
}  # fmt: skip


def vector(expect: dict[str, Any], data: bytes, **more: Any) -> dict[str, Any]:
    plain = {"name": "some", "protocol": "tny", "origin": "hand-derived", "notes": ""}
    return {**plain, "dialect": "common", "hex": data.hex(), "expect": expect, **more}


def outcome(raw: dict[str, Any]) -> str | None:
    try:
        run(raw, Context())
    except VectorFailure as failure:
        return str(failure)
    return None


def plain_packet(plain: bytes, number: int = 1, **bits: Any) -> bytes:
    body = Envelope(access_id=1, number=number, content=plain)
    return PROTOCOL.encode(Packet(body=body, **bits))


def frame(payload: str, option: int = 0) -> bytes:
    data = bytes.fromhex(payload)
    return b"tny." + bytes([option]) + len(data).to_bytes(4, "little") + data


def expected(option: int = 0, size: int = 0, **more: Any) -> dict[str, Any]:
    flags = {"verify": bool(option & 4), "encrypt": bool(option & 8), "waste": bool(option & 16)}
    return {
        "packet": "message", "type": 0, "option": option, "payload_length": size, **flags,
        "access_id": 1, "number": 1, "message": VIEW, **more,
    }  # fmt: skip


def secured(dialect: Dialect, number: int, **options: bool) -> dict[str, Any]:
    """A vector of a packet that a writer has sealed with some options on."""
    config = TransformConfig(("throw-away",), **options)
    context = PacketContext(dialect, config)
    for _ in range(number):
        sealed = context.seal(1, encode_message(MESSAGE, dialect), random=lambda n: b"\xa5" * n)
    bits = {name: options.get(name, False) for name in ("verify", "encrypt", "waste")}
    body = Envelope(access_id=1, number=number, content=sealed.content)
    data = PROTOCOL.encode(Packet(body=body, **bits), dialect=dialect)
    option = bits["verify"] << 2 | bits["encrypt"] << 3 | bits["waste"] << 4
    expect = {**expected(option, len(data) - 9), "number": number}
    expect["message_hex"] = encode_message(MESSAGE, dialect).hex()
    setup = {
        "security_keys": ["throw-away"],
        **bits,
        "packet_code": context.packet_code,
        "access_key_md5": context.access_key_md5.hex(),
    }
    return vector(expect, data, dialect=dialect, config=setup)


def relay(arguments: layout.Arguments, view: dict[str, Any], **more: Any) -> dict[str, Any]:
    dialect = more.get("dialect", "seed")
    data = RELAY.encode(
        RelayPacket(id=5, time=6, arguments=arguments),
        dialect="seed" if dialect == "common" else dialect,
    )
    option = data[11]
    expect = {
        "packet": "relay", "type": layout.RelayType(option).name, "option": option,
        "mark": option >> 4, "sub_id": option & 15, "id": 5, "time": 6, "arguments": view,
    }  # fmt: skip
    return vector(expect, data, **more)


HEADERS = Message(
    id=1,
    protocol=2,
    code=100,
    time=3,
    body=b"hi",
    headers=(b"\x65\0\0\0\x08\x4d", b"\x07\0\0\0\xff"),
)

GOOD: dict[str, dict[str, Any]] = {
    "reserved bits": vector(expected(0xE0, 11), plain_packet(encode_message(MESSAGE), reserved=7)),
    "reserved bit of the message": vector(
        {**expected(0, 11), "message": {**VIEW, "option": 0x84}},
        frame("0101" + "0184" + encode_message(MESSAGE).hex()[4:]),
    ),
    "long varint in the message": vector(
        expected(0, 12), frame("0101" + "8100" + encode_message(MESSAGE).hex()[2:])
    ),
    **{
        f"{dialect} {number} {' '.join(options)}": secured(
            dialect, number, **dict.fromkeys(options, True)
        )
        for dialect in ("seed", "upstream")
        for number in (1, 2, 4, 7, 30)
        for options in (["verify"], ["waste"], ["encrypt", "waste"], ["verify", "encrypt", "waste"])
    },
    "two headers": vector(
        {
            **expected(0, 25),
            "message": {
                **VIEW,
                "option": 0x44,
                "headers": ["65000000084d", "07000000ff"],
                "headers_decoded": [
                    {"type_id": 101, "key": "Rpc-Original-Message-Id", "message_id": 77},
                    {"type_id": 7, "hex": "ff"},
                ],
            },
        },
        plain_packet(encode_message(HEADERS, "upstream")),
        dialect="upstream",
    ),
    "stream with a gap and an incomplete end": vector(
        {
            "stream": [
                {"packet": "message", "number": 3, "message": VIEW},
                {"packet": "message", "number": 9, "access_id": 1, "option": 0},
                {"error": "incomplete"},
            ]
        },
        plain_packet(encode_message(MESSAGE), 3)
        + plain_packet(encode_message(MESSAGE), 9)
        + b"tny",
    ),
    "old link open": relay(
        layout.LinkOpen(service="s", instance=-1, key="k"),
        {"service": "s", "instance": -1, "key": "k"},
        dialect="common",
    ),
    "ipv6": relay(
        layout.TunnelConnect(ip=bytes.fromhex("20010db8") + bytes(11) + b"\x01", port=1),
        {"ip": "2001:db8::1", "port": 1, "instance_id": 0, "tunnel_id": 0},
        dialect="seed",
    ),
    "connect without an address": relay(
        layout.TunnelConnect(instance_id=1, tunnel_id=2),
        {"ip": None, "instance_id": 1, "tunnel_id": 2},
        dialect="common",
    ),
    "swapped ids": relay(
        layout.TunnelConnected(result=False, instance_id=1, tunnel_id=2),
        {"result": False, "instance_id": 1, "tunnel_id": 2},
        dialect="upstream",
    ),
    "unknown protobuf field": relay(
        layout.LinkOpened(result=True, unknown=b"\x78\x01"), {"result": True}, dialect="common"
    ),
}

M = encode_message(MESSAGE).hex()
RELAY_CONFIG = {"config": {"decoder": "relay"}}
REFUSED: dict[str, tuple[bytes, str, dict[str, Any]]] = {
    "magic": (b"tnx.", "bad_magic", {}),
    "magic at its first byte": (b"x", "bad_magic", {}),
    "type 3 by itself": (b"tny.\x03", "reserved_type", {}),
    "nothing": (b"", "incomplete", {}),
    "seed tick cut": (b"tny.\x01\0\0", "incomplete", {"dialect": "seed"}),
    "seed limit": (b"tny.\0\x01\0\x10\0", "payload_too_long", {"dialect": "seed"}),
    "no number": (frame("01"), "payload_truncated", {}),
    "number cut": (frame("0180"), "payload_truncated", {}),
    "no message": (frame("0101"), "message_truncated", {}),
    "no option": (frame("010101"), "message_truncated", {}),
    "time cut": (frame("0101" + M[:-8] + "80"), "message_truncated", {}),
    "mode 3": (frame("0101" + "0107" + M[4:]), "bad_mode", {}),
    "access id overflow": (frame("ff" * 9 + "7f01" + M), "bad_varint", {"dialect": "seed"}),
    "number overflow": (frame("01ffffffff1f" + M), "bad_varint", {"dialect": "seed"}),
    "eleven bytes": (frame("80" * 10 + "0001" + M), "bad_varint", {}),
    "protocol overflow": (frame("01010100" + "80" * 10 + "00"), "bad_varint", {}),
    "seed header past the end": (
        frame("0101" + "014000000000" + "05aa"), "header_length", {"dialect": "seed"},
    ),
    "seed header negative": (
        frame("0101" + "014000000000" + "ffffffff0f"), "header_length", {"dialect": "seed"},
    ),
    "too many headers": (
        frame("0101" + "014000000000" + "05"), "header_length", {"dialect": "upstream"},
    ),
    "trailing": (frame("0101" + M + "00"), "trailing_bytes", {}),
    "skipped": (frame("0120" + M), "number_skipped", {}),
    "check code too short": (frame("010100", 4), "payload_truncated", {}),
    "crc of another message": (
        frame("0101" + M + "00000000", 4), "verify_failed", {"dialect": "seed"},
    ),
    "waste missing": (
        frame("0101", 0x10), "payload_truncated",
        {"config": {"security_keys": ["throw-away"], "waste": True}},
    ),
    "relay magic": (b"rpx", "relay_bad_magic", RELAY_CONFIG),
    "relay too large": (b"rpk\0\0\0\x7f", "relay_length", RELAY_CONFIG),
    "relay type 4": (
        b"rpk\x0d\0\0\0\0\0\0\0\x04" + bytes(8), "relay_unknown_type", RELAY_CONFIG,
    ),
    "relay ip of five bytes": (
        b"rpk\x14\0\0\0\0\0\0\0\x11" + bytes(8) + b"\x52\x05" + bytes(5),
        "relay_bad_arguments", RELAY_CONFIG,
    ),
    "relay text not utf-8": (
        b"rpk\x10\0\0\0\0\0\0\0\x01" + bytes(8) + b"\x0a\x01\xff",
        "relay_bad_arguments", RELAY_CONFIG,
    ),
    "relay field number 0": (
        b"rpk\x0f\0\0\0\0\0\0\0\x01" + bytes(8) + b"\x00\x00",
        "relay_bad_arguments", RELAY_CONFIG,
    ),
    "relay message with a tail": (
        b"rpk\x24\0\0\0\0\0\0\0\x15" + bytes(8) + bytes(16) + bytes(7),
        "relay_bad_arguments", RELAY_CONFIG,
    ),
    "relay ids cut": (
        b"rpk\x14\0\0\0\0\0\0\0\x15" + bytes(8) + bytes(7), "relay_bad_arguments", RELAY_CONFIG,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_other_vectors_of_the_same_kinds(name: str) -> None:
    assert outcome(GOOD[name]) is None


@pytest.mark.parametrize("name", REFUSED)
def test_other_errors_of_the_same_classes(name: str) -> None:
    data, error, more = REFUSED[name]
    assert outcome(vector({"error": error}, data, **more)) is None


def test_alterations_of_them_are_noticed() -> None:
    raws = [vector({"error": error}, data, **more) for data, error, more in REFUSED.values()]
    cases = [Case("file", n, raw) for n, raw in enumerate([*GOOD.values(), *raws], 1)]
    report = check(Suite(cases), cases)
    assert report.failures == []
    assert report.tried > 1000


TICK = {"packet": "ping", "type": 1, "option": 1}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (vector({**TICK, "colour": 1}, b"tny.\x01", dialect="upstream"), "colour"),
    "unknown key of config": (
        vector(TICK, b"tny.\x01", dialect="upstream", config={"colour": 1}), "config.colour",
    ),
    "unknown dialect": (vector(TICK, b"tny.\x01", dialect="new"), "dialect"),
    "one dialect of two": (vector(TICK, b"tny.\x01"), "dialect seed"),
    "missing key": (
        vector({"packet": "ping", "type": 1}, b"tny.\x01", dialect="upstream"), "option",
    ),
    "unknown class": (vector({"error": "oops"}, b"x"), "expect.error"),
    "other class": (vector({"error": "bad_mode"}, b"x"), "expected bad_mode, got bad_magic"),
    "accepted after all": (vector({"error": "bad_magic"}, frame("0101" + M)), "got no error"),
    "packet code": (
        vector(expected(0, 11), frame("0101" + M), config={"packet_code": 1}), "config.packet_code",
    ),
    "check": (
        vector(expected(0, 11), frame("0101" + M), config={"check": "sha"}), "config.check",
    ),
    "keys": (
        vector(expected(0, 11), frame("0101" + M), config={"security_keys": [""]}), "config",
    ),
    "two packets": (vector(expected(0, 11), frame("0101" + M) * 2), "stops at byte"),
    "stream too short": (
        vector({"stream": [{"packet": "message"}]}, frame("0101" + M) * 2), "stream stops",
    ),
    "stream entry with an unknown key": (
        vector({"stream": [{"packet": "message", "colour": 1}]}, frame("0101" + M)), "colour",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_must_not_pass(name: str) -> None:
    raw, text = BAD[name]
    found = outcome(raw)
    assert found is not None
    assert text in found
    assert "\n" not in found


def test_classes_and_excuses_are_named_once() -> None:
    assert len(CLASSES) == len(set(CLASSES))
    for code in {code for line in ERRORS for code in line.codes}:
        for field in ("packet.head", "envelope.length", "message.body", "message.id", "number"):
            for name in (field, f"relay:{field}"):
                assert sum(line.covers(code, name) for line in ERRORS) <= 1
    assert all(excuse.name.startswith("tny-") and excuse.reason for excuse in EXCUSES["tny"])
