"""Results of the demo: the report about its lake, the comparison, and what to try next.

`tour` is the output of `--tour`: sample messages of every protocol, without a hub.
"""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple

import click

from wirelake.wire import Protocol
from wirelake.wire.errors import DecodeError
from wirelake.wire.types import I16, U8, Layout, Length16, Magic, String8

from ..errors import CommandError
from ..options import find_protocol

if TYPE_CHECKING:
    from wirelake.tables.report.report import Report
    from wirelake.wire.model import Direction

    from .run import RunningDemo

__all__ = [
    "PROTOCOL",
    "SAMPLES",
    "Findings",
    "Reading",
    "commands",
    "find",
    "kept_text",
    "next_text",
    "print_findings",
    "program",
    "tour",
    "write_page",
]


_SHEETS: Final = ("protocols", "targets", "topics", "connections", "errors", "faults", "coverage")
"""Parts of the report that are printed; the HTML page has all of them."""
_SQL: Final = (
    "select target, count(*) as calls, ms(median(latency_ns)) as median_ms from calls"
    " group by all order by median_ms desc"
)
_ROWS: Final = 12
"""Maximum rows of a table on the terminal."""


@dataclass(frozen=True)
class Findings:
    """The report and the result of the comparison."""

    report: Report
    figures: int
    """Rows and figures that were compared."""
    differences: tuple[str, ...]
    """One sentence for each difference."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        import msgspec

        return {
            "figures": self.figures,
            "differences": list(self.differences),
            "report": msgspec.to_builtins(self.report),
        }

    def check(self, *, kept: bool) -> None:
        """Raise CommandError with the first difference, if there is one."""
        if self.differences:
            more = len(self.differences) - 1
            hint = "" if kept else "; use --keep DIR to keep all files"
            raise CommandError(
                f"differs from the truth: {self.differences[0]}"
                f"{f' (and {more} more)' if more else ''}{hint}"
            )


def find(lake: Path, truth: Path) -> Findings:
    """Make the report about a lake, and compare it with the truth."""
    from wirelake.tables.log import Log
    from wirelake.tables.query import open_lake
    from wirelake.tables.report.report import make_report
    from wirelake.traffic.live import compare

    commit = Log(lake).snapshot().commit
    with open_lake(lake, commit) as db:
        report = make_report(db, lake="demo", commit=commit)
    compared = compare(lake, truth)
    return Findings(report, compared.figures, tuple(compared.differences))


def write_page(report: Report, path: Path) -> None:
    """Write the HTML page, completely or not at all."""
    from wirelake.tables.report.page import report_page

    text = report_page(report)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def print_findings(found: Findings) -> None:
    """Print the report and the result of the comparison."""
    from wirelake.tables.report.sheets import sheets, tiles

    from ..output.text import print_table

    figures = [text if what == "bytes" else f"{text} {what}" for what, text in tiles(found.report)]
    click.echo(", ".join(figures))
    for sheet in sheets(found.report):
        if sheet.name not in _SHEETS or not sheet.rows:
            continue
        click.echo()
        click.secho(sheet.title, bold=True)
        print_table(sheet.headings, sheet.numbers, sheet.rows[:_ROWS], sheet.minor)
        if len(sheet.rows) > _ROWS:
            click.echo(f"and {len(sheet.rows) - _ROWS} more")
    click.echo()
    if not found.differences:
        click.echo(f"All figures match the truth: {found.figures:,} of {found.figures:,}.")


# -- what to try next --------------------------------------------------------------------


def next_text(page: Path, *, kept: bool) -> str:
    """Return where the report is and, if nothing was kept, what to try next."""
    lines = [f"Report with plots: {page}"]
    if not kept:
        lines += [
            "",
            "What to try next:",
            f"  {program()} demo --keep      the same, but hub and lake keep running",
            f"  {program()} demo --tour      sample messages of every protocol",
            f"  {program()} --help           all commands",
        ]
    return "\n".join(lines)


def kept_text(kept: RunningDemo) -> str:
    """Return where everything is, and commands to paste."""
    listeners = [f"  {name:<8} {address}" for name, address in kept.addresses.items()]
    return "\n".join(
        [
            "",
            f"Hub and lake keep running in {kept.folder} until Ctrl-C.",
            *listeners,
            "",
            "What to try next, in another terminal:",
            *(f"  {each}" for each in commands(kept)),
            "",
            "The admin token is in hub/admin.token. Recordings contain tokens and keys: only you",
            "can read the folder.",
        ]
    )


def commands(kept: RunningDemo) -> list[str]:
    """Return commands that work while hub and lake keep running."""
    run = program()
    data = shlex.quote(str(kept.folder / "hub"))
    lake = shlex.quote(str(kept.folder / "lake"))
    recordings = shlex.quote(str(kept.folder / "recordings"))
    admin = kept.addresses["admin"]
    protocol, address = next(each for each in kept.addresses.items() if each[0] != "admin")
    return [
        f"{run} top http://{admin} --data {data}",
        f"{run} tail http://{admin} --data {data}",
        f"export WIRELAKE_TOKEN=$({run} client add visitor --data {data})",
        f"{run} call {protocol}://{address}/test/add a=1 b=2 --id visitor",
        f"{run} publish http://{admin} @news 'rain' --admin-token-file {data}/admin.token",
        f"{run} lake report {lake}",
        f"{run} lake sql {lake} '{_SQL}'",
        f"{run} read {recordings} --table calls --filter 'latency_ns > 50ms'",
    ]


def program() -> str:
    """Return how to run this program from a shell."""
    if shutil.which("wirelake") is not None:
        return "wirelake"
    beside = Path(sys.executable).with_name("wirelake")
    if beside.exists():
        return shlex.quote(str(beside))
    return f"{shlex.quote(sys.executable)} -m wirelake.cli"


# -- the tour ----------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A message to show."""

    protocol: str
    direction: Direction | None
    title: str
    data: bytes
    broken: bool
    """Whether it does not decode."""


