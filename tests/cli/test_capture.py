"""`wirelake capture`: info, repair and redact, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirelake.capture.tools.info import info

from .conftest import Run
from .simulated import captures_of, rows, traffic

__all__ = ["traffic"]


@pytest.mark.parametrize("subcommand", ["info", "repair", "redact"])
def test_help_with_an_example(run: Run, subcommand: str) -> None:
    found = run("capture", subcommand, "--help")
    assert found.code == 0
    assert f"  wirelake capture {subcommand} " in found.out


# -- info ------------------------------------------------------------------------------------


def test_info_as_text(run: Run, traffic: Path) -> None:
    recording, tap = captures_of(traffic)[0], captures_of(traffic)[-1]
    found = run("capture", "info", recording, tap)
    assert (found.code, found.err) == (0, "")
    result = info(recording)
    assert found.lines[0] == recording
    assert f"  pcapng, {result.size_bytes:,} bytes, recorded by edge-a, sequence 0" in found.lines
    assert tap in found.lines
    for server in result.servers:
        assert any(
            line.split()[:4] == ["port", str(server.port), server.protocol, str(server.connections)]
            for line in found.lines
        )
    assert any("can decrypt" in line for line in found.lines)
    assert any("unreadable (1 bad_block)" in line for line in found.lines)


def test_info_as_json(run: Run, traffic: Path) -> None:
    found = run("capture", "info", str(traffic), "--json")
    result = [json.loads(line) for line in found.lines]
    assert result == [json.loads(info(path).to_json()) for path in captures_of(traffic)]


def test_info_of_no_capture(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "some.pcap"
    path.write_bytes(b"rubbish")
    found = run("capture", "info", str(path))
    assert found.code == 1
    assert found.lines[1] == "  not a capture: 7 bytes, neither pcap nor pcapng"
    assert run("capture", "info", str(path), "--json").code == 1


# -- repair ----------------------------------------------------------------------------------


@pytest.fixture
def cut(traffic: Path, tmp_path: Path) -> Path:
    """A recording that was cut off."""
    path = tmp_path / "edge-00000007.pcapng.open"
    path.write_bytes(Path(captures_of(traffic)[1]).read_bytes()[:-7])
    return path


def test_repair_of_an_open_recording(run: Run, cut: Path) -> None:
    found = run("capture", "repair", str(cut))
    assert (found.code, found.err) == (0, "")
    whole = cut.with_name("edge-00000007.pcapng")
    result = info(whole)
    assert result.faults == {}
    assert found.lines[0].startswith(f"{whole}: {result.packets:,} packets, ")
    assert found.lines[1].startswith("lost: ")
    assert "truncated_file" in found.lines[2]
    again = run("capture", "repair", str(cut))
    assert (again.code, again.err) == (2, f"wirelake: {whole} already exists\n")


def test_repair_as_json(run: Run, cut: Path, tmp_path: Path) -> None:
    out = tmp_path / "whole.pcapng"
    found = run("capture", "repair", str(cut), "-o", str(out), "--json")
    result = json.loads(found.out)
    assert result["path"] == str(out)
    assert result["faults"] == 1
    assert cut.read_bytes().endswith(bytes.fromhex(result["lost"][0]["bytes"]))
    assert result["kept_bytes"] + result["lost_bytes"] == cut.stat().st_size


def test_repair_of_a_whole_file(run: Run, traffic: Path, tmp_path: Path) -> None:
    out = tmp_path / "same.pcap"
    path = captures_of(traffic)[-1]
    found = run("capture", "repair", path, "-o", str(out))
    assert found.lines[1] == "nothing was lost"
    assert out.read_bytes() == Path(path).read_bytes()


def test_long_lists_of_positions_are_shortened(run: Run, traffic: Path, tmp_path: Path) -> None:
    data = Path(captures_of(traffic)[-1]).read_bytes()
    header, body = data[:24], data[24:]
    broken = tmp_path / "broken.pcap"
    record = 16 + int.from_bytes(body[8:12], "little")
    broken.write_bytes(header + (body[:record] * 2 + b"\xff" * 40) * 12 + body[:record] * 2)
    found = run("capture", "repair", str(broken))
    assert sum(line.startswith("  at byte ") for line in found.lines) == 10
    assert found.lines[-1] == "  … and 2 more"


# -- redact ----------------------------------------------------------------------------------


def masked(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("connection", *names)) for row in rows]


def test_redact(run: Run, traffic: Path, tmp_path: Path) -> None:
    path, copy = captures_of(traffic)[-1], tmp_path / "shown" / "copy.pcap"
    copy.parent.mkdir()
    found = run("capture", "redact", path, "-o", str(copy), "--bodies")
    assert (found.code, found.err) == (0, "")
    assert found.lines[0].startswith(f"{copy}: {info(path).packets:,} packets, ")
    names = ("ts_ns", "name", "target", "status", "size_bytes")
    columns = ["connection", "body", *names]
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "copy.pcap").write_bytes(Path(path).read_bytes())
    broken = {row["connection"] for row in rows(alone, table="faults")}
    before, after = (
        [row for row in rows(folder, columns=columns) if row["connection"] not in broken]
        for folder in (alone, copy.parent)
    )
    assert masked(after, *names) == masked(before, *names)
    assert any(row["body"] and any(row["body"]) for row in before)  # type: ignore[call-overload]
    assert not any(row["body"] and any(row["body"]) for row in after)  # type: ignore[call-overload]


def test_redact_with_pseudonyms(run: Run, traffic: Path, tmp_path: Path) -> None:
    path = captures_of(traffic)[-1]
    copies = {}
    for name, seed in (("a", "one"), ("b", "one"), ("c", "two"), ("d", None), ("e", None)):
        copy = tmp_path / f"{name}.pcap"
        more = () if seed is None else ("--seed", seed)
        assert run("capture", "redact", path, "-o", str(copy), "--addresses", *more).code == 0
        copies[name] = copy.read_bytes()
    assert copies["a"] == copies["b"]
    assert len({copies[name] for name in "acde"}) == 4


def test_redact_as_json(run: Run, traffic: Path, tmp_path: Path) -> None:
    path, copy = captures_of(traffic)[-1], tmp_path / "copy.pcap"
    result = json.loads(run("capture", "redact", path, "-o", str(copy), "--json").out)
    assert result["path"] == str(copy)
    assert result["packets"] == info(path).packets
    assert result["masked_frames"] > 0


def test_redact_shows_no_protocol_that_is_not_named(
    run: Run, traffic: Path, tmp_path: Path
) -> None:
    path = captures_of(traffic)[-1]
    args = ("capture", "redact", path, "--json", "-o")
    usual = json.loads(run(*args, str(tmp_path / "a.pcap")).out)
    other = json.loads(run(*args, str(tmp_path / "b.pcap"), "--as", "magline").out)
    assert other["frames"] < usual["frames"]


# -- what can go wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("info", "no/such.pcap"), "no/such.pcap: No such file or directory"),
        (("info",), "missing argument FILE"),
        (("repair", "no/such.pcap"), "no/such.pcap: No such file or directory"),
        (("redact", "some.pcap"), "missing option --output"),
        (("redact", "no/such.pcap", "-o", "copy.pcap"), "no/such.pcap: No such file or directory"),
        (("redact", "a", "-o", "b", "--seed", "x"), "--seed requires --addresses"),
        (("redact", "a", "-o", "b", "--as", "nope"), "unknown protocol 'nope'"),
        (("nope",), "unknown subcommand 'nope'; expected one of info"),
    ],
)
def test_bad_usage(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("capture", *args)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("subcommand", ["repair", "redact"])
def test_garbage(run: Run, tmp_path: Path, subcommand: str) -> None:
    path = tmp_path / "some.pcap"
    path.write_bytes(bytes(range(256)))
    code, out, err = run("capture", subcommand, str(path), "-o", str(tmp_path / "out.pcap"))
    assert (code, out) == (1, "")
    assert err.startswith(f"wirelake: {path}: ")
    assert err.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["some.pcap"]
