"""A packet with a wild timestamp does not end other sources or their open rows."""

from __future__ import annotations

import random
from pathlib import Path

from tests.lake.cut_captures import Piece, arrive, cut
from tests.lake.cut_examples import captures_in
from tests.lake.lakes import unlike_engines
from tests.lake.local_engine import run_here
from tests.lake.spread_tunnels import wild
from tests.lake.tunnel_captures import write_tunnels

from wirelake.tables.log import Log
from wirelake.traffic import simulate

_YEAR_2100_NS = 4_102_444_800_000_000_000


def test_deliveries_with_an_implausible_timestamp(tmp_path: Path) -> None:
    simulate(tmp_path / "sim", size=200_000, seed=2, jobs=1)
    keys = [str(path) for path in sorted((tmp_path / "sim").glob("*.keys"))]
    pieces = cut(tmp_path / "sim", random.Random(5), most_files=3)
    early = [piece for piece in pieces if piece.sequence == 0]
    arrive(tmp_path / "in", [*early, _wild_source(tmp_path)])
    run_here(tmp_path / "lake", tmp_path / "in", keys=keys)
    arrive(tmp_path / "in", [piece for piece in pieces if piece not in early])
    run_here(tmp_path / "lake", tmp_path / "in", keys=keys)
    files = [*captures_in(tmp_path / "sim"), tmp_path / "in" / "wild-00000000.pcap"]
    tables = ("deliveries", "connections", "tunnels")
    assert unlike_engines(tmp_path / "lake", files, keys, tables) == []
    times = [file.max_ns or 0 for file in Log(tmp_path / "lake").snapshot().files("_fold")]
    assert max(times) < _YEAR_2100_NS


def _wild_source(folder: Path) -> Piece:
    """A source of tunnels whose last packet is of the year 2100."""
    write_tunnels(folder / "wild.pcap", random.Random(3), events=40)
    data = (folder / "wild.pcap").read_bytes() + wild(_YEAR_2100_NS)
    return Piece("wild", 0, "wild-00000000.pcap", data)
