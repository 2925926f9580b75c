"""Finding protocols: lazily, by name, and whatever other packages bring."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from wirelake.protocols import registry
from wirelake.protocols.registry import BUILT_IN, BrokenProtocolError, RegistryError
from wirelake.wire import Protocol
from wirelake.wire.types import Bits3, Layout


def bring(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Entry points as installed packages would have them."""
    points = [EntryPoint(name, value, registry.GROUP) for name, value in values.items()]
    monkeypatch.setattr(registry, "_points", lambda: points)


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_protocols_are_found(name: str) -> None:
    protocol = registry.find(name)
    assert isinstance(protocol, Protocol)
    assert protocol.name == name


def test_unknown_names_name_the_known() -> None:
    with pytest.raises(RegistryError, match=r"'nope'.*esnp, tny, relay, magline, comet") as caught:
        registry.find("nope")
    assert not isinstance(caught.value, BrokenProtocolError)


def test_another_packages_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    bring(monkeypatch, thermo="wirelake.cli.demo.report:PROTOCOL")
    assert registry.find("thermo").frame.__name__ == "Reading"
    assert registry.names() == [*BUILT_IN, "thermo"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_such_module:PROTOCOL", "does not load: ModuleNotFoundError"),
        ("wirelake.cli.demo.report:NOTHING", "does not load: AttributeError"),
        ("wirelake.cli.demo.report:Reading", "is not a wirelake.wire.Protocol"),
        ("wirelake.protocols.comet.protocol:PROTOCOL", "has the name 'comet'"),
    ],
)
def test_a_broken_package_is_one_line_and_others_load(
    monkeypatch: pytest.MonkeyPatch, value: str, words: str
) -> None:
    bring(monkeypatch, thermo=value)
    with pytest.raises(BrokenProtocolError, match=words) as caught:
        registry.find("thermo")
    assert "\n" not in str(caught.value)
    found, broken = registry.load_all()
    assert [protocol.name for protocol in found] == list(BUILT_IN)
    assert len(broken) == 1


def test_bindings_come_with_the_errors_of_broken_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    bring(monkeypatch, thermo="no_such_module:PROTOCOL")
    found, broken = registry.all_bindings()
    assert list(found) == list(BUILT_IN)
    assert [str(error).partition(" does not load")[0] for error in broken] == [
        "protocol 'thermo' of package no_such_module:PROTOCOL (no_such_module:PROTOCOL)"
    ]


def test_a_declaration_without_a_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(Layout):
        some: Bits3

    odd = Protocol(name="odd", title="odd", frame=Odd)
    monkeypatch.setattr("wirelake.cli.demo.report.PROTOCOL", odd)
    bring(monkeypatch, odd="wirelake.cli.demo.report:PROTOCOL")
    with pytest.raises(BrokenProtocolError, match=r"DeclarationError: .*3 bits"):
        registry.find("odd")


def test_built_in_names_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    bring(monkeypatch, comet="wirelake.cli.demo.report:PROTOCOL")
    assert registry.find("comet").frame.__name__ == "Frame"


def test_two_packages_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("thermo", value, registry.GROUP) for value in ("a:P", "b:P")]
    monkeypatch.setattr(registry, "_points", lambda: points)
    with pytest.raises(BrokenProtocolError, match="several packages: a:P, b:P"):
        registry.find("thermo")


def test_only_the_protocol_that_is_asked_for_is_imported() -> None:
    code = (
        "import sys; from wirelake.protocols.registry import find; find('comet');"
        "print([m for m in sys.modules if m.startswith('wirelake.protocols.')"
        " or m in ('importlib.metadata', 'cryptography')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "comet" in run.stdout
    for name in ("tny", "magline", "esnp", "metadata", "cryptography"):
        assert name not in run.stdout
