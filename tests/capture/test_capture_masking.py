"""Masked frames: secrets are gone, and the frames still decode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from wirelake.capture.record.masking import Masker
from wirelake.protocols import registry
from wirelake.protocols.esnp.layout import (
    Address,
    Data,
    Flag,
    FlagType,
    Message,
    OpaqueRow,
    Payload,
    SeqNo,
    Var,
    VarType,
    XData,
)
from wirelake.protocols.magline.layout import Frame, Pin, Req
from wirelake.protocols.tny.layout import Envelope, LinkOpen, Packet, RelayPacket, TunnelRelay
from wirelake.protocols.tny.layout import Message as TnyMessage
from wirelake.protocols.tny.message import encode_message
from wirelake.wire.errors import DecodeError, NeedMore
from wirelake.wire.model import Direction

VECTORS = Path(__file__).parents[1] / "vectors"
PROTOCOLS = ["esnp", "tny", "relay", "magline", "comet"]


class Sample(NamedTuple):
    """A frame that decodes."""

    raw: bytes
    direction: Direction
    message: Any


def _samples(name: str) -> Iterator[Sample]:
    protocol = registry.find(name)
    file = VECTORS / f"{'tny' if name == 'relay' else name}.jsonl"
    for line in file.read_text().splitlines():
        vector = json.loads(line)
        direction: Direction = vector.get("direction") or "c2s"
        raw = bytes.fromhex(vector.get("hex", ""))
        try:
            message, stop = protocol.decode(raw, direction=direction if protocol.directed else None)
        except (DecodeError, NeedMore):
            continue
        yield Sample(raw[:stop], direction, message)


def _masker(name: str, direction: Direction = "c2s", *, content: bool = False) -> Masker:
    protocol = registry.find(name)
    return Masker(protocol, protocol.dialect(None), direction, content=content)


def _decoded(name: str, raw: bytes, direction: Direction) -> Any:
    protocol = registry.find(name)
    message, stop = protocol.decode(raw, direction=direction if protocol.directed else None)
    assert stop == len(raw)
    return message


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("content", [False, True])
def test_masked_vectors_decode_to_the_same_kind(name: str, content: bool) -> None:
    samples = list(_samples(name))
    assert len(samples) > 5
    for sample in samples:
        masked = _masker(name, sample.direction, content=content)(sample.message, sample.raw)
        assert len(masked) == len(sample.raw)
        assert all(new in (0, old) for new, old in zip(masked, sample.raw, strict=True))
        assert type(_decoded(name, masked, sample.direction)) is type(sample.message)


def test_secrets_of_a_link() -> None:
    message = RelayPacket(
        id=5, time=7, arguments=LinkOpen(service="game", instance=3, key="tell-nobody")
    )
    raw = registry.find("relay").encode(message)
    masked = _masker("relay")(message, raw)
    found = _decoded("relay", masked, "c2s")
    assert found.arguments == LinkOpen(service="game", instance=3, key="\0" * 11)


def test_unknown_protobuf_fields_are_hidden() -> None:
    unknown = b"\xa2\x06\x06secret"  # field 100, six bytes
    message = RelayPacket(id=5, time=7, arguments=LinkOpen(service="game"))
    raw = registry.find("relay").encode(message)
    raw = raw[:3] + (int.from_bytes(raw[3:7], "little") + len(unknown)).to_bytes(4, "little")
    raw += registry.find("relay").encode(message)[7:] + unknown
    masked = _masker("relay")(_decoded("relay", raw, "c2s"), raw)
    assert b"secret" not in masked
    assert _decoded("relay", masked, "c2s").arguments.service == "game"


def test_rows_that_are_not_understood_are_hidden() -> None:
    esnp = registry.find("esnp")
    message = Message(rows=(OpaqueRow(type=99, data=b"secret"), Payload(data=b"shown")))
    masked = _masker("esnp")(message, esnp.encode(message))
    hidden = Message(rows=(OpaqueRow(type=99, data=bytes(6)), Payload(data=b"shown")))
    assert masked == esnp.encode(hidden)
    broken = bytes([23, 0, 0, 9]) + bytes([10, 255]) + b"secret!" + bytes(4)
    assert b"secret" not in _masker("esnp")(_decoded("esnp", broken, "c2s"), broken)


def test_unknown_options_are_hidden() -> None:
    magline = registry.find("magline")
    message = Frame(seq=1, unknown_options=((0x0010, b"secret"),), body=Pin(ping_number=1))
    raw = magline.encode(message)
    masked = _masker("magline")(message, raw)
    assert _decoded("magline", masked, "c2s").unknown_options == ((0x0010, bytes(6)),)


def test_content_of_values_and_bodies() -> None:
    esnp = registry.find("esnp")
    text = Var(VarType.LEN_STRING, "secret")
    value = Var(VarType.MAP, (("secret", text), ("n", Var(VarType.INT64, 7))))
    message = Message(
        rows=(Data(name="k", value=value), XData(id=5, data=b"secret"), Payload(data=b"secret"))
    )
    raw = esnp.encode(message)
    assert _masker("esnp")(message, raw) == raw
    masked = _masker("esnp", content=True)(message, raw)
    assert b"secret" not in masked
    row, extra, payload = _decoded("esnp", masked, "c2s").rows
    assert (row.name, extra, payload) == ("k", XData(id=5, data=bytes(6)), Payload(data=bytes(6)))
    assert [inner.type for _, inner in row.value.value] == [VarType.LEN_STRING, VarType.INT64]


def test_content_of_a_magline_request() -> None:
    magline = registry.find("magline")
    message = Frame(seq=1, body=Req(business_cmd=7, hmac=bytes(range(16)), data=b"secret"))
    masked = _masker("magline", content=True)(message, magline.encode(message))
    found = _decoded("magline", masked, "c2s")
    assert found.body == Req(business_cmd=7, hmac=bytes(range(16)), data=bytes(6))


@pytest.mark.parametrize("flag", ["", "waste", "encrypt", "verify"])
def test_content_inside_a_stage_is_found_when_not_encrypted(flag: str) -> None:
    tny = registry.find("tny")
    inner = TnyMessage(id=9, protocol=7, body=b"secret")
    hidden = TnyMessage(id=9, protocol=7, body=bytes(6))
    content = encode_message(inner)
    flags = {flag: True} if flag else {}
    message = Packet(**flags, body=Envelope(access_id=1, number=2, content=content))
    raw = tny.encode(message)
    opened = {"message": inner}
    assert _masker("tny")(message, raw, opened) == raw
    masked = _decoded("tny", _masker("tny", content=True)(message, raw), "c2s")
    assert masked.body.content == (bytes(len(content)) if flag else encode_message(hidden))
    # What was not opened may be a sign-on.
    unknown = _decoded("tny", _masker("tny")(message, raw), "c2s")
    assert unknown.body.content == (bytes(len(content)) if flag else content)


def test_an_undecodable_stage_is_masked() -> None:
    tny = registry.find("tny")
    message = Packet(body=Envelope(access_id=1, number=2, content=b"\xff" * 20))
    masked = _masker("tny", content=True)(message, tny.encode(message))
    assert _decoded("tny", masked, "c2s").body.content == bytes(20)


# -- sign-ons --------------------------------------------------------------------------------

TOKEN = b"tell-nobody"


def _sign_on(name: str) -> tuple[Any, dict[str, Any]]:
    """A frame with which a client signs on, and what its stage yields."""
    text = Var(VarType.LEN_STRING, TOKEN.decode())
    match name:
        case "esnp":
            where = [Address(kind=30, value="hub"), Address(kind=20, value="auth")]
            return Message(rows=(*where, Data(name="token", value=text))), {}
        case "esnp part":
            flags = Flag(value=FlagType.REQUEST), SeqNo(current=2, maximum=2)
            return Message(rows=(*flags, Data(name="token", value=text))), {}
        case "tny":
            inner = TnyMessage(id=9, protocol=10, body=TOKEN)
            body = Envelope(access_id=1, number=2, content=encode_message(inner))
            return Packet(body=body), {"message": inner}
        case "relay":
            inner = TnyMessage(id=9, protocol=10, body=TOKEN)
            return RelayPacket(id=1, arguments=TunnelRelay(1, 3, inner)), {}
        case _:
            return Frame(seq=1, body=Req(business_cmd=10, hmac=bytes(16), data=TOKEN)), {}


@pytest.mark.parametrize("name", ["esnp", "esnp part", "tny", "relay", "magline"])
def test_content_of_a_sign_on_is_hidden(name: str) -> None:
    protocol = registry.find(name.partition(" ")[0])
    message, opened = _sign_on(name)
    raw = protocol.encode(message)
    assert TOKEN in raw
    masked = _masker(protocol.name)(message, raw, opened)
    assert masked == raw.replace(TOKEN, bytes(len(TOKEN)))
    assert TOKEN not in masked
    assert type(_decoded(protocol.name, masked, "c2s")) is type(message)


def test_content_of_other_messages_is_kept() -> None:
    esnp = registry.find("esnp")
    text = Data(name="k", value=Var(VarType.LEN_STRING, "shown"))
    part = SeqNo(current=2, maximum=2)
    for rows in (
        (Address(kind=30, value="hub"), Address(kind=20, value="publish"), text),
        (Address(kind=30, value="shop"), part, text),
        (Flag(value=FlagType.RESP), part, text),
        (Flag(value=FlagType.REQUEST), text),
    ):
        raw = esnp.encode(Message(rows=rows))
        assert _masker("esnp")(Message(rows=rows), raw) == raw
