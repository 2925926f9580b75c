"""Captures for commands that query tables: opened as a lake, with progress and notices.

    captures = Captures(("edge.pcapng",), reading=reading)
    with captures.opened(("calls",)) as db:
        ...
    return captures.code

What was missing or could not be read is reported at the end, after the results: these are what the
rest of the captures says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import BAD_DATA, BAD_USAGE, CommandError
from .lake.run import STEP_TEXTS
from .options import Command, Reading, captures, jobs_option, joined, open_option, reading_options
from .output.sources import CUT_OFF, report_cut_off, report_no_messages, report_other_files
from .output.text import names_text, print_notice, spinner
from .read.kernels import prepare_kernels

if TYPE_CHECKING:
    import duckdb

    from wirelake.lake.capture_lake import CaptureLake
    from wirelake.lake.engine.settings import Settings

__all__ = ["Captures", "capture_options"]

_REFUSED: Final = {
    "late_file": "another file of its source has its place: read it alone",
    "vanished_file": "it changed or was removed while it was read",
    "unreadable_file": "no permission",
}
"""By fault of a capture that was refused: why."""


def capture_options(command: Command) -> Command:
    """Add FILE… and the options for reading captures; the argument is `captures`."""
    files = click.argument("files", nargs=-1, required=True, metavar="FILE…")
    keep = click.option(
        "--keep",
        is_flag=True,
        help="Keep the tables beside the capture, in CAPTURE.lake, for the next time.",
    )
    options = (files, open_option, jobs_option, keep)
    return reading_options(joined(command, options, "captures", Captures))


class Captures:
    """The captures of a command."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        reading: Reading,
        include_open: bool = False,
        jobs: int | None = None,
        keep: bool = False,
    ):
        if keep and len(files) > 1:
            raise click.UsageError("--keep needs one FILE, or the folder of several")
        for key in reading.keys:
            if os.path.exists(key) and not os.path.isfile(key):
                # Each source of captures is decoded on its own, maybe by another process.
                raise CommandError(f"{key}: keys are read several times: give a file", BAD_USAGE)
        self.named = files
        """Files and folders as they were given."""
        self.files = captures(files, include_open=include_open)
        self.reading = reading
        self._include_open = include_open
        self._jobs = jobs
        self._keep = keep
        self.code = 0
        """The exit code: 1 if captures could not be read."""

    @property
    def name(self) -> str:
        """The name of a report about them."""
        return names_text(self.named)

    @property
    def sql(self) -> list[str]:
        """The command that queries them, with the options of this one."""
        reading = self.reading
        options = {
            "--as": [reading.force_protocol] if reading.force_protocol else [],
            "--port": [f"{port}={(reading.ports or {})[port]}" for port in reading.given_ports],
            "--dialect": [f"{name}={dialect}" for name, dialect in reading.dialects.items()],
            "--keys": reading.keys,
        }
        found = ["wirelake", "sql", *self.named]
        found += [
            part for name, values in options.items() for each in values for part in (name, each)
        ]
        flags = {"--reveal": reading.reveal, "--include-open": self._include_open}
        return found + [name for name, chosen in (flags | {"--keep": self._keep}).items() if chosen]

    @contextmanager
    def opened(self, tables: Iterable[str]) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a database with tables of the captures. When it closes, what is missing in them is
        reported."""
        for file in self.files:
            os.stat(file)  # a mistyped name is an error, not a capture that has vanished
        from wirelake.tables.query import open_lake

        wanted = tuple(tables)
        with self._lake(wanted) as made:
            with open_lake(made.root, tables=wanted) as db:
                yield db
            self._report(made)

    @contextmanager
    def _lake(self, tables: Sequence[str]) -> Iterator[CaptureLake]:
        from wirelake.lake.engine.settings import Settings

        settings = Settings(
            ports=self.reading.ports,
            force_protocol=self.reading.force_protocol,
            dialects=self.reading.dialects or None,
            reveal=self.reading.reveal,
        )
        found = self._kept(settings)
        if found is not None:
            yield found
        else:
            with self._made(settings, tables) as made:
                yield made

    def _root(self) -> Path | None:
        """Return the folder of the lake beside the captures, if they can have one."""
        from wirelake.lake.capture_lake import SUFFIX

        if len(self.named) > 1:
            return None
        named = Path(self.named[0]).absolute()
        if named.name in ("", ".."):  # not the name of a folder
            named = named.resolve()
        return named.with_name(named.name + SUFFIX) if named.name else None

    def _kept(self, settings: Settings) -> CaptureLake | None:
        """Return the lake beside the captures; None if there is none that can be used."""
        from wirelake.lake.capture_lake import kept
        from wirelake.tables.paths import LakeError

        root = self._root()
        try:
            return None if root is None else kept(root, self.files, settings, self.reading.keys)
        except LakeError as error:
            if self._keep:
                raise
            print_notice(f"{error}; not used")
            return None

    @contextmanager
    def _made(self, settings: Settings, tables: Sequence[str]) -> Iterator[CaptureLake]:
        """Make a lake: beside the captures, or one that is removed."""
        prepare_kernels(self.files)
        from wirelake.columnar.read.options import SMALL_BYTES
        from wirelake.lake.capture_lake import keep, temporary
        from wirelake.lake.engine.tasks import LocalWorkers

        is_small = sum(map(os.path.getsize, self.files)) < SMALL_BYTES
        count = 1 if is_small else self._jobs or len(os.sched_getaffinity(0))
        root = self._root() if self._keep else None
        with ExitStack() as stack:
            with LocalWorkers(count) as workers, spinner(f"reading {self.name}:") as show:
                how: dict[str, Any] = {
                    "workers": workers,
                    "keys": self.reading.keys,
                    "on_step": lambda step: show(STEP_TEXTS.get(step, "finishing")),
                }
                made = (
                    stack.enter_context(temporary(self.files, settings, tables=tables, **how))
                    if root is None
                    else keep(root, self.files, settings, **how)
                )
            yield made

    # -- what is missing -----------------------------------------------------------------------

    def _report(self, made: CaptureLake) -> None:
        """Report what is not in the tables."""
        from wirelake.tables.parquet import batches, table

        from .read.run import FaultCounter

        faults = FaultCounter()
        cut_off: dict[str, None] = {}
        for batch in batches(made.root, "faults", columns=("code", "file")):
            faults(batch)
            rows = zip(*(batch.column(name).to_pylist() for name in ("code", "file")), strict=True)
            cut_off |= dict.fromkeys(str(file) for code, file in rows if code == CUT_OFF)
        given = {os.path.abspath(file): file for file in self.files}
        report_cut_off(given.get(file, file) for file in cut_off)
        faults.report(self.named, all_read=True)
        for each in made.refused:
            name = given.get(str(each.path), each.path)
            print_notice(f"{name}: not read: {_REFUSED.get(each.fault or '', each.fault)}")
        self.code = report_other_files(self.files) or (BAD_DATA if made.refused else 0)
        if self.code:
            return
        coverage = table(made.root, "coverage", columns=("messages",))
        if not any(coverage.column("messages").to_pylist()):
            report_no_messages(self.name, self.files)
