"""`wirehouse demo`: simulated traffic, read by Spark, compared with the truth."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING

import click

from .common import CONTEXT
from .errors import BAD_USAGE, CommandError
from .main import COMMANDS
from .spark_session import check_spark, own_interrupts, reason, spark_failures

if TYPE_CHECKING:
    from wirehouse.lake.session import SparkSession
    from wirehouse.traffic import Summary

    from .demo_figures import Findings
    from .demo_show import Steps

__all__ = ["command"]

_HELP = f"""{COMMANDS["demo"]}

Simulates phones, games, services and devices, and spoils some of their messages; reads the captures
with Spark through format("wirehouse"); prints calls, latencies, deliveries and faults; and compares
every figure with what the simulator knows to be true. Exits 1 if one differs. It takes a minute or
two, needs no network, and leaves nothing behind.

\b
Examples:
  wirehouse demo
  wirehouse demo --size 50MB --seed 7 --keep demo-captures
  wirehouse demo --tour
"""

_DEBUG_HINT = "WIREHOUSE_DEBUG=1 shows everything"

_NEXT = """\
What to try next:
  wirehouse demo --keep captures             the same, and the captures stay
  wirehouse demo --tour                      messages of every protocol, byte by byte
  docs/guides/spark.md                       the data source and its options
  docs/guides/declare-a-protocol.md          a protocol of your own, as a package"""


@click.command(name="demo", help=_HELP, context_settings=CONTEXT)
@click.option("--tour", is_flag=True, help="Only show messages of every protocol; takes a second.")
@click.option("--size", default="8MB", show_default=True, help="Bytes of all captures, about.")
@click.option("--seed", default=0, show_default=True, help="Another seed, other traffic.")
@click.option("--faults", default=0.001, show_default=True, help="The share of spoilt messages.")
@click.option("--keep", metavar="DIR", help="A new folder, where captures and truth stay.")
def command(tour: bool, size: str, seed: int, faults: float, keep: str | None) -> None:
    """Show all there is."""
    if tour:
        from .tour import tour as lines

        for line in lines():
            click.echo(line)
        return
    check_spark("the demo", "wirehouse demo --tour needs no Spark")
    with _folder(keep) as folder:
        found = _run(folder, size, seed, faults)
    _show(found)
    wrong = found.differences()
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        hint = "; --keep DIR keeps the captures to look at" if keep is None else ""
        raise CommandError(f"not the truth: {wrong[0]}{more}{hint}")
    click.echo(f"All figures equal the truth: {found.count:,} of {found.count:,}.\n\n{_NEXT}")


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is not None:
        yield Path(keep)
        return
    with tempfile.TemporaryDirectory(prefix="wirehouse-demo-") as name:
        yield Path(name) / "captures"


def _run(folder: Path, size: str, seed: int, faults: float) -> Findings:
    """Everything that takes time. Nothing is printed, for that would disturb the display."""
    from .demo_show import watched_steps

    with watched_steps() as steps, _kernels() as compiled:
        summary = _simulate(folder, size, seed, faults, steps)
        with _spark(steps) as spark:
            with steps.step("loading kernels, compiled the first time"):
                compiled.wait()
            with spark_failures():
                return _find(spark, folder, summary, steps)


@contextmanager
def _kernels() -> Iterator[Popen[bytes]]:
    """Kernels are compiled beside everything else, into a cache that Spark's workers share."""
    # In a session of its own, so that Ctrl-C does not make it complain.
    process = Popen(
        [sys.executable, "-m", "wirehouse.lake.warming"],
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def _simulate(folder: Path, size: str, seed: int, faults: float, steps: Steps) -> Summary:
    from wirehouse.traffic import SimulateError, simulate

    try:
        with steps.step(f"simulating {size} of traffic") as told:
            return simulate(folder, size=size, seed=seed, faults=faults, jobs=1, progress=told)
    except SimulateError as error:
        raise CommandError(str(error), BAD_USAGE) from error


@contextmanager
def _spark(steps: Steps) -> Iterator[SparkSession]:
    from wirehouse.lake import session

    try:
        with steps.step("starting Spark"), own_interrupts():
            spark = session("wirehouse demo")
    except Exception as error:
        raise CommandError(f"Spark does not start: {reason(error)}; {_DEBUG_HINT}") from error
    try:
        yield spark
    finally:
        spark.stop()


def _find(spark: SparkSession, folder: Path, summary: Summary, steps: Steps) -> Findings:
    """What Spark finds in the captures, and what it must find."""
    from . import demo_buoys
    from .demo_figures import SECTIONS, Findings, Truth, compute, make_views

    sections = list(SECTIONS)
    with steps.step("Spark: planning"):
        make_views(spark, folder)
        if demo_buoys.is_installed():
            demo_buoys.record_buoys(folder / "buoys")
            demo_buoys.make_view(spark, folder / "buoys")
            sections.append(demo_buoys.SECTION)
    truth = Truth(folder)
    found = Findings(summary)
    for section in sections:
        with steps.step(f"Spark: {section.title.lower()}"):
            found.sections.append((section, compute(spark, section), section.truth(truth)))
    return found


def _show(found: Findings) -> None:
    from .demo_show import print_section

    summary = found.summary
    click.echo(
        f"Simulated {summary.files} captures with {summary.connections:,} connections"
        f" and {summary.messages:,} messages.\n"
    )
    for section, figures, right in found.sections:
        if figures or right:
            print_section(section, figures)
