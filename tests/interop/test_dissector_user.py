"""The generated dissector of a protocol that a user declared."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from dissector_pcap import capture
from dissector_streams import compare, mutated, write_script
from dissector_thermo import THERMO, TICKS, Frame, Parcel, Tick, login, messages
from dissector_tshark import assert_hidden, fields, pdml, run

from wirelake.wire import model as m

Payloads = list[tuple[m.Direction, bytes]]


@pytest.fixture(autouse=True)
def _codecs_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generate codecs in a temporary folder instead of the user's cache."""
    monkeypatch.setenv("WIRELAKE_CACHE", str(tmp_path / "codecs"))


def test_a_protocol_of_a_user(tmp_path: Path) -> None:
    """Types that the built-in protocols do not use, whole and cut."""
    frames = [THERMO.encode(message) for message in messages()]
    streams: list[Payloads] = [[("c2s", frame)] for frame in frames]
    streams.append(
        [("c2s", b"".join(frames)[at : at + 7]) for at in range(0, sum(map(len, frames)), 7)]
    )
    assert compare(tmp_path, THERMO, "seed", streams) == []


def test_malformed_messages_of_a_user_protocol(tmp_path: Path) -> None:
    chance = random.Random("accidents of a user")
    frames = [THERMO.encode(message) for message in messages()]
    streams: list[Payloads] = [
        [("c2s", mutated(chance.choice(frames), chance))] for _ in range(600)
    ]
    assert compare(tmp_path, THERMO, "seed", streams) == []


def test_numbers_have_names(tmp_path: Path) -> None:
    """Meanings of numbers, below zero too, and descriptions with quotes."""
    script = write_script(tmp_path, [THERMO])
    frame = THERMO.encode(messages()[0])
    output = run(script, "-r", str(capture(tmp_path, 9700, [("c2s", frame)])), "-V")
    for line in ("sensor: CELLAR (-2)", "unit: PASCAL (3)", "kind: reading (1)"):
        assert line in output
    described = 'One reading, with "quotes", a \\ and ünïcode in its words.'
    assert fields(script)["wirelake.thermo.reading"] == described


@pytest.mark.parametrize("packed", [False, True])
def test_secrets_of_a_stage_are_not_shown(packed: bool, tmp_path: Path) -> None:
    """The bytes that hold a layout with secrets are not shown either, entered or not."""
    content = THERMO.codec().write_login(login())
    frames = [
        THERMO.encode(Frame(packed=packed, body=Parcel(size=9, content=content))),
        THERMO.encode(Frame(body=login())),
    ]
    file = capture(tmp_path, 9700, [("c2s", frame) for frame in frames])
    secrets = (b"hidden-word", b"hidden-home", b"\xd5" * 4, b"\x5e\xc2\xe7\x00")
    script = write_script(tmp_path, [THERMO])
    assert_hidden(script, file, "thermo", *secrets)
    assert str(0x5EC2E700) not in run(script, "-r", str(file), "-V")


def test_decode_as_without_a_port(tmp_path: Path) -> None:
    ticks = b"".join(TICKS.encode(Tick(number=n, mood=n / 2)) for n in range(3))
    file = capture(tmp_path, 7000, [("c2s", ticks[:8]), ("c2s", ticks[8:])])
    script = write_script(tmp_path, [TICKS])
    decode_as = ("-d", "tcp.port==7000,wirelake.ticks")
    assert "wirelake.ticks" not in run(script, "-r", str(file), "-T", "pdml")
    shown = pdml(script, file, "ticks", *decode_as)[50_000, "c2s"].messages
    assert [item.children[0].show for item in shown] == ["0", "1", "2"]
    assert [item.children[1].value for item in shown] == ["00000000", "3f000000", "3f800000"]
