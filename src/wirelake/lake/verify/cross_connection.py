"""What crosses connections, derived anew from captures: tunnels, calls in them, deliveries, and the
connection on which a client was before.

Any link of any source may carry a tunnel, and a client may come back on any connection. So all
captures are read here, in one go, and what folds tell about the sample is compared: a share of the
tunnels, and of the clients. The rules are those of `docs/concepts/matching.md`; the tables are made
by the fold of tunnels and by DuckDB, not by what has made the lake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import duckdb
import msgspec
import pyarrow as pa

from wirelake.columnar.fold import TunnelFold, tunnel_hash
from wirelake.records.cross_connection import CROSSING
from wirelake.tables.entries import AddedFile
from wirelake.tables.query import read_parquet

from ..engine.decoding import DecodeTask, decode
from ..engine.outputs import Outputs
from ..engine.settings import Settings
from ..engine.tunnels import EventFiles
from .queries import (
    CALL_TIME,
    DELIVERIES_ANEW,
    MERGED,
    PREVIOUS_WRONG,
    SAID_ONCE,
    TUNNEL_TIME,
    differences,
)

__all__ = ["CROSSED", "Crossing"]

CROSSED: Final = ("deliveries", "connections", "tunnels", "calls")
"""Tables of which all, or a part, needs the captures of all sources."""
_EVENTS: Final = "_tunnel_events"
_IN_TUNNEL: Final = "tunnel_link is not null"


class Crossing:
    """A share of the tunnels and of the clients of a lake, derived anew."""

    def __init__(
        self,
        db: duckdb.DuckDBPyConnection,
        settings: Settings,
        share: int,
        shares: int,
        expired_ns: int | None,
    ):
        self._db = db
        self._settings = settings
        self._share, self._shares = share, shares
        self._expired_ns = -(1 << 63) if expired_ns is None else expired_ns
        self._written: list[AddedFile] = []

    @property
    def tables(self) -> list[str]:
        """The tables that are looked at."""
        return [name for name in CROSSED if name in self._settings.tables]

    def read(self, source: str, files: Sequence[str], keys: tuple[str, ...], work: str) -> None:
        """Reads the captures of a source. Raises OSError for what cannot be read."""
        narrowed = msgspec.structs.replace(self._settings, tables=tuple(self.tables))
        task = DecodeTask(
            source=source,
            files=tuple(files),
            share=0,
            shares=1,
            states=(),
            work=work,
            settings=narrowed,
            keys=keys,
        )
        done = decode(task)
        if done.failure is not None:
            raise OSError(done.failure.text)
        self._written += done.written

    def problems(self, work: str) -> Iterator[str]:
        """Where the lake differs from what was read."""
        if "deliveries" in self.tables:
            yield from self._deliveries()
        if "connections" in self.tables:
            yield from self._previous_connections()
        if "tunnels" in self.tables or "calls" in self.tables:
            yield from self._tunnels(work)

    # -- clients -----------------------------------------------------------------------------

    def _deliveries(self) -> Iterator[str]:
        for table in ("_delivery_parts", "_delivery_faults", "_publications"):
            self._view(table)
        chosen = {"share": self._share, "shares": self._shares, "expired": self._expired_ns}
        self._db.execute(DELIVERIES_ANEW.format(**chosen))
        self._db.execute(MERGED.format(**chosen))
        yield from differences(self._db, "deliveries", "merged_here", "merged_anew")
        once = (SAID_ONCE.format(table=table) for table in ("sampled_here", "deliveries_anew"))
        here, anew = (f"({query})" for query in once)
        yield from differences(self._db, "deliveries, what became of them", here, anew)

    def _previous_connections(self) -> Iterator[str]:
        self._view("_sign_ons")
        query = PREVIOUS_WRONG.format(
            share=self._share, shares=self._shares, expired=self._expired_ns
        )
        wrong = self._db.sql(query).fetchall()[0][0]
        if wrong:
            yield f"connections: {wrong} rows have another previous_connection"

    def _view(self, table: str) -> None:
        """What was read of a table is there under its name."""
        paths = _paths(self._written, table)
        if paths:
            self._db.execute(
                f"create or replace temp view {table} as select * from {read_parquet(paths)}"
            )
        else:
            self._db.register(table, CROSSING[table].empty_table())

    # -- tunnels -----------------------------------------------------------------------------

    def _tunnels(self, work: str) -> Iterator[str]:
        derived = self._folded(work)
        self._sample_tunnels()
        for table, name, condition in (
            ("tunnels", "tunnels", f"{TUNNEL_TIME} >= {self._expired_ns}"),
            ("calls", "calls in tunnels", f"{_IN_TUNNEL} and {CALL_TIME} >= {self._expired_ns}"),
        ):
            if table in self._settings.tables:
                here = f"select * from {table} where {condition}"
                paths = _paths(derived, table)
                anew = f"select * from {read_parquet(paths)} where {condition}"
                sampled = f"{here} and connection in (select connection from sampled_tunnels)"
                given = anew if paths else f"{here} and false"
                yield from differences(self._db, name, f"({sampled})", f"({given})")

    def _folded(self, work: str) -> list[AddedFile]:
        """Tunnels, and the calls in them, of all events in the order of time."""
        paths = list(map(str, _paths(self._written, _EVENTS)))
        fold = TunnelFold(share=self._share, shares=self._shares)
        with Outputs(work, frozenset({"tunnels", "calls"})) as outputs:
            for events in EventFiles(paths, self._share, self._shares).all():
                fold.feed(events.to_batches())
                for table, batch in fold.take():
                    outputs.write(table, batch)
            for table, batch in fold.finish():
                outputs.write(table, batch)
            return outputs.close()

    def _sample_tunnels(self) -> None:
        """The tunnels of the lake that belong to the share."""
        known = [
            f"select connection from {table}{condition}"
            for table, condition in (("tunnels", ""), ("calls", f" where {_IN_TUNNEL}"))
            if table in self._settings.tables
        ]
        rows = self._db.sql(f"select distinct connection from ({' union '.join(known)})").fetchall()
        mine = [each for (each,) in rows if tunnel_hash(each) % self._shares == self._share]
        self._db.register("sampled_tunnels", pa.table({"connection": pa.array(mine, pa.int64())}))


def _paths(files: Sequence[AddedFile], table: str) -> list[Path]:
    """The files of a table."""
    return [Path(file.path) for file in files if file.table == table]
