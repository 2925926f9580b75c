"""The dissector apart from decoding: secrets, ports and limits."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from dissector_pcap import capture, cut
from dissector_streams import compare, expected, write_script
from dissector_tshark import assert_hidden, fields, run

from wirelake.protocols.comet.layout import Auth, ExchangeKey, Heartbeat, Ok, Subscribe
from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.esnp.layout import Data, Message, Var, VarType
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.magline.layout import Frame as MaglineFrame
from wirelake.protocols.magline.layout import Syn
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE
from wirelake.protocols.registry import BUILT_IN, find
from wirelake.protocols.tny.layout import LinkOpen, RelayPacket
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire import Protocol
from wirelake.wire import model as m

Payloads = list[tuple[m.Direction, bytes]]

TOKEN = "t-do-not-show-me"
KEY = b"neither-the-key!"


# -- loading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_protocol_loads_alone(name: str, tmp_path: Path) -> None:
    """Its fields are there, with names, descriptions and nothing of the others."""
    protocol = find(name)
    found = fields(write_script(tmp_path, [protocol]))
    assert {full.split(".")[1] for full in found} == {name}
    for layout in protocol.layouts():
        for part in layout.parts:
            if isinstance(part, m.Field) and not isinstance(part.type, m.Rows):
                assert found[f"wirelake.{name}.{layout.name}.{part.name}"] == part.doc


def test_all_protocols_load_together(tmp_path: Path) -> None:
    script = write_script(tmp_path, [find(name) for name in BUILT_IN])
    assert {full.split(".")[1] for full in fields(script)} == set(BUILT_IN)


# -- secrets ---------------------------------------------------------------------------------


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """Neither as text nor as bytes, in any form of output that is about our fields."""
    frames = [
        COMET.encode(Auth(client_id="c1", token=TOKEN)),
        COMET.encode(ExchangeKey(secret_key=KEY)),
    ]
    # A frame that breaks off inside the secret, and one with bytes behind it.
    broken = frames[0][:-4]
    broken = (len(broken) - 2).to_bytes(2, "big") + broken[2:]
    longer = (len(frames[0])).to_bytes(2, "big") + frames[0][2:] + b"zz"
    script = write_script(tmp_path, [COMET])
    payloads = [("c2s", frame) for frame in (*frames, broken, longer)]
    assert_hidden(script, capture(tmp_path, 9620, payloads), "comet", TOKEN.encode(), KEY)


def test_secrets_of_protobuf_are_not_shown(tmp_path: Path) -> None:
    packet = RelayPacket(arguments=LinkOpen(service="game", instance=7, key=TOKEN))
    script = write_script(tmp_path, [RELAY])
    file = capture(tmp_path, 9611, [("c2s", RELAY.encode(packet))])
    assert_hidden(script, file, "relay", TOKEN.encode())


# -- ports and directions --------------------------------------------------------------------


def test_port_gives_the_direction(tmp_path: Path) -> None:
    """Type 0 is `auth` towards the server and `ok` from it."""
    payloads = [("c2s", COMET.encode(Auth(client_id="c", token="t"))), ("s2c", COMET.encode(Ok()))]
    script = write_script(tmp_path, [COMET])
    output = run(
        script, "-r", str(capture(tmp_path, 9620, payloads)), "-T", "fields", "-e", "_ws.col.Info"
    )
    shown = [line for line in output.splitlines() if "[" not in line]
    assert shown == ["request auth", "response auth: ok"]


@pytest.mark.parametrize("client", [500, 50_000])
def test_another_port(client: int, tmp_path: Path) -> None:
    """By argument and by preference; the server may well have the higher port."""
    payloads = [("c2s", COMET.encode(Auth(client_id="c", token="t"))), ("s2c", COMET.encode(Ok()))]
    file = capture(tmp_path, 7000, payloads, client)
    ways: tuple[tuple[dict[str, int], tuple[str, ...]], ...] = (
        ({"comet": 7000}, ()),
        ({}, ("-o", "wirelake.comet.port:7000")),
    )
    for ports, options in ways:
        script = write_script(tmp_path, [COMET], ports=ports)
        output = run(
            script, "-r", str(file), "-T", "fields", "-e", "wirelake.comet.frame.type", *options
        )
        assert output.split() == ["0", "0"]
        verbose = run(script, "-r", str(file), "-V", *options)
        assert "comet: mobile push, auth" in verbose
        assert "comet: mobile push, ok" in verbose


def test_the_preference_moves_the_port(tmp_path: Path) -> None:
    file = capture(tmp_path, 9620, [("c2s", COMET.encode(Heartbeat()))])
    script = write_script(tmp_path, [COMET])
    assert "wirelake.comet" in run(script, "-r", str(file), "-T", "pdml")
    moved = run(script, "-r", str(file), "-T", "pdml", "-o", "wirelake.comet.port:7000")
    assert "wirelake.comet" not in moved


# -- what cannot be shown whole ----------------------------------------------------------------


def test_without_reassembly_the_start_is_shown(tmp_path: Path) -> None:
    data = COMET.encode(Subscribe(topics=("@news", "@sport")))
    file = capture(tmp_path, 9620, [("c2s", data[:12]), ("c2s", data[12:])])
    script = write_script(tmp_path, [COMET])
    output = run(script, "-r", str(file), "-V", "-o", "tcp.desegment_tcp_streams:FALSE")
    assert "incomplete: more bytes wanted: " in output
    assert f"length: {len(data) - 2}" in output


def test_a_packet_truncated_by_the_capture(tmp_path: Path) -> None:
    data = COMET.encode(Subscribe(topics=("@news", "@sport")))
    file = capture(tmp_path, 9620, [("c2s", data)])
    content = bytearray(file.read_bytes())
    at = content.index(data) - 54 - 8
    length = 54 + len(data) - 3
    content[at : at + 4] = struct.pack("<I", length)
    del content[at + 8 + length : at + 8 + length + 3]
    file.write_bytes(bytes(content))
    output = run(write_script(tmp_path, [COMET]), "-r", str(file), "-V")
    assert "incomplete: more bytes wanted: 3" in output


@pytest.mark.parametrize("before", [b"", b"ok \xe2\x82\xac "])
def test_text_that_is_not_utf8(before: bytes, tmp_path: Path) -> None:
    """The edges of UTF-8: the dissector refuses what Python does, at the same byte."""
    pieces = (
        "80 bf c0 c080 c1bf c280 dfbf df e080 e08080 e09fbf e0a080 e1 e180 e180ff eda080 ed9fbf"
        " edbfbf efbfbf f08080 f0808080 f08fbfbf f0908080 f09080 f48fbfbf f4908080 f5808080 ff"
    )
    streams: list[Payloads] = []
    for piece in pieces.split():
        for after in (b"", b"z"):
            text = before + bytes.fromhex(piece) + after
            streams.append([("c2s", b"\x1d" + len(text).to_bytes(3, "big") + text + bytes(4))])
    assert compare(tmp_path, ESNP, "seed", streams) == []


def test_values_nested_deeply(tmp_path: Path) -> None:
    """As deep as the layout allows is shown; one more is a problem, as for the decoder."""
    streams: list[Payloads] = []
    for depth in (1, 63, 64, 65):
        var = b"\x00"
        for _ in range(depth):
            var = b"\x17\x02" + var
        row = b"\x02d" + var
        message = b"\x15" + len(row).to_bytes(3, "big") + row + bytes(4)
        streams.append([("c2s", message)])
    assert compare(tmp_path, ESNP, "seed", streams) == []


def test_unknown_groups_nested_deeply(tmp_path: Path) -> None:
    """Deprecated protobuf groups are skipped to the same depth."""
    streams: list[Payloads] = []
    for depth in (1, 31, 32, 33, 34):
        arguments = b"\x0b" * depth + b"\x0c" * depth
        size = (13 + len(arguments)).to_bytes(4, "little")
        head = b"rpk" + size + bytes(4) + b"\x05" + bytes(8)
        streams.append([("c2s", head + arguments)])
    assert compare(tmp_path, RELAY, "seed", streams) == []


@pytest.mark.parametrize(("more", "codes"), [(0, []), (1, ["too_many"])])
def test_as_many_rows_and_values_as_allowed(more: int, codes: list[str], tmp_path: Path) -> None:
    """At the limit nothing is wrong; one more is."""
    rows = b"\x80\0\0\0" * (65_536 + more) + bytes(4)
    values = b"\0\x17" + bytes([0x80 | 2 * more, 0x80, 0x08]) + bytes(65_536 + more)
    message = b"\x15" + len(values).to_bytes(3, "big") + values + bytes(4)
    script = write_script(tmp_path, [ESNP])
    for data in (rows, message):
        file = capture(tmp_path, 9600, [("c2s", data), ("c2s", ESNP.encode(Message()))])
        name = "wirelake.esnp.malformed.code"
        assert run(script, "-r", str(file), "-T", "fields", "-e", name).split() == codes


def test_more_fields_than_a_tree_can_hold(tmp_path: Path) -> None:
    """Half a million values: the first ones are shown, the rest is read and counted."""
    many = Var(type=VarType.LIST, value=tuple(Var(type=VarType.NULL) for _ in range(60_000)))
    rows = tuple(Data(name=f"row {n}", value=many) for n in range(8))
    message = ESNP.encode(Message(rows=rows))
    file = capture(tmp_path, 9600, [("c2s", message), ("c2s", ESNP.encode(Message()))])
    output = run(write_script(tmp_path, [ESNP]), "-r", str(file), "-T", "pdml")
    assert "more fields than are shown" in output
    assert output.count('<proto name="wirelake.esnp"') == 2
    assert "malformed" not in output


def test_flags_keep_a_stage_closed(tmp_path: Path) -> None:
    """Every combination of the option bits of a packet; only without any is the message shown."""
    content = bytes.fromhex("0104e9076400d2edffa987300568656c6c6f")
    body = (2 + len(content)).to_bytes(4, "little") + b"\x01\x01" + content
    streams: list[Payloads] = [
        [("c2s", b"tny." + bytes([option << 2]) + body)] for option in range(8)
    ]
    assert compare(tmp_path, TNY, "seed", streams) == []
    script = write_script(tmp_path, [TNY])
    shown = run(
        script,
        "-r",
        str(tmp_path / "capture.pcap"),
        "-T",
        "fields",
        "-e",
        "wirelake.tny.message.id",
    )
    assert shown.split() == ["1"]


def test_known_and_unknown_options_by_ascending_bit(tmp_path: Path) -> None:
    """An unknown option stands where its bit says, also before a known one."""
    frame = MaglineFrame(
        seq=1,
        key_id=b"K" * 8,
        unknown_options=((0x04, b"xx"), (0x80, b"")),
        body=Syn(random=b"r" * 32, public_key=b"p" * 32),
    )
    assert compare(tmp_path, MAGLINE, "seed", [[("c2s", MAGLINE.encode(frame))]]) == []


def test_two_passes(tmp_path: Path) -> None:
    """Wireshark dissects a packet again whenever it is looked at: the result is the same."""
    data = COMET.encode(Subscribe(topics=("@news", "@sport"))) * 3
    stream: Payloads = [("c2s", piece) for piece in cut(data, 13)]
    assert compare(tmp_path, COMET, "seed", [stream], "-2") == []


# -- the comparison itself ---------------------------------------------------------------------


def test_the_comparison_notices_what_differs(tmp_path: Path) -> None:
    """The comparison fails for a dissector of another dialect."""
    hipush = bytes.fromhex("0023050100026d3100026a31000568656c6c6f0000014eff0f707b")
    stream = (len(hipush) - 2).to_bytes(2, "big") + hipush[2:]
    wanted = [node for node, _ in expected(COMET, "hipush", "s2c", stream)]
    assert wanted[0].problem is None
    streams: list[Payloads] = [[("s2c", stream)]]
    assert compare(tmp_path, COMET, "hipush", streams) == []
    changed = Protocol(
        name="comet", title="comet", frame=COMET.frame, dialects=("seed",), port=9620
    )
    changed.__dict__["_codecs"] = {"seed": COMET.codec("hipush")}
    assert compare(tmp_path, changed, "seed", streams)
