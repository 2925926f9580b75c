"""`wirelake lake run`: updates a lake once, or continuously.

The last section has what other commands need of Spark as well: a check for Java, a session that is
started on demand, and errors of Spark as one line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import BAD_USAGE, CommandError, missing_package
from ..options import (
    CONTEXT,
    Reading,
    admission_options,
    duration,
    name_value_pairs,
    reading_options,
    size,
)
from ..output.text import counted, json_line, printable
from .maintenance import retention

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from wirelake.lake.engine.run import Committed, Outcome
    from wirelake.lake.engine.settings import Settings
    from wirelake.lake.spark.session import SparkSession


__all__ = [
    "STEP_TEXTS",
    "LazySession",
    "RunProgress",
    "check_spark",
    "command",
    "own_interrupts",
    "reason",
    "spark_failures",
]


_HELP = """Update a lake: read new captures and bring all tables up to date.

Captures are read once, in the order of their sequence numbers. A capture that is still being
written, or whose predecessor is missing, waits. Recordings that are not sealed (*.pcapng.open) are
left out and counted; with --include-open, those that no recorder on this machine is writing are
read as they are. Each step is one commit, which readers see
completely or not at all. After a kill, the next run continues from the last commit. The first run
creates the lake, and fixes how captures are decoded and which tables the lake has.

\b
Examples:
  wirelake lake run --from captures/ --to lake/
  wirelake lake run --from captures/ --to lake/ --stream --trigger 5
  wirelake lake run --from captures/ --to lake/ --keys tap.keys --tables calls,traffic_minutes
  wirelake lake run --from /data/tap --to /data/lake --master spark://head:7077
