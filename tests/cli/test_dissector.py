"""`wirelake dissector`: the script is what the view makes."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from wirelake.protocols import registry
from wirelake.wire.views.lua import dissector

from .conftest import Run


def test_one_protocol(run: Run) -> None:
    found = run("dissector", "comet")
    assert found == (0, dissector([registry.find("comet")]), "")


def test_all_protocols_into_a_file(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "all.lua"
    assert run("dissector", "-o", str(target)) == (0, "", "")
    protocols, _ = registry.load_all()
    assert target.read_text(encoding="utf-8") == dissector(protocols)


def test_a_dialect(run: Run) -> None:
    found = run("dissector", "tny", "--dialect", "tny=upstream")
    assert found.out == dissector([registry.find("tny")], dialect={"tny": "upstream"})


def test_a_broken_package_is_left_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("thermo", "no_such_module:P", registry.GROUP)]
    monkeypatch.setattr(registry, "_points", lambda: points)
    found = run("dissector")
    assert found.code == 0
    assert "skipping protocol 'thermo'" in found.err


@pytest.mark.parametrize(
    "args", [("nope",), ("tny", "--dialect", "upstream"), ("tny", "--dialect", "tny=x")]
)
def test_bad_usage(run: Run, args: tuple[str, ...]) -> None:
    found = run("dissector", *args)
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1
