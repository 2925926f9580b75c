"""`wirelake encode`: what decode prints goes back to the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wirelake.cli.commands.encode import encode
from wirelake.cli.decode.messages import messages_in
from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire.model import Direction
from wirelake.wire.views.json import to_json
from wirelake.wire.views.strategy import messages

from .conftest import Run

HEARTBEAT = b'{"type": "heartbeat"}'


def test_hexadecimal_and_bytes(run: Run) -> None:
    assert run("encode", "comet", "--hex", stdin=HEARTBEAT) == (0, "000106\n", "")
    assert run("encode", "comet", "-", stdin=HEARTBEAT) == (0, "\x00\x01\x06", "")


def test_several_messages_in_any_layout(run: Run) -> None:
    text = b'\xef\xbb\xbf {"type":\n "heartbeat"}{"type": "get_topic_list"}\n\n' + HEARTBEAT
    assert run("encode", "comet", "--hex", stdin=text).lines == ["000106", "000102", "000106"]


def test_files(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.bin"
    source.write_bytes(HEARTBEAT)
    assert run("encode", "comet", str(source), "-o", str(target)) == (0, "", "")
    assert target.read_bytes() == bytes.fromhex("000106")


def test_a_dialect(run: Run) -> None:
    ping = b'{"type": "packet", "body": {"type": "ping"}}'
    assert run("encode", "tny", "--hex", stdin=ping).out == "746e792e0100000000\n"
    upstream = run("encode", "tny", "--hex", "--dialect", "upstream", stdin=ping)
    assert upstream.out == "746e792e01\n"


def test_a_message_inside_a_packet(run: Run) -> None:
    packet = {
        "type": "packet",
        "body": {
            "type": "envelope",
            "access_id": 1,
            "number": 1,
            "content": {
                "type": "message",
                "id": 1,
                "mode": "request",
                "protocol": 1001,
                "time": 1651234567890,
                "body": b"hello".hex(),
            },
        },
    }
    found = run("encode", "tny", "--hex", stdin=json.dumps(packet).encode())
    assert found.out == "746e792e001400000001010104e9076400d2edffa987300568656c6c6f\n"
    packet["body"]["content"]["id"] = 1 << 70  # type: ignore[index]
    refused = run("encode", "tny", "--hex", stdin=json.dumps(packet).encode())
    assert refused.code == 1
    assert "int_range in message.id" in refused.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "empty input: no JSON to encode"),
        (b"  \n", "empty input: no JSON to encode"),
        (b"{", "message 1: invalid JSON"),
        (HEARTBEAT + b"}", "message 2: invalid JSON"),
        (b"\xff", "invalid JSON: invalid start byte at byte 0"),
        (b"[]", "message 1: bad_value"),
        (b"[" * 100_000, "message 1: invalid JSON"),
        (b'{"type": "auth", "client_id": "", "token": {"masked": 3}}', "--reveal"),
        (b'{"type": "error", "error_code": 256}', "int_range in error.error_code"),
        (b'{"type": "error", "error_code": ' + b"9" * 5000 + b"}", "message 1: invalid JSON"),
        (b'{"type": "subscribe", "topics": ["\\ud800"]}', "message 1: "),
    ],
)
def test_bad_json_is_one_line_and_exit_1(run: Run, text: bytes, words: str) -> None:
    found = run("encode", "comet", "-", stdin=text)
    assert (found.code, found.out) == (1, "")
    assert words in found.err
    assert found.err.count("\n") == 1


def test_nothing_is_written_when_a_message_is_bad(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    found = run("encode", "comet", "-", "-o", str(target), stdin=HEARTBEAT + b"{}")
    assert found.code == 1
    assert not target.exists()


@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_decode_and_encode_undo_each_other(run: Run, name: str, data: st.DataObject) -> None:
    protocol = find(name)
    dialect = data.draw(st.sampled_from(protocol.dialects))
    way = data.draw(st.sampled_from(["c2s", "s2c"]))
    direction: Direction = "c2s" if way == "c2s" else "s2c"
    drawn = data.draw(st.lists(messages(protocol, dialect, direction), min_size=1, max_size=3))
    raw = b"".join(protocol.encode(message, dialect=dialect) for message in drawn)
    args = ("-", "--dialect", dialect)
    lines = run("decode", name, *args, "--direction", way, "--json", "--reveal", stdin=raw)
    assert len(lines.out.splitlines()) == len(drawn)
    again = run("encode", name, *args, "--hex", stdin=lines.out.encode())
    assert again.code == 0
    assert bytes.fromhex(again.out) == raw


def test_the_functions_behind(tmp_path: Path) -> None:
    protocol = find("comet")
    raw = bytes.fromhex("000106000109")
    good, bad = messages_in(protocol, raw, direction="c2s")
    assert (good.number, good.start, good.stop, good.problems()) == (1, 0, 3, [])
    assert bad.error is not None
    source, target = tmp_path / "in.json", tmp_path / "out.bin"
    source.write_text(json.dumps(to_json(protocol.model(), good.message)), encoding="utf-8")
    encode("comet", str(source), output=str(target))
    assert target.read_bytes() == raw[:3]