"""


@click.command(
    name="run", help=_HELP, short_help="Create or update a lake.", context_settings=CONTEXT
)
@click.option("--from", "captures", required=True, metavar="DIR", help="Folder of captures.")
@click.option(
    "--to", "lake", required=True, metavar="LAKE", help="Folder of the lake; created if needed."
)
@click.option(
    "--stream", is_flag=True, help="Keep running until Ctrl-C, and read captures as they arrive."
)
@click.option(
    "--trigger",
    "trigger_s",
    type=duration,
    default="10",
    show_default=True,
    metavar="SECONDS",
    help="Interval at which --stream looks for captures.",
)
@click.option(
    "--max-files", type=click.IntRange(min=1), metavar="N", help="Maximum captures per step."
)
@click.option("--max-bytes", type=size, metavar="SIZE", help="Maximum bytes per step, such as 1GB.")
@admission_options
@click.option(
    "--include-open",
    is_flag=True,
    help="Also read recordings that a killed recorder has left open.",
)
@reading_options
@click.option(
    "--tables",
    metavar="A,B,C",
    help="Comma-separated tables; their inputs are added.  [default: all]",
)
@click.option(
    "--source-pattern",
    metavar="REGEX",
    help="Regular expression for names of captures, with a group `source`; a group `sequence` is a"
    " number that orders them, else their first packets do.",
)
@click.option(
    "--fsync/--no-fsync",
    default=True,
    show_default=True,
    help="Flush data to disk before each commit; otherwise a power failure may damage commits.",
)
@click.option(
    "--compact-files",
    type=click.IntRange(min=0),
    default=64,
    show_default=True,
    metavar="N",
    help="Merge small files of a table when it has this many (0: never).",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="[TABLE=]AGE",
    help="Remove data older than AGE, such as 30d, of all tables or of one; repeatable."
    "  [default: keep all]",
)
@click.option("--master", metavar="URL", help="Spark master.  [default: local, two cores]")
@click.option("--remote", metavar="URL", help="Spark Connect server, such as sc://head:15002.")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="Spark setting; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    captures: str,
    lake: str,
    stream: bool,
    tables: str | None,
    source_pattern: str | None,
    keep: tuple[str, ...],
    master: str | None,
    remote: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    reading: Reading,
    **pace: Any,
) -> None:
    """Update a lake."""
    if master is not None and remote is not None:
        raise click.UsageError("--master conflicts with --remote")
    if stream and pace["include_open"]:
        raise click.UsageError("--include-open conflicts with --stream")
    settings_of_spark = name_value_pairs("--conf", conf)
    pace["retention"] = retention("--keep", keep)

    if remote is None:
        check_spark("lake run")
    settings = _settings(reading, tables, source_pattern)
    with (
        run_progress(stream=stream) as progress,
        LazySession(
            "wirelake lake run", master=master, remote=remote, conf=settings_of_spark
        ) as session,
        spark_failures(),
    ):
        outcome = _run(captures, lake, stream, settings, reading.keys, progress, session, **pace)
    _print_outcome(lake, outcome, progress.commit, as_json=as_json)


def _settings(reading: Reading, tables: str | None, source_pattern: str | None) -> Settings | None:
    """Return the settings of the options; None if all are default, so that a lake keeps its own."""
    from wirelake.lake.engine.settings import TABLES, Settings, tables_of

    names = None if tables is None else tuple(filter(None, map(str.strip, tables.split(","))))
    if names is not None and not names:
        raise click.UsageError("--tables: empty list of tables")
    given = Settings(
        ports=reading.ports,
        force_protocol=reading.force_protocol,
        dialects=reading.dialects or None,
        reveal=reading.reveal,
        tables=TABLES if names is None else tables_of(names),
        source_pattern=source_pattern,
    )
    return None if given == Settings() and names is None else given


def _run(
    captures: str,
    lake: str,
    stream: bool,
    settings: Settings | None,
    keys: tuple[str, ...],
    progress: RunProgress,
    session: LazySession,
    **more: Any,
) -> Outcome:
    from wirelake.lake.engine.run import run

    def start() -> SparkSession:
        started = session.start()
        progress.ready()
        return started

    return run(
        lake,
        captures,
        spark=start,
        settings=settings,
        keys=keys,
        stream=stream,
        committed=progress.committed,
        on_step=progress.step,
        **more,
    )


# -- progress --------------------------------------------------------------------------------

STEP_TEXTS: Final = {
    "decode": "decoding captures",
    "tunnels": "decoding tunnels",
    "join": "joining across connections",
}
"""Progress text by part of a step; all other parts belong to the commit."""
_MAX_FILES: Final = 10
"""Captures that are listed; the others are counted."""


class RunProgress:
    """Shows the progress of a run; silent when standard error is not a terminal."""

    def __init__(self, progress: Progress | None, task: TaskID | None, *, stream: bool):
        self._progress = progress
        self._task = task
        self._stream = stream
        self.commit: int | None = None
        """The last commit of the run."""
        self._files = 0
        self._bytes = 0

    def ready(self) -> None:
        """Show that Spark has started, or that a step is complete."""
        self._show("waiting for captures" if self._stream else "looking for captures")

    def step(self, name: str) -> None:
        """Show that a part of a step begins."""
        self._show(STEP_TEXTS.get(name, "committing"))

    def committed(self, result: Committed) -> None:
        """Show that a step was committed."""
        record = result.record
        self.commit = record.commit
        if record.kind != "advance":
            self._print(
                f"commit {record.commit}: {record.kind}, {counted(len(record.remove), 'file')}"
            )
            return
        taken = sum(each.fault is None for each in record.inputs)
        size = record.figures.get("bytes", 0)
        self._files += taken
        self._bytes += size
        seconds = record.figures.get("seconds", 0.0)
        self._print(
            f"commit {record.commit}: {counted(taken, 'capture')}, {size / 1e6:,.1f} MB"
            f" in {seconds:.1f} s; {len(result.waiting):,} waiting"
        )
        self.ready()

    def _print(self, line: str) -> None:
        if self._progress is not None and self._stream:
            self._progress.console.print(line, highlight=False)

    def _show(self, what: str) -> None:
        if self._progress is not None and self._task is not None:
            done = f"{counted(self._files, 'capture')}, {self._bytes / 1e6:,.1f} MB in"
            self._progress.update(self._task, description=f"{what} ({done})")


@contextmanager
def run_progress(*, stream: bool) -> Iterator[RunProgress]:
    """Show progress on standard error if it is a terminal."""
    if not sys.stderr.isatty():
        yield RunProgress(None, None, stream=stream)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting Spark", total=None)
        yield RunProgress(progress, task, stream=stream)


# -- result ----------------------------------------------------------------------------------


def _print_outcome(lake: str, outcome: Outcome, commit: int | None, *, as_json: bool) -> None:
    """Print the result of a run."""
    if as_json:
        click.echo(json_line(_as_json(outcome, commit)))
        return
    click.echo(f"{lake}: {_summary(outcome, commit)}")
    for title, files in (
        ("refused", [(each.path, each.fault or "") for each in outcome.refused]),
        ("waiting", [(each.path, why) for each, why in outcome.waiting]),
    ):
        _print_files(title, files)
    if outcome.open:
        size = sum(each.bytes for each in outcome.open)
        click.echo(
            f"  still open: {counted(len(outcome.open), 'recording')}, {size:,} bytes, not read;"
            " --include-open reads those that no recorder is writing"
        )
    if outcome.rows:
        width = max(map(len, outcome.rows))
        click.echo("  rows added:")
        for table, count in outcome.rows.items():
            click.echo(f"    {table:<{width}}  {count:>14,}")


def _as_json(outcome: Outcome, commit: int | None) -> dict[str, Any]:
    return {
        "commit": commit,
        "commits": outcome.commits,
        "files": outcome.files,
        "bytes": outcome.bytes,
        "seconds": round(outcome.seconds, 3),
        "refused": [{"path": each.path, "fault": each.fault} for each in outcome.refused],
        "waiting": [{"path": each.path, "why": why} for each, why in outcome.waiting],
        "open": [{"path": each.path, "bytes": each.bytes} for each in outcome.open],
        "rows": outcome.rows,
    }


def _summary(outcome: Outcome, commit: int | None) -> str:
    if commit is None:
        return "no new captures"
    speed = outcome.bytes / 1e6 / outcome.seconds if outcome.seconds else 0.0
    return (
        f"commit {commit}; {counted(outcome.files, 'capture')} read,"
        f" {outcome.bytes / 1e6:,.1f} MB in {outcome.seconds:,.1f} s ({speed:,.1f} MB/s)"
    )


def _print_files(title: str, files: list[tuple[str, str]]) -> None:
    if not files:
        return
    click.echo(f"  {title}: {counted(len(files), 'capture')}")
    for path, why in files[:_MAX_FILES]:
        click.echo(f"    {printable(path)}: {printable(why)}")
    if len(files) > _MAX_FILES:
        click.echo(f"    and {len(files) - _MAX_FILES:,} more")


# -- Spark -------------------------------------------------------------------------------------

_DEBUG: Final = "set WIRELAKE_DEBUG=1 for the traceback"
_LOST: Final = (
    "Spark has ended: its Java process was killed, perhaps for lack of memory, or the server was"
    " stopped; nothing of the last step was committed: run again"
)
_LOST_MARKS: Final = ("Answer from Java side is empty", "Error while sending or receiving")
"""Texts of py4j when its JVM ends."""
_NAMED: Final = re.compile(r"(?:: |Caused by: )?([\w.$]+(?:Error|Exception): .+)")
"""The line of a traceback with the exception; Java puts a prefix before it."""


def check_spark(what: str, hint: str = "") -> None:
    """Fail early if Spark or Java is missing. `hint` names an alternative without Spark."""
    try:
        from wirelake.lake.spark.java import JavaError, find_java
    except ImportError as error:
        text = missing_package("lake", error.name or "pyspark")
        more = f"; {hint}" if hint else ""
        raise CommandError(f"{what}: {text}{more}", BAD_USAGE) from error
    try:
        find_java()
    except JavaError as error:
        raise CommandError(str(error), BAD_USAGE) from error


class LazySession:
    """A Spark session that starts on demand and stops when the context ends."""

    def __init__(
        self, app: str, *, master: str | None, remote: str | None, conf: Mapping[str, str]
    ):
        self._app = app
        self._options: dict[str, Any] = {**conf, "master": master, "remote": remote}
        self._session: SparkSession | None = None

    def __enter__(self) -> LazySession:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            # If its JVM was killed, that has been reported, and there is nothing left to stop.
            with suppress(Exception):
                self._session.stop()

    def start(self) -> SparkSession:
        """Start the session."""
        from wirelake.lake import session

        try:
            with own_interrupts():
                self._session = session(self._app, **self._options)
        except ModuleNotFoundError:
            raise
        except Exception as error:
            raise CommandError(f"cannot start Spark: {reason(error)}; {_DEBUG}") from error
        return self._session


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keep our SIGINT handler: pyspark installs one that calls into the busy JVM and logs pages."""
    import logging
    import signal

    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    logging.getLogger().addHandler(logging.NullHandler())


