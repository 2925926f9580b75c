"""Real traffic of a real hub, read while it happens, in a network namespace of its own."""

from __future__ import annotations

from pathlib import Path

from tests.live.network import in_network


def test_live_rows_are_those_of_the_captured_file(tmp_path: Path) -> None:
    """Through a pipe, from a growing file, and from an interface."""
    found = in_network("tests.live.world", str(tmp_path))
    for reader in ("piped", "followed", "listen"):
        result = found[reader]
        assert result["file"] > 0, (reader, found["errors"])
        assert (result["missing"], result["extra"]) == ([], []), reader
        assert result["live"] == result["file"]
        assert "lost before they were captured" not in found["errors"][reader]


def test_an_interface_that_goes_away(tmp_path: Path) -> None:
    found = in_network("tests.live.broken_interface", str(tmp_path))
    assert found["code"] == 1
    last = found["errors"].splitlines()[-1]
    assert last.startswith("wirelake: gone0: dumpcap ended: "), found["errors"]
