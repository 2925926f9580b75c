"""Messages that may hold credentials: both readers hide the same, and the bytes are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from capture.tcp_made import Call, write
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.protocols import registry
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.tny.layout import Envelope, Packet, RelayPacket, TunnelRelay
from wirelake.protocols.tny.layout import Message as TnyMessage
from wirelake.protocols.tny.message import encode_message

from .differential import differences

TOKEN = "tell-nobody"
SERVICE, OP = int(esnp.AddressKind.SERVICE), int(esnp.AddressKind.OP)
REQUEST = esnp.Flag(value=esnp.FlagType.REQUEST)
RESPONSE = esnp.Flag(value=esnp.FlagType.RESP)


def text(name: str, value: str = TOKEN) -> esnp.Data:
    return esnp.Data(name=name, value=esnp.Var(esnp.VarType.LEN_STRING, value))


def to(service: str, op: str) -> list[esnp.Row]:
    return [esnp.Address(kind=SERVICE, value=service), esnp.Address(kind=OP, value=op)]


def esnp_frames() -> list[bytes]:
    """Requests with and without credentials, whole and in parts."""
    auth = to("hub", "auth")
    everything = [
        text("token"),
        esnp.Header(name="h", value=esnp.Var(esnp.VarType.LEN_STRING, TOKEN)),
        esnp.SessionInfo(name="s", value=esnp.Var(esnp.VarType.LEN_STRING, TOKEN)),
        esnp.XData(id=1, data=TOKEN.encode()),
        esnp.Payload(data=TOKEN.encode()),
        esnp.OpaqueRow(type=200, data=TOKEN.encode()),
    ]
    messages: list[list[esnp.Row]] = [
        [REQUEST, *to("shop", "buy"), text("what", "shown 1"), esnp.Payload(data=b"shown 2")],
        [REQUEST, *auth, *everything],
        [
            REQUEST,
            esnp.SeqNo(current=1, maximum=2),
            *auth,
            text("id", "ann"),
            text("x", "shown not"),
        ],
        [REQUEST, esnp.SeqNo(current=2, maximum=2), *everything],
        [RESPONSE, esnp.SeqNo(current=1, maximum=1), text("id", "shown 3")],
        [REQUEST, *to("shop", "buy"), text("what", "shown 4")],
        [esnp.Flag(value=esnp.FlagType.EVENT), esnp.SeqNo(current=3), text("token")],
    ]
    return [registry.find("esnp").encode(esnp.Message(rows=tuple(rows))) for rows in messages]


def tny_messages() -> list[TnyMessage]:
    return [
        TnyMessage(id=1, protocol=2001, body=b"shown 1"),
        TnyMessage(id=2, protocol=10, body=TOKEN.encode()),
        TnyMessage(id=3, protocol=2001, body=b"shown 2"),
    ]


def frames(protocol: str) -> list[bytes]:
    encode = registry.find(protocol).encode
    if protocol == "esnp":
        return esnp_frames()
    if protocol == "tny":
        contents = [encode_message(each) for each in tny_messages()]
        return [
            encode(Packet(body=Envelope(access_id=1, number=number, content=content)))
            for number, content in enumerate(contents, 1)
        ]
    carried = [TunnelRelay(instance_id=1, tunnel_id=2, message=each) for each in tny_messages()]
    return [encode(RelayPacket(id=1, arguments=each)) for each in carried]


def batches(path: Path, **options: Any) -> list[pa.RecordBatch]:
    pipeline = CapturePipeline([path], tables=("messages",), **options)
    return [batch for _, batch in pipeline.batches() if isinstance(batch, pa.RecordBatch)]


def ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("protocol", ["esnp", "tny", "relay"])
def test_credentials_are_hidden_by_both_readers(tmp_path: Path, protocol: str) -> None:
    path = tmp_path / "a.pcap"
    call = Call(registry.find(protocol).port).open()
    for frame in frames(protocol):
        call.say("c2s", frame)
    write(path, call.close().packets)
    assert differences([str(path)]) == []
    assert differences([str(path)], reveal=True) == []
    hidden = b"".join(map(ipc, batches(path)))
    assert TOKEN.encode() not in hidden
    shown = {b"shown 1", b"shown 2"} | ({b"shown 3", b"shown 4"} if protocol == "esnp" else set())
    assert all(each in hidden for each in shown)
    assert b"shown not" not in hidden
    assert TOKEN.encode() in b"".join(map(ipc, batches(path, reveal=True)))


def test_size_and_names_of_what_is_hidden_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    call = Call(registry.find("esnp").port).open()
    for frame in esnp_frames()[:2]:
        call.say("c2s", frame)
    write(path, call.close().packets)
    (batch,) = batches(path)
    row = batch.to_pylist()[1]
    assert (row["target"], row["body"], row["body_bytes"]) == ("hub/auth", None, len(TOKEN))
    assert row["esnp"]["rows_by_kind"]["data"] == [{"name": "token", "value": None}]
    assert row["esnp"]["rows_by_kind"]["opaque"] == [{"type": 200, "data": None}]