def _load_samples() -> tuple[Sample, ...]:
    text = (resources.files(__package__ or "") / "samples.toml").read_text(encoding="utf-8")
    return tuple(
        Sample(
            each["protocol"],
            each.get("direction"),
            each["title"],
            bytes.fromhex(each["hex"]),
            each.get("broken", False),
        )
        for each in tomllib.loads(text)["sample"]
    )


SAMPLES = _load_samples()
"""Messages of every built-in protocol."""


# -- a custom protocol -----------------------------------------------------------------------


class Reading(Layout):
    """A report of a thermometer."""

    mark: ClassVar[Annotated[bytes, Magic(b"TH")]]
    """First bytes of a frame."""
    length: ClassVar[Length16]
    """Number of bytes that follow."""
    station: String8
    """Location of the thermometer."""
    celsius: I16
    """Tenths of a degree."""
    battery: U8 = 100
    """Charge, in percent."""


PROTOCOL = Protocol(name="thermo", title="thermo: a protocol in one class", frame=Reading)
"""The protocol of the demo."""

_NEXT_HELP = """\
What to try next:
  wirelake protocols show comet.message      every field of a layout, with its description
  wirelake decode --help                     decode your own bytes, as a tree or JSON lines
  wirelake dissector -o wirelake.lua         a Wireshark dissector for all protocols
  wirelake protocols reference tny           the reference page
  docs/guides/declare-a-protocol.md          declare your own protocol
"""


def tour() -> Iterator[str]:
    """Return the tour, line by line."""
    for part in (_samples, _malformed, _custom):
        yield from part()
    yield _NEXT_HELP.rstrip()


def _title(text: str) -> str:
    return click.style(f"== {text} ", bold=True) + "=" * max(4, 74 - len(text))


def _samples() -> Iterator[str]:
    for sample in (each for each in SAMPLES if not each.broken):
        protocol = find_protocol(sample.protocol)
        yield _title(f"{protocol.name}: {sample.title}")
        yield from _tree(protocol, sample.data, sample.direction)
        message, _ = protocol.decode(sample.data, direction=sample.direction)
        same = protocol.encode(message) == sample.data
        yield f"encoded again: {len(sample.data)} bytes, {'the same' if same else 'DIFFERENT'}"
        yield ""


def _tree(protocol: Protocol, data: bytes, direction: Direction | None) -> Iterator[str]:
    from wirelake.wire.views._trace_layouts import trace

    from ..output.tree import tree_lines

    layout = protocol.model()
    root = trace(layout, data, direction=direction)
    content = root.find("packet.body.content")
    if content is not None and isinstance(content.value, bytes):
        root = trace(layout, data, direction=direction, stages={"content": content.value})
    yield from tree_lines(root, data)


def _malformed() -> Iterator[str]:
    for sample in (each for each in SAMPLES if each.broken):
        protocol = find_protocol(sample.protocol)
        yield _title(f"malformed bytes: {sample.title}")
        yield from _tree(protocol, sample.data, sample.direction)
        try:
            protocol.decode(sample.data, direction=sample.direction)
        except DecodeError as error:
            place = f"field {error.field!r}, byte {error.offset}"
            yield f"decode error: code {error.code!r}, {place}"
        yield ""


def _custom() -> Iterator[str]:
    yield _title("a custom protocol, declared by one class")
    yield textwrap.indent(inspect.getsource(Reading).rstrip(), "    ")
    yield ""
    reading: Any = Reading(station="roof", celsius=-45)
    yield f">>> data = PROTOCOL.encode({reading!r})"
    data = PROTOCOL.encode(reading)
    yield f">>> data.hex()  # {data.hex()}"
    yield ">>> PROTOCOL.decode(data).message"
    yield repr(PROTOCOL.decode(data).message)
    yield from _tree(PROTOCOL, data, None)
    yield ""
