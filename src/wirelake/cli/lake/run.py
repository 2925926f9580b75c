"""`wirelake lake run`: takes a lake forward, once or on and on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..output.common import CONTEXT
from ..read.inputs import Reading, reading_options
from .formatting import (
    duration,
    pairs,
    size,
)

if TYPE_CHECKING:
    from wirelake.lake.engine.run import Outcome
    from wirelake.lake.engine.settings import Settings
    from wirelake.lake.spark.session import SparkSession

    from .progress import Watcher
    from .spark_session import Sparks

__all__ = ["command"]

_HELP = """Take a lake forward: read the captures that came, and bring all tables up to date.

Captures are read once, in the order of their numbers; one that is being written, or whose
predecessor is missing, waits. Every step is one commit: who reads the lake sees all of it or
nothing. A run that was killed leaves nothing that hurts, and the next one goes on where the last
commit ended. The first run makes the lake, and decides how captures are read and which tables
there are.

\b
Examples:
  wirelake lake run --from captures/ --to lake/
  wirelake lake run --from captures/ --to lake/ --stream --trigger 5
  wirelake lake run --from captures/ --to lake/ --keys tap.keys --tables calls,traffic_minutes
  wirelake lake run --from /data/tap --to /data/lake --master spark://head:7077 --fsync
"""


@click.command(
    name="run", help=_HELP, short_help="Make a lake, and take it forward.", context_settings=CONTEXT
)
@click.option("--from", "captures", required=True, metavar="DIR", help="The folder of captures.")
@click.option("--to", "lake", required=True, metavar="LAKE", help="The lake; made if need be.")
@click.option("--stream", is_flag=True, help="Go on as captures arrive, until Ctrl-C.")
@click.option(
    "--trigger",
    "trigger_s",
    type=duration,
    default="10",
    show_default=True,
    metavar="SECONDS",
    help="How often --stream looks for captures.",
)
@click.option(
    "--max-files", type=click.IntRange(min=1), metavar="N", help="Captures of one step at most."
)
@click.option(
    "--max-bytes", type=size, metavar="SIZE", help="Bytes of one step at most, such as 1GB."
)
@click.option(
    "--lateness",
    "lateness_s",
    type=duration,
    default="600",
    show_default=True,
    metavar="SECONDS",
    help="How long a capture waits for the one before it.",
)
@click.option(
    "--settle",
    "settle_s",
    type=duration,
    default="10",
    show_default=True,
    metavar="SECONDS",
    help="How long after the last write a capture counts as complete.",
)
@reading_options
@click.option("--tables", metavar="A,B,C", help="Only these, and what they are made of; else all.")
@click.option("--fsync", is_flag=True, help="Data is on disk before it counts.")
@click.option("--master", metavar="URL", help="Where Spark runs; by default here, on two cores.")
@click.option("--remote", metavar="URL", help="A server of Spark Connect, as sc://head:15002.")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(
    captures: str,
    lake: str,
    stream: bool,
    tables: str | None,
    master: str | None,
    remote: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    force_protocol: str | None,
    ports: tuple[str, ...],
    dialects: tuple[str, ...],
    keys: tuple[str, ...],
    reveal: bool,
    **pace: Any,
) -> None:
    """Runs."""
    if master is not None and remote is not None:
        raise click.UsageError("--master and --remote: which one?")
    given = pairs("--conf", conf)
    reading = Reading.of(force_protocol, ports, dialects, keys, reveal)
    from .progress import print_outcome, watching
    from .spark_session import (
        Sparks,
        check_spark,
        spark_failures,
    )

    if remote is None:
        check_spark("a run")
    settings = _settings(reading, tables)
    with (
        watching(stream=stream) as watcher,
        Sparks("wirelake lake run", master=master, remote=remote, conf=given) as sparks,
        spark_failures(),
    ):
        outcome = _run(captures, lake, stream, settings, reading.keys, watcher, sparks, **pace)
    print_outcome(lake, outcome, watcher.commit, as_json=as_json)


def _settings(reading: Reading, tables: str | None) -> Settings | None:
    """What was asked for; None when nothing was, so that a lake keeps what it has."""
    from wirelake.lake.engine.settings import (
        TABLES,
        Settings,
        tables_of,
    )

    names = None if tables is None else tuple(filter(None, map(str.strip, tables.split(","))))
    if names is not None and not names:
        raise click.UsageError("--tables: no table is named")
    asked = Settings(
        ports=reading.ports,
        force_protocol=reading.force_protocol,
        dialects=reading.dialects or None,
        reveal=reading.reveal,
        tables=TABLES if names is None else tables_of(names),
    )
    return None if asked == Settings() and names is None else asked


def _run(
    captures: str,
    lake: str,
    stream: bool,
    settings: Settings | None,
    keys: tuple[str, ...],
    watcher: Watcher,
    sparks: Sparks,
    **more: Any,
) -> Outcome:
    from wirelake.lake.engine.run import run

    def start() -> SparkSession:
        session = sparks.start()
        watcher.ready()
        return session

    return run(
        lake,
        captures,
        spark=start,
        settings=settings,
        keys=keys,
        stream=stream,
        committed=watcher.committed,
        on_step=watcher.step,
        **more,
    )