@contextmanager
def spark_failures() -> Iterator[None]:
    """Turn failures of Spark into one line; other errors pass."""
    from wirelake.tables.paths import LakeError

    try:
        yield
    except Exception as error:
        if _is_lost(error):
            raise CommandError(_LOST) from error
        # A package that is not installed is reported with the extra that brings it.
        if isinstance(error, CommandError | LakeError | OSError | ModuleNotFoundError):
            raise
        raise CommandError(f"Spark failed: {reason(error)}; {_DEBUG}") from error


def _is_lost(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is the end of Spark's JVM."""
    while error is not None:
        names = {kind.__name__ for kind in type(error).__mro__}
        # py4j lists sockets that are gone; an OSError of our own names a file.
        text = _text(error)
        if (
            names & {"ConnectionError", "Py4JNetworkError"}
            or text is None
            or any(mark in text for mark in _LOST_MARKS)
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def _text(error: BaseException) -> str | None:
    """Return the text of an error; None when the JVM that has it is gone."""
    try:
        return str(error)  # a Py4JJavaError asks its JVM, and then fails with whatever comes back
    except Exception:
        return None


def reason(error: BaseException) -> str:
    """Return the line of an error that has the cause: the last exception of a traceback."""
    # An error of a worker arrives as a Java stack trace with the Python traceback inside of it; the
    # last line that names an exception is the cause, the first one only says that a job failed.
    lines = [line.strip() for line in (_text(error) or "").splitlines() if line.strip()]
    named = [found[1].rstrip(": ") for line in lines if (found := _NAMED.fullmatch(line))]
    return (named or lines or [type(error).__name__])[-1 if named else 0]
