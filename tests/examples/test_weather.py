"""A user's protocol, end to end: the package in `examples/weather`, found by its entry point.

Nothing here is told about the package: every command gets its name alone. That no file of
Wirelake knows it is a test too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weather_buoy import PROTOCOL, Hello, Order, Report, Sky

from wirelake.cli.main import main
from wirelake.protocols import registry
from wirelake.wire import DecodeError, EncodeError, NeedMore
from wirelake.wire import model as m
from wirelake.wire.views.json import to_json
from wirelake.wire.views.strategy import messages

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "interop"))

from dissector_pcap import capture
from dissector_streams import compare
from dissector_tshark import assert_hidden, run
from kaitai_compare import compare_layout, parse

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "weather"
INTEROP = ROOT / "tests" / "interop"

DIRECTIONS: tuple[m.Direction, ...] = ("c2s", "s2c")
KEY = b"limpet"
HELLO = Hello(name="Old Tom", key=KEY)
REPORT = Report(sky=Sky.FOG, battery=11, air=-150, gusts=(820, 1200, 640), wave=2.5)
REPORT_HEX = "41484f59000f0297ab0203b406b009800540200000"
SAMPLES: list[tuple[m.Direction, Any]] = [
    ("c2s", HELLO),
    ("s2c", Hello(name="Cuxhaven", key=b"")),
    ("c2s", REPORT),
    ("c2s", Report(sky=0, battery=0, air=2**31 - 1, gusts=())),
    ("s2c", Order(lamp=True)),
    ("s2c", Order(lamp=False)),
]


def wirelake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints; it must succeed and say nothing on standard error."""
    code = main(arguments)
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def plain(message: Any) -> dict[str, Any]:
    """A message as JSON says it, secrets too."""
    return to_json(PROTOCOL.model(), message, reveal=True)


# -- the package -----------------------------------------------------------------------------


def test_declared_in_under_70_lines() -> None:
    sources = sorted(EXAMPLE.glob("src/**/*.py"))
    assert [path.name for path in sources] == ["__init__.py", "layout.py"]
    assert len(sources[1].read_text(encoding="utf-8").splitlines()) < 70


def test_declares_one_of_everything() -> None:
    layouts = {layout.name: layout for layout in PROTOCOL.layouts()}
    frame, hello, report = layouts["frame"], layouts["hello"], layouts["report"]
    assert [type(part) for part in frame.parts] == [m.Const, m.Length, m.Tag, m.Body]
    assert frame.body is not None
    assert {a.direction for a in frame.body.alternatives} == {None, "c2s", "s2c"}
    fields = {part.name: part for part in report.parts if isinstance(part, m.Field)}
    assert isinstance(report.parts[0], m.BitGroup)
    assert report.parts[0].bits[0].names is Sky
    assert isinstance(fields["air"].type, m.Varint)
    assert isinstance(fields["gusts"].type, m.Many)
    assert fields["wave"].when == "has_wave"
    assert [part.secret for part in hello.parts if isinstance(part, m.Field)] == [False, True]


def test_every_layout_and_field_has_a_doc() -> None:
    for layout in PROTOCOL.layouts():
        assert layout.doc, layout.name
        for part in layout.parts:
            for item in part.bits if isinstance(part, m.BitGroup) else (part,):
                assert getattr(item, "doc", ""), f"{layout.name}.{item}"


def test_installed_and_found_by_its_entry_point() -> None:
    (point,) = entry_points(group=registry.GROUP, name="weather")
    assert point.dist is not None
    assert point.dist.name == "weather-buoy"
    assert "weather" not in registry.BUILT_IN
    assert "weather" in registry.names()
    assert registry.find("weather") is PROTOCOL


def test_no_file_of_wirelake_knows_it() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert "weather_buoy" not in path.read_text(encoding="utf-8"), path.name


# -- the codec -------------------------------------------------------------------------------


