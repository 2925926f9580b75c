"""Scenes by protocol: the built-in ones, and those of other packages."""

from __future__ import annotations

import hashlib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from tests.traffic.readers import differences, found_in, truth_of

from wirelake.cli.main import main
from wirelake.protocols import registry
from wirelake.traffic import SimulateError, simulate
from wirelake.traffic.scenes import provider


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with a protocol and its scenes."""
    _bring(monkeypatch, "SCENES")


def _bring(monkeypatch: pytest.MonkeyPatch, scenes: str) -> None:
    where = "tests.traffic.lamps"
    protocols = (EntryPoint("lamp", f"{where}:PROTOCOL", registry.GROUP),)
    found = (EntryPoint("lamp", f"{where}:{scenes}", provider.GROUP),)
    monkeypatch.setattr(registry, "_points", lambda: protocols)
    monkeypatch.setattr(provider, "_points", lambda: found)


def test_every_built_in_protocol_has_scenes() -> None:
    assert set(provider.built_in()) == set(registry.BUILT_IN)
    for name in provider.built_in():
        assert provider.scenes_of(name).declaration is registry.find(name)


def test_protocols_with_a_magic() -> None:
    found = {name for name in provider.built_in() if provider.scenes_of(name).has_magic}
    assert found == {"tny", "relay", "magline"}


@pytest.mark.usefixtures("bring")
@pytest.mark.parametrize("style", ["recorder", "tcpdump"])
@pytest.mark.parametrize("faults", [0.0, 0.01])
def test_scenes_of_another_package_are_read_as_expected(
    tmp_path: Path, style: str, faults: float
) -> None:
    summary = simulate(
        tmp_path / "run", size="90KB", seed=1, protocols=["lamp"], style=style, faults=faults
    )
    assert summary.calls["answered"] > 100
    assert bool(summary.faults) == bool(faults)
    found = found_in(tmp_path / "run")
    for table in ("calls", "connections", "coverage", "faults"):
        truth = truth_of(tmp_path / "run", table)
        assert differences(truth, found[table]) == ([], [])
        assert truth or (table == "faults" and not faults)
    clients = [row["client"] for row in truth_of(tmp_path / "run", "connections")]
    assert len(set(clients)) == len(clients) > 5


@pytest.mark.usefixtures("bring")
def test_scenes_of_another_package_are_played_on_request_alone(tmp_path: Path) -> None:
    def digest(folder: Path) -> str:
        files = sorted(folder.glob("*.pcap*"))
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()

    assert provider.names()[-1] == "lamp"
    simulate(tmp_path / "all", size="100KB", seed=1)
    simulate(tmp_path / "named", size="100KB", seed=1, protocols=provider.built_in())
    assert digest(tmp_path / "all") == digest(tmp_path / "named")
    asked = ["--protocols", "comet,lamp", "--size", "100KB", "--out", str(tmp_path / "both")]
    assert main(["simulate", *asked]) == 0
    rows = truth_of(tmp_path / "both", "connections")
    assert {row["protocol"] for row in rows} == {"comet", "lamp"}


@pytest.mark.parametrize(
    ("scenes", "words"),
    [
        ("NOTHING", "do not load: AttributeError"),
        ("BROKEN", "expected a ProtocolScenes"),
        ("CLASHING", "scenario 'phone' of protocol 'lamp' already exists"),
    ],
)
def test_broken_scenes_break_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenes: str, words: str
) -> None:
    _bring(monkeypatch, scenes)
    with pytest.raises(SimulateError, match=words):
        simulate(tmp_path / "one", size="50KB", protocols=["lamp"])
    assert simulate(tmp_path / "two", size="50KB", protocols=["comet"]).connections
