"""`wirelake demo --tour`: it shows every protocol, and what it shows is true."""

from __future__ import annotations

from wirelake.cli.demo.report import PROTOCOL, SAMPLES, Reading
from wirelake.protocols.registry import BUILT_IN

from .conftest import Run


def test_it_shows_every_protocol(run: Run) -> None:
    found = run("demo", "--tour")
    assert (found.code, found.err) == (0, "")
    for name in BUILT_IN:
        assert f"== {name}: " in found.out
    assert found.out.count("encoded again: ") == sum(not each.broken for each in SAMPLES)
    assert "DIFFERENT" not in found.out
    assert "code 'length_overrun', field 'subscribe.topics', byte 6" in found.out
    assert "What to try next:" in found.out


def test_samples_cover_the_built_in_protocols() -> None:
    assert {sample.protocol for sample in SAMPLES} == set(BUILT_IN)


def test_its_own_protocol_works() -> None:
    reading = Reading(station="roof", celsius=-45)
    assert PROTOCOL.decode(PROTOCOL.encode(reading)).message == reading


def test_no_secret_is_printed(run: Run) -> None:
    assert "550e8400" not in run("demo", "--tour").out


def test_as_a_command(shell: Run) -> None:
    assert shell("demo", "--tour").code == 0