@pytest.mark.parametrize(("direction", "message"), SAMPLES)
def test_samples_round_trip(direction: m.Direction, message: Any) -> None:
    data = PROTOCOL.encode(message)
    assert PROTOCOL.decode(data, direction=direction) == (message, len(data))
    for cut in range(len(data)):
        with pytest.raises(NeedMore):
            PROTOCOL.decode(data[:cut], direction=direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(data=st.data())
def test_every_message_round_trips(direction: m.Direction, data: st.DataObject) -> None:
    message = data.draw(messages(PROTOCOL, direction=direction))
    encoded = PROTOCOL.encode(message)
    decoded = PROTOCOL.decode(encoded, direction=direction)
    assert decoded.stop == len(encoded)
    assert PROTOCOL.encode(decoded.message) == encoded
    # A wave may be NaN, which equals nothing; its JSON form does.
    assert plain(decoded.message) == plain(message)


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(data=st.binary(max_size=60), framed=st.booleans())
def test_any_bytes_give_an_answer(direction: m.Direction, data: bytes, framed: bool) -> None:
    if framed:
        data = b"AHOY" + len(data).to_bytes(2, "big") + data
    try:
        decoded = PROTOCOL.decode(data, direction=direction)
    except (DecodeError, NeedMore):
        return
    assert PROTOCOL.decode(PROTOCOL.encode(decoded.message), direction=direction)


@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        (b"AHOI", "bad_magic", "frame.magic"),
        (b"AHOY\0\x01\x09", "unknown_type", "frame.type"),
        (b"AHOY\0\x03\x01\x02x", "length_overrun", "hello.name"),
        (b"AHOY\0\x05\x01\x01\xff\x00\x00", "invalid_utf8", "hello.name"),
        (b"AHOY\0\x05\x02\x97\x02\x00\x00", "short", "report.wave"),
    ],
)
def test_bad_bytes_are_refused(data: bytes, code: str, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        PROTOCOL.decode(data, direction="c2s")
    assert (caught.value.code, caught.value.field) == (code, field)


def test_values_that_do_not_fit_are_refused() -> None:
    for message in (
        Report(sky=8, battery=0, air=0, gusts=()),
        Report(sky=0, battery=0, air=2**31, gusts=()),
        Report(sky=0, battery=0, air=0, gusts=(0,) * 256),
        Hello(name="x" * 256, key=b""),
    ):
        with pytest.raises(EncodeError):
            PROTOCOL.encode(message)


# -- the commands ----------------------------------------------------------------------------


def test_protocols_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "weather: buoys and harbours" in wirelake(capsys, "protocols")


def test_protocols_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert "0x0002  c2s  report" in wirelake(capsys, "protocols", "show", "weather")
    shown = wirelake(capsys, "protocols", "show", "weather.report")
    for words in (
        "bits 7-5",
        "there when has_wave is set",
        "3 RAIN",
        "The sky, as its camera sees it.",
    ):
        assert words in shown


def test_decode_shows_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    shown = wirelake(capsys, "decode", "weather", "--direction", "c2s", "--hex", REPORT_HEX)
    assert "4 (FOG)" in shown
    assert "-150" in shown
    assert "b0 09" in shown


def test_decode_masks_the_secret(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("decode", "weather", "--direction", "c2s", "--hex", PROTOCOL.encode(HELLO).hex())
    for form in ((), ("--json",)):
        shown = wirelake(capsys, *ask, *form)
        assert "Old Tom" in shown
        assert "limpet" not in shown
        assert KEY.hex() not in shown.replace(" ", "")
    revealed = json.loads(wirelake(capsys, *ask, "--json", "--reveal"))
    assert revealed == {"type": "hello", "name": "Old Tom", "key": KEY.hex()}


@pytest.mark.parametrize(("direction", "message"), SAMPLES)
def test_decode_and_encode_are_inverse(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, direction: m.Direction, message: Any
) -> None:
    data = PROTOCOL.encode(message).hex()
    ask = ("decode", "weather", "--direction", direction, "--json", "--reveal", "--hex", data)
    file = tmp_path / "message.json"
    file.write_text(wirelake(capsys, *ask), encoding="utf-8")
    assert wirelake(capsys, "encode", "weather", "--hex", str(file)).strip() == data


def test_decode_of_bad_bytes_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "weather", "--direction", "c2s", "--hex", "41484f4920"]) == 1
    out, err = capsys.readouterr()
    assert "bad_magic" in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in out + err


def test_reference(capsys: pytest.CaptureFixture[str]) -> None:
    page = wirelake(capsys, "protocols", "reference", "weather")
    for layout in PROTOCOL.layouts():
        assert f"`{layout.name}`" in page
        assert layout.doc in page


def test_installed_command_runs() -> None:
    """In a process of its own, as a user has it."""
    command = [sys.executable, "-m", "wirelake.cli", "decode", "weather"]
    options = ["--direction", "c2s", "--json", "--hex", REPORT_HEX]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["gusts"] == [820, 1200, 640]


# -- its README ------------------------------------------------------------------------------

README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


def readme_commands() -> list[tuple[str, str]]:
    """Each command that the README shows, and what it says the command prints."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            found.append((command, printed))
    assert len(found) == 5
    return found


@pytest.mark.parametrize(("command", "printed"), readme_commands())
def test_readme_commands_print_the_shown_output(command: str, printed: str) -> None:
    script = f'wirelake() {{ "$PYTHON" -m wirelake.cli "$@"; }}; {command}'
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONUTF8": "1"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == printed


def test_readme_python_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})


# -- what others make of it ------------------------------------------------------------------


def test_dissector_shows_its_fields(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "weather.lua"
    wirelake(capsys, "dissector", "weather", "-o", str(script))
    assert PROTOCOL.port is not None
    payloads = [(str(way), PROTOCOL.encode(message)) for way, message in SAMPLES]
    file = capture(tmp_path, PROTOCOL.port, payloads)
    shown = run(script, "-r", str(file), "-V")
    for words in ("Old Tom", "FOG", "-150", "1200"):
        assert words in shown
    assert_hidden(script, file, "weather", KEY)


def test_dissector_agrees_with_the_decoder(tmp_path: Path) -> None:
    streams: list[list[tuple[m.Direction, bytes]]] = [
        [(way, PROTOCOL.encode(message))] for way, message in SAMPLES
    ]
    streams.append([(way, PROTOCOL.encode(message)) for way, message in SAMPLES])
    streams.append([("c2s", PROTOCOL.encode(REPORT)[:-5] + b"\0\0\0\0\0")])
    assert compare(tmp_path, PROTOCOL, PROTOCOL.dialects[0], streams) == []


def test_kaitai_files_read_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wirelake(capsys, "protocols", "ksy", "weather", "-o", str(tmp_path))
    files = sorted(tmp_path.glob("*.ksy"))
    assert [path.name for path in files] == ["weather_c2s.ksy", "weather_s2c.ksy"]
    node = shutil.which("node")
    assert node is not None, "node is missing: make system"
    command = [node, str(INTEROP / "compile_ksy.cjs"), str(tmp_path), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    parsers = {
        way: load(tmp_path / f"weather_{way}.py", f"Weather{way.capitalize()}")
        for way in DIRECTIONS
    }
    for way, message in SAMPLES:
        compare_layout(PROTOCOL.model(), message, parse(parsers[way], PROTOCOL.encode(message)))


def load(path: Path, name: str) -> Any:
    """A class of a file that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
