"""The protocol of a connection: by name, by port, by a recording, or from its first bytes."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.capture.decode.framing import Framing, head_size, magics
from wirelake.capture.decode.protocol_selector import (
    SNIFFED_BYTES,
    KnownProtocol,
    ProtocolChooser,
    Sniffer,
    default_ports,
)
from wirelake.capture.format.items import Direction
from wirelake.protocols import registry
from wirelake.protocols.comet import layout as comet

from .frames_made import PROTOCOLS, frames

WAYS: tuple[Direction, Direction] = ("c2s", "s2c")


# -- by name and by port ---------------------------------------------------------------------


def test_the_usual_ports() -> None:
    """Packages may bring further protocols."""
    usual = {9600: "esnp", 9610: "tny", 9611: "relay", 9757: "magline", 9620: "comet"}
    assert usual.items() <= default_ports().items()
    assert ProtocolChooser().ports == default_ports().keys()


def test_a_name_wins_over_a_port() -> None:
    chooser = ProtocolChooser(ports={80: "comet"}, force_protocol="tny")
    assert chooser.known(80) == KnownProtocol(registry.find("tny"))
    assert ProtocolChooser(ports={80: "comet"}).known(81) is None


@pytest.mark.parametrize(
    ("options", "port", "said", "chosen"),
    [
        ({}, 4000, "tny", "tny"),
        ({}, 9620, "tny", "tny"),
        ({}, 9620, None, "comet"),
        ({}, 4000, "", ""),
        ({}, 9620, "", ""),
        ({}, 4000, None, None),
        ({"ports": {4000: "esnp"}}, 4000, "tny", "esnp"),
        ({"ports": {4000: "esnp"}}, 4000, "", "esnp"),
        ({"ports": {9620: "esnp"}}, 9620, "tny", "esnp"),
        ({"ports": {9620: "comet"}}, 9620, "tny", "tny"),
        ({"ports": {}}, 9620, None, None),
        ({"force_protocol": "esnp"}, 9620, "tny", "esnp"),
        ({"force_protocol": "esnp"}, 4000, "", "esnp"),
    ],
)
def test_a_recording_overrides_the_default_port_and_options_override_it(
    options: dict[str, Any], port: int, said: str | None, chosen: str | None
) -> None:
    """An empty name stands for a protocol that is not installed."""

    def of(name: str | None) -> KnownProtocol | None:
        return None if name is None else KnownProtocol(registry.find(name) if name else None)

    assert ProtocolChooser(**options).known(port, of(said)) == of(chosen)


def test_dialects() -> None:
    chooser = ProtocolChooser(dialects={"tny": "upstream"})
    assert chooser.dialect(registry.find("tny")) == "upstream"
    assert chooser.dialect(registry.find("comet")) == "seed"
    assert chooser.framing(registry.find("tny"), "c2s").dialect == "upstream"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"force_protocol": "smtp"}, "unknown protocol 'smtp'"),
        ({"ports": {25: "smtp"}}, "unknown protocol 'smtp'"),
        ({"dialects": {"smtp": "seed"}}, "unknown protocol 'smtp'"),
        ({"dialects": {"tny": "klingon"}}, "expected one of seed, upstream"),
    ],
)
def test_bad_arguments_name_the_valid_ones(options: dict[str, object], message: str) -> None:
    with pytest.raises((LookupError, ValueError), match=message):
        ProtocolChooser(**options)  # type: ignore[arg-type]


# -- sniffing --------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("direction", WAYS)
def test_the_first_frame_selects_the_protocol(protocol: str, direction: Direction) -> None:
    sniffer = ProtocolChooser().sniffer(direction)
    for byte in frames(protocol, direction)[0]:
        sniffer.feed(bytes([byte]))
    sniffer.end()
    assert sniffer.chosen is registry.find(protocol)


def test_a_decision_is_made_as_soon_as_it_is_certain() -> None:
    sniffer = ProtocolChooser().sniffer("c2s")
    sniffer.feed(frames("tny", "c2s")[0])
    # `tn` is a length of comet and `t` a row of ESNP: both might go on like this for a while.
    assert not sniffer.decided
    sniffer.feed(bytes(30_000))
    assert not sniffer.decided
    sniffer.feed(bytes(SNIFFED_BYTES))
    assert sniffer.decided
    assert sniffer.chosen is registry.find("tny")


def test_nothing_fits() -> None:
    sniffer = ProtocolChooser().sniffer("c2s")
    sniffer.feed(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    sniffer.end()
    assert sniffer.decided
    assert sniffer.chosen is None


@pytest.mark.parametrize("body", [bytes(4_000), b"\0\0\1\x2c" * 1_000])
@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize("cut", [1, 7, 4_000])
def test_frames_that_say_nothing_are_no_protocol(
    direction: Direction, body: bytes, cut: int
) -> None:
    """Four zero bytes are an ESNP message, and so are most small numbers before them."""
    sniffer = ProtocolChooser().sniffer(direction)
    for at in range(0, len(body), cut):
        sniffer.feed(body[at : at + cut])
    sniffer.end()
    assert sniffer.chosen is None


@pytest.mark.parametrize(("silent", "found"), [(0, True), (1, True), (16, True), (17, False)])
def test_a_frame_behind_some_that_say_nothing_selects_the_protocol(
    silent: int, found: bool
) -> None:
    sniffer = ProtocolChooser().sniffer("c2s")
    for byte in bytes(4 * silent) + frames("esnp", "c2s")[0]:
        sniffer.feed(bytes([byte]))
    sniffer.end()
    assert sniffer.chosen is (registry.find("esnp") if found else None)


def test_a_heartbeat_selects_the_protocol() -> None:
    """Connections that are idle for hours send nothing else."""
    sniffer = ProtocolChooser().sniffer("c2s")
    sniffer.feed(registry.find("comet").encode(comet.Heartbeat()))
    sniffer.end()
    assert sniffer.chosen is registry.find("comet")


def test_two_that_fit_are_two_too_many() -> None:
    both = [Framing(registry.find("tny"), each, "c2s") for each in ("seed", "upstream")]
    sniffer = Sniffer([*both, Framing(registry.find("esnp"), None, "c2s")])
    sniffer.feed(frames("tny", "c2s")[0])
    assert sniffer.decided
    assert sniffer.chosen is None


# -- what a layout tells ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "found", "head"),
    [
        ("esnp", [], 4),
        ("comet", [], 2),
        ("tny", [b"tny."], 9),
        ("relay", [b"rpk"], 7),
        ("magline", [b"\x7e\x66", b"\x7f\x66"], 16),
    ],
)
def test_magic_and_head(protocol: str, found: list[bytes], head: int) -> None:
    model = registry.find(protocol).model()
    assert magics(model) == found
    assert head_size(model) == head
