"""The page of filter fields: exactly what tshark registers, with its types."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.pages.wireshark import page

from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire.views.lua import SHARED_FIELDS, FilterField, dissector, filter_fields


def _registered(script: Path) -> dict[str, tuple[str, str]]:
    command = ["tshark", "-G", "fields", "-X", f"lua_script:{script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("F\t")]
    return {row[2]: (row[3], row[7]) for row in rows if row[2].startswith("wirelake.")}


@pytest.mark.parametrize("dialect", [0, 1])
def test_fields_and_types_are_those_of_tshark(dialect: int, tmp_path: Path) -> None:
    """Names, types and descriptions; Wireshark has none for expert items."""
    protocols = [find(name) for name in BUILT_IN]
    chosen = {each.name: each.dialects[min(dialect, len(each.dialects) - 1)] for each in protocols}
    script = tmp_path / "all.lua"
    script.write_text(dissector(protocols, dialect=chosen), encoding="utf-8")
    listed: list[FilterField] = list(SHARED_FIELDS)
    for protocol in protocols:
        listed += filter_fields(protocol, chosen[protocol.name])
    registered = _registered(script)
    assert {each.name: each.type for each in listed} == {
        name: kind for name, (kind, _) in registered.items()
    }
    for each in listed:
        if each.form != "none":
            assert registered[each.name][1] == each.doc


def test_the_page_lists_every_field_of_every_dialect() -> None:
    protocols = [find(name) for name in BUILT_IN]
    text = page(protocols)
    for protocol in protocols:
        for dialect in protocol.dialects:
            for each in filter_fields(protocol, dialect):
                assert f"\n| `{each.name}` | {each.type} | " in text
    assert "| `wirelake.latency` | FT_RELATIVE_TIME | " in text
    assert "| `wirelake.comet.auth.token` | FT_STRING | " in text
    assert "auth消息体" in text  # a section of the document
